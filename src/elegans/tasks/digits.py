"""Strips of digits, whose label is the parity of their sum, and single digits."""

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from elegans import random
from elegans.component import Component
from elegans.tasks.arrays import Examples, Indices, SignedExamples
from elegans.tasks.base import Task
from elegans.tasks.images import BUNDLED, Images, is_available, load_images

HELD_OUT = "held out"


class OfImages(Component):
    """The part of a task whose inputs are images of digits; inherit from this before ``Task``.

    Args:
        images: ``digits`` for the 8 x 8 images that come with scikit-learn, ``mnist``, or the path of an ``.npz``
            file; see ``elegans.tasks.images.load_images``. Existing files are checked at once.
    """

    images: Annotated[str, Field(min_length=1)] = BUNDLED

    @model_validator(mode="after")
    def _images_fit(self) -> Self:
        if is_available(self.images):
            load_images(self.images)
        return self

    @property
    def data(self) -> Images:
        """The images."""
        return load_images(self.images)

    def held_out(self, hidden: Any) -> Any:
        """Return a value that makes ``examples`` use the held-out images."""
        return HELD_OUT

    def drawn(self, hidden: Any, key: random.Key, index: Indices, k: int) -> tuple[Any, Any]:
        """Return k random images of each example, float32 (count, k times the pixels), and their digits (count, k).

        Nothing is hidden: the images are constants of the programs that draw from them, without a copy per trial.
        """
        data = self.data
        pixels, digits = data.pixels, data.digits
        if hidden == HELD_OUT:
            pixels, digits = data.held_out_pixels, data.held_out_digits
        position = np.arange(k, dtype=np.uint32)
        chosen = random.integers(key, index[:, None], lane=position[None, :], bound=np.uint32(len(digits)))
        xp = chosen.__array_namespace__()
        strips = xp.asarray(pixels)[chosen].reshape(len(index), -1).astype(np.float32)
        return strips * np.float32(1 / data.largest), xp.asarray(digits)[chosen]


class DigitParity(OfImages, Task):
    """k images of digits, each drawn uniformly with replacement; the label is +1 if their sum is even, else -1.

    An input is the k images one after the other, with pixels from 0 to 1. Held-out strips are made of images that
    no training strip has. The image at position j of example i is drawn with the counter (i, j).

    Source: Daniely and Malach, "Learning Parities with Neural Networks" (2020), section 6 (strips of MNIST digits).

    Args:
        k: the number of digits in a strip, from 1 to 64.
        images: as in ``OfImages``.
    """

    shorthand = "k"
    k: Annotated[int, Field(ge=1, le=64)]

    @property
    def input_size(self) -> int:
        return self.k * int(self.data.pixels.shape[1])

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return strips (count, k times the pixels of an image) and the parities of their sums (count,)."""
        strips, digits = self.drawn(hidden, key, index, self.k)
        sums = digits.astype(np.uint32).sum(axis=1)
        return strips, 1 - 2 * (sums & 1).astype(np.float32)


class Digits(OfImages, Task):
    """Images of digits, drawn uniformly with replacement, in ten classes.

    Pixels are from 0 to 1. Held-out examples are of images that no training example has.

    Args:
        images: as in ``OfImages``.
    """

    @property
    def input_size(self) -> int:
        return int(self.data.pixels.shape[1])

    @property
    def classes(self) -> int:
        return 10

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> Examples:
        """Return images (count, pixels) and their digits, int32 (count,)."""
        pixels, digits = self.drawn(hidden, key, index, 1)
        return pixels, digits[:, 0].astype(np.int32)

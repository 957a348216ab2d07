"""Images of digits: scikit-learn's own, MNIST, or a file's."""

import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Shaped, UInt8

from elegans.errors import TrialError
from elegans.files import readable

BUNDLED, MNIST = "digits", "mnist"
"""Names of images that are not from a file."""
MNIST_FILE = "ELEGANS_MNIST"
"""The environment variable that names the file with MNIST; without it MNIST comes from OpenML."""
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
"""The arrays that a file has."""
HELD_OUT = 360
"""Number of bundled images that are held out: the last fifth, mostly by other writers than the first."""
MNIST_TRAINING = 60_000
"""The first images of MNIST are for training, the last 10000 for testing."""


@dataclass(frozen=True)
class Images:
    """Images of digits, one per row, with their digits.

    Args:
        pixels: the images for training, shape (count, pixels).
        digits: their digits, from 0 to 9, shape (count,).
        held_out_pixels: the images for testing.
        held_out_digits: their digits, from 0 to 9.
        shape: the height and width of each image, in pixels.
        largest: the largest value of a pixel.
    """

    pixels: UInt8[np.ndarray, "count pixels"]
    digits: UInt8[np.ndarray, " count"]
    held_out_pixels: UInt8[np.ndarray, "held_out pixels"]
    held_out_digits: UInt8[np.ndarray, " held_out"]
    shape: tuple[int, int]
    largest: int


def is_available(name: str) -> bool:
    """Return whether images can be loaded without a download: bundled ones, and existing files."""
    return name == BUNDLED or (_file(name) or Path()).is_file()


def load_images(name: str) -> Images:
    """Return the images of a given name; they stay in memory.

    Args:
        name: ``digits`` for the 1797 images of 8 x 8 pixels that come with scikit-learn; ``mnist`` for the 70000 of
            28 x 28, from the file that the environment variable ``ELEGANS_MNIST`` names or else from OpenML (55 MB,
            once, kept in scikit-learn's data folder); otherwise the path of an ``.npz`` file with arrays ``x_train``
            (count, height, width) of uint8, ``y_train`` (count,) of digits, ``x_test`` and ``y_test``.

    Raises:
        TrialError: the file does not exist or lacks an array, or its arrays are not images of digits of one shape.
    """
    if name == BUNDLED:
        return _bundled()
    file = _file(name)
    return _openml() if file is None else _from_file(str(file))


def _file(name: str) -> Path | None:
    if name == MNIST:
        return Path(os.environ[MNIST_FILE]) if os.environ.get(MNIST_FILE) else None
    return None if name == BUNDLED else readable(name, "a file of images", TrialError)


@lru_cache(maxsize=1)
def _bundled() -> Images:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    x, y = bundle.images.astype(np.uint8), bundle.target
    return _images("digits", x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:])


@lru_cache(maxsize=1)
def _openml() -> Images:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings(action="ignore"):  # each attempt warns: the last one's error is enough
            mnist = fetch_openml("mnist_784", version=1, as_frame=False)
    except OSError as error:
        raise TrialError(f"mnist must be in a file named by {MNIST_FILE}, or come from OpenML: {error}") from None
    x, y = mnist.data.astype(np.uint8).reshape(-1, 28, 28), mnist.target.astype(np.uint8)
    return _images("mnist", x[:MNIST_TRAINING], y[:MNIST_TRAINING], x[MNIST_TRAINING:], y[MNIST_TRAINING:])


@lru_cache(maxsize=4)
def _from_file(path: str) -> Images:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            parts = [arrays[name] for name in ARRAYS]
    except KeyError:
        raise TrialError(f"a file of images must have the arrays {', '.join(ARRAYS)}: {path}") from None
    except (OSError, ValueError, TypeError, BadZipFile) as error:
        raise TrialError(f"digits must be uint8 images of one shape in a .npz file: {path}: {error}") from None
    return _images(path, *parts)


def _images(name: str, x: np.ndarray, y: np.ndarray, held_out_x: np.ndarray, held_out_y: np.ndarray) -> Images:
    shape = x.shape[1:]
    for images, digits in ((x, y), (held_out_x, held_out_y)):
        if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != shape or not images.size:
            arrays = f"{name} has {images.dtype} of shapes {images.shape} and {(len(images), *shape)}"
            raise TrialError(f"digits must be uint8 images of one shape: {arrays}")
        if digits.shape != images.shape[:1]:
            raise TrialError(f"every image must have one digit: {name} has {len(images)} images, digits {digits.shape}")
        if not np.isin(digits, np.arange(10)).all():
            raise TrialError(f"digits must lie in 0..9: {name} has {sorted(set(digits.tolist()) - set(range(10)))}")
    height, width = shape
    parts = (x.reshape(len(x), -1), y.astype(np.uint8), held_out_x.reshape(len(held_out_x), -1))
    return Images(*parts, held_out_y.astype(np.uint8), (height, width), int(x.max()))


def strip(pixels: Shaped[np.ndarray, " inputs"], shape: tuple[int, int]) -> Shaped[np.ndarray, "height width"]:
    """Return one input, the consecutive images of its digits, as the image of a horizontal strip."""
    return np.concatenate(list(np.reshape(pixels, (-1, *shape))), axis=1)

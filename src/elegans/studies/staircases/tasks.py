"""Functions of one direction of normal inputs."""

import json
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32
from pydantic import Field, field_validator

from elegans import random
from elegans.studies.staircases.theory.links import link_named
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import Task


class SingleIndex(Task, kind="single-index"):
    """A function of one direction, y = g(w* . x), with standard normal inputs x and a uniform direction w*.

    Labels are real numbers, so it is for learners that take them, such as ``OverlapChain``.

    Source: Ben Arous, Gheissari and Jagannath (2021), section 1.

    Args:
        n: the number of inputs, at least 4.
        link: g, by its name: ``h1`` to ``h8`` (Hermite polynomials with E h^2 = 1), ``relu``, ``tanh``, ``abs``,
            ``square``, ``cosine``, ``bump`` (z^2 exp(-z^2)) or ``step3``.
    """

    n: Annotated[int, Field(ge=4, le=2**24)]
    link: str

    @field_validator("link")
    @classmethod
    def _is_known(cls, link: str) -> str:
        link_named(link)
        return link

    @property
    def input_size(self) -> int:
        return self.n

    def draw(self, key: random.Key) -> Float32[np.ndarray, " n"]:
        """Return the direction w*, of length 1."""
        direction = np.asarray(random.normal(key, np.arange(self.n, dtype=np.uint32)))
        return np.asarray(direction / np.linalg.norm(direction), np.float32)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        x = random.normal(key, index[:, None], lane=np.arange(self.n, dtype=np.uint32)[None, :])
        along = np.asarray(x @ hidden, float)
        return x, link_named(self.link).value(along).astype(np.float32)


def text_of_sets(sets: Any) -> str:
    """Return the sets of a ``MonomialSum`` as text, from a table's column in which they are lists or text already."""
    return json.dumps([list(members) for members in sets]) if isinstance(sets, list | tuple) else str(sets)

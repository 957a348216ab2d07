"""Functions of one or several directions of normal inputs."""

import json
from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Float32
from pydantic import Field, field_validator, model_validator

from elegans import random
from elegans.studies.staircases.theory.links import link_named
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import Task

Power = Annotated[int, Field(ge=0, le=12)]
"""The degree of a Hermite polynomial."""


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


class MultiIndex(Task, kind="multi-index"):
    """A polynomial of r directions, y = sum_t c_t prod_i h_k(u_i . x), k = k_ti, with standard normal inputs x.

    The directions u_i are orthonormal and otherwise uniform. h_k is the Hermite polynomial of degree k with
    E h_k^2 = 1: products are uncorrelated, and E y^2 = sum c_t^2. Labels are real numbers: networks learn them with
    the square loss in the jax engine, and a trial is solved once the held-out loss is at most ``StoppingRule.loss``.
    ``multi_index_leap`` computes the leap in this basis.

    Source: Abbe, Boix-Adsera and Misiakiewicz (2023), section 5.

    Args:
        n: the number of inputs, at least the number of directions.
        degrees: k, one list per term with one degree per direction; terms differ.
        coefficients: c, one per term; 1 each by default.
    """

    n: Annotated[int, Field(ge=1, le=2**16)]
    degrees: Annotated[tuple[Annotated[tuple[Power, ...], Field(min_length=1)], ...], Field(min_length=1)]
    coefficients: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        several = sorted({len(term) for term in self.degrees})
        if len(several) > 1:
            raise ValueError(
                f"every term must have one degree per direction: {' and '.join(map(str, several))} degrees"
            )
        if self.n < several[0]:
            raise ValueError(f"n must be at least the number of directions: n={self.n}, directions={several[0]}")
        if len(set(self.degrees)) < len(self.degrees):
            raise ValueError(f"terms must differ: degrees={[list(term) for term in self.degrees]}")
        if self.coefficients is not None and len(self.coefficients) != len(self.degrees):
            raise ValueError(
                f"there must be one coefficient per term: {len(self.coefficients)} for {len(self.degrees)} terms"
            )
        return self

    @property
    def input_size(self) -> int:
        return self.n

    @property
    def targets(self) -> int | None:
        return 1

    @property
    def real_labels(self) -> bool:
        return True

    def draw(self, key: random.Key) -> Float32[np.ndarray, "n r"]:
        """Return the directions as columns."""
        numbers, count = np.arange(self.n, dtype=np.uint32), len(self.degrees[0])
        lanes = np.arange(count, dtype=np.uint32)
        drawn = np.asarray(random.normal(key, numbers[:, None], lane=lanes[None, :]), float)
        directions: list[np.ndarray] = []
        for each in drawn.T:
            for other in directions:
                each = each - (each * other).sum() * other
            directions.append(each / (each * each).sum() ** 0.5)
        return np.stack(directions, axis=1).astype(np.float32)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        x = random.normal(key, index[:, None], lane=np.arange(self.n, dtype=np.uint32)[None, :])
        along = x @ hidden
        weights = self.coefficients or [1.0] * len(self.degrees)
        y = 0 * along[:, 0]
        for term, weight in zip(self.degrees, weights, strict=True):
            product = 0 * along[:, 0] + np.float32(weight)
            for direction, degree in enumerate(term):
                product = product * _hermite(degree, along[:, direction])
            y = y + product
        return x, y


def _hermite(degree: int, z: Any) -> Any:
    """Return the Hermite polynomial of a degree with E h^2 = 1, by its recurrence, on arrays of any library."""
    before, value = 0 * z, 0 * z + np.float32(1)
    for k in range(degree):
        step = z * value - np.float32(k**0.5) * before
        before, value = value, step / np.float32((k + 1) ** 0.5)
    return value


def text_of_sets(sets: Any) -> str:
    """Return the sets of a ``MonomialSum`` as text, from a table's column in which they are lists or text already."""
    return json.dumps([list(members) for members in sets]) if isinstance(sets, list | tuple) else str(sets)

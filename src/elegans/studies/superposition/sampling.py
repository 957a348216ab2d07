"""Estimates of learning coefficients on potentials whose coefficient is known, by Langevin dynamics."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from elegans import random
from elegans.experiments import rules
from elegans.probes import Langevin, LangevinChains
from elegans.studies.superposition.theory.polygons import (
    one_hot_loss,
    polygon_arrays,
    polygon_coefficient,
)

LEVEL = rules.LEVEL / 2
"""The error rate of a claim of this study: half of the usual one, to keep the sum over all studies below three."""
NBETA = 1000 / np.log(1000)
"""n beta = n / ln n at n = 1000, the published temperature."""
POINTS = {"6": (6, 0), "5+": (5, 0), "5-": (5, 1), "4++": (4, 0), "4+-": (4, 1), "4--": (4, 2)}
"""Corners of each polygon that is a minimum, and how many of its other columns are dead."""


class Setting(NamedTuple):
    """How an estimate is made.

    Args:
        nbeta: n beta.
        step_size: eps.
        localisation: gamma.
        draws: steps over which losses are averaged.
        burn_in: steps before these.
    """

    nbeta: float
    step_size: float
    localisation: float
    draws: int
    burn_in: int = 0


def polygon_potential(w: Any, context: Any) -> Any:
    """Return the exact loss at flat parameters: weights (2, 6), then biases (6,)."""
    return one_hot_loss(w[:12].reshape(2, 6), w[12:])


def chains_at(start: Any, setting: Setting, chains: int, key: random.Key) -> LangevinChains:
    """Return chains on the exact loss from flat parameters."""
    sampler = Langevin(chains=chains, **{name: value for name, value in setting._asdict().items() if name != "nbeta"})
    return sampler.sample(polygon_potential, start, setting.nbeta, key)


def estimated(values: np.ndarray) -> dict[str, float]:
    """Return the mean over chains and its standard error."""
    return {"estimate": float(values.mean()), "standard_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def polygon_rows(name: str, setting: Setting, repeats: int, chains: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each repeat of an estimate at a polygon, each with so many chains of its own."""
    corners, dead = POINTS[name]
    arrays = polygon_arrays(corners, 6, dead)
    start = np.concatenate([arrays.weights.ravel(), arrays.bias])
    key = random.stream(seed, "probe").fold(list(POINTS).index(name))
    for number, value in enumerate(setting):
        key = key.fold(int(np.float32(value).view(np.uint32)) ^ number)
    sampled = chains_at(start, setting, repeats * chains, key)
    values = setting.nbeta * (sampled.mean - sampled.start)
    left = sampled.has_left
    truth = polygon_coefficient(corners, dead)
    for repeat, part in enumerate(np.split(np.arange(len(values)), repeats)):
        yield {
            "point": name,
            "truth": truth,
            **setting._asdict(),
            "repeat": repeat,
            **estimated(values[part]),
            "left": float(left[part].mean()),
            "acceptance": float(sampled.acceptance[part].mean()),
        }

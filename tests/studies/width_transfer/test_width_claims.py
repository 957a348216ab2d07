"""The rules of width transfer on tables in which the statement is true, false, or open."""

import itertools

import numpy as np
import pandas as pd
import pytest

from elegans.experiments import InsufficientData
from elegans.studies.width_transfer import width_coordinates as coordinates

WIDTHS = (256, 512, 1024)


def steps(parametrisation, optimiser, powers, fault="none", seeds=10, noise=0.03):
    generator = np.random.default_rng(0)
    rows = []
    for width, seed, step in itertools.product(WIDTHS, range(seeds), range(4)):
        luck = generator.lognormal(0, noise, 3)
        changes = dict(zip(coordinates.CHANGES, luck * np.array([width**power for power in powers]), strict=True))
        label = {"parametrisation": parametrisation, "optimiser": optimiser, **coordinates.PLAIN, "fault": fault}
        rows.append({**label, "width": width, "seed": seed, "step": step, **changes})
    return pd.DataFrame(rows)


def tables(parametrisation, *powers):
    return {
        "coordinates": pd.concat([steps(parametrisation, o, p) for o, p in zip(("sgd", "adam"), powers, strict=True)])
    }


@pytest.mark.parametrize(
    ("powers", "verdict"), [((0, 0, 0), "holds"), ((0, 0, 0.3), "holds in part"), ((0.3, -0.3, 0.3), "fails")]
)
def test_flat_changes_are_told_from_growing_ones(powers, verdict):
    assert coordinates.coordinates_flat.decide(tables("maximal-update", powers, powers)).verdict == verdict


@pytest.mark.parametrize(
    ("sgd", "verdict"),
    [((-0.5, 0.5, 1), "holds"), ((-0.5, 0.5, 1.5), "holds"), ((-0.5, 0.5, 0.5), "holds in part")],
)
def test_standard_exponents_of_the_output_may_lie_between_two_predictions(sgd, verdict):
    judged = coordinates.coordinates_standard.decide(tables("standard", sgd, (0, 1, 1.5)))
    assert judged.verdict == verdict


@pytest.mark.parametrize(("power", "verdict"), [(0.5, "holds"), (0.05, "holds in part")])
def test_a_fault_must_show_in_every_seed(power, verdict):
    faults = [steps("maximal-update", "sgd", (0, 0, power), fault) for fault in coordinates.FAULTS]
    correct = steps("maximal-update", "sgd", (0, 0, 0))
    assert coordinates.check_catches_faults.decide({"coordinates": pd.concat([correct, *faults])}).verdict == verdict


def test_few_seeds_leave_exponents_open():
    few = tables("maximal-update", (0, 0, 0), (0, 0, 0))["coordinates"]
    with pytest.raises(InsufficientData, match="10 trials"):
        coordinates.coordinates_flat.decide({"coordinates": few[few["seed"] < 9]})

"""Rules of the claims on superposition, on made tables."""

import numpy as np
import pandas as pd
import pytest

from elegans.studies.superposition.dimensionality import INVERSE, sparsity_superposes
from elegans.studies.superposition.llc_calibration import MIXED, RANKS, rank_coefficients
from elegans.studies.superposition.llc_polygons import COLD, PULLS, REPEATS, STEPS, order_is_temperature
from elegans.studies.superposition.polygon_levels import polygon_levels
from elegans.studies.superposition.sampling import NBETA
from elegans.studies.superposition.stagewise import COLD as COLD_SETTING, WARM, stagewise
from elegans.studies.superposition.theory.coefficients import reduced_rank_coefficient
from elegans.studies.superposition.two_in_one import ALONE, BOTH, LOST, axes, outcome, two_in_one


def estimates(ordered, cold=0.0):
    """Return estimates of both polygons, the square's below the hexagon's in so many cells, and by ``cold`` when cold.

    In the other cells the order alternates from repeat to repeat.
    """
    cells = [(NBETA, step, pull) for step in STEPS for pull in PULLS]
    rows = []
    for number, (nbeta, step, pull) in enumerate([*cells, (COLD, 3e-8, 1.0)]):
        for repeat in range(REPEATS):
            jitter = 0.1 * (-1) ** repeat
            gap = cold + jitter if nbeta == COLD else 1.0 if number < ordered else jitter
            common = {"nbeta": nbeta, "step_size": step, "localisation": pull, "repeat": repeat}
            rows += [{**common, "point": "4++", "estimate": 8.0}, {**common, "point": "6", "estimate": 8.0 + gap}]
    return {"estimates": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("ordered", "cold", "expected"),
    [
        (12, 0.0, "holds"),
        (9, 0.0, "holds in part"),
        (0, 0.0, "fails"),  # nothing to find: no cell has the order
        (12, 1.0, "fails"),  # the order stays when cold
        (12, 0.4, "undecided"),
    ],
)
def test_polygons_are_ordered_in_some_settings_and_not_when_cold(ordered, cold, expected):
    verdict = order_is_temperature.decide(estimates(ordered, cold))
    assert verdict.verdict == expected
    assert verdict.error_rate < 0.02


def test_settings_without_the_order_are_named():
    needs = order_is_temperature.decide(estimates(9)).needs
    assert needs.startswith("at n = 1000 in 9 of 12 settings, not at step size 0.01 with localisation 0.1;")


def networks(relu, linear=6.0):
    """Return networks whose number of features by density is given, for those with a ReLU and for linear ones."""
    rows = [
        {"activation": kind, "seed": seed, "inverse": inverse, "neurons": 6, "mean_dimensionality": 6 / (count + noise)}
        for seed, noise in enumerate((-0.01, 0.0, 0.01))
        for kind, counts in (("relu", relu), ("linear", [linear] * 12))
        for inverse, count in zip(INVERSE["laptop"], counts, strict=True)
    ]
    return {"networks": pd.DataFrame(rows)}


@pytest.mark.compiles
@pytest.mark.slow
def test_both_kinds_of_networks_are_counted_by_the_squared_norm_of_all_weights():
    rising = np.linspace(6, 50, 12)
    assert sparsity_superposes.decide(networks(rising)).verdict == "holds"
    assert sparsity_superposes.decide(networks(rising, linear=7.0)).numbers["linear"]["verdict"] == "fails"
    assert sparsity_superposes.decide(networks(rising[::-1])).numbers["more features"]["verdict"] == "fails"
    shuffled = np.random.default_rng(0).permutation(rising)
    assert sparsity_superposes.decide(networks(shuffled)).verdict != "holds"  # nothing to find


def transitions(rises, cold, after="5+"):
    """Return 200 transitions from a square, at so many of which the estimate rises, and when cold."""
    rows = [
        {
            "setting": setting,
            "before": "4++",
            "after": after,
            "estimate_before": 5.0,
            "estimate_after": 6.0 if number < (cold if setting in COLD_SETTING else rises) else 4.0,
        }
        for setting in (*WARM, *COLD_SETTING)
        for number in range(200)
    ]
    return {"transitions": pd.DataFrame(rows)}


def test_transitions_lower_the_loss_and_raise_estimate_and_coefficient():
    assert stagewise.decide(transitions(200, 200)).verdict == "holds"
    in_part = stagewise.decide(transitions(200, 70))
    assert in_part.verdict == "holds in part" and "coefficient" not in in_part.needs
    assert stagewise.decide(transitions(200, 200, after="4+-")).numbers["the loss"]["verdict"] == "fails"
    assert stagewise.decide(transitions(100, 100)).numbers["localisation 100"]["verdict"] == "fails"  # coin flips


def ranks(draws, factor=1.0):
    """Return estimates of reduced rank that equal the truth, but at rank 0 are ``factor`` times the truth."""
    truths = [reduced_rank_coefficient(*sizes).coefficient for sizes in RANKS]
    rows = [
        {
            "rank": sizes[3],
            "draws": draws,
            "estimate": truth * (1 if sizes[3] else factor),
            "standard_error": 0.001 * truth,
            "perfect": np.nan if sizes[3] else truth,
            "truth": truth,
        }
        for sizes, truth in zip(RANKS, truths, strict=True)
    ]
    return {"ranks": pd.DataFrame(rows)}


def test_short_chains_of_rank_zero_decide_nothing():
    for factor in (1.0, 0.7):
        short = rank_coefficients.decide(ranks(20_000, factor))
        assert short.verdict == "undecided" and short.needs.startswith("rank 0: chains of 4,000,000 steps")
    assert rank_coefficients.decide(ranks(MIXED)).verdict == "holds"
    long = rank_coefficients.decide(ranks(MIXED, 0.8))
    assert long.verdict == "holds in part" and long.numbers["rank 0"]["verdict"] == "fails"


def test_networks_on_a_level_must_have_its_corners():
    ends = pd.DataFrame({"distance": np.zeros(510), "level": "5+", "corners": 5.0})
    assert polygon_levels.decide({"ends": ends}).verdict == "holds"
    assert polygon_levels.decide({"ends": ends.assign(corners=4.0)}).verdict == "fails"
    assert polygon_levels.decide({"ends": ends.assign(distance=0.1)}).verdict == "fails"


def test_a_loss_that_is_not_finite_is_on_no_level():
    ends = pd.DataFrame({"distance": np.zeros(510), "level": "5+", "corners": 5.0})
    broken = ends.assign(distance=np.nan, level="none", corners=0.0)
    verdict = polygon_levels.decide({"ends": broken})
    assert verdict.verdict == "fails" and verdict.numbers["undefined"] == 510
    one = polygon_levels.decide({"ends": pd.concat([broken[:1], ends[1:]])})
    assert one.verdict == "holds" and one.numbers["undefined"] == 1


def grid(trained):
    """Return a grid whose optimum has both features at the six lowest densities, beside what networks do."""
    importances, densities = axes("laptop")
    optimal = [BOTH] * 6 + [LOST] * 6
    rows = [
        {"importance": importance, "density": density, "networks": 20, "trained": mine, "optimal": best}
        for importance in importances
        for density, mine, best in zip(densities, trained, optimal, strict=True)
    ]
    return {"grid": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        ([BOTH] * 6 + [LOST] * 6, "holds"),
        ([BOTH] * 7 + [LOST] * 5, "holds"),
        ([BOTH] * 8 + [LOST] * 4, "fails"),
        ([LOST] * 6 + [BOTH] * 6, "fails"),  # as many densities with both features, but the wrong ones
        ([BOTH] * 6 + [ALONE] * 6, "fails"),  # the wrong feature is kept
    ],
)
def test_the_best_networks_do_what_the_optimum_does(trained, expected):
    assert two_in_one.decide(grid(trained)).verdict == expected


def test_what_a_network_does_with_the_second_feature():
    assert [outcome(norms) for norms in ((1, 0), (1, 0.9), (0.1, 1), (0, 0))] == [LOST, BOTH, ALONE, LOST]

"""The rules that decide the claims of the XOR, on made-up tables, and the networks on which lemmas are checked."""

import math

import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments.checks import check, checks
from elegans.experiments.claims import Lacking
from elegans.experiments.results import Results
from elegans.studies.xor_two_phases import xor_heavy, xor_lemmas, xor_phases
from elegans.studies.xor_two_phases.reference import heavy_network, on_sphere, signs, steps

PHASES = {claim.id: claim for claim in xor_phases.CLAIMS}
RATE = 1 / math.sqrt(2 * math.pi)
THEORY = {claim.id: claim for module in (xor_lemmas, xor_heavy) for claim in module.CLAIMS}


@pytest.mark.parametrize("name", THEORY)
def test_statements_of_theory_hold_in_part_where_one_check_is_violated(name):
    good, bad = check(name, "first", 0.5, 1), check(name, "second", 2, 1)
    other = check("xor/another", "third", 2, 1)
    for rows, expected in (([good, other], "holds"), ([bad, other], "fails"), ([good, bad, other], "holds in part")):
        assert THEORY[name].decide(checks(rows)).verdict == expected
    with pytest.raises(Lacking):
        THEORY[name].decide(checks([other]))


def test_every_statement_of_theory_has_checks_at_the_scale_of_its_rule():
    """Smoke leaves out two that take minutes; the printed B4 and the printed slope bound are violated already there."""
    rows = pd.concat(
        module.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"] for module in (xor_lemmas, xor_heavy)
    )
    assert set(THEORY) - set(rows["claim"]) == {"xor/minibatch-concentration"}
    violated = rows[~rows["satisfied"] & ~rows["check"].str.contains(", run")]
    assert set(violated["check"]) == {"B4 as printed", "exp(-E||aw||) <= g_min, random and aligned networks"}


@pytest.mark.parametrize("power", [10, 12, 14])
@pytest.mark.parametrize("one_sided", [False, True])
def test_built_networks_are_signal_heavy_and_hardly_more_than_that(power, one_sided):
    zeta = math.exp(-power)
    for seed in range(5):
        network = heavy_network(np.random.default_rng(seed), 40, 12, zeta, one_sided=one_sided)
        found = theory.xor_signal_heavy(*network, zeta, scale=1.0)
        assert found.holds
        assert found.members.sum() == 36
        assert theory.xor_smallest_zeta(*network, scale=1.0) > 0.9 * zeta


def test_steps_are_minibatch_sgd_on_both_layers_or_on_one():
    start = on_sphere(np.random.default_rng(0), 6, 5, 0.1)
    assert np.linalg.norm(start[0], axis=1) == pytest.approx(np.abs(start[1]))
    for frozen in (False, True):
        (first, gradient), (second, _) = steps(start, 0.2, 10, 1, np.random.default_rng(1), frozen=frozen)
        x = signs(np.random.default_rng(1), 10, 5)
        assert gradient.weight == pytest.approx(theory.xor_gradients(*first, x).weight)
        assert second[0] == pytest.approx(first[0] - 0.2 * gradient.weight)
        assert second[1] == pytest.approx(first[1] - (0 if frozen else 0.2) * gradient.output)


def run_table(n=64, arm="both layers", seed=0, theta=0.1, **changes):
    """A run as the theory has it: 21 rows, the signal found at step 40, dominating at 60, the data fit at 80."""
    step = np.arange(0, 101, 5)
    time = 0.1 * step
    rest = np.full(len(step), theta)
    signal = 0.01 * theta * np.exp(RATE * time)
    rows = {
        "task.n": n, "arm": arm, "seed": seed, "step": step, "found_at": 40.0, "dominates_at": 60.0, "fit_at": 80.0,
        "largest": 0.05, "dominance": np.where(step >= 60, 20.0, 1.0), "heaviness": 0.5, "noise": theta**2,
        "tenth": np.where(step >= 50, 0.8, 0.0), "weight_square": 0.3, "output_square": 0.25, "excess": 0.0,
        "signal": signal, "predicted_signal": 1.02 * signal, "opposite": 0.01 * theta * np.exp(-RATE * time),
        "rest": rest, "moved": 0.1, "drift": 0.01, "heavy_signal": theta * np.exp(0.2 * time), "heavy_mass": 0.9,
        "margin_1": 1.0, "margin_2": 1.0, "margin_3": 1.0, "margin_4": np.linspace(2, 1.01, len(step)),
    }  # fmt: skip
    return pd.DataFrame(rows | changes)


def phases(trials=29, **changes):
    runs = [
        run_table(n, arm, seed, theta, **changes)
        for n in (64, 256)
        for arm, theta in (("both layers", 0.1), ("both layers from theta = 0.01", 0.01))
        for seed in range(trials)
    ]
    for arm in ("second layer frozen", "second layer frozen at theta"):
        frozen = {"heavy_signal": np.linspace(0.1, 2, 21), "margin_4": 1.3}
        runs += [run_table(64, arm, seed, **(frozen | changes)) for seed in range(10)]
    return {"table": pd.concat(runs, ignore_index=True)}


SLOW = 0.001 * np.exp(0.2 * np.linspace(0, 10, 21))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("two-phases", {}, "holds"),
        ("two-phases", {"largest": 0.5}, "fails"),
        ("two-phases", {"dominance": 5.0}, "fails"),
        ("phase-one-output", {}, "holds"),
        ("phase-one-output", {"noise": 1.0}, "fails"),
        ("phase-one-output", {"tenth": 0.3}, "holds in part"),
        ("exponential-rate", {}, "holds"),
        ("exponential-rate", {"signal": SLOW, "opposite": SLOW}, "fails"),
        ("exponential-rate", {"opposite": SLOW}, "holds in part"),
        ("neurons-independent", {}, "holds"),
        ("neurons-independent", {"moved": 0.5}, "holds in part"),
        ("neurons-independent", {"moved": 0.5, "drift": 0.5, "predicted_signal": 1.0}, "fails"),
        ("both-layers-amplify", {}, "holds"),
        ("both-layers-amplify", {"margin_4": 1.0}, "undecided"),
        ("both-layers-amplify", {"heavy_signal": np.linspace(0.1, 2, 21)}, "holds in part"),
    ],
)
def test_claims_on_phases_are_decided_by_their_runs(name, changes, expected):
    assert PHASES[f"xor/{name}"].decide(phases(**changes)).verdict == expected


def test_claims_on_phases_ask_for_their_dimensions_and_for_enough_runs():
    for claim in PHASES.values():
        with pytest.raises(Lacking, match="runs at d = 64"):
            claim.decide(phases(trials=9))
        with pytest.raises(Lacking, match="runs at d"):
            claim.decide({"table": run_table(n=16)})

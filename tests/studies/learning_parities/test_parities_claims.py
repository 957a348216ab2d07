"""Rules of the claims on learning parities: each verdict that they can give, on made-up tables."""

import math

import numpy as np
import pandas as pd
import pytest

from elegans.boolean.fourier import sign_table
from elegans.experiments.claims import judge
from elegans.experiments.registry import find
from elegans.experiments.results import Results
from elegans.studies.learning_parities import (
    biased_parity_claims as biased,
    biased_parity_scaling as scaling,
    digit_parity_claims as digits,
)

THEORY = {
    "first-step-lemmas": ["lemma-5", "lemma-6", "lemma-7", "lemma-8", "lemma-9-good-neurons", "lemma-14"],
    "linear-bounds": ["linear-lower-bound", "corollary-rates"],
    "readout-lemmas": ["lemma-10", "lemma-11"],
    "descent-lemmas": ["theorem-13", "lemma-15", "lemma-16"],
}


def verdict(experiment, claim, tables):
    """Return what the rule of one claim says of tables."""
    (one,) = (each for each in find(experiment).claims if each.id == f"parities/{claim}")
    return judge([one], tables)[one.id]["verdict"]


def checked(claim, **worst):
    """Return a table of checks of one claim by name, satisfied up to 1."""
    rows = [{"check": name.replace("_", " "), "worst": value} for name, value in worst.items()]
    table = pd.DataFrame(rows, columns=["check", "worst"]).assign(claim=f"parities/{claim}", cases=1, limit=1.0)
    return {"checks": table.assign(error_rate=0.0, satisfied=table["worst"] <= 1)}


@pytest.mark.parametrize(("experiment", "claim"), [(one, claim) for one, claims in THEORY.items() for claim in claims])
@pytest.mark.parametrize(
    ("worst", "expected"),
    [
        ({"sum": 0, "sum_as_printed": 0}, "holds"),
        ({"sum": 0, "sum_as_printed": 2}, "holds with correction"),
        ({"sum": 2, "sum_as_printed": 0}, "fails"),
        ({}, "undecided"),
    ],
)
def test_a_lemma_fails_by_one_violation_and_holds_with_correction_by_a_misprint(experiment, claim, worst, expected):
    assert verdict(experiment, claim, checked(claim, **worst)) == expected


@pytest.mark.parametrize(("printed", "expected"), [(0.0, "holds"), (0.5, "holds with correction"), (0.05, "undecided")])
def test_the_gradient_is_a_correlation_if_all_hinges_are_active(printed, expected):
    rows = [("share of inactive hinges, as printed", printed), ("share of inactive hinges, with mirrored copies", 0.0)]
    table = pd.DataFrame(rows, columns=["check", "worst"]).assign(claim="parities/gradient-is-correlation")
    assert verdict("first-step-lemmas", "gradient-is-correlation", {"checks": table}) == expected


def computed(experiment):
    """Return the checks of an experiment of theory at smoke scale, by name."""
    return find(experiment).analyse(Results(pd.DataFrame(), scale="smoke"))["checks"].set_index("check")


SLOW = {"descent-lemmas", "readout-lemmas"}


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(name, marks=[pytest.mark.compiles, pytest.mark.slow] * (name in SLOW)) for name in THEORY],
)
def test_at_smoke_scale_only_what_is_printed_is_violated(experiment):
    # two draws at two widths do not determine an exponent
    table = computed(experiment).drop("exponent of the norm in q, less -1/2", errors="ignore")
    printed = table.index.str.endswith(("as printed", "as printed in the proof"))
    assert table["satisfied"][~printed].all()
    assert not printed.any() or not table["satisfied"][printed].all()


def accuracy(one=0.9, three=0.5, images="mnist", seeds=5, **networks):
    """Return the table of ``digit-parity``: accuracies at epoch 20, of linear models and of the network."""
    cells = [(1, "fresh", one), (3, "fresh", three), (3, "fixed", three)]
    values = {1: networks.get("at_one", 0.91), 3: networks.get("at_three", 0.78)}
    rows = [
        {"k": k, "strips": strips, "model": model, "seed": seed, "test_accuracy": value + 0.001 * seed}
        for k, strips, linear in cells
        for model, value in [*((name, linear) for name in digits.LINEAR), (digits.NETWORK, values[k])]
        for seed in range(seeds)
    ]
    return {"table": pd.DataFrame(rows).assign(epoch=20.0, images=images)}


@pytest.mark.parametrize(
    ("claim", "tables", "expected"),
    [
        ("digit-three-gap", accuracy(), "holds"),
        ("digit-three-gap", accuracy(three=0.68), "holds in part"),
        ("digit-three-gap", accuracy(three=0.77), "fails"),
        ("digit-three-gap", accuracy(images="digits"), "undecided"),
        ("digit-three-gap", accuracy(seeds=4), "undecided"),
        ("digit-three-network", accuracy(), "holds"),
        ("digit-three-network", accuracy(at_three=0.9), "fails"),
        ("digit-three-network", accuracy(at_three=0.799), "undecided"),
        ("digit-three-linear", accuracy(), "holds"),
        ("digit-three-linear", accuracy(three=0.7), "fails"),
        ("digit-three-linear", accuracy(three=0.57), "undecided"),
        ("digit-three-linear", accuracy(three=0.5456), "undecided"),  # below 0.55 by one interval, not by three at once
        ("digit-one-similar", accuracy(), "holds"),
        ("digit-one-similar", accuracy(one=0.85), "undecided"),  # Fourier features may have another bandwidth
        ("digit-one-similar", accuracy(one=0.95), "fails"),
        ("digit-three-harder", accuracy(), "holds"),
        ("digit-three-harder", accuracy(three=0.85), "holds in part"),
        ("digit-three-harder", accuracy(at_three=0.9), "fails"),
        ("digit-three-harder", accuracy(seeds=3), "undecided"),
    ],
)
def test_strips_of_digits_are_decided_by_intervals_over_seeds(claim, tables, expected):
    assert verdict("digit-parity", claim, tables) == expected


def test_a_model_below_chance_is_not_recorded_as_above_it():
    found = {three: digits.barely_above_chance(accuracy(three=three)).numbers for three in (0.4, 0.52)}
    assert [part["above chance"] for part in found[0.4].values()] == [False] * 6
    assert [part["above chance"] for part in found[0.52].values()] == [True] * 6


def test_a_linear_model_that_learns_fixed_strips_alone_holds_in_part():
    tables = accuracy()
    rows = tables["table"]
    rows.loc[(rows["strips"] == "fixed") & (rows["model"] == digits.LINEAR[0]) & (rows["k"] == 3), "test_accuracy"] += (
        0.2
    )
    assert verdict("digit-parity", "digit-three-linear", tables) == "holds in part"


def test_one_strip_regime_alone_holds_in_part():
    tables = accuracy()
    fixed = (tables["table"]["strips"] == "fixed") & (tables["table"]["model"] == digits.NETWORK)
    tables["table"].loc[fixed, "test_accuracy"] -= 0.07
    assert verdict("digit-parity", "digit-three-network", tables) == "holds in part"


def runs(network=0.01, linear=0.5, uniform=1.0, error=0.0, seeds=10, last=10_000, printed=0.5, easy=0.0, norm=1.0):
    """Return the table of ``biased-parity``: two checks per trial, at step 500 and the last."""
    arms = [("learners", name, linear) for name in biased.LINEAR]
    arms += [("learners", biased.NETWORK, network), ("learners", "network, plain descent", network)]
    arms += [("learners", "network, Theorem 3's steps", printed), ("ablations", "mixture, first step", network)]
    arms += [("ablations", "uniform inputs, their first step", uniform)]
    rows = [
        {
            "panel": panel,
            "arm": arm,
            "n": n,
            "k": k,
            "seed": seed,
            "step": step,
            "hinge": (easy if k == 3 and arm.startswith("uniform") else hinge) + 1e-3 * seed,
        }
        for panel, arm, hinge in arms
        for n, k in (*biased.SIZES, *biased.HARD)
        for seed in range(seeds)
        for step in (500, last)
    ]
    table = pd.DataFrame(rows).assign(features=513, norm=norm)
    return {"table": table.assign(hinge_d1=table["hinge"], hinge_d2=table["hinge"], error_d1=error, error_d2=error)}


@pytest.mark.parametrize(
    ("claim", "tables", "expected"),
    [
        ("network-beats-linear", runs(), "holds"),
        ("network-beats-linear", runs(norm=100.0), "undecided"),  # 1/2 - 200 sqrt(513 / C(101, 5)) is 0
        ("network-beats-linear", runs(linear=0.1), "fails"),
        ("network-beats-linear", runs(network=0.1), "undecided"),
        ("network-beats-linear", runs(network=0.3), "fails"),
        ("network-beats-linear", runs(seeds=5), "undecided"),
        ("network-learns", runs(), "undecided"),
        ("network-learns", runs(network=0.3), "undecided"),
        ("network-learns", runs(error=0.9), "fails"),
        ("uniform-is-hard", runs(seeds=13), "holds"),
        ("uniform-is-hard", runs(seeds=12), "undecided"),
        ("uniform-is-hard", runs(seeds=13, uniform=0.01), "undecided"),
        ("uniform-is-hard", runs(seeds=13, uniform=0.01, easy=1.0), "fails"),
        ("uniform-is-hard", runs(seeds=13, easy=1.0), "undecided"),
        ("uniform-is-hard", runs(seeds=13, last=4000), "undecided"),
        ("uniform-is-hard", runs(seeds=13, network=0.3), "undecided"),
    ],
)
def test_biased_parities_are_decided_by_hinge_losses(claim, tables, expected):
    assert verdict("biased-parity", claim, tables) == expected


def trainings(steps, seeds=10, spread=0.3, slow=math.inf, unsolved=0):
    """Return the networks' rows of ``biased-parity-scaling``: steps by k at one step size, ``slow`` at another.

    At the largest k, the first ``unsolved`` trials of both are not solved.
    """
    noise = np.exp(np.random.default_rng(1).normal(0, spread, (len(steps), seeds)))
    rows = [
        {"k": k, "learning_rate": rate, "seed": seed, "steps": value * noise[place, seed]}
        for place, (k, own) in enumerate(steps.items())
        for rate, value in ((0.03, own), (0.1, slow))
        for seed in range(seeds)
    ]
    table = pd.DataFrame(rows).assign(learner="network", size=scaling.WIDTH)
    return table.assign(steps=table["steps"].mask((table["k"] == max(steps)) & (table["seed"] < unsolved)))


CUBIC, DOUBLING = ({k: cost(k) for k in scaling.STEPS} for cost in (lambda k: 5 * k**3, lambda k: 20 * 2**k))


@pytest.mark.parametrize(
    ("worst", "rows", "expected"),
    [
        (0, trainings(CUBIC), "holds"),
        (0, trainings(CUBIC, slow=10**6), "holds"),
        (0, trainings(CUBIC, unsolved=2), "holds"),
        (0, trainings(CUBIC, unsolved=3), "undecided"),
        (0, trainings(DOUBLING), "fails"),
        (2, trainings(CUBIC), "fails"),
        (0, trainings(CUBIC, seeds=9), "undecided"),
        (0, trainings({k: steps for k, steps in CUBIC.items() if k < 9}), "undecided"),
        (0, trainings({**CUBIC, 9: np.nan}), "undecided"),
        (0, trainings({k: math.sqrt(CUBIC[k] * DOUBLING[k]) for k in CUBIC}), "undecided"),
    ],
)
def test_the_separation_is_decided_by_its_bound_and_by_a_power_against_an_exponential(worst, rows, expected):
    tables = {"table": rows, **checked("exponential-separation", bound=worst)}
    assert verdict("biased-parity-scaling", "exponential-separation", tables) == expected


@pytest.mark.compiles
@pytest.mark.slow
def test_a_power_is_rarely_taken_for_an_exponential_and_the_reverse():
    # at most 5% of 60 draws are expected; 8 or more have a probability of 1.3% at 5%
    wrong = {"power": 0, "exponential": 0}
    for seed in range(60):
        noise = np.exp(np.random.default_rng(seed).normal(0, 0.5, (5, 10)))
        for name, cost in (("power", lambda k: 5.0 * k**3), ("exponential", lambda k: 20 * 1.5**k)):
            found = scaling.compared({k: cost(k) * own for k, own in zip(scaling.STEPS, noise, strict=True)})
            gap = found["aic_exponential_less_power"]
            wrong["power"] += name == "power" and gap <= -4 and found["p_exponential"] <= 0.05 < found["p"]
            wrong["exponential"] += name == "exponential" and gap >= 4 and found["p"] <= 0.05 < found["p_exponential"]
    assert max(wrong.values()) < 8


def test_what_theorem_2_demands_at_least_doubles_with_every_unit_of_k():
    k = np.arange(3.0, 60, 2)
    for logs in scaling.demanded(k).values():
        assert (np.diff(logs) >= 2 - 1e-12).all()
    # by hand: 1/2 - B sqrt(N / 2) / 2^k = 1/4 at k = 3
    assert 2 ** scaling.demanded(k)["Theorem 2"][0] == pytest.approx(2 * math.sqrt(2))


def test_a_mean_needs_its_seeds_and_finite_values():
    from elegans.experiments.claims import InsufficientData
    from elegans.studies.learning_parities.rules import mean_and_interval

    mean, (low, high) = mean_and_interval([1.0, 2.0, 3.0, 4.0, 5.0], "more")
    assert (mean, high - mean) == (3, pytest.approx(3.7469474 * np.sqrt(2.5 / 5)))
    assert low == pytest.approx(6 - high)
    for values in ([1.0] * 4, [1.0] * 4 + [np.nan]):
        with pytest.raises(InsufficientData):
            mean_and_interval(values, "more")


@pytest.mark.parametrize(
    ("worst", "lemma"),
    [
        ({"a": 0, "b": 0}, "holds"),
        ({"a": 0, "b": 2}, "holds in part"),
        ({"a": 2, "b": 2}, "fails"),
        ({}, "undecided"),
    ],
)
def test_parts_of_lemma_12_are_decided_one_by_one(worst, lemma):
    assert verdict("readout-lemmas", "lemma-12", checked("lemma-12", **worst)) == lemma
    assert verdict("readout-lemmas", "second-layer-suffices", checked("second-layer-suffices", **worst)) == lemma


@pytest.mark.parametrize(
    ("k", "weights", "uniform", "aligned"),
    [(3, (1, 1, -1), 0.75, 1.0), (3, (1, 1, 1), 0.25, 1.0), (5, (1,) * 5, 0.6875, 1.0)],
)
def test_linear_thresholds_have_high_accuracies_at_a_hinge_loss_of_about_one_half(k, weights, uniform, aligned):
    """The accuracy trap: the losses of these predictors at a small scale are near 1 on D1, their accuracies high."""
    signs, label = sign_table(k), sign_table(k).prod(axis=1)
    values = signs @ np.array(weights)
    right = np.sign(values) == label
    ends = np.abs(signs.sum(axis=1)) == k
    assert right.mean() == uniform
    assert right[ends].mean() == aligned
    assert (right.mean() + right[ends].mean()) / 2 == (uniform + aligned) / 2
    best = min(np.maximum(1 - label * values * scale, 0).mean() for scale in np.linspace(0, 1, 101))
    assert best > 0.7

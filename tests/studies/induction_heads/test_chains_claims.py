"""Rules that decide this study's claims, on tables made by hand: every verdict that they can give."""

import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments import EXPERIMENTS
from elegans.experiments.checks import check
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, judge
from elegans.studies.induction_heads import induction_strategies, rules
from elegans.studies.induction_heads.curriculum import last_logits


def verdict(claim, tables):
    """What the rule of a claim says of tables."""
    known = {one.id: one for experiment in EXPERIMENTS.values() for one in experiment.claims}
    return judge([known[claim]], tables)[claim]["verdict"]


@pytest.mark.parametrize(
    ("shown", "runs", "expected"),
    [(10, 13, HOLDS), (9, 13, UNDECIDED), (3, 13, FAILS), (16, 20, HOLDS), (15, 20, UNDECIDED), (4, 20, FAILS)],
)
def test_a_typical_run_shows_it(shown, runs, expected):
    found = rules.most("a thing", [True] * shown + [False] * (runs - shown), runs=runs)
    assert found.verdict == expected
    assert found.error_rate == pytest.approx({13: 0.0461, 20: 0.0059}[runs], abs=5e-5)


@pytest.mark.parametrize(("shown", "expected"), [(28, HOLDS), (20, IN_PART), (19, UNDECIDED), (10, FAILS)])
def test_every_run_shows_it(shown, expected):
    assert rules.every("a thing", [True] * shown + [False] * (30 - shown)).verdict == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([2.0] * 13, HOLDS),
        ([2.0] * 10 + [np.inf] * 3, HOLDS),
        ([1.2] * 13, IN_PART),
        ([2.0] * 10 + [0.5] * 3, UNDECIDED),
        ([2.0] * 8 + [0.5] * 5, UNDECIDED),
        ([2.0] * 3 + [0.5] * 10, FAILS),
    ],
)
def test_ratios_of_pairs(ratios, expected):
    assert rules.by_ratios("a ratio", ratios, above=1.5).verdict == expected


@pytest.mark.parametrize(
    ("loss", "falling", "expected"),
    [(0.1, 0, HOLDS), (0.3, 0, IN_PART), (0.6, 0, FAILS), (0.6, 0.1, UNDECIDED), (0.1, 0.1, HOLDS)],
)
def test_a_loss_near_the_best(loss, falling, expected):
    """The gap lies between 1 and 0.08."""
    ends = pd.DataFrame({"loss": [loss] * 13, "simpler": 1.0, "best": 0.08, "falling": falling})
    assert rules.near_best("a network", ends).verdict == expected


def test_too_few_runs_leave_a_claim_undecided():
    for call in (
        lambda: rules.most("a thing", [True] * 12),
        lambda: rules.every("a thing", [True] * 29),
        lambda: rules.by_ratios("a ratio", [2.0] * 12),
    ):
        with pytest.raises(rules.Lacking):
            call()


EXACT = [
    *(claim.id for claim in EXPERIMENTS["induction-theory"].claims),
    *(claim.id for claim in EXPERIMENTS["induction-strategies"].claims),
]


@pytest.mark.parametrize("claim", EXACT)
def test_checks_decide_statements_of_theory(claim):
    def of(*deviations, agreed=0.0):
        rows = [check(claim, str(number), one, 1.0) for number, one in enumerate(deviations)]
        cell = pd.DataFrame({"k": [16], "length": [200]})
        return {"checks": pd.DataFrame([check(rules.COMPUTATIONS, "twice", agreed, 1e-6), *rows]), "logits": cell}

    assert verdict(claim, of(0.5, 0.9)) == HOLDS
    assert verdict(claim, of(0.5, 1.1)) == IN_PART
    assert verdict(claim, of(2.0, np.nan)) == FAILS
    assert verdict(claim, {}) == UNDECIDED


def test_statements_of_the_first_steps_are_undecided_where_computations_disagree():
    rows = [check(rules.COMPUTATIONS, "twice", 1.0, 1e-6), check("induction/two-step-curriculum", "one", 0.0, 1.0)]
    assert verdict("induction/two-step-curriculum", {"checks": pd.DataFrame(rows)}) == UNDECIDED


def test_linear_logits_are_judged_with_many_symbols_only():
    rows = [check(rules.COMPUTATIONS, "twice", 0.0, 1.0), check(induction_strategies.LINEAR, "k = 2", 0.0, 1.0)]
    few = {"checks": pd.DataFrame(rows), "logits": pd.DataFrame({"k": [2], "length": [200]})}
    assert verdict(induction_strategies.LINEAR, few) == UNDECIDED


def test_logits_at_the_last_position_are_the_minimal_model_s():
    generator = np.random.default_rng(0)
    tokens = generator.integers(3, size=(5, 9))
    weights = theory.MinimalWeights(generator.normal(size=(3, 3)), generator.normal(size=9))
    assert last_logits(weights, tokens) == pytest.approx(theory.minimal_logits(weights, tokens)[:, -1])

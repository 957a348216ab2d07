"""The rules that decide the claims on sparse functions and attention, on made-up tables."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from elegans.experiments.checks import check, checks
from elegans.experiments.claims import InsufficientData
from elegans.experiments.results import Results
from elegans.studies.variable_creation import (
    and_curves,
    and_samples,
    attention_pattern,
    bit_symmetry,
    capacity_check,
    exact_representation,
    parity_transformer,
    selection_heads,
)
from elegans.studies.variable_creation.and_samples_claims import logistic_threshold

MODULES = (bit_symmetry, capacity_check, exact_representation, selection_heads)
THEORY = {claim.id: claim for module in MODULES for claim in module.EXPERIMENT.claims}


@pytest.mark.parametrize("name", THEORY)
def test_statements_of_theory_hold_in_part_where_one_check_is_violated(name):
    good, bad = check(name, "first", 0.5, 1), check(name, "second", 2, 1)
    other = check("variables/another", "third", 2, 1)
    for rows, expected in (([good, other], "holds"), ([bad, other], "fails"), ([good, bad, other], "holds in part")):
        assert THEORY[name].decide(checks(rows)).verdict == expected
    with pytest.raises(InsufficientData):
        THEORY[name].decide(checks([other]))


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("module", [capacity_check, exact_representation, selection_heads])
def test_what_is_violated_is_what_is_known_to_be_printed_with_an_error(module):
    rows = module.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert set(rows["claim"]) == {claim.id for claim in module.EXPERIMENT.claims}
    violated = rows.loc[~rows["satisfied"], "check"]
    known = ("as printed", "as its proof", "as in the")
    assert all(any(word in name for word in known) for name in violated)
    assert len(violated) > 0


@pytest.mark.compiles
@pytest.mark.slow
def test_flipped_problems_are_the_same_problem():
    rows = bit_symmetry.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert rows.loc[~rows["satisfied"], "check"].tolist() == [bit_symmetry.UNFLIPPED]
    assert decision(bit_symmetry, "and-or-interchangeable", {"checks": rows}).verdict == "holds"


def decision(module, name, tables):
    return next(claim for claim in module.EXPERIMENT.claims if claim.id == f"variables/{name}").decide(tables)


def parities(above=(500, 2000), stray=0.001, fall=50, unsolved=0, networks=10, dropouts=(0.1, 0.0)):
    rows = [
        {"n": n, "dropout": dropout, "seed": seed, "step": step, "stray": stray,
         "above_99": np.nan if seed < unsolved else float(time), "fall": fall}
        for n, time in zip((10, 15), above, strict=True) for dropout in dropouts
        for seed in range(networks) for step in (100, 20_000)
    ]  # fmt: skip
    return {"table": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("parity-is-learned", {}, "holds"),
        ("parity-is-learned", {"unsolved": 5}, "undecided"),
        ("parity-is-learned", {"unsolved": 9}, "fails"),
        ("parity-falls-abruptly", {}, "holds"),
        ("parity-falls-abruptly", {"fall": 400}, "holds in part"),
        ("parity-falls-abruptly", {"fall": 1900, "stray": 0.1}, "fails"),
    ],
)
def test_parities_are_decided_by_the_networks_that_learn(name, changes, expected):
    assert decision(parity_transformer, name, parities(**changes)).verdict == expected
    with pytest.raises(InsufficientData):
        decision(parity_transformer, name, parities(networks=8))


def heads(ratio=10.0, negative=20.0, most=12.0, other=0.01, zeros=0.8, ones=0.1, changed=0.0, explained=0.99, count=20):
    uniform = 1 / 51
    rows = [
        {"arm": attention_pattern.TRAINED, "seed": seed, "step": step, "uniform": uniform, "other_95": other,
         "mean_other": uniform / (most if step == 50 else ratio), "mean_other_negative": uniform / negative,
         "on_zeros": zeros, "on_ones": ones, "changed": changed, "explained": explained, "solved_at": 60.0}
        for seed in range(count) for step in (0, 50, 500)
    ]  # fmt: skip
    return {"heads": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("attention-ignores-irrelevant-bits", {}, "holds"),
        ("attention-ignores-irrelevant-bits", {"ratio": 2}, "holds in part"),
        ("attention-ignores-irrelevant-bits", {"other": 0.5}, "holds in part"),
        ("attention-ignores-irrelevant-bits", {"ratio": 2, "negative": 2, "most": 3}, "fails"),
        ("attention-depends-on-the-input", {}, "holds"),
        ("attention-depends-on-the-input", {"zeros": 0.11}, "fails"),
        ("network-converges-to-sparse-solution", {}, "holds"),
        ("network-converges-to-sparse-solution", {"explained": 0.5}, "holds in part"),
        ("network-converges-to-sparse-solution", {"explained": 0.5, "changed": 0.1}, "fails"),
    ],
)
def test_attention_is_decided_by_a_majority_of_networks(name, changes, expected):
    assert decision(attention_pattern, name, heads(**changes)).verdict == expected
    with pytest.raises(InsufficientData):
        decision(attention_pattern, name, heads(count=9))


SOLVED = {50: 0, 70: 28, 100: 34, 140: 38, 200: 40}


def starts(solved=None, replicates=40, mixed=None, held_out=None, training=1.0, loss=5e-5):
    rows = []
    for m, hits in (SOLVED | (solved or {})).items():
        for seed in range(replicates):
            for start in range(5):
                found = seed < hits and not (seed < (mixed or {70: 25, 140: 5}).get(m, 0) and start == 3)
                at_end = 1.0 if found else (0.5 + 0.4 * seed / replicates if held_out is None else held_out)
                rows.append(
                    {"n": 300, "m": m, "seed": seed, "start": start, "steps": 1000, "best": at_end, "held_out": at_end,
                     "training": training, "most_training": training, "least_loss": loss}
                )  # fmt: skip
    return {"starts": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("generalises-above-overfits-below", {}, "holds"),
        ("generalises-above-overfits-below", {"replicates": 32, "solved": {200: 31}}, "holds"),
        ("generalises-above-overfits-below", {"solved": {50: 20}}, "holds"),
        ("generalises-above-overfits-below", {"solved": {50: 30}}, "undecided"),
        ("generalises-above-overfits-below", {"training": 0.99}, "fails"),
        ("generalises-above-overfits-below", {"solved": {200: 20}}, "fails"),
        ("generalises-above-overfits-below", {"solved": {50: 40}}, "fails"),
        ("overfitted-accuracies-differ", {}, "holds"),
        ("overfitted-accuracies-differ", {"held_out": 0.5}, "fails"),
        ("every-run-fits-its-sample", {}, "holds"),
        ("every-run-fits-its-sample", {"loss": 2e-4}, "fails"),
        ("unstable-near-threshold", {}, "holds"),
        ("unstable-near-threshold", {"mixed": {70: 14, 140: 1}}, "holds in part"),
        ("unstable-near-threshold", {"mixed": {70: 2, 140: 2}}, "fails"),
        ("overfitting-grows-as-m-shrinks", {}, "holds"),
        ("overfitting-grows-as-m-shrinks", {"solved": {50: 40, 70: 40, 100: 20, 140: 10, 200: 0}}, "fails"),
    ],
)
def test_curves_are_decided_by_their_starts(name, changes, expected):
    assert decision(and_curves, name, starts(**changes)).verdict == expected
    with pytest.raises(InsufficientData):
        decision(and_curves, name, starts(replicates=9))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("overfitted-accuracies-differ", "holds"),
        ("unstable-near-threshold", "holds"),
        ("overfitting-grows-as-m-shrinks", "holds"),
        ("generalises-above-overfits-below", None),
        ("every-run-fits-its-sample", None),
    ],
)
def test_general_statements_are_decided_at_100_bits_where_300_are_not_run(name, expected):
    tables = starts()
    rows = tables["starts"]
    sizes = dict(zip(and_curves.SIZES[300], and_curves.SIZES[100], strict=True))
    smaller = {"starts": rows.assign(n=100, m=rows["m"].map(sizes), steps=500)}
    if expected:
        assert decision(and_curves, name, smaller).verdict == expected
    else:
        with pytest.raises(InsufficientData, match="T = 300"):
            decision(and_curves, name, smaller)


@pytest.mark.parametrize(("failures", "expected"), [(0, "holds"), (1, "holds"), (12, "undecided"), (25, "fails")])
def test_few_runs_that_do_not_fit_leave_the_share_of_others_above_99_percent(failures, expected):
    tables = starts()
    assert len(tables["starts"]) == 1000
    tables["starts"].loc[: failures - 1, "least_loss"] = 2e-4
    assert decision(and_curves, "every-run-fits-its-sample", tables).verdict == expected


def cells(curve, function="and", bits=(100, 200, 300, 400, 800, 1100), trials=400, width=6.0):
    rows = []
    for n in bits:
        middle = round(curve(n) / 10) * 10
        for m in range(middle - 40, middle + 50, 10):
            solved = round(trials * float(expit((m - curve(n)) / width + np.log(4))))
            rows.append({"n": n, "m": m, "function": function, "steps_given": 1000, "starts": 5, "starts_left": 0,
                         "trials": trials, "solved": solved, "rate": solved / trials})  # fmt: skip
    return {"cells": pd.DataFrame(rows)}


def test_a_logistic_threshold_is_where_four_in_five_succeed():
    m = np.arange(30, 120, 10)
    solved = 1000 * expit((m - 72.5) / 8 + np.log(4))
    assert logistic_threshold(m, solved, np.full(len(m), 1000)) == pytest.approx(72.5, abs=0.2)
    assert np.isnan(logistic_threshold(m, solved[::-1], np.full(len(m), 1000)))


@pytest.mark.parametrize(
    ("curve", "expected"),
    [(lambda n: 20 * np.log(n), "holds"), (lambda n: 0.5 * n, "fails"), (lambda n: 10 * n**0.5, "fails")],
)
def test_growth_of_thresholds_is_decided_by_its_power(curve, expected):
    assert decision(and_samples, "and-threshold-grows-like-log-t", cells(curve)).verdict == expected


@pytest.mark.parametrize(("at", "expected"), [(70, "holds"), (100, "fails"), (79, "holds in part")])
def test_the_threshold_at_300_bits_is_about_seventy(at, expected):
    tables = cells(lambda n: at, bits=(300,), trials=40)
    assert decision(and_samples, "and-threshold-70-at-300", tables).verdict == expected
    with pytest.raises(InsufficientData):
        decision(and_samples, "and-threshold-70-at-300", cells(lambda n: at, bits=(300,), trials=39))
    for solved in (0, 40):  # the threshold lies beyond all numbers of examples
        with pytest.raises(InsufficientData):
            decision(and_samples, "and-threshold-70-at-300", {"cells": tables["cells"].assign(solved=solved)})


def test_other_functions_are_decided_for_themselves():
    grown = cells(lambda n: 20 * np.log(n), "majority")
    majority = decision(and_samples, "same-scaling-for-other-functions", grown)
    assert majority.verdict == "undecided" and majority.needs.startswith("a run of the other function; for ")
    line = cells(lambda n: 0.5 * n, "majority")
    assert decision(and_samples, "same-scaling-for-other-functions", line).verdict == "fails"
    never = {"cells": grown["cells"].assign(solved=0, rate=0.0)}
    assert decision(and_samples, "same-scaling-for-other-functions", never).verdict == "undecided"
    with pytest.raises(InsufficientData):
        decision(and_samples, "same-scaling-for-other-functions", cells(lambda n: 20 * np.log(n)))

"""What verdicts rest on as a table: estimates, intervals, thresholds, and the errors that their rules state."""

import math

import pytest

from elegans.analysis import wilson
from elegans.experiments import effects, expected_errors
from elegans.experiments.effects import _numbers, looks
from elegans.experiments.evidence import verdict_of
from elegans.experiments.fresh import compared
from elegans.experiments.registry import claims
from elegans.experiments.rules import by_interval, by_share, by_value, combine


def test_an_estimate_is_as_far_from_its_threshold_as_its_interval_says():
    verdict = by_interval("a slope", 2.0, (1.0, 3.0), above=1.5)
    ((part, numbers),) = _numbers(verdict.record()["numbers"])
    assert part == "" and numbers[:4] == (2.0, 1.0, 3.0, 1.5) and math.isnan(numbers[4])
    assert numbers[5] == pytest.approx(0.5 * 2 * 1.959964 / 2)
    outside = by_interval("a slope", 2.0, (1.0, 3.0), above=0.0, below=1.5).record()["numbers"]
    assert next(_numbers(outside))[1][5] == pytest.approx(-0.5 * 1.959964)


def test_parts_are_named_and_exact_numbers_have_no_distance():
    parts = {"rate": by_share("trials", 45, 50, above=0.5), "number": by_value("a number", 2.0, below=3.0)}
    (rate, share), (number, exact) = _numbers(combine({"n = 3": combine(parts)}).record()["numbers"])
    assert (rate, number) == ("n = 3: rate", "n = 3: number")
    assert share[0] == 0.9 and share[3] == 0.5 and share[5] > 0
    assert share[1:3] == pytest.approx(wilson(45, 50), abs=0.05)
    assert exact[0] == 2.0 and exact[4] == 3.0 and math.isnan(exact[5])


def test_claims_of_one_estimate_hold_only_within_their_range():
    table = effects()
    single = table[(table["part"] == "") & table["distance"].notna()]
    holding = single.loc[single["verdict"] == "holds", "distance"]
    assert len(holding) >= 5 and (holding > 0).all()


def test_errors_are_those_of_decided_claims_that_chance_can_mislead_and_products_where_fresh_seeds_agree():
    again = {each.claim: each.fresh["error_rate"] for each in compared() if each.agrees}
    kept = {name: found[1] for name in claims() if (found := verdict_of(name))}
    rates = {name: each["error_rate"] for name, each in kept.items() if each["verdict"] != "undecided"}
    sums = expected_errors()
    assert again and all(again[name] * rates[name] < rates[name] for name in again)
    assert sum(errors for _, errors in sums.values()) == pytest.approx(
        sum(rate * again.get(name, 1.0) for name, rate in rates.items())
    )
    assert sum(errors for _, errors in expected_errors(confirmed=False).values()) == pytest.approx(sum(rates.values()))
    assert sum(count for count, _ in sums.values()) == sum(rate > 0 for rate in rates.values())
    few = [claim for claim in claims().values() if claim.study == "variable_creation"]
    assert expected_errors(few) == {"variable_creation": sums["variable_creation"]}


def test_a_rate_counts_once_for_every_run_that_could_decide_the_claim():
    runs = looks()
    assert set(runs) == {name for name in claims() if verdict_of(name)}
    assert runs["staircases/schedule-sets-exponent"] >= 2  # the whole experiment, then a part with more runs
    assert runs["xor/two-phases"] >= 3  # two earlier runs
    assert runs["staircases/greedy-order-is-exact"] == 1
    rates = {name: verdict_of(name)[1] for name in runs}
    total = sum(runs[name] * each["error_rate"] for name, each in rates.items() if each["verdict"] != "undecided")
    every = expected_errors(confirmed=False, repeated=True)
    assert sum(errors for _, errors in every.values()) == pytest.approx(total)

"""What verdicts rest on as a table: estimates, intervals, thresholds, and the errors that their rules state."""

import itertools
import math
import sys
from pathlib import Path

import pytest

from elegans.analysis import wilson
from elegans.experiments import EXPERIMENTS, effects, expected_errors
from elegans.experiments.effects import APART, _numbers, looks_at
from elegans.experiments.evidence import EARLIER, Evidence, collected, verdict_of
from elegans.experiments.fresh import compared
from elegans.experiments.registry import claims
from elegans.experiments.rules import by_interval, by_share, by_value, combine
from elegans.experiments.words import LACKS

module = sys.modules["elegans.experiments.effects"]
"""The package has a function of this name."""


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


def test_errors_are_the_stated_rates_of_claims_that_chance_can_mislead():
    kept = {name: found[1] for name in claims() if (found := verdict_of(name))}
    rates = {name: each["error_rate"] for name, each in kept.items() if each["verdict"] != "undecided"}
    sums = expected_errors(stated=True)
    assert sum(errors for _, errors in sums.values()) == pytest.approx(sum(rates.values()))
    assert sum(count for count, _ in sums.values()) == sum(rate > 0 for rate in rates.values())
    few = [claim for claim in claims().values() if claim.study == "variable_creation"]
    assert expected_errors(few, stated=True) == {"variable_creation": sums["variable_creation"]}


def test_a_rate_counts_for_every_run_and_those_that_agree_are_multiplied():
    again = {each.claim: each.fresh["error_rate"] for each in compared() if each.agrees}
    total = 0.0
    for name in claims():
        found = verdict_of(name)
        if found and found[1]["verdict"] != "undecided":
            looks, confirmed = looks_at(name)
            assert looks >= 1 and all(0 < rate <= 0.05 for rate in confirmed if found[1]["error_rate"])
            total += looks * found[1]["error_rate"] * math.prod(confirmed) * again.get(name, 1.0)
    assert sum(errors for _, errors in expected_errors().values()) == pytest.approx(total)


def test_runs_on_the_same_seeds_and_other_verdicts_are_further_looks(monkeypatch):
    def run(seed, word, because="", scale="laptop"):
        verdict = {"verdict": word, "error_rate": 0.02, "numbers": {"a": 1}, "because": because}
        return Evidence(Path(f"{seed}.{word}.json"), content | {"scale": scale} | made(seed, {"a/b": verdict}))

    def made(seed, verdicts):
        return {"record": {"first_seed": seed}, "verdicts": verdicts}

    content = {"experiment": "x", "study": "s", "setting": "", "options": {}}
    spoke = run(5000, "holds")
    monkeypatch.setattr(module, "verdict_of", lambda name: (spoke, spoke.verdicts[name]))

    def looks(*earlier):
        monkeypatch.setattr(module, "collected", lambda folder=None: earlier if folder else [spoke])
        return looks_at("a/b")

    assert looks() == (1, [])
    assert looks(run(4000, "holds")) == (1, [0.02])
    assert looks(run(4000, "holds"), run(6000, "holds")) == (1, [0.02, 0.02])
    assert looks(run(4500, "holds")) == (2, [])  # with 1000 seeds each they share 500
    assert looks(run(3000, "holds"), run(3500, "holds")) == (2, [0.02])
    assert looks(run(4000, "undecided"), run(3000, "holds in part")) == (3, [])
    assert looks(run(4000, "undecided", LACKS + " everything")) == (1, [])


@pytest.mark.slow
def test_cells_of_runs_that_confirm_each_other_have_no_more_trials_than_their_first_seeds_differ():
    """Runs of experiments at one scale, and at smaller ones, whose sweeps are known."""
    for name in claims():
        if not looks_at(name)[1]:
            continue
        spoke = verdict_of(name)[0]
        sweep = EXPERIMENTS[spoke.experiment].scales[spoke.scale]
        if sweep.trials:
            most = max((max(seeds) + 1 for _, seeds in sweep.cells(sweep.trials).parts), default=0)
            starts = sorted(
                each.content["record"]["first_seed"]
                for each in (*collected(), *collected(EARLIER))
                if each.experiment == spoke.experiment and each.rank == spoke.rank
            )
            apart = [later - first for first, later in itertools.pairwise(starts) if later - first >= APART]
            assert min(apart, default=most) >= most, (name, starts, most)

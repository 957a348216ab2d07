"""Claims, the rules that decide them, and the evidence that keeps their verdicts."""

import io
import json
import math
import os
import re
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

import numpy as np
import pandas as pd
import pytest

from elegans import discovery
from elegans.errors import ClaimError, ExperimentError
from elegans.experiments import EXPERIMENTS, evidence, rules, run_experiment
from elegans.experiments.base import Result
from elegans.experiments.checks import COMPUTED, check, checks, summary
from elegans.experiments.claims import (
    VERDICTS,
    Claim,
    InsufficientData,
    Verdict,
    claim,
    judge,
    plain,
    rule_version,
    shared,
)
from elegans.experiments.evidence import EARLIER, FRESH, SCHEMA, collected, keep
from elegans.experiments.registry import claims, entries
from elegans.experiments.rejudge import rejudge
from elegans.experiments.results import Results
from elegans.experiments.rules import (
    LEVEL,
    at_least,
    attempt,
    by_checks,
    by_interval,
    by_median,
    by_pairs,
    by_rates,
    by_share,
    by_value,
    checked,
    combine,
    decided,
    faster,
    higher,
    holm,
    in_order,
    share_limits,
    sign_test,
    table,
    theorem,
)
from elegans.experiments.words import needed, parts, reason


def verdict(word, error_rate=0.01):
    return Verdict(word, f"it {word}", error_rate=error_rate, needs="more")


def test_a_number_that_is_not_known_decides_nothing():
    found = by_value("the ratio", math.nan, above=1.0)
    assert (found.verdict, found.needs) == ("undecided", "a finite number")
    assert by_value("the ratio", math.inf, above=1.0).verdict == "holds"
    assert by_value("the ratio", 0.5, above=1.0).verdict == "fails"


def test_a_verdict_outside_the_five_is_refused():
    with pytest.raises(ClaimError, match="verdict='true'"):
        Verdict("true", "it is")
    with pytest.raises(ClaimError, match=r"error_rate=1\.5"):
        Verdict("holds", "it does", error_rate=1.5)
    with pytest.raises(ClaimError, match="needs=''"):
        Verdict("undecided", "too few trials")


@pytest.mark.parametrize(
    ("interval", "expected"), [((0.6, 0.8), "holds"), ((0.1, 0.4), "fails"), ((0.4, 0.6), "undecided")]
)
def test_an_interval_decides_by_the_side_of_the_threshold_on_which_all_of_it_lies(interval, expected):
    assert by_interval("the rate", 0.5, interval, above=0.5).verdict == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.99, 0.995, 1, 1, 1, 1], "holds"),
        ([0.95, 0.96, 0.97, 0.97, 0.98, 0.98], "holds in part"),
        ([0.1, 0.2, 0.3, 0.3, 0.4, 0.5], "fails"),
        ([0.98, 0.995, 1, 1, 1, 1], "undecided"),
        ([0.85, 0.95, 0.95, 0.95, 0.95, 0.95], "undecided"),
        ([0.1, 0.2, 0.3, 0.3, 0.4, np.nan], "undecided"),
    ],
)
def test_a_median_of_six_seeds_is_decided_by_their_range(values, expected):
    found = by_median("the margin", values, above=0.99, part_above=0.9)
    assert (found.verdict, found.error_rate) == (expected, 1 / 64)


def test_a_median_of_many_seeds_is_decided_without_their_extremes():
    found = by_median("the margin", [0.5, *[0.99] * 18, 2.0], above=0.9)
    assert (found.verdict, found.numbers["interval"]) == ("holds", [0.99, 0.99])
    assert found.error_rate == pytest.approx(sum(math.comb(20, heads) for heads in range(5)) / 2**20)
    with pytest.raises(InsufficientData, match="at least 7 seeds"):
        by_median("the margin", [1.0] * 6, above=0.9, below=1.1)


def test_five_seeds_do_not_decide_a_median():
    with pytest.raises(InsufficientData, match="at least 6 seeds"):
        by_median("the margin", [1.0] * 5, above=0.99)


@pytest.mark.parametrize(
    ("value", "expected"), [(2.0, "holds"), (3.0, "holds"), (3.1, "fails"), (math.nan, "undecided")]
)
def test_a_computed_number_is_decided_by_its_thresholds_which_count_as_within(value, expected):
    assert by_value("the exponent", value, above=2, below=3).verdict == expected


@pytest.mark.parametrize(
    ("yes", "no", "part", "expected"),
    [
        (True, False, "", "holds"),
        (True, False, "half of it", "holds"),
        (False, True, "half of it", "holds in part"),
        (False, False, "half of it", "holds in part"),
        (False, True, "", "fails"),
        (False, False, "", "undecided"),
    ],
)
def test_what_holds_for_a_named_part_neither_fails_nor_is_undecided(yes, no, part, expected):
    found = decided(yes, no, "it is so", {}, 0.05, "more trials", part=part)
    needs = {"holds in part": "half of it", "undecided": "more trials"}.get(expected, "")
    assert (found.verdict, found.needs) == (expected, needs)


def test_a_rule_asks_for_enough_rows_and_a_part_without_them_is_undecided():
    def part(rows, *, least):
        return by_share("solved", len(at_least(least, rows, f"{least} trials")), 6)

    assert attempt(part, [1, 2, 3, 4, 5, 6], least=6).verdict == "holds"
    found = attempt(part, [1, 2], least=6)
    assert (found.verdict, found.needs) == ("undecided", "6 trials")


def test_a_column_that_a_table_lacks_is_named_where_it_leaves_a_claim_undecided():
    tables = {"cells": pd.DataFrame({"model.width": [10]})}
    assert len(table(tables, "cells", "trials", model__width=10)) == 1
    with pytest.raises(InsufficientData, match="^trials; the table cells has no column model.widht$"):
        table(tables, "cells", "trials", model__widht=10)
    with pytest.raises(InsufficientData, match="^trials$"):
        table(tables, "other", "trials", model__width=10)


def test_a_verdict_takes_further_numbers_and_reasons_or_becomes_another():
    holds = Verdict("holds", "it does", {"rate": 1}, 0.05)
    assert holds.but(trials=5) == Verdict("holds", "it does", {"rate": 1, "trials": 5}, 0.05)
    part = holds.but("holds in part", because="but for one", needs="the others")
    assert part == Verdict("holds in part", "it does; but for one", {"rate": 1}, 0.05, "the others")
    assert part.but(rate=2) == Verdict("holds in part", "it does; but for one", {"rate": 2}, 0.05, "the others")
    assert part.but("fails").needs == ""


@pytest.mark.parametrize(("successes", "expected"), [(6, "holds"), (0, "fails"), (5, "undecided")])
def test_six_of_six_decide_a_majority(successes, expected):
    assert by_share("single frequencies", successes, 6).verdict == expected


def test_the_limits_of_a_share_cover_it_as_often_as_they_say():
    # exact: the probability that the lower limit exceeds the true share, summed over the binomial distribution
    from scipy.stats import binom

    for true in (0.1, 0.5, 0.9):
        above = sum(binom.pmf(x, 20, true) for x in range(21) if share_limits(x, 20)[0] > true)
        below = sum(binom.pmf(x, 20, true) for x in range(21) if share_limits(x, 20)[1] < true)
        assert max(above, below) <= LEVEL


def test_pairs_are_decided_by_the_sign_test():
    assert sign_test(5, 5) == 1 / 32
    assert sign_test(0, 5) == 1
    assert by_pairs("sooner", [1, 2, 1, 3, 1, 2]).verdict == "holds"
    assert by_pairs("sooner", [-1, -2, -1, -3, -1, -2]).verdict == "fails"
    assert by_pairs("sooner", [1, 2, 1, 3, 1, -1]).verdict == "undecided"


def test_one_rate_is_higher_than_another_by_fishers_test():
    assert higher((20, 20), (0, 20)) < 1e-6
    assert higher((0, 20), (20, 20)) == pytest.approx(1)
    assert higher((10, 20), (10, 20)) > 0.5


def test_one_sample_of_times_is_shorter_by_the_log_rank_test():
    generator = np.random.default_rng(0)
    short, long = generator.exponential(1, 40), generator.exponential(3, 40)
    assert faster(short, long) < 0.01
    assert faster(long, short) > 0.99
    assert faster(np.where(short > 2, np.nan, short), np.where(long > 2, np.inf, long), censored_at=2) < 0.01


def test_holms_adjustment_multiplies_by_the_hypotheses_that_are_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["holds", "holds"], "holds"),
        (["fails", "fails"], "fails"),
        (["holds", "fails"], "holds in part"),
        (["holds", "holds in part"], "holds in part"),
        (["holds", "holds with correction"], "holds with correction"),
        (["holds with correction", "fails"], "holds in part"),
        (["holds", "undecided"], "undecided"),
        (["undecided", "fails"], "undecided"),
        (["holds", "undecided", "fails"], "holds in part"),
    ],
)
def test_the_parts_of_a_claim_are_combined(words, expected):
    found = combine({str(place): verdict(word) for place, word in enumerate(words)})
    assert (found.verdict, found.error_rate) == (expected, pytest.approx(0.01 * len(words)))


def test_a_claim_that_holds_in_part_names_the_parts():
    parts = {"a": verdict("holds"), "b": verdict("fails"), "c": verdict("holds in part")}
    assert combine(parts).needs == "holds for a; in part for c"
    assert combine({name: parts[name] for name in "bc"}).needs == "holds in part for c"


def test_checks_of_theory_hold_fail_or_hold_in_part():
    rows = [check("a/x", "bound", [0.1, 0.2], 1), check("a/x", "identity", 1e-14, 1e-12), check("a/y", "bound", 2, 1)]
    tables = checks([*rows, check("a/z", "bound", 2, 1), check("a/z", "other", np.nan, 1), check("a/z", "third", 0, 0)])
    assert by_checks(tables, claim="a/x").verdict == "holds"
    assert by_checks(tables, claim="a/y").verdict == "fails"
    assert by_checks(tables, claim="a/z").verdict == "holds in part"
    assert by_checks(tables, claim="a/z", corrected="a sum").verdict == "holds in part"
    assert checked("a/x")(tables).numbers["bound"] == {"worst": 0.2, "limit": 1, "cases": 2}
    with pytest.raises(InsufficientData):
        by_checks(tables, claim="a/w")


def test_a_table_of_checks_has_its_exceptions_first_with_margins_of_their_sign():
    rows = [check("a/x", "bound", [0.1, 0.2], 1), check("a/y", "printed", 3, 1), check("a/z", "other", np.nan, 1)]
    table = checks([*rows, check("a/z", "equal", 0, 0)])["checks"]
    assert list(table["check"]) == ["printed", "other", "bound", "equal"]
    assert list(table["margin"]) == [-2, -np.inf, 0.8, 0]
    assert summary(table) == "2 of 4 checks passed (5 cases); failed: y: printed, z: other"
    assert summary(table[2:]) == "2 of 2 checks passed (3 cases)"


def test_error_rates_of_checks_add_up_to_at_most_one():
    other = check("a/x", "other", 0.1, 1, error_rate=0.7)
    tables = {rate: checks([check("a/x", "bound", 0.1, 1, error_rate=rate), other]) for rate in (0.2, 0.7)}
    found = {rate: by_checks(table, claim="a/x").error_rate for rate, table in tables.items()}
    assert found == {0.2: pytest.approx(0.9), 0.7: 1.0}


def test_rows_that_a_rule_needs_and_are_not_there_leave_the_claim_undecided():
    found = {"table": pd.DataFrame({"model.width": [10, 100], "solved": [1, 2]})}
    assert list(table(found, "table", "width 100", model__width=100)["solved"]) == [2]
    lacking = Claim("a/x", "s", "f", "r", needs_width)
    assert judge([lacking], found)["a/x"]["needs"] == "width 1000"
    assert judge([lacking], {})["a/x"]["verdict"] == "undecided"


def needs_width(tables):
    table(tables, "table", "width 1000", model__width=1000)
    return Verdict("holds", "it is there")


THRESHOLD = 1


def first_rule(tables):
    """Say so."""
    return helper(tables) > THRESHOLD


def second_rule(tables):
    """Say the same in other words."""
    # with a comment
    return helper(tables) > THRESHOLD


@claim(id="a/third", statement="s", source="f", rule="in words")
def third_rule(tables):
    """Say the same, as a claim."""
    return helper(tables) > THRESHOLD


def helper(tables):
    return len(tables)


def test_the_version_of_a_rule_changes_with_its_code_and_its_constants_alone(monkeypatch):
    before = rule_version(first_rule)
    assert rule_version(second_rule) == third_rule.version == before
    assert third_rule.decide([1, 2]) is third_rule([1, 2]) is True
    monkeypatch.setitem(first_rule.__globals__, "THRESHOLD", 2)
    assert rule_version(first_rule) != before
    monkeypatch.setitem(first_rule.__globals__, "THRESHOLD", 1)
    assert rule_version(first_rule) == before
    assert rule_version(partial(first_rule, 1)) != rule_version(partial(first_rule, 2))
    monkeypatch.setitem(first_rule.__globals__, "helper", needs_width)
    assert rule_version(first_rule) != before


def rule_with_a_local_name(tables):
    helper = tables
    return [helper]


def rule_by_module(tables):
    return rules.at_least(discovery.LARGEST, tables, "more")


def test_a_local_name_does_not_bring_in_what_the_module_calls_the_same(monkeypatch):
    before = rule_version(rule_with_a_local_name)
    monkeypatch.setitem(rule_with_a_local_name.__globals__, "helper", shared(7)(helper))
    assert rule_version(rule_with_a_local_name) == before


def test_functions_and_constants_named_through_their_module_count_too(monkeypatch):
    monkeypatch.setattr(discovery, "LARGEST", 1, raising=False)
    before = rule_version(rule_by_module)
    monkeypatch.setattr(rules.at_least, "rule_version", 2)
    assert rule_version(rule_by_module) != before
    monkeypatch.setattr(rules.at_least, "rule_version", 1)
    assert rule_version(rule_by_module) == before
    monkeypatch.setattr(discovery, "LARGEST", 2)
    assert rule_version(rule_by_module) != before


def test_a_shared_rule_counts_by_its_number_however_it_is_written(monkeypatch):
    def length(tables):
        return len(tables)

    def renamed(rows):
        return len(rows)

    renamed.__qualname__ = length.__qualname__
    versions = []
    for function, number in ((length, 1), (renamed, 1), (length, 2)):
        monkeypatch.setitem(first_rule.__globals__, "helper", shared(number)(function))
        versions.append((rule_version(first_rule), rule_version(partial(function, 1))))
    assert versions[0] == versions[1]
    assert not {*versions[0]} & {*versions[2]}


def test_parts_after_an_undecided_one_are_not_tested():
    yes, no, open_one = (
        Verdict(word, word, {}, 0.02, "trials" * (word == "undecided")) for word in ("holds", "fails", "undecided")
    )
    assert (in_order({"a": yes, "b": no}).verdict, in_order({"a": yes, "b": no}).error_rate) == ("holds in part", 0.02)
    found = in_order({"a": open_one, "b": yes})
    assert (found.verdict, found.numbers["b"]["verdict"]) == ("undecided", "undecided")


@pytest.mark.parametrize(
    ("words", "expected", "needs"),
    [
        (["holds", "holds"], "holds", ""),
        (["fails", "fails"], "fails", ""),
        (["holds", "fails"], "holds in part", "net: holds at 1, fails at 0.1"),
        (["holds", "short"], "undecided", "net: holds at 1, falls short at 0.1"),
        (["holds", "open"], "undecided", "net: holds at 1, is open at 0.1"),
        (["short", "fails"], "undecided", "net: falls short at 1, fails at 0.1"),
    ],
)
def test_a_claim_over_learning_rates_says_where_it_turns(words, expected, needs):
    """The claimed threshold is 0.8: an interval below it falls short; how far below it fails is up to a rule."""
    intervals = {"holds": [0.9, 1.0], "open": [0.7, 0.9], "short": [0.6, 0.7], "fails": [0.1, 0.2]}

    def part(word):
        numbers = {"estimate": 0.5, "interval": intervals[word], "claimed": [0.8, np.inf]}
        return Verdict(
            word if word in VERDICTS else "undecided", word, numbers, 0.01, "" if word in VERDICTS else "more"
        )

    found = by_rates({("net", 10.0**-place): {"": part(word)} for place, word in enumerate(words)})
    assert (found.verdict, found.needs, found.error_rate) == (expected, needs, 0.02)
    assert set(found.numbers) == {"net, rate 1", "net, rate 0.1"}


def test_at_a_learning_rate_all_parts_of_a_claim_must_hold():
    parts = [{"a": verdict("holds"), "b": verdict(word)} for word in ("holds", "undecided", "fails")]
    found = by_rates({("net", float(rate)): own for rate, own in enumerate(parts, 1)})
    assert (found.verdict, found.needs) == ("holds in part", "net: holds at 1, is open at 2, fails at 3")
    assert "net, rate 3: b" in found.numbers


def test_every_function_of_a_file_of_rules_carries_a_number():
    files = ["elegans.experiments.rules", *(f"{study.package}.rules" for study in discovery.studies().values())]
    modules = [import_module(name) for name in files if find_spec(name)]
    assert len(modules) >= 6
    bare = [
        f"{module.__name__}.{name}"
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
        if not hasattr(value, "rule_version")
    ]
    assert bare == []


def test_numbers_are_written_as_json_has_them():
    value = {1: np.float64(1 / 3), "n": np.int64(2), "b": np.bool_(True), "x": np.nan, "s": [np.inf, None, "a"]}
    assert plain(value) == {"1": 0.333333, "n": 2, "b": True, "x": None, "s": [None, None, "a"]}


def by_rows(tables):
    """The share of x above a half, over all rows."""
    share = table(tables, "table", "a table")["x"].gt(0.5).mean()
    return by_interval("the share", share, (share - 0.01, share + 0.01), above=0.4)


CLAIM = Claim(id="a/x", statement="Most are large.", source="figure 1", rule="By their share.", decide=by_rows)


def made(tmp_path, **changes):
    """A run of a theory experiment, with a claim and a large table."""
    experiment = replace(
        EXPERIMENTS["lottery-tickets"],
        name="made",
        scales={"smoke": COMPUTED, "paper": replace(COMPUTED, part="half of it")},
        claims=(CLAIM,),
    )
    tables = {"table": pd.DataFrame({"x": np.linspace(0, 1, 100_000)}), "small": pd.DataFrame({"y": [1.5, 2.5]})}
    record = {"failed": 0, "interrupted": 0, "seconds": 1.0, "verdicts": {"a/x": verdict("fails").record()}}
    return Result(experiment, Results(pd.DataFrame(), scale="paper"), tables, record | changes, tmp_path)


def test_evidence_keeps_whole_tables_and_verdicts_judged_from_them(tmp_path):
    path = keep(made(tmp_path), "pareto_frontiers", {"group": "S4"}, tmp_path / "evidence")
    assert path.name == "made.paper.group=S4.json"
    content = json.loads(path.read_text())
    assert (content["setting"], content["options"]) == ("part of the published: half of it", {"group": "S4"})
    assert content["verdicts"]["a/x"]["verdict"] == "holds"
    assert content["tables"] == {
        "table": {"file": "made.paper.group=S4.table.parquet", "rows": 100_000},
        "small": {"file": "made.paper.group=S4.small.csv", "rows": 2},
    }
    tables = evidence.Evidence(path, content).tables
    assert np.allclose(tables["table"]["x"], np.linspace(0, 1, 100_000), rtol=1e-5, atol=0)
    assert tables["small"]["y"].tolist() == [1.5, 2.5]
    assert judge([CLAIM], tables) == content["verdicts"]


def test_small_and_large_tables_are_read_alike(tmp_path):
    """Gaps, truth values, words, lists and numbers of six digits come back alike from CSV and from Parquet."""
    rows = {
        "word": ["a", None, "nan "],
        "truth": [True, False, None],
        "list": [[1.0, 2.5], [], [3.0]],
        "number": [1 / 3, np.nan, np.inf],
        "count": [1, 2, 3],
    }
    small = pd.DataFrame(rows)
    large = pd.concat([small] * 10_000, ignore_index=True)
    found = []
    for name, one in (("small", small), ("large", large)):
        run = made(tmp_path)
        run = replace(run, experiment=replace(run.experiment, claims=()), tables={"table": one, "x": one})
        path = keep(run, "xor_two_phases", {}, tmp_path / name)
        content = json.loads(path.read_text())
        found.append(evidence.Evidence(path, content).tables["x"])
    assert [one["file"].rpartition(".")[2] for one in content["tables"].values()] == ["parquet", "parquet"]
    pd.testing.assert_frame_equal(found[0], found[1].head(3))
    assert found[0]["list"].tolist() == rows["list"]
    assert found[0]["number"].tolist()[0] == 0.333333


def test_parquet_keeps_numbers_of_six_digits_exactly_in_half_their_size(tmp_path):
    """Read back, the numbers of both columns are those that the table's text has; only the wide range needs 64 bits."""
    draws = np.random.default_rng(0).lognormal(sigma=3, size=40_000)
    draws[:9] = [0, -0.0, np.nan, np.inf, -np.inf, 0.1, 999_999.5, -6.34658e-18, 1e20]
    table = pd.DataFrame({"usual": draws, "wide": draws**5, "signed": -draws})
    run = made(tmp_path)
    run = replace(run, experiment=replace(run.experiment, claims=()), tables={"table": table})
    path = keep(run, "xor_two_phases", {}, tmp_path)
    kept = pd.read_parquet(path.with_suffix(".parquet"))
    assert kept.dtypes.map(str).tolist() == ["float32", "float64", "float32"]
    text = pd.read_csv(io.StringIO(table.to_csv(index=False, float_format="%.6g")))
    pd.testing.assert_frame_equal(
        evidence.Evidence(path, json.loads(path.read_text())).tables["table"], text, check_exact=True
    )


def test_evidence_takes_the_place_of_earlier_evidence_and_of_no_other(tmp_path):
    folder = tmp_path / "evidence"
    keep(made(tmp_path), "pareto_frontiers", {}, folder)
    keep(made(tmp_path), "pareto_frontiers", {"group": "S4"}, folder)
    one_table = replace(made(tmp_path), tables={"table": pd.DataFrame({"x": [2.5]})})
    path = keep(one_table, "pareto_frontiers", {}, folder)
    assert path.with_suffix(".csv").read_text() == "x\n2.5\n"
    assert not list(folder.glob("made.paper.table.*"))
    assert (folder / "made.paper.group=S4.table.parquet").exists()


@pytest.mark.slow
def test_evidence_of_what_only_computes_is_set_aside_where_its_seeds_differ(tmp_path):
    folder = tmp_path / "evidence"
    whole = {"command": "elegans run made", "date": "", "training_seconds": 0, "machine": {"cores": 1}}
    for seed in (1, 1):
        keep(made(tmp_path, **whole, first_seed=seed), "pareto_frontiers", {}, folder)
    assert not (folder / "earlier").exists()
    keep(made(tmp_path, **whole, first_seed=2), "pareto_frontiers", {}, folder)
    assert {file.name for file in (folder / "earlier").iterdir()} == {
        "made.paper.1.json", "made.paper.table.1.parquet", "made.paper.small.1.csv",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["made.paper.json", "made.paper.small.csv", "made.paper.table.parquet"])
def test_evidence_goes_to_regular_files_and_keeps_the_earlier_where_it_cannot(tmp_path, name):
    folder = tmp_path / "evidence"
    keep(made(tmp_path), "pareto_frontiers", {}, folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != name}
    (folder / name).unlink()
    (folder / name).symlink_to(os.devnull)
    with pytest.raises(ClaimError, match="evidence must go to a regular file"):
        keep(made(tmp_path), "pareto_frontiers", {}, folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.name != name} == before


def test_evidence_that_cannot_be_written_or_read_is_an_error_of_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ClaimError, match="evidence must be writable: "):
        keep(made(tmp_path), "pareto_frontiers", {}, tmp_path / "file")
    study = next(iter(discovery.studies().values()))
    monkeypatch.setattr(discovery, "studies", lambda: {"made": study._replace(folder=tmp_path)})
    (tmp_path / "evidence").mkdir()
    evidence.of_folder.cache_clear()
    for text, message in (
        ("{", "evidence must be readable JSON: made.json"),
        ("[]", f"evidence must have schema {SCHEMA}"),
    ):
        (tmp_path / "evidence" / "made.json").write_text(text)
        with pytest.raises(ClaimError, match=message):
            collected()


def _speaks(tmp_path, monkeypatch, **pieces):
    """Return which of some pieces of evidence speaks: their scale, verdict, numbers, options and day."""
    kept = []
    for name, (scale, word, numbers, options, day) in pieces.items():
        word, _, because = word.partition(": ")
        verdict = {"verdict": word, "because": because, "numbers": numbers}
        record, found = {"date": f"2026-01-{day:02}"}, {"a/x": verdict}
        content = {"scale": scale, "verdicts": found, "options": options, "record": record}
        kept.append(evidence.Evidence(tmp_path / f"{name}.json", content))
    monkeypatch.setattr(evidence, "collected", lambda: tuple(kept))
    return evidence.verdict_of("a/x")[0].path.stem


def test_evidence_nearest_to_the_published_scale_speaks_unless_it_lacks_what_the_rule_needs(tmp_path, monkeypatch):
    pieces = {
        "smoke": ("smoke", "holds", {"x": 1}, {}, 3),
        "laptop": ("laptop", "undecided", {"x": 2}, {}, 2),
        "paper": ("paper", "undecided", {}, {}, 1),
    }
    for there, best in (
        (("smoke", "laptop", "paper"), "laptop"),
        (("smoke", "paper"), "smoke"),
        (("laptop", "paper"), "laptop"),
        (("paper",), "paper"),
    ):
        assert _speaks(tmp_path, monkeypatch, **{name: pieces[name] for name in there}) == best


def test_a_part_speaks_for_a_claim_only_if_it_decides_it_and_then_the_latest_run_does(tmp_path, monkeypatch):
    def best(whole, part, options=("parts",)):
        return _speaks(
            tmp_path,
            monkeypatch,
            whole=("paper", whole[0], {"x": 1}, {}, whole[1]),
            part=("paper", part[0], {"x": 2}, dict.fromkeys(options, "some"), part[1]),
        )

    assert best(("undecided", 1), ("holds", 2)) == "part"
    assert best(("undecided", 1), ("undecided", 2)) == "whole"
    assert best(("holds", 1), ("undecided", 2)) == "whole"
    assert best(("holds", 1), ("fails", 2)) == "part"
    assert best(("holds", 2), ("fails", 1)) == "whole"
    assert best(("undecided", 1), ("holds", 2), options=("parts", "group")) == "whole"
    assert best(("undecided: this run lacks k = 4", 2), ("undecided", 1)) == "part"
    assert best(("undecided: this run lacks k = 4", 1), ("undecided: k = 3: this run lacks k = 4", 2)) == "whole"
    assert best(("undecided", 1), ("holds in part: this run lacks k = 4", 2)) == "part"


def test_evidence_of_an_incomplete_run_is_refused(tmp_path):
    with pytest.raises(ClaimError, match="failed=1"):
        keep(made(tmp_path, failed=1), "pareto_frontiers", {}, tmp_path / "evidence")
    assert not (tmp_path / "evidence").exists()


def test_a_negative_first_seed_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="first_seed=-1"):
        run_experiment("lottery-tickets", "smoke", out=tmp_path, first_seed=-1)


@pytest.mark.slow
def test_every_claim_is_known_by_what_its_file_says_and_has_one_home():
    known = claims()
    assert sum(len(entry.claims) for entry in entries().values()) == len(known)
    for name, experiment in EXPERIMENTS.items():
        read = {claim.id: claim for claim in entries()[name].claims}
        assert set(read) == {claim.id for claim in experiment.claims}
        for one in experiment.claims:
            assert (one.statement, one.source) == (read[one.id].statement, read[one.id].source)
            assert one.rule
            assert len(one.version) == 12


@pytest.mark.slow
def test_all_evidence_judged_again_has_the_same_verdicts_and_numbers():
    found = list(rejudge())
    assert len(found) >= 343
    assert {one.claim: one.differences for one in found if one.differences} == {}
    assert [one.claim for one in found if one.refusal] == []


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("elegans run a --out /home/me/x --scale part", "elegans run a --scale part"),
        ("elegans run a --store=postgresql://u@h/d --evidence", "elegans run a --evidence"),
        ("elegans.experiments.run_experiment('a', 'part')", "elegans.experiments.run_experiment('a', 'part')"),
        ("elegans run 'it", "elegans run 'it"),
    ],
)
def test_evidence_does_not_name_the_places_of_a_run(typed, kept):
    assert evidence._without_places(typed) == kept


def test_committed_evidence_is_sound():
    """Files, settings and versions of rules; verdicts themselves are compared above."""
    known, files = claims(), set[Path]()
    for one in (*collected(), *collected(FRESH)):
        files.update(one.path.parent.glob(f"{one.path.stem}*"))
        content = one.content
        assert content["schema"] == SCHEMA
        assert {"command", "versions", "machine", "date", "seconds", "first_seed"} <= set(content["record"])
        experiment = EXPERIMENTS[one.experiment].with_options(content["options"])
        assert one.setting == experiment.setting(one.scale), one.path.name
        versions = {claim.id: claim.version for claim in experiment.claims}
        for name, found in one.verdicts.items():
            assert name in known, (one.path.name, name)
            assert found["verdict"] in VERDICTS
            assert found["rule"] == versions[name], (
                f"{one.path.name}: {name} was judged by an earlier rule: see `elegans rejudge`"
            )
    assert sum(path.stat().st_size for path in files) <= 60e6
    for one in (*collected(), *collected(FRESH), *collected(EARLIER)):
        places = {"--out", "--store"} & set(re.split("[ =]", one.content["record"]["command"]))
        assert not places, f"{one.path.name} names a place on one machine"
    for kind in ("", FRESH, EARLIER):
        folders = [study.folder / "evidence" / kind for study in discovery.studies().values()]
        named = {kept["file"] for one in collected(kind) for kept in one.content["tables"].values()}
        named |= {one.path.name for one in collected(kind)}
        assert {path.name for folder in folders for path in folder.glob("*") if path.is_file()} == named


@pytest.mark.parametrize(
    ("satisfied", "expected"),
    [
        ((True, True), "holds"),
        ((True, False), "holds with correction"),
        ((False, True), "fails"),
        ((False, False), "fails"),
    ],
)
def test_a_theorem_survives_violations_of_what_is_misprinted_alone(satisfied, expected):
    names = ("the sum", "the sum, as printed")
    rows = [check("a/b", name, 0.0 if one else 2.0, 1.0) for name, one in zip(names, satisfied, strict=True)]
    corrected, part = theorem("a/b", "another sign")(checks(rows)), theorem("a/b", part="even k")(checks(rows))
    assert (corrected.verdict, corrected.needs) == (expected, "another sign" * (expected == "holds with correction"))
    assert part.verdict == expected.replace("with correction", "in part")
    assert part.needs == "even k" * (part.verdict == "holds in part")


def test_a_misprint_of_the_proof_alone_is_no_exception_to_the_statement():
    rows = [check("a/b", "the sum", 0.0, 1.0), check("a/b", "its bound, as printed in the proof", 2.0, 1.0)]
    for rule in (theorem("a/b"), checked("a/b")):
        assert rule(checks(rows)).verdict == "holds"
        assert rule(checks(rows)).because.endswith("; failed: its bound, as printed in the proof")


def test_a_reason_has_separators_in_large_whole_numbers_alone():
    verdict = {"because": "194400 trainings, 12345.5 steps, v12345 and 9999; 200,000 claimed", "numbers": {}}
    assert reason(verdict) == "194,400 trainings, 12345.5 steps, v12345 and 9999; 200,000 claimed"


def test_a_reason_is_divided_outside_parentheses_and_keeps_what_is_claimed():
    assert parts("(a): holds (8 of 13; claimed (at least 12); more); b is 2; claimed: at most 1; end") == [
        "(a): holds (8 of 13; claimed (at least 12); more)",
        "b is 2; claimed: at most 1",
        "end",
    ]


@pytest.mark.parametrize(
    ("because", "said"),
    [
        ("networks: 4 of 4; claimed: more than 0.5", "networks: 4 of 4; claimed: more than 0.5; needs 20 trials"),
        ("this run lacks 20 trials", "needs 20 trials"),
        ("the tables do not have what the rule needs", "needs 20 trials"),
    ],
)
def test_what_a_verdict_needs_is_said_after_its_numbers(because, said):
    assert needed({"because": because, "needs": "20 trials", "numbers": {}}) == said

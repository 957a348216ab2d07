"""Commands on claims: the list with its filters, one claim in full, and a run that judges it again."""

import json
from dataclasses import replace

import pytest

from elegans.cli.commands.claims import _rounded_up
from elegans.experiments import evidence
from elegans.experiments.evidence import collected, verdict_of
from elegans.experiments.registry import claims

CLAIM = "margins/condition-holds-up-to-s5"
"""A claim that is decided in half a second, by computation alone."""


def of_study(study):
    return {name for name, entry in claims().items() if entry.study == study}


def listed(out):
    """Return the claims' names by the verdicts that stand before them."""
    found = {}
    for line in out.splitlines():
        if line.startswith("  "):
            found.setdefault(line[2:25].rstrip(), set()).add(line[25:].split(":")[0].split()[0].rstrip("…"))
    return found


def test_the_list_of_a_study_has_its_claims_with_the_verdicts_of_the_evidence(elegans):
    code, out, _ = elegans("claims", "--study", "feature_margins")
    expected = {}
    for name in of_study("feature_margins"):
        kept = verdict_of(name)
        expected.setdefault("not run" if kept is None else kept[1]["verdict"], set()).add(name)
    assert (code, listed(out)) == (0, expected)
    assert out.splitlines()[-2].startswith(f"{len(listed(out)['holds'])} holds")


def test_a_filter_by_verdict_lists_these_alone(elegans):
    _, out, _ = elegans("claims", "--verdict", "holds in part")
    assert set(listed(out)) == {"holds in part"}
    assert f"{len(listed(out)['holds in part'])} holds in part" in out.splitlines()


def test_filters_that_nothing_passes_say_so(elegans):
    assert elegans("claims", "--study", "xor_two_phases", "--verdict", "fails")[:2] == (0, "no claim\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--study", "moonlight"), "error: unknown study 'moonlight'; known: feature_margins"),
        (("--study", "pareto"), "error: unknown study 'pareto'; did you mean 'pareto_frontiers'?"),
        (("pareto/nope",), "error: unknown claim 'pareto/nope'; `elegans claims pareto` lists claims that mention it"),
        (
            ("--verdict", "true"),
            "error: a verdict must be one of holds, holds with correction, holds in part, fails, undecided, not run: "
            "'true'",
        ),
    ],
)
def test_filters_that_do_not_exist_are_refused(elegans, words, message):
    code, out, err = elegans("claims", *words)
    assert (code, out) == (2, "") and err.startswith(message)


def test_a_claim_in_full_has_its_rule_and_the_numbers_of_its_evidence(elegans):
    kept, verdict = verdict_of(CLAIM)
    code, out, _ = elegans("claims", CLAIM)
    assert code == 0
    assert f"{verdict['verdict']} at scale {kept.scale} ({kept.setting})" in out
    assert f"because     {verdict['because']}" in out and f"error rate  {verdict['error_rate']:g}" in out
    assert "earlier version" not in out
    record = json.loads(elegans("claims", CLAIM, "--json")[1])
    assert record["id"] == CLAIM and record["judged"][0]["numbers"] == verdict["numbers"]
    assert elegans("claims", "--json")[2] == "error: --json shows one claim, named by its id: no claim is named\n"


def test_a_claim_judged_by_another_version_of_its_rule_says_so(elegans, monkeypatch):
    old = json.loads(json.dumps(verdict_of(CLAIM)[0].content))
    old["verdicts"][CLAIM]["rule"] = "another"
    old["options"] = {"group": "S5"}
    one = replace(verdict_of(CLAIM)[0], content=old)
    monkeypatch.setattr(evidence, "collected", lambda kind="": () if kind else (one,))
    out = elegans("claims", CLAIM)[1]
    assert "note        judged by an earlier version of the rule" in out and "option      group = S5" in out


@pytest.mark.slow
def test_verify_runs_the_experiment_again_and_compares_verdicts(elegans, tmp_path):
    code, out, _ = elegans("verify", CLAIM, "--out", str(tmp_path / "kept"))
    because = verdict_of(CLAIM)[1]["because"]
    assert (code, out.splitlines()[-3:]) == (
        0,
        [f"now        holds: {because}", f"evidence   holds: {because}", "the verdict is the same"],
    )
    assert json.loads((tmp_path / "kept/character-condition/paper/record.json").read_text())["scale"] == "paper"


@pytest.mark.slow
def test_verify_says_where_the_verdict_differs_or_there_is_none(elegans, monkeypatch):
    old = json.loads(json.dumps(verdict_of(CLAIM)[0].content))
    old["verdicts"][CLAIM] |= {"verdict": "fails", "because": "it was otherwise"}
    one = replace(verdict_of(CLAIM)[0], content=old)
    monkeypatch.setattr(evidence, "collected", lambda kind="": () if kind else (one,))
    code, out, _ = elegans("verify", CLAIM)
    assert (code, out.splitlines()[-2:]) == (1, ["evidence   fails: it was otherwise", "the verdict differs"])
    monkeypatch.setattr(evidence, "collected", lambda kind="": ())
    code, out, _ = elegans("verify", CLAIM, "--scale", "paper")
    assert (code, out.splitlines()[-1]) == (0, "evidence   none at scale paper")


def test_verify_asks_for_a_scale_where_there_is_no_evidence(elegans, monkeypatch):
    monkeypatch.setattr(evidence, "collected", lambda kind="": ())
    code, out, err = elegans("verify", CLAIM)
    assert (code, out) == (2, "")
    assert err == f"error: {CLAIM} has no evidence yet: choose a --scale of character-condition\n"


def test_every_claim_with_evidence_is_shown(elegans):
    for name in sorted({claim for one in collected() for claim in one.verdicts}):
        code, out, _ = elegans("claims", name)
        assert code == 0 and out.startswith(f"{name}\n"), name


def test_effects_are_written_for_the_claims_that_are_listed(elegans, tmp_path):
    file = tmp_path / "effects.csv"
    code, out, _ = elegans("claims", "--study", "staircases", "--csv", str(file))
    rows = file.read_text().splitlines()
    assert code == 0 and out.splitlines()[-1].startswith(f"effects {file}: {len(rows) - 1} numbers of ")
    assert rows[0].startswith("claim,study,scale,verdict,part,estimate") and "staircases/" in rows[1]
    assert "false verdicts to expect among them: at most " in out.splitlines()[-2]


@pytest.mark.parametrize(
    ("errors", "bound"), [(0, "0.0"), (0.0039, "0.004"), (0.04, "0.04"), (0.1, "0.1"), (2.31, "2.4"), (3, "3.0")]
)
def test_a_bound_on_false_verdicts_is_rounded_up(errors, bound):
    assert _rounded_up(errors) == bound


@pytest.mark.parametrize("name", ["lottery-tickets", "grokking", "double-descent"])
def test_an_experiment_s_claims_are_listed_by_its_name_even_if_another_s_claim_has_it(elegans, name):
    code, out, _ = elegans("claims", name)
    names = set.union(*listed(out).values())
    assert code == 0 and names == {claim.id for claim in claims().values() if claim.experiment == name}


def test_a_claim_with_its_experiment_s_name_is_shown_before_the_others(elegans):
    out = elegans("claims", "robust-space")[1]
    others = {claim.id for claim in claims().values() if claim.experiment == "robust-space"} - {"progress/robust-space"}
    assert out.startswith("progress/robust-space\n  states ")
    *_, shown = out.split("\n\n")
    assert f"robust-space is also an experiment, with {len(others) + 1} claims; the others:" in shown
    assert {line.split(":")[0].strip() for line in shown.splitlines()[1:]} == others


def test_a_claim_that_is_unknown_is_answered_with_the_nearest(elegans):
    assert elegans("claims", "indction")[2] == "error: unknown claim 'indction'; did you mean 'induction'?\n"
    assert elegans("list", "indction")[2] == "error: no experiment mentions 'indction'; did you mean 'induction'?\n"
    unknown = (
        "unknown claim 'moonlight'; `elegans claims` lists all, and a claim of your own file needs --import own.py"
    )
    assert elegans("claims", "moonlight")[2] == f"error: {unknown}\n"
    assert (
        elegans("claims", "robust-spacee")[2] == "error: unknown claim 'robust-spacee'; did you mean 'robust-space'?\n"
    )


def test_claims_that_no_trial_decides_are_computed_and_not_as_published(elegans):
    for experiment, computed in (("selection-lemmas", True), ("training-curves", False)):
        lines = elegans("claims", experiment)[1].splitlines()
        assert any(line.startswith("(computed): ") for line in lines) == computed
        assert any(" (computed): " in line for line in lines) == computed
        assert any(" (paper): " in line for line in lines) != computed


def test_part_is_explained_where_it_is_listed(elegans):
    legend = "(part): the run covers a part of the published setting, which `elegans claims ID` names"
    for experiment in ("success-frontier", "character-condition"):
        lines = elegans("claims", experiment)[1].splitlines()
        assert (legend in lines) == any(" (part): " in line for line in lines) == (experiment == "success-frontier")
    assert "part is what decides the claims of paper" in elegans("list", "success-frontier")[1]
    assert "part is" not in elegans("list", "character-condition")[1]


def test_claims_that_mention_a_word_are_listed_in_one_line_each(elegans, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = elegans("claims", "lottery")
    names = set.union(*listed(out).values())
    assert code == 0 and "pareto/lottery-ticket-learns" in names and max(map(len, out.splitlines()[:-1])) <= 80
    assert names == {
        claim.id for claim in claims().values() if "lottery" in f"{claim.id} {claim.statement} {claim.source}".lower()
    }


def test_a_claim_in_full_is_wrapped_at_words(elegans, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    narrow = elegans("claims", CLAIM)[1]
    monkeypatch.delenv("COLUMNS")
    assert narrow.split() == elegans("claims", CLAIM)[1].split()  # the same words
    assert max(len(line) for line in narrow.splitlines() if " " in line.strip()) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((CLAIM, "--csv", "effects.csv"), f"error: --csv writes a list of claims: {CLAIM} is a single claim"),
        (("--csv", "/dev/null"), "error: a table of effects must go to a regular file: /dev/null"),
        (("--csv", "no/such/folder.csv"), "error: a table of effects must go to a writable folder: no/such"),
    ],
)
def test_effects_are_refused_where_they_cannot_be_written(elegans, words, message):
    code, _, err = elegans("claims", *words)
    assert code != 0 and err.startswith(message)

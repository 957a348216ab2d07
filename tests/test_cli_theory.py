"""``elegans theory``: the catalogue in the terminal, and values of calculators."""

import pytest

from elegans import theory
from elegans.calculators.catalogue import as_entry
from elegans.cli import main
from elegans.cli.calculators import plain, title


@pytest.fixture
def elegans(capsys):
    """Run a command line; return its exit code, output and error output."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def test_every_calculator_has_one_line_below_its_study(elegans):
    code, out, _ = elegans("theory")
    *blocks, last = out.strip().split("\n\n")
    assert code == 0 and last.startswith(f"{len(theory.catalogue())} calculators; ")
    listed = {block.split("\n")[0]: block.split("\n")[1:] for block in blocks}
    expected = {}
    for entry in theory.catalogue():
        expected.setdefault(title(entry.study), []).append(f"  {entry.name}{entry.signature}  {plain(entry.summary)}")
    assert listed == expected


def test_an_entry_begins_with_what_is_returned():
    assert [entry.name for entry in theory.catalogue() if entry.summary.startswith("Return")] == []
    assert as_entry("Return, by set, a bound.") == "By set, a bound."
    assert as_entry("Return k: the size.") == "k: the size."


def test_a_word_filters_and_a_name_shows_formula_and_source(elegans):
    code, out, _ = elegans("theory", "capacity")
    named = [line.strip().partition("(")[0] for line in out.splitlines() if line.startswith("  ")]
    mentioned = {entry.name for entry in theory.catalogue() if "capacity" in f"{entry.name} {entry.summary}".lower()}
    assert code == 0 and mentioned <= set(named) and "head_capacity" in named
    (entry,) = (entry for entry in theory.catalogue() if entry.name == "head_capacity")
    out = elegans("theory", "head_capacity")[1]
    assert f"  formula     {entry.formula}\n  source      {entry.source}\n" in out


def test_one_calculator_says_how_it_is_called(elegans):
    _, out, _ = elegans("theory", "information_bits")
    assert (
        "  k        the size of the support, from 1 to n.\n  call     elegans theory information_bits n=… k=…\n" in out
    )
    _, out, _ = elegans("theory", "leap")
    call = "elegans.theory.leap(sets=[[0, 1], [2, 3]])"
    assert f"  call     in Python: {call}\n" in out and "  sets     the sets S with a coefficient that is not 0;" in out
    assert theory.leap(sets=[[0, 1], [2, 3]]) == 2


def test_a_name_in_full_is_followed_by_the_calculators_that_mention_it(elegans):
    _, out, _ = elegans("theory", "leap")
    assert out.count("source") == 1 and "\n  label_leap(values)  The leap of all sets" in out
    assert "\n\nothers that mention leap:\n" in out and "\n4 calculators; " in out


def test_code_in_a_calculators_text_has_single_backticks(elegans):
    _, out, _ = elegans("theory", "dense_gradients")
    assert "drawn as `DenseInit` draws them" in out and "(stream `init`)" in out
    assert "``" not in out + elegans("theory")[1]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["information_bits", "n=50", "k=3"], ["14.25856603"]),
        (["p_good_over", "n=50", "k=2", "s=9"], ["36/1225 = 0.0293877551"]),
        (["information_bits", "n=1e3", "k=2"], [f"{theory.information_bits(1000, 2):.10g}"]),
        (["support_agreement", "function=and", "k=3", "overlap=2", "p=1/2"], ["7/8 = 0.875"]),
        (["linear_cover", "norm=1", "input_norm=1", "points=1000", "epsilon=0.1"], ["40818.90234"]),
        (["selection_norms", "T=8", "s=2", "gamma=1", "encoding=bag", "form=printed"], None),
        (["memoriser_units", "s=3"], ["96, 16"]),
        (["attention_pdim_bound", "T=100"], ["6"]),
    ],
)
def test_calculators_are_evaluated(elegans, arguments, lines):
    code, out, err = elegans("theory", *arguments)
    assert (code, err) == (0, "")
    if lines is None:
        found = dict(line.split() for line in out.splitlines())
        wanted = theory.selection_norms(8, 2, 1, "bag", form="printed")._asdict()
        assert {name: float(value) for name, value in found.items()} == pytest.approx(wanted)
    else:
        assert out.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hed_capacity"], "no calculator is called 'hed_capacity' or mentions it; did you mean 'head_capacity'?"),
        (["zzzzzz"], "no calculator is called 'zzzzzz' or mentions it; `elegans theory` lists all"),
        (
            ["information", "n=5"],
            "a calculator must be named in full to be evaluated: 'information'; for example 'information_bits'",
        ),
        (["information_bits", "n=50"], "information_bits needs 'k': information_bits(n, k)"),
        (["information_bits", "n=50", "k"], "an argument must be name=value, as in n=50: 'k'"),
        (["information_bits", "n=50", "kk=3"], "information_bits has no argument 'kk'; did you mean 'k'?"),
        (["information_bits", "n=fifty", "k=3"], "n must be a number: n='fifty'"),
        (["information_bits", "n=50.5", "k=3"], "n must be a whole number: n='50.5'"),
        (["information_bits", "n=inf", "k=3"], "n must be a whole number: n='inf'"),
        (["information_bits", "n=true", "k=3"], "n must be a number: n='true'"),
        (["information_bits", "n=3", "k=50"], "k must be at most n (an (n, k)-parity): k=50, n=3"),
        (
            ["depth_capacity", "readout=1"],
            "blocks is neither a number nor a string, so call depth_capacity in Python: elegans.theory.depth_capacity(",
        ),
        (
            ["head_capacity", "value_rows=1", "value=1", "merged_rows=1", "points=9", "form=pritned"],
            "form must be one of corrected, printed, printed-main, unit-query: form='pritned'",
        ),
        (
            ["support_agreement", "function=adn", "k=3", "overlap=1"],
            "unknown booleanfunction 'adn'; did you mean 'and'?",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_rule_and_value(elegans, arguments, message):
    code, out, err = elegans("theory", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and message in err and len(err.splitlines()) == 1

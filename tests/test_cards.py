"""What notebooks show of objects."""

import importlib
import inspect
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import elegans as el
from elegans.analysis import Growth, kaplan_meier
from elegans.certificates import Certificate, SupportReadout
from elegans.display import card, sparkline
from elegans.experiments.claims import Claim, Verdict
from elegans.experiments.run import run_experiment
from elegans.training.outcome import Curve, ErrorCurve

TRIAL = el.Trial(
    task=el.SparseParity(n=10, k=1),
    regime=el.Sample(50),
    model=el.MLP(width=5),
    training=el.SGD(steps=300, stopping=el.StoppingRule(every=20, stop=False)),
)
HOLDS = Verdict("holds", "")
CLAIM = Claim(id="work/<b>", statement="a < b", source="figure 1", rule="none", decide=lambda tables: HOLDS)
CERTIFICATE = Certificate("proved", (0, 3), 0.5, 0.75, np.ones(10, np.int8), 7, "branching", 1e-6)
READ_OUT = SupportReadout((0, 3), np.arange(10), np.ones(10), 12.5, "weights", True)


def parsed(shown: str) -> dict[str, str]:
    """Return the facts of a card, which has to be well-formed."""
    rows = ET.fromstring(shown).iter("tr")
    return {row[0].text or "": row[1].text or "" for row in rows}


@pytest.mark.parametrize(
    ("thing", "fact", "value"),
    [
        (TRIAL, "model", "mlp(width=5)"),
        (el.grid(TRIAL, {"model.width": [5, 6]}, seeds=3), "model.width", "5, 6"),
        (CLAIM, "states", "a < b"),
        (CERTIFICATE, "smallest margin", "0.5 to 0.75"),
        (READ_OUT, "support", "0, 3"),
    ],
)
def test_a_notebook_shows_an_object_as_a_card_of_facts(thing: object, fact: str, value: str) -> None:
    assert parsed(thing._repr_html_())[fact] == value  # type: ignore[attr-defined]


def test_a_notebook_shows_an_outcome_with_its_curves() -> None:
    outcome = el.train(TRIAL, progress=False)
    shown = outcome._repr_html_()
    assert parsed(shown)["state"].startswith(outcome.state)
    lines = [line.attrib["points"].split() for line in ET.fromstring(shown).iter("polyline")]
    assert [len(points) for points in lines] == [len(outcome.curve.step)] * 2


def test_an_outcome_gives_all_errors_as_shares_like_its_attributes_and_steps_with_separators() -> None:
    curve, errors = Curve([1200], [0.5], [0.25]), ErrorCurve([1200], [0.5], [0.0], [0.125])
    outcome = el.Outcome(TRIAL, "solved", 1200, 0.125, 0.0, steps=1200, engine="jax", curve=curve, errors=errors)
    shown = f"{outcome!r}"
    assert shown.startswith("Outcome(solved at step 1,200, 1,200 steps, test error 0.125, train error 0; 0 s on jax\n")
    assert "ErrorCurve(1 point to step 1,200: train 0, test 0.125 at the end)" in shown


@pytest.mark.slow
def test_a_notebook_shows_a_result_with_its_figure_and_verdicts(tmp_path) -> None:
    shown = run_experiment("random-networks", "smoke", out=tmp_path)._repr_html_()
    assert parsed(shown)["progress/random-networks-far-from-parity"].startswith("undecided: ")
    assert "data:image/png;base64," in shown
    checks = run_experiment("certificates-parity", "smoke", out=tmp_path)._repr_html_()
    assert parsed(checks)["margins/theorem-7.8"].startswith("holds: ") and "image" not in checks


def test_text_in_a_card_is_escaped_and_what_is_missing_is_left_out() -> None:
    assert parsed(card("<script>", {"a & b": "<i>", "none": None})) == {"a & b": "<i>"}


def test_a_curve_leaves_out_values_that_are_not_finite() -> None:
    drawn = ET.fromstring(sparkline([1, 2, 3], [1.0, math.nan, 0.5], "loss"))
    (line,) = drawn.iter("polyline")
    assert len(line.attrib["points"].split()) == 2
    assert sparkline([1], [1.0], "loss") == ""


@pytest.mark.parametrize(
    "package", ["analysis", "certificates", "experiments", "groups", "sweeps", "tabular", "training"]
)
def test_every_result_of_a_public_function_displays_in_notebooks(package):
    module = importlib.import_module(f"elegans.{package}")
    functions = [each for name in dir(module) if inspect.isfunction(each := getattr(module, name))]
    returned = {inspect.signature(each).return_annotation for each in functions}
    results = [each for each in returned if isinstance(each, type) and each.__module__.startswith("elegans")]
    assert [each.__name__ for each in results if not hasattr(each, "_repr_html_")] == []


def test_results_print_in_one_line_with_arrays_and_tables_by_their_shapes():
    support = "support=(0, 3), order=ndarray (10,), scores=ndarray (10,), gap=12.5, by='weights', correct=True"
    assert repr(READ_OUT) == f"SupportReadout({support})"
    survival = kaplan_meier(np.array([1.0, 2.0, 3.0]))
    assert repr(survival).startswith("Survival(table=DataFrame (3, 6), median=2, low=1, high=")
    assert parsed(survival._repr_html_())["table"] == "DataFrame (3, 6)"
    growth = Growth(*range(len(Growth._fields)))
    assert repr(growth).startswith("Growth(") and parsed(growth._repr_html_()).keys() == {*Growth._fields}
    network = el.train(TRIAL).network
    assert parsed(network._repr_html_())["hidden.weight"] == "5 x 10"

"""Pages quote numbers from the committed evidence, and hold none of their own."""

import json
import os
import re
from collections import Counter
from html import unescape
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import calculators
import dark
import docstrings
import extension_points
import figures
import griffe
import hooks
import jinja2
import listing
import macros
import numerals
import pytest
import quoted
from formulas import formatted
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from typeset import typeset

from elegans import discovery
from elegans.discovery import calculator_homes, studies
from elegans.experiments.registry import claims, entries, find
from elegans.plots.style import LARGE, MEDIUM, panels, title_figure
from elegans.theory import catalogue

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("value", "style", "text"),
    [
        (1.2345, {}, "1.23"),
        (1.2345, {"interval": [1.2, 1.3]}, "1.23 (1.20 to 1.30)"),
        (1.2345, {"interval": [1.2, 1.3], "bare": True}, "1.23"),
        (0.98765, {"percent": True}, "98.8%"),
        (1.0, {"percent": True, "interval": [0.5, 1.0]}, "100% (50% to 100%)"),
        (0.096, {"percent": True, "interval": [0.06, 0.14]}, "9.6% (6.0% to 14.0%)"),
        (-0.0512, {"signed": True}, "−0.0512"),  # noqa: RUF001
        (0.59, {"signed": True}, "+0.59"),
        (0.0512, {"signed": True}, "+0.0512"),
        (1670.0, {"interval": [1510.0, 1760.0]}, "1670 (1510 to 1760)"),
        (1234.56, {}, "1235"),
        (12345.6, {}, "12,346"),
        (2.5e-7, {}, "2.5 × 10⁻⁷"),  # noqa: RUF001
        (3.25e8, {}, "3.25 × 10⁸"),  # noqa: RUF001
        (9.996e-7, {}, "10⁻⁶"),
        (-5e-324, {}, "−4.94 × 10⁻³²⁴"),  # noqa: RUF001
        (None, {}, "∞"),
        (float("inf"), {}, "∞"),
        (5, {"interval": [4, None]}, "5 (4 to ∞)"),
        (0.05, {"interval": [0.002, 1.3]}, "0.05 (0.00 to 1.30)"),
        (0.999996, {"interval": [0.999995, 0.999997]}, "0.999996 (0.999995 to 0.999997)"),
        ("error_below_1_percent", {}, "error below 1%"),
        ([57, 60], {}, "57 of 60"),
        ([0.5, 0.25, 0.75], {}, "0.50 (0.25 to 0.75)"),
        ({"median": 0.5, "interval": [0.25, 0.75]}, {}, "0.50 (0.25 to 0.75)"),
        ("holds", {}, "holds"),
        (0.0, {}, "0"),
    ],
)
def test_values_of_the_evidence_become_text(value: object, style: dict[str, object], text: str) -> None:
    assert quoted.text_of(value, **style) == text  # type: ignore[arg-type]


def test_a_number_that_the_evidence_lacks_is_refused() -> None:
    evidence = quoted.evidence_of("width")
    assert quoted.found(evidence, ["(30, 3)", "width 10", "trials"]) == "200"
    with pytest.raises(quoted.NotInEvidence, match="'width 11' is none of width 1, "):
        quoted.found(evidence, ["(30, 3)", "width 11", "trials"])
    with pytest.raises(quoted.NotInEvidence, match="without a main number"):
        quoted.found(evidence, ["(30, 3)"])
    with pytest.raises(quoted.NotInEvidence, match="no evidence of width"):
        quoted.evidence_of("width", scale="laptop")


def test_an_interval_that_belongs_to_another_number_is_refused() -> None:
    with pytest.raises(quoted.NotInEvidence, match=r"must contain its number: 2150.0, \[0.801, 0.974\]"):
        quoted.text_of({"median_steps": 2150.0, "interval": [0.801, 0.974]})


def test_tables_are_made_from_findings_and_refused_from_too_many_rows() -> None:
    shown = quoted.findings_table(
        quoted.evidence_of("width"), ["(30, 3)"], {"median_steps": "steps", "absent": "nothing"}, first="width"
    )
    assert shown.splitlines()[:2] == ["| width | steps | nothing |", "| --- | ---: | ---: |"]
    assert "| width 10 | 1670 (1510 to 1760) |  |" in shown
    kernels = quoted.findings_table(quoted.evidence_of("xor-samples"), [], {"solved": "solved"}, first="learner")
    assert "| tangent kernel | 70 of 70 |" in kernels and "kernel_errors" not in kernels
    variants = quoted.findings_table(
        quoted.evidence_of("xor-variants"), [], {"error_at_the_end/1": "median error"}, first="variant", percent=True
    )
    assert "| XOR of Gaussian inputs | 1.4% |" in variants
    predictors = ["quadratic, 50% of the pairs", "50% of the median", "predictors"]
    measures = quoted.evidence_of("grokking-measures", "laptop")
    lists = quoted.findings_table(measures, predictors, {"0": "correlation", "1": "low"}, first="predictor")
    assert re.search(r"\| held-out loss \| 0\.\d+ \| 0\.\d+ \|", lists)
    assert "steps taken" not in lists  # a constant has no correlation
    with pytest.raises(quoted.NotInEvidence, match=r"no member of the findings of grokking-measures.*\['median'\]"):
        quoted.findings_table(measures, predictors, {"median": "median"}, first="predictor")
    with pytest.raises(quoted.NotInEvidence, match=r"has \d{6,} rows with {}, not 1 to 10"):
        quoted.csv_table(quoted.evidence_of("theorem-5.8"), None, {"k": "k"}, {}, 10)


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("n^k log(n/epsilon)", "n<sup>k</sup> log(n/ε)"),
        ("k! sqrt(2 (k + 1)^-(k + 1))", "k! √(2 (k + 1)<sup>−(k + 1)</sup>)"),  # noqa: RUF001
        ("n^Omega(k), O(n'^(1 - k/2))", "n<sup>Ω(k)</sup>, O(n'<sup>1 − k/2</sup>)"),  # noqa: RUF001
        (
            "L_{2,3} on S_5, xi_(k+1)/2, ||u*||_2",
            "L<sub>2,3</sub> on S<sub>5</sub>, ξ<sub>k+1</sub>/2, ‖u*‖<sub>2</sub>",
        ),
        ("1/sqrt(n), sqrt(n)^k", "1/√n, √(n)<sup>k</sup>"),
        ("||v||_inf <= ||v||_F", "‖v‖<sub>∞</sub> <= ‖v‖<sub>F</sub>"),
        ("d^max(L - 1, 1) examples", "d<sup>max(L − 1, 1)</sup> examples"),  # noqa: RUF001
        ("far fewer than all", "far fewer than all"),
        ("(xi), k = 3, of xi_3: (xi)", "(xi), k = 3, of ξ<sub>3</sub>: (xi)"),
    ],
)
def test_formulas_of_claims_are_set(plain: str, shown: str) -> None:
    assert formatted(plain) == shown


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("is -0.07 (-0.35 to 0.23), p = 4.5e-14", "is −0.07 (−0.35 to 0.23), p = 4.5 × 10⁻¹⁴"),  # noqa: RUF001
        ("is 0.8755 (0.7975 to 0.9401); claimed: -0.552962", "is 0.88 (0.80 to 0.94); claimed: −0.553"),  # noqa: RUF001
        ("9.60% (6% to 14.0%) after 100000 steps", "9.6% (6.0% to 14.0%) after 100,000 steps"),
        ("1.057 (0.9298 to 1e+300), by -0% (-4% to inf)", "1.06 (0.93 to ∞), by 0% (−4% to ∞)"),  # noqa: RUF001
        ("ratios rise: True; a True story", "ratios rise: yes; a True story"),
        ("0.4737 above 48.75%; claimed: at most 0.4875", "0.474 above 48.75%; claimed: at most 0.4875"),
        ("rate 1e-05, 1 - 7e-12", "rate 10⁻⁵, 1 − 7 × 10⁻¹²"),  # noqa: RUF001
        ("121 of 200 (0.499 to 0.704) at (30, 3), 2026-11-26", "121 of 200 (0.499 to 0.704) at (30, 3), 2026-11-26"),
    ],
)
def test_numbers_in_reasons_are_set(kept: str, shown: str) -> None:
    assert numerals.set_numbers(kept) == shown
    assert listing.set_in_page(kept).endswith(shown)


def test_numbers_in_reasons_are_rounded_once() -> None:
    exact = numerals.exact_numbers({"d": {"estimate": 1.36449, "limits": [1.23464, 1.49361]}, "p": 0.15648, "of": 12})
    kept = "is 1.364 (1.235 to 1.494), p = 0.1565, of 12"
    assert numerals.set_numbers(kept) == "is 1.36 (1.24 to 1.49), p = 0.157, of 12"
    assert numerals.set_numbers(kept, exact) == "is 1.36 (1.23 to 1.49), p = 0.156, of 12"


def test_minus_signs_are_set_in_text_alone() -> None:
    html = '<p class="a-1">in [-1, 1], 2-sparse, 17.2-27 <code>-1</code></p><span class="arithmatex">\\(-1\\)</span>'
    assert numerals.signed(html) == html.replace("[-1", "[−1")  # noqa: RUF001


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("gamma_k >= 0.03 (n - 1)^(-(k - 1) / 2)", r"[\gamma _{k} \ge  0.03 (n-1)^{-(k-1)/2}]"),
        ("k ln(k / epsilon), at most 1", r"[k \ln (k/\varepsilon )], at most [1]"),
        ("(C(n, k) - 1) 2^-(n - k + 1)", r"[(\binom{n}{k}-1) 2^{-(n-k+1)}]"),
        ("max_{i not in S} |G_i|; printed: ||w^(1)||_2", r"[\max _{i\notin S} |G_{i}|]; printed: [\|w^{(1)}\|_{2}]"),
        ("E[1{w . x > 0} x_i] by ``sample``", r"[\mathbb{E}[\mathbf{1}\{w\cdot x>0\}x_{i}]] by <code>sample</code>"),
        ("sum over a cell of n'^2 (two words)", r"sum over a cell of [{n^{\prime }}^{2}] (two words)"),
        ("integral over 0..m* of V(m) dm", r"integral over [0,\dots,m^{*}] of [V(m) \mathrm{d}m]"),
        ("hat Maj_n(d) = sqrt(2 / (3p))", r"[\widehat{\operatorname{Maj}}_{n}(d) = \sqrt{2/(3p)}]"),
    ],
)
def test_formulas_of_calculators_are_typeset(plain: str, shown: str) -> None:
    html = typeset(plain).replace(r'<span class="arithmatex">\(', "[").replace(r"\)</span>", "]")
    assert html.replace(r"\gt ", ">") == shown


def test_katex_knows_every_command_of_every_formula() -> None:
    known = (DOCS / "assets" / "katex" / "katex.min.js").read_text()
    formulas = {one.name: typeset(one.formula) for one in catalogue()}
    assert len(formulas) > 400 and any(r"\(" in html for html in formulas.values())
    for html in formulas.values():
        for tex in re.findall(r'<span class="arithmatex">\\\((.*?)\\\)</span>', html):
            assert_valid(unescape(tex), known)


@pytest.mark.parametrize("one", listing.misprints(), ids=lambda one: one["statement"])
def test_an_erratum_is_valid_tex(one: dict[str, str]) -> None:
    known = (DOCS / "assets" / "katex" / "katex.min.js").read_text()
    for text in (one["statement"], one["printed"], one["holds"]):
        assert text.count("$") % 2 == 0 and "|" not in text
        for tex in text.split("$")[1::2]:
            assert_valid(tex, known)
        assert not re.search(r"[\^√∑]|\w_\w|<=|\\", "".join(text.split("$")[::2])), text


def assert_valid(tex: str, known: str) -> None:
    """Fail unless braces match and KaTeX, whose source is given, knows all commands."""
    assert [one for one in re.findall(r"\\([A-Za-z]+|.)", tex) if f'"\\\\{one}"' not in known] == [], tex
    braces = re.sub(r"\\.", " ", tex)
    depths = list(accumulate((one == "{") - (one == "}") for one in braces))
    assert min(depths) == 0 == depths[-1], tex
    assert not re.search(r"\^\{[^{}]*\}\^|_\{[^{}]*\}_|[_^]\s*(?:$|[_^)}])", braces), tex


def test_a_formula_whose_brackets_do_not_match_is_refused() -> None:
    with pytest.raises(ValueError, match="a bracket is not closed"):
        typeset("sqrt(2 (n - 1)")
    with pytest.raises(ValueError, match="a bracket closes that was not opened"):
        typeset("n - 1)")


@pytest.mark.slow
def test_every_calculator_stands_on_one_page_of_theory() -> None:
    pages = "\n".join(path.read_text() for path in sorted((DOCS / calculators.FOLDER).glob("*.md")))
    modules = Counter(re.findall(r"^::: (elegans\.[\w.]+)$", pages, re.MULTILINE))
    homes = calculator_homes()
    assert {modules[homes[one.name]] for one in catalogue()} == {1}
    own = [study for study in (calculators.SHARED, *studies()) if any(one.study == study for one in catalogue())]
    assert [study for study in own if not (DOCS / calculators.FOLDER / f"{study}.md").exists()] == []
    index = calculators.calculators()
    assert "`" not in index and "sqrt(" not in index  # names are code with links, and summaries and sources are set
    rows = re.findall(r'<tr><td><a href="(\w+)/#([\w.]+)"', index)
    assert sorted(rows) == sorted((one.study, f"{homes[one.name]}.{one.name}") for one in catalogue())


def test_the_signature_of_a_component_has_its_fields() -> None:
    module = griffe.Module("elegans.tasks.monomials")
    documented = griffe.Class(
        "MonomialSum", docstring=griffe.Docstring("A sum.\n\nArgs: as ``Supported``, and\n    k: n.")
    )
    module.set_member("MonomialSum", documented)
    docstrings.Formulas().on_class(cls=documented)
    assert {one.name: (str(one.annotation), one.default) for one in documented.parameters} == {
        "n": ("int", None),
        "k": ("int", None),
        "support": ("tuple[int, ...] | None", "None"),
        "sets": ("tuple[tuple[int, ...], ...]", None),
        "coefficients": ("tuple[float, ...] | None", "None"),
    }
    assert documented.docstring
    assert documented.docstring.value == "A sum.\n\nArguments as for ``Supported``, and:\n\nArgs:\n    k: n."


def test_the_formula_of_a_docstring_becomes_a_paragraph_with_links() -> None:
    text = "It, x_1.\n\nFormula: gamma* of ``sq_queries``; printed: 2^n.\nSource: Lemma 1, a < b.\n\nArgs:\n    n: n*."
    assert docstrings.with_formulas(text) == (
        'It, x<sub>1</sub>.\n\n<p class="formula"><b>Formula.</b> '
        '<span class="arithmatex">\\(\\gamma ^{*}\\)</span> of '
        f'<autoref identifier="{calculator_homes()["sq_queries"]}.sq_queries"><code>sq_queries</code></autoref>;'
        '<br><i>printed</i>: <span class="arithmatex">\\(2^{n}\\)</span>.</p>\n\n'
        '<p class="source"><b>Source.</b> Lemma 1, a &lt; b.</p>\n\nArgs:\n    n: n\\*.'
    )
    assert calculators.with_links("`sq_queries`, `x`\n```\n`sq_queries`\n```") == (
        f"[`sq_queries`][{calculator_homes()['sq_queries']}.sq_queries], `x`\n```\n`sq_queries`\n```"
    )


def test_products_and_bars_in_reasons_are_not_taken_for_markup() -> None:
    assert listing.reason("x*y and |z|, x*z", {"numbers": {}}) == "x&#42;y and &#124;z&#124;, x&#42;z"
    folded = listing.reason("a*b " * listing.SHORT, {"numbers": {}})
    assert folded.startswith("<details><summary>a&#42;b ") and "*" not in folded


def test_a_claim_whose_run_lacks_trials_says_so_once() -> None:
    for claim in claims().values():
        assert not re.search(r"This run lacks (.+)\. To decide it: \1\.", listing.why(claim)), claim.id


def test_every_claim_stands_in_the_results() -> None:
    rows = re.findall(r'<tr data-study="(\w+)" data-verdict="([\w ]+)">', listing.results())
    assert len(rows) == len(claims())
    assert {study for study, _ in rows} == studies().keys()
    assert {verdict for _, verdict in rows} <= set(listing.WORDS)


def test_the_questions_list_the_works_of_all_studies() -> None:
    assert re.findall(r"\(studies/(\w+)\.md\)", listing.works_list()) == list(studies())
    assert "{{ works_list() }}" in (DOCS / "faq.md").read_text()


def test_every_study_and_every_experiment_has_a_page_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text()
    pages = [f"studies/{name}.md" for name in studies()] + [f"experiments/{name}.md" for name in entries()]
    assert [page for page in pages if f"- {page}\n" not in navigation or not (DOCS / page).exists()] == []


def test_the_site_leaves_out_studies_of_other_distributions(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "__init__.py").write_text('"""A study that somebody has installed."""')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(discovery, "entry_points", lambda **_: [SimpleNamespace(name="foreign", value="foreign")])
    own = studies().keys()
    discovery.studies.cache_clear()
    assert studies().keys() - own == {"foreign"}
    hooks.on_startup(command="build", dirty=False)
    assert studies().keys() == {path.stem for path in (DOCS / "studies").glob("*.md")}
    monkeypatch.undo()
    discovery.studies.cache_clear()


@pytest.mark.parametrize("one", listing.misprints(), ids=lambda one: one["statement"])
def test_every_erratum_names_a_test_of_its_function(one: dict[str, str]) -> None:
    file, _, name = one["test"].partition("::")
    text = (DOCS.parent / file).read_text()
    body = re.search(rf"\ndef {name}\(.*?(?=\n(?:def |@|class )|\Z)", text, re.DOTALL)
    assert body, one["test"]
    functions = [function.rpartition(".")[2] for function in re.findall(r"`([^`]+)`", one["functions"])]
    assert functions
    if one["statement"] != "Table D.1":  # its test compares the group's characters with a table of its own
        assert any(re.search(rf"\b{function}\b", body[0], re.IGNORECASE) for function in functions), functions


def test_every_public_name_is_documented_on_a_reference_page() -> None:
    pages = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)", pages, re.MULTILINE))
    missing = [
        name
        for names in listing.public_names().values()
        for name, one in names.items()
        if not any(f"{one.__module__}.{one.__qualname__}".startswith((module + ".", module)) for module in shown)
    ]
    assert missing == []


def test_the_base_of_every_family_is_on_the_page_of_extension_points() -> None:
    source = "\n".join(path.read_text() for path in (DOCS.parent / "src").rglob("*.py"))
    families = set(re.findall(r"^class (\w+)\(\w+, family=True", source, re.MULTILINE))
    assert "Task" in families
    page = extension_points.extension_points()
    assert {name for name in families if f"\nclass {name}(" not in page} == set()
    assert "    @abstractmethod\n    def examples(" in page


def test_pages_hold_no_typed_result() -> None:
    pages = {path.stem: path.read_text() for path in (DOCS / "experiments").glob("*.md")}
    assert {name: found for name, text in pages.items() if (found := hooks.complaints(name, text))} == {}
    text = pages["width"]
    assert hooks.complaints("width", text + '\n??? note "Numbers"\n\n    | n | steps |\n    | --- | --- |\n') == [
        "Numbers: its table is typed by hand"
    ]
    assert hooks.complaints("width", text.replace("**Answer.**", "**Answer.** It is undecided.")) == [
        "'undecided' stands before the figure"
    ]
    assert hooks.complaints("width", text.replace("\n\n**Claim.**", "\n\nClaim.")) == [
        "'**Claim.**' is missing, or comes too early"
    ]
    assert hooks.complaints("width", text.replace("**Answer.**", "**Answer.** 3 of 4 hold:")) == [
        "answer: '3 of 4' is typed by hand"
    ]


def _rendered(path: Path) -> str:
    """Return a page with its macros replaced, and an experiment's page with its verdicts."""
    macros_of: dict[str, object] = {}
    file = SimpleNamespace(src_uri=str(path.relative_to(DOCS)))
    page = SimpleNamespace(file=file)
    macros.define_env(
        SimpleNamespace(page=page, macro=lambda one, name=None: macros_of.update({name or one.__name__: one}))
    )
    text = jinja2.Environment(comment_start_string="{##").from_string(path.read_text()).render(**macros_of)
    return hooks.with_evidence(entries()[path.stem], text) if path.parent.name == "experiments" else text


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    """Return the pages of experiments, studies and all claims, the gallery and the home page, with their numbers."""
    paths = [
        *(path for folder in ("experiments", "studies") for path in (DOCS / folder).glob("*.md")),
        *(DOCS / f"{name}.md" for name in ("results", "errata", "claims-audit", "index", "gallery")),
    ]
    return {str(path.relative_to(DOCS).with_suffix("")): _rendered(path) for path in paths}


@pytest.fixture(scope="module")
def shown(rendered: dict[str, str]) -> dict[str, str]:
    """Return these pages as HTML but for formulas and code."""
    return {
        name: re.sub(r"\$[^$]*\$|`[^`]*`|<code>.*?</code>|\]\([^)]*\)|<[^>]*>", "", text)
        for name, text in rendered.items()
    }


def test_no_page_says_undecided_before_its_first_figure_or_table(rendered: dict[str, str]) -> None:
    names = [name for name in rendered if "/" in name] + ["index", "gallery"]
    openings = {name: re.split(r"\]\((?:\.\./)*images/|<img |\n\| |\n## ", rendered[name])[0] for name in names}
    assert {name: found[0] for name, text in openings.items() if (found := hooks.OPEN.search(text))} == {}


def test_no_reason_on_a_page_leaves_out_what_is_missing(shown: dict[str, str]) -> None:
    stock = ("the tables do not have", "there are too few trials", "no committed run decides it")
    assert {name: phrase for name, text in shown.items() for phrase in stock if phrase in text} == {}


def test_a_page_without_claims_has_no_empty_table(rendered: dict[str, str]) -> None:
    page = rendered["experiments/xor-batches"]
    assert "**Verdicts.** no claim ·" in page and "## How it was decided" not in page


def test_a_reason_may_begin_with_a_greek_letter(rendered: dict[str, str]) -> None:
    assert "Alpha 2" not in rendered["experiments/icl-double-descent"]


def test_no_number_at_the_start_of_a_line_makes_a_list(rendered: dict[str, str]) -> None:
    pages = {name: text for name, text in rendered.items() if name.startswith("experiments/")}
    assert {name: found for name, text in pages.items() if (found := re.findall(r"^ *\d+[.)] .*", text, re.M))} == {}


HYPHEN = re.compile(r"(?<![\w.)\]-])-\.?\d.*")
"""A negative number with a hyphen for its sign."""


def test_no_negative_number_on_a_page_has_a_hyphen(shown: dict[str, str]) -> None:
    assert {name: found for name, text in shown.items() if (found := HYPHEN.findall(text))} == {}


def test_no_negative_number_of_a_phenomenon_has_a_hyphen() -> None:
    records = {path.stem: json.loads(path.read_text()) for path in (DOCS / "phenomena").glob("*.json")}
    assert "learning-rates" in records and HYPHEN.findall("moved by -5 powers of two")
    for name, record in records.items():
        titles = [part["title"] for part in (*record["charts"], *record["panels"])]
        assert HYPHEN.findall("\n".join([record["finding"], *map(str, record["moments"]), *titles])) == [], name


def test_every_image_of_a_page_is_described() -> None:
    pages = {path: path.read_text() for path in DOCS.rglob("*.md")}
    nameless = [path.name for path, text in pages.items() if re.search(r"!\[\s*\]\(|<img(?![^>]* alt=)", text)]
    assert nameless == []


LIGHT, DARK = {":root", '[data-md-color-scheme="default"]'}, {'[data-md-color-scheme="slate"]'}


@pytest.mark.parametrize(
    ("selectors", "page", "code"), [(LIGHT, "#ffffff", "#f5f5f5"), (DARK, "#1e2129", "#272a35")], ids=("light", "dark")
)
def test_colours_of_verdicts_and_code_have_enough_contrast(selectors: set[str], page: str, code: str) -> None:
    styles = re.sub(r"/\*.*?\*/", "", (DOCS / "assets" / "site.css").read_text(), flags=re.DOTALL)
    bodies = [body for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", styles) if selector.strip() in selectors]
    named = re.findall(r"(--[\w-]+): (#[0-9a-f]{6})\b", "".join(bodies))
    assert {"--holds", "--in-part", "--fails", "--open"} < {name for name, _ in named}
    assert [name for name, colour in named if _contrast(colour, code if "code" in name else page) < 4.5] == []


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2."""
    parts = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in (one, other)]
    linear = [[part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb] for rgb in parts]
    light, dark = sorted((0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("study", studies())
def test_every_figure_can_be_drawn_from_the_evidence_and_cuts_no_text(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: dict[str, list[str]] = {}

    def measure(figure: Figure, path: Path) -> None:
        """Stand in for writing the file, which takes most of the time."""
        cut[path.stem] = _cut(figure)
        path.touch()

    monkeypatch.setattr(figures, "_save", measure)
    for name, one in figures.nearest().items():
        drawable = name != "digit-parity" or "ELEGANS_MNIST" in os.environ
        if entries()[name].study == study and drawable:
            figures.draw(find(name), dict(one.tables), tmp_path)
    assert {name: texts for name, texts in cut.items() if texts} == {}


def _cut(figure: Figure) -> list[str]:
    """Return the texts of a figure that its edge cuts, but for labels of ticks, some of which are not drawn."""
    figure.draw_without_rendering()
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = [tick for axis in axes for minor in (False, True) for tick in axis.get_ticklabels(minor=minor)]
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text not in ticks]
    edge = figure.bbox.padded(0.5)
    return [text for text, box in boxes if not (edge.contains(*box.min) and edge.contains(*box.max))]


def test_a_line_of_wide_letters_is_broken_at_the_edge_of_its_figure() -> None:
    figure, _ = panels(1, 1, width=5.0)
    title_figure(figure, "WIDE MMMM " * 9, "MMMM wide " * 12)
    assert _cut(figure) == []
    assert len(figure.get_suptitle().strip().split("\n")) == 2


def test_figures_drawn_from_the_evidence_are_five_six_or_seven_inches_wide() -> None:
    known = figures.nearest()
    drawn = {name: DOCS / "images" / f"{name}.svg" for name in known if (DOCS / "images" / f"{name}.svg").exists()}
    widths = {name: re.findall(r' width="([\d.]+)pt"', path.read_text()[:2000]) for name, path in drawn.items()}
    assert {name: width for name, width in widths.items() if width not in (["360"], ["432"], ["504"])} == {}


TEXT = re.compile(
    r'^(?P<indent> +)<g id="text_\d+">\s*<!--(?P<text>.*?)-->'
    r'\s*<g (?:style="[^"]*" )?transform="[^"]*scale\((?P<size>\S+) ',
    re.MULTILINE | re.DOTALL,
)
"""A text of an SVG, with the share of a hundred points that is its size; those of a figure are indented by two."""


def _titles(path: Path) -> list[str]:
    """Return a figure's finding, else its panels' titles, which begin with a bold or a capital letter."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            return [image.info.get("Title", "")]
    texts = [(len(one["indent"]), float(one["size"]), one["text"].strip()) for one in TEXT.finditer(path.read_text())]
    above = [text for indent, size, text in texts if indent == 2 and size == LARGE / 100]
    inside = [text for indent, size, text in texts if indent > 2 and size == MEDIUM / 100]
    return above or [text.split("  ")[-1] for text in inside if text.startswith("$\\bf{") or text[0].isupper()]


def test_every_figure_says_above_its_panels_what_it_shows() -> None:
    drawn = [path for path in (DOCS / "images").iterdir() if path.stem in entries() and path.suffix in (".svg", ".png")]
    assert len(drawn) > 60
    assert [path.name for path in drawn if not any(len(text.split()) > 3 for text in _titles(path))] == []
    first = re.compile(r"\n\n\*(?!\*)(.+?)\.\s", re.DOTALL)
    captions = {path.stem: first.search(path.read_text()) for path in (DOCS / "experiments").glob("*.md")}
    assert [name for name, caption in captions.items() if not caption or len(caption[1].split()) < 4] == []


def test_a_figure_for_a_dark_page_keeps_the_colours_of_its_map_and_of_what_stands_on_it() -> None:
    figure, ((ax,),) = panels(1, 1)
    assert not dark.has_map(figure)
    mesh = ax.pcolormesh([[0.0, 1.0]], cmap="viridis", edgecolor="white")
    on_cell, below = ax.text(0.5, 0.5, "0", color="white"), ax.text(0.5, -0.3, "k = 2", color="black")
    (line,) = ax.plot([0, 1], [0, 1], color="0.4")
    figure.canvas.draw()
    colours = mesh.get_facecolor().copy()
    assert dark.has_map(figure)
    dark.darken(figure)
    assert on_cell.get_color() == "white" and (mesh.get_facecolor() == colours).all()
    assert below.get_color() == pytest.approx((*dark.INK, 1)) and figure.get_facecolor() == pytest.approx(
        (*dark.PAPER, 1)
    )
    assert 0.4 < line.get_color()[0] < dark.INK[0]


def test_a_figure_of_a_page_has_its_size_and_a_twin_for_dark_pages_if_there_is_one() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="gallery.md"))
    alone = hooks.on_page_content(
        '<img alt="a" src="images/width.svg"><img alt="b" src="images/explore-map-dark.png">', page=page
    )
    assert re.fullmatch(
        r'<img class="figure " alt="a" src="images/width.svg" width="672" height="\d+"><img alt="b" [^>]*>', alone
    )
    twins = hooks.on_page_content('<img alt="a" src="images/success-frontier.svg">', page=page)
    assert re.findall(r'class="figure (by-\w+) " alt="a" src="([^"]*)"', twins) == [
        ("by-day", "images/success-frontier.svg"),
        ("by-night", "images/success-frontier-dark.svg"),
    ]


def test_an_anchor_is_no_stop_of_the_keyboard() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="bibliography.md"))
    html = hooks.on_page_content('<p><a href="" id="wei2019"></a> <a href="#wei2019">Wei</a></p>', page=page)
    assert html == '<p><span id="wei2019"></span> <a href="#wei2019">Wei</a></p>'


def test_links_of_notebooks_name_files_and_lead_to_pages() -> None:
    for folder in (DOCS / "getting-started", DOCS / "phenomena"):
        texts = [path.read_text() for path in folder.glob("*.ipynb")]
        links = [link for text in texts for link in re.findall(r"\]\((?!http)([^)]*)\)", text)]
        assert links and [link for link in links if not (folder / link).is_file()] == []
    page = SimpleNamespace(file=SimpleNamespace(src_uri="getting-started/first-network.ipynb"))
    links_of_jupyter = '<a href="first-sweep.ipynb"><a href="../results.md"><a href="https://x.org/a.md">'
    html = hooks.on_page_content(links_of_jupyter, page=page)
    assert html == '<a href="../first-sweep/"><a href="../../results/"><a href="https://x.org/a.md">'

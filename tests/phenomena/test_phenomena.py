"""Phenomena: found without an import, trained by name, told on one page that needs nothing else.

Trainings have fixed seeds. What they must show holds with a margin of at least a factor of two, so that no rounding of
another instruction set changes it.
"""

import json
import re
from pathlib import Path

import lessons
import nbformat
import notebooks
import numpy as np
import phenomena as site
import pytest

import elegans as el
from elegans.cli import main
from elegans.phenomena import Bars, Chart, Moment, Phenomenon, Story, base
from elegans.phenomena.listing import FIRST, phenomena
from elegans.phenomena.showing import Shown, show, watched

NAMES = sorted(phenomena())


@pytest.fixture
def elegans(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def made(**changes):
    story = {
        "steps": [0, 10],
        "charts": [Chart("a </script> chart", {"x": ([0, 10], [0.5, float("nan")])})],
        "panels": [Bars("bars", np.array([[1.0, 2], [3, 4]]), "bar")],
        "moments": [Moment(10, "second"), Moment(0, "first")],
        "finding": "found",
    }
    texts = dict.fromkeys(("name", "shows", "source", "setting", "watch", "theory"), "a < b")
    return Shown(
        Phenomenon(**texts, further=["elegans show"], train=lambda train, seed: None), Story(**story | changes), 0, 1.0
    )


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_list_has_each_phenomenon_the_best_known_first(elegans):
    code, out, _ = elegans("show")
    listed = [line.split()[0] for line in out.splitlines() if line][:-1]
    assert code == 0 and listed == list(phenomena()) and listed[: len(FIRST)] == list(FIRST)


@pytest.mark.parametrize("name", NAMES)
def test_a_phenomenon_is_what_its_file_lists(name):
    listed = phenomena()[name]
    found = el.discovery.load(listed.module, listed.attribute)
    assert (found.name, found.shows) == (name, listed.shows)
    assert all(getattr(found, text) for text in ("source", "setting", "watch", "theory"))


def test_the_commands_that_lead_on_exist():
    from elegans.experiments.registry import entries

    for listed in phenomena().values():
        for command in el.discovery.load(listed.module, listed.attribute).further:
            tool, verb, name, *_ = command.split()
            assert (tool, verb in ("run", "claims", "theory")) == ("elegans", True)
            assert verb != "run" or name in entries()


def test_the_site_has_the_page_of_each_phenomenon_with_its_present_texts():
    folder = Path(__file__).parents[2] / "docs" / "phenomena"
    assert {path.name for path in folder.iterdir()} == {f"{name}.{end}" for name in NAMES for end in ("json", "ipynb")}
    pages = site.pages()
    assert pages.keys() == set(NAMES)
    for listed in phenomena().values():
        found = el.discovery.load(listed.module, listed.attribute)
        record = data_of(pages[found.name])
        for text in ("shows", "source", "setting", "watch", "theory"):
            assert record[text] == getattr(found, text)
        assert record["steps"] and record["charts"]
        ends = [steps[-1] for chart in record["charts"] for steps, _ in chart["lines"].values()]
        assert record["steps"][-1] == max(ends), found.name  # the slider reaches the end of training


def test_the_page_of_each_phenomenon_is_one_small_file_that_asks_for_nothing():
    for name, page in site.pages().items():
        assert len(page.encode()) < 6_000_000, name
        assert not re.search(r"https?://|src=|@import|url\(", page), name


def test_the_notebook_of_each_phenomenon_has_its_present_texts():
    assert lessons.LESSONS.keys() == set(NAMES)
    for name in NAMES:
        kept = nbformat.read(notebooks.PHENOMENA / f"{name}.ipynb", 4).cells
        written = lessons.notebook(name).cells
        outdated = [old.source for old, new in zip(kept, written, strict=True) if old.source != new.source]
        assert outdated == [], f"python docs/make/notebooks.py {name}"
        assert all(cell.outputs for cell in kept if cell.cell_type == "code")
        assert (notebooks.PHENOMENA / f"{name}.ipynb").stat().st_size < 150_000


def test_a_page_has_the_story_and_no_link_to_anything_else(tmp_path):
    page = made().html()
    record = data_of(page)
    assert [moment["text"] for moment in record["moments"]] == ["first", "second"]
    assert record["charts"][0]["title"] == "a </script> chart" and record["charts"][0]["lines"]["x"] == [
        [0, 10],
        [0.5, None],
    ]
    assert record["panels"][0]["kind"] == "bars" and record["panels"][0]["frames"] == [[1.0, 2.0], [3.0, 4.0]]
    assert "<title>a &lt; b</title>" in page and not re.search(r"https?://|src=|@import", page)
    assert made().write(tmp_path / "x.html").read_text(encoding="utf-8") == page
    assert "srcdoc" in made()._repr_html_()


def test_what_is_wrong_is_refused_in_words(elegans, tmp_path):
    code, out, err = elegans("show", "groking")
    assert (code, out, err) == (2, "", "error: unknown phenomenon 'groking'; did you mean 'grokking'?\n")
    code, out, err = elegans("show", "grokking", "--out", "no/such/page.html")
    assert (code, out, err) == (2, "", "error: a page must go to a writable folder: no/such/page.html\n")
    with pytest.raises(el.ElegansError, match="seed must be at least 0: seed=-1"):
        show("grokking", seed=-1)
    with pytest.raises(
        el.ElegansError, match="a panel must have one picture per step of its story: 'bars' has 2, steps=1"
    ):
        made(steps=[0])
    with pytest.raises(el.ElegansError, match="must"):
        made().write(tmp_path)


def test_a_level_is_reached_where_values_stay_below_it():
    assert base.first_below([0, 1, 2, 3], [1, 0, 1, 0], 0.5) == 3
    assert base.first_below([0, 1], [0, 0], 0.5) == 0
    assert base.first_below([0, 1], [0, 1], 0.5) is None


def test_a_phenomenon_is_trained_by_name_and_leaves_a_page(elegans, tmp_path):
    code, out, _ = elegans("show", "hidden-progress", "--seed", "1")
    assert code == 0 and "found    The weights single out the relevant inputs from step " in out
    record = data_of((tmp_path / "hidden-progress.html").read_text(encoding="utf-8"))
    assert record["seed"] == 1 and len(record["steps"]) == len(record["panels"][0]["frames"]) > 40
    seen, leaves = (int(number.replace(",", "")) for number in re.findall(r"step ([\d,]+)", record["finding"])[:2])
    assert leaves > 1.2 * seen  # three seeds: 780 and 1180, 820 and 1180, 1080 and 1680


WHOLE = ("context-staircase", "induction-head")
"""Phenomena that are trained in full alone: a learner has no training, and compiling takes longer than training."""


def tenth(trial, *probes, errors=True):
    """Train a tenth of the steps."""
    steps = max(trial.stopping.every, trial.steps // 10)
    return watched()(trial.replace("training.steps", steps), *probes, errors=errors)


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE])
def test_a_tenth_of_a_phenomenon_has_a_page_of_its_own(name):
    shown = show(name, trainer=tenth)
    page = shown.html()
    assert len(page.encode()) < 6e6 and not re.search(r"https?://|src=|@import|url\(", page)
    record = data_of(page)
    assert record["steps"] == sorted(record["steps"]) and record["finding"] and record["charts"]
    assert {len(panel["frames"]) for panel in record["panels"]} <= {len(record["steps"])}


@pytest.mark.slow
def test_the_best_learning_rate_slides_or_stays():
    moved = re.search(r"fell by a factor of (\d+) in .* and (.*) in the maximal", show("learning-rates").story.finding)
    assert moved and int(moved[1]) >= 8  # 32
    assert moved[2] in ("stayed the same", "fell by a factor of 2", "rose by a factor of 2")  # the same


SAYS = {
    "grokking": lambda numbers, _: numbers[1] > 8 * numbers[0],  # 80 and 1740 steps
    "certificate": lambda numbers, _: numbers[2] >= 10,  # of 50 states without a mistake 35 are refuted
    "slingshot": lambda numbers, _: numbers[0] >= 2,
    "width-buys-data": lambda _, finding: "1000 neurons learned; networks of 10 and " in finding,
    "lottery-ticket": lambda numbers, _: numbers[0] >= 6 and max(numbers[2:]) <= 3,  # of nine: 9, 1 and 0
    # 4 directions, 0.136 and 0.136
    "context-staircase": lambda numbers, _: numbers[0] >= 3 and abs(numbers[3] / numbers[4] - 1) < 0.05,
    "staircase": lambda numbers, _: numbers[:-3] == sorted(numbers[:-3]) and numbers[-3] == numbers[-2] == 5,
    "polygon": lambda _, finding: "a pentagon: 5 of the six features" in finding and "a loss of 0.0618" in finding,
    "induction-head": lambda numbers, _: min(numbers[1:]) > 50,  # per cent of the attention: 82 and 76
    "xor-phases": lambda numbers, _: 1.5 * numbers[0] < numbers[1],  # steps 65 and 150
}
"""Whether the numbers of a finding, or its text, are as its phenomenon says."""


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", SAYS)
def test_every_phenomenon_shows_what_it_says(name):
    story = show(name).story
    assert len(story.steps) > 20 and story.moments[0].step == 0
    for panel in story.panels:
        assert np.isfinite(panel.frames).all()
    numbers = [float(number.replace(",", "")) for number in re.findall(r"(?<!\w)\d[\d,]*\.?\d*", story.finding)]
    assert SAYS[name](numbers, story.finding), story.finding

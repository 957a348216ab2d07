"""Draw the site's figures again: ``python docs/make/figures.py [EXPERIMENT|RESULTS…]``.

Each is drawn from the committed evidence of the scale nearest to the published one. Evidence of fewer cells than the
figure shows is listed in ``PARTIAL``: where no other scale has evidence, the figure is drawn from the
results of the run itself, whose folder (``results/<name>/<scale>``) is given instead of the experiment's name.
"""

import json
import sys
from pathlib import Path

import dark
import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment
from elegans.experiments.evidence import Evidence, collected, read_table
from elegans.experiments.registry import find
from elegans.experiments.results import Tables
from elegans.plots.style import LARGE

IMAGES = Path(__file__).parents[1] / "images"
PARTIAL = {
    ("analytic-solution", "paper"),  # one setting, without gradient descent
    ("critical-fraction", "paper"),  # one modulus
    ("grokking-delay", "paper"),  # one modulus and one width
    ("grokking-measures", "paper"),  # other networks than those of the page
    ("scaling-laws", "part"),  # steps alone
    ("xor-variants", "part"),  # only the variants that decide claims
    ("success-frontier", "smoke"),
}
"""Experiments and scales whose evidence has too few cells for the figure."""
JOINED = ("one-neuron",)
"""Experiments whose figure joins runs of all parts (``--parts``), which are later than the run of the whole."""
LARGEST = 300_000
"""Size in bytes above which a PNG replaces a vector drawing."""


def nearest() -> dict[str, Evidence]:
    """Return each experiment's evidence that a figure can be drawn from, at the scale nearest to the published one."""
    found: dict[str, Evidence] = {}
    for one in sorted(collected(), key=lambda one: one.rank):
        if not one.content["options"] and (one.experiment, one.scale) not in PARTIAL:
            found.setdefault(one.experiment, one)
    return found


def joined(evidence: Evidence) -> Tables:
    """Return the tables of all parts of an experiment at the scale of some evidence, row below row."""
    parts = [
        one.tables
        for one in collected()
        if (one.experiment, one.scale) == (evidence.experiment, evidence.scale) and "parts" in one.content["options"]
    ]
    filled = {name: [part[name] for part in parts if len(part[name])] for name in evidence.tables}
    return {name: pd.concat(tables, ignore_index=True) for name, tables in filled.items()}


def draw(experiment: Experiment, tables: Tables, folder: Path = IMAGES) -> Path | None:
    """Draw the figure of tables, for dark pages too if it has a map of colours, and its other drawings.

    Returns:
        The figure's file, or None if the experiment has no figure.
    """
    if experiment.plot is None:
        return None
    figure = experiment.plot(tables)
    path = folder / f"{experiment.name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": experiment.name}):
        _save(figure, path)
        for name, write in experiment.extras.items():
            if name.endswith(".svg"):
                write(tables, folder / f"{experiment.name}-{name}")
        if path.stat().st_size > LARGEST:
            path.unlink()
            path = path.with_suffix(".png")
            _save(figure, path)
        twin = path.with_stem(f"{path.stem}-dark")
        twin.unlink(missing_ok=True)
        if dark.has_map(figure):
            dark.darken(figure)
            _save(figure, twin)
    return path


def _save(figure: Figure, path: Path) -> None:
    """Write a figure; the finding above a PNG, which cannot be read from the file, is kept as its title."""
    above = " ".join(text.get_text() for text in figure.texts if text.get_fontsize() == LARGE)
    metadata = {"Date": None} if path.suffix == ".svg" else {"Title": " ".join(above.split())}
    figure.savefig(path, dpi=200, metadata=metadata)


def main(names: list[str]) -> None:
    """Draw the figures of some experiments or folders of results, or those of all evidence."""
    known = nearest()
    for name in names or known:
        record = Path(name) / "record.json"
        if record.is_file():
            experiment = find(json.loads(record.read_text(encoding="utf-8"))["experiment"])
            tables = {path.stem: read_table(path) for path in record.parent.glob("*.csv")}
        else:
            experiment = find(name)
            tables = joined(known[name]) if name in JOINED else dict(known[name].tables)
        print(draw(experiment, tables))


if __name__ == "__main__":
    main(sys.argv[1:])

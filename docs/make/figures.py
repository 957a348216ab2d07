"""Draw the site's figures again: ``python docs/make/figures.py [EXPERIMENT|RESULTS…]``.

Each is drawn from the committed evidence of the scale nearest to the published one. Evidence that keeps fewer rows or
cells than the figure shows is listed in ``PARTIAL``: where no other scale has evidence, the figure is drawn from the
results of the run itself, whose folder (``results/<name>``) is given instead of the experiment's name.
"""

import json
import sys
from pathlib import Path

import matplotlib
import pandas as pd

from elegans.experiments.base import Experiment
from elegans.experiments.evidence import Evidence, collected
from elegans.experiments.registry import find
from elegans.experiments.results import Tables

IMAGES = Path(__file__).parents[1] / "images"
PARTIAL = {
    ("analytic-solution", "paper"),  # one setting, without gradient descent
    ("critical-fraction", "paper"),  # one modulus
    ("fourier-gaps", "laptop"),
    ("grokking", "part"),
    ("grokking-delay", "paper"),  # one modulus and one width
    ("grokking-measures", "paper"),  # other networks than those of the page
    ("no-plateau", "part"),
    ("scaling-laws", "part"),  # steps alone
    ("training-curves", "paper"),
    ("training-curves-zoo", "part"),
    ("xor-phases", "paper"),
    ("xor-variants", "part"),  # only the variants that decide claims
    ("success-frontier", "smoke"),
    ("tabular-frontier", "part"),
}
"""Experiments and scales whose evidence keeps too few rows, curves or cells for the figure."""
LARGEST = 300_000
"""Size in bytes above which a PNG replaces a vector drawing."""


def nearest() -> dict[str, Evidence]:
    """Return each experiment's evidence that a figure can be drawn from, at the scale nearest to the published one."""
    found: dict[str, Evidence] = {}
    for one in sorted(collected(), key=lambda one: one.rank):
        if not one.content["options"] and (one.experiment, one.scale) not in PARTIAL:
            found.setdefault(one.experiment, one)
    return found


def table(path: Path) -> pd.DataFrame:
    """Read a table of evidence, including lists."""
    found = pd.read_csv(path)
    for name in found.select_dtypes(["object", "str"]):
        if found[name].astype(str).str.startswith("[").all():
            found[name] = found[name].map(json.loads)
    return found


def kept(evidence: Evidence) -> Tables:
    """Return the tables of a piece of evidence."""
    return {name: table(evidence.path.with_name(one["file"])) for name, one in evidence.content["tables"].items()}


def draw(experiment: Experiment, tables: Tables, folder: Path = IMAGES) -> Path:
    """Draw the figure of an experiment's tables and its other drawings; return the figure's file."""
    figure = experiment.plot(tables)
    path = folder / f"{experiment.name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": experiment.name}):
        figure.savefig(path, metadata={"Date": None})
        for name, write in experiment.extras.items():
            if name.endswith(".svg"):
                write(tables, folder / f"{experiment.name}-{name}")
    if path.stat().st_size > LARGEST:
        path.unlink()
        path = path.with_suffix(".png")
        figure.savefig(path, dpi=200)
    return path


def main(names: list[str]) -> None:
    """Draw the figures of some experiments or folders of results, or those of all evidence."""
    known = nearest()
    for name in names or known:
        record = Path(name) / "record.json"
        if record.is_file():
            experiment = find(json.loads(record.read_text())["experiment"])
            tables = {path.stem: table(path) for path in record.parent.glob("*.csv")}
        else:
            experiment, tables = find(name), kept(known[name])
        print(draw(experiment, tables))


if __name__ == "__main__":
    main(sys.argv[1:])

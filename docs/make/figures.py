"""Draw the site's figures again from the committed evidence: ``python docs/make/figures.py [EXPERIMENT…]``.

Each is drawn from the evidence of the scale nearest to the published one. Evidence that keeps fewer rows or cells than
the figure shows is listed in ``PARTIAL``: where no other scale has evidence, the figure comes from the run itself,
``results/<name>/figure.png``.
"""

import json
import sys
from pathlib import Path

import matplotlib
import pandas as pd

from elegans.experiments.evidence import Evidence, collected
from elegans.experiments.registry import find

IMAGES = Path(__file__).parents[1] / "images"
PARTIAL = {
    ("fourier-gaps", "laptop"),
    ("grokking", "part"),
    ("no-plateau", "part"),
    ("training-curves", "paper"),
    ("training-curves-zoo", "part"),
    ("xor-phases", "paper"),
    ("xor-variants", "part"),  # only the variants that decide claims
    ("success-frontier", "smoke"),
    ("tabular-table", "smoke"),
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


def draw(evidence: Evidence, folder: Path = IMAGES) -> Path:
    """Draw the figure of a piece of evidence and the experiment's other drawings; return the figure's file."""
    kept = evidence.content["tables"]
    tables = {name: table(evidence.path.with_name(one["file"])) for name, one in kept.items()}
    experiment = find(evidence.experiment)
    figure = experiment.plot(tables)
    path = folder / f"{evidence.experiment}.svg"
    with matplotlib.rc_context({"svg.hashsalt": evidence.experiment}):
        figure.savefig(path, metadata={"Date": None})
        for name, write in experiment.extras.items():
            if name.endswith(".svg"):
                write(tables, folder / f"{evidence.experiment}-{name}")
    if path.stat().st_size > LARGEST:
        path.unlink()
        path = path.with_suffix(".png")
        figure.savefig(path, dpi=200)
    return path


def main(names: list[str]) -> None:
    """Draw the figures of some experiments, or of all."""
    known = nearest()
    for name in names or known:
        print(draw(known[name]))


if __name__ == "__main__":
    main(sys.argv[1:])

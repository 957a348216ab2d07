"""Draw the site's figures again from the committed evidence: ``python docs/make/figures.py [EXPERIMENT…]``.

Each is drawn from the evidence of the scale nearest to the published one. An experiment whose figure needs more rows
than the evidence keeps stands in ``THINNED``: its figure comes from the run itself, from ``results/<name>/figure.png``.
"""

import sys
from pathlib import Path

import matplotlib
import pandas as pd

from elegans.experiments.evidence import Evidence, collected
from elegans.experiments.registry import find

IMAGES = Path(__file__).parents[1] / "images"
THINNED: frozenset[str] = frozenset()
"""Experiments whose figures are not drawn from their evidence, which keeps too few rows."""
LARGEST = 300_000
"""Bytes above which a vector drawing is left for a PNG."""


def nearest() -> dict[str, Evidence]:
    """Return for each experiment the evidence, without options, of the scale nearest to the published one."""
    found: dict[str, Evidence] = {}
    for one in sorted(collected(), key=lambda one: one.rank):
        if not one.content["options"]:
            found.setdefault(one.experiment, one)
    return found


def draw(evidence: Evidence, folder: Path = IMAGES) -> Path:
    """Draw the figure of a piece of evidence into a folder and return its file."""
    tables = {
        name: pd.read_csv(evidence.path.with_name(kept["file"])) for name, kept in evidence.content["tables"].items()
    }
    figure = find(evidence.experiment).plot(tables)
    path = folder / f"{evidence.experiment}.svg"
    with matplotlib.rc_context({"svg.hashsalt": evidence.experiment}):
        figure.savefig(path, metadata={"Date": None})
    if path.stat().st_size > LARGEST:
        path.unlink()
        path = path.with_suffix(".png")
        figure.savefig(path, dpi=200)
    return path


def main(names: list[str]) -> None:
    """Draw the figures of some experiments, or of all."""
    known = nearest()
    for name in names or known.keys() - THINNED:
        print(draw(known[name]))


if __name__ == "__main__":
    main(sys.argv[1:])

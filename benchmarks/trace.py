"""The training steps of a traced frontier compared with the full grid, and the distance between the two contours.

(50, 3), both initialisations: the full grid has 20 trials in each cell of 5 widths by 17 sample sizes; its contour is
where the line through its rates crosses one half. The trace uses the same trials. The grid is kept in
``build/benchmarks/trace.db``, so it is trained once. A coarse run has two widths, 8 trials per cell and fewer sizes:
too few for the trace to save much, so only the distance of the contours counts.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import elegans as el
from benchmarks.record import Result, at_most
from elegans.analysis import crossings, summarise_cells
from elegans.studies.pareto_frontiers import settings as pareto

STORE = Path("build/benchmarks/trace.db")
STEPS, SEEDS = 20_000, 20
SHARE_PERCENT, APART = 20.0, 1.0
LEVEL = 0.5


def run(*, quick: bool) -> Result:
    """Train the grid, trace it, and compare."""
    sizes, widths = (pareto.SIZES[2:9], (30, 300)) if quick else (pareto.SIZES, pareto.WIDTHS[:5])
    seeds = 8 if quick else SEEDS
    base = pareto.trial(n=50, k=3, steps=STEPS).replace("regime", f"sample:{sizes[0]}")
    STORE.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    with el.Store(STORE) as store:
        for init in pareto.INITS:
            trial = base.replace("model.init", init)
            grid = el.run(el.grid(trial, {"model.width": widths, "regime.size": sizes}, seeds), store)
            contour = el.trace_frontier(trial, xs=sizes, ys=widths, level=LEVEL, seeds=seeds, store=store)
            rows += [_row(init, width, summarise_cells(grid), contour, sizes) for width in widths]
            totals.append(_totals(init, grid, contour))
    share = 100 * sum(each["traced_steps"] for each in totals) / sum(each["grid_steps"] for each in totals)
    apart = max(row["grid steps apart"] for row in rows)
    targets = [at_most("largest distance of the contours, in grid steps", apart, APART, "")]
    if not quick:
        what = "share of the grid's steps that the trace takes"
        targets.append(at_most(what, share, SHARE_PERCENT, "%"))
    return Result(
        settings={"sample_sizes": sizes, "widths": widths, "steps": STEPS, "seeds": seeds, "level": LEVEL},
        repetitions=totals,
        summary=rows,
        targets=targets,
    )


def _totals(init: str, grid: pd.DataFrame, contour: el.sweeps.Contour) -> dict[str, Any]:
    """Return the steps of the grid and of the trace."""
    return {
        "initialisation": init,
        "grid_trials": len(grid),
        "traced_trials": len(contour.trials),
        "grid_steps": int(grid["steps"].sum()),
        "traced_steps": contour.steps,
        "grid_processor_seconds": float(grid["seconds"].sum()),
        "traced_processor_seconds": float(contour.trials["seconds"].sum()),
        "monotone_in_width": contour.monotone,
    }


def _row(
    init: str, width: int, full: pd.DataFrame, contour: el.sweeps.Contour, sizes: tuple[int, ...]
) -> dict[str, Any]:
    """Return one width's crossings, and the steps of both."""
    own = full[full["model.width"] == width]
    exact = crossings(own["regime.size"], own["rate"], LEVEL)
    found = contour.crossings[contour.crossings["model.width"] == width]
    examined = contour.cells[contour.cells["model.width"] == width]
    return {
        "initialisation": init,
        "width": str(width),
        "grid: crosses at": _listed(exact),
        "traced: crosses at": _listed(found["crossing"]),
        "traced: between": "; ".join(f"{low:.0f} and {high:.0f}" for low, high in found[["low", "high"]].to_numpy()),
        "grid steps apart": _apart(exact, list(found["crossing"]), sizes),
        "cells examined": f"{len(examined)} of {len(sizes)}",
        "steps traced": f"{examined['steps'].sum() / 1e6:.2f} M",
    }


def _listed(found: Any) -> str:
    return ", ".join(f"{each:.0f}" for each in found)


def _apart(exact: list[float], found: list[float], sizes: tuple[int, ...]) -> float:
    """Return the distance of crossings in steps of the grid, or infinity if their numbers differ."""
    if len(exact) != len(found):
        return float("inf")
    places = [np.interp(np.log(each), np.log(sizes), np.arange(len(sizes))) for each in (exact, found)]
    return round(float(np.abs(places[0] - places[1]).max()), 3)

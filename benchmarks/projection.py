"""The projected time of the paper's two panels for n=50, k=3 up to width 3000 at paper scale, on two cores.

A few seeds of every cell are trained exactly as in the whole run (same steps, same checks, same runner), and
their wall time is scaled up: nothing is modelled. A coarse run uses one seed and every third sample size.
"""

import math

import numpy as np
import pandas as pd

import elegans as el
from benchmarks.measure import seconds, short
from benchmarks.record import Result, at_most, cores
from elegans.studies.pareto_frontiers import settings as pareto

TRIALS, STEPS, WIDEST, EVERY = 50, 100_000, 3000, 200
HOURS, EVALUATION_PERCENT = 3.0, 10.0


def run(*, quick: bool) -> Result:
    """Train the sample and scale up."""
    seeds, sizes = (1, pareto.SIZES[::3]) if quick else (4, pareto.SIZES)
    widths = [width for width in pareto.WIDTHS if width <= WIDEST]
    sweep = pareto.panels(pareto.trial(n=50, k=3, steps=STEPS, every=250), sizes, widths, seeds)
    whole = len(widths) * 2 * (len(pareto.SIZES) + 1) * TRIALS
    factor = whole / len(sweep)
    tables: list[pd.DataFrame] = []
    wall = seconds(lambda: tables.append(el.run(sweep, store=None)))
    table = tables[0]
    busy, evaluating = float(table["seconds"].sum()), float(table["evaluation_seconds"].sum())
    hours = wall * factor / 3600
    return Result(
        settings={
            "panels": "n=50, k=3, dense and 2-sparse",
            "widths": widths,
            "sample_sizes": [*sizes, "online"],
            "steps": STEPS,
            "seeds_a_cell": seeds,
            "trials_projected": whole,
            "wall_seconds_of_sample": wall,
            "seconds_of_trials_in_sample": busy,
            "projected_hours": hours,
            "standard_error_hours": hours * _standard_error(table) / busy,
        },
        repetitions=_trials(table),
        summary=[_row(width, rows, factor) for width, rows in table.groupby("model.width")],
        targets=[
            at_most(f"projected hours of {whole} trials", hours, HOURS, " h"),
            at_most("share of evaluation in that time", 100 * evaluating / busy, EVALUATION_PERCENT, "%"),
        ],
    )


def _standard_error(table: pd.DataFrame) -> float:
    """Return the standard error of the sample's seconds due to training few seeds per cell."""
    taken = table.groupby(["model.width", "model.init", "regime", "regime.size"], dropna=False)["seconds"]
    return math.sqrt((taken.var().fillna(0) * taken.count()).sum())


def _trials(table: pd.DataFrame) -> list[dict[str, object]]:
    names = ["model.width", "model.init", "regime.size", "seed", "state", "steps", "seconds", "evaluation_seconds"]
    plain = table[names].astype(object).where(table[names].notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _row(width: object, rows: pd.DataFrame, factor: float) -> dict[str, str]:
    taken, steps, evaluating = rows["seconds"].sum(), rows["steps"].sum(), rows["evaluation_seconds"].sum()
    checks = np.ceil(rows["steps"] / EVERY).sum()
    return {
        "width": str(width),
        "sampled trials": str(len(rows)),
        "solved": str(int(rows["solved_at"].notna().sum())),
        "mean steps": short(rows["steps"].mean()),
        "µs per step": short(1e6 * (taken - evaluating) / steps),
        "µs per check": short(1e6 * evaluating / checks),
        "evaluation, %": short(100 * evaluating / taken),
        "hours of the whole": short(taken * factor / cores() / 3600),
    }

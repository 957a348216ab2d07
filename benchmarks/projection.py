"""How long the paper's two panels for n=50, k=3 take up to width 3000 at paper scale, on two cores.

A few seeds of every cell are trained just as the whole would be (same steps, same checks, same runner), and
what they took is multiplied up. Nothing is modelled, except in a coarse run: there trials are cut short, and
one that is unsolved by then is charged as if it would never be solved.
"""

import math

import numpy as np
import pandas as pd

import elegans as el
from benchmarks.measure import seconds, short
from benchmarks.record import Result, Target, cores
from elegans.experiments import pareto

TRIALS, STEPS, WIDEST = 50, 100_000, 3000
HOURS, EVALUATION_PERCENT = 3.0, 10.0


def run(*, quick: bool) -> Result:
    """Train the sample and multiply up."""
    seeds, steps = (1, 2000) if quick else (4, STEPS)
    widths = [width for width in pareto.WIDTHS if width <= WIDEST]
    sweep = pareto.panels(pareto.trial(n=50, k=3, steps=steps), pareto.SIZES, widths, seeds)
    tables: list[pd.DataFrame] = []
    wall = seconds(lambda: tables.append(el.run(sweep, store=None)))
    table = tables[0]
    unsolved = table["solved_at"].isna()
    charge = np.where(unsolved, STEPS / steps, 1.0)
    table["charged"] = table["seconds"] * charge
    table["charged_evaluation"] = table["evaluation_seconds"] * charge
    busy = table["charged"].sum()
    hours = wall * (busy / table["seconds"].sum()) * TRIALS / seeds / 3600
    percent = 100 * table["charged_evaluation"].sum() / busy
    return Result(
        settings={
            "panels": "n=50, k=3, dense and 2-sparse",
            "widths": widths,
            "sample_sizes": [*pareto.SIZES, "online"],
            "trials_a_cell": TRIALS,
            "steps": STEPS,
            "sampled_seeds_a_cell": seeds,
            "sampled_steps": steps,
            "wall_seconds_of_sample": wall,
            "projected_hours": hours,
            "standard_error_hours": _standard_error(table) * wall / table["seconds"].sum() / 3600,
            "evaluation_percent": percent,
        },
        repetitions=_trials(table),
        summary=[_row(width, rows, seeds) for width, rows in table.groupby("model.width")],
        targets=[
            Target(f"projected hours of {len(sweep) // seeds * TRIALS} trials", hours, HOURS, " h", at_least=False),
            Target("share of evaluation in that time", percent, EVALUATION_PERCENT, "%", at_least=False),
        ],
    )


def _cells(table: pd.DataFrame) -> pd.core.groupby.DataFrameGroupBy:
    return table.groupby(["model.width", "model.init", "regime", "regime.size"], dropna=False)


def _standard_error(table: pd.DataFrame) -> float:
    """Return the standard error of the projected core-seconds that comes from sampling few seeds a cell."""
    charged = _cells(table)["charged"]
    return TRIALS * math.sqrt((charged.var().fillna(0) / charged.count()).sum())


def _trials(table: pd.DataFrame) -> list[dict[str, object]]:
    names = ["model.width", "model.init", "regime.size", "seed", "state", "steps", "seconds", "evaluation_seconds"]
    plain = table[names].astype(object).where(table[names].notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _row(width: object, rows: pd.DataFrame, seeds: int) -> dict[str, str]:
    training = rows["seconds"].sum() - rows["evaluation_seconds"].sum()
    checks = np.ceil(rows["steps"] / 200).sum()
    return {
        "width": str(width),
        "sampled trials": str(len(rows)),
        "solved": str(int(rows["solved_at"].notna().sum())),
        "mean steps": short(rows["steps"].mean()),
        "us a step": short(1e6 * training / rows["steps"].sum()),
        "us a check": short(1e6 * rows["evaluation_seconds"].sum() / checks),
        "evaluation, %": short(100 * rows["charged_evaluation"].sum() / rows["charged"].sum()),
        "hours for 50 trials a cell": short(rows["charged"].sum() * TRIALS / seeds / cores() / 3600),
    }

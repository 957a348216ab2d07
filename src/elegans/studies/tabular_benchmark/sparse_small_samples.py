"""Whether sparse initialisation helps networks on quantile bins when samples are small.

The source has no such networks, so there is no claim to judge.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import Init
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure
from elegans.studies.tabular_benchmark.models import BinnedNetworks
from elegans.studies.tabular_benchmark.theory.coverage import pair_coverage
from elegans.sweeps import Sweep
from elegans.tabular.datasets import XORS, load_table, table_names
from elegans.tabular.learners import exact
from elegans.tabular.table import Table
from elegans.tasks import Sample
from elegans.training import Trial

INITS = ("dense", "sparse:2")
SIZES = (100, 200, 500, 1000, 4000)
GONE = 0.25
"""A gain, in percentage points, below which it counts as gone (our choice)."""
WIDTH = 256
"""The estimators' width."""


def pairs(
    trials: int,
    names: Sequence[str] | None = None,
    sizes: Sequence[int] = SIZES,
    widths: Sequence[int] = (64, 256, 1024),
) -> Sweep:
    """Return trials that differ in the initialisation only, for each table, sample size, width and seed."""
    parts: list[tuple[Trial, Sequence[int]]] = []
    for size, name, width, init in product(sizes, names or [*table_names(), *XORS], widths, INITS):
        task = Table(name=name)
        if size <= task.training_rows:
            model = BinnedNetworks(hidden=(width, width), init=Init.parse(init), stopping=exact(task))
            parts.append((Trial(task=task, regime=Sample(size), model=model), range(trials)))
    return Sweep(tuple(parts))


def smoke(trials: int) -> Sweep:
    """Return narrow networks on two drawn tables."""
    return pairs(trials, ("noisy-parity", "threshold-xor-10"), (100,), (16,))


def laptop(trials: int) -> Sweep:
    """Return networks of the estimators' width on the drawn tables and tables of up to 30 columns, at three sizes."""
    names = [name for name in table_names() if load_table(name).x.shape[1] <= 30]
    return pairs(trials, [*names, *XORS], (100, 500, 4000), (WIDTH,))


def analyse(results: Results) -> Tables:
    """Return one row per pair of trials that differ in the initialisation only.

    Returns:
        ``table``, its number of ``columns``, ``rows`` of the sample, ``width``, ``seed``, the test errors ``dense`` and
        ``sparse``, and their ``difference``, sparse less dense, all in percent.
    """
    ended = results.trials.dropna(subset=["test_error"])
    rows = []
    for place, error in ended["test_error"].items():
        one = results.trial(place)  # type: ignore[arg-type]
        assert isinstance(one.task, Table) and isinstance(one.regime, Sample) and isinstance(one.model, BinnedNetworks)
        which = {"table": one.task.name, "columns": one.task.input_size, "rows": one.regime.size}
        init = "dense" if one.model.init.label() == Init.parse("dense").label() else "sparse"
        rows.append({**which, "width": one.model.hidden[0], "seed": one.seed, "init": init, "error": error})
    each = pd.DataFrame(rows).set_index(["table", "columns", "rows", "width", "seed", "init"])["error"]
    wide = (100 * each).unstack("init").dropna().reset_index()
    return {"table": wide.assign(difference=wide["sparse"] - wide["dense"]).rename_axis(columns=None)}


def interval(differences: pd.DataFrame, level: float) -> tuple[float, float, float, int]:
    """Return the mean over tables of their mean differences, its t interval at a level, and the number of tables."""
    from scipy.stats import t

    means = differences.groupby("table")["difference"].mean()
    count, middle = len(means), float(means.mean())
    reach = float(t.isf(level / 2, count - 1)) * float(means.std()) / math.sqrt(count) if count > 1 else math.inf
    return middle, middle - reach, middle + reach, count


def plot(tables: Tables) -> Figure:
    """Draw the mean difference over tables by sample size with its 95% interval, one colour per width."""
    rows = tables["table"]
    figure, axes = panels(1, 1, height=2.4)
    ax = axes.ravel()[0]
    gains, reach = [], 0.0
    for number, (width, group) in enumerate(rows.groupby("width")):
        for size in group["rows"].unique().tolist():
            middle, low, high, count = interval(group[group["rows"] == size], 0.05)
            low, high = (middle, middle) if count < 2 else (low, high)
            gains.append(count > 1 and high < 0)
            reach = max(reach, high, -low)
            estimates(ax, size * 1.04**number, middle, low, high, COLOURS[number], markersize=3)
        ax.plot([], [], "o", color=COLOURS[number], markersize=3, label=f"width {width}")
    ax.axhline(0, color=GREY, linewidth=0.7, zorder=0)
    ax.axhline(-GONE, color=GREY, linewidth=0.7, linestyle="--", zorder=0, label="the smallest gain that counts")
    logarithmic(ax, "x")
    ax.set_xlabel("training rows")
    ax.set_ylabel("error, sparse less dense (points)")
    figure_legend(figure, ax)
    title_figure(
        figure,
        "Sparse and dense initialisation err equally often"
        if reach < GONE
        else f"Sparse initialisation errs less in {sum(gains)} of {len(gains)} settings",
        f"Networks that share a trunk; means over {rows['table'].nunique()} tables; bars: 95% t intervals",
    )
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return the mean difference with its 95% interval by width and sample size, and how likely pairs are covered."""
    rows = tables["table"]
    cells = {}
    for (width, size), group in rows.groupby(["width", "rows"]):
        middle, low, high, count = interval(group, 0.05)
        cells[f"width {width}, {size} rows"] = {"mean": middle, "low": low, "high": high, "tables": count}
    return {"difference": cells, "pair_coverage": {f"{f} columns": pair_coverage(f, WIDTH) for f in (10, 20, 50)}}


EXPERIMENT = Experiment(
    name="sparse-small-samples",
    shows="Whether sparse initialisation lowers the error of networks on quantile bins when samples are small",
    source="section 4.2 (3T)",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=8),
        "paper": Scale(pairs, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    partial=True,
)

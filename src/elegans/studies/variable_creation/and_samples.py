"""How many examples a transformer needs for a conjunction of three bits: a threshold that grows slowly with all bits.

A trial draws a support and a sample consistent with no other support, and has several starts: where training does not
exceed 99% held-out accuracy, it restarts on the same sample. The threshold is the smallest sample at which enough
trials succeed. It is compared with what any learner needs, log2 C(T, 3) examples by counting bits, and with the number
of examples at which the same share of unfiltered samples identify the support.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import Growth, estimate_threshold, finite_or_none, growth, threshold_draws, wilson
from elegans.errors import ExperimentError, shown
from elegans.experiments import Experiment, Line, Option, Results, Scale, Tables
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, percent, short, title_panels
from elegans.studies.variable_creation.and_samples_claims import CLAIMS
from elegans.studies.variable_creation.settings import K, conjunction
from elegans.studies.variable_creation.theory.samples import identifying_samples
from elegans.sweeps import Sweep
from elegans.tasks import BooleanFunction, IdentifiableSample, SparseBoolean
from elegans.training import Trial
from elegans.training.states import FINISHED

rounded = partial(finite_or_none, digits=2)
LEVEL = 0.8
"""The share of trials that must succeed at a threshold."""
THESIS = {300: 70}
"""The only threshold for which the thesis gives a number."""
PAPER_BITS = (*range(100, 801, 50), 900, 1000, 1100)
PAPER_SIZES = tuple(range(50, 201, 10))
FIT = (*Growth._fields, "undefined", "slope_low", "slope_high", "power_low", "power_high")
DRAWS, LARGEST = 200, 64
"""For the identifiability curve, the number of samples and the length of each."""
DASHED, DOTTED = (0, (4, 3)), (0, (1, 1.5))
PANELS = 6
"""The largest number of panels; of more numbers of bits some are drawn."""
SEED = 0
"""The seed of the bootstraps: the same trials have the same intervals."""


def thresholds(bits: Sequence[int], sizes: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return the first starts of all trials, few bits first: a run cut short has the start of the curve."""
    return Sweep.of((conjunction(n, size, steps=steps) for n in bits for size in sizes), trials)


def part(trials: int) -> Sweep:
    """Return six of the published numbers of bits, and 9 numbers of examples around each threshold."""
    sizes = {100: 30, 200: 40, 300: 40, 400: 50, 800: 60, 1100: 60}
    cells = [(n, size) for n, least in sizes.items() for size in range(least, least + 90, 10)]
    return Sweep.of((conjunction(n, size, steps=1000) for n, size in cells), trials)


def further(sweep: Sweep, results: Results, count: int) -> Sweep:
    """Return one more start for every trial that no start has solved so far."""
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    starts = ended.groupby(["task.n", "regime.size", "seed"])["solved_at"].agg(["count", "size"]).reset_index()
    unsolved = starts[starts["count"] == 0]
    parts: list[Any] = []
    for cell in (cell for cell in sweep.cells if cell.restart == 0):
        size = cell.columns()["regime.size"]
        rows = unsolved[(unsolved["task.n"] == cell.task.input_size) & (unsolved["regime.size"] == size)]
        for starts_made, again in rows.groupby("size"):
            parts.append((cell.replace("restart", starts_made), tuple(again["seed"].astype(int).tolist())))
    return Sweep(tuple(parts))


def analyse(results: Results, level: float = LEVEL) -> Tables:
    """Return four tables.

    ``cells``, one row per number of bits ``n`` and of examples ``m``: the ``function``, the ``steps_given`` to each of
    at most ``starts`` starts, the number of ``trials``, those ``solved`` by some start, their ``rate`` with a Wilson
    interval, how many at the ``first`` start, how many have ``starts_left``, the median ``steps`` of the successful
    starts, and how many samples were ``rejected`` on average. ``thresholds``, one row per number of bits: the
    ``threshold`` with the 95% percentile interval of its bootstrap (infinity where the level is
    not reached), ``information``, log2 C(n, 3), ``identified``, the number of examples at which an equal share of
    samples identify the support, and the ``level``. ``identified``: their ``rate`` at each number ``m``. ``fit``: how
    thresholds grow (see ``elegans.analysis.growth``), empty unless all are finite and there are at least three.
    """
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    most = int(ended["restart"].max()) + 1
    cells = pd.DataFrame([_cell(rows, most) for _, rows in ended.groupby(["task.n", "regime.size"])])
    bits, function = sorted(set(cells["n"])), str(cells["function"].iloc[0])
    sizes, identified = np.arange(5, LARGEST + 1), list[pd.DataFrame]()
    rows, samples = list[dict[str, Any]](), list[np.ndarray]()
    for n in bits:
        m, solved, trials = (cells.loc[cells["n"] == n, name].tolist() for name in ("m", "solved", "trials"))
        samples.append(threshold_draws(m, solved, trials, generator=np.random.default_rng(SEED), level=level))
        low, high = np.quantile(samples[-1], [0.025, 0.975], method="inverted_cdf")
        needed = _identifying(n, function)
        rows.append(
            {
                "n": n,
                "threshold": float(estimate_threshold(m, solved, trials, level)),
                "threshold_low": float(low),
                "threshold_high": float(high),
                "information": _task(n, function).information,
                "identified": float(np.quantile(needed, level, method="inverted_cdf")),
                "level": level,
            }
        )
        rate = (needed[:, None] <= sizes).mean(axis=0)
        identified.append(pd.DataFrame({"n": n, "m": sizes, "rate": rate}))
    table = pd.DataFrame(rows)
    fitted = len(bits) >= 3 and np.isfinite(table["threshold"]).all()
    fit = _fit(bits, table["threshold"].to_numpy(float), np.array(samples).T) if fitted else {}
    return {
        "cells": cells,
        "thresholds": table,
        "identified": pd.concat(identified, ignore_index=True),
        "fit": pd.DataFrame([fit] if fit else [], columns=list(FIT)),
    }


def _cell(rows: pd.DataFrame, most: int) -> dict[str, Any]:
    n, size = int(rows["task.n"].iloc[0]), int(rows["regime.size"].iloc[0])
    function = str(rows["task.function"].iloc[0])
    starts = rows.groupby("seed")
    solved = starts["solved_at"].count() > 0
    count, hits = len(solved), int(solved.sum())
    low, high = wilson(hits, count)
    task, regime = _task(n, function), IdentifiableSample(size=size)
    return {
        "n": n,
        "m": size,
        "trials": count,
        "solved": hits,
        "rate": hits / count,
        "low": low,
        "high": high,
        "function": function,
        "steps_given": int(rows["training.steps"].iloc[0]),
        "starts": most,
        "first": int(rows.loc[rows["restart"] == 0, "solved_at"].notna().sum()),
        "starts_left": int((~solved & (starts.size() < most)).sum()),
        "steps": float(rows["solved_at"].astype(float).median()),
        "rejected": float(np.mean([regime.rejected(task, int(seed)) for seed in solved.index])),
    }


@lru_cache(maxsize=64)
def _identifying(n: int, function: str) -> np.ndarray:
    return identifying_samples(_task(n, function), DRAWS, LARGEST, SEED)


def _task(n: int, function: str) -> SparseBoolean:
    chosen = BooleanFunction.parse(function)
    return SparseBoolean(n=n, k=K, function=chosen, p=chosen.balancing_bias(K))


def _fit(bits: Sequence[int], thresholds: np.ndarray, drawn: np.ndarray) -> dict[str, Any]:
    """Return how thresholds grow, with 95% percentile intervals over bootstrap samples that reach the level."""
    finite = np.isfinite(drawn).all(axis=1)
    (best,) = growth(bits, thresholds)
    again = pd.DataFrame(growth(bits, drawn[finite]))
    low, high = again.quantile(0.025), again.quantile(0.975)
    columns: dict[str, Any] = {**best._asdict(), "undefined": int((~finite).sum())}
    for name in ("slope", "power"):
        columns |= {f"{name}_low": low[name], f"{name}_high": high[name]}
    return columns


def plot(tables: Tables) -> Figure:
    """Draw how often networks succeed against the number of examples, a panel for each number of bits, and thresholds.

    Bars are 95% intervals, Wilson's of the rates and the bootstrap's of the thresholds. Dotted curves are how often
    samples identify the support; grey lines in the last panel are log2 C(n, 3) and a line through the origin and the
    first threshold.
    """
    cells, rows = tables["cells"], tables["thresholds"].sort_values("n")
    bits = sorted(set(cells["n"]))
    bits = bits if len(bits) < PANELS else [bits[round(at)] for at in np.linspace(0, len(bits) - 1, PANELS - 1)]
    columns = 2 if len(bits) < 4 else 3
    figure, drawn = panels(-(-(len(bits) + 1) // columns), columns, height=2.6)
    axes, empty = drawn.ravel()[: len(bits) + 1], drawn.ravel()[len(bits) + 1 :]
    for ax, n in zip(axes, bits, strict=False):
        _rates(ax, cells[cells["n"] == n], tables["identified"], float(rows["level"].iloc[0]))
        ax.set_xlim(0, cells["m"].max() * 1.03)
    for ax in empty:
        ax.set_axis_off()
    for ax in drawn[:, 0]:
        ax.set_ylabel("trials that succeed")
    _thresholds(axes[-1], tables)
    known = dict(zip(rows["n"], rows["threshold"], strict=True))
    titles = [
        f"T = {n}: {known[n]:.0f} examples suffice" if np.isfinite(known.get(n, np.nan)) else f"T = {n}" for n in bits
    ]
    titles.append(_growth(rows[np.isfinite(rows["threshold"])]))
    trials, starts = cells["trials"].max(), cells["starts"].max()
    setting = f"Conjunctions of {K} of T bits; {trials} trials per cell, up to {starts} starts each; 95% intervals:"
    title_panels(axes, titles, f"{setting} Wilson for shares, bootstrap for thresholds")
    figure_legend(figure, axes[0], axes[-1], columns=3)
    return figure


def _growth(rows: pd.DataFrame) -> str:
    """Return in words how much the threshold grows with the number of bits."""
    if len(rows) < 2:
        return "Threshold by number of bits"
    more, needed = (rows[name].iloc[-1] / rows[name].iloc[0] for name in ("n", "threshold"))
    return f"{more:.0f}\N{MULTIPLICATION SIGN} the bits, {needed:.1f}\N{MULTIPLICATION SIGN} the examples"


def _rates(ax: Axes, rows: pd.DataFrame, identified: pd.DataFrame, level: float) -> None:
    style: dict[str, Any] = {"fmt": "o-", "linewidth": 1.1, "label": "trials that succeed"}
    estimates(ax, rows["m"], rows["rate"], rows["low"], rows["high"], COLOURS[0], **style)
    known = identified[identified["n"] == rows["n"].iloc[0]]
    ax.plot(known["m"], known["rate"], color=COLOURS[2], linewidth=1, linestyle=DOTTED, label="support identified")
    ax.axhline(level, color=GREY, linewidth=0.6, linestyle=DASHED, zorder=0, label=f"threshold: {level:.0%}")
    ax.set(ylim=(-0.03, 1.03), xlabel="examples m")
    percent(ax)


def _thresholds(ax: Axes, tables: Tables) -> None:
    rows = tables["thresholds"]
    known = rows[np.isfinite(rows["threshold"])]
    size, middle = known["n"], known["threshold"]
    bars: dict[str, Any] = {"markersize": 4, "zorder": 3, "label": "threshold m"}
    estimates(ax, size, middle, known["threshold_low"], known["threshold_high"], **bars)
    for n, value in THESIS.items():
        ax.plot(n, value, "*", color=COLOURS[1], markersize=9, zorder=2.5, label="threshold in the thesis")
    ax.plot(rows["n"], rows["identified"], color=COLOURS[2], linewidth=1, linestyle=DOTTED, label="support identified")
    ax.plot(rows["n"], rows["information"], color=GREY, linewidth=1, label=r"$\log_2 C(T, 3)$")
    every = np.geomspace(rows["n"].min(), max([*rows["n"], *THESIS]), 100)
    for fit in tables["fit"].to_dict("records"):
        logarithm = fit["intercept"] + fit["slope"] * np.log(every)
        ax.plot(every, logarithm, color=COLOURS[0], linewidth=0.9, label=r"$a + b\,\log T$")
        bent = np.log(every) if abs(fit["power"]) < 1e-9 else every ** fit["power"]
        at_size = np.log(size) if abs(fit["power"]) < 1e-9 else size ** fit["power"]
        law = np.polyval(np.polyfit(at_size, middle, 1), bent)
        between = f"{fit['power_low']:.2f} to {fit['power_high']:.2f}".replace("-", "\N{MINUS SIGN}")
        label = rf"$a + b\,T^c$, c = {fit['power']:.2f} ({between})"
        ax.plot(every, law, color=COLOURS[3], linewidth=0.9, linestyle=DASHED, label=label)
    ax.set_xscale("log")
    ax.set_xticks(rows["n"].to_list(), [short(n) for n in rows["n"]])
    ax.xaxis.set_minor_locator(NullLocator())
    ends = known["threshold_high"][np.isfinite(known["threshold_high"])]
    top = max([1.2 * max([*middle, *rows["identified"], *THESIS.values()]), *(1.04 * ends)])
    if len(known):
        straight = middle.iloc[0] * every / size.iloc[0]
        inside = straight <= top
        ax.plot(every[inside], straight[inside], color="0.8", linewidth=0.9, zorder=0, label="proportional to T")
    ax.set_ylim(0, top)
    ax.set(xlabel="bits T", ylabel="examples m")


def findings(tables: Tables) -> dict[str, Any]:
    """Return thresholds with intervals, what any learner needs, and how thresholds grow.

    ``by_doubling`` is what the logarithmic fit adds to the threshold when the bits double, with its interval;
    ``growth`` is the ratio of the thresholds of the most and the fewest bits, and ``bits`` the ratio of their numbers.
    """
    rows, cells = tables["thresholds"], tables["cells"]
    by_bits = {
        str(int(row["n"])): {
            "threshold": rounded(row["threshold"]),
            "interval": [rounded(row["threshold_low"]), rounded(row["threshold_high"])],
            "over_identified": rounded(row["threshold"] / row["identified"]),
            "over_information": rounded(row["threshold"] / row["information"]),
            **({"thesis": THESIS[int(row["n"])]} if int(row["n"]) in THESIS else {}),
        }
        for row in rows.to_dict("records")
    }
    summary: dict[str, Any] = {
        "level": float(rows["level"].iloc[0]),
        "thresholds": by_bits,
        "starts_left": int(cells["starts_left"].sum()),
        "solved_at_first_start": f"{int(cells['first'].sum())} of {int(cells['solved'].sum())}",
    }
    for row in tables["fit"].to_dict("records"):
        ends = rows["threshold"].iloc[[0, -1]].to_numpy(float)
        summary |= {
            "growth": rounded(ends[1] / ends[0]),
            "bits": rounded(rows["n"].iloc[-1] / rows["n"].iloc[0]),
            "by_doubling": rounded(row["slope"] * np.log(2)),
            "by_doubling_interval": [rounded(row[f"slope_{end}"] * np.log(2)) for end in ("low", "high")],
            "power": rounded(row["power"]),
            "power_interval": [rounded(row["power_low"]), rounded(row["power_high"])],
            "residual": {
                "logarithm": rounded(row["residual"]),
                "power": rounded(row["power_residual"]),
                "line": rounded(row["linear_residual"]),
            },
            "undefined": int(row["undefined"]),
        }
    return summary


def with_level(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with another share of successful trials at a threshold."""
    return replace(experiment, analyse=partial(analyse, level=_share("level", value)))


def with_bits(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with only some of its numbers of bits."""
    try:
        bits = {int(number) for number in str(value).split(",")}
    except ValueError:
        raise ExperimentError(f"bits must be numbers separated by commas: bits={shown(value)}") from None
    return _changed(experiment, lambda cell: cell if cell.task.input_size in bits else None)


def with_function(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with another function of three bits; bits are uniform if that balances it."""
    function = BooleanFunction.parse(value)

    def other(cell: Trial) -> Trial:
        chosen = SparseBoolean(n=cell.task.input_size, k=K, function=function, p=function.balancing_bias(K))
        return cell.replace("task", chosen)

    return _changed(experiment, other)


def _changed(experiment: Experiment, change: Callable[[Trial], Trial | None]) -> Experiment:
    """Return the experiment with its cells changed, or dropped where the change returns nothing."""

    def sweep(scale: Scale, trials: int) -> Sweep:
        changed = [(change(cell), seeds) for cell, seeds in scale.cells(trials).parts]
        parts = tuple((cell, seeds) for cell, seeds in changed if cell is not None)
        if not parts:
            known = ", ".join(map(str, sorted({cell.task.input_size for cell in scale.cells(trials).cells})))
            raise ExperimentError(f"bits must be among the scale's numbers of bits: {known}")
        return Sweep(parts)

    scales = {name: replace(scale, sweep=partial(sweep, scale)) for name, scale in experiment.scales.items()}
    return replace(experiment, scales=scales)


def with_accuracy(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with another held-out accuracy that counts as success."""
    error = 1 - _share("accuracy", value)
    return _changed(experiment, lambda cell: cell.replace("training.stopping.error", error))


def _share(name: str, value: Any) -> float:
    try:
        share = float(value)
    except (ValueError, TypeError, OverflowError):
        share = np.nan
    if not 0 < share <= 1:
        raise ExperimentError(f"{name} must be above 0 and at most 1: {name}={shown(value)}")
    return share


def lines(columns: Mapping[str, Any]) -> list[Line]:
    """Return the examples that any learner needs, by counting bits, against the number of bits."""
    function, bits = str(columns["task.function"]), range(10, 2001, 10)
    needed = np.array([_task(n, function).information for n in bits])
    return [
        Line(f"log2 C(T, {K}) examples, by counting bits", {"task.n": np.array(bits, float), "regime.size": needed})
    ]


EXPERIMENT = Experiment(
    name="and-samples",
    shows="A transformer learns a conjunction of 3 of T bits from a number of examples that grows slowly with T",
    source="figure 4.2 and appendix A.3.1",
    scales={
        # too few examples, and enough
        "smoke": Scale(lambda trials: thresholds((20,), (20, 60), 200, trials), trials=2),
        "laptop": Scale(
            lambda trials: thresholds((20, 50, 100, 200, 300), (*range(20, 101, 10), 120), 500, trials),
            trials=20,
            rounds=2,
        ),
        "part": Scale(part, trials=40, rounds=4, part="6 of 18 numbers of bits, 9 sizes around each threshold"),
        "paper": Scale(lambda trials: thresholds(PAPER_BITS, PAPER_SIZES, 1000, trials), trials=40, rounds=4),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    further=further,
    claims=CLAIMS,
    partial=True,
    options={
        "level": Option("SHARE  the share of trials that must succeed at a threshold (0.8)", with_level),
        "bits": Option("T,T  only these of the scale's numbers of bits", with_bits),
        "function": Option("FUNCTION  another function of three bits, such as majority (and)", with_function),
        "accuracy": Option(
            "SHARE  the accuracy on 10^4 held-out examples that counts as success (0.9901)", with_accuracy
        ),
    },
    lines={("regime.size", "task.n"): lines},
)

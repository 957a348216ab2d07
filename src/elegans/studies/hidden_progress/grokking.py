"""Finite samples: grokking, and what weight decay does to it (figures 5.4, right, and B.11).

ReLU networks of width 100 on a fixed sample of m examples over many epochs. The source names neither (n, k) nor
m nor the weight decays: here they are (30, 3) and values around the transitions. Minibatches are drawn
with replacement, and weight decay is a part of the gradient; the thesis shrinks the parameters themselves by
1 - lambda, which is the same with lambda = learning rate x weight decay (``SGD(decay="parameters")``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from elegans.analysis import error_courses, grokking_summary
from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, at_least, by_share, combine, decided, share_limits, table
from elegans.plots import error_lines
from elegans.plots.marks import heat_map
from elegans.plots.style import (
    COLOURS,
    RATES,
    HouseFigure,
    figure_legend,
    in_house_style,
    short,
    title_figure,
    title_panels,
)
from elegans.probes import HeldOutErrorRate, TrainErrorRate
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.rules import enough
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid

SHORT = RATES.reversed()
"""Bright cells have short delays."""
SOLVED = 0.01
"""The test error at which a trial counts as solved: without weight decay many networks do not quite reach 0."""
NAMES = ("task.n", "task.k", "regime.size", "training.weight_decay", "seed")
DECIDING = ((1000, 0.001), (500, 0.001), (1000, 0.01), (500, 0.01))
"""The sample sizes and weight decays among which one cell must show grokking."""
DELAY, CHANCE, OFTEN, HALF = 2.0, 0.25, 0.8, 0.5
"""Thresholds, ours: of the ratio of times, of the test error when the sample is fitted, of the share of trials."""
NEGLIGIBLE, FITTED, RARE = 0.05, 0.1, 0.1
DECAY, STRONGEST, SMALLEST, LARGEST = 0.01, 0.3, 200, 5000
TRIALS = 22
NEEDS = "22 trials per cell at (30, 3): the part scale"
SETTING = (
    "ReLU of width 100, hinge, rate 0.1, B = 32, multi-pass; not stated: (n, k), m, weight decay and its convention"
)


def samples(
    n: int, k: int, sizes: Sequence[int], decays: Sequence[float], trials: int, steps: int, every: int
) -> Sweep:
    """Return ReLU networks of width 100 for each sample size and weight decay; none stops when it is solved.

    Args:
        n: the number of signs.
        k: the size of the parity.
        sizes: the numbers m of examples.
        decays: the weight decays.
        trials: per cell.
        steps: of every trial.
        every: how many steps lie between two measurements.
    """
    base = configuration("ii", n, k, learning_rate=0.1, steps=steps)
    base = base.replace("training.stopping", StoppingRule(error=SOLVED, examples=8192, every=every, stop=False))
    axes = {"training.weight_decay": decays, "regime": [f"sample:{size}" for size in sizes]}
    return grid(base, axes, seeds=trials)


def paper(trials: int) -> Sweep:
    """Return a finer grid at (50, 3) with ten times the steps."""
    sizes = (20_000, 10_000, 5000, 2000, 1500, 1000, 700, 500, 300)
    return samples(50, 3, sizes, (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1), trials, steps=300_000, every=500)


def part(trials: int) -> Sweep:
    """Return the laptop's grid with stronger weight decay, and the smallest sample for longer."""
    sizes, decays = (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1, 0.3)
    grid_of = samples(30, 3, sizes, decays, trials, steps=30_000, every=100)
    return grid_of + samples(30, 3, (200,), (0.01,), trials * 6 // 5, steps=100_000, every=500)


def analyse(results: Results) -> Tables:
    """Return every network's two errors at each measured step, and its grokking delay."""
    return {"table": error_courses(results.trials, results.measures, NAMES, test=SOLVED)}


def plot(tables: Tables) -> Figure:
    """Draw the delay between fit and generalisation of every cell, and train (grey) and test errors of up to four.

    A cell's colour and upper number are its median delay in steps, where at least half of the networks that fit their
    sample generalise; the lower number says how many networks do in all. The errors are from the cell with the
    longest delay (framed), of the cell with the same sample and no weight decay, and of the largest and the smallest
    sample with the same weight decay.
    """
    cells: dict[Any, Any] = dict(list(tables["table"].groupby(["training.weight_decay", "regime.size"])))
    summaries = {key: grokking_summary(rows) for key, rows in cells.items()}
    delays = {key: cell["delay"] for key, cell in summaries.items() if cell.get("delay") is not None}
    figure = HouseFigure(figsize=(7.0, 3.9), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    left, right = parts
    decays, sizes = (sorted({key[place] for key in cells}) for place in (0, 1))
    longest = max(delays, key=lambda key: delays[key]) if delays else next(iter(cells))
    ax = left.subplots()
    in_house_style(ax)
    _delays(ax, summaries, longest)
    decay, size = longest
    own = [each for each in sizes if (decay, each) in cells]
    chosen = dict.fromkeys([longest, (decays[0], size), (decay, own[-1]), (decay, own[0])])
    shown = [key for key in chosen if key in cells]
    drawn = right.subplots(-(-len(shown) // 2), 2, sharex=True, sharey=True, squeeze=False)
    in_house_style(*drawn.ravel())
    for panel, key in zip(drawn.ravel(), shown, strict=False):
        error_lines(panel, cells[key], COLOURS[0], SOLVED)
    for panel in drawn.ravel()[len(shown) :]:
        panel.set_axis_off()
    for panel in drawn.ravel()[: len(shown)][-2:]:
        panel.set_xlabel("steps")
        panel.tick_params(labelbottom=True)
    for panel in drawn[:, 0]:
        panel.set_ylabel("error")
    title_panels((ax, *drawn.ravel()), ("Delay in steps", *(f"m = {short(m)}, λ = {w:g}" for w, m in shown)))
    figure_legend(right, drawn[0, 0], columns=2)
    n, k = tables["table"][["task.n", "task.k"]].iloc[0]
    trials = [cell["trials"] for cell in summaries.values()]
    each = " to ".join(map(str, dict.fromkeys([min(trials), max(trials)])))
    if longest in delays:
        finding = f"With {size:,} examples networks fit first and generalise {short(delays[longest])} steps later"
    else:
        finding = "No sample is generalised by half of the networks"
    title_figure(
        figure,
        finding,
        f"({n}, {k}) parity, ReLU networks of width 100, {each} trials per cell. Numbers and colours "
        "in a: median delay from fit to generalisation, where half of the networks that fit generalise (grey: fewer); "
        f"below it, how many generalise. Frame: the cell of panel b. Dotted: an error of {SOLVED:.0%}.",
    )
    return figure


def _delays(ax: Axes, cells: Mapping[Any, Mapping[str, Any]], framed: tuple[float, int]) -> None:
    """Draw the map of delays, one row per weight decay and one column per sample size."""
    delays, texts = {}, {}
    for key, cell in cells.items():
        delay = cell.get("delay")
        delays[key] = np.nan if delay is None else np.log10(1 + delay)
        texts[key] = ("" if delay is None else f"{short(delay)}\n") + f"{cell['solved']}/{cell['trials']}"
    table: Any = pd.Series(delays).unstack()
    top = max(np.log10(2), np.nanmax([0, *delays.values()]))
    heat_map(ax, table, text=pd.Series(texts).unstack(fill_value=""), norm=Normalize(0, top / 0.85), colours=SHORT)
    row, column = table.index.get_loc(framed[0]), table.columns.get_loc(framed[1])
    ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, linewidth=1.6))
    ax.set_xticks(range(len(table.columns)), [f"{size:,}" for size in table.columns])
    ax.set(xlabel="examples m", ylabel="weight decay λ")


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's times and grokking delay, and the size from which on each weight decay solves at least half.

    A sample is fitted at a train error of at most 1%, and a trial solved at a test error of at most 1%.
    """
    found: dict[str, Any] = {}
    least: dict[str, int | None] = {}
    for decay, rows in tables["table"].groupby("training.weight_decay"):
        cells = {int(own["regime.size"].iloc[0]): grokking_summary(own) for _, own in rows.groupby("regime.size")}
        found |= {f"weight decay {decay:g}, {size} examples": cell for size, cell in cells.items()}
        enough = [size for size, cell in cells.items() if 2 * cell["solved"] >= cell["trials"]]
        least[f"{decay:g}"] = min(enough) if enough else None
    return {"half_solved_from": least, "cells": found}


@claim(
    id="progress/grokking-at-intermediate-samples",
    statement="On a finite sample far smaller than n^k, SGD with appropriately tuned weight decay first fits the "
    "sample and generalises only much later; this happens reliably.",
    source="section 5.5; figure 5.4 (right, centre panels); appendix B.3.5; figure B.11",
    setting=f"{SETTING}. Our choice: (30, 3), weight decay in the gradient",
    rule="A trial groks if its test error first falls to 1% no sooner than twice the time to a train error of 1%, and "
    "was above 25% at that time (our choice). Holds if over 80% of 22 trials or more do in one of four cells, m = 500 "
    "and 1000 with weight decay 0.001 and 0.01 (exact limits at 0.5%); fails if under 80% do in all four.",
    revised="The error rate was 5%; now the total is 2%. The verdict is the same.",
)
def groks(tables: Tables) -> Verdict:
    shares = {}
    for size, decay in DECIDING:
        last = _trials(_cell(tables, size, decay))
        late = (last["test_at"] >= DELAY * last["train_at"]) & (last["test_when_fitted"] > CHANCE)
        shares[f"m = {size}, weight decay {decay:g}"] = int(late.sum()), len(last)
    level = LEVEL / len(DECIDING)
    limits = {name: share_limits(*counts, level) for name, counts in shares.items()}
    best = max(limits, key=lambda name: limits[name])
    hits, trials = shares[best]
    because = f"{best}: {hits} of {trials} trials grok (at least {limits[best][0]:.2g})"
    no = all(high < OFTEN for _, high in limits.values())
    numbers = {"trials_that_grok": shares, "limits": limits}
    return decided(
        limits[best][0] > OFTEN, no, because, numbers, LEVEL, "a share above 0.8 in one cell, or more trials"
    )


@claim(
    id="progress/sample-size-regimes",
    statement="With sufficiently many examples, far more than k log n, the generalisation error is negligible; with "
    "too few the model fails to train, by which we mean that it does not generalise; in between it eventually finds "
    "the solution.",
    source="appendix B.3.5; figures B.11 and 5.4 (right)",
    setting=f"{SETTING}. Our choice: (30, 3), weight decay 0.01. All networks at m = 200 fit their sample",
    rule="(a) At m = 5000, in over 80% of trials the test error is at most 5% when the train error first is at most "
    "1%. (b) At m = 200, under 10% of 48 trials or more are solved within 10^5 steps. (c) At m = 500, 1000 "
    "or 2000, over 80% are solved. The thresholds are ours; exact limits, 2% over the three parts and over the sizes "
    "of the third.",
    revised="The error rate was 5% for each part and 5% for the best of three sizes; now the total is 2%. The part on "
    "few solved trials failed if the share was above 10%; now the limit of the share must be above 10% too. Part (a) "
    "took the checks after the test error had fallen to 1%, when the gap is small by definition; now it looks at "
    "the moment at which the sample is fitted. The rule was changed after the tables had been seen. The verdict is the "
    "same.",
)
def regimes(tables: Tables) -> Verdict:
    level = LEVEL / 3
    large = _trials(_cell(tables, LARGEST, DECAY))["test_when_fitted"]
    small = _trials(_cell(tables, SMALLEST, DECAY, least=enough(1 - RARE, level)))
    good, what = int((large <= NEGLIGIBLE).sum()), f"trials with a test error of at most {NEGLIGIBLE:.0%} when they fit"
    solved = int(small["test_at"].notna().sum())
    low, high = share_limits(solved, len(small), level)
    fitted = int((small["train_at"].notna()).sum())
    because = f"{solved} of {len(small)} trials solved in 10^5 steps; {fitted} fit their sample"
    numbers = {"solved": solved, "fitted": fitted, "trials": len(small), "at_most": high}
    between = {size: _trials(_cell(tables, size, DECAY))["test_at"] for size in (2000, 1000, 500)}
    counts = {size: (int(own.notna().sum()), len(own)) for size, own in between.items()}
    best = max(counts, key=lambda size: (counts[size][0] / counts[size][1], -size))
    return combine(
        {
            "many examples": by_share(what, good, len(large), above=OFTEN, level=level),
            "failure": decided(high < RARE, low > RARE, because, numbers, level, "more trials"),
            "between": replace(
                by_share(f"trials solved at m = {best}", *counts[best], above=OFTEN, level=level / len(counts)),
                error_rate=level,
            ),
        }
    )


@claim(
    id="progress/weight-decay-tradeoff",
    statement="More weight decay widens the range of sample sizes that suffice, but too much prevents training.",
    source="appendix B.3.5; figure B.11",
    setting=f"{SETTING}. Our choice: (30, 3), weight decays 0 to 0.3",
    rule="(a) At some sample size over half of the trials are solved with weight decay 0.001, 0.01 or 0.03, and under "
    "half without. Fails if, at every size at which under half are solved without weight decay, under half are solved "
    "with each of these too; exact limits, 1% over all cells. (b) At weight decay 0.3 the train error stays above 10% "
    "in over 80% of trials at m = 300, 1000 and 5000 (our choice); exact limit at 1%.",
    revised="The first part compared the smallest sizes at which half of the trials were solved, and could fail "
    "without an error rate. The largest effect was tested as if it were the only one. Limits are now exact, with an "
    "error rate of 1% over all cells. The claim held before and holds now.",
)
def tradeoff(tables: Tables) -> Verdict:
    counts, decays, sizes = {}, (0.0, 0.001, 0.01, 0.03), (5000, 2000, 1000, 500, 300)
    for decay in decays:
        for size in sizes:
            own = _trials(_cell(tables, size, decay))
            counts[decay, size] = int(own["test_at"].notna().sum()), len(own)
    least = {decay: _least(counts, decay) for decay in decays}
    best = min(least, key=lambda decay: least[decay])
    limits = {cell: share_limits(*count, LEVEL / 2 / len(counts)) for cell, count in counts.items()}
    lost = [size for size in sizes if limits[0.0, size][1] < HALF]
    gained = [size for size in lost if any(limits[decay, size][0] > HALF for decay in decays[1:])]
    never = bool(lost) and all(limits[decay, size][1] < HALF for decay in decays[1:] for size in lost)
    because = f"half are solved from m = {least[best]:g} on with weight decay {best:g}, from {least[0.0]:g} without; "
    because += f"over half with and under half without at m = {', '.join(map(str, gained)) or 'none'}"
    numbers = {"half_solved_from": least, "gained": gained}
    strong = pd.concat([_cell(tables, size, STRONGEST) for size in (5000, 1000, 300)])
    errors = strong.groupby(["regime.size", "seed"])["train_error"].min()
    stuck = int((errors > FITTED).sum())
    return combine(
        {
            "wider": decided(bool(gained), never, because, numbers, LEVEL / 2, "more trials"),
            "too much": by_share("trials never within 10%", stuck, len(errors), above=OFTEN, level=LEVEL / 2),
        }
    )


def _least(counts: Mapping[tuple[float, int], tuple[int, int]], decay: float) -> float:
    """Return the smallest sample size at which half of the trials are solved; infinite where there is none."""
    enough = [size for (own, size), (solved, trials) in counts.items() if own == decay and 2 * solved >= trials]
    return float(min(enough, default=float("inf")))


def _cell(tables: Tables, size: int, decay: float, least: int = TRIALS) -> pd.DataFrame:
    where = {"task__n": 30, "task__k": 3, "regime__size": size, "training__weight_decay": decay}
    rows = table(tables, "table", NEEDS, **where)
    at_least(least, rows["seed"].unique(), NEEDS)
    return rows


def _trials(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial, with the test error at which its sample was fitted."""
    last = rows.groupby("seed").last()
    fitted = rows[rows["step"] == rows["train_at"]].set_index("seed")["test_error"]
    return last.assign(test_when_fitted=fitted.reindex(last.index))


EXPERIMENT = Experiment(
    name="grokking",
    shows="On sparse parities networks may generalise long after they fit; with weight decay smaller samples suffice",
    source="figures 5.4 (right) and B.11",
    scales={
        "smoke": Scale(
            lambda trials: samples(15, 3, (1000, 150), (0.0, 0.01), trials, steps=3000, every=100), trials=3
        ),
        "laptop": Scale(
            lambda trials: samples(
                30, 3, (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1), trials, steps=30_000, every=100
            ),
            trials=10,
        ),
        "part": Scale(part, trials=60, part="(30, 3), which the source does not name, and 30,000 steps"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [
        TrainErrorRate(every=trial.stopping.every),
        HeldOutErrorRate(every=trial.stopping.every, examples=trial.stopping.examples),
    ],
    claims=[groks, regimes, tradeoff],
)

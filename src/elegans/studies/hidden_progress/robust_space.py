"""The robust space: SGD learns sparse parities with nearly every network, loss, batch size and initialisation.

The criterion of the thesis (section 5.3.1): a cell holds where, with the best learning rate of the grid, at least a
fifth of the trials are solved. Tables B.3 to B.5 give the 10th percentile of the time, the share of trials solved and a
coarse exponent alpha, the smallest with t(n) <= t(n_0) (n - 9)^alpha at all n, where n_0 = 10 is the smallest n.

The laptop scale is a reduced grid: the two of the four learning rates that suit the configuration; two n, two k and
three batch sizes; and 20000 steps instead of 100000.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.errors import ExperimentError
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.plots.marks import heat_map
from elegans.plots.style import COLOURS, GREY, RATES, SMALL, panels, short, title_figure, title_panels
from elegans.studies.hidden_progress.plots import trials_of, typeset
from elegans.studies.hidden_progress.robust_space_claims import CLAIMS
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.studies.hidden_progress.tables import identified, timed
from elegans.sweeps import Sweep
from elegans.training import Trial
from elegans.training.losses import Loss

ROBUST = tuple(CONFIGURATIONS)[:15]
"""The configurations (i) to (xv), for which the thesis claims that the criterion holds at every batch size."""
LOSSES = ("hinge", "square", "logistic")
INITS = ("dense", "gaussian", "bernoulli")
STARRED = ("*i", "*ii")
"""The barely sufficient networks, for which it claims this only from batches of 16 on."""
GRID_RATES = (1.0, 0.1, 0.01, 0.001)
ORDER = (0.1, 0.01, 0.001, 1.0)
"""The order in which learning rates are tried where a single sufficient one is enough."""
LEAST = 0.2
"""The share of trials that must be solved for a cell to hold."""
FIRST = 9
"""The n_0 of the coarse exponent."""
CELL = ("configuration", "network", "task.k", "task.n", "training.batch_size", "model.init", "training.loss")
"""What defines a cell of the criterion: everything but learning rate and seed."""
COLUMN = ["task.k", "training.batch_size"]
BUNDLE = 200
"""How many cells are summarised at once, with the rows of their trials in memory."""
MOSTLY = 0.5
"""The share of networks from which a column of times is drawn."""
FAST = RATES.reversed()
"""Bright cells are fast."""
LISTED = 100_000
"""The largest number of trials whose times are listed individually."""
DRAWN = 299
"""The number of cells drawn at random: if all of them hold, 99% of all cells do, at the 95% level."""


@dataclass(frozen=True)
class Space:
    """A grid of the robust space.

    Args:
        rates: the learning rates of each configuration.
        sizes: the numbers n of signs.
        degrees: the sizes k of the parity.
        batches: the batch sizes.
        inits: the initialisations.
        losses: the losses.
        steps: the largest number of steps.
    """

    rates: Mapping[str, Sequence[float]]
    sizes: Sequence[int]
    degrees: Sequence[int]
    batches: Sequence[int]
    inits: Sequence[str] = INITS
    losses: Sequence[str] = LOSSES
    steps: int = 100_000

    def sweep(self, trials: int) -> Sweep:
        """Return the grid; what the figure shows (hinge loss, uniform initialisation) comes first."""
        kinds = sorted(product(self.losses, self.inits), key=lambda kind: kind != ("hinge", "dense"))
        losses = {name: Loss.parse(name) for name in self.losses}
        cells = [
            configuration(
                name, n, k, batch_size=batch, learning_rate=rate, loss=losses[loss], init=init, steps=self.steps
            )
            for loss, init in kinds
            for n, k, batch in product(self.sizes, self.degrees, self.batches)
            for name, rates in self.rates.items()
            for rate in rates
        ]
        return Sweep.of(cells, trials)


LAPTOP_RATES = {**dict.fromkeys(ROBUST, (0.1, 0.01)), "v": (0.01, 0.001), "vi": (0.01, 0.001)}
"""The two learning rates of the grid that suit each configuration."""

SMOKE_RATES = {name: LAPTOP_RATES[name] for name in ("i", "ii", "xiv", "xv")}
SMOKE = Space(SMOKE_RATES, (10, 14), (2, 3), (16,), ("dense",), ("hinge",), 3000)
LAPTOP = Space(LAPTOP_RATES, (10, 20), (2, 3), (1, 16, 256), steps=20_000)
PAPER = Space(dict.fromkeys(ROBUST, GRID_RATES), (10, 20, 30), (2, 3, 4), tuple(2**power for power in range(11)))
SUITED = {name: rates[:1] for name, rates in LAPTOP_RATES.items()}
"""The learning rate that is tried first."""
LINES = Space(SUITED, (10, 20, 30), (2, 3, 4), (1, 32), ("dense",), ("hinge",))
LARGE = Space(LAPTOP_RATES, (30,), (2, 3, 4), (256,), ("dense",), ("hinge",))
OTHER_LOSSES = Space(LAPTOP_RATES, (20,), (3,), (32,), ("dense",))
FINE = {name: tuple(rates[0] * 2.0**power for power in range(7)) for name, rates in LAPTOP_RATES.items()}
"""Learning rates from the suited one on, each twice the one before."""
ALL_LOSSES = Space(FINE, (20,), (3,), (32,), ("dense",))
SMALLER = {name: tuple(0.1 / 2.0**power for power in range(1, count + 1)) for name, count in (("iii", 3), ("xii", 7))}
"""Learning rates for two networks that the square loss does not train at larger ones; for (xii) down to 0.001."""
SQUARE_LOSS = replace(ALL_LOSSES, rates=SMALLER, losses=("square",))
STARS = dict.fromkeys(STARRED, (0.1,))
STARRED_SMOKE = Space(STARS, (10,), (2,), (1, 16), ("dense",), ("hinge",), 3000)
STARRED_PART = Space(STARS, (10, 30), (2, 3), (1, 4, 8, 16, 256), losses=("hinge",))
STARRED_FOURS = replace(STARRED_PART, sizes=(30,), degrees=(4,))
STARRED_PAPER = Space(dict.fromkeys(STARRED, GRID_RATES), PAPER.sizes, PAPER.degrees, PAPER.batches)


def part(trials: int) -> Sweep:
    """Return a random draw of the published cells, lines over n, large batches and other losses.

    Lines have five times the trials, so that their 10th percentiles are known where a quarter of the trials are solved.
    Each cell has first the learning rate that suits its network; ``further`` tries others where that does not suffice.
    """
    lines = LINES.sweep(5 * trials)
    return Sweep.of(_drawn(), trials) + lines + LARGE.sweep(trials) + OTHER_LOSSES.sweep(2 * trials)


@lru_cache
def _drawn() -> tuple[Trial, ...]:
    """Return the cells of the random draw, at the learning rates that are tried first."""
    whole = replace(PAPER, rates=SUITED, batches=PAPER.batches[:7]).sweep(1).cells
    return tuple(whole[place] for place in np.sort(np.random.default_rng(0).choice(len(whole), DRAWN, replace=False)))


def _neutral(one: Trial) -> str:
    """Return what identifies a cell of the criterion, regardless of its learning rate."""
    return one.replace("training.learning_rate", 1.0).cell


def further(sweep: Sweep, results: Results, count: int) -> Sweep:
    """Return the next learning rate of each cell that none suffices for so far, or four times as many fresh trials.

    These are at the cell's best learning rate, once all four have been tried.
    """
    seeds = {template.cell: own for template, own in sweep.parts}
    tried: dict[str, dict[float, tuple[int, int, Trial]]] = {}
    for template, rows in results.by_cell("solved_at"):
        rate = float(template.columns()["training.learning_rate"])
        solved = int(rows["solved_at"].notna().sum())
        tried.setdefault(_neutral(template), {})[rate] = solved, len(rows), template
    parts: list[tuple[Trial, Sequence[int]]] = []
    for rates in tried.values():
        if any(solved >= LEAST * trials for solved, trials, _ in rates.values()):
            continue
        untried = [rate for rate in ORDER if rate not in rates]
        _, _, best = max(rates.values(), key=lambda own: own[0])
        if untried:
            parts.append((best.replace("training.learning_rate", untried[0]), seeds[best.cell]))
        elif all(trials <= count for _, trials, _ in rates.values()):
            last = max(seeds[best.cell])
            parts.append((best, range(last + 1, last + 1 + 4 * count)))
    return Sweep(tuple(parts))


def starred(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment of the barely sufficient networks, or of the others."""
    if value not in ("robust", "starred"):
        raise ExperimentError(f"networks must be robust or starred: networks={value!r}")
    if value == "robust":
        return experiment
    scales = {
        "smoke": Scale(STARRED_SMOKE.sweep, trials=2, rounds=0),
        "laptop": Scale(replace(STARRED_PART, sizes=(10,)).sweep, trials=5, rounds=3),
        "part": Scale(
            lambda trials: STARRED_PART.sweep(trials) + STARRED_FOURS.sweep(trials),
            trials=25,
            rounds=4,
            part="n = 10 and 30, k = 2 and 3, and k = 4 at n = 30; five batch sizes",
        ),
        "paper": Scale(STARRED_PAPER.sweep, trials=25),
    }
    return replace(experiment, scales=scales)


def losses_alone(experiment: Experiment) -> Experiment:
    """Return only its three losses, at finely spaced learning rates."""
    few = replace(ALL_LOSSES, rates={"i": FINE["i"][:2]}, steps=2000)
    part = "three losses at (20, 3), B = 32, seven learning rates or more each"
    whole = Scale(lambda trials: ALL_LOSSES.sweep(trials) + SQUARE_LOSS.sweep(trials), trials=50, part=part)
    scales = {name: Scale(few.sweep, trials=2, part=part) if name == "smoke" else whole for name in experiment.scales}
    return replace(experiment, scales=scales, further=None, plot=None, findings=None)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per cell and learning rate, and ``times``, one row per trial where these are few.

    ``drawn`` says whether the cell was drawn at random rather than chosen as part of a line.
    """
    rows, bundle = [], []
    drawn = {_neutral(one) for one in _drawn()} if results.scale == "part" else set()
    listed = [pd.DataFrame(columns=[*CELL, "training.learning_rate", "training.steps", "drawn", "seed", "solved_at"])]
    for template, own in results.by_cell("state", "solved_at"):
        columns = {**identified(pd.DataFrame([template.columns()])).iloc[0]}
        names = (*CELL, "training.learning_rate")
        bundle.append(own.assign(**{name: columns[name] for name in names}))
        if len(results.sweep) <= LISTED:
            listed.append(
                bundle[-1]
                .assign(**{"training.steps": columns["training.steps"], "drawn": _neutral(template) in drawn})
                .drop(columns="state")
            )
        if len(bundle) == BUNDLE:
            rows.append(timed(pd.concat(bundle), names))
            bundle = []
    if bundle:
        rows.append(timed(pd.concat(bundle), names))
    times = pd.concat(listed[1:] or listed, ignore_index=True)
    return {"table": judged(pd.concat(rows, ignore_index=True)), "times": times}


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Return rates and times, the ``best`` of each cell's learning rates, and whether the cell ``holds``.

    The best learning rate of a cell solves the most trials; ties are broken by the 10th percentile of the time.
    ``alpha`` is the coarse exponent over the n of the cell's line, at the best learning rate of each n (NaN where fewer
    than a tenth of the trials are solved at some n).
    """
    order = found.assign(tenth=found["tenth"].fillna(np.inf)).sort_values(["rate", "tenth"], ascending=[False, True])
    best = order.groupby(list(CELL), sort=False).head(1).index
    found = found.assign(best=found.index.isin(best))
    rate = found.groupby(list(CELL))["rate"].transform("max")
    found = found.assign(holds=rate >= LEAST)
    line = [name for name in CELL if name != "task.n"]
    alphas = [(*key, _alpha(cells)) for key, cells in found[found["best"]].groupby(line, sort=False)]
    return found.merge(pd.DataFrame(alphas, columns=[*line, "alpha"]), on=line, how="left")


def _alpha(cells: pd.DataFrame) -> float:
    """Return the smallest alpha with t(n) <= t(n_0) ((n - 9) / (n_0 - 9))^alpha, and at least 0."""
    cells = cells.sort_values("task.n")
    size, time = cells["task.n"].to_numpy(float) - FIRST, cells["tenth"].to_numpy(float)
    if len(cells) < 2 or size[0] <= 0 or not np.isfinite(time).all():
        return np.nan
    return max(0.0, float((np.log(time[1:] / time[0]) / np.log(size[1:] / size[0])).max()))


def plot(tables: Tables) -> Figure:
    """Draw the share of trials solved in every cell, by network, and times at the largest n.

    Shares are at the best learning rate; cells that miss the criterion are orange, and named. Times are the 10th
    percentiles with hinge loss and uniform initialisation, for the smallest, the middle and the largest batch size
    that most networks are trained with.
    """
    cells = tables["table"][tables["table"]["best"]]
    largest = cells["task.n"].max()
    plain = cells[(cells["training.loss"] == "hinge") & (cells["model.init"] == "dense") & (cells["task.n"] == largest)]
    order = cells["configuration"].map(list(CONFIGURATIONS).index)
    networks = list(cells.assign(order=order).sort_values("order")["network"].drop_duplicates())
    figure, ((first, second),) = panels(1, 2, height=0.6 + 0.19 * len(networks), sharey=True)
    _times(second, plain.pivot_table("tenth", "network", COLUMN, dropna=False).reindex(networks))
    second.tick_params(labelleft=False)
    first.set_yticks(range(len(networks)), [typeset(name) for name in networks])
    _shares(first, cells, networks)
    title_panels((first, second), ("One dot per setting", f"10th percentile of steps, n = {largest}"))
    finding = f"In {int(cells['holds'].sum())} of {len(cells)} settings at least a fifth of the trials are solved"
    task = (
        f"Parities of k of up to {largest} signs. A setting: network, (n, k), batch size B, initialisation and loss, "
        f"at its best learning rate; {trials_of(cells)} each. Right: hinge loss, uniform initialisation."
    )
    title_figure(figure, finding, task + _missed(cells))
    return figure


def _shares(ax: Axes, cells: pd.DataFrame, networks: list[str]) -> None:
    """Draw one dot per cell in the row of its network, in orange where it misses the criterion."""
    for row, network in enumerate(networks):
        own = cells[cells["network"] == network]
        own = own.assign(beside=row + 0.7 * ((0.618 * np.arange(len(own))) % 1 - 0.5))
        for rows, colour, size in ((own[own["holds"]], COLOURS[0], 2.4), (own[~own["holds"]], COLOURS[1], 4)):
            style: dict[str, Any] = {"color": colour, "markersize": size, "markeredgewidth": 0, "alpha": 0.6}
            ax.plot(100 * rows["rate"], rows["beside"], "o", **style)
    ax.axvline(100 * LEAST, color=GREY, linewidth=0.8, linestyle="--")
    ax.set(xlim=(-3, 103), xlabel="trials solved (%); dashed: the criterion")


def _missed(cells: pd.DataFrame) -> str:
    """Return a sentence that names the cells that miss the criterion, empty if there are none."""
    groups: Any = cells[~cells["holds"]].groupby(["configuration", "training.batch_size", "training.loss"])
    named = [
        f"({name}) at B = {batch}, {loss} loss, "
        + " and ".join(f"({n}, {k})" for n, k in zip(missed["task.n"], missed["task.k"], strict=True))
        for (name, batch, loss), missed in groups
    ]
    return f" Orange: {'; '.join(named)}." if named else ""


def _times(ax: Axes, times: pd.DataFrame) -> None:
    """Draw the times of three batch sizes, one column for each of them and each k."""
    known = times.loc[:, times.notna().mean() > MOSTLY]
    batches = sorted(set(known.columns.get_level_values(1)))
    chosen = {batches[place] for place in (0, len(batches) // 2, -1)}
    known = known.loc[:, [batch in chosen for batch in known.columns.get_level_values(1)]]
    scale = LogNorm(known.min().min(), max(known.max().max(), known.min().min() * 2))
    heat_map(ax, known, text=lambda time: short(float(f"{time:.2g}")) if time > 0 else "", norm=scale, colours=FAST)
    degrees, sizes = (list(known.columns.get_level_values(level)) for level in (0, 1))
    ax.set_xticks(range(len(sizes)), [f"{batch}" for batch in sizes])
    for k in dict.fromkeys(degrees):
        places = [place for place, own in enumerate(degrees) if own == k]
        side: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": SMALL}
        ax.annotate(f"k = {k}", (sum(places) / len(places), len(known) - 0.5), (0, -11), **side)
        ax.axvline(places[0] - 0.5, color="white", linewidth=2)
    ax.set_xlabel("\nexamples per step")


def findings(tables: Tables) -> dict[str, Any]:
    """Return how many cells hold, in all and by configuration; which fail; and the coarse exponents.

    Exponents are for hinge loss and uniform initialisation, by k and batch size.
    """
    cells = tables["table"][tables["table"]["best"]]
    plain = cells[(cells["training.loss"] == "hinge") & (cells["model.init"] == "dense")]
    return {
        "cells": len(cells),
        "hold": int(cells["holds"].sum()),
        "by_configuration": {
            str(name): {"cells": len(rows), "hold": int(rows["holds"].sum())}
            for name, rows in cells.groupby("configuration", sort=False)
        },
        "failing": [_named(row) for row in cells[~cells["holds"]].to_dict("records")],
        "alpha": {
            str(name): {
                f"k = {k}, B = {batch}": finite_or_none(own["alpha"].iloc[0], 2)
                for (k, batch), own in rows.groupby(COLUMN)
            }
            for name, rows in plain.groupby("configuration", sort=False)
        },
    }


def _named(row: dict[Any, Any]) -> str:
    return (
        f"({row['configuration']}) n={row['task.n']} k={row['task.k']} B={row['training.batch_size']} "
        f"{row['model.init']} {row['training.loss']}: {row['solved']} of {row['trials']}"
    )


EXPERIMENT = Experiment(
    name="robust-space",
    shows="Nearly every network, loss, batch size and initialisation learns sparse parities by SGD",
    source="section 5.3.1 and figures B.3 to B.5",
    scales={
        "smoke": Scale(SMOKE.sweep, trials=2, rounds=0),
        "laptop": Scale(LAPTOP.sweep, trials=5, rounds=0),
        "part": Scale(
            part, trials=25, rounds=4, part="299 random cells of batches up to 64, lines, large batches, losses"
        ),
        "paper": Scale(PAPER.sweep, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    partial=True,
    further=further,
    claims=CLAIMS,
    options={
        "networks": Option("robust (i to xv), or starred, the barely sufficient networks (*i) and (*ii)", starred),
        "parts": Option(
            "all, or losses: only the three losses, at finely spaced learning rates", parts(losses=losses_alone)
        ),
    },
)

"""How long after its training set a network knows the rest: by fraction, weight decay, width and p.

Quadratic networks on addition mod p, in full batches of AdamW. The source varies the fraction and the regularisation
of transformers with p = 97; here each of four quantities is varied around one network, fraction and weight decay
together, and the fraction for transformers too.

Source: Power et al. (2022), sections 3.1 and 3.2, figures 1 and 2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETUPBASE

from elegans.analysis import error_courses, finite_or_none, median, median_interval
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, PairTransformer
from elegans.plots.style import (
    COLOURS,
    RATES,
    SMALL,
    contrast_colour,
    figure_legend,
    logarithmic,
    panels,
    short,
    title_panels,
)
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.studies.modular_grokking.grokking_delay_claims import CLAIMS
from elegans.studies.modular_grokking.settings import (
    FITTED,
    SOLVED,
    WIDTH,
    P,
    network,
    repeated,
    small_transformer,
    transformer,
)
from elegans.sweeps import Sweep
from elegans.tasks import ModularAddition, Split
from elegans.training import Trial
from elegans.training.optimisers import Descent

FRACTIONS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DECAYS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
WIDTHS = (16, 32, 64, 256)
MODULI = (11, 17, 31, 41)
SHOWN = (0.3, 1.0, 3.0)
"""The weight decays whose delays are drawn as lines."""
CELL = ["p", "fraction", "weight_decay", "width"]


def networks(
    p: int, fractions: Sequence[float], decays: Sequence[float], trials: int, *, width: int = WIDTH, **settings: Any
) -> Sweep:
    """Return networks of one width for each fraction and weight decay, the largest fractions first."""
    task = ModularAddition(p=p)
    cells = [
        network(task, fraction, width=width, weight_decay=decay, **settings)
        for fraction in sorted(fractions, reverse=True)
        for decay in decays
    ]
    return repeated(cells, trials)


def smoke(trials: int) -> Sweep:
    """Return two fractions and two weight decays of p = 23, another width, and another p."""
    small: dict[str, Any] = {"steps": 600, "width": 64}
    main = networks(P, (0.7, 0.8), (0.0, 1.0), trials, **small)
    others = networks(P, (0.8,), (1.0,), trials, steps=600, width=128) + networks(19, (0.8,), (1.0,), trials, **small)
    attention = transformer(ModularAddition(p=19), 0.8, width=16, mlp_width=32, learning_rate=0.01, steps=200, every=50)
    return main + others + repeated([attention], trials)


def laptop(trials: int) -> Sweep:
    """Return seven fractions and six weight decays of p = 23, other widths and moduli, and transformers."""
    sweep = networks(P, FRACTIONS, DECAYS, trials)
    for width in WIDTHS:
        sweep += networks(P, (0.5,), (1.0,), trials, width=width)
    for p in MODULI:
        sweep += networks(p, (0.5,), (1.0,), trials)
    return sweep + repeated([small_transformer(fraction, steps=4000) for fraction in (0.8, 0.7, 0.6)], trials)


def part(trials: int) -> Sweep:
    """Return transformers and two-layer networks on three fractions of p = 97 with weight decay."""
    fractions = (0.5, 0.4, 0.3)
    attention = [transformer(ModularAddition(p=97), each, steps=10_000, every=50) for each in fractions]
    two_layer = networks(97, fractions, (1.0,), trials, width=256, steps=2000, every=20)
    return repeated(attention, trials) + two_layer


def paper(trials: int) -> Sweep:
    """Return seven fractions of p = 97 with and without weight decay, and more trials of 0.25 with it."""
    size: dict[str, Any] = {"width": 256, "steps": 2000, "every": 20}
    sweep = networks(97, (0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6), (0.0, 1.0), trials, **size)
    return sweep + networks(97, (0.25,), (1.0,), 4 * trials, **size)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, of all pairs, whenever the stopping rule is checked."""
    rule, size = one.stopping, one.regime.sample_size(one.task)
    assert size is not None
    return TrainErrorRate(every=rule.every, examples=size), HeldOutErrorRate(every=rule.every, examples=rule.examples)


def describe(one: Trial) -> dict[str, Any]:
    """Return the quantities that are varied."""
    assert isinstance(one.model, MLP | PairTransformer)
    assert isinstance(one.training, Descent) and isinstance(one.regime, Split)
    varied = {"p": one.task.classes, "fraction": one.regime.fraction}
    return varied | {"weight_decay": one.training.weight_decay, "width": one.model.width}


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per trial: when it fitted and when it generalised (train and test errors of 1%).

    Columns: p, fraction, weight_decay, width and seed; ``train_at`` and ``test_at``, NaN where not reached;
    ``test_error_when_fitted``; ``delay`` and how it is ``known`` (see ``elegans.analysis.Grokking``). Transformers are
    in a table of their own, ``transformers``, if there are any.
    """
    courses = error_courses(
        results.trials.assign(place=results.trials.index),
        results.measures,
        ["place", "seed"],
        train=FITTED,
        test=SOLVED,
    )
    last = courses.groupby("place").last()
    fitted = courses[courses["step"] == courses["train_at"]].groupby("place")["test_error"].first()
    trials = [results.trial(place) for place in last.index]
    described = pd.DataFrame([describe(one) for one in trials], index=last.index)
    attention = np.array([isinstance(one.model, PairTransformer) for one in trials])
    found = last[["seed", "train_at", "test_at", "delay", "known"]]
    table = described.join(found).assign(test_error_when_fitted=fitted.reindex(last.index))
    found_of = {"table": table[~attention], "transformers": table[attention]}
    return {name: rows.reset_index(drop=True) for name, rows in found_of.items() if len(rows)}


def summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the median delay of a cell with its 95% order-statistic interval; censored delays count as infinite."""
    fitted = rows[rows["train_at"].notna()]
    delays = fitted["delay"].where(fitted["known"] == "exactly").to_numpy(float)
    low, high = median_interval(delays) if len(delays) else (np.nan, np.nan)
    times = rows["test_at"].to_numpy(float)
    return {
        "trials": len(rows),
        "fitted": len(fitted),
        "solved": int(rows["test_at"].notna().sum()),
        "fitted_at": finite_or_none(median(rows["train_at"].to_numpy(float))),
        "solved_at": finite_or_none(median(times)),
        "solved_at_interval": [finite_or_none(end) for end in median_interval(times)],
        "delay": finite_or_none(median(delays)) if len(delays) else None,
        "delay_interval": [finite_or_none(low), finite_or_none(high)],
        "test_error_when_fitted": finite_or_none(float(fitted["test_error_when_fitted"].median()), 3),
    }


def cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: the quantities that are varied, and those of ``summary``."""
    return pd.DataFrame([{**own[CELL].iloc[0].to_dict(), **summary(own)} for _, own in table.groupby(CELL)])


def base(found: pd.DataFrame) -> dict[str, float]:
    """Return the network around which others vary: the p and width with most cells, and fraction and decay of others.

    Where no cell has another width or p, fraction and weight decay are the largest.
    """
    size: pd.Series[int] = found.groupby(["p", "width"])["p"].transform("size")
    p, width = (int(found[name].iloc[int(size.to_numpy().argmax())]) for name in ("p", "width"))
    others = found[(found["p"] != p) | (found["width"] != width)]
    near = found if others.empty else others
    return {"p": p, "width": width, "fraction": near["fraction"].max(), "weight_decay": near["weight_decay"].max()}


def along(found: pd.DataFrame, name: str, centre: dict[str, float]) -> pd.DataFrame:
    """Return the cells that differ from the centre in one quantity at most, in its order."""
    for other, value in centre.items():
        if other != name:
            found = found[found[other] == value]
    return found.sort_values(name)


def plot(tables: Tables) -> Figure:
    """Draw the median delay by fraction and weight decay as a map, and its lines by fraction, width and p.

    A cell's colour and upper number are its median delay in steps, where half of the networks that fit also generalise;
    the lower number is the share of all that do. Lines are medians of the steps to generalise and, dashed, to fit; bars
    are their 95% order-statistic intervals, with a triangle where an end is infinite. Transformers have one more line
    by fraction.
    """
    found = cells(tables["table"])
    centre = base(found)
    figure, axes = panels(2, 2, height=2.5)
    (a, b), (c, d) = axes
    main = found[(found["p"] == centre["p"]) & (found["width"] == centre["width"])]
    _map(a, main)
    present = sorted(main["weight_decay"].unique())
    for colour, decay in zip(COLOURS, [each for each in present if each in SHOWN] or present, strict=False):
        _line(
            b,
            main[main["weight_decay"] == decay].sort_values("fraction"),
            "fraction",
            colour,
            f"weight decay {decay:g}",
        )
    if "transformers" in tables:
        attention = cells(tables["transformers"]).sort_values("fraction")
        _line(b, attention, "fraction", COLOURS[len(SHOWN)], f"transformer, p = {attention['p'].iloc[0]:.0f}")
    for ax, name in ((c, "width"), (d, "p")):
        _line(ax, along(found, name, centre), name, COLOURS[1], "")
    b.set_xlabel("fraction of pairs for training")
    c.set_xlabel("width")
    d.set_xlabel("modulus p")
    logarithmic(c, "x")
    for ax in (b, c, d):
        ax.set_ylabel("steps")
        if ax.lines:
            logarithmic(ax)
    title_panels(axes, ["Median delay, in steps", "Less data take longer to generalise", "By width", "By modulus"])
    figure_legend(figure, b)
    return figure


def _map(ax: Axes, main: pd.DataFrame) -> None:
    decays, fractions = sorted(main["weight_decay"].unique()), sorted(main["fraction"].unique())
    top = np.log10(1 + max([1.0, *main["delay"].dropna()]))
    for row in main.to_dict("records"):
        x, y = fractions.index(row["fraction"]), decays.index(row["weight_decay"])
        known = row["delay"] is not None and np.isfinite(row["delay"])
        colour: Any = RATES(1 - 0.85 * np.log10(1 + row["delay"]) / top) if known else "0.93"
        ax.fill([x - 0.48, x + 0.48, x + 0.48, x - 0.48], [y - 0.48, y - 0.48, y + 0.48, y + 0.48], color=colour)
        said = f"{short(row['delay'])}\n" if known else ""
        text = f"{said}{100 * row['solved'] / row['trials']:.0f}%"
        ax.text(x, y, text, ha="center", va="center", fontsize=SMALL - 1, color=contrast_colour(colour))
    ax.set(xlim=(-0.5, len(fractions) - 0.5), ylim=(-0.5, len(decays) - 0.5))
    ax.set_xticks(range(len(fractions)), [f"{each:g}" for each in fractions])
    ax.set_yticks(range(len(decays)), [f"{each:g}" for each in decays])
    ax.set(xlabel="fraction of pairs for training", ylabel="weight decay")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=SMALL)


def _line(ax: Axes, rows: pd.DataFrame, name: str, colour: str, label: str) -> None:
    known = rows[rows["solved_at"].notna()]
    if known.empty:
        return
    middle = known["solved_at"].astype(float)
    low, high = np.array(known["solved_at_interval"].tolist(), float).T
    bars = [np.nan_to_num(middle - low), np.nan_to_num(high - middle)]
    ax.plot(known[name], middle.where(np.isnan(high)), marker=CARETUPBASE, color=colour, linestyle="")
    style: dict[str, Any] = {"marker": "o", "markersize": 3, "linewidth": 1, "capsize": 2}
    ax.errorbar(known[name], middle, yerr=bars, color=colour, label=label or None, **style)
    fitted = rows[rows["fitted_at"].notna()]
    ax.plot(fitted[name], fitted["fitted_at"].astype(float), color=colour, linewidth=0.8, linestyle="--")


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's times and delay."""
    found = {}
    for kind, table in tables.items():
        for _, rows in table.groupby(CELL):
            one = rows.iloc[0]
            network = f"{'transformer, ' * (kind == 'transformers')}p = {one['p']:.0f}, width {one['width']:.0f}"
            found[f"{network}, fraction {one['fraction']:g}, weight decay {one['weight_decay']:g}"] = summary(rows)
    return {"networks": len(tables["table"]), "cells": found}


EXPERIMENT = Experiment(
    name="grokking-delay",
    shows="Networks know a table long after the part they are trained on; the delay grows as the part shrinks",
    source="Power et al. (2022), figures 1 and 2",
    scales={
        "smoke": Scale(smoke, trials=3),
        "laptop": Scale(laptop, trials=24),
        "part": Scale(part, trials=6, part="addition alone, three fractions with weight decay, at most 10,000 steps"),
        "paper": Scale(paper, trials=6, part="two-layer networks instead of transformers, p = 97, at most 2000 steps"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)

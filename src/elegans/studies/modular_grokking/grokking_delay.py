"""How long after its training set a network knows the rest: by fraction, weight decay, width and p.

Quadratic networks on addition mod p, in full batches of AdamW. The source varies the fraction and the regularisation
of transformers with p = 97; here each of four quantities is varied around one network, fraction and weight decay
together, and the fraction for transformers too.

Source: Power et al. (2022), sections 3.1 and 3.3, figures 1 and 2.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.models import MLP, PairTransformer
from elegans.plots.marks import estimates, heat_map
from elegans.plots.style import (
    COLOURS,
    GREY,
    RATES,
    figure_legend,
    logarithmic,
    panels,
    short,
    title_figure,
    title_panels,
)
from elegans.studies.modular_grokking.errors import error_probes, error_tables
from elegans.studies.modular_grokking.grokking_delay_claims import CLAIMS
from elegans.studies.modular_grokking.settings import P, network, small_transformer, transformer
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
DODGE = 0.006
"""The distance of series that share a fraction."""
PAPER: dict[str, Any] = {"width": 256, "steps": 2000, "every": 20}
CELL = ["p", "fraction", "weight_decay", "width"]


def networks(p: int, fractions: Sequence[float], decays: Sequence[float], **settings: Any) -> list[Trial]:
    """Return networks for each fraction and weight decay, the largest fractions first."""
    pairs = product(sorted(fractions, reverse=True), decays)
    return [network(ModularAddition(p=p), fraction, weight_decay=decay, **settings) for fraction, decay in pairs]


def small() -> list[Trial]:
    """Return two fractions and two weight decays of p = 23, another width, and another p."""
    main = networks(P, (0.7, 0.8), (0.0, 1.0), steps=600, width=64)
    others = [network(ModularAddition(p=p), 0.8, width=width, steps=600) for p, width in ((P, 128), (19, 64))]
    size: dict[str, Any] = {"width": 16, "mlp_width": 32, "learning_rate": 0.01}
    return [*main, *others, transformer(ModularAddition(p=19), 0.8, steps=200, every=50, **size)]


def usual() -> list[Trial]:
    """Return seven fractions and six weight decays of p = 23, other widths and moduli, and transformers."""
    widths = [network(ModularAddition(p=P), width=width) for width in WIDTHS]
    moduli = [network(ModularAddition(p=p)) for p in MODULI]
    return [*networks(P, FRACTIONS, DECAYS), *widths, *moduli, *small_transformers()]


def small_transformers() -> list[Trial]:
    """Return transformers on three fractions of p = 31."""
    return [small_transformer(fraction, steps=4000) for fraction in (0.8, 0.7, 0.6)]


def transformers_alone(experiment: Experiment) -> Experiment:
    """Return only its small transformers."""
    numbers = {"smoke": 1, "laptop": 160, "part": 160, "paper": 160}
    scales = {
        name: Scale(lambda trials: Sweep.of(small_transformers(), trials), trials=numbers[name], part="p = 31")
        for name in experiment.scales
    }
    return replace(experiment, scales=scales, plot=None, findings=None)


def part() -> list[Trial]:
    """Return transformers and two-layer networks on three fractions of p = 97 with weight decay."""
    fractions = (0.5, 0.4, 0.3)
    transformers = [transformer(ModularAddition(p=97), fraction, steps=10_000, every=50) for fraction in fractions]
    return [*transformers, *networks(97, fractions, (1.0,), **PAPER)]


def paper(trials: int) -> Sweep:
    """Return seven fractions of p = 97 with and without weight decay, and more trials of 0.25 with it."""
    cells = networks(97, (0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6), (0.0, 1.0), **PAPER)
    return Sweep.of(cells, trials) + Sweep.of(networks(97, (0.25,), (1.0,), **PAPER), 4 * trials)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per trial: when it fitted and when it generalised (train and test errors of 1%).

    Columns: p, fraction, weight_decay, width and seed; ``train_at`` and ``test_at``, NaN where not reached;
    ``test_error_when_fitted``; ``delay`` and how it is ``known`` (see ``elegans.analysis.Grokking``). Transformers are
    in a separate table, ``transformers``, if there are any.
    """
    _, ends = error_tables(results)
    trials = [results.trial(place) for place in ends.index]
    described = pd.DataFrame([_described(trial) for trial in trials], index=ends.index)
    table = described.join(ends[["seed", "train_at", "test_at", "delay", "known", "test_error_when_fitted"]])
    attention = np.array([isinstance(trial.model, PairTransformer) for trial in trials])
    tables = {"table": table[~attention], "transformers": table[attention]}
    return {name: rows.reset_index(drop=True) for name, rows in tables.items() if len(rows)}


def _described(trial: Trial) -> dict[str, Any]:
    assert isinstance(trial.model, MLP | PairTransformer)
    assert isinstance(trial.training, Descent) and isinstance(trial.regime, Split)
    values = (trial.task.classes, trial.regime.fraction, trial.training.weight_decay, trial.model.width)
    return dict(zip(CELL, values, strict=True))


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
    """Return one row per cell: the quantities that are varied, and the columns of ``summary``."""
    groups = table.groupby(CELL)
    return pd.DataFrame([{**dict(zip(CELL, key, strict=True)), **summary(rows)} for key, rows in groups])


def _centre(table: pd.DataFrame) -> dict[str, float]:
    """Return the network around which others vary: the p and width with most cells, and fraction and decay of others.

    Where no cell has another width or p, fraction and weight decay are the largest.
    """
    size = table.groupby(["p", "width"])["p"].transform("size")
    p, width = table[["p", "width"]].iloc[int(size.to_numpy().argmax())].astype(int)
    others = table[(table["p"] != p) | (table["width"] != width)]
    near = table if others.empty else others
    return {"p": p, "width": width, "fraction": near["fraction"].max(), "weight_decay": near["weight_decay"].max()}


def plot(tables: Tables) -> Figure:
    """Draw the median delay by fraction and weight decay as a map, and its lines by fraction, width and p.

    A cell's colour and upper number are its median delay in steps, where half of the networks that fit also generalise;
    the lower number is the share of all that do. Lines are medians of the steps to generalise and, dashed, to fit; bars
    are their 95% order-statistic intervals, with a triangle where an end is infinite. Transformers have one more line
    by fraction.
    """
    table = cells(tables["table"])
    centre = _centre(table)
    figure, axes = panels(2, 2, height=2.4)
    delays, by_fraction, by_width, by_modulus = axes.ravel()
    main = table[(table["p"] == centre["p"]) & (table["width"] == centre["width"])]
    said = [
        f"{'' if pd.isna(delay) else short(delay)}\n{100 * solved / trials:.0f}%".strip()
        for delay, solved, trials in zip(main["delay"], main["solved"], main["trials"], strict=True)
    ]
    logarithms = np.log10(1 + main["delay"].astype(float))
    values, texts = (
        main.assign(shown=shown).pivot(index="weight_decay", columns="fraction", values="shown")[::-1]
        for shown in (logarithms, said)
    )
    heat_map(delays, values, text=texts, colours=RATES.reversed())
    delays.set(xlabel="fraction of pairs for training", ylabel="weight decay")
    present = sorted(main["weight_decay"].unique())
    for place, decay in enumerate([decay for decay in present if decay in SHOWN] or present):
        rows, label = main[main["weight_decay"] == decay], f"weight decay {decay:g}"
        _line(by_fraction, rows, "fraction", COLOURS[place], label, DODGE * (place - 1))
    if "transformers" in tables:
        attention = cells(tables["transformers"])
        label = f"transformer, p = {attention['p'].iloc[0]:.0f}"
        _line(by_fraction, attention, "fraction", COLOURS[len(SHOWN)], label, 2 * DODGE)
    for ax, name in ((by_width, "width"), (by_modulus, "p")):
        others = [other for other in CELL if other != name]
        like_centre = (table[others] == [centre[other] for other in others]).all(axis=1)
        _line(ax, table[like_centre], name, COLOURS[1])
    labels = ("fraction of pairs for training", "width", "modulus p")
    for ax, label in zip((by_fraction, by_width, by_modulus), labels, strict=True):
        ax.set(xlabel=label, ylabel="steps")
        logarithmic(ax)
    logarithmic(by_width, "x")
    by_fraction.plot([], [], color=GREY, linewidth=0.8, linestyle="--", label="training set fitted")
    fixed = f"weight decay {centre['weight_decay']:g}, {100 * centre['fraction']:.0f}% of the pairs"
    names = ["Median delay (steps) and share that generalise", "Steps by fraction"]
    title_panels(axes, [*names, f"By width, {fixed}", f"By modulus, {fixed}"])
    figure_legend(figure, by_fraction, columns=5)
    task = f"Addition mod {centre['p']}, two-layer quadratic networks of width {centre['width']} unless varied"
    each = f"{table['trials'].median():.0f} trials per cell"
    intervals = "medians with 95% order-statistic intervals, a triangle where one has no upper end"
    finding = "Networks generalise long after they fit their training set, and later with less data"
    title_figure(figure, finding, f"{task}; {each}; {intervals}")
    return figure


def _line(ax: Axes, rows: pd.DataFrame, name: str, colour: str, label: str = "", shift: float = 0) -> None:
    rows = rows.sort_values(name)
    low, high = np.nan_to_num(np.array(rows["solved_at_interval"].tolist(), float), nan=np.inf).T
    middle = rows["solved_at"].astype(float)
    estimates(ax, rows[name] + shift, middle, low, high, colour, fmt="o-", label=label or None)
    ax.plot(rows[name], rows["fitted_at"].astype(float), color=colour, linewidth=0.8, linestyle="--")


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's times and delay."""
    name = "p = {0:.0f}, width {3:.0f}, fraction {1:g}, weight decay {2:g}"
    networks = {
        "transformer, " * (kind == "transformers") + name.format(*key): summary(rows)
        for kind, table in tables.items()
        for key, rows in table.groupby(CELL)
    }
    return {"networks": len(tables["table"]), "cells": networks}


EXPERIMENT = Experiment(
    name="grokking-delay",
    shows="Networks learn a table long after the part they are trained on; the delay grows as the part shrinks",
    source="Power et al. (2022), figures 1 and 2",
    scales={
        "smoke": Scale(lambda trials: Sweep.of(small(), trials), trials=3),
        "laptop": Scale(lambda trials: Sweep.of(usual(), trials), trials=24),
        "part": Scale(
            lambda trials: Sweep.of(part(), trials),
            trials=6,
            part="addition alone, three fractions with weight decay, at most 10,000 steps",
        ),
        "paper": Scale(paper, trials=6, part="two-layer networks instead of transformers, p = 97, at most 2000 steps"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=error_probes,
    claims=CLAIMS,
    options={
        "parts": Option("all, or transformers: only the small transformers", parts(transformers=transformers_alone))
    },
)

"""How far back the first layer attends as it learns: odd numbers of tokens first, then one.

The networks are those of ``induction-phases``: with its store, nothing is retrained.

Source: thesis, section 8.3.1 and figures 8.3 (middle) and E.7.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import softmax

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import (
    COLOURS,
    DIVERGING,
    GREY,
    SMALL,
    figure_legend,
    panels,
    shades,
    title_panels,
)
from elegans.studies.induction_heads import induction_phases as phases
from elegans.studies.induction_heads.plots import along, by_cell
from elegans.studies.induction_heads.positional_profile_claims import CLAIMS
from elegans.studies.induction_heads.settings import sweep_of, thesis_networks
from elegans.studies.induction_heads.tables import measured, shares, spreads_by_series, stated_by_seed
from elegans.sweeps import Sweep

STRONGEST = 0.5
"""The absolute value at which the colours of a profile's map saturate."""


def paper(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' learning rate."""
    return sweep_of(trials, *thesis_networks())


def analyse(results: Results) -> Tables:
    """Return the tables ``curves`` and ``encodings`` of ``induction-phases``, and ``profiles``.

    ``curves`` has also ``difference``, the largest total variation distance between the encodings of two symbols, and
    ``shape``, that between their mean and uniform attention; ``correlation``, the smallest between two symbols' logits
    over distances up to 12; ``content`` and ``position``, the standard deviation of the first layer's logits over the
    symbols of the key, and over distances; ``odd``, whether the encoding is larger at 1, 3 and 5 tokens back than at
    each of their neighbours. ``profiles``: of typical trials, one row per measured step and distance up to 12:
    ``profile``, the logits averaged over symbols, less their mean over all distances.
    """
    tables, taken = phases.analyse(results), measured(results, "positional-profile")
    shapes = [_shapes(rows) for _, rows in taken.groupby("trial")]
    curves = tables["curves"].merge(pd.concat(shapes), on=["trial", "step"])
    keys = ["trial", "cell", "series", "seed", "step", "sequences"]
    shown = curves.loc[curves["typical"], keys].merge(taken[["trial", "step", "profile"]], on=["trial", "step"])
    near = pd.DataFrame([profile[0, : phases.FARTHEST + 1] for profile in shown.pop("profile")])
    profiles = near.join(shown.drop(columns="trial")).melt(keys[1:], var_name="distance", value_name="profile")
    return tables | {"curves": curves, "profiles": profiles.astype({"distance": int})}


def _shapes(taken: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that ``analyse`` adds to one trial's curves, for the first layer's single head."""
    logits, content = (np.stack(list(taken[name]))[:, 0] for name in ("logits", "content"))
    encodings = softmax(logits, axis=-1)
    mean = encodings.mean(axis=1)
    pairs = list(combinations(range(encodings.shape[1]), 2))
    near = logits[:, :, : phases.FARTHEST + 1]
    even, odd = mean[:, 0:7:2], mean[:, 1:6:2]
    return taken[["trial", "step"]].assign(
        difference=np.max([_variation(encodings[:, one], encodings[:, other]) for one, other in pairs], axis=0),
        shape=_variation(mean, np.full(mean.shape[1], 1 / mean.shape[1])),
        correlation=np.min([_correlation(near[:, one], near[:, other]) for one, other in pairs], axis=0),
        content=np.sqrt(content.var(axis=2).mean(axis=1)),
        position=np.sqrt(logits.var(axis=2).mean(axis=1)),
        odd=((odd > even[:, :-1]) & (odd > even[:, 1:])).all(axis=1),
    )


def _variation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the total variation distance of distributions along the last axis."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the correlation of numbers along the last axis."""
    one, other = (numbers - numbers.mean(axis=-1, keepdims=True) for numbers in (one, other))
    return np.asarray((one * other).sum(axis=-1) / np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1)))


def stated(run: pd.DataFrame) -> dict[str, float]:
    """Return summary numbers of one run; without a transition, over the whole training.

    ``since``: the first measured step from which odd distances are favoured (a positive bias) until the transition;
    ``tenth``: the first at which the bias is a tenth of that at the transition; ``lead`` and ``lead_tenth``: how much
    earlier than the transition these are, as shares of its time. ``parity_bias``, ``odd``, ``difference``, ``shape``,
    ``correlation``, ``content`` and ``position`` are those at 90% of the time to the transition; ``content_plateau``, …
    are those at 60% of it, and ``content_end``, … those at the end.

    Args:
        run: one trial's rows of ``curves``.
    """
    moved = run["transition"].iloc[0]
    whole = moved if np.isfinite(moved) else run["step"].max()
    early = run[run["step"] <= whole]
    at, plateau = (run[run["step"] <= share * whole].iloc[-1] for share in (phases.BEFORE, phases.EARLY))
    steps, bias = early["step"], early["parity_bias"]
    since = steps[(bias > 0)[::-1].cummin()[::-1]].min()
    tenth = steps[bias >= bias.iloc[-1] / 10].min() if bias.iloc[-1] > 0 else np.nan
    names = ("difference", "shape", "correlation", "content", "position")
    moments = {"_plateau": plateau, "": at, "_end": run.iloc[-1]}
    others = {f"{name}{when}": float(row[name]) for when, row in moments.items() for name in names}
    times = {"since": since, "tenth": tenth, "lead": 1 - since / whole, "lead_tenth": 1 - tenth / whole}
    return {"transition": float(moved), **times, "parity_bias": at["parity_bias"], "odd": float(at["odd"]), **others}


def claims(one: dict[str, float]) -> dict[str, bool]:
    """Return which of the thesis' claims hold for a run.

    ``favoured``: shortly before the drop the parity bias is positive; ``every``: 1, 3 and 5 tokens back exceed each of
    their neighbours. ``alike``: two symbols' logits correlate by more than 0.9 over distances.

    Args:
        one: as ``stated`` returns it.
    """
    return {"favoured": one["parity_bias"] > 0, "every": one["odd"] == 1, "alike": one["correlation"] > 0.9}


def plot(tables: Tables) -> Figure:
    """Draw typical trials' encodings at four moments; below, all trials' biases, and one trial's profile over time.

    Encodings are averages over symbols, in units of uniform attention. The biases are drawn until the transition. The
    map shows the profile of the first cell's typical trial; colours saturate at 0.5, as the arrows of the colour bar
    indicate.
    """
    curves = tables["curves"]
    cells = by_cell(curves)
    figure, drawn = panels(2, 2, height=2.2)
    for ax, (_, _, chosen) in zip(drawn[0], cells, strict=False):
        series = chosen["series"].iloc[0]
        _moments(ax, tables["encodings"][tables["encodings"]["series"] == series])
    if len(cells) == 1:
        drawn[0, 1].set_axis_off()
    _biases(drawn[1, 0], curves)
    _, _, chosen = cells[0]
    image = _profile(drawn[1, 1], tables["profiles"][tables["profiles"]["series"] == chosen["series"].iloc[0]], chosen)
    bar = figure.colorbar(image, ax=drawn[1, 1], extend="both", ticks=[-STRONGEST, 0, STRONGEST], pad=0.02)
    bar.set_label("centred logit", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    names = [f"{cell}: attention by distance, one trial" for cell, _, _ in cells]
    names += [""] * (2 - len(cells))
    title_panels(drawn, [*names, "Parity bias of all trials", f"{cells[0][0]}: logits by distance, the same trial"])
    if len(cells) == 1:
        drawn[0, 1].set_title("", loc="left")
    figure_legend(figure, drawn[0, 0], drawn[1, 0], columns=5)
    return figure


def _moments(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the encoding at each moment over that of uniform attention, averaged over symbols."""
    moments: Any = rows.groupby("moment", sort=False)
    uniform = float(rows.loc[rows["moment"] == "start", "encoding"].mean())
    for (moment, own), colour in zip(moments, shades(len(moments)), strict=True):
        encoding = own.groupby("distance")["encoding"].mean() / uniform
        ax.plot(encoding.index, encoding, "o-", color=colour, linewidth=1, markersize=2.5, label=phases.MOMENTS[moment])
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xticks(range(0, int(rows["distance"].max()) + 1, 2))
    ax.set(xlabel="distance back (tokens)", ylabel="encoding / uniform attention")


def _biases(ax: Axes, curves: pd.DataFrame) -> None:
    """Draw the parity bias of all trials until their transitions, one colour per cell."""
    for (cell, rows), colour in zip(curves.groupby("cell", sort=False), (COLOURS[1], COLOURS[5]), strict=False):
        for _, run in rows.groupby("seed"):
            run = run[~(run["step"] > run["transition"])]
            ax.plot(run["step"] / run["transition"], run["parity_bias"], color=colour, linewidth=0.7, alpha=0.7)
        ax.plot([], [], color=colour, label=str(cell))
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set_xlim(0, 1)
    ax.set(xlabel="steps / steps to the transition", ylabel="parity bias")


def _profile(ax: Axes, table: pd.DataFrame, run: pd.DataFrame) -> Any:
    """Draw a profile over time, red where a distance is favoured, until soon after the transition; return the image."""
    grid = table.pivot(index="distance", columns="sequences", values="profile")
    limits: dict[str, Any] = {"vmin": -STRONGEST, "vmax": STRONGEST, "cmap": DIVERGING, "shading": "nearest"}
    image = ax.pcolormesh(grid.columns, grid.index, grid.to_numpy(), rasterized=True, **limits)
    ax.set_yticks(range(0, int(grid.index.max()) + 1, 2))
    ax.set_ylabel("distance back (tokens)")
    end, moved = float(run["sequences"].max()), float(run["transition"].iloc[0])
    if np.isfinite(moved):
        at = moved * end / float(run["step"].max())
        ax.axvline(at, color="black", linewidth=0.8, linestyle=":")
        end = min(1.25 * at, end)
    along(ax, end)
    return image


def findings(tables: Tables) -> dict[str, Any]:
    """Return by cell for how many trials each claim holds, and by series the spread of the trials' numbers."""
    found: dict[str, Any] = {}
    for cell, rows in tables["curves"].groupby("cell", sort=False):
        runs = stated_by_seed(rows, stated)
        held = {seed: claims(one) for seed, one in runs.items()}
        found[str(cell)] = {"claims": shares(held), "series": spreads_by_series(rows, runs)}
    return found


EXPERIMENT = Experiment(
    name="positional-profile",
    shows="Before bigrams are learned, the first layer favours looking back 1, 3 and 5 tokens, whatever they are",
    source="figures 8.3 (middle) and E.7",
    scales={
        "smoke": Scale(phases.smoke, trials=1),
        "laptop": Scale(phases.laptop, trials=10),
        "part": Scale(phases.part, trials=20, part="learning rate 1e-3"),
        "paper": Scale(paper, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=phases.probes,
    claims=CLAIMS,
    partial=True,
)
"""Figures 8.3 (middle) and E.7."""

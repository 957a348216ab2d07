"""Loss curves of linear attention in the published settings: one drop if key and query are merged, else a staircase."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, by_share, combine, decided, share_limits, table
from elegans.plots.style import COLOURS, GREY, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.in_context_regression.drops import (
    LENGTH,
    SEPARATE_STEPS,
    D,
    by_run,
    directions,
    first_below,
    maxima_of_slope,
    merged,
    plateaus,
    separate,
)
from elegans.studies.in_context_regression.fits import LEVEL
from elegans.studies.in_context_regression.probes import Preconditioner
from elegans.studies.in_context_regression.theory.descent import context_drop, context_levels
from elegans.sweeps import Sweep
from elegans.training import Trial

WHITE, LINEAR, PUBLISHED, LONGER, ALL = "merged, white", "merged, 1:2:3:4", "separate", "separate, longer", "all blocks"
LONG = {"smoke": 10_001, "laptop": 50_001, "paper": 100_001}
"""Steps of the runs that go on."""
LARGER = {"first weights x 3": 3.0, "first weights x 10": 10.0}
"""Starts that tell at which size of the first weights the last drop fits into the published steps."""
SPECTRUM = (0.4, 0.3, 0.2, 0.1)
FIRST = separate().model.init  # type: ignore[attr-defined]
KEPT = 60
"""Points of each curve that are kept for the figure."""
ROOM = 0.03


def cells(scale: str) -> dict[str, Trial]:
    """Return the settings of a scale by name."""
    return {
        WHITE: merged("white"),
        LINEAR: merged("linear"),
        PUBLISHED: separate(),
        LONGER: separate(LONG[scale]),
        ALL: separate(blocks="all"),
        **{name: separate(larger=factor) for name, factor in LARGER.items()},
    }


def sweep(scale: str, trials: int) -> Sweep:
    """Return the settings; settings with all blocks or larger first weights have half of the seeds."""
    half = -(-trials // 2)
    counts = {ALL: half, **dict.fromkeys(LARGER, half), LONGER: trials if LONG[scale] > SEPARATE_STEPS else 0}
    return Sweep(
        tuple((one, range(counts.get(name, trials))) for name, one in cells(scale).items() if counts.get(name, trials))
    )


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the error on fresh tasks and the learned shares, at most 2000 times in a run."""
    return (Preconditioner(every=max(5, one.steps // 2000)),)


def name_of(row: Any) -> str:
    """Return the name of a trial's setting, given its columns."""
    if pd.isna(row["model.rank"]):
        return WHITE if row["task.covariance"] == "white" else LINEAR
    if row["model.blocks"] == "all":
        return ALL
    for name, factor in LARGER.items():
        if np.isclose(row["model.init"], factor * FIRST, rtol=0.01):
            return name
    return PUBLISHED if row["model.steps"] == SEPARATE_STEPS else LONGER


def analyse(results: Results) -> Tables:
    """Return ``runs``, ``plateaus`` and ``curves``.

    ``runs`` has one row per run: the steps at which its error on fresh tasks passes the middles between levels
    (``drop1``, ...), the steps at which each direction is half learned (``direction1``, ..., the largest eigenvalue
    first), and the number of maxima of the slope. ``plateaus`` is of ``drops.plateaus``. ``curves`` has sixty points
    per run.
    """
    measured = results.measures["preconditioner"]
    settings = measured["trial"].map({trial: name_of(row) for trial, row in results.trials.iterrows()})
    rows, flats, curves = [], [], []
    for named, group in measured.groupby(settings, sort=False):
        setting = str(named)
        levels = context_levels([1 / D] * D if setting == WHITE else SPECTRUM, LENGTH)
        for seed, (steps, losses, shares) in by_run(group, "risk", "shares").items():
            key = {"setting": setting, "seed": seed}
            middles = (levels[1:] + levels[:-1]) / 2
            passed = {f"drop{m + 1}": first_below(steps, losses, middle) for m, middle in enumerate(middles)}
            learned = {f"direction{m + 1}": step for m, step in enumerate(directions(steps, shares))}
            rows.append({**key, **passed, **learned, "maxima": maxima_of_slope(steps, losses)})
            if setting == LONGER:
                flats += [{**key, **flat} for flat in plateaus(steps, losses, levels)]
            # half of the points by time, half by the loss, so that drops have their shape
            passed_by = np.concatenate([[0.0], np.abs(np.diff(losses)).cumsum()])
            along = np.linspace(0, 1, len(steps)) + passed_by / passed_by[-1]
            chosen = np.unique(np.searchsorted(along, np.linspace(0, along[-1], KEPT)))
            points = {"step": steps[chosen].astype(int), "loss": losses[chosen].round(5)}
            curves.append(pd.DataFrame({**points, "setting": setting, "seed": seed}))
    columns = ["setting", "seed", "m", "level", "flat"]
    return {
        "runs": pd.DataFrame(rows),
        "plateaus": pd.DataFrame(flats, columns=columns),
        "curves": pd.concat(curves, ignore_index=True),
    }


def of(tables: Tables, name: str, setting: str, least: int) -> pd.DataFrame:
    """Return the rows of a setting."""
    rows = table(tables, name, f"{least} runs: {setting}", setting=setting)
    if rows["seed"].nunique() < least:
        raise InsufficientData(f"{least} runs: {setting}")
    return rows


def _one_drop(tables: Tables, setting: str, level: float) -> Verdict:
    rows = of(tables, "runs", setting, 29)
    single = (rows["maxima"] == 1) & rows["drop1"].notna()
    return by_share("runs with one maximum", int(single.sum()), len(rows), above=0.8, level=level)


@claim(
    id="icl/one-drop",
    statement="The loss of attention with merged key and query has one plateau and one drop.",
    source="Zhang, Singh, Latham and Saxe (2025), section 3 and figure 1",
    setting="the published settings (without whitening of a sample's tasks), white inputs and eigenvalues 1:2:3:4",
    rule="A run counts if the rate at which the logarithm of the error on fresh tasks falls, measured every five "
    "steps and averaged over five measurements, has exactly one local maximum above a tenth (our choice) of the "
    "largest. More than 80% (our choice) of at least 29 runs count, by exact limits, for both spectra; two parts "
    "share an error rate of 1%.",
)
def one_drop(tables: Tables) -> Verdict:
    return combine({setting: attempt(_one_drop, tables, setting, LEVEL / 2) for setting in (WHITE, LINEAR)})


def _level(tables: Tables, m: int, level: float) -> Verdict:
    rows = of(tables, "plateaus", LONGER, 10)
    rows = rows[(rows["m"] == m) & rows["flat"].astype(bool)]
    if len(rows) < 10:
        raise InsufficientData(f"ten runs that show plateau {m}")
    near = (rows["level"] / context_levels(SPECTRUM, LENGTH)[m] - 1).abs() <= ROOM
    return by_share(f"levels within 3% of plateau {m}", int(near.sum()), len(rows), above=0.75, level=level)


@claim(
    id="icl/staircase-levels",
    statement="The loss of attention with separate key and query of rank one falls from level to level; at level L_m, "
    "m = 0 to d, it has learned m eigenvectors.",
    source="Zhang, Singh, Latham and Saxe (2025), section 4 and figure 2",
    setting="the published setting, trained on for 50,001 steps (laptop) or 100,001; error on fresh tasks; only the "
    "levels m = 1 to 3 are judged",
    rule="Where a run has passed the middles of two drops in a row, we take the error between them at the point where "
    "its logarithm falls slowest. The run shows the plateau if this slowest rate is at most a fifth (our choice) of "
    "the rates at both middles; otherwise the drops merge, and the run does not count. Of the runs that show plateau "
    "m, at least ten, more than 75% (our choice) have an error within 3% of L_m, by exact limits, for m = 1, 2 and 3; "
    "three parts share an error rate of 1%.",
)
def staircase_levels(tables: Tables) -> Verdict:
    return combine({f"m = {m}": attempt(_level, tables, m, LEVEL / 3) for m in (1, 2, 3)})


def in_order(rows: pd.DataFrame) -> pd.Series:
    """Return whether the directions of each run were half learned in falling order of their eigenvalues.

    Directions not yet learned must come last, and at least two must have been learned.
    """
    steps = rows[[f"direction{m + 1}" for m in range(D)]].fillna(np.inf).to_numpy()
    with np.errstate(invalid="ignore"):
        rising = (np.diff(steps, axis=1) > 0) | np.isinf(steps[:, :-1]) & np.isinf(steps[:, 1:])
    return pd.Series(rising.all(axis=1) & np.isfinite(steps[:, 1]), rows.index)


@claim(
    id="icl/falling-order",
    statement="Separate attention of rank one learns eigenvectors in falling order of their eigenvalues.",
    source="Zhang, Singh, Latham and Saxe (2025), section 4",
    setting="the published setting, trained on for 50,001 steps (laptop) or 100,001",
    rule="A run counts if the diagonal entries of M, in the basis of eigenvectors, pass half of their values in "
    "Gamma^-1 at steps that rise strictly with falling eigenvalue, measured at least 2000 times in a run. Entries "
    "that have not passed must come last, and two must have passed. More than 85% (our choice) of at least 29 "
    "runs count, by exact limits at 1%.",
)
def falling_order(tables: Tables) -> Verdict:
    rows = of(tables, "runs", LONGER, 29)
    return by_share("runs in order", int(in_order(rows).sum()), len(rows), above=0.85, level=LEVEL)


def _not_fourth(tables: Tables, setting: str, least: int, level: float) -> Verdict:
    rows = of(tables, "runs", setting, least)
    dropped = int(rows["drop4"].notna().sum())
    low, high = share_limits(dropped, len(rows), level)
    because = f"runs with the fourth drop: {dropped} of {len(rows)} ({low:.3g} to {high:.3g}); claimed: less than 0.1"
    numbers = {"successes": dropped, "trials": len(rows), "limits": [low, high], "claimed": 0.1}
    return decided(high < 0.1, low > 0.1, because, numbers, level, "more trials")


@claim(
    id="icl/published-length",
    statement="In the published setting of separate attention of rank one, in more than 90% of runs the fourth drop "
    "has not happened when training ends.",
    source="derived here, for the code of Zhang, Singh, Latham and Saxe (2025)",
    setting="10,001 steps, 5 heads, 5000 sequences; with the reduced model and with all blocks; their figure may be of "
    "a longer run; without whitening of a sample's tasks",
    rule="Fewer than 10% (our choice) of at least 60 runs of the reduced model, and of at least 50 with all blocks, "
    "have an error on fresh tasks that has passed the middle between the last two levels, by exact limits; two parts "
    "share an error rate of 1%.",
)
def published_length(tables: Tables) -> Verdict:
    return combine(
        {
            "reduced": attempt(_not_fourth, tables, PUBLISHED, 60, LEVEL / 2),
            "all blocks": attempt(_not_fourth, tables, ALL, 50, LEVEL / 2),
        }
    )


def findings(tables: Tables) -> dict[str, Any]:
    """Return by setting how many runs have had each drop, and median steps; and mean levels of plateaus."""
    stated: dict[str, Any] = {}
    for setting, rows in tables["runs"].groupby("setting", sort=False):
        entry: dict[str, Any] = {"runs": len(rows), "one maximum": int((rows["maxima"] == 1).sum())}
        for m in range(1, D + 1):
            entry[f"drop {m}"] = int(rows[f"drop{m}"].notna().sum())
            entry[f"median {m}"] = finite_or_none(median(rows[f"drop{m}"].fillna(np.inf).to_numpy(float)), 4)
        entry["in order"] = int(in_order(rows).sum())
        stated[str(setting)] = entry
    levels = context_levels(SPECTRUM, LENGTH)
    for number, rows in tables["plateaus"].groupby("m"):
        m = int(str(number))
        flat = rows[rows["flat"].astype(bool)]
        stated[f"plateau {m}"] = {
            "shown": len(flat),
            "merged": len(rows) - len(flat),
            "mean level": finite_or_none(float(flat["level"].mean()), 4),
            "predicted": finite_or_none(float(levels[m]), 4),
        }
    return stated


def plot(tables: Tables) -> Figure:
    """Draw the loss curves of merged and separate attention, with levels and the logistic."""
    figure, (axes,) = panels(1, 3, height=2.8)
    curves = tables["curves"]
    longer = LONGER if (curves["setting"] == LONGER).any() else PUBLISHED
    for ax, setting in zip(axes, (WHITE, LINEAR, longer), strict=True):
        spectrum = [1 / D] * D if setting == WHITE else list(SPECTRUM)
        _curves(ax, curves[curves["setting"] == setting], spectrum, setting == longer)
    _logistic(axes[0])
    logarithmic(axes[2], "x")
    axes[2].set_xlim(500, None)
    axes[0].set_ylabel("error on fresh tasks")
    title_panels(axes, ["Merged, white: one drop", "Merged, 1:2:3:4: one drop", "Separate, 1:2:3:4: a staircase"])
    runs = curves[curves["setting"] == longer]["seed"].nunique()
    title_figure(
        figure,
        "Merged attention learns regression in one drop, separate attention by a staircase of predicted levels",
        f"Linear attention, {D} dimensions, {LENGTH} examples, {runs} seeds each; lines: predicted levels; "
        "dashed: the logistic of a typical start",
    )
    return figure


def _curves(ax: Axes, rows: pd.DataFrame, spectrum: list[float], stairs: bool) -> None:
    levels = context_levels(spectrum, LENGTH)
    for level in levels if stairs else levels[[0, -1]]:
        ax.axhline(level, color=GREY, linewidth=0.7, linestyle=":")
    for _, run in rows.groupby("seed"):
        ax.plot(run["step"], run["loss"], color=COLOURS[0], linewidth=0.5, alpha=0.3)
    ax.set(xlabel="step", ylim=(0, 1.05))


def _logistic(ax: Axes) -> None:
    """Draw the predicted loss on white inputs from the mean of P0 over starts."""
    rate, heads, init = 2 * LENGTH * 1e-3, 8, 1e-6 * LENGTH**0.5
    steps = np.arange(0, 6001, 10)
    start = heads * init**2 / 2
    p = context_drop((steps * rate).tolist(), D, LENGTH, start, variance=1 / D)
    share = p / p.max()
    levels = context_levels([1 / D] * D, LENGTH)
    loss = levels[0] - (levels[0] - levels[-1]) * (2 * share - share**2)
    ax.plot(steps, loss, "--", color=COLOURS[1], linewidth=1.2)


EXPERIMENT = Experiment(
    name="icl-loss-curves",
    shows="Merged attention learns regression in one drop, separate attention by a staircase of predicted levels",
    source="Zhang, Singh, Latham and Saxe (2025), figures 1 and 2",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=60),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=400, part="d = 4 and rank one"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[one_drop, staircase_levels, falling_order, published_length],
)

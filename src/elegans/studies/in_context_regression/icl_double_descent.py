"""The error of in-context regression against the number of training sequences: two descents on a formula."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.analysis.intervals import mean_interval
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, by_interval, by_share, combine, table
from elegans.plots import marks
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.studies.in_context_regression.fits import LEVEL, NOISE, PROBES, errors, fitted, slope_of_log
from elegans.studies.in_context_regression.theory.diversity import diversity_error
from elegans.sweeps import Sweep

SETTINGS = ((2.0, 4.0), (2.0, 0.5), (10.0, 4.0))
"""alpha and kappa: examples in a prompt and training tasks, over d."""
RATIOS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Sequences over d (d + 1), the number of features."""
CURVES = {"smoke": (6,), "laptop": (10, 20), "paper": (10, 20, 40)}
"""Dimensions of each scale. All have all ratios at alpha = 2 and kappa = 4; the largest has all settings."""
LIMITS = {"smoke": (6, 10), "laptop": (10, 20, 40), "paper": (10, 20, 40, 80)}
MORE = {10: 10, 20: 5, 40: 2}
"""Draws for the approach to the limit, per draw for the curves, by d: errors at small d vary more."""
TAUS = (0.5, 3.0)
"""Sequences over d^2 at which errors are compared with their limit."""
PEAK = 3.0
"""The least ratio of the error at its peak to the errors at half and at three times as many sequences."""
SHARE = 0.5


def sweep(scale: str, trials: int) -> Sweep:
    """Return curves of all ratios, then fits that approach the limit."""
    cells: dict[tuple[int, float, float, int], int] = {}
    largest = max(CURVES[scale])
    for (alpha, kappa), d in itertools.product(SETTINGS, CURVES[scale]):
        if d == largest or (alpha, kappa) == SETTINGS[0]:
            cells |= {(d, alpha, kappa, round(ratio * d * (d + 1))): trials for ratio in RATIOS}
    for (alpha, kappa), tau, d in itertools.product(SETTINGS, TAUS, LIMITS[scale]):
        cells[d, alpha, kappa, round(tau * d * d)] = MORE.get(d, 1) * trials
    return Sweep(tuple((fitted(d, alpha, kappa, n), range(count)) for (d, alpha, kappa, n), count in cells.items()))


def analyse(results: Results) -> Tables:
    """Return ``fits``, see ``fits.errors``."""
    return {"fits": errors(results)}


def setting(fits: pd.DataFrame, alpha: float, kappa: float) -> pd.DataFrame:
    """Return the fits of one alpha and kappa."""
    return fits[np.isclose(fits["alpha"], alpha) & np.isclose(fits["kappa"], kappa)]


def curve(fits: pd.DataFrame, d: int, alpha: float, kappa: float) -> pd.DataFrame:
    """Return errors on fresh tasks by seed and ratio, at the ratios that all seeds have."""
    rows = setting(fits[fits["d"] == d], alpha, kappa)
    counts = {round(ratio * d * (d + 1)): ratio for ratio in RATIOS}
    rows = rows[rows["sequences"].isin(counts)]
    ratios = rows["sequences"].map(counts)
    return rows.assign(ratio=ratios).pivot(index="seed", columns="ratio", values="fresh")


def _peak(fits: pd.DataFrame, d: int, level: float) -> Verdict:
    rows = curve(fits, d, *SETTINGS[0])
    if len(rows) < 20 or len(rows.columns) < len(RATIOS):
        raise InsufficientData(f"20 draws of all ratios, d = {d}")
    place = rows.idxmax(axis=1)
    height = rows.max(axis=1)
    peaked = place.between(0.95, 1.05) & (height > PEAK * rows[0.5]) & (height > PEAK * rows[3.0])
    return by_share(f"draws whose error peaks there, d = {d}", int(peaked.sum()), len(rows), above=SHARE, level=level)


@claim(
    id="icl/double-descent",
    statement="The error of attention that is fitted to n sequences peaks where n equals the number of features, d (d "
    "+ 1).",
    source="Lu et al. (2024), result 1 and figure 3; at finite d derived here",
    setting="alpha = 2, kappa = 4, d = 10 and 20, least squares, noise 0.1 (our choice; the source leaves it open)",
    rule="Errors on fresh tasks at 15 numbers of sequences from 0.2 to 5 times d (d + 1), each drawn independently. A "
    "draw counts if its largest error is at 0.95, 1 or 1.05 times d (d + 1), and is more than three times as large as "
    "the errors at 0.5 and at 3 times. More than half (our choice) of at least 20 draws count, by exact limits, at d = "
    "10 and at d = 20. Two parts share an error rate of 1%.",
)
def double_descent(tables: Tables) -> Verdict:
    fits = table(tables, "fits", "fits to samples")
    return combine({f"d = {d}": attempt(_peak, fits, d, LEVEL / 2) for d in (10, 20)})


def _approach(fits: pd.DataFrame, alpha: float, kappa: float, tau: float, level: float) -> Verdict:
    rows = setting(fits, alpha, kappa)
    rows = rows[rows["sequences"] == (tau * rows["d"] ** 2).round()]
    groups = [(float(str(d)), draws["fresh"].to_numpy()) for d, draws in rows.groupby("d")]
    if any(len(draws) < 20 for _, draws in groups) or not groups:
        raise InsufficientData("20 draws at each of three dimensions")
    estimate, low, high = slope_of_log(groups, diversity_error(alpha, kappa, NOISE, tau), level)
    return by_interval("the slope", estimate, (low, high), below=-0.5, error_rate=level)


@claim(
    id="icl/asymptotics",
    statement="The error on fresh tasks tends to its limiting formula as d grows.",
    source="Lu et al. (2024), result 1",
    setting="three pairs of alpha and kappa, tau = 0.5 and 3, d = 10 to 40, least squares, noise 0.1",
    rule="We take the deviation of the mean error, over at least 20 draws, from the formula, as a share of the "
    "formula's value. The slope of its logarithm on log d, over at least three dimensions, has an interval, by "
    "resampling draws, below -0.5 (our choice) in each of six settings, which share an error rate of 1%. The claim "
    "fails where the interval lies above.",
)
def asymptotics(tables: Tables) -> Verdict:
    fits = table(tables, "fits", "fits to samples")
    cases = list(itertools.product(SETTINGS, TAUS))
    return combine(
        {
            f"alpha {alpha:g}, kappa {kappa:g}, tau {tau:g}": attempt(
                _approach, fits, alpha, kappa, tau, LEVEL / len(cases)
            )
            for (alpha, kappa), tau in cases
        }
    )


def findings(tables: Tables) -> dict[str, Any]:
    """Return mean errors over draws and their limits, by setting and ratio, at the largest d with a curve."""
    fits, stated = tables["fits"], {}
    for alpha, kappa in SETTINGS:
        rows = setting(fits, alpha, kappa)
        for d, tau in itertools.product(sorted(rows["d"].unique()), TAUS):
            fresh = rows[(rows["d"] == d) & (rows["sequences"] == round(tau * d * d))]["fresh"].to_numpy()
            if len(fresh) < 2:
                continue
            limit = diversity_error(alpha, kappa, NOISE, tau)
            low, high = mean_interval(fresh / limit)
            stated[f"alpha {alpha:g}, kappa {kappa:g}, tau {tau:g}, d {d}"] = {
                "error": round_significant(float(fresh.mean()), 4),
                "limit": round_significant(limit, 4),
                "ratio": round_significant(float(fresh.mean() / limit), 4),
                "interval": [round_significant(float(end), 4) for end in (low, high)],
            }
    return stated


def plot(tables: Tables) -> Figure:
    """Draw the error on fresh tasks against the number of sequences, for three settings, with the formula."""
    fits = tables["fits"]
    figure, (axes,) = panels(1, 3, height=2.8)
    grid = np.geomspace(0.2, 5, 400)
    for ax, (alpha, kappa) in zip(axes, SETTINGS, strict=True):
        limit = [diversity_error(alpha, kappa, NOISE, tau) for tau in grid]
        ax.plot(grid, limit, color=GREY, linewidth=1.2, label="formula, d to infinity")
        for number, d in enumerate(sorted(fits["d"].unique())):
            rows = curve(fits, d, alpha, kappa)
            if len(rows.columns) < len(RATIOS):
                continue
            low, middle, high = (rows.quantile(share).to_numpy() for share in (0.25, 0.5, 0.75))
            marks.estimates(ax, rows.columns.to_numpy(float), middle, low, high, COLOURS[number], label=f"d = {d}")
        ax.axvline(1, color=GREY, linewidth=0.6, linestyle=":")
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.set(xlabel="sequences over features, n / d(d+1)", ylim=(0.2, 3000))
    axes[0].set_ylabel("error on fresh tasks")
    title_panels(axes, [f"alpha = {alpha:g}, kappa = {kappa:g}" for alpha, kappa in SETTINGS])
    title_figure(
        figure,
        "The error peaks where there are as many sequences as features",
        f"Linear attention fitted to n sequences of $\\alpha d$ examples from $\\kappa d$ tasks, noise {NOISE:g}; "
        "medians and quartiles over draws",
    )
    figure_legend(figure, axes[0], columns=4)
    return figure


EXPERIMENT = Experiment(
    name="icl-double-descent",
    shows="The error of in-context regression falls twice, with a peak at as many sequences as features",
    source="Lu et al. (2024), result 1 and figure 3",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=20),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=40, part="dimensions up to 80"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=PROBES,
    claims=[double_descent, asymptotics],
)

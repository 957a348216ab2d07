"""Loss against the learning rate by width: the optima, their shifts, and the regret of another width's optimum.

A setting's trials are a table with one row per trial: ``width``, ``rate`` (at the base width), ``seed``, and ``loss``,
the mean over the last tenth of the steps, infinite where the outputs were not finite. ``early`` is the loss after a
quarter of the steps: at a constant rate, the loss of a training that ends there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, grid_optimum, round_significant, transfer_regret
from elegans.analysis.intervals import percentile_interval
from elegans.experiments import InsufficientData, Results, Verdict
from elegans.experiments.rules import at_least, by_interval
from elegans.plots import marks
from elegans.plots.style import COLOURS, figure_legend, logarithmic, panels, shades, title_figure, title_panels
from elegans.stopping import StoppingRule
from elegans.studies.width_transfer.labels import Cells, labelled
from elegans.studies.width_transfer.slopes import RESAMPLES, SEED, Slope


def tenths(steps: int) -> StoppingRule:
    """Return a rule that never ends a training, by which its curve of losses has a point per tenth of the steps."""
    return StoppingRule(error=0, examples=1, every=max(1, steps // 10), stop=False)


MOMENTS = {"loss": "all steps", "early": "a quarter"}
"""Columns of losses, and after how many of the steps the best rate is determined."""
STEP = 1 + 1e-9
"""By how many powers of two a best rate may shift; rounding does not count."""
QUARTER = 2
"""The number, from 0, of the tenth in whose middle a quarter of the steps is done."""


def final_losses(results: Results, cells: Cells) -> pd.DataFrame:
    """Return the loss of each trial at the end and after a quarter of the steps, with its cell's names and its seed.

    Args:
        results: the trials, stopped by ``tenths``.
        cells: their cells.

    Returns:
        One row per trial, with ``loss``, the mean over the last tenth of the steps, and ``early``, over the third.
    """
    trials, curve = results.trials, results.measures["curve"]
    finite = trials["state"].isin(["solved", "unsolved"])
    tenth = curve.groupby("trial")["loss"]
    early = tenth.nth(QUARTER)
    losses = {"loss": tenth.last(), "early": early.set_axis(curve.loc[early.index, "trial"])}
    rows = pd.DataFrame({"trial": trials.index, "seed": trials["seed"]})
    for name, loss in losses.items():
        kept = loss.reindex(trials.index).where(finite, np.inf)
        rows[name] = kept.map(lambda value: float(f"{value:.5g}"))
    return labelled(results, cells, rows)


class RateCurves(NamedTuple):
    """Losses of one setting.

    Args:
        widths: in increasing order.
        rates: the grid, in increasing order.
        losses: by width, seed and rate.
    """

    widths: np.ndarray
    rates: np.ndarray
    losses: Float[np.ndarray, "widths seeds rates"]

    @property
    def means(self) -> Float[np.ndarray, "widths rates"]:
        """The mean losses over seeds."""
        return np.asarray(self.losses.mean(axis=1))

    @property
    def best(self) -> Float[np.ndarray, " widths"]:
        """log2 of the best rates, NaN at an end of the grid."""
        return np.asarray(np.log2(grid_optimum(self.rates, self.means)))

    def from_width(self, least: float) -> "RateCurves":
        """The curves of widths that are at least as large."""
        kept = self.widths >= least
        return self._replace(widths=self.widths[kept], losses=self.losses[kept])

    def resampled(self) -> Float[np.ndarray, "resamples widths rates"]:
        """The mean losses of bootstrap samples of seeds, drawn for all widths and rates at once."""
        seeds = self.losses.shape[1]
        chosen = np.random.default_rng(SEED).integers(seeds, size=(RESAMPLES, seeds))
        weights = np.apply_along_axis(np.bincount, 1, chosen, minlength=seeds) / seeds
        finite = np.isfinite(self.losses)
        sums = np.einsum("bs,wsr->bwr", weights, np.where(finite, self.losses, 0))
        return np.where(np.einsum("bs,wsr->bwr", weights, ~finite) > 0, np.inf, sums)

    def best_draws(self) -> Float[np.ndarray, "resamples widths"]:
        """log2 of the best rates of bootstrap samples."""
        return np.asarray(np.log2(grid_optimum(self.rates, self.resampled())))

    def best_limits(self) -> Float[np.ndarray, "2 widths"]:
        """Ends of 95% bootstrap intervals of ``best``, over samples whose optimum is not at an end of the grid."""
        draws = self.best_draws().T
        return np.array([percentile_interval(each[np.isfinite(each)], 0.95) for each in draws]).T

    def at_best(self) -> Float[np.ndarray, "widths seeds"]:
        """The losses of all seeds at each width's rate of the least mean loss."""
        chosen = self.means.argmin(axis=1)
        return np.stack([losses[:, rate] for losses, rate in zip(self.losses, chosen, strict=True)])


def rate_curves(rows: pd.DataFrame, least: int, needs: str, column: str = "loss") -> RateCurves:
    """Return the curves of one setting's rows, with the same seeds at all widths and rates; at least some seeds."""
    table = rows.pivot(index=["width", "seed"], columns="rate", values=column)
    widths, seeds = (np.unique(table.index.get_level_values(name)) for name in ("width", "seed"))
    if len(table) != len(widths) * len(seeds) or table.isna().any(axis=None) or len(seeds) < least:
        raise InsufficientData(needs)
    losses = table.to_numpy(float).reshape(len(widths), len(seeds), -1)
    return RateCurves(widths, table.columns.to_numpy(float), losses)


def shifts(curves: RateCurves, level: float) -> dict[int, Slope]:
    """Return by how many powers of two the best rate of each width differs from the narrowest's, with intervals.

    An interval is infinite if an optimum is at an end of the grid in more samples than half of what it leaves out.
    """
    best, draws = curves.best, curves.best_draws()
    return {
        int(width): Slope(float(best[place] - best[0]), *interval_of(draws[:, place] - draws[:, 0], level))
        for place, width in enumerate(curves.widths)
        if place
    }


def shift_verdicts(every: Mapping[str, RateCurves], level: float) -> dict[str, Verdict]:
    """Return for each setting and width whether its best rate is within one power of two of the narrowest's.

    A shift by one counts as within. All comparisons share the error rate.
    """
    wider = at_least(1, [width for curves in every.values() for width in curves.widths[1:]], "two widths of a setting")
    return {
        f"{name}, n = {width}": by_interval(
            f"the shift of log2 of the best rate from n = {curves.widths[0]}",
            *(shift.estimate, shift.interval),
            above=-STEP,
            below=STEP,
            error_rate=level / len(wider),
        )
        for name, curves in every.items()
        for width, shift in shifts(curves, level / len(wider)).items()
    }


def best_slope_draws(curves: RateCurves) -> Float[np.ndarray, " resamples"]:
    """Return slopes of log2 of the best rate on log2 n of bootstrap samples; NaN where an optimum is at an end."""
    draws = curves.best_draws()
    slopes = np.full(len(draws), np.nan)
    defined = np.isfinite(draws).all(axis=1)
    if defined.any():
        slopes[defined] = np.polyfit(np.log2(curves.widths), draws[defined].T, 1)[0]
    return slopes


def best_slope(curves: RateCurves, level: float) -> Slope:
    """Return the slope of log2 of the best rate on log2 n; its interval is infinite where the one of ``shifts`` is."""
    best = curves.best
    estimate = float(np.polyfit(np.log2(curves.widths), best, 1)[0]) if np.isfinite(best).all() else np.nan
    return Slope(estimate, *interval_of(best_slope_draws(curves), level))


def interval_of(draws: np.ndarray, level: float) -> tuple[float, float]:
    """Return the percentile interval of bootstrap values; infinite if more are NaN than half of what it leaves out."""
    defined = np.isfinite(draws)
    if not defined.mean() > 1 - level / 2:
        return -np.inf, np.inf
    return percentile_interval(draws[defined], 1 - level)


def tuning_regret(means: Float[np.ndarray, "... widths rates"]) -> Float[np.ndarray, "... widths"]:
    """Return the excess log loss of the widest network at the rate that is best at each width."""
    return transfer_regret(means[..., -1:, :], means)


def draw_curves(ax: Any, curves: RateCurves, colours: Sequence[Any], label: str = "n = {}") -> None:
    """Draw mean losses against the rate, one line per width, with their optima marked."""
    for width, means, best, colour in zip(curves.widths, curves.means, curves.best, colours, strict=False):
        finite = np.isfinite(means)
        ax.plot(np.log2(curves.rates[finite]), means[finite], color=colour, linewidth=1.2, label=label.format(width))
        if np.isfinite(best):
            ax.plot(best, means.min(), "o", color=colour, markersize=4)


def draw_settings(curves: Mapping[str, Mapping[str, RateCurves]], title: str, setting: str) -> Figure:
    """Draw losses against rates, one row per setting and one panel per parametrisation, and their optima by width."""
    names = list(next(iter(curves.values())))
    figure, axes = panels(len(curves), len(names) + 1, height=2.2)
    for (*shown, last), row in zip(axes, curves.values(), strict=True):
        for ax, (name, each), colour in zip(shown, row.items(), COLOURS, strict=False):
            draw_curves(ax, each, shades(len(each.widths)))
            logarithmic(ax)
            ax.set(xlabel=r"$\log_2$ of the learning rate")
            low, high = each.best_limits()
            marks.estimates(last, each.widths, each.best, low, high, colour, fmt="o-", label=name)
        logarithmic(last, "x")
        last.set(xlabel="width n", ylabel=r"$\log_2$ of the best rate")
        shown[0].set_ylabel("loss")
    title_panels(axes.ravel(), [f"{what}: {panel}" for what in curves for panel in (*names, "best rates")])
    title_figure(figure, title, f"{setting}, optima marked; right: 95% bootstrap intervals over seeds")
    figure_legend(figure, axes[0, 0], axes[0, -1], columns=6)
    return figure


def stated_rates(moments: Mapping[str, RateCurves]) -> dict[str, Any]:
    """Return slopes of the best rate with 95% intervals after some steps, and rates and losses after the first."""
    stated: dict[str, Any] = {}
    for moment, curves in moments.items():
        fitted = best_slope(curves, 0.05)
        stated[f"slope, {moment}"] = finite_or_none(fitted.estimate, 3)
        stated[f"interval, {moment}"] = [finite_or_none(end, 3) for end in fitted.interval]
    curves = next(iter(moments.values()))
    least = curves.means.min(axis=1)
    stated |= {f"best, n = {n}": finite_or_none(best, 2) for n, best in zip(curves.widths, curves.best, strict=True)}
    return stated | {f"loss, n = {n}": round_significant(each, 2) for n, each in zip(curves.widths, least, strict=True)}

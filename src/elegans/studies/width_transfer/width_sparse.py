"""Whether the best learning rate transfers between widths from a sparse initialisation, and from which width on."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.analysis.intervals import percentile_interval
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import by_interval, by_pairs, combine, table
from elegans.models import MLP, GaussianInit, Init
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, shades, title_figure, title_panels
from elegans.studies.width_transfer.curves import (
    MOMENTS,
    RateCurves,
    draw_curves,
    final_losses,
    rate_curves,
    shift_verdicts,
    stated_rates,
    tenths,
    tuning_regret,
)
from elegans.studies.width_transfer.inits import SparseRowsInit
from elegans.studies.width_transfer.labels import Cells, sweep_of
from elegans.studies.width_transfer.slopes import LEVEL
from elegans.studies.width_transfer.theory.scalings import support_share
from elegans.sweeps import Sweep
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Parametrisation, Trial

STANDARD, MAXIMAL = "standard", "maximal-update"


class LearnedParity(NamedTuple):
    """A parity of k of d signs, and the steps that learn it."""

    d: int
    k: int
    steps: int


EASY, HARD, LARGE = LearnedParity(20, 2, 300), LearnedParity(20, 3, 1000), LearnedParity(50, 3, 4000)
PROBLEMS = {"smoke": (EASY,), "laptop": (EASY, HARD), "paper": (EASY, HARD, LARGE)}
WIDTHS = {"smoke": (64, 128), "laptop": (64, 256, 1024, 4096), "paper": (64, 256, 1024, 4096)}
NONZEROS = (0, 2, 3, 8)
MARKERS = {1: "o", 2: "s", 3: "^", 8: "D"}
"""Non-zeros of a row; 0 for dense rows. Parities of two also have rows of one."""
RANGES = {MAXIMAL: (-6, 0), STANDARD: (-12, -1)}
"""log2 of the smallest and the largest learning rate."""
SPACINGS = {"smoke": 3.0, "laptop": 1.0, "paper": 1.0}
HARDER = 2
"""The multiple of the trials of parities of 3 of 20 at scale paper: losses that are close need more pairs."""
ENOUGH = 10
"""The number of neurons of a kind above which they are rarely missing."""
MOST_REGRET, TINY = 10.0, 1e-9
"""What larger regrets, such as infinite ones, count as; a residual variance that is as good as 0."""
SETTING = (
    "two-layer ReLU networks, parities of 2 and 3 of 20 signs (and 3 of 50 at scale paper), square loss, SGD, batches "
    "of 64 fresh examples, 300 to 4000 steps, non-zeros of either sign and size sqrt(2/s); dense rows, biases and "
    "output weights are normal with variance 2 / fan-in; rates are powers of two, quoted at width 64"
)


def start(nonzeros: int) -> Init:
    """Return the distribution of the parameters: only rows differ, with the same mean length."""
    return SparseRowsInit(nonzeros=nonzeros, value=(2 / nonzeros) ** 0.5, signed=True) if nonzeros else GaussianInit()


def share(d: int, k: int, nonzeros: int) -> float:
    """Return the share of neurons whose gradient at the start points to a relevant input: k - 1 or more of its own are.

    The mean gradient of a neuron for input i is a Fourier coefficient of its step function at the relevant set without
    i, or with it; it is 0 unless the neuron has all but one of the relevant inputs. All dense rows have.
    """
    if not nonzeros:
        return 1.0
    return float(sum(support_share(d, k, nonzeros, j) for j in range(k - 1, min(k, nonzeros) + 1)))


def trial(problem: LearnedParity, width: int, nonzeros: int, parametrisation: Any, rate: float) -> Trial:
    """Return a network in a parametrisation, at a learning rate of the base width."""
    model = MLP(width=width, init=start(nonzeros))
    training = SGD(
        learning_rate=rate, loss="square", batch_size=64, steps=problem.steps, stopping=tenths(problem.steps)
    )
    plain = Trial(task=SparseParity(n=problem.d, k=problem.k), regime=Online(), model=model, training=training)
    return Parametrisation(name=parametrisation).apply(plain)


def cells(scale: str) -> Cells:
    """Yield what names each cell of a scale, and its trial; the standard parametrisation for parities of two only."""
    for problem, nonzeros in itertools.product(PROBLEMS[scale], sorted({1, *NONZEROS})):
        names = [MAXIMAL] if problem.k > 2 or nonzeros not in (0, 2) else [MAXIMAL, STANDARD]
        if nonzeros == 1 and problem.k > 2:
            continue  # no neuron would have two relevant inputs
        for name, width in itertools.product(names, WIDTHS[scale]):
            first, last = RANGES[name]
            for rate in 2.0 ** np.arange(first, last + 0.1, SPACINGS[scale]):
                label = {"parametrisation": name, "d": problem.d, "k": problem.k, "nonzeros": nonzeros}
                yield {**label, "width": width, "rate": rate}, trial(problem, width, nonzeros, name, float(rate))


def sweep(scale: str, trials: int) -> Sweep:
    """Return the trials of a scale."""
    plain = sweep_of(cells(scale), trials)
    if scale != "paper":
        return plain
    harder = SparseParity(n=HARD.d, k=HARD.k)
    return Sweep(tuple((one, range((HARDER if one.task == harder else 1) * trials)) for one, _ in plain.parts))


def analyse(results: Results) -> Tables:
    """Return ``losses``, one row per trial."""
    return {"losses": final_losses(results, cells(results.scale))}


def curves_of(tables: Tables, least: int, column: str = "loss", **where: Any) -> RateCurves:
    """Return the curves of one setting."""
    needs = f"{least} seeds of {', '.join(f'{name} = {value}' for name, value in where.items())}"
    return rate_curves(table(tables, "losses", needs, **where), least, needs, column)


def settings(tables: Tables) -> list[tuple[int, int, int]]:
    """Return d, k and non-zeros of all settings in the maximal-update parametrisation."""
    rows = table(tables, "losses", "trials in the maximal-update parametrisation", parametrisation=MAXIMAL)
    return [(int(d), int(k), int(s)) for d, k, s in rows[["d", "k", "nonzeros"]].drop_duplicates().to_numpy()]


@claim(
    id="wt/sparse-transfers",
    statement="With sparse rows, too, the best learning rate in the maximal-update parametrisation at every width "
    "where at least ten neurons with a gradient towards a relevant input are expected is within a factor of two of its "
    "value at the narrowest such width.",
    source="derived here",
    setting=SETTING,
    rule="For each parity and number of non-zeros (1, 2, 3, 8) with at least two widths at which n p is at least 10, "
    "where p is the share of neurons with k - 1 relevant inputs or more: log2 of the best rate at each such width "
    "differs from its value at the narrowest by at most one: its interval lies within 1, by resampling 10 or more "
    "seeds for all widths and rates at once; it fails where the interval lies beyond. All comparisons share an error "
    "rate of 1%, nominally: with few seeds the interval is the range of the 2000 resamples.",
    revised="The rule first left half a step of room. The claim held with it, although parities of two with three "
    "non-zeros shifted by 1.07 (1.04 to 1.10). The room was removed after the tables of the seeds before 7000 had been "
    "seen. In their sparse networks biases and output weights, too, were smaller than in dense ones; now only the rows "
    "differ. On new seeds these networks shift by 0.97 (0.93 to 1.00), too near the limit, and the claim is undecided.",
)
def sparse_transfers(tables: Tables) -> Verdict:
    admissible = {}
    for d, k, s in settings(tables):
        if s:
            curves = curves_of(tables, 10, parametrisation=MAXIMAL, d=d, k=k, nonzeros=s)
            admissible[f"{k} of {d}, {s} non-zeros"] = curves.from_width(ENOUGH / share(d, k, s))
    return combine(shift_verdicts(admissible, LEVEL))


@claim(
    id="wt/sparse-onset",
    statement="How narrow a network may be for its best rate to serve a wide one depends on the width through n p, "
    "where p is the share of neurons with a gradient towards a relevant input.",
    source="derived here",
    setting=SETTING,
    rule="Regret is the excess of the log of the widest network's mean loss, at the rate that is best at width n, "
    "over its least value; above 10 it counts as 10. Over sparse rows of all parities in the maximal-update "
    "parametrisation we fit the regret by the best falling function of n p, and by the best falling function of n. "
    "The ratio of the two residual variances has an interval, over at least 10 seeds, below 1. It fails where the "
    "interval lies above.",
    revised="The claim was undecided on the seeds before 7000, where sparse networks also started with smaller biases "
    "and output weights: a ratio of 1.016 (0.27 to 1.05). Now only the rows differ, and on new seeds it fails: n alone "
    "describes the regret better.",
)
def sparse_onset(tables: Tables) -> Verdict:
    points = [
        (curves_of(tables, 10, parametrisation=MAXIMAL, d=d, k=k, nonzeros=s), share(d, k, s))
        for d, k, s in settings(tables)
        if s
    ]
    widths = np.concatenate([curves.widths[:-1] for curves, _ in points])
    counts = np.concatenate([curves.widths[:-1] * p for curves, p in points])
    draws = np.concatenate([tuning_regret(curves.resampled())[:, :-1] for curves, _ in points], axis=1)
    regrets = np.concatenate([tuning_regret(curves.means)[:-1] for curves, _ in points])
    if not regrets.any():
        raise InsufficientData("settings with a regret above 0")
    interval = percentile_interval([_ratio(counts, widths, each) for each in draws], 1 - LEVEL)
    ratio = _ratio(counts, widths, regrets)
    verdict = by_interval("the residual variance on n p over that on n", ratio, interval, below=1, error_rate=LEVEL)
    needs = "a loss whose best rate is not at the edge of divergence, such as cross-entropy"
    return verdict.but(UNDECIDED, needs=needs) if verdict.verdict == UNDECIDED else verdict


def _ratio(counts: np.ndarray, widths: np.ndarray, regrets: np.ndarray) -> float:
    capped = np.minimum(regrets, MOST_REGRET)
    return (_residual(counts, capped) + TINY) / (_residual(widths, capped) + TINY)


def _residual(x: np.ndarray, regret: np.ndarray) -> float:
    """Return the mean square deviation of regrets from their best falling function of x."""
    from scipy.optimize import isotonic_regression

    _, place, sizes = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(place, regret) / sizes
    fitted = isotonic_regression(means, weights=sizes, increasing=False).x
    return float(np.mean((regret - fitted[place]) ** 2))


@claim(
    id="wt/sparse-wins-at-all-widths",
    statement="At its own best learning rate a network that starts from rows of two non-zeros has a lower loss than "
    "one that starts from dense rows, at every width.",
    source="derived here",
    setting=SETTING,
    rule="Each network at its rate of the least mean loss, in the maximal-update parametrisation, in at least 10 "
    "pairs of the same seed. At each parity and width the sparse network's loss is lower, by a sign test; it fails "
    "where it is higher. All comparisons share an error rate of 1%.",
    revised="Ten pairs at scale laptop left parities of three open. Twenty and forty pairs at scale paper decided: it "
    "held in part. On the seeds before 7000 sparse networks also started with smaller biases and output weights "
    "(uniform, of variance 1 / (3 fan-in) instead of 2 / fan-in). Now only the rows differ, and the claim is judged on "
    "new seeds.",
)
def sparse_wins(tables: Tables) -> Verdict:
    problems = [(d, k) for d, k, s in settings(tables) if s == 2]
    pairs = {}
    for d, k in problems:
        both = [curves_of(tables, 10, parametrisation=MAXIMAL, d=d, k=k, nonzeros=s) for s in (0, 2)]
        for width, dense, sparse in zip(both[0].widths, *(each.at_best() for each in both), strict=True):
            pairs[f"{k} of {d}, n = {width}"] = dense - sparse
    if not pairs:
        raise InsufficientData("trials from dense rows and from rows of two non-zeros")
    return combine(
        {
            name: by_pairs("a lower loss from sparse rows", each, level=LEVEL / len(pairs))
            for name, each in pairs.items()
        }
    )


def plot(tables: Tables) -> Figure:
    """Draw curves of dense and sparse starts at the largest parity, and the regret of tuning at a width."""
    figure, grid = panels(2, 2, height=2.3)
    axes = grid.ravel()
    d, k, _ = max(settings(tables), key=lambda each: (each[1], each[0]))
    for ax, s in zip(axes[:2], (0, 2), strict=True):
        curves = curves_of(tables, 1, parametrisation=MAXIMAL, d=d, k=k, nonzeros=s)
        draw_curves(ax, curves, shades(len(curves.widths)))
        logarithmic(ax)
        ax.set(xlabel=r"$\log_2$ of the learning rate", ylabel="loss")
    problems = list(dict.fromkeys(each[:2] for each in settings(tables)))
    for d_, k_, s in [each for each in settings(tables) if each[2]]:
        curves = curves_of(tables, 1, parametrisation=MAXIMAL, d=d_, k=k_, nonzeros=s)
        regret = tuning_regret(curves.means)[:-1]
        for ax, x in ((axes[2], curves.widths[:-1]), (axes[3], curves.widths[:-1] * share(d_, k_, s))):
            ax.plot(
                x,
                regret,
                MARKERS[s],
                linestyle="",
                color=COLOURS[problems.index((d_, k_))],
                markersize=4,
                alpha=0.8,
                label=f"{k_} of {d_}, s = {s}",
            )
            logarithmic(ax, "x")
    axes[3].axvline(ENOUGH, color=GREY, linewidth=0.8, linestyle="--")
    axes[2].set(xlabel="width n at which the rate is tuned", ylabel="regret at the largest width")
    axes[3].set(xlabel="n p at which the rate is tuned")
    title_panels(
        axes, (f"Dense rows, {k} of {d}", f"Two non-zeros, {k} of {d}", "Regret against n", "Regret against n p")
    )
    title_figure(
        figure,
        "From sparse rows too the best rate stays where it is as networks widen",
        "Maximal-update parametrisation, parities, square loss, online SGD; mean loss over the last tenth of steps, "
        "optima marked; regret: excess log loss of the widest network at the rate tuned at width n; dashed: n p = 10",
    )
    figure_legend(figure, axes[0], axes[2], columns=6)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return slopes of the best rate after all steps and a quarter, best rates and losses by width, of all settings."""
    stated = {}
    for name, d, k, s in tables["losses"][["parametrisation", "d", "k", "nonzeros"]].drop_duplicates().to_numpy():
        where = {"parametrisation": name, "d": d, "k": k, "nonzeros": s}
        stated[f"{name}, {k} of {d}, {f'{s} non-zeros' if s else 'dense'}"] = {
            "n p = 10 at": round_significant(ENOUGH / share(int(d), int(k), int(s)), 3),
            **stated_rates({moment: curves_of(tables, 1, column, **where) for column, moment in MOMENTS.items()}),
        }
    return stated


EXPERIMENT = Experiment(
    name="width-sparse",
    shows="The best learning rate transfers between widths from sparse rows as from dense ones, and the loss is lower",
    source="derived here",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=10),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=20, part="derived here: laboratory sizes"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=[sparse_transfers, sparse_onset, sparse_wins],
)

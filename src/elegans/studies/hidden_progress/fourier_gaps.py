"""Fourier gaps of random neurons, and of a neuron while it learns (figures B.7 and B.8).

The gaps of random neurons are exact, over all inputs; the gaps of a sinusoidal neuron during training are in closed
form, scaled to a derivative of amplitude 1 for comparison with the majority's.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import wilson
from elegans.boolean.gaps import majority_gap
from elegans.experiments import Claim, Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, attempt, by_share, combine, table
from elegans.models import MLP, BernoulliInit, DenseInit, GaussianInit, Init, ReLU, Sinusoid
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, short, title_figure, title_panels
from elegans.probes import FourierGap
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.rules import by_middle
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import middle
from elegans.sweeps import Sweep
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Trial

THRESHOLD, SINE = "threshold", "sine"
WEIGHTS = {"dense": "uniform weights", "gaussian": "Gaussian weights", "bernoulli": "sign weights"}
REFERENCE: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": ":"}
DRAWN = 10
"""The number of trained networks that are drawn."""
DRAWS = 1000
RUNS = 59
COMPARABLE = 0.5
"""The share of the majority's gap from which a gap counts as comparable (our choice)."""
MUCH_LESS = 0.25
"""The share of the majority's gap below which a gap does not count as comparable (our choice)."""
OFTEN = 0.1
"""The share of neurons above which a probability counts as not negligible (our choice)."""


def neuron(n: int, k: int, function: str, init: Init) -> Trial:
    """Return the trial of a neuron without a bias that takes one step; the gap before that step is measured.

    Args:
        n: the number of signs.
        k: the size of the parity.
        function: the derivative of its activation: a ``threshold`` (of a ReLU), or a ``sine``.
        init: the distribution of its weights.
    """
    activation = ReLU() if function == THRESHOLD else Sinusoid(2, scale=2 / math.pi)
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online(),
        model=MLP(width=1, init=init, activation=activation, readout=False, hidden_bias=False),
        training=SGD(steps=1, batch_size=1, learning_rate=0.01, stopping=StoppingRule(examples=1, every=1, stop=False)),
    )


def gaps(n: int, thresholds: Sequence[int], sines: Sequence[int], training: tuple[int, int], trials: int) -> Sweep:
    """Return random neurons with weights of order 1/sqrt(n) from each distribution, and a trained sinusoidal one.

    Args:
        n: the number of signs of random neurons.
        thresholds: the sizes of parities for thresholds.
        sines: those for sines.
        training: the (n, k) of the neuron that learns.
        trials: per cell.
    """
    inits = (DenseInit(), GaussianInit(std=1 / math.sqrt(n)), BernoulliInit())
    cells = [
        neuron(n, k, function, init)
        for function, degrees in ((THRESHOLD, thresholds), (SINE, sines))
        for k in degrees
        for init in inits
    ]
    return Sweep.of([*cells, configuration("xiv", *training)], trials)


def analyse(results: Results) -> Tables:
    """Return ``random``, one row per random neuron, and ``training``, one row per measurement of one that learns.

    Columns: ``function`` (the activation's derivative), ``weights`` (the initialisation), ``task.n``, ``task.k``,
    ``seed``, ``step``, ``solved_at``, the gaps ``relaxed`` and ``strict``, and the ``majority``'s (of thresholds half
    of it, as they are).
    """
    trials = results.trials[["task.n", "task.k", "solved_at", "training.steps"]].assign(
        weights=results.trials["model.init"],
        function=np.where(results.trials["model.activation"] == ReLU().label(), THRESHOLD, SINE),
    )
    cells = trials.drop_duplicates(["task.n", "task.k", "function"])
    gap = [float(majority_gap(int(n), int(k))) for n, k in zip(cells["task.n"], cells["task.k"], strict=True)]
    cells = cells[["task.n", "task.k", "function"]].assign(majority=gap / np.where(cells["function"] == SINE, 1, 2))
    found = results.measures["fourier-gap"].join(trials, on="trial").merge(cells, on=["task.n", "task.k", "function"])
    names = ["function", "weights", "task.n", "task.k", "seed", "step", "solved_at", "relaxed", "strict", "majority"]
    learns = found["training.steps"] > 1
    training = found.loc[learns, names].reset_index(drop=True)
    k = int(training["task.k"].iloc[0])
    training[["relaxed", "strict"]] /= Sinusoid(k).frequency  # the amplitude of its derivative
    return {"random": found.loc[~learns & (found["step"] == 0), names].reset_index(drop=True), "training": training}


def plot(tables: Tables) -> Figure:
    """Draw a histogram of relaxed gaps for each function and parity, and the gap along training.

    Sign weights all have the same gap, drawn as a line. So is the function's gap at equal weights: the majority's, or
    half of it for thresholds, whose values are 0 and 1. The outermost bars include all gaps beyond them. Gaps along
    training are drawn up to the step at which each network solved its task, marked by a dot.
    """
    groups = list(tables["random"].groupby(["function", "task.k"], sort=False))
    columns = min(len(groups) + 1, 3)
    rows = -(-(len(groups) + 1) // columns)
    figure, drawn = panels(rows, columns, height=1.95 + 0.4 / rows)
    axes, titles = drawn.ravel(), []
    for ax, ((function, k), own) in zip(axes, groups, strict=False):
        _histogram(ax, own)
        titles.append(f"{'threshold' if function == THRESHOLD else 'sine'}, k = {k}")
    for ax in drawn[:, 0]:
        ax.set_ylabel("neurons (%)")
    _training(axes[len(groups)], tables["training"])
    first = tables["training"].iloc[0]
    titles.append(f"while neurons learn, k = {first['task.k']}")
    for ax in axes[len(groups) + 1 :]:
        ax.set_axis_off()
    title_panels(axes, titles)
    figure_legend(figure, axes[0], columns=4)
    n, neurons = groups[0][1]["task.n"].iloc[0], min(own["weights"].value_counts().min() for _, own in groups)
    title_figure(
        figure,
        "Many random neurons have Fourier gaps of the majority's order, and training amplifies them",
        f"Thresholds and sines of w·x with random w on {n} signs, {short(neurons)} neurons per histogram, all gaps "
        f"beyond the ends in the outermost bars; last panel: {DRAWN} sinusoidal neurons on a ({first['task.n']}, "
        f"{first['task.k']}) parity, dots where they are solved or stop",
    )
    return figure


def _histogram(ax: Axes, rows: pd.DataFrame) -> None:
    gaps = {str(weights): own["relaxed"].to_numpy(float) for weights, own in rows.groupby("weights", sort=False)}
    spread = [values for values in gaps.values() if np.ptp(values) > 1e-9]
    every = np.concatenate(spread or [np.zeros(1)])
    low, high = np.quantile(every, (0.005, 0.99))
    bins = np.linspace(low, high, 41).tolist()
    for colour, (weights, values) in zip(COLOURS, gaps.items(), strict=False):
        name = WEIGHTS[weights.partition(":")[0]]
        if np.ptp(values) > 1e-9:
            style: dict[str, Any] = {"weights": np.full(len(values), 100 / len(values)), "color": colour}
            ax.hist(values.clip(low, high), bins, alpha=0.25, **style)
            ax.hist(values.clip(low, high), bins, histtype="step", linewidth=1, label=name, **style)
        else:
            ax.axvline(values[0], color=colour, linewidth=1.4, label=name)
    ax.axvline(rows["majority"].iloc[0], label="majority's gap (for thresholds: half of it)", **REFERENCE)
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.set_xlabel("relaxed gap Γ")


def _training(ax: Axes, rows: pd.DataFrame) -> None:
    majority, lowest = rows["majority"].iloc[0], 0.0
    for _, run in list(rows.groupby("seed", sort=False))[:DRAWN]:
        solved_at = float(run["solved_at"].iloc[0])
        until = run[run["step"] <= solved_at] if np.isfinite(solved_at) else run
        ax.plot(until["step"], until["relaxed"], color=COLOURS[0], linewidth=0.8, alpha=0.7)
        ax.plot(until["step"].iloc[-1], until["relaxed"].iloc[-1], color=COLOURS[0], marker="o", markersize=2)
        lowest = min(lowest, until["relaxed"].min())
    ax.axhline(majority, **REFERENCE)
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.set_yscale("symlog", linthresh=majority)
    ax.set_xscale("symlog", linthresh=100)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=1.2 * lowest - 0.1 * majority)
    ax.set(xlabel="steps", ylabel="relaxed gap Γ")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each distribution, the median gap how often gaps are positive, and how they change in training.

    Medians have 95% order-statistic intervals, rates Wilson's 95% intervals.
    """
    found: dict[str, Any] = {
        f"{function}, k={k}, {weights}": {
            "neurons": len(rows),
            "majority": round(float(rows["majority"].iloc[0]), 7),
            "relaxed": middle(rows["relaxed"]),
            "relaxed_positive": _share(rows["relaxed"] > 0),
            "strict_positive": _share(rows["strict"] > 0),
        }
        for (function, k, weights), rows in tables["random"].groupby(["function", "task.k", "weights"], sort=False)
    }
    training = tables["training"]
    runs = training.groupby("seed", sort=False)
    first, largest = runs["relaxed"].first(), runs["relaxed"].max()
    before = training[training["step"] <= 0.5 * training["solved_at"]].groupby("seed", sort=False)["relaxed"].last()
    found["training"] = {
        "neurons": len(first),
        "solved": int(runs["solved_at"].first().notna().sum()),
        "majority": round(float(training["majority"].iloc[0]), 7),
        "at_first": middle(first),
        "positive_at_first": _share(first > 0),
        "largest": middle(largest),
        "largest_over_first": middle((largest / first)[first > 0]),
        "before_half_of_the_time": middle(before / first.where(first > 0)),
    }
    return found


def _share(positive: pd.Series) -> dict[str, Any]:
    low, high = wilson(int(positive.sum()), len(positive))
    return {"share": round(float(positive.mean()), 4), "interval": [round(low, 4), round(high, 4)]}


def often_comparable(tables: Tables) -> Verdict:
    """Decide how often random thresholds have at least half of the gap of one with sign weights, cell by cell."""
    cells = [(k, law) for k in (2, 4, 6) for law in ("dense", "gaussian")]
    level = LEVEL / len(cells)
    return combine({f"k = {k}, {law}": attempt(_often, tables, k, law, level) for k, law in cells})


def _often(tables: Tables, k: int, law: str, level: float) -> Verdict:
    ratio, strict = _ratios(tables, THRESHOLD, k, law)
    large = int((ratio >= COMPARABLE).sum())
    share = by_share("neurons with half of the majority's gap", large, len(ratio), above=OFTEN, level=level)
    return share.but(**_others(ratio, strict))


def _ratios(tables: Tables, function: str, k: int, law: str) -> tuple[pd.Series, pd.Series]:
    """Return the relaxed gaps of a cell as shares of the majority's, and its strict gaps."""
    needs = f"{DRAWS} random neurons per cell at n = 15"
    rows = table(tables, "random", needs, function=function, task__n=15, task__k=k)
    rows = at_least(DRAWS, rows[rows["weights"].str.startswith(law)], needs)
    return rows["relaxed"] / rows["majority"], rows["strict"]


def _others(ratio: pd.Series, strict: pd.Series) -> dict[str, Any]:
    return {
        "median of the ratio": ratio.median(),
        "a quarter of it": (ratio >= MUCH_LESS).mean(),
        "all of it": (ratio >= 1).mean(),
        "strict gap": (strict > 0).mean(),
    }


def mostly_comparable(tables: Tables) -> Verdict:
    """Decide whether the median gap of sinusoidal neurons is comparable to the majority's, cell by cell."""
    cells = [(k, law) for k in (2, 4) for law in ("dense", "gaussian")]
    level = LEVEL / len(cells)
    return combine({f"k = {k}, {law}": attempt(_mostly, tables, k, law, level) for k, law in cells})


def _mostly(tables: Tables, k: int, law: str, level: float) -> Verdict:
    ratio, strict = _ratios(tables, SINE, k, law)
    median = by_middle("the gap over the majority's", ratio, above=COMPARABLE, level=level)
    between = median.verdict == FAILS and median.numbers["interval"][1] >= MUCH_LESS
    needs = f"a median that is not between {MUCH_LESS:g} and {COMPARABLE:g}"
    return (median.but(UNDECIDED, needs=needs) if between else median).but(**_others(ratio, strict))


@claim(
    id="progress/gap-amplifies",
    statement="Under SGD the gap of a sinusoidal neuron that learns starts positive, somewhat below the majority's, "
    "and grows during training.",
    source="figure B.8 (right); section 5.5; B.3.1 to B.3.3",
    setting="10 runs; not stated: n, k, learning rate, batch size",
    rule="Over the solved runs at (51, 4), at least 59: the share with a positive gap at the start is above 0.9, the "
    "median ratio of this gap to the majority's lies in (0.1, 1), and the share whose gap has grown halfway to the "
    "solution is above 0.5 (our thresholds). Limits at 2% over the three.",
    revised="The error rate is now 2% over the three parts, not for each of them. The verdict is the same.",
)
def amplifies(tables: Tables) -> Verdict:
    rows = table(tables, "training", f"{RUNS} solved runs at (51, 4)", task__n=51, task__k=4)
    runs = rows[rows["solved_at"].notna()].groupby("seed")
    at_least(RUNS, runs, f"{RUNS} solved runs at (51, 4)")
    first = runs["relaxed"].first()
    half = rows[rows["step"] <= rows["solved_at"] / 2].groupby("seed")["relaxed"].last()
    ratio = first / runs["majority"].first()
    grown, level = int((half > first).sum()), LEVEL / 3
    return combine(
        {
            "positive at the start": by_share(
                "positive gaps", int((first > 0).sum()), len(first), above=0.9, level=level
            ),
            "below the majority's": by_middle("the gap over the majority's", ratio, above=0.1, below=1.0, level=level),
            "growing": by_share("gaps that grow by half the time", grown, len(first), above=0.5, level=level),
        }
    )


CLAIMS = (
    Claim(
        id="progress/gap-random-thresholds",
        statement="With a probability that is not negligible, linear thresholds with uniform or Gaussian weights have "
        "relaxed Fourier gaps comparable to the majority's.",
        source="B.3.1; figure B.7",
        setting="n = 15; not stated: k, the number of draws, what counts as comparable and not negligible",
        rule="n = 15, exact; k = 2, 4, 6, weights uniform and Gaussian. In every cell, the lower limit of the share of "
        "neurons whose relaxed gap is at least half of the gap of a threshold with sign weights is above 0.1 (both our "
        "choices); 2% over the cells, 1000 draws per cell or more. Shares with a quarter of this gap, all of it, and a "
        "strict gap are reported.",
        decide=often_comparable,
    ),
    Claim(
        id="progress/gap-sinusoid",
        statement="In small cases, gaps of population gradients of sinusoidal neurons at random weights are comparable "
        "to the majority's.",
        source="figure B.8 (left); B.3.1, random non-LTFs",
        setting="sin(w . x / sqrt(n)); not stated: the distribution of w, n, k",
        rule="n = 15, exact; k = 2, 4, weights w uniform within 1, of variance 1/3, and Gaussian of variance 1. In "
        "each cell the median relaxed gap, as a share of the majority's, is above 1/2; a cell fails if it is below 1/4 "
        "(both our choices). Order statistics, 2% over the cells, 1000 draws per cell or more. Shares with a quarter "
        "of the majority's gap, all of it, and a strict gap are reported.",
        revised='The statement had the words "with a probability that is not negligible", which the source uses of '
        "random thresholds only, and the rule asked for half of the majority's gap in a tenth of the draws. The claim "
        "held. The rule was changed after the tables had been seen, and the claim now holds in part.",
        decide=mostly_comparable,
    ),
    amplifies,
)


EXPERIMENT = Experiment(
    name="fourier-gaps",
    shows="Many random neurons have Fourier gaps of the majority's order, and training amplifies them",
    source="appendix B.3.1, figures B.7 and B.8",
    scales={
        "smoke": Scale(lambda trials: gaps(9, (2,), (2,), (15, 2), trials), trials=20),
        "laptop": Scale(lambda trials: gaps(15, (2, 4, 6), (2, 4), (51, 4), trials), trials=300),
        "paper": Scale(lambda trials: gaps(15, (2, 4, 6), (2, 4), (51, 4), trials), trials=3000),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [
        FourierGap(every=1, estimator="exact") if trial.steps == 1 else FourierGap(every=100, estimator="closed form")
    ],
    claims=CLAIMS,
)

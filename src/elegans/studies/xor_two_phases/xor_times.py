"""When the phases of the XOR occur: steps against the dimension and the step size, and the loss reached by then.

Marks come from ``probes.XORMargins``: the signal is found, it dominates, the data are fit.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, scaling_exponent
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_interval, combine, decided, table
from elegans.plots.marks import dots
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.xor_two_phases.probes import XORMargins
from elegans.studies.xor_two_phases.rules import by_most, groups, slope_on_log
from elegans.studies.xor_two_phases.settings import MARKS, THETA, UNPUBLISHED, dimension_axis, trial
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE
from elegans.sweeps import Sweep
from elegans.tasks import XOR
from elegans.training import SGD, Trial

FACTORS = (8, 16)
"""The K for which the smallest loss up to eta t = K log d is taken."""
LOSS = 0.1
RATES = (0.1, 0.05, 0.025)
DIMENSIONS = (32, 64, 128, 256, 512)
SEED = 0
SIZES = "d = 32 to 512, 256 neurons, theta = 0.1, batches of 10d, 10 or more runs each (ours: the source has none)"


def runs(dimensions: Sequence[int], rates: Sequence[float], width: int, trials: int, most: int) -> Sweep:
    """Return runs up to eta t = 16 log d at the first step size, up to 30 at the others."""
    parts = []
    for n in dimensions:
        for number, rate in enumerate(rates):
            steps = math.ceil((30 if number else FACTORS[-1] * math.log(n)) / rate)
            every, batch = round(0.4 / rate), round(n / THETA)
            cell = trial(XOR(n=n), width=width, batch_size=batch, steps=steps, every=every, rate=rate)
            parts.append((cell, range(most if n == 64 and not number else trials)))
    return Sweep(tuple(parts))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of margins, loss and marks, measured whenever success is checked."""
    return (XORMargins(every=one.stopping.every),)


def analyse(results: Results) -> Tables:
    """Return one row per trial: the times eta t of the marks, NaN where they are not reached, and smallest losses.

    ``accurate`` and ``learned`` are the times at which the error is at most 1% and the loss at most 0.1, ``examples``
    how many the run uses per unit of time; ``loss_8`` and ``loss_16`` are the smallest up to eta t = 8 log d and 16 log
    d.
    """
    runs = results.measures["xor-margins"].groupby("trial", sort=False)
    return {"table": pd.DataFrame([_row(results.trial(int(str(index))), run) for index, run in runs])}


def _row(one: Trial, run: pd.DataFrame) -> dict[str, Any]:
    assert isinstance(one.training, SGD)
    rate, n = one.training.learning_rate, one.task.input_size
    time = rate * run["step"]
    marks = {name: time[run[quantity] >= level].min() for name, (quantity, level) in MARKS.items()}
    marks |= {"accurate": time[run["error"] <= 0.01].min(), "learned": time[run["loss"] <= LOSS].min()}
    losses = {f"loss_{K}": run.loc[time <= K * math.log(n), "loss"].min() for K in FACTORS}
    return {"task.n": n, "rate": rate, "seed": one.seed, "examples": one.training.batch_size / rate, **marks, **losses}


def plot(tables: Tables) -> Figure:
    """Draw the times of the marks against the dimension, one dot per run, and the smallest loss."""
    rows = tables["table"]
    figure, ((left, right),) = panels(1, 2, height=2.5)
    first = rows[rows["rate"] == rows["rate"].iloc[0]]
    for ax in (left, right):
        dimension_axis(ax, sorted(first["task.n"].unique()))
    labels = ("the signal is found", "it dominates", "the data are fit")
    for name, label, colour in zip(MARKS, labels, COLOURS, strict=False):
        dots(left, first["task.n"], first[name], colour, spread=0.3, label=label)
    dots(right, first["task.n"], first["loss_8"], GREY, spread=0.3)
    right.axhline(LOSS, color=GREY, linewidth=0.8, linestyle=":", label=f"threshold of our rule: {LOSS:g}")
    left.set(ylim=(0, None), ylabel=r"time $\eta t$ (steps times step size)")
    right.set(ylim=(0, None), ylabel="smallest held-out loss (nats)")
    titles = "All three marks move in parallel", r"The loss reached by $\eta t = 8 \log d$ falls with d"
    title_panels((left, right), titles)
    title_figure(
        figure,
        "Finding the signal takes time of order log d; fitting it then takes the same time at every size",
        f"XOR of two of d signs; ReLU network, SGD on fresh examples with step size {first['rate'].iloc[0]:g}; "
        "one dot per run",
    )
    figure_legend(figure, left, right, columns=4)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return the median times of the marks and the median smallest loss for each dimension and step size."""
    names = [*MARKS, "accurate", "learned", "loss_8", "loss_16"]
    stated: dict[str, Any] = {
        f"step size {rate:g}, d = {n}": {name: finite_or_none(median(runs[name].to_numpy(float)), 4) for name in names}
        for (rate, n), runs in tables["table"].groupby(["rate", "task.n"])
    }
    return {**stated, "time_per_log_of_theory": finite_or_none(1 / (2 * PHASE_ONE_RATE), 4)}


def _runs(tables: Tables, rates: Sequence[float]) -> pd.DataFrame:
    needs = f"10 runs each at d = 32 to 512 with step sizes {', '.join(f'{rate:g}' for rate in rates)}"
    rows = table(tables, "table", needs, task__n=list(DIMENSIONS), rate=list(rates))
    groups(rows, ["rate", "task.n"], len(DIMENSIONS) * len(rates), 10, needs)
    return rows


@claim(
    id="xor/loss-vanishes",
    statement="The population loss becomes o(1) within C log(d)/eta steps, with probability near 1.",
    source="Theorem 3.1, Theorem E.1",
    setting="theta = eta = log^(-C) d, batches of d/theta; not stated: C and the rate of o(1)",
    rule=f"{SIZES}, eta = 0.1; 64 runs at d = 64. (a) At d = 64, the smallest held-out loss up to eta t = 8 log d is "
    "at most 0.1 in more than 90% of the runs (exact limits; K = 8 and 0.1 are our choices; in part if K = 16 is "
    "needed). (b) The smallest loss falls with d: the t interval of the slope of its logarithm on log d lies below "
    "0. At 1% each. One size and one constant cannot refute the claim: if the share is too small, or the loss does "
    "not fall, it is undecided.",
    revised="Limits had an error rate of 5% each, and a rise of the loss by less than 0.005 per unit of log d counted "
    "as no rise; the claim held. With an error rate of 1%, 29 of 29 runs left it undecided. It now holds by 64 of 64 "
    "on new seeds, and also passes the stricter trend.",
)
def loss_vanishes(tables: Tables) -> Verdict:
    rows = _runs(tables, RATES[:1])
    runs = at_least(29, rows[rows["task.n"] == 64], "29 runs at d = 64")
    small = {K: int((runs[f"loss_{K}"] <= LOSS).sum()) for K in FACTORS}
    at_64, later = (
        by_most(f"runs of loss {LOSS} within eta t = {K} log d", count, len(runs), above=0.9, level=LEVEL / 2)
        for K, count in small.items()
    )
    if at_64.verdict == FAILS and later.verdict == HOLDS:
        at_64 = later.but(IN_PART, needs="holds with K = 16")
    elif at_64.verdict == FAILS:
        at_64 = at_64.but(UNDECIDED, needs="larger d")
    slope, (low, high) = slope_on_log(rows["task.n"], np.log(rows["loss_8"]), LEVEL / 2)
    because = f"the least loss's logarithm changes by {slope:.4f} ({low:.4f} to {high:.4f}) for each unit of log d"
    numbers = {"slope": slope, "interval": [low, high]}
    trend = decided(high < 0, False, because, numbers, LEVEL / 2, "larger d")
    return combine({"d = 64": at_64, "falls with d": trend})


@claim(
    id="xor/time-grows-as-log",
    statement="The signal is found after a time eta t of order log d, and the second phase takes only log log d more.",
    source="Lemmas 4.1, 4.4 and C.1, sections 1 and 4.1, Definition C.8",
    setting="not stated: constants",
    rule=f"{SIZES}, eta = 0.1, 0.05, 0.025. The time at which the signal is found has a positive slope on log d (t "
    "interval), also in a regression on log d and the root of d: growth as the root of d alone has none there. The "
    "slope is within 20% of 1/(2 tau_1) = 1.253, the slope of Definition C.8 (our choice of the margin). Its means "
    "over step sizes agree within 10% (bootstrap). The time from dominates to fit grows with less than half of the "
    "slope on log d. The five parts share an error rate of 2%. Fails if the time falls, or grows faster than the "
    "root of d; another slope is undecided. Smaller powers of d are not excluded. Log log d goes from 1.2 to 1.8 "
    "here, so all that can be shown of the second phase is growth much slower than log d.",
    revised="The three intervals were at 95% each. Then growth as any power of d passed the rule; now growth as the "
    "root of d does not. Then the slope that Definition C.8 gives was added. The changes were made after the tables "
    "had been seen. The verdict is the same.",
)
def grows_as_log(tables: Tables) -> Verdict:
    level, rows = LEVEL / 5, _runs(tables, RATES)
    first = rows[rows["rate"] == RATES[0]]
    second = first["fit"] - first["dominates"] - first["found"] / 2
    cells = [runs["found"].to_numpy() for _, runs in rows.groupby(["rate", "task.n"])]
    generator = np.random.default_rng(SEED)
    drawn = [_ratio([generator.choice(times, len(times)) for times in cells]) for _ in range(2000)]
    ends = np.quantile(drawn, [level / 2, 1 - level / 2]).tolist()
    what = "the largest mean time over step sizes over the smallest"
    less = "the second phase's slope less half of the first's"
    grows = slope_on_log(first["task.n"], first["found"], level)
    slower = slope_on_log(first["task.n"], second, level)
    bounded = _beside_root(first["task.n"].to_numpy(float), first["found"].to_numpy(float), level)
    beside = "its slope on log d beside the root of d"
    order = {
        "found grows": by_interval("its time per unit of log d", *grows, above=0, error_rate=level),
        "slower than the root of d": by_interval(beside, *bounded, above=0, error_rate=level),
    }
    theory = 1 / (2 * PHASE_ONE_RATE)
    rate = by_interval("its time per unit of log d", *grows, above=0.8 * theory, below=1.2 * theory, error_rate=level)
    parts = {
        **order,
        "rate of theory": rate.but(UNDECIDED, needs="larger d") if rate.verdict == FAILS else rate,
        "in units of the step size": by_interval(what, _ratio(cells), ends, below=1.1, error_rate=level),
        "second phase far slower": by_interval(less, *slower, below=0, error_rate=level),
    }
    verdict = combine(parts)
    return verdict.but(FAILS) if any(part.verdict == FAILS for part in order.values()) else verdict


def _beside_root(n: np.ndarray, values: np.ndarray, level: float) -> tuple[float, tuple[float, float]]:
    """Return the coefficient of log d in a regression on log d and the root of d, with its t interval."""
    from scipy.stats import t

    columns = np.column_stack([np.log(n), np.sqrt(n), np.ones(len(n))])
    fitted, (squares,), *_ = np.linalg.lstsq(columns, values)
    freedom = len(n) - 3
    error = math.sqrt(squares / freedom * np.linalg.inv(columns.T @ columns)[0, 0])
    half = float(t.ppf(1 - level / 2, freedom)) * error
    return float(fitted[0]), (float(fitted[0]) - half, float(fitted[0]) + half)


@claim(
    id="xor/near-linear-samples",
    statement="Minibatch SGD on both layers learns the XOR from d polylog(d) examples.",
    source="abstract; Theorem 3.1 and the sentence after it; section 5",
    setting="theta = eta = log^(-C) d, batches of d/theta; not stated: C and the loss at which to stop",
    rule=f"{SIZES}, eta = 0.1. (a) The exponents of the examples to a held-out loss of 0.1 and to an error of 1% have "
    "bootstrap intervals below 1.5 (our choice). (b) Polylogarithmic: local exponents fall with d, by the t interval "
    "of the quadratic coefficient in a regression on log d. Four comparisons share an error rate of 2%. Fails if both "
    "exponents lie above 1.5; undecided while one part is open.",
    revised="The four intervals were at 95% each. The claim held in part if only (a) was decided, although it failed "
    "nowhere. It is now undecided. The rule was changed after the tables had been seen. Four times as many runs, on "
    "new seeds, leave it undecided.",
)
def near_linear(tables: Tables) -> Verdict:
    level, rows = LEVEL / 4, _runs(tables, RATES[:1])
    sizes = rows["task.n"].to_numpy(float)
    near: list[Verdict] = []
    parts: dict[str, Verdict] = {}
    for name, what in (("learned", f"loss {LOSS}"), ("accurate", "error 1%")):
        counts = (rows[name] * rows["examples"]).to_numpy(float)
        if not np.isfinite(counts).all():
            raise InsufficientData(f"runs that reach {what}")
        cells = {n: counts[sizes == n].tolist() for n in np.unique(sizes).tolist()}
        law = scaling_exponent(cells, generator=np.random.default_rng(SEED), confidence=1 - level)
        what = f"the exponent of the examples to {what}"
        near.append(by_interval(what, law.exponent, (law.low, law.high), below=1.5, error_rate=level))
        bends = _bends(np.log(sizes), np.log(counts), level)
        parts |= {f"near-linear, {name}": near[-1], f"polylogarithmic, {name}": bends}
    verdict = combine(parts)
    if all(part.verdict == FAILS for part in near):
        return verdict.but(FAILS)
    if verdict.verdict == UNDECIDED and all(part.verdict == HOLDS for part in near):
        return verdict.but(needs="larger d, which tell a power of log d from a small power of d")
    return verdict


def _bends(x: np.ndarray, y: np.ndarray, level: float) -> Verdict:
    """Decide whether local exponents fall, by the t interval of the quadratic coefficient in a regression."""
    from scipy.stats import t

    (square, *_), covariance = np.polyfit(x, y, 2, cov=True)
    half = float(t.ppf(1 - level / 2, len(x) - 3) * np.sqrt(covariance[0, 0]))
    return by_interval(
        "the square's coefficient", float(square), (square - half, square + half), below=0, error_rate=level
    )


def _ratio(cells: Sequence[np.ndarray]) -> float:
    """Return the largest cell mean over step sizes, relative to the smallest."""
    means = np.array([times.mean() for times in cells]).reshape(len(RATES), -1).mean(axis=1)
    return float(means.max() / means.min())


EXPERIMENT = Experiment(
    name="xor-times",
    shows="The time to find the XOR's signal grows like log d, and the loss is small soon after",
    source="Theorem 3.1 and Lemma 4.1, no figure",
    scales={
        "smoke": Scale(lambda trials: runs((8, 16), (0.1,), 64, trials, trials), trials=1),
        "laptop": Scale(lambda trials: runs((16, 32, 64, 128), (0.1,), 128, trials, trials), trials=5),
        "paper": Scale(
            lambda trials: runs(DIMENSIONS, RATES, 256, trials, max(64, trials)),
            trials=10,
            part=UNPUBLISHED,
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[near_linear, loss_vanishes, grows_as_log],
)

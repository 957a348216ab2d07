"""Loss against the learning rate by width, in three parametrisations, beside what the tangent kernel predicts."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, round_significant
from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import at_least, attempt, by_interval, by_pairs, combine, table
from elegans.models import MLP, GaussianInit
from elegans.plots import marks
from elegans.plots.style import COLOURS, figure_legend, logarithmic, panels, shades, title_figure, title_panels
from elegans.studies.width_transfer.curves import (
    MOMENTS,
    RateCurves,
    best_slope,
    draw_curves,
    final_losses,
    rate_curves,
    shift_verdicts,
    stated_rates,
    tenths,
    tuning_regret,
)
from elegans.studies.width_transfer.labels import Cells, sweep_of
from elegans.studies.width_transfer.slopes import LEVEL
from elegans.studies.width_transfer.theory.kernel import kernel_stable_rate, tangent_kernel_parts
from elegans.sweeps import Sweep
from elegans.tasks import Online, Regime, Sample, SparseParity
from elegans.training import SGD, Parametrisation, Trial

STANDARD, NTK, MAXIMAL = "standard", "ntk", "maximal-update"
TITLES = {STANDARD: "Standard", NTK: "NTK", MAXIMAL: "Maximal update"}
REGIMES: dict[str, Regime] = {"online": Online(), "2000 examples": Sample(2000)}
WIDTHS = {
    "smoke": (64, 128),
    "laptop": (64, 256, 1024, 4096),
    "paper": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
}
STABLE = 2.0 ** np.arange(-6, 1)
RATES = {STANDARD: 2.0 ** np.arange(-12, 0), NTK: STABLE, MAXIMAL: STABLE}
STEPS = 300
TASK = SparseParity(n=20, k=2)
SMALLEST = 256
"""The width from which on optima are compared."""
WIDE = 1024
"""The width from which on the power of the standard form is compared with the kernel's."""
ROOM = 0.15
FROM_WIDE = f"slope from {WIDE} on"
KERNEL_INPUTS, KERNEL_STARTS = 256, 5
SETTING = (
    "two-layer ReLU network, dense Gaussian start, parity of 2 of 20 signs, square loss, SGD, 300 batches of 64, "
    "fresh or from 2000 examples; rates are powers of two, quoted at width 64"
)


def trial(regime: str, parametrisation: Any, width: int, rate: float) -> Trial:
    """Return a network in a parametrisation, at a learning rate of the base width."""
    training = SGD(learning_rate=rate, loss="square", batch_size=64, steps=STEPS, stopping=tenths(STEPS))
    model = MLP(width=width, init=GaussianInit())
    plain = Trial(task=TASK, regime=REGIMES[regime], model=model, training=training)
    return Parametrisation(name=parametrisation).apply(plain)


def cells(scale: str) -> Cells:
    """Yield what names each cell of a scale in the tables, and its trial."""
    for regime, name, width in itertools.product(REGIMES, TITLES, WIDTHS[scale]):
        for rate in RATES[name][:: 1 if scale != "smoke" else 3]:
            label = {"regime": regime, "parametrisation": name, "width": width, "rate": rate}
            yield label, trial(regime, name, width, float(rate))


def sweep(scale: str, trials: int) -> Sweep:
    """Return the trials of a scale."""
    return sweep_of(cells(scale), trials)


def analyse(results: Results) -> Tables:
    """Return ``losses``, one row per trial, and ``kernel``, log2 of the standard network's largest stable rate."""
    rows = []
    for width, seed in itertools.product(WIDTHS[results.scale], range(KERNEL_STARTS)):
        generator = np.random.default_rng([results.first_seed + seed, width])
        x = generator.choice([-1.0, 1.0], (KERNEL_INPUTS, TASK.n))
        hidden = generator.normal(size=(width, TASK.n)) * (2 / TASK.n) ** 0.5
        parts = tangent_kernel_parts([hidden], generator.normal(size=width) * (2 / width) ** 0.5, x)
        rows.append({"width": width, "seed": seed, "rate": round(float(np.log2(kernel_stable_rate(parts))), 4)})
    return {"losses": final_losses(results, cells(results.scale)), "kernel": pd.DataFrame(rows)}


def curves_of(tables: Tables, regime: str, parametrisation: str, least: int = 10, column: str = "loss") -> RateCurves:
    """Return the curves of one setting."""
    needs = f"{least} seeds, {regime}, {parametrisation}"
    rows = table(tables, "losses", needs, regime=regime, parametrisation=parametrisation)
    return rate_curves(rows, least, needs, column)


def kernel_slope(tables: Tables, smallest: int = 0) -> float:
    """Return the slope of log2 of the kernel's largest stable rate on log2 n over the table's widths from one on."""
    means = tables["kernel"].groupby("width")["rate"].mean().loc[smallest:]
    return float(np.polyfit(np.log2(means.index.to_numpy(float)), means, 1)[0])


@claim(
    id="wt/stable-optimum",
    statement="In the maximal-update parametrisation the best learning rate at every width from 256 on is within one "
    "factor of two of the best rate at 256.",
    source="Yang et al. (2022), sections 4 and 6.1",
    setting=SETTING + "; the source: CIFAR-10, 20 epochs, cross-entropy, two hidden layers, and transformers of at "
    "least 5000 steps",
    rule="For fresh examples and for 2000: log2 of the best rate at each width above 256 differs from its value at "
    "256 by at most one: its interval lies within 1, by resampling 10 or more seeds for all widths and rates at once; "
    "it fails where the interval lies beyond. All comparisons share an error rate of 1%, nominally: with few seeds the "
    "interval is the range of the 2000 resamples.",
    revised="The rule left half a step of room: shifts of up to 1.5 counted as within a factor of two. It was changed "
    "after the tables of the seeds before 6000 had been seen, in which no shift exceeded 0.8, and is judged on later "
    "ones.",
)
def stable_optimum(tables: Tables) -> Verdict:
    every = {regime: curves_of(tables, regime, MAXIMAL).from_width(SMALLEST) for regime in REGIMES}
    return combine(shift_verdicts(every, LEVEL))


@claim(
    id="wt/standard-shifts",
    statement="In the standard parametrisation with the square loss the best learning rate falls with the width, "
    "and in wide networks with the power that the tangent kernel at the start predicts, to within 0.15.",
    source="Yang et al. (2022), section 3; the prediction is derived here",
    setting=SETTING
    + "; the source has cross-entropy, where it reports a fall by a factor of about ten from 256 to 8192, and "
    "states no power",
    rule="The slope of log2 of the best rate on log2 n, by resampling 10 or more seeds for all widths and rates at "
    "once. Over all widths, at least three, its interval lies below -0.5. Over widths from 1024 on, at least three, it "
    "lies within 0.15 (our choice) of the slope of 2 over the kernel's largest eigenvalue (256 inputs, five starts) "
    "over the same widths. Each part fails where the interval lies outside. Fresh examples and 2000: four parts share "
    "an error rate of 1%.",
    revised="The rule first asked for both parts at once, so the claim failed on seeds 1000 to 1009: the rate fell, "
    "but with the power -1.25 instead of the kernel's -0.99. The two parts were then judged separately, and the "
    "second failed on seeds 5000 to 5059: over all widths the power is -1.25, because the rate falls by a factor of "
    "four at one doubling, between 512 and 1024. The kernel's power is a limit for wide networks, so it is now "
    "compared from 1024 on. This rule was chosen after those tables had been seen. By the old one the claim held in "
    "part; by this one it holds, on seeds 6000 to 6059, which were trained later.",
)
def standard_shifts(tables: Tables) -> Verdict:
    parts = {}
    for regime in REGIMES:
        curves = curves_of(tables, regime, STANDARD)
        at_least(3, curves.widths, "three widths")
        parts[f"falls, {regime}"] = _slope(curves, below=-0.5)
        parts[f"as the kernel says, {regime}"] = attempt(_as_the_kernel_says, tables, curves.from_width(WIDE))
    return combine(parts)


def _slope(curves: RateCurves, *, above: float = -math.inf, below: float = math.inf) -> Verdict:
    fitted = best_slope(curves, LEVEL / 4)
    what = "the slope of log2 of the best rate"
    return by_interval(what, fitted.estimate, fitted.interval, above=above, below=below, error_rate=LEVEL / 4)


def _as_the_kernel_says(tables: Tables, curves: RateCurves) -> Verdict:
    at_least(3, curves.widths, f"three widths from {WIDE} on")
    predicted = kernel_slope(tables, WIDE)
    return _slope(curves, above=predicted - ROOM, below=predicted + ROOM)


@claim(
    id="wt/wider-is-better",
    statement="In the maximal-update parametrisation, with each width at its best rate, wider networks have a lower "
    "training loss at the end of training.",
    source="Yang et al. (2022), section 8",
    setting=SETTING + "; the source: the same hyperparameters for all widths; it also states this of all of training, "
    "with a readout that starts at zero",
    rule="For fresh examples and for 2000, and each pair of neighbouring widths: the wider network's mean loss "
    "over the last tenth of the steps is lower, by a sign test over pairs of the same seed, at least 10; it fails "
    "where it is higher. All comparisons share an error rate of 1%.",
    revised="At scale paper, with 20 seeds, the claim was undecided: two of the fourteen comparisons, of widths that "
    "differ by a factor of two on 2000 examples, were open. It holds with 60 on new seeds. The "
    "statement did not say that it is about the end of training; after a quarter of the steps the same comparisons are "
    "open in wide networks.",
)
def wider_is_better(tables: Tables) -> Verdict:
    pairs = {
        f"{regime}, {name}": each
        for regime in REGIMES
        for name, each in gains(curves_of(tables, regime, MAXIMAL)).items()
    }
    return combine({name: by_pairs("a lower loss", each, level=LEVEL / len(pairs)) for name, each in pairs.items()})


def gains(curves: RateCurves) -> dict[str, np.ndarray]:
    """Return by how much the wider of two neighbouring widths has the lower loss, in each seed, at its best rate."""
    every = zip(curves.widths, curves.at_best(), strict=True)
    return {f"n = {n} to {m}": narrow - wide for (n, narrow), (m, wide) in itertools.pairwise(every)}


def plot(tables: Tables) -> Figure:
    """Draw losses against rates, one panel per parametrisation, and optima against the width."""
    figure, axes = panels(2, 2, height=2.3)
    *shown, last = axes.ravel()
    for ax, name, colour in zip(shown, TITLES, COLOURS, strict=False):
        curves = curves_of(tables, "online", name, least=1)
        draw_curves(ax, curves, shades(len(curves.widths)))
        logarithmic(ax)
        ax.set(xlabel=r"$\log_2$ of the learning rate")
        low, high = curves.best_limits()
        marks.estimates(last, curves.widths, curves.best, low, high, colour, fmt="o-", label=TITLES[name])
        if name == STANDARD:
            kernel = tables["kernel"].groupby("width")["rate"].mean()
            shift = curves.best[0] - kernel.iloc[0]
            last.plot(kernel.index, kernel + shift, "--", color=colour, linewidth=0.8, label="slope by the kernel")
    logarithmic(last, "x")
    for ax in axes[:, 0]:
        ax.set_ylabel("loss")
    last.set(xlabel="width n", ylabel=r"$\log_2$ of the best rate")
    title_panels(axes, (*TITLES.values(), "Best rates"))
    title_figure(
        figure,
        "The best learning rate falls with the width in the standard parametrisation and hardly moves in the others",
        "Two-layer ReLU networks, parity of 2 of 20 signs, square loss, 300 steps of online SGD; mean loss over "
        "the last tenth of steps, optima marked; d: 95% bootstrap intervals over seeds",
    )
    figure_legend(figure, shown[0], last, columns=5)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return slopes of the best rate with 95% intervals, best rates and losses; what is found in wide networks."""
    wide = tables["kernel"]["width"].max() > WIDE
    kernel = {f"slope, {MOMENTS['loss']}": kernel_slope(tables)} | (
        {FROM_WIDE: kernel_slope(tables, WIDE)} if wide else {}
    )
    stated: dict[str, Any] = {"kernel": {name: round_significant(slope, 3) for name, slope in kernel.items()}}
    for regime, name in itertools.product(REGIMES, TITLES):
        every = {moment: curves_of(tables, regime, name, least=1, column=column) for column, moment in MOMENTS.items()}
        late, early = every.values()
        entry = stated_rates(every)
        if wide:
            fitted = best_slope(late.from_width(WIDE), 0.05)
            entry[FROM_WIDE] = finite_or_none(fitted.estimate, 3)
            entry["interval"] = [finite_or_none(end, 3) for end in fitted.interval]
            entry[f"regret of the rate of {SMALLEST}"] = finite_or_none(
                float(tuning_regret(late.from_width(SMALLEST).means)[0]), 2
            )
        entry |= {f"lower after a quarter, {pair}": int((gain > 0).sum()) for pair, gain in gains(early).items()}
        stated[f"{TITLES[name]}, {regime}"] = entry
    return stated


EXPERIMENT = Experiment(
    name="width-rates",
    shows="The best learning rate falls with the width in the standard parametrisation and hardly moves in the others",
    source="Yang et al. (2022), sections 3 to 8",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=10),
        "paper": Scale(
            lambda trials: sweep("paper", trials), trials=60, part="the sources have larger networks: laboratory sizes"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=[stable_optimum, standard_shifts, wider_is_better],
)

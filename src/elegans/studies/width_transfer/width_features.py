"""How far training at the best rate moves the tangent kernel, by width: features are learned, or frozen."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import by_interval, combine, table
from elegans.plots import marks
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.width_transfer.curves import final_losses, rate_curves
from elegans.studies.width_transfer.labels import Cells, labelled, sweep_of
from elegans.studies.width_transfer.probes import KernelChange
from elegans.studies.width_transfer.slopes import LEVEL, Slope, log_mean, slope_on_width
from elegans.studies.width_transfer.width_rates import MAXIMAL, NTK, STEPS, TITLES, trial
from elegans.sweeps import Sweep
from elegans.training import Trial

NAMES = (NTK, MAXIMAL)
WIDTHS = {"smoke": (64, 128), "laptop": (64, 256, 1024, 4096), "paper": (64, 128, 256, 512, 1024, 2048, 4096)}
RATES = 2.0 ** np.arange(-5, 0)
SMALLEST, BOUND = 256, -0.25
SETTING = (
    "two-layer ReLU network, dense Gaussian start, parity of 2 of 20 signs, square loss, 300 fresh batches of 64; "
    "rates are powers of two, quoted at width 64"
)


def cells(scale: str) -> Cells:
    """Yield what names each cell of a scale in the tables, and its trial."""
    for name, width, rate in itertools.product(NAMES, WIDTHS[scale], RATES):
        label = {"parametrisation": name, "width": width, "rate": float(rate)}
        yield label, trial("online", name, width, float(rate))


def sweep(scale: str, trials: int) -> Sweep:
    """Return the trials of a scale."""
    return sweep_of(cells(scale), trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the change of the kernel at the end, with the trial's own factors of the learning rates."""
    rate = one.training.rates("output.bias")[0]  # type: ignore[union-attr]
    first, last = (one.training.rates(f"{layer}.weight")[0] / rate for layer in ("hidden", "output"))  # type: ignore[union-attr]
    return (KernelChange(every=STEPS, first=float(first), last=float(last)),)


def analyse(results: Results) -> Tables:
    """Return ``changes``: the loss and the kernel's relative change of each trial at each width's best rate."""
    losses = final_losses(results, cells(results.scale)).drop(columns="early")
    change = results.measures["kernel-change"].groupby("trial")["change"].last().reset_index()
    change = change.assign(seed=results.trials["seed"].reindex(change["trial"]).to_numpy())
    rows = losses.merge(labelled(results, cells(results.scale), change))
    kept = []
    for name in NAMES:
        curves = rate_curves(losses[losses["parametrisation"] == name], 1, "trials")
        best = dict(zip(curves.widths, curves.rates[curves.means.argmin(axis=1)], strict=True))
        mine = rows[rows["parametrisation"] == name]
        kept.append(mine[mine["rate"] == mine["width"].map(best)])
    return {"changes": pd.concat(kept, ignore_index=True).round({"change": 6})}


def change_slope(tables: Tables, name: str, level: float = 0.05) -> Slope:
    """Return the slope of the logarithm of the mean change on log2 n, from 256 on."""
    needs = f"10 seeds at three widths from {SMALLEST} on, {TITLES[name]}"
    rows = table(tables, "changes", needs, parametrisation=name)
    rows = rows[rows["width"] >= SMALLEST]
    if rows["width"].nunique() < 3 or rows.groupby("width")["seed"].nunique().min() < 10:
        raise InsufficientData(needs)
    return slope_on_width(rows, "change", log_mean, level)


@claim(
    id="wt/maximal-update-learns-features",
    statement="Trained at the best rate, the tangent kernel of networks in the maximal-update parametrisation "
    "changes by as much at every width; in the NTK parametrisation its change falls with the width.",
    source="Yang and Hu (2021), sections 5 and 6",
    setting=SETTING + "; not stated: task and steps",
    rule="The kernel on 64 inputs, each layer's part times the factor of its learning rate, after 300 steps at the "
    "rate of the least mean loss of each width. The slope of the log of the mean relative change on log2 n, over at "
    "least three widths from 256 on, by resampling 10 or more seeds for all widths at once: above -0.25 in the "
    "maximal-update parametrisation, below -0.25 in the NTK one (our choice; -1/2 is the change in the limit of the "
    "NTK). Each part fails on the other side. The two parts share 1%.",
)
def learns_features(tables: Tables) -> Verdict:
    parts = {}
    for name, above, below in ((MAXIMAL, BOUND, np.inf), (NTK, -np.inf, BOUND)):
        fitted = change_slope(tables, name, LEVEL / 2)
        what = "the slope of the kernel's change"
        parts[TITLES[name]] = by_interval(
            what, fitted.estimate, fitted.interval, above=above, below=below, error_rate=LEVEL / 2
        )
    return combine(parts)


def plot(tables: Tables) -> Figure:
    """Draw the change of the kernel and the loss at the best rate against the width."""
    figure, ((left, right),) = panels(1, 2, height=2.8)
    rows = tables["changes"]
    for name, colour in zip(NAMES, COLOURS[1:], strict=False):
        for ax, column in ((left, "change"), (right, "loss")):
            grouped = rows[rows["parametrisation"] == name].groupby("width")[column]
            low, middle, high = (grouped.quantile(share) for share in (0.25, 0.5, 0.75))
            marks.estimates(ax, middle.index, middle, low, high, colour, fmt="o-", label=TITLES[name])
            if name == NTK and ax is left:
                n = middle.index.to_numpy(float)
                ax.plot(n, middle.iloc[0] * (n / n[0]) ** -0.5, "--", color=GREY, linewidth=0.8)
    for ax in (left, right):
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.set_xlabel("width n")
    left.set_ylabel("relative change of the kernel")
    right.set_ylabel("loss")
    title_panels((left, right), ("Change of the tangent kernel", "Loss"))
    title_figure(
        figure,
        "Features keep moving in wide networks of the maximal-update form, and freeze in the NTK form",
        "Two-layer ReLU networks, parity of 2 of 20 signs, square loss, 300 steps of online SGD at each width's best "
        "rate; medians and quartiles over seeds; dashed: power -1/2, the limit of the NTK",
    )
    figure_legend(figure, left, columns=2)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return slopes of the kernel's change with 95% intervals, and median changes by width."""
    stated = {}
    for name, rows in tables["changes"].groupby("parametrisation", sort=False):
        wide = rows[rows["width"] >= SMALLEST]
        medians = {
            f"n = {n}": round_significant(float(each["change"].median()), 3) for n, each in rows.groupby("width")
        }
        entry: dict[str, Any] = dict(medians)
        if wide["width"].nunique() > 1:
            fitted = slope_on_width(wide, "change", log_mean)
            entry["slope"] = round_significant(fitted.estimate, 3)
            entry["interval"] = [round_significant(end, 3) for end in fitted.interval]
        stated[TITLES[str(name)]] = entry
    return stated


EXPERIMENT = Experiment(
    name="width-features",
    shows="Wide networks keep learning features in the maximal-update parametrisation, not in the NTK one",
    source="Yang and Hu (2021), sections 5 and 6",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=10),
        "paper": Scale(
            lambda trials: sweep("paper", trials), trials=20, part="the source has another task: laboratory sizes"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[learns_features],
)

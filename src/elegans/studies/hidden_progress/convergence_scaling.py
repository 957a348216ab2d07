"""How the time to solve grows with n: straight lines on logarithmic axes, and the elbow (figures 5.1, right, and B.6).

The learning rates come from appendix B.4 and stay constant as n grows; where its table and its text differ (z^k
networks of width 100 with learning rate 1 against 0.01), the one that trains is used. The transformer is run at the
paper's scale only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, local_exponents
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.plots.marks import estimates
from elegans.plots.style import GREY, SMALL, figure_legend, panels, shades, title_figure, title_panels
from elegans.studies.hidden_progress.convergence_scaling_claims import CLAIMS
from elegans.studies.hidden_progress.plots import counted, plain, power_law, trials_of
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.studies.hidden_progress.tables import ends, fits, identified, labels, timed
from elegans.sweeps import Sweep

RATES = {
    "i": 1.0,
    "ii": 1.0,
    "iii": 1.0,
    "iv": 0.01,
    "v": 0.01,
    "vi": 0.01,
    "viii": 0.01,
    "xiv": 0.01,
    "xv": 0.05,
    "*iii": 3e-4,
}
"""The configurations of the figures, and the learning rate of each."""
SIZES = (10, 14, 20, 28, 40, 56, 80)
"""Numbers of signs, evenly spaced on a logarithmic axis."""
KEYS = ("configuration", "network", "task.k", "task.n")
LINE = ("configuration", "task.k")
NARROW, WIDE = ("i", "ii", "iv", "v", "viii", "xiv", "xv"), ("iii", "vi")
SHOWN = ("ii", "xiv")
"""The configurations whose times are drawn, where a scale has them."""
STYLES = {
    "i": ("#8DB9D9", "o"),
    "ii": ("#0072B2", "o"),
    "iii": ("#003A5C", "o"),
    "iv": ("#EFA77B", "s"),
    "v": ("#D55E00", "s"),
    "vi": ("#7A3500", "s"),
    "viii": ("#CC79A7", "D"),
    "xiv": ("#009E73", "D"),
    "xv": ("#E69F00", "^"),
    "*iii": ("black", "v"),
}
"""Colours and markers: ReLU networks, z^k networks, neurons, PolyNet and the transformer; wider ones darker."""
BATCH = 32
LISTED = 250_000
"""The largest number of trials whose times are listed individually."""


def lines(
    identifiers: Sequence[str],
    sizes: Sequence[int],
    degrees: Sequence[int],
    trials: int,
    steps: int = 100_000,
    every: int = 10,
) -> Sweep:
    """Return every configuration at every n and k, small n first: a run cut short has the start of every line."""
    cells = [
        configuration(name, n, k, learning_rate=RATES[name], steps=steps).replace("training.stopping.every", every)
        for n in sorted(sizes)
        for k in degrees
        for name in identifiers
    ]
    return Sweep.of(cells, trials)


def part(trials: int) -> Sweep:
    """Return small n densely, k from 2 to 5 more coarsely, n up to 112 at k = 2 and 3, and other batch sizes."""
    few, fewer = max(1, trials // 4), max(1, trials // 5)
    narrow = tuple(name for name in NARROW if name != "v")
    batches = [
        configuration(name, 30, 3, learning_rate=RATES[name], batch_size=batch)
        for name in NARROW
        for batch in (4, 8, 128, 512)
    ]
    return (
        lines(NARROW, (10, 12, 15, 18, 22, 26, 30), (3, 4), trials)
        + lines(WIDE, (10, 12, 15, 18, 22, 26, 30), (3, 4), fewer)
        + lines(NARROW, (10, 15, 22, 30, 40), (2,), few, every=2)
        + lines(narrow, (10, 15, 22, 30), (5,), fewer)
        + lines(("ii", "v"), (56, 80, 112), (2,), few, every=2)
        + lines(("ii", "v", "i", "xiv", "xv"), (40, 56, 80, 112), (3,), few)
        + Sweep.of(batches, few)
    )


def batches(trials: int) -> Sweep:
    """Return four batch sizes at (30, 3); a tenth of the trials where hardly any is solved, and at the largest."""
    few = max(1, trials // 10)
    return sum(
        (
            Sweep.of(
                [configuration(name, 30, 3, learning_rate=RATES[name], batch_size=batch)],
                few if batch == 512 or (name, batch) in (("i", 4), ("ii", 4)) else trials,
            )
            for name in NARROW
            for batch in (4, 8, BATCH, 512)
        ),
        Sweep(()),
    )


def batches_alone(experiment: Experiment) -> Experiment:
    """Return only its batch sizes."""
    part = "batches of 4, 8, 32 and 512 at (30, 3)"
    scales = {name: Scale(batches, trials=2 if name == "smoke" else 2000, part=part) for name in experiment.scales}
    return replace(experiment, scales=scales, plot=None, findings=None)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per configuration, k and n with batches of 32, and ``times``, one row per trial.

    ``times`` is empty where there are more than 250,000 trials.
    """
    held: dict[tuple[str, int], list[tuple[dict[str, Any], pd.DataFrame]]] = {}
    for template, rows in results.by_cell("state", "solved_at"):
        columns = {**identified(pd.DataFrame([template.columns()])).iloc[0]}
        line = held.setdefault((columns["configuration"], columns["task.k"]), [])
        line.append(({name: columns[name] for name in (*KEYS, "training.batch_size")}, rows))
    found, times = [], []
    for line in held.values():
        trials = pd.concat([rows.assign(**columns) for columns, rows in line], ignore_index=True)
        found.append(fitted(trials[trials["training.batch_size"] == BATCH]))
        times.append(trials[: LISTED if len(results.sweep) <= LISTED else 0].drop(columns=["state", "network"]))
    places = {name: place for place, name in enumerate(CONFIGURATIONS)}
    table = pd.concat(found).sort_values(["task.k", "task.n"])
    table = table.sort_values("configuration", key=lambda names: names.map(places), kind="stable", ignore_index=True)
    return {"table": table, "times": pd.concat(times, ignore_index=True)}


def fitted(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per configuration, k and n: times, local exponents, and the ``fits`` of each line."""
    table = timed(trials, KEYS).sort_values([*LINE, "task.n"], ignore_index=True)
    lines = table.groupby(list(LINE), sort=False)
    local = [local_exponents(list(line["task.n"]), list(line["median_steps"])) for _, line in lines]
    table = table.assign(local_exponent=np.concatenate(local))
    return table.merge(fits(trials, LINE, "task.n"), on=list(LINE), how="left")


def plot(tables: Tables) -> Figure:
    """Draw every network's exponents against k, and for two networks the times that they are fitted to.

    Bars are 95% bootstrap intervals. Networks of one kind share a colour, wider ones darker.
    """
    table = tables["table"]
    figure, ((first, *others),) = panels(1, 3, height=3.8, width_ratios=(1.5, 1, 1))
    _exponents(first, table)
    names = list(table["configuration"].unique())
    chosen = [name for name in SHOWN if name in names] or names[: len(others)]
    degrees = sorted(table["task.k"].unique())
    colours = dict(zip(degrees, shades(len(degrees)), strict=True))
    findings = ["One exponent per network and k"]
    for ax, name in zip(others, chosen, strict=False):
        rows = table[table["configuration"] == name]
        power_law(ax, rows, x="task.n", curve="task.k", colours=colours)
        ax.set(xlabel="number of signs n", ylabel="median steps to solve")
        findings.append(plain(str(rows["network"].iloc[0])))
    for ax in others[len(chosen) :]:
        ax.set_axis_off()
    title_panels((first, *others), findings)
    figure_legend(figure, first)
    fits = table.drop_duplicates(list(LINE)).dropna(subset="exponent")
    below = counted(int((fits["exponent"] < fits["task.k"]).sum()), len(fits))
    title_figure(
        figure,
        f"{below} fitted exponents of n are below k".capitalize(),
        f"(n, k) parities with n up to {table['task.n'].max()}; {trials_of(table)} per point; "
        "intervals and bands: 95% bootstrap; dashed in b and c: fitted power laws",
    )
    return figure


def _exponents(ax: Axes, table: pd.DataFrame) -> None:
    """Draw the fitted exponents of every network against k, and the line where the exponent equals k."""
    fits = table.drop_duplicates(["configuration", "task.k"]).dropna(subset="exponent")
    names = list(table["configuration"].unique())
    for place, (name, rows) in enumerate(fits.groupby("configuration", sort=False)):
        colour, marker = STYLES.get(str(name), (GREY, "o"))
        x = rows["task.k"] + 0.06 * (place - (len(names) - 1) / 2)
        label = plain(str(rows["network"].iloc[0]))
        ends = rows["exponent_low"], rows["exponent_high"]
        estimates(ax, x, rows["exponent"], *ends, colour, fmt=marker, label=label)
    degrees = sorted(table["task.k"].unique())
    ax.plot(degrees, degrees, color="black", linewidth=0.8, linestyle="--")
    ax.annotate("exponent = k", (degrees[-1], degrees[-1]), fontsize=SMALL, ha="right", va="bottom", rotation=0)
    ax.set_xticks(degrees)
    ax.set(ylim=(0, None), xlabel="k", ylabel="exponent of n in the median time")


def findings(tables: Tables) -> dict[str, Any]:
    """Return each line's exponent and elbow with intervals, and whether exponents are below k and grow with it."""
    found: dict[str, Any] = {}
    for name, rows in tables["table"].groupby("configuration", sort=False):
        lines = {int(own["task.k"].iloc[0]): own.iloc[0] for _, own in rows.groupby("task.k")}
        exponents = {k: line["exponent"] for k, line in lines.items() if np.isfinite(line["exponent"])}
        found[str(name)] = {
            **{
                f"k = {k}": {
                    "exponent": finite_or_none(line["exponent"], 4),
                    "interval": ends(line, "exponent"),
                    "lower_half": finite_or_none(line["lower_exponent"], 4),
                    "upper_half": finite_or_none(line["upper_exponent"], 4),
                    "elbow": finite_or_none(line["elbow"], 4),
                    "elbow_interval": ends(line, "elbow"),
                }
                for k, line in lines.items()
            },
            "below_k": all(exponent < k for k, exponent in exponents.items()),
            "grows_with_k": list(exponents.values()) == sorted(exponents.values()),
        }
    return found


EXPERIMENT = Experiment(
    name="convergence-scaling",
    shows="At small n the time to solve a parity is a power of n with an exponent below k; at larger n it bends "
    "upwards",
    source="figures 5.1 (right) and B.6",
    scales={
        "smoke": Scale(lambda trials: lines(("i", "ii"), (10, 16, 24), (2, 3), trials, steps=2000), trials=5),
        "laptop": Scale(lambda trials: lines(tuple(RATES)[:-1], SIZES, (2, 3, 4), trials), trials=50),
        "part": Scale(part, trials=400, part="k from 2 to 5, 50 to 400 trials per point, without the transformer"),
        "paper": Scale(lambda trials: lines(tuple(RATES), range(10, 41), range(2, 9), trials), trials=1000),
    },
    analyse=analyse,
    labels=labels,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
    options={"parts": Option("all, or batches: only the batch sizes at (30, 3)", parts(batches=batches_alone))},
)

"""Addition mod p: every neuron becomes a single frequency, all frequencies occur, and the margin is the largest.

Quadratic networks with the penalty that the theory covers, and for comparison ReLU networks with a plain L2 penalty,
whose neurons are nearly single frequencies. At the smallest p the width is also varied below the theorem's 4 (p - 1).

Source: thesis, chapter 7, figures 7.1 and 7.4, and appendix D, figure D.1.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, ReLU
from elegans.plots.style import COLOURS, panel_legend, panels, title_figure, title_panels
from elegans.probes import Probe, WeightTrajectory
from elegans.studies.feature_margins.modular_addition_claims import CLAIMS, QUADRATIC, RELU
from elegans.studies.feature_margins.plots import (
    feature_counts,
    lines,
    margin_curves,
    margins_by_width,
    neuron_waves,
    power_histogram,
    share_of,
)
from elegans.studies.feature_margins.probes import Decomposition, FrequencyPower, NormalisedMargin
from elegans.studies.feature_margins.rules import SINGLE
from elegans.studies.feature_margins.settings import PRINTED, addition, power_of, powered
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    by_network,
    features,
    margins,
    measured,
    networks,
    neurons,
    present,
    pure,
    reached,
    summary,
)
from elegans.sweeps import Sweep
from elegans.training import SGD, Trial

SETTINGS = {11: (80, 40_000, 1000), 23: (160, 20_000, 500), 31: (200, 12_000, 500)}
"""By p, the width, the number of steps, and the number of steps between two doublings of the learning rate."""
WIDTHS = (10, 20, 30, 36, 40, 60)
CAPPED = 7
"""Doublings in trials that vary the width: up to a learning rate of 6.4, beyond which narrow networks diverge."""
RECORDED = 24
"""The number of neurons whose weights are recorded."""
DRAWN = 3
"""The number of them that are drawn."""
DENSE = ((7, 98), (7, 200), (11, 242))
"""Moduli, and widths of at least 2 p^2, at which a classifier without sparse features exists."""
LONG = 40_000
"""The steps of the thesis' network, also used where p is smaller."""
POWER, NETWORK = "frequency-power", ("p", "activation", "width", "rate", "r")
SUMMARY = (
    "power.mean",
    "power.least",
    "power.least.all",
    "joint.least",
    "phase.largest",
    "amplitude.largest",
    "share.distance",
)


def both(p: int, width: int, steps: int, every: int) -> list[Trial]:
    """Return a quadratic and a ReLU network."""
    return [addition(p, width, degree, steps=steps, every=every) for degree in (2, None)]


def laptop(trials: int) -> Sweep:
    """Return both networks mod 11, 23 and 31, and mod 11 quadratic networks of several widths."""
    narrow = addition(11, WIDTHS[0], 2, steps=LONG, every=1000, doublings=CAPPED)
    large = [one for p, setting in SETTINGS.items() for one in both(p, *setting)]
    return Sweep.of((*large, *(narrow.replace("model.width", width) for width in WIDTHS)), trials)


def part(trials: int) -> Sweep:
    """Return networks mod 11 with other powers r of the penalty, and mod 7 and 11 with at least 2 p^2 neurons."""
    usual = addition(11, SETTINGS[11][0], 2, steps=LONG, every=1000)
    few = range(min(trials, 6))
    other = [(powered(usual, exponent), few) for exponent in (1, 2)]
    wide = [(addition(p, width, 2, steps=LONG, every=1000), range(trials)) for p, width in DENSE]
    return Sweep(((usual, few), *other, *wide))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the margin during training, and of powers, phases and some weights at the start and the end."""
    assert isinstance(one.model, MLP)
    once, shown = one.steps, tuple(range(min(RECORDED, one.model.width)))
    margin, weights = NormalisedMargin(every=once // MEASUREMENTS), WeightTrajectory(every=once, neurons=shown)
    return margin, FrequencyPower(every=once), Decomposition(every=once), weights


def analyse(results: Results) -> Tables:
    """Return the tables ``margins``, ``neurons``, ``features`` and ``summary`` (see ``tables``), and ``weights``.

    Each has ``p``, ``activation``, ``width``, the largest learning ``rate``, the power ``r`` of the penalty and
    ``seed``. ``weights`` has one row per weight of the drawn neurons, in trials of the smallest seed.
    """
    ended = networks(results, _describe)
    return {
        "margins": margins(results, ended),
        "neurons": neurons(results, ended, POWER, "frequency"),
        "features": features(results, ended, POWER, _frequencies),
        "summary": summary(results, ended, {POWER: SUMMARY, "decomposition": ["residual"]}),
        "weights": _weights(results, ended[ended["seed"] == ended["seed"].min()]),
    }


def _describe(one: Trial) -> dict[str, Any]:
    model, training = one.model, one.training
    assert isinstance(model, MLP) and isinstance(training, SGD)
    rate = float(training.learning_rate * training.factors(one.steps - 1, 1)[0])
    activation = RELU if isinstance(model.activation, ReLU) else QUADRATIC
    p = one.task.classes
    return {"p": p, "activation": activation, "width": model.width, "rate": rate, "r": power_of(one)}


def _frequencies(one: Trial) -> dict[str, Any]:
    network = _describe(one)
    count = network["p"] // 2
    return {
        "feature": range(1, count + 1),
        "limit": np.full(count, np.nan if network["activation"] == RELU else 1 / count),
    }


def _weights(results: Results, ended: pd.DataFrame) -> pd.DataFrame:
    """Return the embedding weights of the first recorded active neurons, each of a different frequency."""
    network, rows = [*NETWORK, "seed"], neurons(results, ended, POWER, "frequency")
    rows = rows[rows["kept"] & (rows["neuron"] < RECORDED)].drop_duplicates([*network, "frequency"])
    rows = rows.groupby(network, sort=False).head(DRAWN)
    rows = rows.merge(ended.join(measured(results, ended, "weight-trajectory")["weight"], how="inner"), on=network)
    values = [weight[neuron, :p] for weight, neuron, p in zip(rows["weight"], rows["neuron"], rows["p"], strict=True)]
    inputs = pd.Series([np.arange(p) for p in rows["p"]])
    rows = rows[[*network, "neuron"]].assign(place=inputs, value=pd.Series(values))
    return rows.explode(["place", "value"], ignore_index=True).infer_objects()


def plot(tables: Tables) -> Figure:
    """Draw margins, the margin by width, powers, neurons by frequency and embeddings; the last three at the largest p.

    Margins have a panel for each activation; those by width have one where several widths were trained.
    """
    named = {kind: table.assign(series="p = " + table["p"].astype(str)) for kind, table in _usual(tables).items()}
    curves = named["margins"]
    narrow = curves["rate"] < curves.groupby("p")["rate"].transform("max")
    main, widths = curves[~narrow], curves[narrow]
    p = main["p"].max()
    rate = main.loc[main["p"] == p, "rate"].max()
    largest = {kind: table[(table["p"] == p) & (table["rate"] == rate)] for kind, table in named.items()}
    kinds = list(dict.fromkeys(largest["margins"]["activation"]))
    count = len(kinds) + (len(widths) > 0) + 3
    columns = 2 if count <= 4 else 3
    figure, drawn = panels(-(-count // columns), columns, height=2.3 if columns == 2 else 2.1)
    axes = list(drawn.ravel())
    titles = [f"Margins, {kind} networks" for kind in kinds]
    for ax, kind in zip(axes, kinds, strict=False):
        shown = main[main["activation"] == kind]
        if shown["ratio"].notna().any():
            margin_curves(shown, ax)
        else:  # no largest margin is known
            lines(shown, "normalised", ax)
            ax.set(ylim=(0, 1.15 * shown["normalised"].max()), ylabel="normalised margin")
            panel_legend(ax)
    if len(widths):
        margins_by_width(widths, axes[len(kinds)])
        titles.append(f"Margin by width, p = {widths['p'].iloc[0]}")
    powers, counts, embeddings = axes[count - 3 : count]
    for number, kind in enumerate(kinds):
        ends = largest["neurons"][largest["neurons"]["activation"] == kind]
        label = "end" if len(kinds) == 1 else f"end, {kind}"
        power_histogram(ends, powers, start=number == 0, colour=COLOURS[number], label=label)
    panel_legend(powers)
    feature_counts(largest["features"].assign(series=largest["features"]["activation"]), counts)
    counts.set_xlabel("frequency")
    neuron_waves(largest["weights"][largest["weights"]["activation"] == kinds[0]], embeddings)
    titles += [f"Powers of neurons, p = {p}", f"Neurons by frequency, p = {p}", f"Embeddings of neurons, p = {p}"]
    title_panels(axes, titles)
    _title(figure, {kind: table[table["activation"] == kinds[0]] for kind, table in largest.items()}, main)
    for ax in axes[count:]:
        ax.set_axis_off()
    if len(kinds) > 1:
        panel_legend(counts)
    return figure


def _title(figure: Figure, largest: Tables, main: pd.DataFrame) -> None:
    last = largest["margins"].groupby("seed").last()
    powers = largest["neurons"].loc[largest["neurons"]["kept"], "power"]
    ratio, known = last["ratio"].median(), last["ratio"].notna().all()
    reach = f"come within {100 * (1 - ratio):.1g}% of the largest margin" if known else "raise their margin"
    single = f"{share_of(powers >= SINGLE)} end with a single frequency"
    p, width = (largest["margins"][name].iloc[0] for name in ("p", "width"))
    moduli = " and ".join(map(str, sorted(main["p"].unique())))
    task = f"Addition mod {moduli}; from b on p = {p}, width {width}"
    each = f"{last.index.nunique()} trials, the first in bold; c: means with ranges over trials"
    title_figure(figure, f"Quadratic networks {reach}, and {single}", f"{task}; {each}")


def _usual(tables: Tables) -> Tables:
    """Return the rows of networks whose penalty has their degree, and of one width at each p's largest rate."""
    curves = tables["margins"]
    most = curves.groupby("p")["rate"].max()
    width = curves[curves["rate"] == curves["p"].map(most)].groupby("p")["width"].first()
    usual = {}
    for kind, table in tables.items():
        narrow, wide = table["rate"] < table["p"].map(most), table["width"] == table["p"].map(width)
        usual[kind] = table[(table["r"] == np.where(table["activation"] == RELU, 2, 3)) & (narrow | wide)]
    return usual


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each network, how close it is to theory: medians over trials with intervals, and shares of trials.

    ``single``: trials all of whose active neurons have at least 99% of their power in one frequency;
    ``all_frequencies``: trials in which every frequency has a neuron.
    """
    return {
        f"p = {p}, {activation}, width {width}, rates up to {rate:g}"
        + ("" if r == (2 if activation == RELU else 3) else f", r = {r:g}"): {
            **reached(parts, [*SUMMARY, "residual"]),
            **pure(parts),
            "all_frequencies": present(parts["features"], int(p) // 2),
        }
        for (p, activation, width, rate, r), parts in by_network(tables, NETWORK)
    }


EXPERIMENT = Experiment(
    name="modular-addition",
    shows="Networks that add mod p use all frequencies, one per neuron, and come close to the largest margin",
    source="figures 7.1, 7.4 and D.1",
    scales={
        "smoke": Scale(lambda trials: Sweep.of(both(7, 40, 8000, 500), trials), trials=2),
        "laptop": Scale(laptop, trials=5),
        "part": Scale(part, trials=20, part="mod 7 and 11: other powers of the penalty, and wide networks"),
        "paper": Scale(
            lambda trials: Sweep.of((PRINTED["addition, quadratic"], PRINTED["addition, ReLU"]), trials), trials=6
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
    claims=CLAIMS,
)

"""Sparse parity by networks of powers x^k: every neuron becomes a sign vector on the support, at the largest margin.

At the largest scale, other powers r of the norm in the penalty and other initial weights, which the thesis leaves open,
are trained in addition to the printed ones.

Source: thesis, chapter 7, figure 7.5.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import proportion
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, GaussianInit
from elegans.plots.style import COLOURS, DIVERGING, SMALL, contrast_colour, in_house_style, panel_legend, title_panels
from elegans.probes import Probe, WeightTrajectory
from elegans.studies.feature_margins.parity_margin_claims import CLAIMS
from elegans.studies.feature_margins.plots import margin_curves, stacked
from elegans.studies.feature_margins.probes import Decomposition, NormalisedMargin, ParityNeurons
from elegans.studies.feature_margins.settings import PRINTED, parity, power_of, powered, start_of
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    by_network,
    described,
    margins,
    measured,
    networks,
    reached,
    summary,
)
from elegans.studies.feature_margins.theory.diagnostics import parity_neurons
from elegans.studies.feature_margins.theory.weights import ParityWeights
from elegans.sweeps import Sweep
from elegans.tasks import SparseParity
from elegans.training import Trial

COUNTS = 0.5
"""The share of the largest norm from which a neuron counts: with high powers, useless neurons shrink slowly."""
DRAWN = 8
"""The number of strongest neurons that are drawn."""
OTHERS = 8
"""Trials for each choice that the thesis leaves open."""
NETWORK = ("n", "k", "width", "r", "init")
SUMMARY = (
    "neurons",
    "outside.largest",
    "magnitude.largest",
    "magnitude.least",
    "alignment.least",
    "sign.share",
    "neurons.all",
    "outside.largest.all",
    "magnitude.largest.all",
    "magnitude.least.all",
    "alignment.least.all",
    "sign.share.all",
)
QUANTITIES = {"parity-neurons": SUMMARY, "decomposition": ("residual",)}


def smoke(trials: int) -> Sweep:
    """Return the parity of two of six signs."""
    return Sweep(((parity(6, 2, 20, steps=3000), range(trials)),))


def laptop(trials: int) -> Sweep:
    """Return parities of two to four signs, the last one as printed."""
    small = (parity(6, 2, 20, steps=20_000), parity(8, 3, 30, steps=20_000))
    return Sweep(tuple((one, range(trials)) for one in (*small, PRINTED["parity"])))


def paper(trials: int) -> Sweep:
    """Return the parity of four of ten signs, as printed and with other choices for what the thesis leaves open."""
    one, few = PRINTED["parity"], range(min(trials, OTHERS))
    powers = [(powered(one, exponent), few) for exponent in (1, 2)]
    inits = [(one.replace("model.init", GaussianInit(std=std)), few) for std in (0.1, 0.3)]
    return Sweep(((one, range(trials)), *powers, *inits))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the margin during training, and of the neurons at the start and the end."""
    once = one.steps
    return (
        NormalisedMargin(every=once // MEASUREMENTS),
        ParityNeurons(every=once, negligible=COUNTS),
        Decomposition(every=once),
        WeightTrajectory(every=once, outgoing=True),
    )


def analyse(results: Results) -> Tables:
    """Return the tables ``margins`` and ``summary`` (see ``tables``), ``neurons``, ``ratios`` and ``weights``.

    Each has ``n``, ``k``, ``width``, the power ``r`` of the penalty, the ``init`` and ``seed``. ``neurons``: the
    ``size`` of each (norm relative to the largest) and how well it meets theorem 7.8 (see ``theory.parity_neurons``).
    ``ratios``: for neurons that count, the ratio of each |u_j| to ||w||, ``inside`` the support or not. ``weights``:
    for the smallest seed, one row per weight of the strongest neurons, divided by the neuron's norm.
    """
    ended = networks(results, _describe)
    taken = measured(results, ended, "weight-trajectory")
    sizes = measured(results, ended, "parity-neurons")["size"]
    different, neurons = [], list[pd.DataFrame]()
    ratios, strongest = list[pd.DataFrame](), list[pd.DataFrame]()
    columns = (taken["weight"], taken["outgoing"], sizes)
    for place, weight, outgoing, size in zip(taken.index.tolist(), *columns, strict=True):
        one = results.trial(place)
        support, kept = one.task.draw(one.key("task")), np.asarray(size) > COUNTS
        u, w = np.asarray(weight, float), np.asarray(outgoing, float)
        different.append(patterns(u[kept][:, support]))
        fits = parity_neurons(ParityWeights(u, w, len(support)), support)
        neurons.append(pd.DataFrame(fits._asdict()).assign(size=size, trial=place))
        ratios.append(_ratios(u[kept], w[kept], support).assign(trial=place))
        if one.seed == ended["seed"].min():
            strongest.append(_strongest(u, w).assign(trial=place))
    rows = {"neurons": neurons, "ratios": ratios, "weights": strongest}
    return {
        "margins": margins(results, ended),
        "summary": summary(results, ended, QUANTITIES).assign(patterns=different),
        **{name: described(ended, pd.concat(parts).set_index("trial")) for name, parts in rows.items()},
    }


def _describe(one: Trial) -> dict[str, Any]:
    assert isinstance(one.task, SparseParity) and isinstance(one.model, MLP)
    return {"n": one.task.n, "k": one.task.k, "width": one.model.width, "r": power_of(one), "init": start_of(one)}


def patterns(weights: np.ndarray) -> int:
    """Return the number of sign vectors among rows of weights, a vector and its negative counting as one."""
    signs = np.sign(weights)
    return len(np.unique(signs * signs[:, :1], axis=0))


def _ratios(u: np.ndarray, w: np.ndarray, support: Any) -> pd.DataFrame:
    """Return the ratio of |u_j| to ||w|| of each neuron and input j, and whether j is in the support."""
    ratios = np.abs(u) / np.linalg.norm(w, axis=1)[:, None]
    inside = np.broadcast_to(np.isin(np.arange(u.shape[1]), support), u.shape)
    return pd.DataFrame({"inside": inside.ravel(), "value": ratios.ravel()})


def _strongest(u: np.ndarray, w: np.ndarray) -> pd.DataFrame:
    """Return the weights of the neurons of the largest norm, divided by their norms, the strongest first."""
    weights = np.concatenate([u, w], axis=1)
    norms = np.linalg.norm(weights, axis=1)
    chosen = np.argsort(-norms, kind="stable")[:DRAWN]
    names = [*(f"$u_{{{j}}}$" for j in range(1, u.shape[1] + 1)), "$w_+$", "$w_-$"]
    frames = [
        pd.DataFrame({"neuron": neuron, "weight": names, "value": weights[neuron] / norms[neuron]}) for neuron in chosen
    ]
    return pd.concat(frames, ignore_index=True)


def plot(tables: Tables) -> Figure:
    """Draw the strongest neurons of the largest k, margins, and the ratios |u_j| / ||w||, in theory 1 or 0."""
    usual = tables["margins"]["init"].iloc[0]
    named = {
        kind: table[(table["r"] == table["k"] + 1) & (table["init"] == usual)].assign(
            series="n = " + table["n"].astype(str) + ", k = " + table["k"].astype(str)
        )
        for kind, table in tables.items()
    }
    largest = {kind: table[table["k"] == table["k"].max()] for kind, table in named.items()}
    series = largest["margins"]["series"].iloc[0]
    figure, (upper, lower) = stacked((2.5, 2.5))
    top = upper.subplots(1, 1)
    _draw_strongest(largest["weights"], top)
    left, right = lower.subplots(1, 2)
    in_house_style(right)
    margin_curves(named["margins"], left)
    own = largest["ratios"]
    bins = (np.arange(-0.5, 46) / 30).tolist()  # 0 and 1 are the middles of two
    for inside, label, colour in ((True, "on the support", COLOURS[0]), (False, "off it", "0.65")):
        values = own.loc[own["inside"].eq(inside), "value"]
        weights = np.full(len(values), 100 / max(1, len(values)))
        right.hist(values, bins=bins, weights=weights, color=colour, alpha=0.8, label=label)
    right.set(xlabel=r"$|u_j| \, / \, \|w\|$", ylabel="weights (%)")
    panel_legend(right)
    findings = ("Strongest neurons, each over its norm", "Margins", "Weights of neurons that count")
    title_panels([top, left, right], [f"{finding}, {series}" for finding in findings])
    return figure


def _draw_strongest(table: pd.DataFrame, ax: Axes) -> None:
    """Draw the weights of neurons, one row per neuron, each divided by its neuron's norm."""
    grid = table.pivot(index="neuron", columns="weight", values="value")
    grid = grid.loc[list(table["neuron"].drop_duplicates()), list(table["weight"].drop_duplicates())]
    values = grid.to_numpy(float)
    image = ax.imshow(values, cmap=DIVERGING, vmin=-0.6, vmax=0.6, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        colour = contrast_colour(image.cmap(image.norm(value)))
        ax.text(column, row, f"{round(value, 2) + 0.0:.2f}", ha="center", va="center", fontsize=SMALL, color=colour)
    ax.set_xticks(range(len(grid.columns)), [str(name) for name in grid.columns])
    ax.set_yticks([])
    ax.tick_params(labelsize=SMALL, length=0)
    ax.spines[:].set_visible(False)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each parity, how close networks are to theory and neurons to its conditions, over trials.

    ``all_patterns``: trials in which each of the 2^(k - 1) sign vectors, up to a common sign, has a neuron that counts.
    """
    usual = tables["margins"]["init"].iloc[0]
    return {
        _title(n, k, width, "" if r == k + 1 else f", r = {r:g}", "" if init == usual else f", {init}"): {
            **reached(own, [*SUMMARY, "residual", "patterns"]),
            "all_patterns": proportion(own["summary"]["patterns"] == 2 ** (k - 1)),
        }
        for (n, k, width, r, init), own in by_network(tables, NETWORK)
    }


def _title(n: int, k: int, width: int, *others: str) -> str:
    return f"n = {n}, k = {k}, width {width}" + "".join(others)


EXPERIMENT = Experiment(
    name="parity-margin",
    shows="Networks of powers x^k on a k-sparse parity: sign vectors on the support, and the largest margin",
    source="figure 7.5",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=5),
        "paper": Scale(paper, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
    claims=CLAIMS,
)

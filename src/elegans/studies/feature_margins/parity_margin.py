"""Sparse parity by networks of powers x^k: every neuron becomes a sign vector on the support, at the largest margin.

Source: thesis, chapter 7, figure 7.5.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe, WeightTrajectory
from elegans.studies.feature_margins.feature_probes import ParityNeurons
from elegans.studies.feature_margins.plots import parity_margin
from elegans.studies.feature_margins.probes import Decomposition, NormalisedMargin
from elegans.studies.feature_margins.settings import PRINTED, parity
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    course,
    outcomes_of,
    reached,
    share,
    summarised,
    summary,
)
from elegans.sweeps import Sweep
from elegans.tasks import SparseParity
from elegans.training import Outcome, Trial

COUNTS = 0.5
"""The share of the largest norm from which on a neuron counts: high powers keep those of no use for long."""
DRAWN = 8
"""So many of the strongest neurons are drawn."""
SUMMARY = (
    "neurons",
    "outside.largest",
    "magnitude.largest",
    "magnitude.least",
    "alignment.least",
    "sign.share",
)


def smoke(trials: int) -> Sweep:
    """Return the parity of two of six signs."""
    return Sweep(((parity(6, 2, 20, steps=3000), range(trials)),))


def laptop(trials: int) -> Sweep:
    """Return parities of two to four signs; the last as printed."""
    small = (parity(6, 2, 20, steps=20_000), parity(8, 3, 30, steps=20_000))
    return Sweep(tuple((one, range(trials)) for one in (*small, PRINTED["parity"])))


def paper(trials: int) -> Sweep:
    """Return the parity of four of ten signs, as printed."""
    return Sweep(((PRINTED["parity"], range(trials)),))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the margin along the way, and the neurons at the beginning and the end."""
    once = one.steps
    return (
        NormalisedMargin(every=once // MEASUREMENTS),
        ParityNeurons(every=once, negligible=COUNTS),
        Decomposition(every=once),
        WeightTrajectory(every=once, outgoing=True),
    )


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of four ``part``s, each with ``n``, ``k``, ``width`` and ``seed``.

    ``course``: a row a measured step (see ``tables.course``). ``summary``: a row a quantity. ``neuron``: of neurons
    that count, the ratio of each |u_j| to ||w||, ``inside`` the support or not. ``weight``: of the first trial, a row a
    weight of the strongest neurons, over the neuron's norm.
    """
    found = outcomes_of(trials)
    first = min((one.trial.seed for one in found), default=0)
    return pd.concat([_rows(one, one.trial.seed == first) for one in found], ignore_index=True)


def _rows(outcome: Outcome, drawn: bool) -> pd.DataFrame:
    one = outcome.trial
    assert isinstance(one.task, SparseParity)
    parts = [course(outcome)]
    if outcome.state != "diverged":
        u, w = (np.asarray(outcome.measures["weight-trajectory"][name][-1], float) for name in ("weight", "outgoing"))
        kept = np.asarray(outcome.measures["parity-neurons"]["size"][-1]) > COUNTS
        support = one.task.draw(one.key("task"))
        parts += [
            summary(outcome, "parity-neurons", SUMMARY),
            summary(outcome, "decomposition", ["residual"]),
            pd.DataFrame({"part": ["summary"], "quantity": "patterns", "value": patterns(u[kept][:, support])}),
            _ratios(u[kept], w[kept], support),
        ]
        parts += [_strongest(u, w)] if drawn else []
    width = getattr(one.model, "width", 0)
    return pd.concat(parts, ignore_index=True).assign(n=one.task.n, k=one.task.k, width=width, seed=one.seed)


def patterns(weights: np.ndarray) -> int:
    """Return how many vectors of signs there are among rows of weights, a vector and its negative being one."""
    signs = np.sign(weights)
    return len(np.unique(signs * signs[:, :1], axis=0))


def _ratios(u: np.ndarray, w: np.ndarray, support: Any) -> pd.DataFrame:
    """Return the ratio of |u_j| to ||w|| of each neuron and input j, and whether j is in the support."""
    ratios = np.abs(u) / np.linalg.norm(w, axis=1)[:, None]
    inside = np.broadcast_to(np.isin(np.arange(u.shape[1]), support), u.shape)
    return pd.DataFrame({"part": "neuron", "inside": inside.ravel(), "value": ratios.ravel()})


def _strongest(u: np.ndarray, w: np.ndarray) -> pd.DataFrame:
    """Return the weights of the neurons of the largest norm, over their norms, the strongest first."""
    weights = np.concatenate([u, w], axis=1)
    norms = np.linalg.norm(weights, axis=1)
    chosen = np.argsort(-norms, kind="stable")[:DRAWN]
    names = [*(f"$u_{{{j}}}$" for j in range(1, u.shape[1] + 1)), "$w_+$", "$w_-$"]
    frames = [
        pd.DataFrame({"neuron": neuron, "weight": names, "value": weights[neuron] / norms[neuron]}) for neuron in chosen
    ]
    return pd.concat(frames, ignore_index=True).assign(part="weight")


def plot(table: pd.DataFrame) -> Figure:
    """Draw the strongest neurons, the courses of margins, and the weights on the support and off it."""
    return figure_of(parity_margin(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each parity, how near networks came to theory and neurons to its conditions, over trials.

    ``all_patterns``: trials in which every one of the 2^(k - 1) vectors of signs, up to a common one, has a neuron that
    counts.
    """
    found: dict[str, Any] = {}
    for (n, k, width), rows in table.groupby(["n", "k", "width"], sort=False):
        different = rows[rows["quantity"] == "patterns"].set_index("seed")["value"]
        own = {"all_patterns": share(different == 2 ** (rows["k"].iloc[0] - 1))}
        found[f"n = {n}, k = {k}, width {width}"] = {**reached(rows), **summarised(rows), **own}
    return found


EXPERIMENT = Experiment(
    name="parity-margin",
    shows="Networks of powers x^k on a k-sparse parity: sign vectors on the support, and the largest margin",
    source="figure 7.5",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 10 seconds"),
        "laptop": Scale(laptop, trials=5, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=20, time="about 3 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
"""Figure 7.5."""

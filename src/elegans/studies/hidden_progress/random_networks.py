"""How often a random network is close to a sparse parity, counted over all inputs.

Initial weights are exchangeable over inputs, so every support of k inputs is equally likely: each network is compared
with all of them.
"""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from elegans.analysis import wilson
from elegans.boolean.fourier import fourier_coefficients, set_index, sign_table
from elegans.experiments import Experiment, InsufficientData, Results, Tables, Verdict, claim
from elegans.experiments.checks import COMPUTED
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, table
from elegans.models import MLP, PolyNet
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, figure_legend, panels, title_figure, title_panels
from elegans.studies.hidden_progress.plots import typeset
from elegans.studies.hidden_progress.settings import CONFIGURATIONS

NETWORKS = ("i", "ii", "xiv", "xv")
DEGREES = (2, 3)
SMALLEST, LARGEST = 4, 14
LEAST = 10
"""The smallest number of hits for a size to count; larger n are left out."""
CLOSE = 0.25
"""The correlation from which a network counts as close to a parity (our choice)."""
DRAWS = {"smoke": 200, "laptop": 2000, "paper": 100_000}
"""Networks per size up to n = 9; beyond, a tenth as many, since each has more supports and inputs."""
FEWER_BEYOND = 9
AT_ONCE = 2**18
"""The number of outputs held in memory at once."""
POINTS, FLAT = 4, 0.1
"""The smallest number of sizes that decide, and the fall of a logarithm per sign below which there is none (ours)."""


def outputs(name: str, n: int, k: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return the outputs of freshly initialised networks of a configuration on all inputs, shape (count, 2^n)."""
    model, x = CONFIGURATIONS[name][1](k, "dense"), sign_table(n).astype(np.float32)
    assert isinstance(model, MLP | PolyNet)
    width = model.width if isinstance(model, MLP) else model.degree
    weights = generator.uniform(-1, 1, (count, width, n + 1)).astype(np.float32) / np.float32(math.sqrt(n))
    sums = weights[:, :, :n] @ x.T + weights[:, :, n:]
    if isinstance(model, PolyNet):
        return np.asarray(sums.prod(axis=1))
    hidden = model.activation.value(sums)
    if not model.readout:
        return np.asarray(hidden.sum(axis=1))
    readout = generator.uniform(-1, 1, (count, width + 1)).astype(np.float32) / np.float32(math.sqrt(width))
    return np.asarray((readout[:, None, :width] @ hidden)[:, 0] + readout[:, width:])


def close_supports(name: str, n: int, k: int, draws: int, first_seed: int) -> np.ndarray:
    """Return for each network how many supports its sign correlates with by more than 1/4 in size."""
    generator = np.random.default_rng([n, k, NETWORKS.index(name), 1, first_seed])
    places = [set_index(members) for members in itertools.combinations(range(n), k)]
    block = max(1, AT_ONCE // 2**n)
    counts = []
    for first in range(0, draws, block):
        signs = np.sign(outputs(name, n, k, min(block, draws - first), generator))
        counts.append((np.abs(fourier_coefficients(signs)[:, places]) > CLOSE).sum(axis=1))
    return np.concatenate(counts)


def analyse(results: Results) -> Tables:
    """Return one row per network, k and n: ``hits`` of ``draws`` networks times all supports, and their ``share``.

    ``effective`` is the number of independent hits that would be as precise: networks hit several supports at once.
    Larger n are left out once there are fewer than ten of them.
    """
    rows = []
    for name, k in itertools.product(NETWORKS, DEGREES):
        for n in range(SMALLEST, LARGEST + 1):
            draws = DRAWS[results.scale] // (10 if n > FEWER_BEYOND else 1)
            counts, pairs = close_supports(name, n, k, draws, results.first_seed), draws * math.comb(n, k)
            hits = int(counts.sum())
            effective = hits**2 / max(1, int((counts**2).sum()))
            row = {"network": name, "k": k, "n": n, "draws": draws, "hits": hits, "effective": effective}
            rows.append({**row, "share": hits / pairs})
            if effective < LEAST:
                break
    return {"table": pd.DataFrame(rows)}


def plot(tables: Tables) -> Figure:
    """Draw the shares against n on a logarithmic axis, on which an exponential decay is a straight line.

    Bars are Wilson 95% intervals of all pairs of a network and a support.
    """
    found = tables["table"].query("hits > 0")
    figure, (axes,) = panels(1, len(DEGREES), height=2.7, width=5.0, sharey=True)
    for ax, k in zip(axes, DEGREES, strict=True):
        for colour, name in zip(COLOURS, NETWORKS, strict=False):
            rows = found[(found["network"] == name) & (found["k"] == k)]
            if rows.empty:
                continue
            share, hits = rows["share"].to_numpy(float), rows["hits"].to_numpy(float)
            low, high = wilson(hits, np.rint(hits / share))
            places = rows["n"] + 0.08 * (NETWORKS.index(name) - 1.5)
            estimates(ax, places, share, low, high, colour, fmt="o-", label=typeset(CONFIGURATIONS[name][0]))
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("number of signs n")
    axes[0].set_ylabel("share of random networks")
    title_panels(axes, [f"k = {k}" for k in DEGREES])
    figure_legend(figure, *axes, columns=2)
    title_figure(
        figure,
        "The share of random networks near a parity falls exponentially in n or faster",
        f"Freshly initialised networks whose sign has a correlation above {CLOSE:g} with a given (n, k) parity; "
        f"{found['draws'].min():,} to {found['draws'].max():,} networks per point; intervals: Wilson 95%",
    )
    return figure


@claim(
    id="progress/random-networks-far-from-parity",
    statement="A randomly initialised network has a constant correlation with a sparse parity, or is close to a "
    "solution, only with a probability that is exponentially small in n.",
    source="section 5.3.2 (scaling) and its footnote",
    setting="all standard architectures and all standard initialisations (here uniform only); not stated: the "
    "threshold of the correlation (here 1/4)",
    rule="The share of 100,000 networks (10,000 beyond n = 9) whose sign correlates by more than 1/4 in size with a "
    "given parity, over all inputs and averaged over all supports, from n = 4 on while there are ten hits, hits of "
    "one network counted by their effective number, up to n = 14, k = 2 and 3, (i), (ii), (xiv), (xv). The logarithm "
    "of the share bends downwards over log n, where a power of n is straight, and does not bend upwards over n, where "
    "an exponential is straight. Fails if it bends upwards over n and not downwards over log n, or falls by less than "
    "0.1 per sign (our choice). Weighted quadratic fits, normal limits, 2% over networks and k; fewer than four sizes "
    "are undecided.",
    revised="The rule held if a share did not significantly flatten over its last sizes, which is also true if there "
    "are too few hits. The claim held in part although four of eight lines had too few hits. A share must now fall "
    "faster than every power of n, and lines with too few hits leave the claim undecided. At a correlation of 1/2, "
    "the four lines with enough hits held; the other four had too few hits or none among 500,000 networks. At 1/4, "
    "which the source allows, all lines can be followed. We changed the rule after seeing this and judge it on other "
    "networks. The claim was undecided, and now holds.",
)
def far_from_parity(tables: Tables) -> Verdict:
    needs = f"{DRAWS['paper']:,} networks per size"
    rows = table(tables, "table", needs)
    if "effective" not in rows or rows["draws"].max() < DRAWS["paper"]:
        raise InsufficientData(needs)
    parts = {f"({name}), k = {k}": _falls(own) for (name, k), own in rows.groupby(["network", "k"], sort=False)}
    return combine(parts)


def _falls(rows: pd.DataFrame) -> Verdict:
    from scipy.stats import norm

    known = rows[rows["effective"] >= LEAST].sort_values("n")
    if len(known) < POINTS:
        return Verdict(UNDECIDED, f"{len(known)} sizes have {LEAST} hits", needs="more networks")
    n, height, hits = (known[name].to_numpy(float) for name in ("n", "share", "effective"))
    level = LEVEL / (len(NETWORKS) * len(DEGREES))
    (slope, _), covariance = np.polyfit(n, np.log(height), 1, w=np.sqrt(hits), cov="unscaled")
    least = float(slope) - float(norm.isf(level) * np.sqrt(covariance[0, 0]))
    over_log, over_n = _bend(np.log(n), height, hits, level), _bend(n, height, hits, level)
    numbers: dict[str, Any] = {
        "slope": float(slope),
        "bend_over_log_n": over_log,
        "bend_over_n": over_n,
        "shares": dict(zip(known["n"], height, strict=True)),
    }
    because = (
        f"log share falls by {-slope:.3g} per sign up to n = {n[-1]:.0f}, and its bend is {over_log[0]:.3g} "
        f"({over_log[1]:.3g} to {over_log[2]:.3g}) over log n, {over_n[0]:.3g} over n"
    )
    steep = over_log[2] < 0 and over_n[1] <= 0
    flat = least > -FLAT or (over_n[1] > 0 and over_log[2] >= 0)
    return decided(steep, flat and not steep, because, numbers, level, "more networks, or larger n")


def _bend(x: np.ndarray, height: np.ndarray, hits: np.ndarray, level: float) -> list[float]:
    """Return the quadratic coefficient of log shares with two normal limits, each with the error rate ``level``."""
    from scipy.stats import norm

    (bend, _, _), covariance = np.polyfit(x, np.log(height), 2, w=np.sqrt(hits), cov="unscaled")
    reach = float(norm.isf(level) * np.sqrt(covariance[0, 0]))
    return [float(bend), float(bend) - reach, float(bend) + reach]


EXPERIMENT = Experiment(
    name="random-networks",
    shows="The share of random networks close to a sparse parity falls exponentially in the number of signs",
    source="section 5.3.2",
    scales={"smoke": COMPUTED, "laptop": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    plot=plot,
    claims=[far_from_parity],
)

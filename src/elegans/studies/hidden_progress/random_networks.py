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
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import combine, table
from elegans.models import MLP, PolyNet
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, figure_legend, panels, title_panels
from elegans.studies.hidden_progress.settings import CONFIGURATIONS

NETWORKS = ("i", "ii", "xiv", "xv")
DEGREES = (2, 3)
SMALLEST, LARGEST = 4, 14
LEAST = 10
"""The smallest number of hits for a size to count; larger n are left out."""
CLOSE = 0.5
"""The correlation from which a network counts as close to a parity (our choice)."""
DRAWS = {"smoke": 200, "laptop": 2000, "paper": 500_000}
"""Networks per size up to n = 9; beyond, a tenth as many, since each has more supports and inputs."""
FEWER_BEYOND = 9
AT_ONCE = 2**18
"""The number of outputs held in memory at once."""
POINTS, ERRORS = 4, 2.5
"""The smallest number of sizes that decide, and how many standard errors a slope may deviate by chance."""


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


def close_supports(name: str, n: int, k: int, draws: int) -> int:
    """Return, summed over networks, how many supports a network's sign correlates with by more than 1/2 in size."""
    generator = np.random.default_rng([n, k, NETWORKS.index(name)])
    places = [set_index(members) for members in itertools.combinations(range(n), k)]
    block = max(1, AT_ONCE // 2**n)
    found = 0
    for first in range(0, draws, block):
        signs = np.sign(outputs(name, n, k, min(block, draws - first), generator))
        found += int((np.abs(fourier_coefficients(signs)[:, places]) > CLOSE).sum())
    return found


def analyse(results: Results) -> Tables:
    """Return one row per network, k and n: ``hits`` of ``draws`` networks times all supports, and their ``share``.

    Larger n are left out once there are fewer than ten hits.
    """
    rows = []
    for name, k in itertools.product(NETWORKS, DEGREES):
        for n in range(SMALLEST, LARGEST + 1):
            draws = DRAWS[results.scale] // (10 if n > FEWER_BEYOND else 1)
            hits, pairs = close_supports(name, n, k, draws), draws * math.comb(n, k)
            rows.append({"network": name, "k": k, "n": n, "draws": draws, "hits": hits, "share": hits / pairs})
            if hits < LEAST:
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
            estimates(ax, rows["n"], share, low, high, colour, fmt="o-", label=CONFIGURATIONS[name][0])
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("number of signs n")
    axes[0].set_ylabel("share of networks close to a given parity")
    title_panels(axes, [f"k = {k}" for k in DEGREES])
    figure_legend(figure, *axes, columns=2)
    return figure


@claim(
    id="progress/random-networks-far-from-parity",
    statement="A randomly initialised network is correlated with a sparse parity by a constant, or close to a "
    "solution, only with a probability that is exponentially small in n.",
    source="section 5.3.2 (scaling) and its footnote",
    setting="all standard architectures; silent: the threshold of the correlation (1/2 here) and the "
    "initialisation (uniform here)",
    rule="The share of 500,000 networks (50,000 beyond n = 9) whose sign correlates by more than 1/2 in size with "
    "a given parity, over all inputs and averaged over all supports, from n = 4 on while there are ten hits, up to "
    "n = 14, k = 2 and 3, (i), (ii), (xiv), (xv). Its logarithm falls in n, and over the last three sizes no "
    "slower than over all, within 2.5 standard errors (ours; a power of n would flatten); fewer than four sizes "
    "are undecided. In part: the networks named.",
)
def far_from_parity(tables: Tables) -> Verdict:
    needs = f"{DRAWS['paper']:,} networks per size"
    rows = table(tables, "table", needs)
    if rows["draws"].max() < DRAWS["paper"]:
        raise InsufficientData(needs)
    parts = {f"({name}), k = {k}": _falls(own) for (name, k), own in rows.groupby(["network", "k"], sort=False)}
    whole, good = combine(parts), [name for name, part in parts.items() if part.verdict == HOLDS]
    part = good and whole.verdict == UNDECIDED
    return whole.but(IN_PART, needs=f"holds for {', '.join(good)}") if part else whole


def _falls(rows: pd.DataFrame) -> Verdict:
    known = rows[rows["hits"] >= LEAST].sort_values("n")
    if len(known) < POINTS:
        return Verdict(UNDECIDED, f"{len(known)} sizes have {LEAST} hits", needs="more networks")
    n, height, hits = (known[name].to_numpy(float) for name in ("n", "share", "hits"))
    (slope, _), covariance = np.polyfit(n, np.log(height), 1, w=np.sqrt(hits), cov="unscaled")
    error = float(np.sqrt(covariance[0, 0]))
    last = float(np.log(height[-1] / height[-3]) / (n[-1] - n[-3]))
    last_error = float(np.sqrt(1 / hits[-1] + 1 / hits[-3]) / (n[-1] - n[-3]))
    numbers: dict[str, Any] = {
        "slope": [float(slope), error],
        "last_slope": [last, last_error],
        "shares": dict(zip(known["n"], height, strict=True)),
    }
    because = (
        f"log share falls by {-slope:.3g} per sign up to n = {n[-1]:.0f}, by {-last:.3g} over the last three sizes"
    )
    steep = slope + ERRORS * error < 0 and last <= slope + ERRORS * math.hypot(error, last_error)
    return Verdict(HOLDS if steep else FAILS, because, numbers, 0.05 / (len(NETWORKS) * len(DEGREES)))


EXPERIMENT = Experiment(
    name="random-networks",
    shows="How often a random network is close to a sparse parity, against the number of signs",
    source="section 5.3.2",
    scales={"smoke": COMPUTED, "laptop": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    plot=plot,
    claims=[far_from_parity],
)

"""The second phase of the XOR: lemmas on signal-heavy networks, on constructed ones and along runs.

No run of laboratory size meets the definition of a signal-heavy network (zeta <= exp(-10 H)), so what is proved about
such networks is checked on constructed ones, in the limit of small steps, which eta <= zeta^3 amounts to. Runs show
what remains of it with a relaxed definition: factor 1 in place of exp(6 H), and no limit on zeta.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.boolean.fourier import sign_table
from elegans.errors import ExperimentError
from elegans.experiments import Experiment, Option, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.plots.style import COLOURS, GREY, panel_legend, panels, title_figure
from elegans.studies.xor_two_phases.reference import Network, heavy_network, on_sphere, signs, steps
from elegans.studies.xor_two_phases.theory.clean import (
    PHASE_TWO_RATE,
    xor_clean_bounds,
    xor_clean_growth,
    xor_final_loss,
)
from elegans.studies.xor_two_phases.theory.heavy import (
    xor_heavy_margins,
    xor_marks,
    xor_signal_heavy,
    xor_smallest_zeta,
)
from elegans.studies.xor_two_phases.theory.network import (
    xor_gradients,
    xor_label,
    xor_loss,
    xor_margins,
    xor_output,
    xor_parts,
    xor_sizes,
    xor_slope,
)
from elegans.studies.xor_two_phases.xor_heavy_claims import CLAIMS

Rows = Iterator[dict[str, Any]]
GROWTH, KEPT, REST = "xor/margin-growth", "xor/signal-heavy-kept", "xor/rest-shrinks"
DISTANCE, CAP, LOSS = "xor/clean-gradient-distance", "xor/clean-gradient-cap", "xor/final-loss"
ZETAS = (math.exp(-10), math.exp(-12), math.exp(-14))
BOUND = 1 + 1e-10
"""By how much a side may exceed its bound, due to rounding."""
D = 12
INPUTS = sign_table(D).astype(float)
RATE, THETA = 0.1, 0.1
"""The step size and the initial scale of runs."""
EVERY = 5
"""Steps between two measurements of a run."""


def built(networks: int, first_seed: int) -> Rows:
    """Yield the checks on constructed signal-heavy networks, with all inputs enumerated; H = 1."""
    off: dict[float, float] = {}
    cases: dict[tuple[str, str], list[float]] = defaultdict(list)
    for zeta in ZETAS:
        for number in range(networks):
            generator = np.random.default_rng([14, first_seed + number])
            network = heavy_network(generator, 40, D, zeta, one_sided=number % 4 == 0)
            assert xor_signal_heavy(*network, zeta, scale=1.0).holds
            gradients = xor_gradients(*network, INPUTS)
            least, most = _margin_rates(network, zeta, *gradients)
            off[zeta] = max(off.get(zeta, 0.0), 1 - least, most - 1)
            for key, ratio in _heavy_cases(network, zeta, *gradients).items():
                cases[key].append(ratio)
    for (claim, name), ratios in cases.items():
        yield check(claim, name, ratios, BOUND)
    yield check(GROWTH, "built: factors off the bounds at zeta = e^-10", off[ZETAS[0]], 0.1)
    yield check(GROWTH, "built: the same at e^-14 over that at e^-10", off[ZETAS[2]] / off[ZETAS[0]], 0.5)


def _margin_rates(network: Network, zeta: float, into: np.ndarray, outward: np.ndarray) -> tuple[float, float]:
    """Return the growth of the smallest heavy margin over 2 tau_2 g_max, and of the largest over 2 tau_2 g_min."""
    weight, output = network
    members = xor_signal_heavy(weight, output, zeta, scale=1.0).members
    before, heavy, after = (
        xor_heavy_margins(weight - step * into, output - step * outward, members) for step in (-1e-6, 0.0, 1e-6)
    )
    growth = (after - before) / 2e-6 / heavy / (2 * PHASE_TWO_RATE)
    slopes = xor_slope(xor_margins(weight, output))
    return float(growth[heavy.argmin()] / slopes.max()), float(growth[heavy.argmax()] / slopes.min())


def _heavy_cases(network: Network, zeta: float, into: np.ndarray, outward: np.ndarray) -> dict[tuple[str, str], float]:
    """Return, by claim and check, the left side over the right."""
    weight, output = network
    members = xor_signal_heavy(weight, output, zeta, scale=1.0).members
    sizes, parts = xor_sizes(weight, output), xor_parts(weight, output)
    bounds = xor_clean_bounds(weight, output, zeta)
    clean = xor_gradients(weight, output, INPUTS, slope="clean")
    signal, opposite, rest = (
        -(part * into).sum(axis=1) / np.maximum(size, 1e-300) for part, size in zip(parts, sizes[:3], strict=True)
    )
    growth = (math.exp(6) * rest + opposite) / (math.exp(6) * sizes.rest + sizes.opposite) - signal / sizes.signal
    margins, heavy = xor_margins(weight, output), xor_heavy_margins(weight, output, members)
    weakest = members & (sizes.cluster == heavy.argmin())
    product = np.abs(output) * signal - np.sign(output) * outward * sizes.signal
    margin_growth = product[weakest].sum() / (np.abs(output) * sizes.signal)[weakest].sum()
    square, squares = (weight**2).sum(axis=1), -2 * (weight * into).sum(axis=1)
    light_growth = squares[~members].sum() / square[~members].sum() - margin_growth
    cap = 2 * (1 + 2 * zeta) * PHASE_TWO_RATE * float(xor_slope(margins).max())
    loss = float(xor_loss(xor_label(INPUTS) * xor_output(weight, output, INPUTS)).mean())
    return {
        (KEPT, "built: burden of neurons in S, over its growth"): growth[members].max() / (10 * zeta),
        (KEPT, "built: light mass over margins, over its growth"): light_growth / (10 * zeta),
        (REST, "built: weighted rest of heavy neurons shrinks"): 1 + _weighted(network, members),
        (DISTANCE, "hidden gradient, built"): (np.linalg.norm(clean.weight - into, axis=1) / bounds.weight).max(),
        (DISTANCE, "output gradient, built"): (np.abs(clean.output - outward) / bounds.output).max(),
        (CAP, "D.10, built"): (np.abs(clean.output) / bounds.size).max(),
        (CAP, "D.11, built"): (squares / square).max() / cap,
        (LOSS, "margins within 2 zeta H of heavy ones"): np.abs(margins - heavy).max() / (2 * zeta),
        (LOSS, "loss over its bound, built"): loss / xor_final_loss(heavy.min()),
    }


def _weighted(network: Network, members: np.ndarray) -> float:
    """Return the largest relative change of exp(6) ||w_perp|| + ||w_opp|| under the clean gradient."""
    growth, sizes = xor_clean_growth(*network), xor_sizes(*network)
    size = np.abs(network[1]) * (math.exp(6) * sizes.rest + sizes.opposite)
    return float(((math.exp(6) * growth.rest + growth.opposite) / size)[members].max())


def single_neurons(neurons: int, first_seed: int) -> Rows:
    """Yield the checks of closed forms for any slopes: D.10 with an ascent on it, D.7 and D.9."""
    generator = np.random.default_rng([10, first_seed])
    ratios, weighted = [], []
    for _ in range(max(1, neurons // 100)):
        weight, output = generator.standard_normal((100, D)), generator.standard_normal(100) * generator.uniform(0.1, 3)
        bound = xor_clean_bounds(weight, output, 0.1).size
        growth = xor_clean_growth(weight, output)
        ratios.append(float((np.abs(growth.total / output) / bound).max()))
        network = heavy_network(generator, 40, D, ZETAS[0])
        weighted.append(_weighted(network, xor_signal_heavy(*network, ZETAS[0], scale=1.0).members))
    yield check(CAP, "D.10, random networks", ratios, BOUND)
    yield check(CAP, "D.10, ascent on the ratio", [_ascent(generator) for _ in range(max(2, neurons // 500))], BOUND)
    yield check(REST, "D.7: weighted rest of heavy neurons shrinks", weighted, 0.0)
    yield check(REST, "D.9: P(|w.xi| >= sqrt(2) o) >= 1/2", list(_chances(generator, max(10, neurons // 20))), 0.5)


def _ascent(generator: np.random.Generator) -> float:
    """Return the largest |clean gradient of a| over tau_2 g_max ||w|| that random moves of one neuron find."""
    others, output = generator.standard_normal((15, D)), generator.standard_normal(16)

    def ratio(one: np.ndarray) -> float:
        weight = np.vstack([one, others])
        total = xor_clean_growth(weight, output, distribution="gaussian").total[0] / output[0]
        return float(abs(total) / xor_clean_bounds(weight, output, 0.1).size[0])

    best = generator.standard_normal(D)
    for size in 0.5 * 0.98 ** np.arange(200):
        moved = best + size * generator.standard_normal(D)
        best = moved if ratio(moved) > ratio(best) else best
    weight = np.vstack([best, others])
    exact = abs(xor_clean_growth(weight, output).total[0] / output[0])
    return float(exact / xor_clean_bounds(weight, output, 0.1).size[0])


def _chances(generator: np.random.Generator, count: int) -> Iterator[float]:
    """Yield 1 - P(|w.xi| >= sqrt(2) o) with ||w_perp|| = 10 o, for dense, sparse and equal entries."""
    x = sign_table(D - 2).astype(float)
    for number in range(count):
        vector = generator.standard_normal(D - 2) if number % 3 else np.ones(D - 2)
        vector = vector * (np.arange(D - 2) < 1 + number % (D - 2))
        vector *= 10 / np.linalg.norm(vector)
        yield 1 - float((np.abs(x @ vector) >= math.sqrt(2)).mean())


def runs(trials: int, d: int, width: int, time: float, first_seed: int) -> Rows:
    """Yield the checks along runs from where the signal dominates on, one case per run."""
    generators = [np.random.default_rng([64, first_seed + seed]) for seed in range(trials)]
    worst = [_run(generator, d, width, round(time / RATE)) for generator in generators]
    for ((claim, name), limit), cases in zip(LIMITS.items(), zip(*worst, strict=True), strict=True):
        yield check(claim, name, cases, limit)


class _Measured(NamedTuple):
    """The measures of a run's step, taken at regular intervals."""

    strict: float  # the smallest zeta as printed, over exp(-10 H)
    relaxed: float  # the smallest zeta with factor 1
    scale: float  # H
    noise: float  # E||w_perp + w_opp||^2 over the heavy neurons
    slope_error: float  # E(l'(x) - l'(z))^2 / E l'(z)^2
    loss: float  # relative to 4 exp(-smallest heavy margin)
    fit: float  # the smallest margin
    heavy: np.ndarray  # the four heavy margins
    slopes: np.ndarray  # the four slopes
    square: np.ndarray  # ||w||^2, shape (p,)


def _measured(network: Network, members: np.ndarray, test: np.ndarray, label: np.ndarray) -> _Measured:
    weight, output = network
    sizes, square = xor_sizes(weight, output), (weight**2).sum(axis=1)
    scale = max(1.0, float(square.mean()) / 2)
    values = label * xor_output(weight, output, test)
    clean = xor_slope(label * xor_output(weight[:, :2], output, test[:, :2]))
    heavy, margins = xor_heavy_margins(weight, output, members), xor_margins(weight, output)
    return _Measured(
        strict=xor_smallest_zeta(weight, output, scale=scale) / math.exp(-10 * scale),
        relaxed=xor_smallest_zeta(weight, output, scale=scale, kappa=1.0),
        scale=scale,
        noise=float((sizes.opposite**2 + sizes.rest**2)[members].mean()),
        slope_error=float(((xor_slope(values) - clean) ** 2).mean() / (clean**2).mean()),
        loss=float(xor_loss(values).mean()) / xor_final_loss(float(heavy.min())),
        fit=float(margins.min()),
        heavy=heavy,
        slopes=xor_slope(margins),
        square=square,
    )


def _run(generator: np.random.Generator, d: int, width: int, count: int) -> list[float]:
    """Return one run's largest values, in the order of ``LIMITS``."""
    test = signs(generator, 4000, d)
    label, members = xor_label(test), np.zeros(0, bool)
    measures: list[_Measured] = []
    path = steps(on_sphere(generator, width, d, THETA), RATE, round(d / THETA), count, generator)
    for network, _ in itertools.islice(path, 0, None, EVERY):
        if not len(members) and xor_marks(*network).dominance >= 10:
            sizes = xor_sizes(*network)
            members = sizes.signal**2 > sizes.opposite**2 + sizes.rest**2
        if len(members):
            measures.append(_measured(network, members, test, label))
    speed = 2 * RATE * PHASE_TWO_RATE
    rises, lows, highs, above = [], [], [], []
    for one, after in itertools.pairwise(measures):
        rises.append(math.log(after.relaxed / one.relaxed) / (EVERY * math.log1p(10 * RATE * one.relaxed * one.scale)))
        growth = (after.heavy / one.heavy) ** (1 / EVERY) - 1
        if one.fit >= 1:
            lows.append(growth[one.heavy.argmin()] / (speed * one.slopes.max()))
            highs.append(growth[one.heavy.argmax()] / (speed * one.slopes.min()))
        limit = (1 + (1 + 2 * one.relaxed * one.scale) * speed * one.slopes.max()) ** EVERY
        above.append((after.square / one.square > limit)[~members])
    noise = [one.noise for one in measures]
    return [
        min(one.strict for one in measures),
        max(rises),
        float(np.diff(noise).max()) / noise[0],
        abs(float(np.mean(lows)) - 1),
        abs(float(np.mean(highs)) - 1),
        max(one.slope_error for one in measures),
        float(np.mean(above)),
        max(one.loss for one in measures if one.fit >= 1),
    ]


LIMITS = {
    (KEPT, "zeta as printed over exp(-10 H), run"): 1.0,
    (KEPT, "relaxed zeta: rise per step over 10 eta zeta H, run"): 1.0,
    (REST, "rest of heavy neurons: largest rise over its start, run"): 0.01,
    (GROWTH, "growth over its bound, least margin, run: mean off 1"): 0.05,
    (GROWTH, "growth over its bound, largest margin, run: mean off 1"): 0.05,
    (DISTANCE, "clean slopes: largest square error, run"): 0.01,
    (CAP, "share of light neuron-steps above D.11, run"): 0.01,
    (LOSS, "loss over its bound, run"): BOUND,
}
"""By claim and check along a run, the largest value that it allows."""
RUNS = {"smoke": (1, 16, 64, 30), "paper": (10, 64, 256, 40)}
"""By scale, the number of runs, dimension, neurons and time eta t."""
SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        lambda seed: built(4, seed),
        lambda seed: single_neurons(200, seed),
        lambda seed: runs(*RUNS["smoke"], seed),
    ),
    "paper": (
        lambda seed: built(300, seed),
        lambda seed: single_neurons(10_000, seed),
        lambda seed: runs(*RUNS["paper"], seed),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


def with_kappas(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with the smallest zeta of runs for several kappas instead of the checks.

    Raises:
        ExperimentError: the value is not a list of positive numbers.
    """
    try:
        kappas = tuple(float(text) for text in str(value).split(","))
    except ValueError:
        kappas = ()
    if not kappas or not all(0 < kappa < math.inf for kappa in kappas):
        raise ExperimentError(f"kappas must be positive numbers separated by commas: kappas={value!r}")
    return replace(
        experiment, analyse=partial(least_zetas, kappas=kappas), plot=plot_kappas, findings=at_the_end, claims=()
    )


def least_zetas(results: Results, kappas: Sequence[float]) -> Tables:
    """Return one row per run, measured time eta t and kappa: ``zeta``, the smallest, and ``asked``, exp(-10 H)."""
    trials, d, width, time = RUNS[results.scale]
    rows = []
    for seed in range(results.first_seed, results.first_seed + trials):
        generator = np.random.default_rng([64, seed])
        path = steps(on_sphere(generator, width, d, THETA), RATE, round(d / THETA), round(time / RATE) + 1, generator)
        for number, (network, _) in enumerate(itertools.islice(path, 0, None, 2 * EVERY)):
            scale = max(1.0, float((network[0] ** 2).sum(axis=1).mean()) / 2)
            one = {"seed": seed, "time": 2 * EVERY * number * RATE, "asked": math.exp(-10 * scale)}
            rows += [{**one, "kappa": k, "zeta": xor_smallest_zeta(*network, scale=scale, kappa=k)} for k in kappas]
    return {"kappas": pd.DataFrame(rows)}


def plot_kappas(tables: Tables) -> Figure:
    """Draw the median smallest zeta against time, one curve per kappa, and the definition's requirement."""
    rows, (figure, ((ax,),)) = tables["kappas"], panels(1, 1, height=2.8, width=6.0)
    for colour, (kappa, zetas) in zip(itertools.cycle(COLOURS), rows.groupby("kappa")):
        medians = zetas.groupby("time")["zeta"].median()
        ax.plot(medians.index, medians, color=colour, label=rf"$\kappa$ = {kappa:g}")
    asked = rows.groupby("time")["asked"].median()
    ax.plot(asked.index, asked, color=GREY, linestyle="--", label=r"$e^{-10H}$")
    ax.set(yscale="log", xlabel=r"time $\eta t$", ylabel=r"smallest $\zeta$")
    met = sum(bool((zetas["zeta"] <= zetas["asked"]).any()) for _, zetas in rows.groupby("kappa"))
    title_figure(
        figure,
        rf"Runs become signal-heavy for {met or 'none'} of {rows['kappa'].nunique()} factors $\kappa$",
        "XOR of two of d signs; medians over runs in double precision; dashed: the largest value allowed",
    )
    panel_legend(ax, 4)
    return figure


def at_the_end(tables: Tables) -> dict[str, Any]:
    """Return, by kappa, the final median smallest zeta, and in how many runs it was ever as small as required."""
    rows = tables["kappas"]
    last = rows[rows["time"] == rows["time"].max()].groupby("kappa")["zeta"].median()
    met = (rows["zeta"] <= rows["asked"]).groupby([rows["kappa"], rows["seed"]]).any().groupby("kappa").sum()
    return {f"kappa = {kappa:g}": {"zeta": float(f"{last[kappa]:.3g}"), "met": int(met[kappa])} for kappa in last.index}


EXPERIMENT = Experiment(
    name="xor-heavy",
    shows="What is proved about signal-heavy networks, on constructed ones, and how much of it laboratory runs show",
    source="sections 4.1.1 and D: lemmas",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
    options={"kappas": Option("K,K,…  factors in place of e^(6H): the smallest zeta of runs for each", with_kappas)},
)

"""Whether one neuron keeps one of two features, or both in superposition, by density and importance."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import by_share, table
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.probes import REPRESENTED, FeatureGeometry
from elegans.studies.superposition.sampling import LEVEL
from elegans.studies.superposition.tasks import SparseFeatures
from elegans.studies.superposition.theory.features import two_feature_boundary
from elegans.sweeps import Sweep
from elegans.tasks import Online
from elegans.training import Adam, Square, Trial

GRID = {"smoke": (2, 3), "laptop": (8, 12), "paper": (24, 24)}
"""Rows of importance r from 0.1 to 10, and columns of density p from 0.01 to 1: the source's range."""
STEPS = {"smoke": 200, "laptop": 2000, "paper": 5000}
NODES = 24
"""Nodes of Gauss's quadrature for each feature."""
DESCENT = 3000
LOST, BOTH, ALONE = 0.0, 1.0, 2.0
"""What a network does with the second feature: not represented, in superposition with the first, or on its own."""
STARTS = np.array([[1.0, 0.0, 0.0, 0.3], [0.0, 1.0, 0.3, 0.0], [1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
"""Weights and biases from which the loss is minimised: keep the first, keep the second, antipodal, same sign."""


def axes(scale: str) -> tuple[list[float], list[float]]:
    """Return the importances and the densities of a scale."""
    rows, columns = GRID[scale]
    ranges = np.geomspace(0.1, 10, rows), np.geomspace(0.01, 1, columns)
    importances, densities = ([float(f"{value:.4g}") for value in values] for values in ranges)
    return importances, densities


def sweep(scale: str, trials: int) -> Sweep:
    """Return networks of one neuron at each importance and density."""
    importances, densities = axes(scale)
    cells = [
        Trial(
            task=SparseFeatures(n=2, density=density, importance=(1.0, importance)),
            regime=Online(),
            model=TiedAutoencoder(hidden=1, scale=0.7),
            training=Adam(
                steps=STEPS[scale],
                learning_rate=0.01,
                batch_size=256,
                loss=Square(scale=2.0),
                stopping=StoppingRule(error=0, examples=4000, every=STEPS[scale]),
            ),
        )
        for importance in importances
        for density in densities
    ]
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the geometry of both features, and the exact loss decides which network is best."""
    return (FeatureGeometry(every=one.steps),)


def analyse(results: Results) -> Tables:
    """Return ``grid``: by importance and density what the best trained network and the optimum do with feature two.

    The second feature is not represented (0), in superposition (1) or represented alone (2). The best network has the
    least held-out loss.
    """
    geometry = results.measured("feature-geometry", "task.density", "task.importance")
    ends = geometry[geometry["step"] == geometry.groupby("trial")["step"].transform("max")].set_index("trial")
    losses = results.measures["final-loss"].set_index("trial")["test"]
    rows = pd.DataFrame(
        {
            "importance": [float(_second(value)) for value in ends["task.importance"]],
            "density": ends["task.density"].to_numpy(float).round(4),
            "loss": losses.reindex(ends.index).to_numpy(float),
            "trained": [outcome(norm) for norm in ends["norm"]],
        }
    )
    best = rows.loc[rows.groupby(["importance", "density"])["loss"].idxmin()].reset_index(drop=True)
    counts = rows.groupby(["importance", "density"]).size().rename("networks")
    grid = best.join(counts, on=["importance", "density"])
    optimum = [
        optimal_outcome(density, importance)
        for importance, density in zip(grid["importance"], grid["density"], strict=True)
    ]
    grid["optimal"], grid["least_loss"] = (np.array(part, float) for part in zip(*optimum, strict=True))
    return {"grid": grid}


def outcome(norms: Any) -> float:
    """Return what a network with these two norms does with the second feature."""
    first, second = np.asarray(norms, float) > REPRESENTED
    return LOST if not second else BOTH if first else ALONE


def _second(importance: Any) -> float:
    values = importance if not isinstance(importance, str) else importance.strip("()[]").split(",")
    return float(values[1])


def optimal_outcome(density: float, importance: float) -> tuple[float, float]:
    """Return what the best of four minima does with the second feature, and its loss, by quadrature and descent."""
    import jax

    with jax.enable_x64(True):
        losses, ends = map(np.asarray, _minima()(STARTS, np.float64(density), np.float64(importance)))
    best = int(np.argmin(losses))
    return outcome(np.abs(ends[best, :2])), float(losses[best])


@cache
def _minima() -> Any:
    """Return a compiled function from starts, density and importance to the losses and parameters of minima."""
    import jax
    import jax.numpy as jnp

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    u, mass = (nodes + 1) / 2, weights / 2
    x = np.concatenate([np.zeros((1, 2)), np.stack([u, 0 * u], 1), np.stack([0 * u, u], 1),
                        np.stack(np.meshgrid(u, u, indexing="ij"), -1).reshape(-1, 2)])  # fmt: skip
    single, double = mass, np.outer(mass, mass).ravel()

    def loss(w: Any, p: Any, r: Any) -> Any:
        chance = jnp.concatenate(
            [(1 - p) ** 2 * jnp.ones(1), p * (1 - p) * single, p * (1 - p) * single, p**2 * double]
        )
        y = jax.nn.relu((x @ w[:2])[:, None] * w[:2] + w[2:])
        return (chance[:, None] * (x - y) ** 2 @ jnp.stack([1.0 + 0 * r, r])).sum()

    def descend(start: Any, p: Any, r: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            w, value, slope, rate = state
            new = w - rate * slope
            new_value, new_slope = jax.value_and_grad(loss)(new, p, r)
            better = new_value < value
            w, slope = jnp.where(better, new, w), jnp.where(better, new_slope, slope)
            return w, jnp.where(better, new_value, value), slope, rate * jnp.where(better, 1.1, 0.5)

        first = (start, *jax.value_and_grad(loss)(start, p, r), jnp.asarray(0.1, start.dtype))
        w, value, _, _ = jax.lax.fori_loop(0, DESCENT, step, first)
        return value, w

    return jax.jit(jax.vmap(descend, in_axes=(0, None, None)))


def differing(grid: pd.DataFrame) -> pd.Series:
    """Return by importance at how many densities the best trained network differs from the optimum."""
    return (grid["trained"] != grid["optimal"]).groupby(grid["importance"]).sum()


def plot(tables: Tables) -> Figure:
    """Draw which networks of one neuron represent both features, trained and optimal, with the closed-form boundary."""
    grid = tables["grid"]
    figure, ((left, right),) = panels(1, 2, height=2.8)
    r = np.geomspace(grid["importance"].min(), grid["importance"].max(), 100)
    closed = [two_feature_boundary(float(value)) for value in r]
    for ax, name in ((left, "trained"), (right, "optimal")):
        kinds = (LOST, "first feature only", 1), (BOTH, "both features", 0), (ALONE, "second feature only", 2)
        for kind, label, colour in kinds:
            part = grid[grid[name] == kind]
            ax.plot(part["density"], part["importance"], "s", color=COLOURS[colour], markersize=4, label=label)
        ax.plot(closed, r, color=GREY, label="closed form, biases 0")
        ax.set(xlabel="density p", ylabel="importance of the second feature")
        logarithmic(ax, "x")
        logarithmic(ax)
    title_panels((left, right), ("Best of the trained networks", "The optimum, by quadrature"))
    title_figure(
        figure,
        "One neuron keeps both of two features only if they are sparse enough",
        "Tied autoencoders of two features and one neuron",
    )
    figure_legend(figure, left, columns=4)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return at how many densities both features are represented, by importance, and where networks differ."""
    stated = {}
    for importance, row in tables["grid"].groupby("importance"):
        counts = {name: int((row[name] == BOTH).sum()) for name in ("trained", "optimal")}
        stated[f"r = {importance:g}"] = {**counts, "differing": int((row["trained"] != row["optimal"]).sum())}
    return stated


@claim(
    id="superposition/two-in-one",
    statement="Whether one neuron keeps one of two features or both in superposition changes at boundaries of density "
    "and importance.",
    source="Elhage et al. (2022), Superposition as a Phase Change",
    setting="n = 2, m = 1, importance 1 and r, r from 0.1 to 10, density from 0.01 to 1 (the source's ranges; the "
    "steps between are ours); the optimum is computed by minimising from four starts, with biases free; the best of "
    "twenty networks (the source averages nine of ten), batch 256, Adam at 0.01 (our choices)",
    rule="There are three outcomes for the second feature: it is absent, in superposition with the first, or "
    "represented alone. For each row of r, the best of at least 20 trained networks (by held-out loss) does the same "
    "as the optimum at all densities but at most one. The lower limit at 99% of the share of such rows is above 0.5, "
    "and the share itself is at least 95%; fails if the upper limit is below 0.95.",
    revised="At first importances went from 0.2 to 2 and densities from 0.05 to 0.95; which feature a network keeps "
    "was not checked, and only the number of densities with both was compared. The verdict was holds, and the new "
    "comparison gives the same on those tables, which we had seen when we changed it. The new ranges are the source's; "
    "they are run on new seeds.",
)
def two_in_one(tables: Tables) -> Verdict:
    needs = "20 networks in each of at least 8 rows of importance and 12 columns of density"
    grid = table(tables, "grid", needs)
    counted = differing(grid)
    if len(counted) < 8 or grid["density"].nunique() < 12 or grid["networks"].min() < 20:
        raise InsufficientData(needs)
    agree, what = int((counted <= 1).sum()), "rows that differ at one density at most"
    verdict = by_share(what, agree, len(counted), above=0.5, level=LEVEL)
    limit = by_share(what, agree, len(counted), above=0.95, level=LEVEL)
    if limit.verdict == "fails" or verdict.verdict == "fails":
        return limit
    return verdict if agree >= 0.95 * len(counted) else limit


EXPERIMENT = Experiment(
    name="two-in-one",
    shows="One neuron keeps both of two features only if they are sparse enough",
    source="Elhage et al. (2022), Superposition as a Phase Change",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=20),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=20, part="our grid over the published ranges"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[two_in_one],
)

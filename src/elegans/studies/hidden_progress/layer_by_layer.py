"""Layer-wise training is not enough: deep quadratic networks learn what none of their layers could learn alone.

A layer of neurons (w . x + b)^2 has a derivative of degree 1, so the population gradient of a first layer under
any readout is 0 for every parity of more than two signs: training layer by layer finds nothing. End to end, the
downstream layers multiply that derivative by a polynomial of degree 2^(L-2) - 1 of the layer's outputs, and with L
layers parities of up to 2^(L-1) signs are learned.

Source: thesis, chapter 5 and appendix B.3.7.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.models import DeepMLP, DenseInit
from elegans.plots.marks import heat_map
from elegans.plots.style import COLOURS, panels, short, title_figure
from elegans.random import stream
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.layer_by_layer_claims import CLAIMS
from elegans.studies.hidden_progress.tables import ends, timed
from elegans.sweeps import Sweep
from elegans.tasks import Online, SparseParity
from elegans.tasks.base import corners
from elegans.training import SGD, Trial

KEYS = ("model.widths", "model.output_bias", "model.init.convention", "task.n", "task.k", "training.steps")
SIGNALS = ((10,), (2, 1), (10, 10, 1))
"""Hidden widths of the networks whose first gradients are enumerated for all k up to 8."""
ENUMERATED = 10
"""The number of signs with which population gradients are enumerated."""
BITS = 10
"""To how many binary places initial weights are rounded there."""


def trial(widths: tuple[int, ...], n: int, k: int, steps: int, *, output_bias: bool = True, every: int = 100) -> Trial:
    """Return the training of a deep quadratic network on the online (n, k)-parity, to its last step."""
    stopping = StoppingRule(error=0, examples=8192, every=every, stop=False)
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online(),
        model=DeepMLP(widths=widths, output_bias=output_bias),
        training=SGD(learning_rate=0.01, batch_size=32, steps=steps, stopping=stopping),
    )


def laptop(trials: int) -> Sweep:
    """Return three layers on 10 to 30 signs, four layers on 10 and 20, and the networks that should fail."""
    three = [trial((2, 1), n, k, 20_000) for n in (10, 20, 30) for k in (1, 2, 3, 4)]
    four = [trial((10, 10, 1), n, k, 50_000, every=250) for n in (10, 20) for k in (2, 4, 6)]
    failing = [trial((10,), 10, 2, 20_000), trial((10,), 10, 3, 20_000), trial((2, 1), 10, 5, 20_000)]
    unbiased = [trial((2, 1), 10, k, 20_000, output_bias=False) for k in (2, 4)]
    return Sweep.of([*three, *failing, *unbiased, *four], trials)


def paper(trials: int) -> Sweep:
    """Return all cells that the thesis reports, checked every 10 steps, and the networks that should fail."""
    sizes = (10, 20, 30)
    three = [trial((2, 1), n, k, 20_000, every=10) for n in sizes for k in (1, 2, 3, 4, 5)]
    four = [trial((10, 10, 1), n, k, 50_000, every=10) for n in sizes for k in range(1, 7)]
    longer = [trial((10, 10, 1), n, k, 500_000, every=100) for n, k in ((10, 7), (20, 7), (30, 7), (10, 8))]
    two = [trial((10,), n, k, 20_000, every=10) for n in sizes for k in (1, 2, 3, 4)]
    shapes = (((2, 1), 20_000, (1, 2, 3, 4)), ((10, 10, 1), 50_000, (1, 2, 3, 4, 5, 6)))
    unbiased = [
        trial(shape, 10, k, steps, output_bias=False, every=100) for shape, steps, sizes in shapes for k in sizes
    ]
    return Sweep.of([*three, *two, *unbiased, *four, *longer], trials)


def part(trials: int) -> Sweep:
    """Return three and four layers with more trials where k is large, two initial scales, and what should fail."""
    sizes = (10, 20, 30)
    three = [trial((2, 1), n, k, 20_000) for n in sizes for k in (3, 4)]
    glorot = [one.replace("model.init", DenseInit(convention="glorot")) for one in three]
    easy = [trial((2, 1), n, k, 20_000) for n in sizes for k in (1, 2)]
    four = [trial((10, 10, 1), n, k, 50_000, every=250) for n in sizes for k in (4, 5, 6)]
    longer = [trial((10, 10, 1), n, k, 500_000, every=500) for n, k in ((10, 7), (20, 7), (30, 7), (10, 8))]
    shapes = (((100,), 3), ((100,), 4), ((100, 1), 5), ((100, 1), 6))
    failing = [trial(widths, 10, k, 50_000, every=250) for widths, k in shapes]
    two = [trial((10,), 10, k, 20_000) for k in (2, 3, 4)]
    often = Sweep.of([*three, *glorot], 4 * trials) + Sweep.of([*four], 3 * trials)
    return often + Sweep.of(two, 8 * trials) + Sweep.of(failing, 2 * trials) + Sweep.of([*easy, *longer], trials)


def greedy_alone(experiment: Experiment) -> Experiment:
    """Return only what decides whether greedy training beats chance."""
    numbers = {"smoke": 3, "laptop": 10, "part": 80, "paper": 800}
    what = "one layer with its readout, k = 3 and 4"
    scales = {name: Scale(greedy, trials=numbers[name], part=what) for name in experiment.scales}
    return replace(experiment, scales=scales)


def greedy(trials: int) -> Sweep:
    """Return one layer of width 10 on 10 signs, k = 3 and 4, checked at its end; k = 3 has a quarter of the trials."""
    three, four = (trial((10,), 10, k, 20_000, every=20_000) for k in (3, 4))
    return Sweep.of([four], trials) + Sweep.of([three], max(1, trials // 4))


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per cell, and at the larger scales ``signals``: by ``widths`` and ``k``.

    Their ``signal`` is as in ``table``. ``correlations`` has for each ``k`` the ``largest`` correlation of one layer,
    and ``on_frozen`` that of a layer on another one's outputs. ``errors`` has the trials' final errors.
    """
    errors = results.trials[[*KEYS, "seed", "solved_at", "test_error"]]
    found = {"table": summarise(results.trials), "errors": errors}
    if results.scale in ("part", "paper"):
        rows = [(str(widths), k, signal(widths, k)) for widths in SIGNALS for k in range(1, 9)]
        found["signals"] = pd.DataFrame(rows, columns=["widths", "k", "signal"])
        largest = {
            name: [largest_correlation(k, results.first_seed, layers=layers) for k in range(1, 9)]
            for name, layers in (("largest", 1), ("on_frozen", 2))
        }
        found["correlations"] = pd.DataFrame({"k": range(1, 9), **largest})
    return found


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: how often and how fast it was solved, the network in words, and the layer's signal.

    ``signal`` is the largest entry of the population gradient of the first layer's weights, by enumeration of 10 signs
    at the initial weights of seeds 0 to 4 (their median).
    """
    found = timed(trials, KEYS)
    error = trials.groupby(list(KEYS), sort=False, dropna=False)["test_error"].median()
    rows = found[["model.widths", "model.output_bias", "task.k"]].itertuples(index=False)
    shapes = [(tuple(int(width) for width in widths), bool(bias), int(k)) for widths, bias, k in rows]
    glorot = found["model.init.convention"] == "glorot"
    return found.assign(
        network=[
            f"{len(widths) + 1} layers ({', '.join(map(str, widths))})"
            + ("" if bias else ", no output bias")
            + (", Glorot's scale" if other else "")
            for (widths, bias, _), other in zip(shapes, glorot, strict=True)
        ],
        test_error=error.to_numpy(float),
        signal=[signal(widths, k, output_bias=bias) for widths, bias, k in shapes],
    )


def signal(widths: tuple[int, ...], k: int, *, output_bias: bool = True, n: int = ENUMERATED, seeds: int = 5) -> float:
    """Return the largest |E[y df/dW_1]| of a quadratic network at its initial weights, the median over seeds.

    Weights are rounded to multiples of 2^-10, and all sums over the cube are of integers: zeros are exact.

    Args:
        widths: of the hidden layers.
        k: the size of the parity.
        output_bias: does not change the gradient.
        n: the number of signs that are enumerated.
        seeds: the number of initialisations.
    """
    x = corners(np.arange(2**n, dtype=np.uint32), n).astype(int).astype(object)
    model, task = DeepMLP(widths=widths, output_bias=output_bias), SparseParity(n=n, k=k)
    found = []
    for seed in range(seeds):
        whole, scale = _whole(model, model.initialise(stream(seed, "init"), task))
        largest = np.abs(first_gradient(model, whole, x, x[:, :k].prod(axis=1))).max()
        found.append(float(Fraction(int(largest), 2 ** (scale + n))))
    return float(np.median(found))


def _whole(model: DeepMLP, parameters: Any) -> tuple[dict[str, dict[str, np.ndarray]], int]:
    """Return integers in place of the parameters, and the power of 2 by which this scales first gradients."""
    whole: dict[str, dict[str, np.ndarray]] = {}
    shift = scale = 0
    for layer, part in parameters.items():
        numbers = {
            name: np.round(array.astype(float) * 2**BITS).astype(int).astype(object) for name, array in part.items()
        }
        whole[layer] = {name: array * 2**shift if name == "bias" else array for name, array in numbers.items()}
        if layer == "output":
            break
        scale += BITS + shift + (BITS if layer != "hidden" else 0)
        shift = 2 * (BITS + shift)
    return whole, scale + BITS


def largest_correlation(
    k: int, first_seed: int, *, layers: int = 1, n: int = ENUMERATED, width: int = 10, draws: int = 20
) -> int:
    """Return the largest absolute sum of y f(x) over all inputs, for quadratic layers with readouts, exactly.

    Where it is 0, so are the correlation loss and its population gradient with respect to the last of the layers.

    Args:
        k: the size of the parity.
        first_seed: of the draws.
        layers: 1, or 2 for a layer whose inputs are the outputs of another.
        n: the number of signs.
        width: the number of neurons of a layer.
        draws: the number of draws of weights, biases and readouts, whole numbers from -9 to 9.
    """
    x = corners(np.arange(2**n, dtype=np.uint32), n).astype(np.int64)
    generator, sums = np.random.default_rng([0, first_seed]), []
    for _ in range(draws):
        below = x
        for _ in range(layers):
            weight, bias = (generator.integers(-9, 10, size) for size in ((below.shape[1], width), width))
            below = (below @ weight + bias) ** 2
        sums.append(int((x[:, :k].prod(axis=1) @ below) @ generator.integers(-9, 10, width)))
    return max(map(abs, sums))


def first_gradient(model: DeepMLP, parameters: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the sum of y df/dW_1 over inputs, for a quadratic network.

    Args:
        model: the network.
        parameters: its parameters, of any type of numbers.
        x: inputs (count, n).
        y: labels (count,).

    Returns:
        Shape (neurons, n).
    """
    sums, inputs = [], x
    for layer in model.layers:
        sums.append(inputs @ parameters[layer]["weight"].T + parameters[layer]["bias"])
        inputs = sums[-1] ** 2
    slope = y[:, None] * parameters["output"]["weight"] * 2 * sums[-1]
    for layer, below in zip(model.layers[:0:-1], sums[-2::-1], strict=True):
        slope = (slope @ parameters[layer]["weight"]) * 2 * below
    gradient: np.ndarray = slope.T @ x
    return gradient


def plot(tables: Tables) -> Figure:
    """Draw one grid of networks and k: how many trials were solved (colours and numbers), and how fast.

    To the right of the orange line the degree of a network, 2^(layers - 1), is below k.
    """
    cells = tables["table"]
    steps = [f": {short(float(f'{time:.3g}'))}" if np.isfinite(time) else "" for time in cells["median_steps"]]
    table = cells.assign(
        line=cells["network"] + ", n = " + cells["task.n"].astype(str),
        text=cells["solved"].astype(str) + "/" + cells["trials"].astype(str) + steps,
    )
    groups = table.groupby("network", sort=False)["task.n"]
    ordered = [f"{network}, n = {n}" for network, sizes in groups for n in sorted(sizes.unique())]
    degrees = range(1, int(table["task.k"].max()) + 1)
    rates, texts = (
        table.pivot(index="line", columns="task.k", values=name).reindex(index=ordered, columns=degrees)
        for name in ("rate", "text")
    )
    figure, ((ax,),) = panels(1, 1, height=0.32 * len(ordered) + 0.6)
    heat_map(ax, rates, text=texts.astype(object).where(texts.notna(), ""), norm=Normalize(0, 1))
    for row, line in enumerate(ordered):
        most = 2 ** (int(line.split()[0]) - 1)
        if most < degrees[-1]:
            ax.plot([most - 0.5, most - 0.5], [row - 0.48, row + 0.48], color=COLOURS[1], linewidth=1.6)
    ax.set_xlabel("k, the number of signs in the parity")
    title_figure(
        figure,
        "Deep quadratic networks learn parities up to their degree, and none beyond it",
        "(n, k) parities; hidden widths in brackets; solved/trials and, where half of the trials are solved, the "
        "median steps; colours: the share solved; orange line: the degree, 2 for two layers, 4 for three, 8 for four",
    )
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each cell: solved trials with their Wilson interval, times, final errors, and the signal."""
    return {
        f"{row['network']}, ({row['task.n']}, {row['task.k']})": {
            "solved": int(row["solved"]),
            "trials": int(row["trials"]),
            "interval": [round(row["low"], 3), round(row["high"], 3)],
            "median_steps": finite_or_none(row["median_steps"], 4),
            "median_interval": ends(row, "median"),
            "median_test_error": round(float(row["test_error"]), 4),
            "signal": float(row["signal"]),
        }
        for row in tables["table"].to_dict("records")
    }


EXPERIMENT = Experiment(
    name="layer-by-layer",
    shows="Deep quadratic networks learn end to end what none of their layers could learn alone",
    source="appendix B.3.7",
    scales={
        "smoke": Scale(
            lambda trials: Sweep.of([trial((2, 1), 10, 2, 2000), trial((2,), 10, 3, 2000)], trials), trials=3
        ),
        "laptop": Scale(laptop, trials=10),
        "part": Scale(part, trials=10, part="k from 3 to 8, with up to 40 trials per cell"),
        "paper": Scale(paper, trials=10),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
    options={
        "parts": Option("all, or greedy: one layer alone, with ten times as many trials", parts(greedy=greedy_alone))
    },
)

"""The minimal model's first two steps, exactly and on sampled sequences.

The thesis averages closed forms for one chain over 10,000 sampled chains; here the population gradients are integrated,
and compared with such a sample and with training on sequences. Estimates from sequences are unbiased, even in the
second step: the model is bilinear, and the minibatches of the two steps are independent.

Source: thesis, Lemma 8.4, Corollary E.2 and figures E.1 and E.2.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans import random
from elegans.analysis import round_significant
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import COLOURS, GREY, logarithmic, panels, title_figure, title_panels
from elegans.probes import ParameterTrajectory
from elegans.studies.induction_heads.first_steps_claims import CLAIMS
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.plots import finish, points
from elegans.studies.induction_heads.steps import (
    CONSTANT,
    ENTRIES,
    FEW,
    RATE,
    agreement,
    by_cell,
    entries,
    mean_interval,
    one_step,
    step_tables,
)
from elegans.studies.induction_heads.theory import two_states
from elegans.studies.induction_heads.theory.minimal import minimal_constant, minimal_step
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import SGD

DRAWS = 10_000
"""The number of sampled chains, as in the thesis."""
SYMMETRIC = "symmetric2:0.5"
"""Chains without a unigram signal: a = b, uniform on (0, 1)."""
LENGTHS = (6, 8, 10, 12, 16, 20, 30, 50, 70, 100, 200, 500)
"""The lengths for which the learning rate at which v_2 overtakes is computed."""
PRIORS = {"flat": COLOURS[0], "symmetric": COLOURS[1]}
"""Chains with flat rows and symmetric chains, and their colours."""
SAMPLED: dict[str, Any] = {"color": COLOURS[2], "markersize": 4, "markeredgewidth": 0.9}
LEADING: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": "--", "label": "leading term"}


def steps(trials: int, length: int, batch_size: int) -> Sweep:
    """Return two steps from constants, on chains with a unigram signal and without, and from W = I.

    For the last, one step would suffice; with equal numbers of steps, one program trains both kinds on flat rows.

    Args:
        trials: how many minibatches are averaged.
        length: of a sequence.
        batch_size: in sequences.
    """
    shared: dict[str, Any] = {"length": length, "batch_size": batch_size, "steps": 2}
    constant, symmetric = (one_step(prior, **shared) for prior in ("dirichlet", SYMMETRIC))
    return Sweep.of((constant, one_step(pair=0.0, diagonal=1.0, **shared), symmetric), trials)


def analyse(results: Results) -> Tables:
    """Return the tables ``pair``, ``position``, ``diagonal`` and ``rates``.

    ``pair``, ``position``: an entry of W (``entry``: 11, …) or v (``place`` j) after ``step`` 1 or 2 from constants.
    ``diagonal``: -dL/dv_j at W = I, the part of the second step's gradient due to the diagonal of W. In all three:
    ``prior`` (flat or symmetric), ``exact``, ``leading`` (its leading terms for long sequences, where they are known),
    ``printed`` (where the printed value differs), ``sampled`` (from 10,000 chains, with its standard error
    ``sampled_error``) and ``measured``, the mean over minibatches with its 95% interval ``low`` to ``high``, ``error``,
    its standard error, and the number of ``sequences``. ``rates``: by ``length``, the learning ``rate`` above which v_2
    overtakes v_1 in the second step.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    for template, seen in by_cell(results):
        assert isinstance(template.task, MarkovChains) and isinstance(template.training, SGD)
        assert isinstance(template.model, MinimalAttention)
        length, prior = template.task.length, "symmetric" if template.task.prior.kind == "symmetric2" else "flat"
        if template.model.diagonal:
            gradient = (seen["position"][:, 1] - seen["position"][:, 0]) / template.training.learning_rate
            tables = {"diagonal": _diagonal(prior, length, gradient)}
        else:
            tables = _constant(prior, length, seen)
        count = len(seen["pair"])
        named: dict[str, Any] = {"prior": prior, "length": length, "trials": count}
        for name, table in tables.items():
            table = table.assign(**named, sequences=count * template.training.batch_size)
            parts.setdefault(name, []).append(table)
    joined = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    longest = max(int(table["length"].max()) for table in joined.values())
    return joined | {"rates": overtaking(longest)}


def _diagonal(prior: str, length: int, gradient: np.ndarray) -> pd.DataFrame:
    """Return the rows of the gradient of v at W = I."""
    places = np.arange(1, length + 1)
    n = length - places + 1
    profile = two_states.second_step_profile(places) if prior == "flat" else two_states.symmetric_moments(length) / 4
    columns = {
        "step": 1,
        "place": places,
        "exact": np.trace(tensor_of(prior, length), axis1=1, axis2=2),
        "leading": n * (n + 1) / (2 * length) * profile,
        **_sampled(two_states.second_position_gradient(*sampled_chains(prior, length), length)),
        **mean_interval(gradient),
    }
    return pd.DataFrame(columns)


def _constant(prior: str, length: int, seen: dict[str, np.ndarray]) -> Tables:
    """Return the rows of W and v after each of two steps from constants."""
    tensor, (a, b) = tensor_of(prior, length), sampled_chains(prior, length)
    first = minimal_step(tensor, minimal_constant(2, length, CONSTANT, CONSTANT), RATE)
    second, unit = minimal_step(tensor, first, RATE), CONSTANT * RATE
    known: dict[str, dict[str, Any]] = {
        "pair": _sampled(CONSTANT + unit * entries(two_states.first_pair_gradient(a, b, length))),
        "position": _sampled(CONSTANT + unit * two_states.first_position_gradient(a, b, length)),
    }
    if prior == "flat":
        leading = two_states.first_step_leading(length, CONSTANT, RATE)
        known["pair"]["leading"], known["position"]["leading"] = entries(leading.pair), leading.position
    else:
        known["position"]["printed"] = CONSTANT + unit * two_states.symmetric_first_position(length, form="printed")
    one, two = (
        step_tables(exact, seen["pair"][:, step], seen["position"][:, step], step=step)
        for step, exact in ((1, first), (2, second))
    )
    return {name: pd.concat([one[name].assign(**more), two[name]], ignore_index=True) for name, more in known.items()}


def tensor_of(prior: str, length: int) -> np.ndarray:
    """Return the tensor of the minimal model's loss on chains with flat rows, or on symmetric ones."""
    return two_states.flat_tensor(length) if prior == "flat" else two_states.symmetric_tensor(length)


def sampled_chains(prior: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of staying of 10,000 chains."""
    task = MarkovChains(k=2, length=length, prior="dirichlet" if prior == "flat" else SYMMETRIC)
    chains = np.asarray(task.chains(random.stream(0, "test"), np.arange(DRAWS, dtype=np.uint32)), float)
    return chains[:, 0, 0], chains[:, 1, 1]


def _sampled(values: np.ndarray) -> dict[str, np.ndarray]:
    found = mean_interval(values)
    return {"sampled": found["measured"], "sampled_error": found["error"]}


def overtaking(longest: int) -> pd.DataFrame:
    """Return, by length up to five times the longest, the learning rate above which v_2 leads after two steps."""
    cells = [(prior, length) for prior in PRIORS for length in LENGTHS if length <= 5 * longest]
    rates = [two_states.overtaking_rate(tensor_of(*cell)) for cell in cells]
    return pd.DataFrame(cells, columns=["prior", "length"]).assign(rate=rates)


def plot(tables: Tables) -> Figure:
    """Draw the first two steps: lines are exact, points measured on sequences with 95% intervals.

    Crosses are averages of closed forms over sampled chains, as in the thesis' figures E.1 and E.2.
    """
    pair, position = (dict(iter(tables[name].groupby(["prior", "step"]))) for name in ("pair", "position"))
    figure, axes = panels(2, 3, height=2.5)
    _entries(axes[0, 0], pair)
    _first_position(axes[0, 1], position)
    _gradient(axes[0, 2], tables["diagonal"])
    for ax, prior in zip(axes[1], PRIORS, strict=False):
        for step, style, label in ((1, "--", "one step"), (2, "-", "two steps")):
            few = position[prior, step].query(f"place <= {FEW}")
            ax.plot(few["place"], few["exact"], color=PRIORS[prior], linewidth=1.2, linestyle=style, label=label)
            points(ax, few["place"], few, PRIORS[prior])
        ax.set_xticks(range(2, FEW + 1, 2))
        finish(ax, "position j", "coordinate $v_j$")
    _overtaking(axes[1, 2], tables["rates"], int(tables["pair"]["length"].iloc[0]))
    above = ("W after one step", "v after one step", "Gradient of v at W = I")
    below = ("v after two steps, flat rows", "v after two steps, symmetric", "Rates from which $v_2$ leads")
    title_panels(axes, (*above, *below))
    finding = "One step of SGD gives W its diagonal; a second makes $v_2$ the largest coordinate of v"
    chains = f"Minimal model on chains of two symbols, {tables['pair']['length'].iloc[0]} tokens"
    title_figure(
        figure, finding, f"{chains}; lines: exact; crosses: {DRAWS:,} sampled chains; points: sequences, 95% intervals"
    )
    return figure


def _entries(ax: Axes, parts: Any) -> None:
    for (prior, colour), shift in zip(PRIORS.items(), (-0.12, 0.12), strict=True):
        rows = parts[prior, 1]
        centre = np.arange(len(rows)) + shift
        ax.hlines(rows["exact"], centre - 0.2, centre + 0.2, color=colour, linewidth=1.2)
        ax.plot(centre - 0.07, rows["sampled"], "x", **SAMPLED)
        points(ax, centre + 0.07, rows, colour)
    ax.set_xticks(range(len(ENTRIES)), [f"$W_{{{entry}}}$" for entry in ENTRIES])
    ax.plot([], [], color=PRIORS["flat"], label="flat rows")
    ax.plot([], [], color=PRIORS["symmetric"], label="symmetric")
    ax.plot([], [], "x", color=COLOURS[2], markersize=4, label="10,000 chains")
    ax.plot([], [], "o", color=GREY, markersize=2.5, label="sequences")
    finish(ax, "", "entry of W")


def _first_position(ax: Axes, parts: Any) -> None:
    flat, symmetric = parts["flat", 1], parts["symmetric", 1]
    for rows, colour, label in zip((flat, symmetric), PRIORS.values(), ("flat rows", "symmetric"), strict=True):
        ax.plot(rows["place"], rows["exact"], color=colour, linewidth=1.2, label=label)
        few = rows.iloc[:: max(1, len(rows) // 20)]
        points(ax, few["place"], few, colour)
    ax.plot(flat["place"], flat["leading"], **LEADING)
    ax.plot(symmetric["place"], symmetric["printed"], **LEADING | {"linestyle": ":", "label": "as printed"})
    finish(ax, "position j", "coordinate $v_j$")


def _gradient(ax: Axes, rows: pd.DataFrame) -> None:
    few, colour = rows[rows["place"] <= FEW + 2], PRIORS["flat"]
    ax.plot(few["place"], few["leading"], **LEADING)
    ax.plot(few["place"], few["exact"], color=colour, linewidth=1.2, label="exact")
    ax.plot(few["place"] - 0.15, few["sampled"], "x", **SAMPLED)
    points(ax, few["place"] + 0.15, few, colour)
    ax.set_xticks(range(2, FEW + 3, 2))
    finish(ax, "position j", r"$-\partial L/\partial v_j$")


def _overtaking(ax: Axes, rows: pd.DataFrame, length: int) -> None:
    for prior, finite in rows[np.isfinite(rows["rate"])].groupby("prior"):
        ax.plot(finite["length"], finite["rate"], "o-", color=PRIORS[str(prior)], markersize=2.5, linewidth=1)
    ax.plot(length, RATE, "*", color="black", markersize=7, label="learning rate of the other panels")
    logarithmic(ax, "x")
    ax.set_yscale("log")
    finish(ax, "tokens t", "learning rate")


def findings(tables: Tables) -> dict[str, Any]:
    """Return how well exact, sampled and measured values agree, the largest entries of v, and the even/odd pattern."""
    result: dict[str, Any] = {}
    for part in ("pair", "position", "diagonal"):
        for (prior, step), rows in tables[part].groupby(["prior", "step"], sort=False):
            result[f"{prior}, {part}, step {step}"] = agreement(rows) | _values(rows)
    for prior, rows in tables["rates"].groupby("prior", sort=False):
        finite = np.isfinite(rows["rate"])
        rates = rows[finite].set_index("length")["rate"]
        result[f"{prior!s}, rate from which v_2 leads"] = {
            "none_up_to": None if finite.all() else int(rows["length"][~finite].max()),
            **{str(length): round_significant(rate) for length, rate in rates.items()},
        }
    return result


def _values(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the first exact and measured entries, and the order of the largest coordinates of v."""
    entry = rows["entry"] if "entry" in rows else "v_" + rows["place"].astype(str)
    first = rows[["exact", "measured", "error"]].set_axis(entry).head(6)
    values: dict[str, Any] = {
        str(name): [round_significant(value, 5) for value in row] for name, row in first.T.items()
    }
    if "place" in rows:
        for name in ("exact", "measured"):
            values[f"largest_{name}"] = rows.sort_values(name, ascending=False)["place"].head(4).tolist()
    return values


EXPERIMENT = Experiment(
    name="first-steps",
    shows="The minimal model's first two steps, exact and measured: W finds its diagonal first, then v_2 leads",
    source="Lemma 8.4, Corollary E.2, figures E.1 and E.2",
    scales={
        "smoke": Scale(lambda trials: steps(trials, 12, 128), trials=8),
        "laptop": Scale(lambda trials: steps(trials, 100, 200), trials=60),
        "paper": Scale(lambda trials: steps(trials, 100, 200), trials=5000),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=[ParameterTrajectory(every=1)],
    claims=CLAIMS,
)

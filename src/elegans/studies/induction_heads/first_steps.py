"""The minimal model's first two steps, exactly and on sampled sequences.

The thesis averages closed forms for one chain over 10,000 drawn chains; here the population's gradients are integrated,
and stand beside such a draw and beside what training does on sequences. Estimates from sequences have no bias, in the
second step either: the model is bilinear, and the minibatches of the two steps are independent.

Source: thesis, Lemma 8.4, Corollary E.2 and figures E.1 and E.2.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import t as student

from elegans import random
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.induction_phases import sweep_of
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.plot_steps import first_steps
from elegans.studies.induction_heads.settings import NEVER
from elegans.studies.induction_heads.theory.minimal import minimal_constant, minimal_step
from elegans.studies.induction_heads.theory.two_states import (
    first_pair_gradient,
    first_position_gradient,
    first_step_leading,
    flat_tensor,
    overtaking_rate,
    second_position_gradient,
    second_step_profile,
    symmetric_first_position,
    symmetric_moments,
    symmetric_tensor,
)
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains, Online
from elegans.training import SGD, Outcome, Trial
from elegans.training.outcome import FINISHED

CONSTANT, RATE = 0.02, 0.03
"""The initial entries of W and v, and the learning rate: those of figures E.1 and E.2."""
DRAWS = 10_000
"""How many chains are drawn, as in the thesis."""
SYMMETRIC = "symmetric2:0.5"
"""Chains without a unigram signal: a = b, uniform on (0, 1)."""
LENGTHS = (6, 8, 10, 12, 16, 20, 30, 50, 70, 100, 200, 500)
"""Those for which the rate at which v_2 overtakes is computed."""
ENTRIES = ("11", "22", "12", "21")
LEVEL = 0.95
"""Of intervals."""
ROUNDING = 1e-12
"""Below this a standard error is that of rounding: entries that are the same for all chains."""


def one_step(
    prior: str = "dirichlet",
    length: int = 100,
    *,
    pair: float = CONSTANT,
    position: float = CONSTANT,
    diagonal: float = 0.0,
    learning_rate: float = RATE,
    batch_size: int = 200,
    **training: Any,
) -> Trial:
    """Return one step of the minimal model from given weights, on the margin loss with every hinge active.

    Args:
        prior: the law of chains.
        length: how many tokens it reads.
        pair: the entries of W.
        position: the entries of v.
        diagonal: what is added to W's diagonal.
        learning_rate: that of SGD.
        batch_size: how many sequences a step takes.
        training: what else it is, as of ``SGD``: another number of ``steps``, ….
    """
    settings = {"steps": 1, "loss": "margin:linear", "stopping": NEVER, **training}
    return Trial(
        task=MarkovChains(k=2, length=length, prior=prior),
        regime=Online(),
        model=MinimalAttention(pair=pair, position=position, diagonal=diagonal),
        training=SGD(learning_rate=learning_rate, batch_size=batch_size, **settings),
    )


def steps(trials: int, length: int, batch_size: int) -> Sweep:
    """Return two steps from constants, on chains with a unigram signal and without, and from W = I.

    Of the last the first step is enough; with as many steps for all, one program trains both kinds on flat rows.

    Args:
        trials: how many minibatches are averaged.
        length: how many tokens a sequence has.
        batch_size: how many sequences a minibatch has.
    """
    shared: dict[str, Any] = {"length": length, "batch_size": batch_size, "steps": 2}
    constant, symmetric = (one_step(prior, **shared) for prior in ("dirichlet", SYMMETRIC))
    return sweep_of(trials, constant, one_step(pair=0.0, diagonal=1.0, **shared), symmetric)


def smoke(trials: int) -> Sweep:
    """Return 12 tokens and 8 minibatches of 128."""
    return steps(trials, 12, 128)


def laptop(trials: int) -> Sweep:
    """Return 100 tokens, as in the thesis."""
    return steps(trials, 100, 200)


def paper(trials: int) -> Sweep:
    """Return the same with more sequences."""
    return steps(trials, 100, 200)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the weights before and after every step."""
    return (ParameterTrajectory(every=1),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of three ``part``s.

    ``pair``, ``position``: an entry of W (``entry``: 11, …) or v (``place`` j) after ``step`` 1 or 2 from constants.
    ``diagonal``: -dL/dv_j at W = I, the part of the second step's gradient that the diagonal of W makes. In all three:
    ``law`` (flat or symmetric), ``exact``, ``leading`` (its leading terms for long sequences, where they are known),
    ``printed`` (where that is something else), ``drawn`` (from 10,000 chains, with its standard error ``drawn_error``)
    and ``measured``, the mean over minibatches with its 95% interval ``low`` to ``high``, ``error``, its standard
    error, and how many ``sequences`` it is from. ``rate``: by ``length``, the learning ``rate`` above which v_2
    overtakes v_1 in the second step.
    """
    outcomes = [one for one in trials["outcome"] if one.state in FINISHED]
    cells: dict[str, list[Outcome]] = {}
    for one in outcomes:
        cells.setdefault(one.trial.cell, []).append(one)
    parts = [_cell(own) for own in cells.values()]
    return pd.concat([*parts, overtaking(max(part["length"].max() for part in parts))], ignore_index=True)


def _cell(outcomes: list[Outcome]) -> pd.DataFrame:
    """Return the rows of one setting."""
    one = outcomes[0].trial
    assert isinstance(one.task, MarkovChains) and isinstance(one.training, SGD)
    assert isinstance(one.model, MinimalAttention)
    length, law = one.task.length, "symmetric" if one.task.prior.kind == "symmetric2" else "flat"
    seen = {name: measured(outcomes, name) for name in ("pair", "position")}
    if one.model.diagonal:
        gradient = (seen["position"][:, 1] - seen["position"][:, 0]) / one.training.learning_rate
        parts = [_diagonal(law, length, gradient)]
    else:
        parts = _constant(law, length, seen)
    count = len(outcomes) * one.training.batch_size
    return pd.concat(parts, ignore_index=True).assign(law=law, length=length, trials=len(outcomes), sequences=count)


def measured(outcomes: list[Outcome], name: str) -> np.ndarray:
    """Return a parameter of all trials at all steps, shape (trials, steps + 1, …)."""
    return np.array([one.measures["parameter-trajectory"][name] for one in outcomes], np.float64)


def mean_interval(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return means over the first axis, their standard errors, and their 95% intervals by Student's law.

    Args:
        values: shape (count, …); of a single one the error is NaN.

    Returns:
        ``measured``, ``error``, ``low`` and ``high``.
    """
    count, mean = len(values), values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full_like(mean, np.nan)
    reach = error * student.ppf((1 + LEVEL) / 2, count - 1) if count > 1 else error
    return {"measured": mean, "error": error, "low": mean - reach, "high": mean + reach}


def _diagonal(law: str, length: int, gradient: np.ndarray) -> pd.DataFrame:
    """Return the rows of the gradient of v at W = I."""
    tensor, (a, b), places = tensor_of(law, length), drawn_chains(law, length), np.arange(1, length + 1)
    n = length - places + 1
    profile = second_step_profile(places) if law == "flat" else symmetric_moments(length) / 4
    drawn = second_position_gradient(a, b, length)
    columns = {
        "place": places,
        "exact": np.trace(tensor, axis1=1, axis2=2),
        "leading": n * (n + 1) / (2 * length) * profile,
        **_drawn(drawn),
        **mean_interval(gradient),
    }
    return pd.DataFrame(columns).assign(part="diagonal", step=1)


def _constant(law: str, length: int, seen: dict[str, np.ndarray]) -> list[pd.DataFrame]:
    """Return the rows of W and v after each of two steps from constants."""
    tensor, (a, b) = tensor_of(law, length), drawn_chains(law, length)
    first = minimal_step(tensor, minimal_constant(2, length, CONSTANT, CONSTANT), RATE)
    second = minimal_step(tensor, first, RATE)
    unit = CONSTANT * RATE
    drawn = {
        "pair": _drawn(CONSTANT + unit * entries(first_pair_gradient(a, b, length))),
        "position": _drawn(CONSTANT + unit * first_position_gradient(a, b, length)),
    }
    leading = first_step_leading(length, CONSTANT, RATE)
    places = np.arange(1, length + 1)
    parts = []
    for step, exact in ((1, first), (2, second)):
        pair: dict[str, Any] = {"entry": list(ENTRIES), "exact": entries(exact.pair)}
        position: dict[str, Any] = {"place": places, "exact": exact.position}
        if step == 1 and law == "flat":
            pair["leading"], position["leading"] = entries(leading.pair), leading.position
        if step == 1 and law == "symmetric":
            position["printed"] = CONSTANT + unit * symmetric_first_position(length, form="printed")
        if step == 1:
            pair, position = pair | drawn["pair"], position | drawn["position"]
        pair |= mean_interval(entries(seen["pair"][:, step]))
        position |= mean_interval(seen["position"][:, step])
        for name, columns in (("pair", pair), ("position", position)):
            parts.append(pd.DataFrame(columns).assign(part=name, step=step))
    return parts


def entries(pair: np.ndarray) -> np.ndarray:
    """Return W_11, W_22, W_12 and W_21 of arrays of shape (…, 2, 2)."""
    return np.stack([pair[..., int(entry[0]) - 1, int(entry[1]) - 1] for entry in ENTRIES], axis=-1)


def tensor_of(law: str, length: int) -> np.ndarray:
    """Return the tensor of the minimal model's loss on chains with flat rows, or on symmetric ones."""
    return flat_tensor(length) if law == "flat" else symmetric_tensor(length)


def drawn_chains(law: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of staying of 10,000 chains."""
    task = MarkovChains(k=2, length=length, prior="dirichlet" if law == "flat" else SYMMETRIC)
    chains = np.asarray(task.chains(random.stream(0, "test"), np.arange(DRAWS, dtype=np.uint32)), float)
    return chains[:, 0, 0], chains[:, 1, 1]


def _drawn(values: np.ndarray) -> dict[str, np.ndarray]:
    found = mean_interval(values)
    return {"drawn": found["measured"], "drawn_error": found["error"]}


def overtaking(longest: int) -> pd.DataFrame:
    """Return by length, up to five times the longest, from which rate on v_2 leads after two steps."""
    lengths = [length for length in LENGTHS if length <= 5 * longest]
    rows = [
        {"part": "rate", "law": law, "length": length, "rate": overtaking_rate(tensor_of(law, length))}
        for law in ("flat", "symmetric")
        for length in lengths
    ]
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame) -> Figure:
    """Draw weights after one step and two, the gradient at W = I, and from which rate on v_2 leads."""
    return figure_of(first_steps(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return how exact values, draws and measurements agree, the largest entries of v, and the even/odd pattern."""
    found: dict[str, Any] = {}
    groups: Any = table[table["part"] != "rate"].groupby(["law", "part", "step"], sort=False)
    for (law, part, step), rows in groups:
        found[f"{law}, {part}, step {step:.0f}"] = agreement(rows) | _values(rows)
    for law, rows in table[table["part"] == "rate"].groupby("law", sort=False):
        finite = rows[np.isfinite(rows["rate"])]
        found[str(law) + ", rate from which v_2 leads"] = {
            "none_up_to": int(rows["length"][~np.isfinite(rows["rate"])].max()) if len(finite) < len(rows) else None,
            **{str(int(row.length)): float(f"{row.rate:.4g}") for row in finite.itertuples()},
        }
    return found


def agreement(rows: pd.DataFrame) -> dict[str, Any]:
    """Return how many exact values lie in the intervals of measured ones, and the largest error in standard errors."""
    away = ((rows["measured"] - rows["exact"]) / rows["error"])[rows["error"] > 0].abs()
    inside = rows["exact"].between(rows["low"], rows["high"])
    found = {
        "sequences": int(rows["sequences"].iloc[0]),
        "inside": f"{int(inside.sum())} of {len(rows)}",
        "largest_error_in_standard_errors": round(float(away.max()), 2) if len(away) else None,
    }
    if "drawn" in rows and rows["drawn"].notna().all():
        drawn = ((rows["drawn"] - rows["exact"]) / rows["drawn_error"])[rows["drawn_error"] > ROUNDING].abs()
        found["largest_error_of_draws_in_standard_errors"] = round(float(drawn.max()), 2)
    return found


def _values(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the first exact and measured entries, and the order of the largest coordinates of v."""
    first = rows.head(6)
    names = first["entry"] if rows["part"].iloc[0] == "pair" else "v_" + first["place"].astype(int).astype(str)
    shown = zip(names, first["exact"], first["measured"], first["error"], strict=True)
    found: dict[str, Any] = {
        str(name): [float(f"{value:.5g}") for value in (exact, seen, error)] for name, exact, seen, error in shown
    }
    if rows["part"].iloc[0] != "pair":
        for name in ("exact", "measured"):
            order = rows.sort_values(name, ascending=False)["place"].astype(int)
            found[f"largest_{name}"] = order.head(4).tolist()
    return found


EXPERIMENT = Experiment(
    name="first-steps",
    shows="The minimal model's first two steps, exact beside measured: W finds its diagonal first, then v_2 leads",
    source="Lemma 8.4, Corollary E.2, figures E.1 and E.2",
    scales={
        "smoke": Scale(smoke, trials=8, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=60, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=5000, time="about half an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
"""Figures E.1 and E.2."""

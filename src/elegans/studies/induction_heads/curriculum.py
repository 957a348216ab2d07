"""Two steps with a curriculum: exact weights beside those of sampled sequences, and what their predictor is worth.

One step on chains with flat rows, from W = w 1 1^T and v = 1; then one on chains close to coin flips, a = b within
epsilon of 1/2, everything old forgotten. The proposition says that logits become O(eps^4) times counts of bigrams plus
O(eps^6): so it is entry by entry, but not in the sum over all of v's coordinates.

Source: thesis, Propositions 8.5 and E.3.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans import random
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.first_steps import ENTRIES, agreement, entries, mean_interval, measured, one_step
from elegans.studies.induction_heads.induction_phases import sweep_of
from elegans.studies.induction_heads.plot_steps import curriculum_steps
from elegans.studies.induction_heads.tables import significant
from elegans.studies.induction_heads.theory.construction import best_linear_logits
from elegans.studies.induction_heads.theory.metrics import kl_divergence
from elegans.studies.induction_heads.theory.minimal import (
    MinimalWeights,
    minimal_constant,
    minimal_logits,
    minimal_step,
)
from elegans.studies.induction_heads.theory.strategies import ngram_counts, ngram_strategy
from elegans.studies.induction_heads.theory.two_states import (
    curriculum_background,
    curriculum_position,
    flat_tensor,
    two_step_curriculum,
)
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import SGD, Outcome, Trial
from elegans.training.outcome import FINISHED

FIRST, SECOND = 100.0, 10.0
"""The rates times t^2 and t: from w = 0 they only scale the result, and at this size single precision is no matter."""
EPSILON = 0.25
"""Half the length of the second step's interval, where it does not vary."""
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
MULTIPLES = (0.5, 1, 2, 4)
"""Of the measured length: those of exact weights."""
STARTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The initial entries w of W; the first step adds 0.19 off the diagonal and 0.76 on it, less O(1/t)."""
EXAMPLES = 1000
"""On how many held-out sequences a predictor is tried."""
NAMES = ("source", "length", "epsilon", "start", "kept")
WORTH = ("bigram", "unigram", "counts", "own", "remainder", "loss", "bigram_loss", "unigram_loss")
"""Which predictor, and what it is worth."""


def second_step(length: int, epsilon: float, batch_size: int) -> Trial:
    """Return the second step by itself, from the exact weights after the first, which left v as it was.

    Args:
        length: how many tokens a sequence has.
        epsilon: half the length of the interval that a = b is drawn from.
        batch_size: how many sequences the step takes.
    """
    start = minimal_constant(2, length, 0.0, 1.0)
    pair = minimal_step(flat_tensor(length), start, FIRST / length**2).pair
    return one_step(
        f"symmetric2:{epsilon:g}",
        length,
        pair=float(pair[0, 1]),
        diagonal=float(pair[0, 0] - pair[0, 1]),
        position=1.0,
        learning_rate=SECOND / length,
        batch_size=batch_size,
        weight_decay=1.0,
        decay="parameters",
    )


def first_step(length: int, batch_size: int) -> Trial:
    """Return the first step: on flat rows, from W = 0 and v = 1."""
    rate = FIRST / length**2
    return one_step("dirichlet", length, pair=0.0, position=1.0, learning_rate=rate, batch_size=batch_size)


def smoke(trials: int) -> Sweep:
    """Return 20 tokens and 8 minibatches of 128."""
    return sweep_of(trials, second_step(20, EPSILON, 128))


def laptop(trials: int) -> Sweep:
    """Return both steps of 100 tokens."""
    return sweep_of(trials, first_step(100, 200), second_step(100, EPSILON, 200))


def paper(trials: int) -> Sweep:
    """Return the same with more sequences."""
    return laptop(trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the weights before and after the step."""
    return (ParameterTrajectory(every=1),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of four ``part``s; ``length`` is t, ``epsilon`` half the length of the second step's interval.

    ``pair``, ``position``: an entry of W (``entry``) or v (``place`` j) after ``step`` 1 or 2: ``exact``, and
    ``measured`` with its 95% interval ``low`` to ``high`` and its standard ``error``, of so many ``sequences``.
    ``weights``: exact weights after both steps: W's ``diagonal``, ``v_2``, ``v_4`` and what it would be without the
    part that all coordinates share (``v_4_alone``), the sum of v's ``others`` than v_2, the ``largest_other`` of them
    and, for long sequences, the ``limit`` of the others over v_2.
    ``predictor``: what weights (of ``source`` exact, or measured) are worth on chains with flat rows, at the last of
    ``length`` tokens: the correlation of the logits' difference with that of ``bigram`` and ``unigram`` counts, and of
    these two with each other (``counts``); the root mean squares of what v_2 adds to that difference, ``own``, and of
    the ``remainder``; the ``loss`` of the best multiple of the logits, and of bigram and unigram counts
    (``bigram_loss``, ``unigram_loss``), beside the losses of the smoothed strategies (``line.bigram``,
    ``line.unigram``). ``start`` is w, ``kept`` whether v is not forgotten.
    """
    outcomes = [one for one in trials["outcome"] if one.state in FINISHED]
    cells: dict[str, list[Outcome]] = {}
    for one in outcomes:
        cells.setdefault(one.trial.cell, []).append(one)
    parts = [part for own in cells.values() for part in _cell(own)]
    longest = max(one.trial.task.input_size for one in outcomes)
    lengths = [round(multiple * longest) for multiple in MULTIPLES]
    rows = [exact_weights(length, epsilon) for length in lengths for epsilon in EPSILONS]
    rows += [_exact(length, EPSILON) for length in lengths]
    rows += [_exact(longest, epsilon) for epsilon in EPSILONS]
    rows += [_exact(longest, EPSILON, start, kept) for start in STARTS for kept in (False, True)]
    return pd.concat([*parts, pd.DataFrame(rows).drop_duplicates(ignore_index=True)], ignore_index=True)


def _cell(outcomes: list[Outcome]) -> list[pd.DataFrame]:
    """Return the rows of one measured step."""
    one = outcomes[0].trial
    assert isinstance(one.task, MarkovChains) and isinstance(one.training, SGD)
    length, epsilon = one.task.length, getattr(one.task.prior, "epsilon", np.nan)
    seen = {name: measured(outcomes, name)[:, -1] for name in ("pair", "position")}
    exact = after(length, None if np.isnan(epsilon) else epsilon)
    count = len(outcomes) * one.training.batch_size
    own = {"length": length, "epsilon": epsilon, "step": 1 if np.isnan(epsilon) else 2, "sequences": count}
    pair = {"entry": list(ENTRIES), "exact": entries(exact.pair), **mean_interval(entries(seen["pair"]))}
    places = np.arange(1, length + 1)
    position = {"place": places, "exact": exact.position, **mean_interval(seen["position"])}
    parts = [pd.DataFrame(pair).assign(part="pair", **own), pd.DataFrame(position).assign(part="position", **own)]
    if np.isnan(epsilon):
        return parts
    means = MinimalWeights(seen["pair"].mean(axis=0), seen["position"].mean(axis=0))
    named = {"length": length, "epsilon": epsilon, "source": "measured", "start": 0.0, "kept": False}
    return [*parts, pd.DataFrame([named | {"part": "predictor", "sequences": count} | worth(means)])]


def after(length: int, epsilon: float | None, start: float = 0.0, kept: bool = False) -> MinimalWeights:
    """Return the exact weights after both steps, or after the first where there is no epsilon."""
    if epsilon is None:
        constant = minimal_constant(2, length, start, 1.0)
        return minimal_step(flat_tensor(length), constant, FIRST / length**2)
    rates = FIRST / length**2, SECOND / length
    return two_step_curriculum(length, epsilon, *rates, start=(start, 1.0), keep_position=kept)


def exact_weights(length: int, epsilon: float) -> dict[str, Any]:
    """Return a row of exact weights."""
    weights = after(length, epsilon)
    others = np.delete(weights.position, 1)
    second, fourth = (curriculum_position(place, epsilon) for place in (2, 4))
    return {
        "part": "weights",
        "length": length,
        "epsilon": epsilon,
        "diagonal": float(weights.pair[0, 0]),
        "v_2": float(weights.position[1]),
        "v_4": float(weights.position[3]),
        "v_4_alone": float(weights.position[1]) * fourth / second,
        "others": float(others.sum()),
        "largest_other": float(others.max()),
        "limit": curriculum_background(epsilon),
    }


def _exact(length: int, epsilon: float, start: float = 0.0, kept: bool = False) -> dict[str, Any]:
    """Return a row of what exact weights are worth."""
    named = {"part": "predictor", "length": length, "epsilon": epsilon, "source": "exact", "start": start, "kept": kept}
    return named | worth(after(length, epsilon, start, kept))


def worth(weights: MinimalWeights) -> dict[str, float]:
    """Return what weights are worth on held-out sequences of chains with flat rows; see ``analysis``."""
    length = len(weights.position)
    task, key, index = MarkovChains(k=2, length=length), random.stream(0, "test"), np.arange(EXAMPLES, dtype=np.uint32)
    tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)[:, -1]
    logits = minimal_logits(weights, tokens)[:, -1]
    counts = {name: ngram_counts(tokens, 2, order)[:, -1] for name, order in (("unigram", 1), ("bigram", 2))}
    apart = {name: np.diff(values)[:, 0] for name, values in (*counts.items(), ("all", logits))}
    second = np.where(np.arange(length) == 1, weights.position, 0)
    own = np.diff(minimal_logits(MinimalWeights(weights.pair, second), tokens)[:, -1])[:, 0]
    lines = {
        f"line.{name}": float(kl_divergence(true, ngram_strategy(tokens, 2, order)[:, -1]).mean())
        for name, order in (("unigram", 1), ("bigram", 2))
    }
    return {
        "bigram": float(np.corrcoef(apart["all"], apart["bigram"])[0, 1]),
        "unigram": float(np.corrcoef(apart["all"], apart["unigram"])[0, 1]),
        "counts": float(np.corrcoef(apart["bigram"], apart["unigram"])[0, 1]),
        "own": float(np.sqrt((own**2).mean())),
        "remainder": float(np.sqrt(((apart["all"] - own) ** 2).mean())),
        "loss": best_linear_logits(logits / np.abs(logits).max(), true).loss,
        **{f"{name}_loss": best_linear_logits(values / length, true).loss for name, values in counts.items()},
        **lines,
    }


def slope(rows: pd.DataFrame, name: str) -> float:
    """Return the power of epsilon by which a column grows, between its two smallest values."""
    few = rows.sort_values("epsilon").iloc[:2]
    rise = np.log(few[name].iloc[1] / few[name].iloc[0])
    return float(rise / np.log(few["epsilon"].iloc[1] / few["epsilon"].iloc[0]))


def plot(table: pd.DataFrame) -> Figure:
    """Draw coordinates, how they grow with epsilon and length, and what the predictor is worth."""
    return figure_of(curriculum_steps(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return how measurement and exact weights agree, the powers of epsilon, and what predictors are worth."""
    found: dict[str, Any] = {}
    known = table[table["part"].isin(["pair", "position"])]
    groups: Any = known.groupby(["part", "step", "epsilon"], sort=False, dropna=False)
    for (part, step, epsilon), rows in groups:
        name = f"{part} after step {step:.0f}" + ("" if np.isnan(epsilon) else f", epsilon = {epsilon:g}")
        found[name] = agreement(rows)
    weights = table[table["part"] == "weights"]
    longest = weights[weights["length"] == weights["length"].max()]
    products = longest.assign(**{name: longest["diagonal"] * longest[name] for name in ("v_2", "v_4", "others")})
    found["powers of epsilon"] = {name: round(slope(products, name), 3) for name in ("v_2", "v_4", "others")}
    exact = table[(table["part"] == "predictor") & (table["source"] == "exact")]
    plain = exact[(exact["start"] == 0) & ~exact["kept"].astype(bool)]
    middle = plain[plain["length"] == plain["length"].value_counts().idxmax()]
    found["powers of epsilon on logits"] = {name: round(slope(middle, name), 3) for name in ("own", "remainder")}
    found["predictors"] = [
        {name: _short(row[name]) for name in NAMES + WORTH}
        for row in table[table["part"] == "predictor"].to_dict("records")
    ]
    found["others over v_2"] = [
        {
            **{name: _short(row[name]) for name in ("length", "epsilon", "limit")},
            "ratio": _short(row["others"] / row["v_2"]),
        }
        for row in weights.to_dict("records")
    ]
    return found


def _short(value: Any) -> Any:
    return significant(value) if isinstance(value, float) else value


EXPERIMENT = Experiment(
    name="curriculum",
    shows="Two steps with a curriculum: v_2 leads every coordinate, but not the sum of them: logits keep unigrams",
    source="Propositions 8.5 and E.3",
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
"""Proposition 8.5."""

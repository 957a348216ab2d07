"""The minimal model learns pairs: what its two parameters do, and which of them is there first.

The model is bilinear, so that a parameter is worth nothing without the other. Which comes first is told by grafts: W of
a step with the v of the end, and v of a step with the W of the end, each pair with the factor that suits it best, so
that directions alone count. The same factor, of the model's own logits, parts what it has not learned from what it is
too sure or unsure of. Logits of this model are counts, so that it ends above the loss of add-one bigrams: near that of
the best multiple of the counts of pairs, which it need not stay above, since other places of v help a little.

Grafts, factors and the limit of counts are derived here.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.plot_obstacles import COORDINATES, minimal_courses
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import minimal
from elegans.studies.induction_heads.tables import course, lines_of, outcomes_of, spread, transition
from elegans.studies.induction_heads.theory.construction import best_linear_logits
from elegans.studies.induction_heads.theory.metrics import parity_bias
from elegans.studies.induction_heads.theory.strategies import ngram_counts
from elegans.sweeps import Sweep, grid
from elegans.tasks import MarkovChains
from elegans.training import Outcome, Trial

LOOKS = 80
EXAMPLES = 1000
"""How many held-out sequences losses are taken on."""
NEAR = 0.1
"""Within which share of its loss a network counts as at the unigram strategy's."""
ORDERED = 100
"""From which step on the order of the first six coordinates of v is looked at."""
SHOWN = (100, 500, 1000, 2000)
"""At which steps findings state the parameters."""


def models(ks: tuple[int, ...], length: int, steps: int, trials: int, **training: Any) -> Sweep:
    """Return the minimal model on each number of symbols; seeds differ in examples alone."""
    cells = [minimal(k, length, steps=steps, **training) for k in ks]
    return Sweep(tuple(part for cell in cells for part in grid(cell, {}, seeds=trials).parts))


def smoke(trials: int) -> Sweep:
    """Return two symbols and 16 tokens at ten times the rate."""
    return models((2,), 16, 100, trials, batch_size=32, learning_rate=2e-2)


def laptop(trials: int) -> Sweep:
    """Return two and three symbols with the published settings."""
    return models((2, 3), 100, 2000, trials)


def paper(trials: int) -> Sweep:
    """Return the same for twice as long."""
    return models((2, 3), 100, 4000, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return losses and distances to strategies, and both parameters."""
    assert one.training is not None
    every = max(one.training.steps // LOOKS, 5)
    return ChainLosses(every=every, examples=EXAMPLES), ParameterTrajectory(every=every, names=("pair", "position"))


class HeldOut(NamedTuple):
    """Held-out sequences as the minimal model sees them from the last position.

    Args:
        counts: how often a symbol i has a symbol l at the distance d before it, by sequence, i, l and d.
        last: the last token, one-hot.
        true: the true law of the next token.
        pairs: how often each symbol has followed the last one.
    """

    counts: Float[np.ndarray, "count k k length"]
    last: Float[np.ndarray, "count k"]
    true: Float[np.ndarray, "count k"]
    pairs: Float[np.ndarray, "count k"]

    def logits(self, pair: Any, position: Any) -> Float[np.ndarray, "count k"]:
        """Return the model's logits after the last token."""
        return np.asarray(np.einsum("cil,cl->ci", self.counts @ np.asarray(position, float), self.last @ pair))


def held_out(one: Trial) -> HeldOut:
    """Return a trial's held-out sequences, those that its losses are taken on."""
    task = one.task
    assert isinstance(task, MarkovChains)
    key, index = one.key("test"), np.arange(EXAMPLES, dtype=np.uint32)
    tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)[:, -1]
    symbols = np.eye(task.k)[tokens]
    apart = [np.einsum("cti,ctl->cil", symbols[:, d:], symbols[:, : task.length - d]) for d in range(task.length)]
    pairs = ngram_counts(tokens, task.k, 2)[:, -1].astype(float)
    return HeldOut(np.stack(apart, axis=3), symbols[:, -1], true, pairs)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: losses and distances, both parameters, and grafts.

    Beside the columns of ``course``: ``diagonal`` and ``off_diagonal``, the means of W's entries, and ``off_largest``,
    the largest absolute one off the diagonal; ``v_1``, …; ``parity_bias`` of v; ``own``, ``early_pair`` and
    ``early_position``, the losses of the model, of its W with the end's v and of its v with the end's W, with the
    ``factor`` that suits each best, which is that of the model; NaN where W is 0. ``limit``, the same in all rows of a
    trial, is what is lost with the best multiple of the counts of pairs.
    """
    return pd.concat([_course(outcome) for outcome in outcomes_of(trials)], ignore_index=True)


def _course(outcome: Outcome) -> pd.DataFrame:
    taken = outcome.measures["parameter-trajectory"]
    pair, position = np.asarray(taken["pair"], float), np.asarray(taken["position"], float)
    test, k = held_out(outcome.trial), pair.shape[1]
    inside = np.eye(k, dtype=bool)
    found = course(outcome).assign(
        diagonal=pair[:, inside].mean(axis=1),
        off_diagonal=pair[:, ~inside].mean(axis=1),
        off_largest=np.abs(pair[:, ~inside]).max(axis=1),
        **{f"v_{place + 1}": position[:, place] for place in range(COORDINATES)},
        parity_bias=parity_bias(position),
        limit=best_linear_logits(test.pairs, test.true).loss,
    )
    grafts = {
        "own": (pair, position),
        "early_pair": (pair, position[[-1] * len(pair)]),
        "early_position": (pair[[-1] * len(pair)], position),
    }
    for name, models in grafts.items():
        best = [_best(test, *model) for model in zip(*models, strict=True)]
        found[name] = [loss for _, loss in best]
        if name == "own":
            found["factor"] = [factor for factor, _ in best]
    return found


def _best(test: HeldOut, pair: np.ndarray, position: np.ndarray) -> tuple[float, float]:
    """Return the factor that makes a model's logits best, and its loss with it; NaN of a model without logits."""
    if not (pair.any() and np.isfinite(pair).all() and np.isfinite(position).all()):
        return np.nan, np.nan
    logits = test.logits(pair, position)
    scale = float(np.abs(logits).max())
    found = best_linear_logits(logits / scale, test.true)
    return found.slope / scale, found.loss


def plot(table: pd.DataFrame) -> Figure:
    """Draw losses, distances, both parameters along the way, and grafts, two rows a number of symbols."""
    return figure_of(minimal_courses(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by the number of symbols, how near the model comes to unigrams and to pairs, and what it looks like.

    ``unigram_closest`` says for how many steps single tokens are the closest strategy, and ``then`` how far from them
    the model is: its loss over the strategy's, and its distance. ``near_unigram`` counts the steps at which the loss is
    within 10% of the strategy's. ``pair_first`` and ``position_first`` are when the grafts pass the middle of the
    unigram strategy's loss and the limit of counts.
    """
    return {f"k = {k}": _stated([run for _, run in rows.groupby("seed")]) for k, rows in table.groupby("k", sort=False)}


def _stated(runs: list[pd.DataFrame]) -> dict[str, Any]:
    every = float(runs[0]["step"].iloc[1])
    closest = [run[run["phase"] == "unigram"] for run in runs]
    at_end = [run.iloc[-1] for run in runs]
    margins = pd.DataFrame([_margins(run) for run in runs])
    numbers: dict[str, list[float]] = {
        "line_unigram": [lines_of(run)["unigram"] for run in runs],
        "line_bigram": [lines_of(run)["bigram"] for run in runs],
        "limit": [end["limit"] for end in at_end],
        "loss": [end["loss"] for end in at_end],
        "lowest_loss": [run["loss"].min() for run in runs],
        "lowest_at": [run["step"].iloc[run["loss"].argmin()] for run in runs],
        "own": [end["own"] for end in at_end],
        "factor": [end["factor"] for end in at_end],
        "transition": [transition(run) for run in runs],
        "above_unigram_last": [run["step"][run["loss"] > run["line.unigram"]].max() for run in runs],
        "unigram_closest": [len(rows) * every for rows in closest],
        "unigram_closest_last": [rows["step"].max() for rows in closest],
        "then_least_over_unigram": [(rows["loss"] / rows["line.unigram"]).min() for rows in closest],
        "then_largest_over_unigram": [(rows["loss"] / rows["line.unigram"])[1:].max() for rows in closest],
        "then_median_over_unigram": [(rows["loss"] / rows["line.unigram"]).median() for rows in closest],
        "then_least_distance": [rows["distance.unigram"].min() for rows in closest],
        "near_unigram": [every * ((run["loss"] / run["line.unigram"] - 1).abs() < NEAR).sum() for run in runs],
        "pair_first": [_first(run, run["early_pair"], _middle(run)) for run in runs],
        "position_first": [_first(run, run["early_position"], _middle(run)) for run in runs],
        "smallest_parity_bias": [run["parity_bias"][run["step"] >= ORDERED].min() for run in runs],
    }
    return {
        "trials": len(runs),
        **{name: spread(values) for name, values in numbers.items()},
        "v_2_then_v_4": int((margins > 0).all(axis=1).sum()),
        "least_margins": {str(name): round(float(values.min()), 5) for name, values in margins.items()},
        "parameters": {f"step {step}": _parameters(runs, step) for step in SHOWN if step <= runs[0]["step"].max()},
    }


def _first(run: pd.DataFrame, losses: pd.Series, level: float) -> float:
    """Return the first measured step at which losses are below a level, or NaN."""
    below = run["step"][losses < level]
    return float(below.iloc[0]) if len(below) else np.nan


def _middle(run: pd.DataFrame) -> float:
    return float(lines_of(run)["unigram"] + run["limit"].iloc[0]) / 2


def _margins(run: pd.DataFrame) -> dict[str, float]:
    """Return by how much v_2 is above v_4, and v_4 above the other four, at least, from step 100 on."""
    late = run[run["step"] >= ORDERED]
    others = late[["v_1", "v_3", "v_5", "v_6"]].max(axis=1)
    return {"v_2 - v_4": (late["v_2"] - late["v_4"]).min(), "v_4 - others": (late["v_4"] - others).min()}


def _parameters(runs: list[pd.DataFrame], step: int) -> dict[str, Any]:
    names = ["diagonal", "off_diagonal", "off_largest", *(f"v_{place}" for place in range(1, 7))]
    rows = pd.concat([run[run["step"] == step] for run in runs])
    return {name: spread(rows[name]) for name in names}


EXPERIMENT = Experiment(
    name="induction-minimal",
    shows="A model with two parameters learns pairs, the comparison of symbols before the look at the token before",
    source="figures 8.3 (bottom), 8.4b and E.7 (bottom)",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 2 minutes on 2 cores"),
        "paper": Scale(paper, trials=20, time="about 8 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)

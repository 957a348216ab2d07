"""The minimal model learns bigrams: what its two parameters do, and which of them is learned first.

The model is bilinear, so that either parameter is useless without the other. Which is learned first is measured by
transplants: W of a step with the final v, and v of a step with the final W, each pair rescaled by its best factor, so
that only directions count. Rescaling the model's own logits in the same way separates what it has not learned from
over- or underconfidence. Logits of this model are counts, so it ends above the loss of add-one bigrams: near that of
the best multiple of bigram counts, which is not quite a lower bound, since other coordinates of v help a little.

Transplants, factors and the limit of counts are our own measures.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from elegans.analysis import describe
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import GRAMS, GREY, LAYER_COLOURS, panel_legend, panels, shades, title_panels
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.induction_minimal_claims import CLAIMS
from elegans.studies.induction_heads.measures import parity_bias
from elegans.studies.induction_heads.plots import along, chain_losses, curves_of_trials, level, per_trial, trials_of
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import minimal
from elegans.studies.induction_heads.steps import CONSTANT
from elegans.studies.induction_heads.tables import curves, lines_of, measured, transition
from elegans.studies.induction_heads.theory.construction import best_linear_logits
from elegans.studies.induction_heads.theory.strategies import ngram_counts
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import Trial

MEASUREMENTS = 80
EXAMPLES = 1000
"""The number of held-out sequences on which losses are evaluated."""
COORDINATES = 10
"""The number of first coordinates of v that are shown."""
LIMIT = GREY
"""The colour of the best loss that bigram counts allow."""
NEAR = 0.1
"""How far, relatively, a network's loss may be from the unigram strategy's to count as equal."""
ORDERED = 100
"""The step from which the order of the first six coordinates of v is evaluated."""
SHOWN = (100, 500, 1000, 2000)
"""The steps at which findings state the parameters."""


def paper(trials: int) -> Sweep:
    """Return the same for twice as long, and from the theory's initialisation too: W = c 1 1^T, v = c 1."""
    starts: tuple[dict[str, Any], ...] = ({}, {"pair": CONSTANT, "position": CONSTANT})
    return Sweep.of((minimal(k, steps=4000, **start) for start in starts for k in (2, 3)), trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return losses and distances to strategies, and both parameters."""
    every = max(one.steps // MEASUREMENTS, 5)
    return ChainLosses(every=every, examples=EXAMPLES), ParameterTrajectory(every=every, names=("pair", "position"))


class MinimalHeldOut(NamedTuple):
    """Held-out sequences as the minimal model uses them at the last position.

    Args:
        counts: how often symbol i has symbol l at distance d before it, by sequence, i, l and d.
        last: the last token, one-hot.
        true: the true distribution of the next token.
        pairs: how often each symbol has followed the last one.
    """

    counts: Float[np.ndarray, "count k k length"]
    last: Float[np.ndarray, "count k"]
    true: Float[np.ndarray, "count k"]
    pairs: Float[np.ndarray, "count k"]

    def logits(self, pair: Any, position: Any) -> Float[np.ndarray, "count k"]:
        """Return the model's logits after the last token."""
        return np.asarray(np.einsum("cil,cl->ci", self.counts @ np.asarray(position, float), self.last @ pair))


def held_out(one: Trial) -> MinimalHeldOut:
    """Return the held-out sequences on which a trial's losses are evaluated."""
    task = one.task
    assert isinstance(task, MarkovChains)
    key, index = one.key("test"), np.arange(EXAMPLES, dtype=np.uint32)
    tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)[:, -1]
    symbols = np.eye(task.k)[tokens]
    apart = [np.einsum("cti,ctl->cil", symbols[:, d:], symbols[:, : task.length - d]) for d in range(task.length)]
    pairs = ngram_counts(tokens, task.k, 2)[:, -1].astype(float)
    return MinimalHeldOut(np.stack(apart, axis=3), symbols[:, -1], true, pairs)


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: losses and distances, both parameters, and transplants.

    Beside the columns of ``tables.curves``, whose ``cell`` names an initialisation other than W = 0: ``diagonal`` and
    ``off_diagonal``, the means of W's entries, ``diagonal_least``, the smallest one on the diagonal, and
    ``off_largest``, the largest absolute one off it; ``v_1``, …; ``parity_bias`` of v; ``own``, ``early_pair`` and
    ``early_position``, the losses of the model, of its W with the final v and of its v with the final W, each rescaled
    by its best factor; ``factor`` is the model's; NaN where W is 0. ``limit``, the same in all rows of a trial, is the
    loss of the best multiple of bigram counts.
    """
    trajectories: Any = measured(results, "parameter-trajectory").groupby("trial")
    parts = [_parameters_of(rows, held_out(results.trial(trial))) for trial, rows in trajectories]
    rows = curves(results).merge(pd.concat(parts), on=["trial", "step"])
    constant = rows["trial"].map(results.trials["model.pair"]) != 0
    return {"curves": rows.assign(cell=rows["cell"] + np.where(constant, ", constant start", ""))}


def _parameters_of(taken: pd.DataFrame, test: MinimalHeldOut) -> pd.DataFrame:
    """Return the columns that ``analyse`` adds to the curves of one trial."""
    pair, position = (np.stack(list(taken[name])).astype(float) for name in ("pair", "position"))
    inside = np.eye(pair.shape[1], dtype=bool)
    last = [-1] * len(pair)
    transplants = {"own": (pair, position), "early_pair": (pair, position[last])}
    transplants["early_position"] = pair[last], position
    best = {
        name: np.array([_best(test, *model) for model in zip(*models, strict=True)]).T
        for name, models in transplants.items()
    }
    return taken[["trial", "step"]].assign(
        diagonal=pair[:, inside].mean(axis=1),
        diagonal_least=pair[:, inside].min(axis=1),
        off_diagonal=pair[:, ~inside].mean(axis=1),
        off_largest=np.abs(pair[:, ~inside]).max(axis=1),
        **{f"v_{place + 1}": position[:, place] for place in range(COORDINATES)},
        parity_bias=parity_bias(position),
        limit=best_linear_logits(test.pairs, test.true).loss,
        factor=best["own"][0],
        **{name: losses for name, (_, losses) in best.items()},
    )


def _best(test: MinimalHeldOut, pair: np.ndarray, position: np.ndarray) -> tuple[float, float]:
    """Return the best factor for a model's logits, and the loss with it; NaN if all logits are 0."""
    if not (pair.any() and np.isfinite(pair).all() and np.isfinite(position).all()):
        return np.nan, np.nan
    logits = test.logits(pair, position)
    scale = float(np.abs(logits).max())
    best = best_linear_logits(logits / scale, test.true)
    return best.slope / scale, best.loss


def plot(tables: Tables) -> Figure:
    """Draw four panels of the first cell; faint curves are trials, strong ones medians.

    The loss, with the limit of counts; losses of transplants, each rescaled by its best factor; entries of W;
    coordinates of v. Source: thesis, figures 8.3 (bottom), 8.4b and E.7 (bottom).
    """
    cell, rows = next(iter(tables["curves"].groupby("cell", sort=False)))
    figure, axes = panels(2, 2, height=2.5)
    (losses, rescaled), (pair, position) = axes
    chain_losses(losses, rows)
    unigram, limit = per_trial(rows, "line.unigram"), per_trial(rows, "limit")
    curves_of_trials(rescaled, rows, "early_pair", LAYER_COLOURS[1], "W of the step, final v")
    curves_of_trials(rescaled, rows, "early_position", LAYER_COLOURS[0], "v of the step, final W")
    curves_of_trials(rescaled, rows, "own", "black", "both of the step")
    level(rescaled, unigram, GRAMS["unigram"], "unigram")
    for ax in (losses, rescaled):
        level(ax, limit, LIMIT, "best counts")
    rescaled.set(ylim=(0, 1.1 * unigram), ylabel="loss, rescaled (KL, nats)")
    curves_of_trials(pair, rows, "diagonal", LAYER_COLOURS[1], "diagonal")
    curves_of_trials(pair, rows, "off_diagonal", GREY, "off the diagonal")
    for places, style in (((2, 4, 6), "-"), ((1, 3, 5), (0, (3, 1.5)))):
        for place, colour in zip(places, shades(3), strict=True):
            curves_of_trials(position, rows, f"v_{place}", colour, f"$v_{place}$", style)
    for ax, name in ((pair, "mean entry of W"), (position, "coordinate $v_j$")):
        ax.axhline(0, color=GREY, linewidth=0.6)
        ax.set_ylabel(name)
    for ax, columns in ((rescaled, 2), (pair, 2), (position, 3)):
        along(ax, rows["sequences"].max())
        panel_legend(ax, columns)
    halves = ("W, by which symbols are compared", "v, by which distances are weighed")
    title_panels(axes, [f"{cell}: {trials_of(rows)}", "Loss with the other half learned", *halves])
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by cell, how close the model gets to unigrams and to bigrams, and its parameters.

    ``unigram_closest`` says for how many steps unigrams are the closest strategy, and ``then`` how far from them the
    model is: its loss relative to the strategy's, and its distance. ``near_unigram`` counts the steps at which the loss
    is within 10% of the strategy's. ``pair_first`` and ``position_first`` are when the transplants pass the midpoint of
    the unigram strategy's loss and the limit of counts.
    """
    groups = tables["curves"].groupby("cell", sort=False)
    return {str(cell): _of_cell([run for _, run in rows.groupby("seed")]) for cell, rows in groups}


def _of_cell(runs: list[pd.DataFrame]) -> dict[str, Any]:
    margins = pd.DataFrame([_margins(run) for run in runs])
    numbers = pd.DataFrame([_of_run(run) for run in runs])
    return {
        "trials": len(runs),
        **{str(name): describe(values) for name, values in numbers.items()},
        "v_2_then_v_4": int((margins > 0).all(axis=1).sum()),
        "least_margins": {str(name): round(float(values.min()), 5) for name, values in margins.items()},
        "parameters": {f"step {step}": _parameters(runs, step) for step in SHOWN if step <= runs[0]["step"].max()},
    }


def _of_run(run: pd.DataFrame) -> dict[str, float]:
    step, loss, end, lines = run["step"], run["loss"], run.iloc[-1], lines_of(run)
    over, closest, every = loss / run["line.unigram"], run["phase"] == "unigram", float(step.iloc[1])
    middle = (run["line.unigram"] + run["limit"]) / 2
    return {
        "line_unigram": lines["unigram"],
        "line_bigram": lines["bigram"],
        "limit": end["limit"],
        "loss": end["loss"],
        "lowest_loss": loss.min(),
        "lowest_at": step.iloc[loss.argmin()],
        "own": end["own"],
        "factor": end["factor"],
        "transition": transition(run),
        "above_unigram_last": step[over > 1].max(),
        "unigram_closest": closest.sum() * every,
        "unigram_closest_last": step[closest].max(),
        "then_least_over_unigram": over[closest].min(),
        "then_largest_over_unigram": over[closest][1:].max(),
        "then_median_over_unigram": over[closest].median(),
        "then_least_distance": run["distance.unigram"][closest].min(),
        "near_unigram": every * ((over - 1).abs() < NEAR).sum(),
        "pair_first": step[run["early_pair"] < middle].min(),
        "position_first": step[run["early_position"] < middle].min(),
        "smallest_parity_bias": run["parity_bias"][step >= ORDERED].min(),
    }


def _margins(run: pd.DataFrame) -> dict[str, float]:
    """Return by how much v_2 exceeds v_4, and v_4 the other four, at least, from step 100 on."""
    late = run[run["step"] >= ORDERED]
    others = late[["v_1", "v_3", "v_5", "v_6"]].max(axis=1)
    return {"v_2 - v_4": (late["v_2"] - late["v_4"]).min(), "v_4 - others": (late["v_4"] - others).min()}


def _parameters(runs: list[pd.DataFrame], step: int) -> dict[str, Any]:
    names = ["diagonal", "off_diagonal", "off_largest", *(f"v_{place}" for place in range(1, 7))]
    rows = pd.concat([run[run["step"] == step] for run in runs])
    return {name: describe(rows[name]) for name in names}


EXPERIMENT = Experiment(
    name="induction-minimal",
    shows="A model with two parameters learns bigrams: it compares symbols before it attends to the previous token",
    source="figures 8.3 (bottom), 8.4b and E.7 (bottom)",
    scales={
        "smoke": Scale(
            lambda trials: Sweep.of([minimal(2, 16, steps=100, batch_size=32, learning_rate=2e-2)], trials), trials=1
        ),
        # seeds differ only in their examples
        "laptop": Scale(lambda trials: Sweep.of((minimal(k, steps=2000) for k in (2, 3)), trials), trials=10),
        "paper": Scale(paper, trials=13),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)

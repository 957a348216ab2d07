"""The minimal model learns bigrams: what its two parameters do, and which of them is learned first.

The model is bilinear, so either parameter is useless without the other. Which is learned first is measured by
transplants: W of a step with the final v, and v of a step with the final W, each pair rescaled by its best factor, so
that only directions count. Rescaling the model's own logits in the same way separates what it has not learned from
over- or underconfidence. Logits of this model are counts, so it ends above the loss of add-one bigrams: near that of
the best multiple of bigram counts, which is not quite a lower bound, since other coordinates of v help a little.

Transplants, factors and the limit of counts are our own measures.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, combine
from elegans.plots.style import GRAMS, GREY, LAYER_COLOURS, panel_legend, panels, shades, title_figure, title_panels
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.measures import parity_bias
from elegans.studies.induction_heads.plots import (
    TRIALS,
    along,
    chain_losses,
    curves_of_trials,
    level,
    per_trial,
    trials_of,
)
from elegans.studies.induction_heads.predictors import EXAMPLES, best_multiple, minimal_held_out
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.rules import by_ratios, ends_of, first_at, most, near_best, runs_of
from elegans.studies.induction_heads.settings import minimal
from elegans.studies.induction_heads.steps import CONSTANT
from elegans.studies.induction_heads.tables import curves, describe_columns, lines_of, measured, transition
from elegans.studies.induction_heads.theory.construction import best_linear_logits
from elegans.sweeps import Sweep
from elegans.training import Trial

MEASUREMENTS = 80
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
    parts = [_parameters_of(rows, results.trial(trial)) for trial, rows in trajectories]
    rows = curves(results).merge(pd.concat(parts), on=["trial", "step"])
    constant = rows["trial"].map(results.trials["model.pair"]) != 0
    return {"curves": rows.assign(cell=rows["cell"] + np.where(constant, ", constant start", ""))}


def _parameters_of(taken: pd.DataFrame, one: Trial) -> pd.DataFrame:
    """Return the columns that ``analyse`` adds to the curves of one trial."""
    test = minimal_held_out(one)
    pair, position = (np.stack(list(taken[name])).astype(float) for name in ("pair", "position"))
    inside = np.eye(pair.shape[1], dtype=bool)
    last = [-1] * len(pair)
    transplants = {"own": (pair, position), "early_pair": (pair, position[last])}
    transplants["early_position"] = pair[last], position
    best = {
        name: np.array([best_multiple(test, *model) for model in zip(*models, strict=True)]).T
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


def plot(tables: Tables) -> Figure:
    """Draw losses, transplants and both parameters of the first cell; faint curves are trials, strong ones medians."""
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
    finding = "The minimal model learns to compare symbols first, and to weigh distances later"
    title_figure(figure, finding, f"Markov chains on k symbols; linear attention with parameters W and v; {TRIALS}")
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by cell, how close the model gets to unigrams and to bigrams, and its parameters.

    ``unigram_closest`` says for how many steps unigrams are the closest strategy, and ``then`` how far from them the
    model is: its loss relative to the strategy's, and its distance. ``near_unigram`` counts the steps at which the loss
    is within 10% of the strategy's. ``pair_first`` and ``position_first`` are when the transplants pass the midpoint of
    the unigram strategy's loss and the limit of counts.
    """
    return {str(cell): _of_cell(rows) for cell, rows in tables["curves"].groupby("cell", sort=False)}


def _of_cell(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run for _, run in rows.groupby("seed")]
    margins, numbers = (pd.DataFrame(map(numbers_of, runs)) for numbers_of in (_margins, _of_run))
    parameters = ["diagonal", "off_diagonal", "off_largest", *(f"v_{place}" for place in range(1, 7))]
    at = {step: rows.loc[rows["step"] == step, parameters] for step in SHOWN if step <= runs[0]["step"].max()}
    return {
        "trials": len(runs),
        **describe_columns(numbers),
        "v_2_then_v_4": int((margins > 0).all(axis=1).sum()),
        "least_margins": {str(name): round(float(values.min()), 5) for name, values in margins.items()},
        "parameters": {f"step {step}": describe_columns(then) for step, then in at.items()},
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


NEEDS = "13 seeds of two and three symbols, 4000 steps each"


def _cell(tables: Tables, cell: str) -> list[pd.DataFrame]:
    runs = runs_of(tables, NEEDS, trials=13, cell=cell)
    return runs if runs[0]["step"].max() >= 4000 else runs_of({}, NEEDS, trials=13)


@claim(
    id="induction/minimal-reaches-bigrams",
    statement="The minimal model, too, ends near the Bayes-optimal loss, which suggests that it implements bigrams.",
    source="sections 8.3.1 and 8.3.2, figure 8.3 (bottom)",
    setting="equation 8.8, SGD with learning rate 2e-3, batches of 64, 100 tokens, W = 0 and v constant; not stated: "
    "the constant (0.02), the steps (4000), k, whether the loss or the strategy is meant",
    rule="13 seeds, k = 2 and 3. (a) Bigrams are the closest strategy at the end. (b) The loss with the best factor "
    "closes 85% of the gap between unigrams and the best multiple of exact counts and is at most twice the loss of "
    "this multiple (our choice). (c) The loss itself lies as near to the loss of add-one bigrams. Each part must hold "
    "in most runs (sign test). Six parts share an error rate of 2%: 12 of 13 runs each",
    revised="Before, 10 of 13 runs were enough (an error rate of 4.6% each); the verdict was the same. Part (c) was "
    "dropped after seeing the tables, since exact counts with the best factor close only about 82% (k = 2) and 74% "
    "(k = 3) of the gap, at 2.5 times the loss; the claim then held. The source says of all models that they end "
    "near the Bayes-optimal loss, so (c) is judged again. The rule was changed after the tables had been seen; the "
    "claim holds in part, since no run meets (c), though runs close half of the gap.",
)
def reaches_bigrams(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 6
    for cell in ("k = 2", "k = 3"):
        runs = _cell(tables, cell)
        parts[f"the loss itself, {cell}"] = near_best("the final loss", ends_of(runs), level=level)
        closest = [run["phase"].iloc[-1] == "bigram" for run in runs]
        parts[f"closest strategy, {cell}"] = most("bigrams are closest at the end", closest, level=level)
        rescaled = ends_of(runs, loss="own", best="limit")
        parts[f"loss with the best factor, beside counts, {cell}"] = near_best(
            "the rescaled loss", rescaled, level=level
        )
    return combine(parts)


@claim(
    id="induction/minimal-parameters-as-in-figure",
    statement="While the minimal model already implements bigrams but has not converged, W is close to diagonal "
    "and v alternates: larger at even indices, v_2 largest, although the other even ones are useless.",
    source="figure 8.4b, section 8.3.2",
    setting="minimal model, k = 2; not stated: the step and the sizes",
    rule="13 seeds, k = 2 and 3, at the first check with a loss below the middle of unigrams and bigrams. The largest "
    "entry of W off the diagonal is at most a quarter of the least on it (our choice). v_2, v_4 and v_6 exceed both "
    "neighbours, and v_2 is the largest of v_1 to v_10. Each part must hold in most runs (sign test). Four parts share "
    "an error rate of 2%: 12 of 13 runs each",
    revised="Before, 10 of 13 runs were enough, with an error rate of 4.6% each. The verdict is the same.",
)
def parameters_at_the_transition(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 4
    for cell in ("k = 2", "k = 3"):
        runs = _cell(tables, cell)
        moved = {index: run[run["step"] == transition(run)] for index, run in enumerate(runs)}
        never = [run.tail(1).assign(diagonal_least=np.nan) for index, run in enumerate(runs) if moved[index].empty]
        there = pd.concat([*moved.values(), *never])
        diagonal = there["off_largest"] <= 0.25 * there["diagonal_least"]
        parts[f"W close to diagonal, {cell}"] = most(
            "entries off the diagonal are at most a quarter", diagonal, level=level
        )
        even = there[["v_2", "v_4", "v_6"]].to_numpy()
        odd = there[["v_1", "v_3", "v_5", "v_7"]].to_numpy()
        alternates = (even > odd[:, :-1]).all(axis=1) & (even > odd[:, 1:]).all(axis=1)
        places = there[[f"v_{place}" for place in range(1, 11)]].to_numpy()
        learned = there["diagonal_least"].notna().to_numpy()
        shown = alternates & (places.argmax(axis=1) == 1) & learned
        parts[f"v alternates, {cell}"] = most("v_2, v_4 and v_6 exceed their neighbours, v_2 all", shown, level=level)
    return combine(parts)


@claim(
    id="induction/second-layer-first-minimal",
    statement="In the minimal model the second layer, W, picks up the solution first and quickly; the positional "
    "weights follow.",
    source="section 8.3.2 (second layer first), end of E.1",
    setting="minimal model; not stated: any measure, and the start; both W = 0 (caption of figure 8.3) and W = c 1 "
    "1^T, v = c 1 (theory) are judged",
    rule="13 seeds, k = 2 and 3, both starts. We count the steps until W of a step with the final v, and v of a step "
    "with the final W, each rescaled, pass the middle of two losses: of unigrams and of the best multiple of counts. "
    "The second number over the first exceeds 3 in most runs (our choice; sign test). Four parts share an error rate "
    "of 2%: 12 of 13 runs each",
    revised="Before, ten runs above 1 (error rate 4.6%) and a 97.8% interval above 3 were enough. The verdict is the "
    "same.",
)
def pair_first(tables: Tables) -> Verdict:
    parts = {}
    for cell in ("k = 2", "k = 3", "k = 2, constant start", "k = 3, constant start"):
        ratios = []
        for run in _cell(tables, cell):
            middle = (run["line.unigram"] + run["limit"]) / 2
            first, second = (first_at(run, run[name] < middle) for name in ("early_pair", "early_position"))
            ratios.append(second / max(first, 1.0) if np.isfinite(first) else np.nan)
        parts[cell] = by_ratios("steps of v over those of W", ratios, above=3, level=LEVEL / 4)
    return combine(parts)


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
    claims=[reaches_bigrams, parameters_at_the_transition, pair_first],
)

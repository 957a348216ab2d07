"""The algorithm of Theorem 5.8: stochastic descent of disjoint PolyNets whose rates keep irrelevant weights bounded.

The theorem's own sizes can be run where blocks are small.

Source: thesis, chapter 5 and appendix B.2.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval
from elegans.calculators.domain import Form
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import LEVEL, by_share, decided, share_limits, table
from elegans.models import BernoulliInit, DisjointPolyNet
from elegans.plots.marks import band
from elegans.plots.style import COLOURS, figure_legend, panels, title_figure, title_panels
from elegans.probes import RelevantWeights, WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.rules import enough
from elegans.studies.hidden_progress.settings import AT_END, powers
from elegans.studies.hidden_progress.theory.disjoint import disjoint_error
from elegans.studies.hidden_progress.theory.theorem_5_8 import theorem58_parameters
from elegans.studies.hidden_progress.training import DisjointDescent
from elegans.sweeps import Sweep
from elegans.tasks import DisjointParity, Online
from elegans.training import Trial

EPSILON, DELTA = 0.1, 0.01
EVERY = 500
"""The number of steps between two measurements of the weights."""
KEPT = 300
"""About how many measurements of a run its table has."""
CELL = ["k", "block", "form"]
ENOUGH = enough(1 - DELTA, LEVEL)
"""The number of runs that, without a failure, show that more than 99% succeed."""
JUDGED = ((2, 3), (2, 5), (3, 3))
"""The (k, n') whose runs decide the claims."""


def trial(block: int, k: int, form: Form, steps: int | None = None) -> Trial:
    """Return the algorithm of Theorem 5.8 from signs with a positive product over the support, one example per step.

    Args:
        block: the number n' of signs in a block.
        k: the number of blocks.
        form: ``printed`` or ``corrected`` rates, and number of steps.
        steps: the number T of steps, or None for the theorem's at an error of 0.1 and a probability of 0.99.
    """
    total = theorem58_parameters(block, k, EPSILON, DELTA, form).steps if steps is None else steps
    return Trial(
        task=DisjointParity(n=block * k, k=k, support=tuple(range(0, block * k, block))),
        regime=Online(),
        model=DisjointPolyNet(degree=k, init=BernoulliInit(size=1.0), positive=True),
        training=DisjointDescent(
            steps=total, delta=DELTA, form=form, stopping=StoppingRule(error=0, examples=1024, every=AT_END, stop=False)
        ),
    )


def laptop(trials: int) -> Sweep:
    """Return the theorem's steps for two blocks of 3 and 5, and fewer for two blocks of 5 and three of 3."""
    whole = [trial(3, 2, "printed"), trial(3, 2, "corrected"), trial(5, 2, "printed")]
    fewer = [trial(5, 2, "printed", steps) for steps in powers(3, 5)]
    return Sweep.of([*whole, *fewer, trial(3, 3, "printed", 100_000)], trials)


def paper(trials: int) -> Sweep:
    """Return the theorem's steps up to two blocks of 10 and three of 3, both forms, and fewer."""
    sizes = ((3, 2), (5, 2), (10, 2), (3, 3))
    whole = [trial(block, k, "printed") for block, k in sizes]
    corrected = [trial(block, k, "corrected") for block, k in ((3, 2), (5, 2))]
    fewer = [trial(block, k, "printed", steps) for block, k in sizes for steps in powers(3, 6)]
    return Sweep.of([*whole, *corrected, *fewer], trials)


def part(trials: int) -> Sweep:
    """Return the theorem's steps, as printed, for two blocks of 3 and 5, and a tenth as often for three of 3."""
    pairs = Sweep.of([trial(block, 2, "printed") for block in (3, 5)], trials)
    return pairs + Sweep.of([trial(3, 3, "printed")], max(1, trials // 10))


def analyse(results: Results) -> Tables:
    """Return rows of each trial by step: weights, the theorem's bounds on them, and the exact final error.

    A trial has about 300 of its measurements. Among them are the last, which has the largest irrelevant weight of all
    measurements, and the one at which the relevant weights are closest to their bound or furthest below it. ``whole``
    says whether the training had the theorem's number of steps; ``slack`` is the most by which a weight can exceed the
    measured values between two measurements.
    """
    trials = results.trials.to_dict("index")
    last = results.measures["weight-trajectory"].groupby("trial")["weight"].last()
    weights = results.measures["relevant-weights"].groupby("trial")
    found = [_bounded(trials[trial], own, last[trial]) for trial, own in weights]
    return {"table": pd.concat(found, ignore_index=True)}


def _bounded(row: dict[Any, Any], measured: pd.DataFrame, last: np.ndarray) -> pd.DataFrame:
    k, total, form = row["task.k"], row["training.steps"], row["training.form"]
    block = row["task.n"] // k
    theorem = theorem58_parameters(block, k, EPSILON, DELTA, form)
    promised = replace(theorem, steps=total, log=math.log(2 * block * k * total / DELTA))
    largest_step = 1 / ((4 if form == "corrected" else 2) * math.sqrt(2 * total * promised.log))
    weights = pd.DataFrame(
        {
            "step": measured["step"],
            "relevant": measured["minimum"],
            "irrelevant": measured["irrelevant"].cummax(),
            "relevant_bound": [promised.relevant_bound(step) for step in measured["step"]],
        }
    )
    closest = int((weights["relevant"] - weights["relevant_bound"]).to_numpy()[1:].argmin()) + 1
    regular = range(0, len(weights), max(1, len(weights) // KEPT))
    return weights.iloc[sorted({*regular, closest, len(weights) - 1})].assign(
        k=k,
        block=block,
        form=form,
        steps=total,
        seed=row["seed"],
        whole=total == theorem.steps,
        needed=(theorem.alpha + 1) / 2,
        irrelevant_bound=theorem.largest_irrelevant,
        slack=EVERY * largest_step,
        error=float(disjoint_error(np.asarray(last, np.float64).reshape(k, block).tolist())),
    )


def plot(tables: Tables) -> Figure:
    """Draw the smallest relevant and the largest irrelevant weight during training, with the theorem's bounds.

    Weights come from trainings with the theorem's number of steps, or from all trainings where there are none: lines
    are medians over runs, bands reach from the smallest to the largest, dashed lines are bounds.
    """
    table = tables["table"]
    figure, ((left, right),) = panels(1, 2, height=2.9)
    shown = table[table["whole"]] if table["whole"].any() else table
    shares, runs = np.linspace(0, 1, 101), []
    for colour, ((k, block, form), rows) in zip(COLOURS, shown.groupby(CELL, sort=False), strict=False):
        networks = [own for _, own in rows.groupby("seed")]
        runs.append(len(networks))
        label = f"{k} blocks of {block} signs" + (", corrected rates" if form == "corrected" else "")
        for ax, name in ((left, "relevant"), (right, "irrelevant")):
            courses = [np.interp(shares, own["step"] / own["steps"], own[name]) for own in networks]
            low, middle, high = np.quantile(courses, (0, 0.5, 1), axis=0)
            band(ax, shares, middle, low, high, colour, label=label)
        bound = networks[0]["step"] / networks[0]["steps"], networks[0]["relevant_bound"]
        left.plot(*bound, color=colour, linewidth=0.9, linestyle="--")
    right.axhline(float(table["irrelevant_bound"].iloc[0]), color="black", linewidth=0.9, linestyle="--")
    left.plot([], [], color="black", linewidth=0.9, linestyle="--", label="the theorem's bounds")
    left.set(yscale="log", ylim=(0.4, 2 * shown["relevant"].max()))
    for ax, label in ((left, "smallest relevant weight"), (right, "largest irrelevant weight so far")):
        ax.set(ylabel=label, xlabel="share of all steps", xlim=(0, 1))
    title_panels((left, right), ("Relevant weights exceed their bound", "Irrelevant weights stay below theirs"))
    figure_legend(figure, left, columns=4)
    title_figure(
        figure,
        "The theorem's learning rates grow the relevant weights and bound the irrelevant ones",
        "Products of linear forms on disjoint parities, trained by the algorithm of Theorem 5.8 with one example per "
        f"step; {min(runs)} to {max(runs)} runs per size; lines: medians; bands: all runs",
    )
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each cell: final errors and weights, the largest irrelevant weight, and how often a bound failed."""
    found = {}
    for (k, block, form, steps), rows in tables["table"].groupby([*CELL, "steps"], sort=False):
        last = rows.groupby("seed").last()
        later = rows[rows["step"] > 0]
        below = later["relevant"] < later["relevant_bound"]
        errors = last["error"].to_numpy(float)
        found[f"k={k}, n'={block}, {form}, T={steps}"] = {
            "trials": len(last),
            "theorems_steps": bool(last["whole"].iloc[0]),
            "median_error": finite_or_none(median(errors), 4),
            "interval": [finite_or_none(end, 4) for end in median_interval(errors)],
            "largest_error": float(errors.max()),
            "least_relevant_at_end": round(float(last["relevant"].min()), 3),
            "needed": round(float(last["needed"].iloc[0]), 3),
            "largest_irrelevant": round(float(last["irrelevant"].max()), 3),
            "irrelevant_bound": float(last["irrelevant_bound"].iloc[0]),
            "slack_between_measurements": round(float(last["slack"].iloc[0]), 4),
            "below_relevant_bound": float(below.groupby(later["seed"]).any().mean()),
        }
    return found


@claim(
    id="progress/theorem-5.8",
    statement="With probability 0.99 and a suitable schedule, SGD on single examples of a disjoint PolyNet that starts "
    "from signs with a positive product has an error of at most epsilon after about n'^(2k - 1) log(1/epsilon) steps.",
    source="Theorem 5.8, main text and full statement, B.2.4",
    setting="correlation loss, T and learning rates as printed, for any batch size; the probability is 0.99 in the "
    "main text, whose weights are initially all ones, and 1 - delta times 1/2 in the full statement, where the half is "
    "for a positive product of signs",
    rule="The exact error after the printed T, with epsilon = 0.1, delta = 0.01 and B = 1, from signs with a positive "
    "product. The share of runs with an error of at most epsilon is above 0.99, by an exact limit at 2% over runs of "
    "k = 2, n' = 3, 5 and k = 3, n' = 3 together: 390 of 390 suffice (the 19 runs at k = 3 alone show 81%). Larger "
    "batches, which have less noise, and signs with a negative product are not run.",
    revised="The limit had an error rate of 5%, for which 299 of 299 suffice; at 2%, 390 are needed, and 315 of 315 "
    "runs had an error of at most epsilon. The claim held, was then undecided, and now holds: all 399 runs on new "
    "seeds have at most epsilon.",
)
def learns(tables: Tables) -> Verdict:
    last = _whole(tables, 1).groupby(["k", "block", "seed"]).last()
    right = int((last["error"] <= EPSILON).sum())
    share = by_share("runs with an error of at most 0.1", right, len(last), above=1 - DELTA)
    return replace(share, needs=f"{ENOUGH} runs, if all are right") if share.verdict == UNDECIDED else share


@claim(
    id="progress/claims-b11-b12",
    statement="Under the schedule of Theorem 5.8, with probability 1 - delta, no irrelevant weight exceeds 3/2, and "
    "every relevant weight stays above an explicit growing bound.",
    source="claims B.11 and B.12",
    setting="as Theorem 5.8; after t steps the bound of Claim B.12 is 1/2 + (3n' - 2)^(1 - k) sqrt(t / ln(nT/delta)) / "
    "(4 sqrt(2)), and its proof ends with (1 + (3n' - 2)^(1 - k) t / sqrt(2T ln(2nT/delta)))/2; the first is larger "
    "for t below about T/4",
    rule="At least 390 runs of the same cells, measured every 500 steps. The share in which every irrelevant weight "
    "stays within 3/2 and every relevant weight above both bounds is above 0.99, by an exact limit at 2%. What a "
    "weight can move between two measurements is added to irrelevant weights and subtracted from relevant ones. "
    "Tables have some 300 measurements of a run, and the one at which relevant weights are closest to the second "
    "bound; there its distance from the second bound must exceed the largest amount by which the first bound lies "
    "above the second. Fails if under 0.99 of the runs are without a violation at these measurements, by the other "
    "limit.",
    revised="The error rate is now 2% over both claims, not for each of them. The verdict is the same. The rule had "
    "the second bound alone, asked for 0.95 of 59 runs for each claim by itself, and subtracted nothing from relevant "
    "weights. The verdict is the same, on fresh seeds too; the 315 earlier runs, which held, are now too few. The "
    "rule was changed after the tables had been seen.",
)
def bounded(tables: Tables) -> Verdict:
    rows = _whole(tables, ENOUGH)
    rows = rows[rows["step"] > 0].reset_index(drop=True)
    size, steps = (3.0 * rows["block"] - 2) ** (1 - rows["k"]), rows["steps"]
    first = size / (4 * np.sqrt(2 * np.log(rows["k"] * rows["block"] * steps / DELTA)))  # times sqrt(t)
    second = size / (2 * np.sqrt(2 * steps * np.log(2 * rows["k"] * rows["block"] * steps / DELTA)))  # times t
    higher = first**2 / (4 * second)  # the largest value of first sqrt(t) - second t
    distance = rows["relevant"] - rows["relevant_bound"]
    largest, above = rows["irrelevant_bound"], rows["relevant"] >= 0.5 + first * np.sqrt(rows["step"])
    rows["sure"] = (rows["irrelevant"] + rows["slack"] <= largest) & (distance - rows["slack"] >= higher)
    rows["kept"] = (rows["irrelevant"] <= largest) & (distance >= 0) & above
    runs = rows.groupby(["k", "block", "seed"])[["sure", "kept"]].all()
    sure, kept = int(runs["sure"].sum()), int(runs["kept"].sum())
    low, high = share_limits(sure, len(runs), LEVEL)[0], share_limits(kept, len(runs), LEVEL)[1]
    because = (
        f"{sure} of {len(runs)} runs are within all bounds at every step (at least {low:.4g}), {kept} where measured"
    )
    numbers = {"sure": sure, "kept": kept, "trials": len(runs), "at_least": low, "at_most": high}
    return decided(low > 1 - DELTA, high < 1 - DELTA, because, numbers, LEVEL, f"{ENOUGH} runs, if all are within")


def _whole(tables: Tables, least: int) -> pd.DataFrame:
    needs = f"{least} runs with the printed steps over k = 2, n' = 3, 5 and k = 3, n' = 3"
    rows = table(tables, "table", needs, whole=True, form="printed")
    rows = rows[[(k, block) in JUDGED for k, block in zip(rows["k"], rows["block"], strict=True)]]
    if len(rows[["k", "block"]].drop_duplicates()) < len(JUDGED) or len(rows.groupby(["k", "block", "seed"])) < least:
        raise InsufficientData(needs)
    return rows


EXPERIMENT = Experiment(
    name="theorem-5.8",
    shows="With the theorem's learning rates relevant weights grow while irrelevant ones stay bounded",
    source="Theorem 5.8",
    scales={
        "smoke": Scale(lambda trials: Sweep.of([trial(3, 2, "printed", 10_000)], trials), trials=2),
        "laptop": Scale(laptop, trials=8),
        "part": Scale(part, trials=190, part="the theorem's own steps where blocks are small, as printed, many runs"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=[RelevantWeights(every=EVERY), WeightTrajectory(every=AT_END)],
    claims=[learns, bounded],
)

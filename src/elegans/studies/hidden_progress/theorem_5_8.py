"""The algorithms of Theorems 5.5 and 5.8, run at sizes far below those that they ask for.

Theorem 5.5: one large step of a two-layer network of signs, then its readout. Theorem 5.8: stochastic descent of
disjoint PolyNets with rates that keep irrelevant weights in bounds. The theorems' own sizes cannot be run for the
first (n of at least 2^11 k^4) and can for the second where blocks are small.

Source: thesis, chapter 5 and appendix B.2.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval
from elegans.calculators.domain import Form
from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, BernoulliInit, DisjointPolyNet
from elegans.plots import figure_of
from elegans.probes import Probe, RelevantWeights, WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.disjoint import DisjointDescent
from elegans.studies.hidden_progress.plot_theorems import disjoint_descents, feature_steps
from elegans.studies.hidden_progress.sign_network import SignNetwork, SignNetworkInit
from elegans.studies.hidden_progress.tables import finite
from elegans.studies.hidden_progress.theory.disjoint import disjoint_error
from elegans.studies.hidden_progress.theory.theorem58 import theorem58_parameters
from elegans.sweeps import Sweep, grid
from elegans.tasks import DisjointParity, Online, Sample, SparseParity
from elegans.training import FeatureSelection, FreshDescent, Trial

AT_END = 2**31
"""A period that only the end of a training, and its beginning, fall on."""
WIDTHS = {2: 64, 4: 256}
"""Neurons by k: the order of what the theorem asks for, 46 and 564 at a loss of 1/4."""
RATE = 0.1
"""The readout's learning rate where it is not the theorem's, which is made for 10^10 steps and more."""
FEATURE_CELL = ("task.n", "task.k", "batch", "rate")
EPSILON, DELTA = 0.1, 0.01
LOOK = 500
"""How many steps lie between two looks at the weights of Theorem 5.8."""


def feature_trial(n: int, k: int, batch: int | None, steps: int, rate: float | None = RATE) -> Trial:
    """Return the algorithm of Theorem 5.5 on the (n, k)-parity.

    Args:
        n: the number of signs, odd.
        k: the size of the parity, even.
        batch: the number of examples of the first step, or None for its exact gradient.
        steps: the number of steps in all.
        rate: the readout's learning rate, or None for the theorem's.
    """
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online() if batch is None else Sample(batch),
        model=MLP(width=WIDTHS[k], init=SignNetworkInit()),
        training=SignNetwork(
            gradient="population" if batch is None else "sample",
            readout=FreshDescent(learning_rate=rate),
            steps=steps,
            stopping=StoppingRule(error=0, examples=4000, every=AT_END, stop=False),
        ),
    )


def cells(bases: Iterable[Trial], trials: int) -> Sweep:
    """Return a sweep of several cells in order."""
    return Sweep(tuple(chain.from_iterable(grid(base, {}, seeds=trials).parts for base in bases)))


def _powers(first: int, last: int) -> list[int]:
    return [10**power for power in range(first, last + 1)]


def feature_smoke(trials: int) -> Sweep:
    """Return (15, 2) with exact gradients and with a first batch of 10000."""
    return cells([feature_trial(15, 2, batch, 1001) for batch in (None, 10_000)], trials)


def feature_laptop(trials: int) -> Sweep:
    """Return exact gradients up to n = 63, and first batches of up to a million."""
    batches = {(15, 2): _powers(2, 4), (31, 2): _powers(2, 5), (21, 4): _powers(4, 6), (31, 4): _powers(5, 6)}
    return _features((15, 31, 63), (15, 21, 31, 63), batches, 2001, trials)


def feature_paper(trials: int) -> Sweep:
    """Return exact gradients up to n = 255, and first batches of up to a hundred million."""
    batches = {(15, 2): _powers(2, 5), (31, 2): _powers(2, 6), (63, 2): _powers(2, 6)}
    batches |= {(21, 4): _powers(4, 7), (31, 4): _powers(5, 8), (63, 4): _powers(6, 8)}
    return _features((15, 31, 63, 127, 255), (15, 21, 31, 63, 127, 255), batches, 20_001, trials)


def _features(
    pairs: Sequence[int], fours: Sequence[int], batches: dict[tuple[int, int], list[int]], steps: int, trials: int
) -> Sweep:
    exact = [feature_trial(n, k, None, steps) for k, sizes in ((2, pairs), (4, fours)) for n in sizes]
    printed = [feature_trial(n, 2, None, steps, rate=None) for n in pairs]
    sampled = [feature_trial(n, k, batch, steps) for (n, k), sizes in batches.items() for batch in sizes]
    return cells([*exact, *printed, *sampled], trials)


def feature_probes(one: Trial) -> tuple[Probe, ...]:
    """Return what the step has made of the neurons, and the hinge loss, at the end."""
    return (FeatureSelection(every=AT_END, examples=4000),)


def feature_analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell: median error, hinge loss and weights, errors with their order-statistic intervals.

    ``batch`` is that of the first step, NaN for an exact gradient; ``rate`` is ``given`` or ``theorem``; ``good``
    counts pairs of neurons with one sign on all of the support.
    """
    rows = pd.DataFrame([_feature_row(row) for row in trials.to_dict("records")])
    found = []
    for key, group in rows.groupby(list(FEATURE_CELL), sort=False, dropna=False):
        errors = group["test_error"].to_numpy(float)
        low, high = median_interval(errors)
        middle = {name: float(group[name].median()) for name in ("hinge", "good", "on_support", "off_support")}
        stated = {"trials": len(group), "error": median(errors), "error_low": low, "error_high": high, **middle}
        found.append({**dict(zip(FEATURE_CELL, key, strict=True)), **stated})
    return pd.DataFrame(found)


def _feature_row(row: dict[Any, Any]) -> dict[str, Any]:
    measured = row["outcome"].measures["feature-selection"]
    given = row["outcome"].trial.training.readout.learning_rate
    return {
        **{name: row[name] for name in ("task.n", "task.k", "test_error")},
        "batch": float(row["regime.size"]) if row["training.gradient"] == "sample" else np.nan,
        "rate": "theorem" if given is None else "given",
        **{name: measured[name][-1] for name in ("hinge", "good", "on_support", "off_support")},
    }


def feature_plot(table: pd.DataFrame) -> Figure:
    """Draw errors against the size of the first batch, and against n with exact gradients."""
    return figure_of(feature_steps(table))


def feature_findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each cell: the error with its interval, the hinge loss, and weights on and off the support."""
    found = {}
    for row in table.to_dict("records"):
        first = "exact gradient" if math.isnan(row["batch"]) else f"first batch {row['batch']:.0f}"
        name = f"({row['task.n']}, {row['task.k']}), {first}" + (", theorem's rate" if row["rate"] == "theorem" else "")
        found[name] = {
            "trials": row["trials"],
            "error": finite(row["error"]),
            "interval": [finite(row["error_low"]), finite(row["error_high"])],
            **{name: round(row[name], 4) for name in ("hinge", "good", "on_support", "off_support")},
        }
    return found


THEOREM_55 = Experiment(
    name="theorem-5.5",
    shows="One step of a network of signs finds the support where the first batch is large, then the readout fits",
    source="Theorem 5.5",
    scales={
        "smoke": Scale(feature_smoke, trials=2, time="about 3 seconds"),
        "laptop": Scale(feature_laptop, trials=6, time="about a minute on 2 cores"),
        "paper": Scale(feature_paper, trials=25, time="about a day on 2 cores"),
    },
    analysis=feature_analysis,
    plot=feature_plot,
    findings=feature_findings,
    probes=feature_probes,
    outcomes=True,
)


def descent_trial(block: int, k: int, form: Form, steps: int | None = None) -> Trial:
    """Return the algorithm of Theorem 5.8 from signs with a positive product over the support, one example a step.

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


def descent_smoke(trials: int) -> Sweep:
    """Return two blocks of 3 with 10^4 steps."""
    return cells([descent_trial(3, 2, "printed", 10_000)], trials)


def descent_laptop(trials: int) -> Sweep:
    """Return the theorem's steps for two blocks of 3 and 5, and fewer for two blocks of 5 and three of 3."""
    whole = [descent_trial(3, 2, "printed"), descent_trial(3, 2, "corrected"), descent_trial(5, 2, "printed")]
    fewer = [descent_trial(5, 2, "printed", steps) for steps in _powers(3, 5)]
    return cells([*whole, *fewer, descent_trial(3, 3, "printed", 100_000)], trials)


def descent_paper(trials: int) -> Sweep:
    """Return the theorem's steps up to two blocks of 10 and three of 3, both forms, and fewer."""
    sizes = ((3, 2), (5, 2), (10, 2), (3, 3))
    whole = [descent_trial(block, k, "printed") for block, k in sizes]
    corrected = [descent_trial(block, k, "corrected") for block, k in ((3, 2), (5, 2))]
    fewer = [descent_trial(block, k, "printed", steps) for block, k in sizes for steps in _powers(3, 6)]
    return cells([*whole, *corrected, *fewer], trials)


def descent_probes(one: Trial) -> tuple[Probe, ...]:
    """Return the least relevant and the largest irrelevant weight along the way, and all weights at the end."""
    return RelevantWeights(every=LOOK), WeightTrajectory(every=AT_END)


def descent_analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: weights, the theorem's bounds on them, and the trial's exact final error.

    ``whole`` says whether the training had the theorem's number of steps; ``slack`` is the most by which a weight may
    exceed what was seen, between two looks at it.
    """
    return pd.concat([_descent(row) for row in trials.to_dict("records")], ignore_index=True)


def _descent(row: dict[Any, Any]) -> pd.DataFrame:
    outcome, k, total, form = row["outcome"], row["task.k"], row["training.steps"], row["training.form"]
    block = row["task.n"] // k
    theorem = theorem58_parameters(block, k, EPSILON, DELTA, form)
    promised = replace(theorem, steps=total, log=math.log(2 * block * k * total / DELTA))
    measured = outcome.measures["relevant-weights"]
    last = np.array(outcome.measures["weight-trajectory"]["weight"][-1], np.float64).reshape(k, block)
    largest_step = 1 / ((4 if form == "corrected" else 2) * math.sqrt(2 * total * promised.log))
    return pd.DataFrame(
        {
            "step": measured["step"],
            "relevant": measured["minimum"],
            "irrelevant": np.maximum.accumulate(measured["irrelevant"]),
            "relevant_bound": [promised.relevant_bound(step) for step in measured["step"]],
        }
    ).assign(
        k=k,
        block=block,
        form=form,
        steps=total,
        seed=row["seed"],
        whole=total == theorem.steps,
        needed=(theorem.alpha + 1) / 2,
        irrelevant_bound=theorem.largest_irrelevant,
        slack=LOOK * largest_step,
        error=float(disjoint_error(last.tolist())),
    )


def descent_plot(table: pd.DataFrame) -> Figure:
    """Draw relevant and irrelevant weights with the theorem's bounds, and final errors."""
    return figure_of(disjoint_descents(table))


def descent_findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each cell: final errors and weights, the largest irrelevant weight, and how often a bound failed."""
    found = {}
    for (k, block, form, steps), rows in table.groupby(["k", "block", "form", "steps"], sort=False):
        last = rows.groupby("seed").last()
        later = rows[rows["step"] > 0]
        errors = last["error"].to_numpy(float)
        found[f"k={k}, n'={block}, {form}, T={steps}"] = {
            "trials": len(last),
            "theorems_steps": bool(last["whole"].iloc[0]),
            "median_error": finite(median(errors)),
            "interval": [finite(end) for end in median_interval(errors)],
            "largest_error": float(errors.max()),
            "least_relevant_at_end": round(float(last["relevant"].min()), 3),
            "needed": round(float(last["needed"].iloc[0]), 3),
            "largest_irrelevant": round(float(last["irrelevant"].max()), 3),
            "irrelevant_bound": float(last["irrelevant_bound"].iloc[0]),
            "slack_between_looks": round(float(last["slack"].iloc[0]), 4),
            "below_relevant_bound": float((later["relevant"] < later["relevant_bound"]).mean()),
        }
    return found


THEOREM_58 = Experiment(
    name="theorem-5.8",
    shows="With the theorem's rates irrelevant weights stay in bounds while relevant ones grow, one example a step",
    source="Theorem 5.8",
    scales={
        "smoke": Scale(descent_smoke, trials=2, time="about 10 seconds"),
        "laptop": Scale(descent_laptop, trials=8, time="about a minute on 2 cores"),
        "paper": Scale(descent_paper, trials=25, time="about 30 minutes on 2 cores"),
    },
    analysis=descent_analysis,
    plot=descent_plot,
    findings=descent_findings,
    probes=descent_probes,
    outcomes=True,
)

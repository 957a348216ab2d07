"""Rotation-invariant learners on too few examples of the XOR: all fail, where a search over pairs of signs succeeds.

A rotation-invariant learner cannot exploit that the hidden directions are coordinates, and so needs at least about d /
log(d)^2 examples; a search over pairs, which is not invariant, needs a few times log d.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, InsufficientData, Line, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, UNDECIDED
from elegans.experiments.rules import LEVEL, table
from elegans.learners.kernel import KernelRidge
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, percent
from elegans.studies.xor_two_phases.settings import trial
from elegans.studies.xor_two_phases.theory.phases import xor_sample_rates
from elegans.sweeps import Sweep
from elegans.tasks import XOR, Sample
from elegans.training import Trial
from elegans.training.states import FINISHED

CLAIMED = 0.03
DIMENSIONS = (128, 512, 2048)
LEARNERS = {"mlp": "SGD on both layers, many passes", "kernel-ridge:ntk": "tangent kernel"}
SEARCH = "search over pairs"


def learners(dimensions: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return both learners on d / log(d)^2 and on d / 4 examples."""
    cells: list[Trial] = []
    for n in dimensions:
        for count in (_few(n), n // 4):
            network = trial(XOR(n=n), width=128, batch_size=count, steps=steps, every=steps)
            cells.append(network.replace("regime", Sample(count)))
            cells.append(Trial(task=XOR(n=n), regime=Sample(count), model=KernelRidge()))
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def _few(n: int) -> int:
    return math.floor(xor_sample_rates(n).invariant)


def analyse(results: Results) -> Tables:
    """Return one row per trial: ``learner``, ``task.n``, ``examples``, ``few`` (within the bound) and ``error``.

    The search over pairs, with 3 log2(d) examples, is computed too.
    """
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    rows: list[dict[str, Any]] = []
    for row in ended.to_dict("records"):
        n, count = int(row["task.n"]), int(row["regime.size"])
        own = {"learner": LEARNERS[row["model"]], "task.n": n, "seed": row["seed"], "examples": count}
        rows.append({**own, "few": count == _few(n), "error": float(row["test_error"])})
    for n, seed in sorted({(row["task.n"], row["seed"]) for row in rows}):
        count = math.ceil(3 * math.log2(n))
        own = {"learner": SEARCH, "task.n": n, "seed": seed, "examples": count, "few": count <= _few(n)}
        rows.append({**own, "error": searched(n, count, seed)})
    return {"table": pd.DataFrame(rows)}


def searched(n: int, count: int, seed: int) -> float:
    """Return the error of the first pair of signs consistent with all examples: 0 for the hidden one, else 1/2."""
    generator = np.random.default_rng([n, seed])
    x = (2 * generator.integers(0, 2, (count, n)) - 1).astype(np.float32)
    first, second = generator.choice(n, 2, replace=False)
    agreeing = np.argwhere(np.triu((x * (-x[:, [first]] * x[:, [second]])).T @ -x == count, 1))
    return 0.0 if set(agreeing[0]) == {first, second} else 0.5


def plot(tables: Tables) -> Figure:
    """Draw the errors of all trials against the dimension; filled dots have no more examples than the bound allows."""
    rows = tables["table"]
    figure, axes = panels(1, 1, height=2.9, width=5.0)
    ax = axes[0, 0]
    for place, (learner, own) in enumerate(rows.groupby("learner", sort=False)):
        for few, face in ((True, COLOURS[place]), (False, "none")):
            part = own[own["few"] == few]
            shift = 1 + 0.06 * (place - 1)
            label = str(learner) if few or not own["few"].any() else None
            ax.plot(
                shift * part["task.n"], part["error"], "o", color=COLOURS[place], mfc=face, markersize=3, label=label
            )
    ax.axhline(CLAIMED, color=GREY, linewidth=0.8, linestyle=":", label="error that the bound rules out")
    ax.set_xscale("log", base=2)
    ax.set_ylim(-0.02, 0.62)
    ax.set(xlabel="dimension d", ylabel="held-out error")
    percent(ax)
    figure_legend(figure, ax, columns=2)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return the mean error with its range for each learner, dimension and number of examples."""
    found = {}
    for (learner, n, count), rows in tables["table"].groupby(["learner", "task.n", "examples"], sort=False):
        error = rows["error"]
        ends = [finite_or_none(value, 3) for value in (error.min(), error.mean(), error.max())]
        found[f"{learner}, d = {n}, {count} examples"] = ends
    return found


@claim(
    id="xor/rotation-lower-bound",
    statement="A rotation-invariant algorithm with at most d/log(d)^2 examples errs on at least 3% of the inputs.",
    source="Proposition F.1; introduction (footnote)",
    setting="d large enough; the base of the logarithm is open (e here); 0.0375 (1 - o(1)) in the proof",
    rule="5 trials or more each of SGD over many passes and of the tangent kernel with floor(d/log(d)^2) examples, d = "
    "128, 512, 2048: all lower limits of mean errors at least 0.03 (t, Bonferroni, 5% in all). A bound on all "
    "algorithms cannot be confirmed by runs: it holds for the learners tried. A search over pairs, which is not "
    "invariant, is shown for comparison.",
)
def errs(tables: Tables) -> Verdict:
    """Decide by the lower limits of the mean errors of both learners at the bound's number of examples."""
    from scipy.stats import t

    needs = "5 trials of both learners at d = 128, 512 and 2048"
    rows = table(tables, "table", needs, learner=list(LEARNERS.values()), few=True, task__n=list(DIMENSIONS))
    cells = {f"{name}, d = {n}": own["error"].to_numpy() for (name, n), own in rows.groupby(["learner", "task.n"])}
    if len(cells) < 2 * len(DIMENSIONS) or min(map(len, cells.values())) < 5:
        raise InsufficientData(needs)
    ends = {}
    for name, errors in cells.items():
        half = float(t.ppf(1 - LEVEL / len(cells), len(errors) - 1) * errors.std(ddof=1) / math.sqrt(len(errors)))
        ends[name] = [float(errors.mean()) - half, float(errors.mean()) + half]
    least, most = min(low for low, _ in ends.values()), min(high for _, high in ends.values())
    because = (
        f"the least lower limit of a mean error is {least:.3g}, for the learners tried; claimed: at least {CLAIMED}"
    )
    if least >= CLAIMED:
        return Verdict(HOLDS, because, {"limits": ends}, LEVEL)
    failed = most < CLAIMED
    return Verdict(FAILS if failed else UNDECIDED, because, {"limits": ends}, LEVEL, "" if failed else "more trials")


def lines(_: Mapping[str, Any]) -> list[Line]:
    """Return up to how many examples a rotation-invariant algorithm fails, against the dimension."""
    dimensions = 2 ** np.arange(4, 14)
    sizes = np.array([xor_sample_rates(int(d)).invariant for d in dimensions])
    label = "Proposition F.1: d/log²(d) examples, constant 1"
    return [Line(label, {"task.n": dimensions.astype(float), "regime.size": sizes})]


EXPERIMENT = Experiment(
    name="xor-few-examples",
    shows="With d / log(d)^2 examples of the XOR no rotation-invariant learner does better than chance",
    source="Proposition F.1, no figure",
    scales={
        "smoke": Scale(lambda trials: learners((64,), 100, trials), trials=1),
        "laptop": Scale(lambda trials: learners(DIMENSIONS[:2], 500, trials), trials=5),
        "paper": Scale(
            lambda trials: learners(DIMENSIONS, 1000, trials),
            trials=20,
            part="the source has no experiment: laboratory sizes",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=[errs],
    lines={("regime.size", "task.n"): lines},
)

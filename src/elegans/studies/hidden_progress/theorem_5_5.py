"""The algorithm of Theorem 5.5: one large step of a network of sign neurons, then its readout.

It is run at sizes far below the theorem's (n of at least 2^11 k^4), which are out of reach.

Source: thesis, chapter 5 and appendix B.2.1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval
from elegans.experiments import Experiment, Line, Option, Results, Scale, Tables, parts
from elegans.models import MLP
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, panel_legend, panels, percent, title_figure, title_panels
from elegans.probes import HeldOutLoss, Probe
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress import theorem_5_5_claims as claims
from elegans.studies.hidden_progress.plots import trials_of
from elegans.studies.hidden_progress.settings import AT_END, powers
from elegans.studies.hidden_progress.tables import ends
from elegans.studies.hidden_progress.theory.theorem_5_5 import theorem55_orders, theorem55_parameters
from elegans.studies.hidden_progress.training import SignNetwork, SignNetworkInit
from elegans.sweeps import Sweep
from elegans.tasks import Online, Sample, SparseParity
from elegans.training import FeatureSelection, FreshDescent, Trial

WIDTHS = {2: 64, 4: 256}
"""Neurons by k: of the order that the theorem requires, 46 and 564 at a loss of 1/4."""
RATE = 0.1
"""The readout's learning rate where it is not the theorem's, which is meant for 10^10 steps and more."""
CELL = ["task.n", "task.k", "batch", "rate"]
MEASURED = ["hinge", "good", "on_support", "off_support"]


ONE_STEP, READOUT = 2, {2: 101, 4: 1001}
"""The number of steps of trials in which only the first step matters, and by k the number of steps of trials whose
readout is followed every step, at k = 4 every ten."""
FEW = 6
"""Trials per cell of the figure, apart from the claims' trials."""


def trial(n: int, k: int, batch: int | None, steps: int, rate: float | None = RATE, width: int | None = None) -> Trial:
    """Return the algorithm of Theorem 5.5 on the (n, k)-parity.

    Args:
        n: the number of signs, odd.
        k: the size of the parity, even.
        batch: the number of examples of the first step, or None for its exact gradient.
        steps: the number of steps in all.
        rate: the readout's learning rate, or None for the theorem's.
        width: the number of neurons, by default as in ``WIDTHS``.
    """
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online() if batch is None else Sample(batch),
        model=MLP(width=width or WIDTHS[k], init=SignNetworkInit()),
        training=SignNetwork(
            gradient="population" if batch is None else "sample",
            readout=FreshDescent(learning_rate=rate),
            steps=steps,
            stopping=StoppingRule(error=0, examples=4000, every=AT_END, stop=False),
        ),
    )


def features(
    pairs: Sequence[int], fours: Sequence[int], batches: dict[tuple[int, int], list[int]], steps: int, trials: int
) -> Sweep:
    """Return exact first gradients for k = 2 (also with the theorem's learning rate) and 4, and batches by (n, k)."""
    exact = [trial(n, k, None, steps) for k, sizes in ((2, pairs), (4, fours)) for n in sizes]
    printed = [trial(n, 2, None, steps, rate=None) for n in pairs]
    sampled = [trial(n, k, batch, steps) for (n, k), sizes in batches.items() for batch in sizes]
    return Sweep.of([*exact, *printed, *sampled], trials)


def laptop(trials: int) -> Sweep:
    """Return exact gradients up to n = 63, and first batches of up to a million."""
    batches = {(15, 2): powers(2, 4), (31, 2): powers(2, 5), (21, 4): powers(4, 6), (31, 4): powers(5, 6)}
    return features((15, 31, 63), (15, 21, 31, 63), batches, 2001, trials)


def paper(trials: int) -> Sweep:
    """Return exact gradients up to n = 255, and first batches of up to a hundred million."""
    batches = {(15, 2): powers(2, 5), (31, 2): powers(2, 6), (63, 2): powers(2, 6)}
    batches |= {(21, 4): powers(4, 7), (31, 4): powers(5, 8), (63, 4): powers(6, 8)}
    shown = features((15, 31, 63, 127, 255), (15, 21, 31, 63, 127, 255), batches, 20_001, min(trials, 25))
    return shown + claimed((*claims.SIZES, claims.SMALLER), 20_001, trials)


def part(trials: int) -> Sweep:
    """Return what the claims require except (63, 4), whose batch is a hundred million, and the laptop's figure."""
    return laptop(FEW) + claimed([size for size in (*claims.SIZES, claims.SMALLER) if size != (63, 4)], 5001, trials)


def claimed(sizes: Sequence[tuple[int, int]], steps: int, trials: int) -> Sweep:
    """Return the printed width and batch at some sizes (n, k), single steps, and readouts followed step by step."""
    printed = [printed_trial(n, k, steps) for n, k in sizes]
    batches = {(n, k): math.ceil(n**k * math.log(n)) for n, k in claims.EMERGE}
    steps_alone = [trial(n, k, size // share, ONE_STEP) for (n, k), size in batches.items() for share in (1, 4)]
    parts = ((printed, claims.LOSSES), (steps_alone, claims.SUPPORTS))
    one, two = (Sweep.of(cells, min(trials, seeds)) for cells, seeds in parts)
    return one + two + readouts({2: claims.PAIRS}, trials)


def readouts(sizes: Mapping[int, Sequence[int]], trials: int) -> Sweep:
    """Return readouts after an exact first step, by k and n, at several learning rates."""
    cells = [trial(n, k, None, READOUT[k], rate) for k, ns in sizes.items() for n in ns for rate in claims.RATES]
    return Sweep.of(cells, min(trials, claims.STEPS))


def losses_alone(experiment: Experiment) -> Experiment:
    """Return only the networks whose smallest loss the theorem bounds."""
    shown = features((15,), (), {}, 1001, 2)

    def sweep(sizes: Sequence[tuple[int, int]], steps: int, trials: int) -> Sweep:
        return shown + Sweep.of([printed_trial(n, k, steps) for n, k in sizes], trials)

    pairs = [(n, k) for n, k in claims.SIZES if k == 2]
    sweeps = {
        "smoke": (pairs[:1], 401, 1),
        "laptop": (pairs, 5001, 5),
        "part": (claims.SIZES, 5001, claims.LOSSES),
        "paper": (claims.SIZES, 20_001, claims.LOSSES),
    }
    scales = {
        name: Scale(partial(sweep, sizes, steps), trials=trials, part="the networks whose loss the theorem bounds")
        for name, (sizes, steps, trials) in sweeps.items()
    }
    return replace(experiment, scales=scales)


def readouts_alone(experiment: Experiment) -> Experiment:
    """Return only the steps that its readouts take, at k = 2 and 4."""
    shown = features((15, 31), (), {}, 1001, 2)
    fewest, whole = {2: (15, 31)}, {2: claims.PAIRS, 4: claims.FOURS}
    sweeps = {
        "smoke": (fewest, 1),
        "laptop": (fewest, 5),
        "part": (whole, claims.STEPS),
        "paper": (whole, claims.STEPS),
    }
    scales = {
        name: Scale(
            partial(lambda sizes, trials: shown + readouts(sizes, trials), sizes),
            trials=trials,
            part="the steps that readouts take, at k = 2 and 4",
        )
        for name, (sizes, trials) in sweeps.items()
    }
    return replace(experiment, scales=scales)


def printed_trial(n: int, k: int, steps: int) -> Trial:
    """Return the algorithm with the printed width, made even, and the first batch of the main text's statement."""
    width = theorem55_parameters(n, k, claims.EPSILON, "printed").width
    return trial(n, k, math.ceil(theorem55_orders(n, k, claims.EPSILON).batch), steps, width=width + width % 2)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the first step's result, the final hinge loss, and the loss curve where a claim needs it."""
    assert isinstance(one.model, MLP) and isinstance(one.task, SparseParity)
    ends = FeatureSelection(every=AT_END, examples=4000)
    part, k = part_of(one.steps, one.model.width, one.task.k), one.task.k
    every = {"readout": 1 if k == 2 else 10, "printed": 200}.get(part)
    return (ends,) if every is None else (ends, HeldOutLoss(every=every))


def part_of(steps: int, width: int, k: int) -> str:
    """Return which part of the sweep a trial belongs to: ``one step``, ``readout``, ``printed`` or ``shown``."""
    if steps in (ONE_STEP, READOUT[k]):
        return "one step" if steps == ONE_STEP else "readout"
    return "shown" if width == WIDTHS[k] else "printed"


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per cell of the figure, and ``runs``, one row per trial that a claim needs.

    ``table`` has the median error, hinge loss and weights, errors with their order-statistic intervals. ``batch`` is
    the first step's batch size, NaN for an exact gradient; ``rate`` is ``given`` or ``theorem``; ``good`` counts pairs
    of neurons with one sign on all of the support. ``runs`` has the ``part`` that the trial belongs to (``one step``,
    ``readout`` or ``printed``), ``ranked``, whether the first step's largest weights are on the support, and where the
    loss is measured along the way ``least_hinge`` and ``reached``, the readout's steps to a loss of 0.1.
    """
    trials = results.trials
    measured = results.measures["feature-selection"].groupby("trial")[[*MEASURED, "ranked"]].last()
    batch = trials.get("regime.size", pd.Series(np.nan, trials.index)).astype(float)
    rows = (
        trials[["task.n", "task.k", "test_error"]]
        .join(measured)
        .assign(
            batch=batch.where(trials["training.gradient"] == "sample"),
            rate=np.where(trials["training.readout.learning_rate"].isna(), "theorem", "given"),
        )
    )
    described = trials[["training.steps", "model.width", "task.k"]].astype(int)
    part = pd.Series([part_of(*row) for row in described.itertuples(index=False)], trials.index)
    tables = {"table": _cells(rows[part == "shown"])}
    if (part == "shown").all():
        return tables
    rows = rows.assign(
        part=part, steps=trials["training.steps"], learning_rate=trials["training.readout.learning_rate"]
    )
    losses = results.measures["test-loss"]
    reached = losses[losses["hinge"] <= claims.EPSILON].groupby("trial")["step"].min() - 1  # the readout's steps alone
    least = losses.groupby("trial")["hinge"].min()
    runs = rows[part != "shown"].join(pd.DataFrame({"least_hinge": least, "reached": reached}))
    columns = ["n", "k", "part", "batch", "learning_rate", "steps", "ranked", "least_hinge", "reached"]
    return tables | {"runs": runs.rename(columns={"task.n": "n", "task.k": "k"})[columns].reset_index(drop=True)}


def _cells(rows: pd.DataFrame) -> pd.DataFrame:
    cells = []
    for key, group in rows.groupby(CELL, sort=False, dropna=False):
        errors = group["test_error"].to_numpy(float)
        low, high = median_interval(errors)
        columns = {"trials": len(group), "error": median(errors), "error_low": low, "error_high": high}
        cells.append({**dict(zip(CELL, key, strict=True)), **columns, **group[MEASURED].median()})
    return pd.DataFrame(cells)


def plot(tables: Tables) -> Figure:
    """Draw the error after first step and readout, against the first batch size, and against n for exact gradients."""
    table = tables["table"]
    figure, drawn = panels(1, 2, height=3.1)
    left, right = drawn[0]
    given = table[table["rate"] == "given"]
    for place, ((n, k), rows) in enumerate(given.dropna(subset=["batch"]).groupby(["task.n", "task.k"], sort=False)):
        _with_intervals(left, rows.sort_values("batch"), "batch", place, f"({n}, {k})")
    exact = table[table["batch"].isna()]
    for place, ((rate, k), rows) in enumerate(exact.groupby(["rate", "task.k"], sort=False)):
        label = f"k = {k}" + (", theorem's rate" if rate == "theorem" else "")
        _with_intervals(right, rows.sort_values("task.n"), "task.n", place, label)
    left.set(xlabel="examples in the first step", ylabel="error on held-out examples")
    right.set_xlabel("number of signs n")
    for ax in (left, right):
        ax.set(xscale="log", ylim=(-0.015, 0.55))
        percent(ax)
        panel_legend(ax, 4, columnspacing=1)
    sizes = sorted(exact["task.n"].unique())
    right.set_xticks(sizes, [f"{size}" for size in sizes])
    right.minorticks_off()
    title_panels((left, right), ("First step on a batch of examples", "First step on the exact gradient"))
    title_figure(
        figure,
        "Larger first batches, and larger n, leave less error after one step and a trained readout",
        f"(n, k) parities, sign networks of Theorem 5.5; {trials_of(table)} per point; intervals: 95% of the median",
    )
    return figure


def _with_intervals(ax: Axes, rows: pd.DataFrame, x: str, place: int, label: str) -> None:
    """Draw the errors of one series, moved aside a little by its place among the series."""
    ends = rows["error_low"], np.minimum(rows["error_high"], 1)
    beside = rows[x] * 1.03 ** (place if x == "task.n" else 2 * place)
    estimates(ax, beside, rows["error"], *ends, COLOURS[place], fmt="os^D"[place % 4] + "-", label=label)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each cell: the median error with its interval, the hinge loss, and the result of the first step."""
    found = {}
    for row in tables["table"].to_dict("records"):
        first = "exact gradient" if np.isnan(row["batch"]) else f"first batch {row['batch']:.0f}"
        name = f"({row['task.n']}, {row['task.k']}), {first}" + (", theorem's rate" if row["rate"] == "theorem" else "")
        found[name] = {
            "trials": row["trials"],
            "error": finite_or_none(row["error"], 4),
            "interval": ends(row, "error"),
            **{quantity: round(row[quantity], 4) for quantity in MEASURED},
        }
    return found


def lines(columns: Mapping[str, Any]) -> list[Line]:
    """Return the order of the first batch that the theorem asks for, against n."""
    k = int(columns["task.k"])
    sizes = range(k + 1, 513, 2)
    batches = np.array([theorem55_orders(n, k, claims.EPSILON).batch for n in sizes])
    label = f"Theorem 5.5: n^k ln(n/ε) examples, k = {k}, ε = {claims.EPSILON:g}"
    return [Line(label, {"task.n": np.array(sizes, float), "regime.size": batches})]


EXPERIMENT = Experiment(
    name="theorem-5.5",
    shows="One step on a large batch finds the support, and the readout then fits the parity",
    source="Theorem 5.5",
    scales={
        "smoke": Scale(
            lambda trials: Sweep.of([trial(15, 2, batch, 1001) for batch in (None, 10_000)], trials), trials=2
        ),
        "laptop": Scale(laptop, trials=6),
        "part": Scale(
            part, trials=claims.SUPPORTS, part="the claims' cells but (63, 4), whose first batch is 10^8 examples"
        ),
        "paper": Scale(paper, trials=claims.SUPPORTS),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=claims.CLAIMS,
    options={
        "parts": Option(
            "all, or readouts: only the steps that readouts take; or losses: only the losses that the theorem bounds",
            parts(readouts=readouts_alone, losses=losses_alone),
        )
    },
    lines={("regime.size", "task.n"): lines},
)

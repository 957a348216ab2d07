"""How the time to learn a parity from noisy labels grows with n: exponents against those of exhaustive search.

The statistical-query bound is for constant noise, and so a quarter of the labels are flipped here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elegans.analysis import finite_or_none, scaling_exponent
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim, summary_by
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_interval, combine, table
from elegans.studies.hidden_progress.noisy_parity import SOLVED
from elegans.studies.hidden_progress.plots import power_laws
from elegans.studies.hidden_progress.rules import times_by
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import ends, fits, identified, labels, timed
from elegans.sweeps import Sweep

FLIPPED = 0.25
NETWORKS = {"ii": 0.1, "xv": 0.05}
"""The configurations and their learning rates."""
SIZES, DEGREES, TRIALS = (10, 14, 20, 28, 40, 60), (2, 3, 4), 50
ENOUGH = 4
"""The smallest number of sizes of a line."""
NEAR = 0.5, 1.5
"""Exponents divided by k that count as near those of exhaustive search (our choice)."""
KEYS = ("configuration", "network", "task.k", "task.n")
LINE = ("configuration", "task.k")
DRAWN = {"x": "task.n", "label": "number of signs n", "curve": "task.k", "panel": "network"}


def lines(sizes: Sequence[int], degrees: Sequence[int], trials: int, steps: int = 100_000) -> Sweep:
    """Return both networks at every n and k, small n first."""
    cells = [
        configuration(name, n, k, learning_rate=rate, steps=steps)
        .replace("task.noise", FLIPPED)
        .replace("training.stopping", SOLVED)
        for n in sizes
        for k in degrees
        for name, rate in NETWORKS.items()
    ]
    return Sweep.of(cells, trials)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per network, k and n, and ``times``, one row per trial."""
    trials = identified(results.trials)
    found = timed(trials, KEYS).merge(fits(trials, LINE, "task.n"), on=list(LINE), how="left")
    return {"table": found, "times": trials[["configuration", "task.k", "task.n", "seed", "solved_at"]]}


def findings(tables: Tables) -> dict[str, Any]:
    """Return each line's exponent with its interval."""
    return summary_by(
        tables["table"],
        LINE,
        "({}), k = {}",
        exponent=lambda rows: finite_or_none(rows["exponent"].iloc[0], 4),
        interval=lambda rows: ends(rows.iloc[0], "exponent"),
    )


@claim(
    id="progress/near-sq-limit",
    statement="The number of steps nearly matches the statistical-query lower bound n^Omega(k), that is the time "
    "of exhaustive search over k-subsets, far from 2^Omega(n).",
    source="abstract; sections 5.1, 5.1.1 and 5.6",
    setting="none: nearly is not quantified, the bound is for constant noise, and the experiments have none",
    rule="Undecidable as worded, since a step makes many queries and constants are free. What is judged is the "
    "exponent in n of the examples until 99% accuracy with a quarter of the labels flipped, B = 32, (ii) and (xv), n "
    "= 10 to 60, k = 2, 3, 4, 50 trials per point: near is an exponent over k between 0.5 and 1.5 (our choice), by "
    "bootstrap intervals at a joint level of 2%; it fails above 1.5. A smaller exponent at these sizes contradicts no "
    "bound, which is asymptotic, and decides nothing.",
    revised="Exponents below half of k counted as failures to be near, at small sizes, although the statement is "
    "asymptotic. They now decide nothing. The claim was and is undecided.",
)
def near_search(tables: Tables) -> Verdict:
    level = LEVEL / (len(NETWORKS) * len(DEGREES))
    parts = {}
    for name in NETWORKS:
        for k in DEGREES:
            needs = f"{TRIALS} trials of ({name}) at k = {k}, n = 10 to 60"
            rows = table(tables, "times", needs, configuration=name, task__k=k)
            times = times_by(rows, "task.n")
            if not set(SIZES) <= set(times) or min(map(len, times.values())) < TRIALS:
                raise InsufficientData(needs)
            known = {n: sample for n, sample in times.items() if np.isfinite(np.median(sample))}
            at_least(ENOUGH, known, f"longer trainings of ({name}) at k = {k}: {len(known)} sizes have a finite median")
            law = scaling_exponent(known, generator=np.random.default_rng(0), resamples=5000, confidence=1 - level)
            near: dict[str, Any] = {"above": NEAR[0], "below": NEAR[1], "error_rate": level}
            interval = law.low / k, law.high / k
            near_k = by_interval("exponent / k", law.exponent / k, interval, **near)
            if interval[1] < NEAR[0]:
                near_k = near_k.but(UNDECIDED, needs="larger n")
            parts[f"({name}), k = {k}"] = near_k
    return combine(parts)


EXPERIMENT = Experiment(
    name="noisy-scaling",
    shows="With a quarter of the labels flipped the time to learn a parity is still a power of n",
    source="sections 5.1 and 5.6",
    scales={
        "smoke": Scale(lambda trials: lines((10, 14, 20), (2,), trials, steps=5000), trials=5),
        "laptop": Scale(lambda trials: lines(SIZES[:5], (2, 3), trials), trials=25),
        "paper": Scale(lambda trials: lines(SIZES, DEGREES, trials, steps=400_000), trials=50),
    },
    analyse=analyse,
    labels=labels,
    plot=lambda tables: power_laws(tables["table"], **DRAWN),
    findings=findings,
    claims=[near_search],
)

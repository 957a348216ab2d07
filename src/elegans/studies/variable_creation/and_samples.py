"""How many examples a conjunction of three bits takes a transformer: a threshold that grows slowly with their number.

A trial draws a support and a sample that leaves no other, and has several starts: where training does not come to more
than 99% of held-out labels, it is begun anew on the same sample. The threshold is the smallest sample at which enough
trials succeed. Beside it stand what any learner needs, log2 C(T, 3) examples in bits, and how many examples single out
the support in as many of the samples that are drawn at first.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import growth, threshold, threshold_draws, wilson
from elegans.errors import ExperimentError
from elegans.experiments.base import Experiment, Option, Scale
from elegans.plots import figure_of
from elegans.studies.variable_creation.plots import sample_thresholds
from elegans.studies.variable_creation.settings import conjunction
from elegans.studies.variable_creation.theory.samples import identifying_samples
from elegans.sweeps import Sweep, grid
from elegans.tasks import IdentifiableSample, SparseBoolean
from elegans.training.outcome import FINISHED

LEVEL = 0.8
"""The share of trials that must succeed at a threshold."""
THESIS = {300: 70}
"""The one threshold that the thesis puts a number to."""
PAPER_BITS = (*range(100, 801, 50), 900, 1000, 1100)
PAPER_SIZES = tuple(range(50, 201, 10))
DRAWS, LARGEST = 200, 64
"""Of the identifiability curve: how many samples, and how far each is followed."""
SEED = 0
"""Of the bootstraps: the same trials have the same intervals."""


def thresholds(bits: Sequence[int], sizes: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return the first starts of all trials, few bits first, so that a run cut short has the beginning of the curve.

    Args:
        bits: the numbers of bits, the thesis' T.
        sizes: the numbers of examples, its m.
        steps: how many steps a start has.
        trials: how many trials a cell.
    """
    parts = [grid(conjunction(n, size, steps=steps), {}, seeds=trials) for n in bits for size in sizes]
    return Sweep(tuple(part for sweep in parts for part in sweep.parts))


def smoke(trials: int) -> Sweep:
    """Return 20 bits, with too few examples and with enough."""
    return thresholds((20,), (20, 60), 200, trials)


def laptop(trials: int) -> Sweep:
    """Return up to 300 bits and half of the published steps."""
    return thresholds((20, 50, 100, 200, 300), (20, 30, 40, 50, 60, 70, 80, 90, 100, 120), 500, trials)


def paper(trials: int) -> Sweep:
    """Return the published grid: 18 numbers of bits, 16 of examples."""
    return thresholds(PAPER_BITS, PAPER_SIZES, 1000, trials)


def further(sweep: Sweep, trials: pd.DataFrame, count: int) -> Sweep:
    """Return one more start of every trial that none has solved so far."""
    ended = trials[trials["state"].isin(FINISHED)]
    unsolved = {
        key: len(starts)
        for key, starts in ended.groupby(["task.n", "regime.size", "seed"])
        if starts["solved_at"].isna().all()
    }
    parts: list[Any] = []
    for cell in (cell for cell in sweep.cells if cell.restart == 0):
        due: dict[int, list[int]] = {}
        for seed in range(count):
            if starts := unsolved.get((cell.task.input_size, cell.columns()["regime.size"], seed)):
                due.setdefault(starts, []).append(seed)
        for starts, seeds in due.items():
            parts += grid(cell.replace("restart", starts), {}, seeds=seeds).parts
    return Sweep(tuple(parts))


def analysis(trials: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Return rows of four ``part``s.

    ``cell``, a row for each number of bits ``n`` and of examples ``m``: of ``trials`` those ``solved`` by some start,
    their ``rate`` with a Wilson interval, how many were at the ``first`` start, how many have ``starts`` left to be
    made, the median ``steps`` of the starts that solved, and how many samples were ``rejected`` on the average.
    ``threshold``, a row a number of bits: the ``threshold`` with the 95% percentile interval of its bootstrap (infinity
    where the level is not reached), ``information``, log2 C(n, 3), and ``identified``, after how many examples as large
    a share of samples single out the support. ``identified``: their ``rate`` at each number ``m``. ``fit``: how
    thresholds grow (see ``elegans.analysis.growth``), where all are finite and there are three at least.
    """
    ended = trials[trials["state"].isin(FINISHED)]
    most = int(ended["restart"].max()) + 1
    cells = pd.DataFrame([_cell(rows, most) for _, rows in ended.groupby(["task.n", "regime.size"])])
    bits = sorted(set(cells["n"]))
    drawn = {n: _draws(cells[cells["n"] == n], level) for n in bits}
    found = pd.DataFrame([_threshold(cells[cells["n"] == n], drawn[n], level) for n in bits])
    parts = [cells.assign(part="cell"), found.assign(part="threshold"), *map(_identified, bits)]
    if len(bits) >= 3 and np.isfinite(found["threshold"]).all():
        parts.append(_fit(bits, found["threshold"].to_numpy(float), np.array([drawn[n] for n in bits]).T))
    return pd.concat(parts, ignore_index=True).assign(level=level)


def _cell(rows: pd.DataFrame, most: int) -> dict[str, Any]:
    n, size = int(rows["task.n"].iloc[0]), int(rows["regime.size"].iloc[0])
    starts = rows.groupby("seed")
    solved = starts["solved_at"].count() > 0
    count, hits = len(solved), int(solved.sum())
    low, high = wilson(hits, count)
    task, regime = conjunction(n, size).task, IdentifiableSample(size=size)
    return {
        "n": n,
        "m": size,
        "trials": count,
        "solved": hits,
        "rate": hits / count,
        "low": low,
        "high": high,
        "first": int(rows.loc[rows["restart"] == 0, "solved_at"].notna().sum()),
        "starts_left": int((~solved & (starts.size() < most)).sum()),
        "steps": float(rows["solved_at"].astype(float).median()),
        "rejected": float(np.mean([regime.rejected(task, int(seed)) for seed in solved.index])),
    }


def _draws(cells: pd.DataFrame, level: float) -> np.ndarray:
    """Return the bootstrap samples of one threshold."""
    generator = np.random.default_rng(SEED)
    return threshold_draws(*_counts(cells), generator=generator, level=level)


def _counts(cells: pd.DataFrame) -> tuple[list[int], list[int], list[int]]:
    """Return the numbers of examples, of trials that succeed with each, and of trials."""
    return cells["m"].tolist(), cells["solved"].tolist(), cells["trials"].tolist()


def _threshold(cells: pd.DataFrame, drawn: np.ndarray, level: float) -> dict[str, Any]:
    n = int(cells["n"].iloc[0])
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return {
        "n": n,
        "threshold": float(threshold(*_counts(cells), level)),
        "threshold_low": float(low),
        "threshold_high": float(high),
        "information": _task(n).information,
        "identified": float(np.quantile(_identifying(n), level, method="inverted_cdf")),
    }


def _identified(n: int) -> pd.DataFrame:
    sizes = np.arange(5, LARGEST + 1)
    rate = (_identifying(n)[:, None] <= sizes).mean(axis=0)
    return pd.DataFrame({"part": "identified", "n": n, "m": sizes, "rate": rate})


@lru_cache(maxsize=64)
def _identifying(n: int) -> np.ndarray:
    return identifying_samples(_task(n), DRAWS, LARGEST, SEED)


def _task(n: int) -> SparseBoolean:
    task = conjunction(n).task
    assert isinstance(task, SparseBoolean)
    return task


def _fit(bits: Sequence[int], thresholds: np.ndarray, drawn: np.ndarray) -> pd.DataFrame:
    """Return how thresholds grow, with 95% percentile intervals over bootstrap samples that reach the level at all."""
    finite = np.isfinite(drawn).all(axis=1)
    (best,) = growth(bits, thresholds)
    again = pd.DataFrame(growth(bits, drawn[finite]))
    low, high = again.quantile(0.025), again.quantile(0.975)
    columns: dict[str, Any] = {**best._asdict(), "undefined": int((~finite).sum())}
    for name in ("slope", "power"):
        columns |= {f"{name}_low": low[name], f"{name}_high": high[name]}
    return pd.DataFrame([{"part": "fit", **columns}])


def plot(table: pd.DataFrame) -> Figure:
    """Draw success against examples, and thresholds against bits."""
    return figure_of(sample_thresholds(table, THESIS))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return thresholds with intervals beside what any learner needs, and how they grow.

    ``by_doubling`` is what the logarithm's fit adds to the threshold for twice as many bits, with its interval;
    ``growth`` is the threshold of the most bits over that of the fewest, and ``bits`` that of their numbers.
    """
    rows = table[table["part"] == "threshold"]
    found: dict[str, Any] = {"level": float(table["level"].iloc[0]), "thresholds": {}}
    for row in rows.to_dict("records"):
        found["thresholds"][str(int(row["n"]))] = {
            "threshold": _number(row["threshold"]),
            "interval": [_number(row["threshold_low"]), _number(row["threshold_high"])],
            "over_identified": _number(row["threshold"] / row["identified"]),
            "over_information": _number(row["threshold"] / row["information"]),
            **({"thesis": THESIS[int(row["n"])]} if int(row["n"]) in THESIS else {}),
        }
    cells = table[table["part"] == "cell"]
    found["starts_left"] = int(cells["starts_left"].sum())
    found["solved_at_first_start"] = f"{int(cells['first'].sum())} of {int(cells['solved'].sum())}"
    for row in table[table["part"] == "fit"].to_dict("records"):
        ends = rows["threshold"].iloc[[0, -1]].to_numpy(float)
        found |= {
            "growth": _number(ends[1] / ends[0]),
            "bits": _number(rows["n"].iloc[-1] / rows["n"].iloc[0]),
            "by_doubling": _number(row["slope"] * np.log(2)),
            "by_doubling_interval": [_number(row[f"slope_{end}"] * np.log(2)) for end in ("low", "high")],
            "power": _number(row["power"]),
            "power_interval": [_number(row["power_low"]), _number(row["power_high"])],
            "residual": {
                "logarithm": _number(row["residual"]),
                "power": _number(row["power_residual"]),
                "line": _number(row["linear_residual"]),
            },
            "undefined": int(row["undefined"]),
        }
    return found


def _number(value: float) -> float | None:
    return round(float(value), 2) if np.isfinite(value) else None


def with_level(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with another share of trials that must succeed at a threshold."""
    return replace(experiment, analysis=partial(analysis, level=_share("level", value)))


def with_accuracy(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with another accuracy on held-out examples that counts as success."""
    error = 1 - _share("accuracy", value)

    def trained(scale: Scale, trials: int) -> Sweep:
        parts = scale.sweep(trials).parts
        return Sweep(tuple((cell.replace("training.stopping.error", error), seeds) for cell, seeds in parts))

    scales = {name: replace(scale, sweep=partial(trained, scale)) for name, scale in experiment.scales.items()}
    return replace(experiment, scales=scales)


def _share(name: str, value: Any) -> float:
    try:
        share = float(value)
    except ValueError:
        share = np.nan
    if not 0 < share <= 1:
        raise ExperimentError(f"{name} must lie above 0 and at most at 1: {name}={value!r}")
    return share


EXPERIMENT = Experiment(
    name="and-samples",
    shows="A transformer learns a conjunction of 3 of T bits from a number of examples that grows slowly with T",
    source="figure 4.2 and appendix A.3.1",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=20, time="about 20 minutes on 2 cores with AVX-512", rounds=2),
        "paper": Scale(paper, trials=40, time="about 3 days on 2 cores with AVX-512", rounds=4),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    further=further,
    partial=True,
    options={
        "level": Option("SHARE  the share of trials that must succeed at a threshold (0.8)", with_level),
        "accuracy": Option("SHARE  the accuracy on 10^4 held-out examples that is success (0.9901)", with_accuracy),
    },
)

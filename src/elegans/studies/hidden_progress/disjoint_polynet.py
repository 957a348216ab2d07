"""Disjoint PolyNets on disjoint parities: descent whose whole course is known, beside what theory says of it.

Populations descend along gradient flow, whose relevant weights have closed forms and bounds; errors are exact at any
weights. From signs the time on the plateau is known too: almost all of it, the more so the larger k and the blocks.
Stochastic descent on one example a step follows the same course with noise.

Source: thesis, chapter 5, section 5.4.2, and appendix B.1 (figure B.1, which names neither n nor k).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.models import BernoulliInit, DisjointPolyNet, GaussianInit, Init
from elegans.plots import figure_of
from elegans.probes import Probe, WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.disjoint import DisjointFlow
from elegans.studies.hidden_progress.plot_disjoint import disjoint_courses
from elegans.studies.hidden_progress.tables import finite
from elegans.studies.hidden_progress.theory.disjoint import disjoint_error, plateau_level, plateau_ratio
from elegans.studies.hidden_progress.theory.gradient_flow import flow_growth_bounds, flow_time, relevant_flow
from elegans.sweeps import Sweep, grid
from elegans.tasks import DisjointParity, Online
from elegans.training import SGD, Trial

CHANCE = 0.49
"""The error at which the plateau ends."""
POINTS = 200
"""About how many measurements of a course are looked at: exact errors cost milliseconds."""
SMALL = 1e-4
"""How much of the flow's time a step of population descent takes."""
LOOK = 200
"""How many of its steps lie between two looks at the weights."""
QUARTER = 0.25
"""The error at which the times of runs and flow are compared."""
NEVER = StoppingRule(error=0, examples=256, every=2**31, stop=False)
ONCE = StoppingRule(error=0, examples=1024, every=LOOK)


def trial(block: int, k: int, init: Init, training: Any) -> Trial:
    """Return a training of a disjoint PolyNet whose relevant weights begin with a positive product.

    Args:
        block: the number n' of signs in a block.
        k: the number of blocks.
        init: the law of the weights.
        training: how it learns.
    """
    support = tuple(range(0, block * k, block))
    return Trial(
        task=DisjointParity(n=block * k, k=k, support=support),
        regime=Online(),
        model=DisjointPolyNet(degree=k, init=init, positive=True),
        training=training,
    )


def courses(block: int, k: int, rate: float, duration: float, trials: int) -> Sweep:
    """Return population descent and stochastic descent from the same normal weights.

    Args:
        block: the number n' of signs in a block.
        k: the number of blocks.
        rate: the learning rate of stochastic descent.
        duration: the longest time, in units of the flow.
        trials: how many of each.
    """
    normal = GaussianInit(std=1.0)
    population = DisjointFlow(learning_rate=SMALL, steps=round(duration / SMALL), stopping=ONCE)
    steps = round(duration / rate)
    stochastic = SGD(learning_rate=rate, batch_size=1, loss="correlation", steps=steps, stopping=ONCE)
    parts = [grid(trial(block, k, normal, training), {}, seeds=trials).parts for training in (population, stochastic)]
    return Sweep((*parts[0], *parts[1]))


def plateaus(blocks: Sequence[int], degrees: Sequence[int], step: float, trials: int) -> Sweep:
    """Return population descents from signs, which end where the weights explode.

    Args:
        blocks: the numbers n' of signs in a block.
        degrees: the numbers k of blocks.
        step: how much of the time to the explosion a step takes.
        trials: how many of each; all are alike but for signs.
    """
    parts: list[Any] = []
    for k in degrees:
        training = DisjointFlow(learning_rate=step / (k - 2), steps=round(2 / step), stopping=NEVER)
        for block in blocks:
            parts += grid(trial(block, k, BernoulliInit(size=1.0), training), {}, seeds=trials).parts
    return Sweep(tuple(parts))


def smoke(trials: int) -> Sweep:
    """Return blocks of 6, and the plateau of blocks of 25."""
    return courses(6, 3, 1e-3, 2.0, trials) + plateaus((25,), (3,), 3e-4, trials)


def laptop(trials: int) -> Sweep:
    """Return three blocks of 10, and the plateaus of three to five blocks of 25 to 400."""
    return courses(10, 3, 1e-4, 4.0, trials) + plateaus((25, 100, 400), (3, 4, 5), 3e-5, trials)


def paper(trials: int) -> Sweep:
    """Return three and four blocks of 16, and the plateaus of three to six blocks of 25 to 1600."""
    longer = courses(16, 3, 5e-5, 6.0, trials) + courses(16, 4, 1e-5, 6.0, trials)
    return longer + plateaus((25, 100, 400, 1600), (3, 4, 5, 6), 3e-6, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the weights along the way."""
    return (WeightTrajectory(every=LOOK),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step, and for plateaus a row a trial, in three ``part``s.

    Rows of ``population`` and ``sgd`` have the ``time`` of the flow, the exact ``error`` at the weights, the
    ``flow_error`` at those of the flow, the ``growth`` of the first relevant weight's square with its bounds
    ``growth_low`` and ``growth_high``, ``spread``, by how much the other squares' growth differs, and
    ``flow_quarter``, the flow's time to an error of 25%. Rows of ``plateau`` have the ``share`` of the time to the
    explosion at which the error is last at least 0.49, and theory's ``exact_share``.
    """
    return pd.concat([_rows(row) for row in trials.to_dict("records")], ignore_index=True)


def _rows(row: dict[Any, Any]) -> pd.DataFrame:
    outcome = row["outcome"]
    k, block, rate = row["task.k"], row["task.n"] // row["task.k"], row["training.learning_rate"]
    measured = outcome.measures["weight-trajectory"]
    time = np.array(measured["step"]) * rate
    weights = np.array(measured["weight"], np.float64).reshape(len(time), k, block)
    if row["model.init"] == "bernoulli":
        part, found = "plateau", _plateau(time, weights, outcome.steps * rate)
    else:
        some = slice(None, None, max(1, len(time) // POINTS))
        part, found = "population" if row["training"] == "disjoint-flow" else "sgd", _course(time[some], weights[some])
    return found.assign(part=part, k=k, block=block, seed=row["seed"])


def _course(time: np.ndarray, weights: np.ndarray) -> pd.DataFrame:
    start = weights[0, :, 0].tolist()
    end = 0.999 * flow_time(start)
    flow_error = np.zeros(len(time))
    flow_error[time < end] = _flow_errors(weights[0], time[time < end])
    whole = np.linspace(0, end, POINTS)
    quarter = whole[_flow_errors(weights[0], whole) <= QUARTER]
    growth = weights[:, :, 0] ** 2 - weights[0, :, 0] ** 2
    low, high = flow_growth_bounds(start, time)
    return pd.DataFrame(
        {
            "time": time,
            "error": _errors(weights),
            "flow_error": flow_error,
            "growth": growth[:, 0],
            "growth_low": low,
            "growth_high": high,
            "spread": np.ptp(growth, axis=1),
            "flow_quarter": quarter.min() if len(quarter) else np.nan,
        }
    )


def _flow_errors(start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the errors along gradient flow from some weights, where irrelevant ones stand still."""
    along = np.repeat(start[None], len(times), axis=0)
    along[:, :, 0] = relevant_flow(start[:, 0].tolist(), times.tolist())
    return _errors(along)


def _errors(weights: np.ndarray) -> np.ndarray:
    return np.array([float(disjoint_error(rows.tolist())) for rows in weights])


def _plateau(time: np.ndarray, weights: np.ndarray, end: float) -> pd.DataFrame:
    k, block = weights.shape[1:]
    level = plateau_level(block, k, 0.5 - CHANCE, "last")
    before = time <= end
    inverse = np.abs(weights[before, :, 0]).min(axis=1) ** (2.0 - k)
    # along the flow this falls linearly in time, to 0 at the explosion
    left = np.interp(-(float(level) ** (2 - k)), -np.append(inverse, 0), np.append(time[before], end))
    exact = plateau_ratio(block, k, 0.5 - CHANCE, "last")
    return pd.DataFrame({"share": [left / end], "exact_share": [exact], "level": [level], "end": [end]})


def plot(table: pd.DataFrame) -> Figure:
    """Draw errors and weights along the way, of population and stochastic descent, and the plateau's share."""
    return figure_of(disjoint_courses(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return how far runs and theory are apart.

    For population descent: the largest difference of errors, the largest spread of the squares' growth in units of the
    growth, and the share of measurements within the bounds. For stochastic descent: the time to an error of 25% in
    units of the flow's, a median with its order-statistic interval. For plateaus: both shares.
    """
    population = table[(table["part"] == "population") & (table["time"] > 0)]
    seen = population[population["flow_error"] > 0]
    inside = seen["growth"].between(0.98 * seen["growth_low"], 1.02 * seen["growth_high"])
    stochastic = table[table["part"] == "sgd"]
    ratios = np.array([_lag(rows) for _, rows in stochastic.groupby(["k", "seed"])])
    plateau = table[table["part"] == "plateau"].drop_duplicates(["k", "block"])
    return {
        "population": {
            "trials": int(population.groupby(["k", "seed"]).ngroups),
            "largest_error_difference": round(float((seen["error"] - seen["flow_error"]).abs().max()), 4),
            "largest_relative_spread": round(float((seen["spread"] / seen["growth"]).max()), 4),
            "within_growth_bounds": round(float(inside.mean()), 4),
        },
        "sgd": {
            "trials": len(ratios),
            "reached": int(np.isfinite(ratios).sum()),
            "time_to_25_percent_over_flow": finite(median(ratios)),
            "interval": [finite(end) for end in median_interval(ratios)],
        },
        "plateau": {
            f"k={row['k']}, n'={row['block']}": {"share": round(row["share"], 4), "exact": round(row["exact_share"], 4)}
            for row in plateau.to_dict("records")
        },
    }


def _lag(rows: pd.DataFrame) -> float:
    """Return the first time with an error of at most 25%, over the flow's."""
    reached = rows["time"][rows["error"] <= QUARTER]
    return float(reached.iloc[0] / rows["flow_quarter"].iloc[0]) if len(reached) else np.nan


EXPERIMENT = Experiment(
    name="disjoint-polynet",
    shows="Disjoint PolyNets follow their closed forms: relevant weights grow while the error stands still",
    source="section 5.4.2 and figure B.1",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 15 seconds"),
        "laptop": Scale(laptop, trials=6, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=25, time="about an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)

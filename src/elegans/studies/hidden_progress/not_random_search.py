"""Random search or hidden progress? How times to solve are spread, and what they depend on (figure 5.2).

Were training a random search that tries a subset a step, its time would have the geometric law with p = 1/C(n, k):
no memory, and successes from the first step on. And it would depend on the data alone; so networks with the same
initial values are trained on many streams of examples. The source names neither the architectures nor (n, k): here
they are PolyNet and the sinusoidal neuron at (20, 3), and for the common initial values the sinusoidal neuron and the
ReLU network of width 10 at (30, 3). The local exponents of the figure's third panel are in ``convergence-scaling``.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import components, quantile
from elegans.experiments.base import Experiment, Scale
from elegans.models import SeededInit
from elegans.plots import figure_of
from elegans.studies.hidden_progress.plot_luck import luck_of_times
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import finite, identified
from elegans.sweeps import Sweep, grid

INITS = {"xiv": 0.01, "i": 0.1}
"""The configurations that are trained from common initial values, and the learning rate of each."""
KEYS = ("part", "configuration", "network", "task.n", "task.k")
BINS = 60


def lucks(identifiers: Sequence[str], n: int, k: int, trials: int) -> Sweep:
    """Return many trials of each configuration: a new network and new data each."""
    return _joined([grid(configuration(name, n, k), {}, seeds=trials) for name in identifiers])


def common(n: int, k: int, inits: int, streams: int, steps: int = 100_000) -> Sweep:
    """Return networks with common initial values, each trained on several streams of examples; the support is one.

    Args:
        n: the number of signs.
        k: the size of the parity.
        inits: how many initial values.
        streams: how many streams of examples each of them meets.
        steps: after how many steps a trial is given up.
    """
    cells = []
    for name, rate in INITS.items():
        base = configuration(name, n, k, batch_size=128, learning_rate=rate, steps=steps)
        base = base.replace("task.support", tuple(range(k)))
        law = base.columns()["model.init"]
        cells += [base.replace("model.init", SeededInit(of=law, seed=seed)) for seed in range(inits)]
    return _joined([grid(cell, {}, seeds=streams) for cell in cells])


def _joined(sweeps: Sequence[Sweep]) -> Sweep:
    return Sweep(tuple(part for sweep in sweeps for part in sweep.parts))


def smoke(trials: int) -> Sweep:
    """Return few trials at (12, 3)."""
    return lucks(("xv", "xiv"), 12, 3, trials) + common(12, 3, inits=4, streams=3, steps=20_000)


def laptop(trials: int) -> Sweep:
    """Return both lucks at (20, 3), and 20 initial values with 12 streams each."""
    return lucks(("xv", "xiv"), 20, 3, trials) + common(30, 3, inits=20, streams=12)


def paper(trials: int) -> Sweep:
    """Return a million trials of PolyNet, and 100 initial values with 25 streams each."""
    return common(30, 3, inits=100, streams=25) + lucks(("xv",), 20, 3, trials)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the histogram of each configuration's times, and a row a trial with common initial values.

    Rows of part ``luck`` are bins: trials solved at more than ``above`` and at most ``until`` steps are ``count`` of
    ``trials``; a random search would have had ``random_search`` of them there, and a search without memory of the same
    median time ``memoryless``. They repeat the ``fastest``, the ``median_steps``, the 95% quantile ``q95`` and the
    ``slowest`` time, and how many would have been ``search_earlier`` and ``memoryless_earlier`` than the fastest.
    Rows of part ``inits`` have the number ``init`` of the initial values, the ``seed`` of the data, and ``steps``, the
    time to solve (NaN where unsolved).
    """
    known = identified(trials)
    is_common = known["model.init"].str.startswith("seeded:")
    known = known.assign(part=np.where(is_common, "inits", "luck"))
    parts = [_histogram(key, rows) for key, rows in known[~is_common].groupby(list(KEYS), sort=False)]
    inits = known[is_common]
    number = inits["model.init"].str.partition(":")[2].astype(int)
    parts.append(inits[[*KEYS, "seed"]].assign(init=number, steps=inits["solved_at"]))
    return pd.concat(parts, ignore_index=True)


def _histogram(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
    times = rows["solved_at"].to_numpy(float, na_value=np.nan)
    solved = np.sort(times[np.isfinite(times)])
    middle = quantile(times, 0.5)
    every = rows["training.stopping.every"].iloc[0]
    width = every * max(1, math.ceil(solved[int(0.999 * (len(solved) - 1))] / (every * BINS)))
    edges = np.arange(0, solved[-1] + width, width)
    problem = dict(zip(KEYS, key, strict=True))
    search = math.log1p(-1 / math.comb(problem["task.n"], problem["task.k"]))
    memoryless = -math.log(2) / middle
    earlier = np.array([0, solved[0] - every])
    return pd.DataFrame(
        {
            **problem,
            "above": edges[:-1],
            "until": edges[1:],
            "count": np.histogram(solved - every / 2, edges)[0],
            "random_search": _geometric(edges, search, len(times)),
            "memoryless": _geometric(edges, memoryless, len(times)),
            "trials": len(times),
            "solved": len(solved),
            "fastest": solved[0],
            "median_steps": middle,
            "q95": quantile(times, 0.95),
            "slowest": solved[-1],
            "search_earlier": _geometric(earlier, search, len(times))[0],
            "memoryless_earlier": _geometric(earlier, memoryless, len(times))[0],
        }
    )


def _geometric(edges: np.ndarray, decay: float, trials: int) -> np.ndarray:
    """Return how many trials a geometric law has in each bin, given the logarithm of its survival by a step."""
    return trials * (np.exp(decay * edges[:-1]) - np.exp(decay * edges[1:]))


def plot(table: pd.DataFrame) -> Figure:
    """Draw the histograms, and the times by initial values."""
    return figure_of(luck_of_times(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return how early the luckiest trial was and how heavy the upper tail, and what part of the luck is the network's.

    ``expected_before_fastest`` is how many trials would have been faster than the fastest if times had no memory:
    those of a random search, and those of the same median time. The variances are of the logarithm of the time, with
    the 95% interval of their ratio; trials that were not solved are left out of them.
    """
    luck = {
        f"{name} ({n}, {k})": _luck(rows.iloc[0])
        for (name, n, k), rows in table[table["part"] == "luck"].groupby(
            ["configuration", "task.n", "task.k"], sort=False
        )
    }
    inits = {
        f"{name} ({n}, {k})": _variances(rows)
        for (name, n, k), rows in table[table["part"] == "inits"].groupby(
            ["configuration", "task.n", "task.k"], sort=False
        )
    }
    return {"luck": luck, "inits": inits}


def _luck(row: pd.Series) -> dict[str, Any]:
    middle = row["median_steps"]
    return {
        "trials": int(row["trials"]),
        "solved": int(row["solved"]),
        "fastest": finite(row["fastest"]),
        "median_steps": finite(middle),
        "slowest": finite(row["slowest"]),
        "fastest_over_median": finite(row["fastest"] / middle),
        "q95_over_median": finite(row["q95"] / middle),
        "expected_before_fastest": {
            "random_search": finite(row["search_earlier"], 1),
            "memoryless": finite(row["memoryless_earlier"], 1),
        },
    }


def _variances(rows: pd.DataFrame) -> dict[str, Any]:
    solved = rows[rows["steps"].notna()]
    groups = [np.log(own["steps"].to_numpy(float)) for _, own in solved.groupby("init")]
    found = components([own for own in groups if len(own)])
    return {
        "inits": found.groups,
        "trials": len(rows),
        "solved": len(solved),
        "between_inits": finite(found.between),
        "within": finite(found.within),
        "ratio": finite(found.ratio, 2),
        "interval": [finite(found.low, 2), finite(found.high, 2)],
    }


EXPERIMENT = Experiment(
    name="not-random-search",
    shows="No trial is lucky early, and the time to solve depends on the initial values more than on the data",
    source="figure 5.2",
    scales={
        "smoke": Scale(smoke, trials=100, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=10_000, time="about half a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=1_000_000, time="about 15 minutes on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)

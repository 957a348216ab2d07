"""How the time to solve grows with n: straight lines on logarithmic axes, and the elbow (figures 5.1, right, and B.6).

The learning rates are those of appendix B.4, constant as n grows; where its table and its text differ (z^k networks of
width 100 with rate 1 against 0.01), the one that trains is taken. The transformer is run at the paper's scale only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import local_exponents
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.hidden_progress.plot_power_laws import power_laws
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.studies.hidden_progress.tables import finite, fits, identified, timed
from elegans.sweeps import Sweep, grid

RATES = {
    "i": 1.0,
    "ii": 1.0,
    "iii": 1.0,
    "iv": 0.01,
    "v": 0.01,
    "vi": 0.01,
    "viii": 0.01,
    "xiv": 0.01,
    "xv": 0.05,
    "*iii": 3e-4,
}
"""The configurations of the figures, and the learning rate of each."""
SIZES = (10, 14, 20, 28, 40, 56, 80)
"""Numbers of signs, evenly spaced on a logarithmic axis."""
KEYS = ("configuration", "network", "task.k", "task.n")
LINE = ("configuration", "task.k")


def lines(
    identifiers: Sequence[str], sizes: Sequence[int], degrees: Sequence[int], trials: int, steps: int = 100_000
) -> Sweep:
    """Return every configuration at every n and k; small n first, so that a run cut short has the beginning of lines.

    Args:
        identifiers: the configurations, by the thesis' ids.
        sizes: the numbers n of signs.
        degrees: the sizes k of the parity.
        trials: how many trials a cell.
        steps: after how many steps a trial is given up.
    """
    cells = [
        configuration(name, n, k, learning_rate=RATES[name], steps=steps)
        for n in sorted(sizes)
        for k in degrees
        for name in identifiers
    ]
    parts = [grid(cell, {}, seeds=trials) for cell in cells]
    return Sweep(tuple(part for sweep in parts for part in sweep.parts))


def smoke(trials: int) -> Sweep:
    """Return two narrow configurations at three small n."""
    return lines(("i", "ii"), (10, 16, 24), (2, 3), trials, steps=2000)


def laptop(trials: int) -> Sweep:
    """Return all configurations but the transformer."""
    return lines(tuple(RATES)[:-1], SIZES, (2, 3, 4), trials)


def paper(trials: int) -> Sweep:
    """Return every n from 10 to 40 and every k from 2 to 8."""
    return lines(tuple(RATES), range(10, 41), range(2, 9), trials)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a configuration, k and n: times, local exponents, and what ``fits`` says of the line."""
    trials = identified(trials)
    found = timed(trials, KEYS)
    places = found["configuration"].map({name: place for place, name in enumerate(CONFIGURATIONS)})
    found = found.assign(place=places).sort_values(["place", "task.k", "task.n"], ignore_index=True)
    found = found.drop(columns="place")
    rows = [line for _, line in found.groupby(list(LINE), sort=False)]
    local = [local_exponents(list(line["task.n"]), list(line["median_steps"])) for line in rows]
    made = fits(trials, LINE, "task.n")
    return found.assign(local_exponent=np.concatenate(local)).merge(made, on=list(LINE), how="left")


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a configuration, a line for each k."""
    return figure_of(power_laws(table, x="task.n", curve="task.k", panel="network", label="number of signs n"))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each line's exponent and elbow with intervals, and whether exponents are below k and grow with it."""
    found: dict[str, Any] = {}
    for name, rows in table.groupby("configuration", sort=False):
        lines = {k: rows[rows["task.k"] == k].iloc[0] for k in sorted(set(rows["task.k"]))}
        exponents = [line["exponent"] for line in lines.values() if np.isfinite(line["exponent"])]
        found[str(name)] = {
            **{f"k = {k}": _stated(line) for k, line in lines.items()},
            "below_k": all(bool(line["exponent"] < k) for k, line in lines.items() if np.isfinite(line["exponent"])),
            "grows_with_k": exponents == sorted(exponents),
        }
    return found


def _stated(line: pd.Series) -> dict[str, Any]:
    return {
        "exponent": finite(line["exponent"]),
        "interval": [finite(line["exponent_low"]), finite(line["exponent_high"])],
        "lower_half": finite(line["lower_exponent"]),
        "upper_half": finite(line["upper_exponent"]),
        "elbow": finite(line["elbow"]),
        "elbow_interval": [finite(line["elbow_low"]), finite(line["elbow_high"])],
    }


EXPERIMENT = Experiment(
    name="convergence-scaling",
    shows="The time to solve a parity is a power of n at small n, with exponents below k, and bends upwards beyond",
    source="figures 5.1 (right) and B.6",
    scales={
        "smoke": Scale(smoke, trials=5, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=50, time="about 3 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=1000, time="months on 2 cores with AVX-512, most of it the transformer"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)

"""Do smaller steps straighten the power law of the time in n? Weight drift as a cause of its elbow.

The source states a hypothesis, which it does not test, so there is no claim to judge.

The same network is trained at its own learning rate and at a tenth of it, so that its weights, per step, stay closer to
their initial values.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, Results, Scale, Tables, summary_by
from elegans.studies.hidden_progress.plots import power_laws
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import ends, fits, timed
from elegans.sweeps import Sweep

OWN, SMALL = 1.0, 0.1
"""The learning rate of the published network, and a tenth of it."""
SIZES = (10, 14, 20, 28, 40, 56, 80)
RATE = "training.learning_rate"
DRAWN = {"x": "task.n", "label": "number of signs n", "curve": RATE, "panel": "network"}


def sizes(chosen: Sequence[int], trials: int, steps: int = 100_000) -> Sweep:
    """Return ReLU networks of width 100 on (n, 3)-parities at both learning rates, small n first."""
    cells = [configuration("ii", n, 3, learning_rate=rate, steps=steps) for n in chosen for rate in (OWN, SMALL)]
    return Sweep.of(cells, trials)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per n and learning rate, and ``times``, one row per trial."""
    trials = results.trials.assign(network="(ii) ReLU network of width 100, k = 3")
    found = timed(trials, ("network", RATE, "task.n")).merge(fits(trials, [RATE], "task.n"), on=RATE, how="left")
    return {"table": found, "times": trials[[RATE, "task.n", "seed", "solved_at"]]}


def plot(tables: Tables) -> Figure:
    """Draw the median time to solve against n at both learning rates, titled by their elbows."""
    elbows = tables["table"].groupby(RATE)["elbow"].first()
    return power_laws(
        tables["table"],
        **DRAWN,
        finding=f"A tenth of the learning rate reduces the elbow from {elbows[OWN]:.2f} to {elbows[SMALL]:.2f}",
        task="ReLU networks of width 100 on (n, 3) parities, 32 examples per step; elbow: the exponent of n over the "
        "larger sizes minus that over the smaller sizes",
    )


def findings(tables: Tables) -> dict[str, Any]:
    """Return both learning rates' elbows with their intervals."""
    return summary_by(
        tables["table"].sort_values(RATE, kind="stable"),
        RATE,
        "learning rate {:g}",
        elbow=lambda rows: finite_or_none(rows["elbow"].iloc[0], 4),
        interval=lambda rows: ends(rows.iloc[0], "elbow"),
    )


EXPERIMENT = Experiment(
    name="elbow-drift",
    shows="At a tenth of the learning rate, most of the elbow of the time against n disappears",
    source="appendix B.3.2 and figure 5.2 (right)",
    scales={
        "smoke": Scale(lambda trials: sizes((10, 14, 20), trials, steps=5000), trials=5),
        "laptop": Scale(lambda trials: sizes(SIZES[:5], trials), trials=50),
        "paper": Scale(lambda trials: sizes(SIZES, trials), trials=200),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
)

"""Lottery tickets (figure 5): the few neurons that a wide network came to use, from where they began.

A network of 100 neurons is trained online. Its k strongest neurons are put back to their initial values and trained
alone, several times with other examples; beside them networks of k neurons drawn anew, and k other neurons of the
same wide networks. What the paper leaves open is settled so: weight decay 0.01 (without it all neurons keep about the
norm they began with, and the norm tells nothing); strength by the norm of the incoming weights, and by its product
with the output weight; the output bias goes back too; networks drawn anew have the wide network's law of two non-zero
weights a neuron. The other neurons are the wide network's first k that are not among the strongest by either norm:
neurons are drawn alike, so the first are as good as random ones.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval, wilson
from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.pareto_frontiers.models import Ticket
from elegans.studies.pareto_frontiers.plot_tickets import learned_by
from elegans.studies.pareto_frontiers.probes import StrongestNeurons
from elegans.studies.pareto_frontiers.success_frontier import trial
from elegans.sweeps import Sweep, grid
from elegans.training import Trial
from elegans.training.outcome import Curve

FIRST_SEED = 1_000_000
"""Seeds of what follows from the wide networks, whose own are counted from 0: no example is seen by both."""
RETRAINED = 5
"""How many times each ticket is trained."""
ARMS = {
    "wide": "wide network, 100 neurons",
    "weight": "its k strongest by |w|, rewound",
    "product": "its k strongest by |v| |w|, rewound",
    "others": "k others of its neurons, rewound",
    "redrawn": "k neurons drawn anew",
}
"""What is compared, in words."""
POINTS = 64
"""Steps at which the table looks at every network."""


def wide(n: int, k: int, steps: int, trials: int, every: int = 200) -> Sweep:
    """Return the wide networks; each stops when it is solved."""
    return grid(trial(n, k, steps, every).replace("model.width", 100), {}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return wide networks on (20, 3)."""
    return wide(20, 3, 4000, trials)


def laptop(trials: int) -> Sweep:
    """Return wide networks on (30, 4)."""
    return wide(30, 4, 40_000, trials)


def paper(trials: int) -> Sweep:
    """Return wide networks on (50, 5), as in the figure."""
    return wide(50, 5, 400_000, trials, every=1000)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the look at the strongest neurons, at the end only."""
    assert one.training is not None
    return (StrongestNeurons(every=one.training.steps, count=one.task.columns()["k"]),)


def further(sweep: Sweep, trials: pd.DataFrame, count: int) -> Sweep:
    """Return the tickets of each wide network, each trained with several seeds, and as many networks drawn anew."""
    parts = [
        grid(ticket, {}, seeds=range(first := FIRST_SEED + RETRAINED * parent.seed, first + RETRAINED))
        for parent, outcome in zip(sweep, trials["outcome"], strict=True)
        for ticket in _tickets(parent, outcome.measures["strongest-neurons"]).values()
    ]
    base = sweep.cells[0]
    small = base.replace("model.width", base.task.columns()["k"]).replace("training.stopping.stop", False)
    parts.append(grid(small, {}, seeds=range(FIRST_SEED, FIRST_SEED + count * RETRAINED)))
    return sum(parts[1:], start=parts[0])


def _tickets(parent: Trial, measured: dict[str, list[Any]]) -> dict[str, Trial]:
    """Return a wide network's tickets by their arm: the same hidden support, other examples."""
    k = parent.task.columns()["k"]
    chosen = {
        name: tuple(int(measured[f"{name}.{rank}"][-1]) for rank in range(1, k + 1)) for name in ("weight", "product")
    }
    strong = {*chosen["weight"], *chosen["product"]}
    chosen["others"] = tuple([place for place in range(100) if place not in strong][:k])
    return {arm: _ticket(parent, neurons) for arm, neurons in chosen.items()}


def _ticket(parent: Trial, neurons: tuple[int, ...]) -> Trial:
    support = tuple(int(place) for place in parent.task.draw(parent.key("task")))
    assert isinstance(parent.model, MLP) and parent.training is not None
    training = parent.training.replace("stopping.stop", False)
    init = Ticket(of=parent.model, seed=parent.seed, neurons=tuple(sorted(neurons)))
    model = MLP(width=len(neurons), init=init)
    return Trial(task=parent.task.replace("support", support), regime=parent.regime, model=model, training=training)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return, for each arm and step: the error on new examples (median, 10th and 90th percentile), and who had solved.

    Rates of tickets are means over wide networks of the share of their retrainings that solved; their intervals are
    Wilson's for as many trials as there are wide networks, because retrainings of one ticket are not independent.
    """
    outcomes = list(trials["outcome"])
    return pd.concat([_course(arm, *members) for arm, members in _arms(outcomes).items()], ignore_index=True)


def _arms(outcomes: Sequence[Any]) -> dict[str, tuple[list[Any], list[int]]]:
    """Return each arm's outcomes, and for each of them the number of its group: those that are not independent."""
    found: dict[str, tuple[list[Any], list[int]]] = {arm: ([], []) for arm in ARMS}
    for outcome, arm, group in _labelled(outcomes):
        found[arm][0].append(outcome)
        found[arm][1].append(group)
    return found


def _labelled(outcomes: Sequence[Any]) -> Iterator[tuple[Any, str, int]]:
    """Yield each outcome with its arm and group; a ticket that both norms chose is in both arms."""
    tickets: dict[str, list[tuple[str, int]]] = {}
    for outcome in outcomes:
        if "strongest-neurons" in outcome.measures:
            yield outcome, "wide", outcome.trial.seed
            for arm, ticket in _tickets(outcome.trial, outcome.measures["strongest-neurons"]).items():
                tickets.setdefault(ticket.cell, []).append((arm, outcome.trial.seed))
    for outcome in outcomes:
        if "strongest-neurons" in outcome.measures:
            continue
        for arm, group in tickets.get(outcome.trial.cell, [("redrawn", outcome.trial.seed)]):
            yield outcome, arm, group


def _course(arm: str, outcomes: list[Any], groups: list[int]) -> pd.DataFrame:
    """Return what an arm's networks had come to at each of some steps."""
    last = max(outcome.trial.training.steps for outcome in outcomes)
    steps = np.unique(np.linspace(0, last, POINTS + 1).round().astype(int)[1:])
    errors = np.array([np.interp(steps, outcome.curve.step, outcome.curve.error) for outcome in outcomes])
    times = np.array([np.inf if outcome.solved_at is None else outcome.solved_at for outcome in outcomes])
    learning = np.array([_first_below(outcome.curve) for outcome in outcomes])
    solved = pd.DataFrame(times[:, None] <= steps).groupby(np.asarray(groups)).mean()
    low, high = wilson(solved.sum().to_numpy(), np.full(len(steps), len(solved)))
    first, final = median_interval(times)
    return pd.DataFrame(
        {
            "arm": arm,
            "networks": len(outcomes),
            "independent": len(solved),
            "step": steps,
            "error": np.median(errors, axis=0),
            "error_10": np.quantile(errors, 0.1, axis=0),
            "error_90": np.quantile(errors, 0.9, axis=0),
            "solved": solved.mean().to_numpy(),
            "low": low,
            "high": high,
            "median_steps": median(times),
            "median_low": first,
            "median_high": final,
            "learning_steps": median(learning),
            "learning_low": median_interval(learning)[0],
            "learning_high": median_interval(learning)[1],
        }
    )


def _first_below(curve: Curve, error: float = 0.25) -> float:
    """Return the first step of a curve with an error that small: the parity was found, if not solved to 10%."""
    return next((float(step) for step, value in zip(curve.step, curve.error, strict=True) if value <= error), np.inf)


def plot(table: pd.DataFrame) -> Figure:
    """Draw each arm's error, and the share of networks that had solved, against steps."""
    return figure_of(learned_by(table, ARMS))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each arm, the share solved at the end, and the median steps to solve and to an error of 25%.

    Intervals of medians are order-statistic intervals that take all networks of an arm as independent.
    """
    found = {}
    for arm, rows in table.groupby("arm", sort=False):
        last = rows.iloc[-1]
        named = [f"{time}_{end}" for time in ("median", "learning") for end in ("steps", "low", "high")]
        times = {name: _finite(last[name]) for name in named}
        shares = {name: round(float(last[name]), 4) for name in ("solved", "low", "high")}
        counts = {name: int(last[name]) for name in ("networks", "independent")}
        found[str(arm)] = {**counts, **shares, **times}
    return found


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


EXPERIMENT = Experiment(
    name="lottery-tickets",
    shows="The few neurons that a wide network comes to use learn by themselves from where they began; others do not",
    source="figure 5",
    scales={
        "smoke": Scale(smoke, trials=4, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=100, time="about a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=20, time="about 5 minutes on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    further=further,
)

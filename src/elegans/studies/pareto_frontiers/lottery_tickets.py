"""Lottery tickets (figure 5): the few neurons that a wide network learns to use, trained from where they began.

A network of 100 neurons is trained online. Its k strongest neurons are put back to their initial values and trained
alone, several times with other examples; beside them freshly initialised networks of k neurons, and k other neurons of
the same wide networks. Where the paper is silent: weight decay 0.01 (without it all neurons keep about their initial
norms, which then say nothing); strength by the norm of the incoming weights, and by its product with the output
weight; the output bias goes back too; fresh networks have the wide network's distribution of two non-zero weights per
neuron. The other neurons are the wide network's first k that are not among the strongest by either norm: neurons are
independent and identically distributed, so the first are as good as random ones.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite, median, median_interval, wilson
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import MLP
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, panels, percent, quiet, short
from elegans.probes import Probe
from elegans.studies.pareto_frontiers.models import Ticket
from elegans.studies.pareto_frontiers.probes import StrongestNeurons
from elegans.studies.pareto_frontiers.settings import trial
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

FIRST_SEED = 1_000_000
"""Seeds of what follows from the wide networks, whose own are counted from 0: the two share no example."""
RETRAINED = 5
"""How many times each ticket is trained."""
ARMS = {
    "wide": "wide network, 100 neurons",
    "weight": "its k strongest by |w|, rewound",
    "product": "its k strongest by |v| |w|, rewound",
    "others": "k others of its neurons, rewound",
    "fresh": "k neurons, freshly initialised",
}
"""What is compared, in words."""
POINTS = 64
"""Steps at which the table gives the state of every network."""


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
    """Return the strongest neurons, measured at the end only."""
    assert one.training is not None
    return (StrongestNeurons(every=one.training.steps, count=one.task.columns()["k"]),)


def further(sweep: Sweep, results: Results, count: int) -> Sweep:
    """Return the tickets of each wide network, each trained with several seeds, and as many fresh networks."""
    parts = [
        grid(ticket, {}, seeds=range(first := FIRST_SEED + RETRAINED * parent.seed, first + RETRAINED))
        for _, parent, tickets in _wide(results)
        for ticket in tickets.values()
    ]
    base = sweep.cells[0]
    small = base.replace("model.width", base.task.columns()["k"]).replace("training.stopping.stop", False)
    parts.append(grid(small, {}, seeds=range(FIRST_SEED, FIRST_SEED + count * RETRAINED)))
    return sum(parts, Sweep(()))


def _wide(results: Results) -> list[tuple[int, Trial, dict[str, Trial]]]:
    """Return the wide networks: the position and the trial of each, and its tickets by their arm."""
    last = results.measures["strongest-neurons"].groupby("trial").last()
    wide = [(int(place), results.trial(int(place))) for place in last.index]
    return [(place, parent, _tickets(parent, last.loc[[place]].iloc[0])) for place, parent in wide]


def _tickets(parent: Trial, strongest: pd.Series) -> dict[str, Trial]:
    """Return a wide network's tickets by their arm: the same hidden support, other examples."""
    k = parent.task.columns()["k"]
    chosen = {
        name: tuple(int(strongest[f"{name}.{rank}"]) for rank in range(1, k + 1)) for name in ("weight", "product")
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


def analyse(results: Results) -> Tables:
    """Return, for each arm and step, the error on new examples (median, 10th and 90th percentile) and the share solved.

    Shares of tickets are means over wide networks of the share of their retrainings that solved; their intervals are
    Wilson's for as many trials as there are wide networks, because retrainings of one ticket are not independent.
    """
    members = _members(results)
    curves = dict(iter(results.measures["curve"].groupby("trial")))
    found = [
        _summary(results.trials.loc[group["trial"]], [curves[place] for place in group["trial"]], group["group"])
        for _, group in members.groupby("arm", sort=False)
    ]
    return {"table": pd.concat(found, keys=list(members["arm"].unique()), names=["arm"]).reset_index("arm")}


def _members(results: Results) -> pd.DataFrame:
    """Return each arm's trials, and the group of each: trials of one group are not independent.

    A ticket that both norms chose is in both arms.
    """
    rows: list[tuple[int, str, int]] = []
    known: dict[str, list[tuple[str, int]]] = {}
    for place, parent, tickets in _wide(results):
        rows.append((place, "wide", parent.seed))
        for arm, ticket in tickets.items():
            known.setdefault(ticket.cell, []).append((arm, parent.seed))
    for place in results.trials.index.difference([place for place, *_ in rows]):
        one = results.trial(place)
        rows += [(place, arm, group) for arm, group in known.get(one.cell, [("fresh", one.seed)])]
    found = pd.DataFrame(rows, columns=["trial", "arm", "group"])
    return found.sort_values("arm", key=lambda arms: arms.map(list(ARMS).index), kind="stable")


def _summary(trials: pd.DataFrame, curves: list[pd.DataFrame], groups: pd.Series) -> pd.DataFrame:
    """Return the state of an arm's networks at each of some steps."""
    steps = np.unique(np.linspace(0, trials["training.steps"].max(), POINTS + 1).round().astype(int)[1:])
    errors = np.array([np.interp(steps, curve["step"], curve["error"]) for curve in curves])
    times = trials["solved_at"].to_numpy(float, na_value=np.inf)
    # the parity is found at an error of 25%, though solved at 10%
    learning = np.array([curve["step"].where(curve["error"] <= 0.25, np.inf).min() for curve in curves])
    solved = pd.DataFrame(times[:, None] <= steps).groupby(groups.to_numpy()).mean()
    low, high = wilson(solved.sum().to_numpy(), np.full(len(steps), len(solved)))
    found: dict[str, Any] = {
        "networks": len(trials),
        "independent": len(solved),
        "step": steps,
        "error": np.median(errors, axis=0),
        "error_10": np.quantile(errors, 0.1, axis=0),
        "error_90": np.quantile(errors, 0.9, axis=0),
        "solved": solved.mean().to_numpy(),
        "low": low,
        "high": high,
    }
    for name, values in (("median", times), ("learning", learning)):
        first, last = median_interval(values)
        found |= {f"{name}_steps": median(values), f"{name}_low": first, f"{name}_high": last}
    return pd.DataFrame(found)


def plot(tables: Tables) -> Figure:
    """Draw the error and the share of networks that have solved, against steps, one colour for each arm."""
    table = tables["table"]
    figure, ((left, right),) = panels(1, 2, height=3.3)
    for order, ((arm, name), colour) in enumerate(zip(ARMS.items(), COLOURS, strict=False)):
        rows = table[table["arm"] == arm]
        style: dict[str, Any] = {"color": colour, "linewidth": 1.4, "label": name}
        for ax, middle, low, high in ((left, "error", "error_10", "error_90"), (right, "solved", "low", "high")):
            ax.fill_between(rows["step"], rows[low], rows[high], color=colour, alpha=0.15, linewidth=0)
            # the third arm may lie on the second
            ax.plot(rows["step"], rows[middle], linestyle=(0, (3, 2)) if order == 2 else "-", **style)
    for ax, label, limits in (
        (left, "error on new examples", (-0.02, 0.55)),
        (right, "networks solved", (-0.03, 1.03)),
    ):
        ax.set_xlabel("steps", fontsize=MEDIUM)
        ax.set_ylabel(label, fontsize=MEDIUM)
        ax.set(xscale="log", ylim=limits)
        ax.xaxis.set_major_formatter(lambda value, _: short(value))
        percent(ax)
        quiet(ax)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=SMALL, frameon=False, loc="outside upper center", ncols=3)
    note = (
        "Left: medians, 10th to 90th percentiles of networks. Right: Wilson 95% intervals, for as many trials as "
        "there are independent networks.\nThe error of a network that stops when it is solved stays at its last value."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each arm, the share solved at the end, and the median steps to solve and to an error of 25%.

    Intervals of medians are order-statistic intervals that take all networks of an arm as independent.
    """
    found = {}
    for arm, rows in tables["table"].groupby("arm", sort=False):
        last = rows.iloc[-1]
        named = [f"{time}_{end}" for time in ("median", "learning") for end in ("steps", "low", "high")]
        times = {name: finite(last[name]) for name in named}
        shares = {name: round(float(last[name]), 4) for name in ("solved", "low", "high")}
        counts = {name: int(last[name]) for name in ("networks", "independent")}
        found[str(arm)] = {**counts, **shares, **times}
    return found


EXPERIMENT = Experiment(
    name="lottery-tickets",
    shows="The few neurons that a trained wide network uses learn by themselves from where they began; others do not",
    source="figure 5",
    scales={
        "smoke": Scale(smoke, trials=4),
        "laptop": Scale(laptop, trials=100),
        "paper": Scale(paper, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    further=further,
)

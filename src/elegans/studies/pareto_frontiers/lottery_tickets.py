"""Lottery tickets (figure 5): the few neurons that a wide network learns to use, retrained from their initial values.

A network of 100 neurons is trained online. Its k strongest neurons are reset to their initial values and trained alone,
several times on other examples; for comparison, so are freshly initialised networks of k neurons, and k other neurons
of the same wide network. Where the paper is silent: weight decay (0.01, and four values at the paper's scale); whether
neurons are chosen when the wide network is solved or (at the paper's scale, both) after longer training; strength by
the norm of the incoming weights, and by its product with the output weight; the output bias is reset too; fresh
networks have the wide network's distribution of two non-zero weights per neuron. The other neurons are the wide
network's first k that are not among the strongest by either norm: neurons are independent and identically distributed,
so the first are as good as random ones. The part ``longer`` trains tickets and fresh networks for twice as many steps.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval, wilson
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.models import MLP
from elegans.plots.marks import band
from elegans.plots.style import COLOURS, figure_legend, panels, percent, short, title_figure, title_panels
from elegans.studies.pareto_frontiers.lottery_tickets_claims import CLAIMS, DECAYS
from elegans.studies.pareto_frontiers.models import Ticket
from elegans.studies.pareto_frontiers.probes import StrongestNeurons
from elegans.studies.pareto_frontiers.rules import listed
from elegans.studies.pareto_frontiers.settings import trial
from elegans.sweeps import Sweep, grid
from elegans.training import SGD, Trial

FIRST_SEED = 1_000_000
"""Seeds of retrainings start here, above the wide networks' seeds: the two share no example."""
RETRAINED = 5
"""How many times each ticket is trained."""
LONGER = 2
"""By what factor the part ``longer`` trains small networks for more steps than wide ones."""
ARMS = {
    "wide": "wide network, 100 neurons",
    "weight": "its k strongest by |w|, rewound",
    "product": "its k strongest by |v| |w|, rewound",
    "others": "k others of its neurons, rewound",
    "fresh": "k neurons, freshly initialised",
}
"""What is compared, in words."""
SHORT = {"product": "tickets", "fresh": "fresh networks"}
"""What a panel's title compares."""
POINTS = 64
"""The number of steps at which the table gives the state of every network."""


def wide(n: int, k: int, steps: int, every: int = 200) -> Trial:
    """Return the trial of a wide network, which stops when it is solved."""
    return trial(n, k, steps, every).replace("model.width", 100)


def further(sweep: Sweep, results: Results, count: int, *, factor: int = 1) -> Sweep:
    """Return the tickets of each wide network, each trained with several seeds, and as many fresh networks.

    They train ``factor`` times as long as the wide network may.
    """
    retrained = [
        (network, range(first := FIRST_SEED + RETRAINED * parent.seed, first + RETRAINED))
        for _, parent, tickets in _wide(results, factor)
        for network in (*tickets.values(), _for(fresh_trial(parent), factor))
    ]
    return sum((grid(network, {}, seeds=seeds) for network, seeds in retrained), Sweep(()))


def _for(trained: Trial, factor: int) -> Trial:
    return trained.replace("training.steps", factor * trained.steps)


def longer(experiment: Experiment) -> Experiment:
    """Return the experiment with longer training of tickets and fresh networks."""
    words = "tickets and fresh networks train twice as long"
    scales = {name: replace(scale, part=words) for name, scale in experiment.scales.items()}
    return replace(experiment, scales=scales, further=partial(further, factor=LONGER))


def fresh_trial(parent: Trial) -> Trial:
    """Return the wide network's trial, with only as many neurons as its tickets have."""
    return parent.replace("model.width", parent.task.columns()["k"]).replace("training.stopping.stop", False)


def _wide(results: Results, factor: int) -> list[tuple[int, Trial, dict[str, Trial]]]:
    """Return the wide networks: the position and the trial of each, and its tickets by their arm."""
    last = results.measures["strongest-neurons"].groupby("trial").last()
    parents = {int(place): results.trial(int(place)) for place in last.index}
    tickets = {place: ticket_trials(parent, last.loc[[place]].iloc[0]) for place, parent in parents.items()}
    return [
        (place, parent, {arm: _for(ticket, factor) for arm, ticket in tickets[place].items()})
        for place, parent in parents.items()
    ]


def ticket_trials(parent: Trial, strongest: Mapping[str, Any] | pd.Series) -> dict[str, Trial]:
    """Return a wide network's tickets by their arm: the same hidden support, other examples.

    One set of other neurons serves for both times of choice: the set of the network that stops when it is solved.
    """
    task, training = parent.task, parent.training
    assert isinstance(parent.model, MLP) and training is not None
    k = task.columns()["k"]
    chosen = {norm: [int(strongest[f"{norm}.{rank}"]) for rank in range(1, k + 1)] for norm in ("weight", "product")}
    if training.stopping.stop:
        strong = {*chosen["weight"], *chosen["product"]}
        chosen["others"] = [place for place in range(100) if place not in strong][:k]
    task = task.replace("support", tuple(int(place) for place in task.draw(parent.key("task"))))
    tickets = {}
    for arm, neurons in chosen.items():
        model = MLP(width=k, init=Ticket(of=parent.model, seed=parent.seed, neurons=tuple(sorted(neurons))))
        tickets[arm] = Trial(
            task=task, regime=parent.regime, model=model, training=training.replace("stopping.stop", False)
        )
    return tickets


def analyse(results: Results) -> Tables:
    """Return ``table``, which the figure shows, and ``networks``, one row per wide network and arm.

    ``table`` has, for each arm and step, the error on new examples (median, 10th and 90th percentile) and the share
    solved. Shares of tickets are means over wide networks of the share of their retrainings that solved; their
    intervals are Wilson's for as many trials as there are wide networks, because retrainings of one ticket are not
    independent. ``networks`` has the number of retrainings, the ``share`` solved, the ``times`` to solve, the
    ``budget`` of steps, the smallest ``first_error`` (at the first check), and the mean ``overlap``: how many of a
    neuron's non-zero initial weights are on the support. The arm ``fresh`` has the networks whose seeds are derived
    from the wide network's.
    """
    members = _members(results)
    curves = dict(iter(results.measures["curve"].groupby("trial")))
    by = ["decay", "chosen", "arm"]
    task = dict(results.trials[["task.n", "task.k"]].iloc[0])
    states = {
        key: _summary(results.trials.loc[rows["trial"]], [curves[place] for place in rows["trial"]], rows["group"])
        for key, rows in members.groupby(by, sort=False)
    }
    first = {place: float(curve["error"].iloc[0]) for place, curve in curves.items()}
    solved_at = results.trials["solved_at"].astype(float)
    members = members.assign(
        first_error=members["trial"].map(first),
        steps=members["trial"].map(solved_at),
        budget=members["trial"].map(results.trials["training.steps"]),
    )
    networks = members.groupby([*by, "parent"], sort=False, as_index=False).agg(
        trained=("steps", "size"),
        share=("steps", lambda steps: steps.notna().mean()),
        times=("steps", listed),
        budget=("budget", "first"),
        first_error=("first_error", "min"),
        overlap=("overlap", "first"),
    )
    return {
        "table": pd.concat(states, names=by).reset_index(by).reset_index(drop=True),
        "networks": pd.concat(
            [pd.DataFrame(task, index=networks.index), networks.rename(columns={"parent": "seed"})], axis=1
        ),
    }


def _members(results: Results) -> pd.DataFrame:
    """Return each arm's trials, with the seed of the wide network and the group of each.

    Trials of one group are not independent. A ticket that is chosen in several ways appears in several arms.
    """
    steps = results.trials["training.steps"]
    rows: list[tuple[Any, ...]] = []
    known: dict[str, list[tuple[Any, ...]]] = {}
    for place, parent, tickets in _wide(results, int(steps.max() // steps.min())):
        decay, stops = _decay_and_stop(parent)
        stratum = decay, "solved" if stops else "end"
        overlap = _overlap(parent)
        rows.append((place, *stratum, "wide", parent.seed, parent.seed, overlap.mean()))
        for arm, ticket in tickets.items():
            assert isinstance(ticket.model, MLP) and isinstance(ticket.model.init, Ticket)
            mean = overlap[list(ticket.model.init.neurons)].mean()
            known.setdefault(ticket.cell, []).append((*stratum, arm, parent.seed, parent.seed, mean))
    for place in results.trials.index.difference([place for place, *_ in rows]):
        retrained = results.trial(place)
        parent_seed = (retrained.seed - FIRST_SEED) // RETRAINED
        fresh = (_decay_and_stop(retrained)[0], "either", "fresh", parent_seed, retrained.seed, np.nan)
        rows += [(place, *row) for row in known.get(retrained.cell, [fresh]) if row[3] == parent_seed]
    members = pd.DataFrame(rows, columns=["trial", "decay", "chosen", "arm", "parent", "group", "overlap"])
    return members.sort_values("arm", key=lambda arms: arms.map(list(ARMS).index), kind="stable")


def _decay_and_stop(trained: Trial) -> tuple[float, bool]:
    assert isinstance(trained.training, SGD)
    return trained.training.weight_decay, trained.training.stopping.stop


def _overlap(parent: Trial) -> np.ndarray:
    """Return, for each neuron, how many of its non-zero initial weights are on the support."""
    assert isinstance(parent.model, MLP)
    weight = parent.model.initialise(parent.key("init"), parent.task)["hidden"]["weight"]
    overlap: np.ndarray = (weight[:, parent.task.draw(parent.key("task"))] != 0).sum(axis=1)
    return overlap


def _summary(trials: pd.DataFrame, curves: list[pd.DataFrame], groups: pd.Series) -> pd.DataFrame:
    """Return the state of an arm's networks at each of some steps."""
    steps = np.unique(np.linspace(0, trials["training.steps"].max(), POINTS + 1).round().astype(int)[1:])
    errors = np.array([np.interp(steps, curve["step"], curve["error"]) for curve in curves])
    times = trials["solved_at"].to_numpy(float, na_value=np.inf)
    # at an error of 25% the parity is found, though not yet solved (10%)
    learning = np.array([curve["step"].where(curve["error"] <= 0.25, np.inf).min() for curve in curves])
    solved = pd.DataFrame(times[:, None] <= steps).groupby(groups.to_numpy()).mean()
    low, high = wilson(solved.sum().to_numpy(), np.full(len(steps), len(solved)))
    state: dict[str, Any] = {
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
        least, most = median_interval(values)
        state |= {f"{name}_steps": median(values), f"{name}_low": least, f"{name}_high": most}
    return pd.DataFrame(state)


def plot(tables: Tables) -> Figure:
    """Draw the error and the share of networks that have solved, against steps, one colour for each arm.

    With several weight decays, only the share is drawn, one panel each, for neurons chosen when the wide network was
    solved. Errors are medians with the middle 80% of networks, where one that stops because it is solved keeps its last
    value; shares have Wilson 95% bands, for as many trials as there are independent networks.
    """
    table = tables["table"]
    table = table[table["chosen"] != "end"]
    decays = list(table["decay"].unique())
    several = len(decays) > 1
    figure, axes = panels(-(-len(decays) // 2), 2, height=2.2 if several else 2.8, sharex=several, sharey=several)
    error = ("error", "error_10", "error_90")
    solved = ("solved", "low", "high")
    shown = [(decay, solved) for decay in decays] if several else [(decays[0], error), (decays[0], solved)]
    for ax, (decay, columns) in zip(axes.flat, shown, strict=False):
        for order, ((arm, name), colour) in enumerate(zip(ARMS.items(), COLOURS, strict=False)):
            rows = table[(table["decay"] == decay) & (table["arm"] == arm)]
            middle, low, high = (rows[column] for column in columns)
            # the third arm may coincide with the second
            band(ax, rows["step"], middle, low, high, colour, linestyle=(0, (3, 2)) if order == 2 else "-", label=name)
        if ax in axes[:, 0] or not several:
            ax.set_ylabel("networks solved" if columns == solved else "error on fresh examples")
        ax.set(xscale="log", ylim=(-0.03, 1.03) if columns == solved else (-0.02, 0.55))
        ax.xaxis.set_major_formatter(lambda value, _: short(value))
        percent(ax)
    for ax in axes[-1]:
        ax.set_xlabel("steps")
    names = [_finding(table, decay) for decay in decays] if several else ["Error", _finding(table, decays[0])]
    networks = tables["networks"][["task.n", "task.k"]].iloc[0]
    task = f"({networks['task.n']}, {networks['task.k']}) parity, tickets of k = {networks['task.k']} neurons"
    bands = "bands: Wilson 95% intervals" + ("" if several else " of shares, the middle 80% of errors")
    title_panels(axes.ravel()[: len(names)], names)
    finding = "A wide network's strongest neurons, rewound, sometimes learn alone, most often at small weight decay"
    title_figure(figure, finding if several else names[-1], f"{task}; {bands}")
    figure_legend(figure, axes[0, 0])
    return figure


def _finding(table: pd.DataFrame, decay: float) -> str:
    """Return how many tickets and freshly initialised networks solve the task in the end, in words."""
    solved = table[table["decay"] == decay].groupby("arm")["solved"].last()
    shares = ", ".join(f"{name} {solved[arm]:.0%}" for arm, name in SHORT.items() if arm in solved)
    return f"Weight decay {decay:g}: {shares}"


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each arm, the share solved at the end, and the median steps to solve and to an error of 25%.

    Intervals of medians are order-statistic intervals that take all networks of an arm as independent.
    """
    table = tables["table"]
    if table["decay"].nunique() == 1:
        return _arms(table)
    strata = table.groupby(["decay", "chosen"], sort=False)
    return {f"weight decay {decay:g}, chosen: {chosen}": _arms(rows) for (decay, chosen), rows in strata}


def _arms(rows: pd.DataFrame) -> dict[str, Any]:
    times = [f"{time}_{part}" for time in ("median", "learning") for part in ("steps", "low", "high")]
    return {
        str(arm): {
            **{name: int(last[name]) for name in ("networks", "independent")},
            **{name: round(float(last[name]), 4) for name in ("solved", "low", "high")},
            **{name: finite_or_none(last[name]) for name in times},
        }
        for arm, last in rows.groupby("arm", sort=False).last().iterrows()
    }


EXPERIMENT = Experiment(
    name="lottery-tickets",
    shows="The few neurons that a trained wide network relies on learn alone from their initial values more often than "
    "others do",
    source="figure 5",
    scales={
        "smoke": Scale(lambda trials: grid(wide(20, 3, 4000), {}, seeds=trials), trials=4),
        "laptop": Scale(lambda trials: grid(wide(30, 4, 40_000), {}, seeds=trials), trials=100),
        "paper": Scale(
            # as in the figure; some stop when they are solved, the others train on
            lambda trials: grid(
                wide(50, 5, 150_000, every=1000),
                {"training.weight_decay": DECAYS, "training.stopping.stop": [True, False]},
                seeds=trials,
            ),
            trials=50,
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [StrongestNeurons(every=trial.steps, count=trial.task.columns()["k"])],
    further=further,
    claims=CLAIMS,
    options={
        "parts": Option(
            "all, or longer: train tickets and fresh networks for twice as many steps", parts(longer=longer)
        )
    },
)

"""Composition in finite groups: every neuron becomes a single irrep, all irreps have some, and the margin the largest.

Softmax weighs wrong labels otherwise than the largest margin does: at any penalty the exact optimum has less than
gamma*, and on S_5 at the printed penalty it has no neuron of the irrep of dimension 6. Both lines are drawn.

Source: thesis, chapter 7, figure 7.6, and appendix D, figures D.2 and D.3.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.experiments.base import Experiment, Option, Scale
from elegans.groups import Group
from elegans.models import MLP
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.feature_margins.feature_probes import IrrepPower
from elegans.studies.feature_margins.plots import group_margins
from elegans.studies.feature_margins.probes import Decomposition, NormalisedMargin
from elegans.studies.feature_margins.settings import PRINTED, composition
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    course,
    features,
    neurons,
    outcomes_of,
    present,
    reached,
    share,
    spread,
    summarised,
    summary,
)
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.sweeps import Sweep
from elegans.tasks import GroupComposition
from elegans.training import Outcome, Trial

SMOKE_STEPS = 20_000
"""How long networks on a group of one's own are trained at the smallest scale."""
SMALLEST, LARGEST = 3, 120
"""The orders that are trained: below there is one non-trivial irrep and nothing to see, above a step takes too long."""
SINGLE = 0.99
"""The share of power from which on a neuron is taken for a single irrep."""
SUMMARY = (
    "power.mean",
    "power.least",
    "power.least.all",
    "joint.least",
    "rank.largest",
    "alignment.least",
    "amplitude.largest",
    "share.distance",
)


def printed(group: Group) -> Trial:
    """Return the thesis' training on a group, or one like that on S_4 where it has none."""
    known = [one for one in PRINTED.values() if getattr(one.task, "group", None) == group]
    return known[0] if known else composition(group)


def whole(groups: Sequence[str | Group], trials: int) -> Sweep:
    """Return trainings as the thesis has them."""
    return Sweep(tuple((printed(Group.parse(group)), range(trials)) for group in groups))


def short(group: Group, trials: int) -> Sweep:
    """Return a training of fewer steps."""
    return Sweep(((composition(group, steps=SMOKE_STEPS), range(trials)),))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the margin along the way, and powers, ranks and alignments at the beginning and the end."""
    once = one.steps
    return NormalisedMargin(every=once // MEASUREMENTS), IrrepPower(every=once), Decomposition(every=once)


def with_group(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with all of its scales on one group.

    Args:
        experiment: ``group-margins``.
        value: the group's name, or the file of its table.

    Raises:
        GroupError: there is no such group (the message says how groups are written), a file holds none, or an irrep is
            not real.
        ExperimentError: the group is too small or too large.
    """
    group = Group.parse(str(value))
    if not SMALLEST <= group.order <= LARGEST:
        rule = f"a group must have from {SMALLEST} to {LARGEST} elements to be trained on"
        raise ExperimentError(f"{rule}: order={group.order} of {group.name}")
    group.real_irreps()
    sweeps = {"smoke": partial(short, group), "laptop": partial(whole, (group,)), "paper": partial(whole, (group,))}
    scales = {name: replace(scale, sweep=sweeps[name]) for name, scale in experiment.scales.items()}
    return replace(experiment, scales=scales)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of four ``part``s, each with the ``group``, its ``order``, ``width`` and ``seed``.

    ``course``: a row a measured step (see ``tables.course``). ``neuron``: a row a neuron. ``feature``: a row an irrep
    but the trivial one, with its ``dimension``. ``summary``: a row a quantity.
    """
    return pd.concat([_rows(one) for one in outcomes_of(trials)], ignore_index=True)


def _rows(outcome: Outcome) -> pd.DataFrame:
    one = outcome.trial
    assert isinstance(one.task, GroupComposition) and isinstance(one.model, MLP)
    group = one.task.group
    parts = [course(outcome)]
    if outcome.state != "diverged":
        irreps = group.irreps
        names = [irrep.name for irrep in irreps]
        found = features(outcome, "irrep-power", names, margin_game(group).shares)
        parts += [
            neurons(outcome, "irrep-power"),
            found.assign(dimension=[irrep.dimension for irrep in irreps])[1:],
            summary(outcome, "irrep-power", SUMMARY),
            summary(outcome, "decomposition", ["residual"]),
        ]
    return pd.concat(parts, ignore_index=True).assign(group=group.name, order=group.order, width=one.model.width)


def plot(table: pd.DataFrame) -> Figure:
    """Draw, a column a group: the course of the margin, neurons and shares by irrep, and histograms of powers."""
    return figure_of(group_margins(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each group, how near networks came to theory: medians over trials with intervals, shares of trials.

    ``single``: trials all of whose neurons, but for those given up, have at least 99% of their power in one irrep;
    ``wanted``: the irreps that the exact optimum at the penalty has; ``all_wanted``: trials in which all of them have a
    neuron; ``shares``: of sum ||omega||^3 by irrep, beside the optimum's and those at gamma*.
    """
    return {str(group): _stated(rows) for group, rows in table.groupby("group", sort=False)}


def _stated(rows: pd.DataFrame) -> dict[str, Any]:
    own = rows[rows["part"] == "feature"]
    powers = rows[(rows["part"] == "neuron") & rows["kept"].eq(True)]
    by_irrep = own.groupby("feature", sort=False)
    wanted = [str(name) for name, found in by_irrep if found["theory"].iloc[0] > 0]
    started = rows[rows["part"] == "neuron"].groupby("seed")["initial_power"].mean()
    return {
        **reached(rows),
        "initial_power.mean": spread(started),
        **summarised(rows),
        "single": share(powers.groupby("seed")["power"].min() >= SINGLE),
        "wanted": wanted,
        "all_wanted": present(rows[rows["feature"].isin(wanted) | (rows["part"] != "feature")], len(wanted)),
        "neurons": {str(name): spread(found["neurons"]) for name, found in by_irrep},
        "shares": {
            str(name): spread(found["share"])
            | {"optimum": round(found["theory"].iloc[0], 6), "limit": round(found["limit"].iloc[0], 6)}
            for name, found in by_irrep
        },
    }


EXPERIMENT = Experiment(
    name="group-margins",
    shows="Networks that compose in a group: single irreps, and the largest margin that their penalty allows",
    source="figures 7.6, D.2 and D.3",
    scales={
        "smoke": Scale(partial(whole, ("S3",)), trials=2, time="about 5 seconds"),
        "laptop": Scale(partial(whole, ("S3", "D4", "S4")), trials=5, time="about a minute on 2 cores"),
        "paper": Scale(partial(whole, ("S5",)), trials=1, time="about an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
    options={"group": Option("GROUP  another group: S4, D5, Z2^3, S3xZ2, …, or a file of its table", with_group)},
)
"""Figures 7.6, D.2 and D.3."""

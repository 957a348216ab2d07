"""Composition in finite groups: every neuron becomes a single irrep, all irreps occur, and the margin is the largest.

Softmax weights wrong labels differently than the largest margin does: at any penalty the minimiser of the penalised
loss has a smaller margin than gamma*, and on S_5 at the printed penalty it has no neuron of the irrep of dimension 6.
Both margins are drawn. On the way to the minimiser, networks may have a larger normalised margin than the minimiser.

The scale ``part`` trains S_3 and S_4 with other choices for what the thesis leaves open: the power r of the norm in the
penalty, and the initial weights.

Source: thesis, chapter 7, figure 7.6, and appendix D, figures D.2 and D.3.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.experiments import Experiment, Option, Results, Scale, Tables
from elegans.groups import Group
from elegans.models import MLP, GaussianInit
from elegans.plots.style import panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.feature_margins.group_margins_claims import CLAIMS
from elegans.studies.feature_margins.plots import feature_shares, margin_curves, share_of, symbol_of
from elegans.studies.feature_margins.probes import Decomposition, IrrepPower, NormalisedMargin
from elegans.studies.feature_margins.settings import PRINTED, composition, power_of, powered, start_of
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    SINGLE,
    by_network,
    features,
    margins,
    middle,
    networks,
    neurons,
    present,
    pure,
    reached,
    summary,
)
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.sweeps import Sweep
from elegans.tasks import GroupComposition
from elegans.training import Trial

SMOKE_STEPS = 20_000
"""The number of steps on a chosen group at the smallest scale."""
SMALLEST, LARGEST = 3, 120
"""The range of orders: smaller groups have only one non-trivial irrep, and larger ones make steps slow."""
DEGREE = 3
COLUMNS = 3
"""The largest number of groups that are drawn."""
STDS = (0.1, 1.0)
"""Standard deviations of Gaussian initial weights on S_3."""
POWER, NETWORK = "irrep-power", ("group", "order", "width", "r", "init")
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
    """Return the thesis' training on a group or, where it has none, one like that on S_4."""
    known = [one for one in PRINTED.values() if getattr(one.task, "group", None) == group]
    return known[0] if known else composition(group)


def varied(trials: int, *names: str, stds: Sequence[float] = ()) -> Sweep:
    """Return printed networks, the same with other powers of the penalty, and the first with Gaussian weights."""
    ones = [PRINTED[name] for name in names]
    powers = [powered(one, exponent) for exponent in (2, 1) for one in ones]
    inits = [ones[0].replace("model.init", GaussianInit(std=std)) for std in stds]
    return Sweep.of((*ones, *powers, *inits), trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the margin during training, and of powers, ranks and alignments at the start and the end."""
    once = one.steps
    return NormalisedMargin(every=once // MEASUREMENTS), IrrepPower(every=once), Decomposition(every=once)


def with_group(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with all scales on one group, given by its name or by the file of its table.

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
    full, short = printed(group), composition(group, steps=SMOKE_STEPS)
    scales = {name: replace(scale, sweep=Sweep.of([full])) for name, scale in experiment.scales.items()}
    scales["smoke"] = replace(scales["smoke"], sweep=Sweep.of([short]))
    return replace(experiment, scales=scales)


def analyse(results: Results) -> Tables:
    """Return the tables ``margins``, ``neurons``, ``features`` and ``summary``, see ``tables``.

    Each has the ``group``, its ``order``, ``width``, the power ``r`` of the penalty, the ``init`` and ``seed``;
    ``features`` are the non-trivial irreps, with their ``dimension``.
    """
    ended = networks(results, _describe)
    irreps = features(results, ended, POWER, _irreps)
    return {
        "margins": margins(results, ended),
        "neurons": neurons(results, ended, POWER),
        "features": irreps[~irreps["trivial"]].drop(columns="trivial"),
        "summary": summary(results, ended, {POWER: SUMMARY, "decomposition": ["residual"]}),
    }


def _describe(one: Trial) -> dict[str, Any]:
    assert isinstance(one.task, GroupComposition) and isinstance(one.model, MLP)
    group, width = one.task.group, one.model.width
    return {"group": group.name, "order": group.order, "width": width, "r": power_of(one), "init": start_of(one)}


def _irreps(one: Trial) -> dict[str, Any]:
    assert isinstance(one.task, GroupComposition)
    irreps = one.task.group.irreps
    return {
        "feature": [irrep.name for irrep in irreps],
        "dimension": [irrep.dimension for irrep in irreps],
        "trivial": [place == 0 for place in range(len(irreps))],
        "limit": margin_game(one.task.group).shares,
    }


def plot(tables: Tables) -> Figure:
    """Draw margins and shares by irrep, one column per group, up to three groups.

    The lower titles say what share of the active neurons have nearly all their power in one irrep.
    """
    usual = tables["margins"]["init"].iloc[0]
    tables = {kind: table[(table["r"] == DEGREE) & (table["init"] == usual)] for kind, table in tables.items()}
    groups = list(tables["margins"]["group"].unique())[:COLUMNS]
    figure, drawn = panels(2, len(groups), height=2.4, width=7.0 if len(groups) > 1 else 5.0)
    upper, lower = [], []
    for (above, below), name in zip(drawn.T, groups, strict=True):
        shown = {kind: table[table["group"] == name].assign(series="networks") for kind, table in tables.items()}
        margin_curves(shown["margins"], above)
        upper.append(f"{symbol_of(name)}, {shown['margins']['width'].iloc[0]} neurons")
        irreps = shown["features"]
        names = irreps["feature"].astype(str).str.replace("⊗", "\n⊗ ")
        feature_shares(irreps.assign(feature=names + "\n(" + irreps["dimension"].astype(str) + ")"), below)
        below.set_xlabel("irrep (dimension)")
        powers = shown["neurons"].loc[shown["neurons"]["kept"], "power"]
        lower.append(f"{symbol_of(name)}: {100 * (powers >= SINGLE).mean():.4g}% of neurons have one irrep")
    for ax in drawn[:, 1:].ravel():
        ax.set_ylabel("")
    title_panels(drawn, [*upper, *lower])
    last = tables["margins"].groupby(["group", "seed"]).last()
    least = (last["ratio"] / last["optimum"]).groupby("group").median()[groups].min()
    powers = tables["neurons"].loc[tables["neurons"]["kept"] & tables["neurons"]["group"].isin(groups), "power"]
    reach = f"Networks reach {100 * least:.3g}% of the optimum at their penalty"
    single = f"{share_of(powers >= SINGLE)} become single irreps"
    trials = f"{last.groupby('group').size().min()} trials per group, the first in bold"
    task = f"Composition in finite groups, quadratic networks; {trials}; bars: means with ranges over trials"
    title_figure(figure, f"{reach}, and {single}", task)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each group, how close networks are to theory: medians over trials with intervals, shares of trials.

    ``single``: trials all of whose active neurons have at least 99% of their power in one irrep;
    ``wanted``: the irreps of the exact optimum at the penalty; ``all_wanted``: trials in which all of them have a
    neuron; ``shares``: of sum ||omega||^3 by irrep, with the optimum's shares and the shares at gamma*.
    """
    usual = tables["margins"]["init"].iloc[0]
    by_title = {}
    for (group, _, _, r, init), parts in by_network(tables, NETWORK):
        power, start = "" if r == DEGREE else f", r = {r:g}", "" if init == usual else f", {init}"
        irreps = parts["features"]
        by_irrep = {str(name): rows for name, rows in irreps.groupby("feature", sort=False)}
        wanted = [name for name, rows in by_irrep.items() if rows["theory"].iloc[0] > 0]
        by_title[f"{group}{power}{start}"] = {
            **reached(parts, [*SUMMARY, "residual"]),
            **pure(parts),
            "wanted": wanted,
            "all_wanted": present(irreps[irreps["feature"].isin(wanted)], len(wanted)),
            "neurons": {name: middle(rows["neurons"]) for name, rows in by_irrep.items()},
            "shares": {
                name: middle(rows["share"])
                | {"optimum": round(rows["theory"].iloc[0], 6), "limit": round(rows["limit"].iloc[0], 6)}
                for name, rows in by_irrep.items()
            },
        }
    return by_title


EXPERIMENT = Experiment(
    name="group-margins",
    shows="Networks that compose group elements have one irrep per neuron and nearly the largest margin",
    source="figures 7.6, D.2 and D.3",
    scales={
        "smoke": Scale(lambda trials: Sweep.of([PRINTED["S3"]], trials), trials=2),
        "laptop": Scale(
            lambda trials: Sweep.of((PRINTED["S3"], composition(Group.parse("D4")), PRINTED["S4"]), trials), trials=5
        ),
        "part": Scale(
            lambda trials: varied(trials, "S3", "S4", stds=STDS),
            trials=8,
            part="S_3 and S_4, with other powers of the penalty and initial weights",
        ),
        "paper": Scale(
            lambda trials: varied(trials, "S5"),
            trials=6,
            part="S_5, with other powers of the penalty; S_3 and S_4 are in part",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
    claims=CLAIMS,
    options={"group": Option("GROUP  another group: S4, D5, Z2^3, S3xZ2, …, or a file of its table", with_group)},
)

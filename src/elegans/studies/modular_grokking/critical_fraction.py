"""The smallest fraction of pairs from which networks generalise, by operation and modulus: traced, not on a grid.

A coarse grid of fractions finds between which two the share of networks that generalise within the budget crosses one
half, and a second round trains fractions between these. The crossing is interpolated. Small transformers are trained on
one fraction of four operations, to compare symmetric operations with others.

Source: Power et al. (2022), section 3.2, figure 2 (right) and appendix A.1.2.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import crossings, finite_or_none, median, wilson
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, PairTransformer
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, SMALL, panel_legend, panels, percent, title_figure, title_panels
from elegans.studies.modular_grokking.critical_fraction_claims import CLAIMS
from elegans.studies.modular_grokking.settings import SMALL_TASK, P, network, small_transformer, transformer
from elegans.sweeps import Sweep
from elegans.tasks import GroupComposition, GroupOperation, ModularAddition, ModularArithmetic, Split
from elegans.tasks.pairs import PairTask

ARITHMETIC = ("x-y", "x*y", "x/y")
OPERATIONS = (*ARITHMETIC, "x^2+xy+y^2", "x^3+xy^2+y")
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
FRACTION = 0.7
"""The fraction of pairs of transformers."""
INSIDE = 3
"""Fractions that the second round adds between two neighbours."""
MODULI = (11, 17, 31, 41)
ONSETS = ("x+y", "x^3+xy^2+y", "composition")
"""The first words of the tasks whose shares are drawn by fraction."""
DODGE = 0.008
CRITICAL = "critical fraction"
SEED, RESAMPLES = 0, 1000


def operations(p: int, names: Iterable[str]) -> list[PairTask]:
    """Return addition and other operations modulo p."""
    records = ({"kind": "modular-arithmetic", "p": p, "operation": name} for name in names)
    return [ModularAddition(p=p), *map(ModularArithmetic.parse, records)]


def fractions_of(tasks: Sequence[PairTask], fractions: Sequence[float], trials: int, **settings: Any) -> Sweep:
    """Return the networks of each task on each fraction, which stop when they generalise."""
    pairs = product(fractions, tasks)
    return Sweep.of([network(task, fraction, every=50, **settings) for fraction, task in pairs], trials)


def smoke(trials: int) -> Sweep:
    """Return addition and division modulo 17 on three fractions, and few steps of transformers."""
    size: dict[str, Any] = {"width": 16, "mlp_width": 32, "learning_rate": 0.01, "steps": 200, "every": 50}
    attention = [transformer(task, FRACTION, **size) for task in operations(17, ARITHMETIC)]
    two_layer = fractions_of(operations(17, ("x/y",)), (0.9, 0.7, 0.3), trials, width=64, steps=800)
    return two_layer + Sweep.of(attention, trials)


def laptop(trials: int) -> Sweep:
    """Return six operations modulo 23, S4, addition with four other moduli, and transformers on four operations."""
    tasks = [*operations(P, OPERATIONS), GroupComposition.parse("group-composition:S4")]
    two_layer = fractions_of([*tasks, *(ModularAddition(p=p) for p in MODULI)], FRACTIONS, trials, steps=3000)
    attention = [small_transformer(0.5, task, steps=30_000) for task in operations(SMALL_TASK.p, ARITHMETIC)]
    return two_layer + Sweep.of(attention, 2 * trials)


def paper(trials: int) -> Sweep:
    """Return three operations modulo 97, and three in S5."""
    settings: dict[str, Any] = {"width": 256, "steps": 1500}
    modular = fractions_of(operations(97, ("x/y", "x^2+xy+y^2")), (0.5, 0.4, 0.3, 0.2), trials, **settings)
    others = [GroupOperation.model_validate({"group": "S5", "operation": name}) for name in ("xyx^-1", "xyx")]
    groups = [GroupComposition.parse("group-composition:S5"), *others]
    return modular + fractions_of(groups, (0.7, 0.4), trials, **settings)


def further(sweep: Sweep, results: Results, trials: int) -> Sweep:
    """Return the fractions between those where the share of two-layer networks that generalise crosses one half."""
    added = []
    counted = _counted(results)
    for _, rows in counted[~counted["attention"]].groupby("place_of_task"):
        rates = (rows["solved"] / rows["trials"]).to_numpy()
        fractions = rows["fraction"].to_numpy(float)
        above = np.flatnonzero((rates[1:] >= 0.5) & (rates[:-1] < 0.5))
        if not len(above):
            continue
        coarse = results.trial(int(rows["trial"].iloc[0]))
        assert isinstance(coarse.task, PairTask) and isinstance(coarse.model, MLP)
        settings: dict[str, Any] = {"width": coarse.model.width, "steps": coarse.steps, "every": coarse.stopping.every}
        for fraction in np.linspace(fractions[above[0]], fractions[above[0] + 1], INSIDE + 2)[1:-1]:
            added.append(network(coarse.task, round(float(fraction), 4), **settings))
    return Sweep.of(added, trials)


def name_of(task: Any) -> str:
    """Return what a task computes, in a few words."""
    if isinstance(task, ModularAddition):
        return f"x+y mod {task.p}"
    return f"composition in {task.group.name}" if isinstance(task, GroupComposition) else str(task.label())


def _counted(results: Results) -> pd.DataFrame:
    """Return one row per kind of network, task and fraction: how many trials there are, and how many generalise."""
    rows = []
    times = results.trials["solved_at"].to_numpy(float, na_value=np.nan)
    for place, steps in zip(results.trials.index.tolist(), times, strict=True):
        trial = results.trial(place)
        assert isinstance(trial.task, PairTask) and isinstance(trial.regime, Split)
        attention = isinstance(trial.model, PairTransformer)
        rows.append(
            (name_of(trial.task), trial.task.order, trial.regime.fraction, attention, place, steps, trial.steps)
        )
    table = pd.DataFrame(rows, columns=["task", "order", "fraction", "attention", "trial", "steps", "budget"])
    table["place_of_task"] = table.groupby(["attention", "task"], sort=False).ngroup()
    by = ["attention", "place_of_task", "task", "order", "fraction"]
    counts = table.groupby(by, as_index=False).agg(
        trials=("steps", "size"),
        solved=("steps", "count"),
        trial=("trial", "first"),
        steps=("steps", lambda times: median(times.to_numpy())),
        budget=("budget", "min"),
    )
    return counts.sort_values(["place_of_task", "fraction"])


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per task and fraction: trials, how many generalised, rate and Wilson interval.

    If there are transformers, they are in a separate table, ``transformers``, with their median steps to generalise and
    the ``budget`` of steps.
    """
    counted = _counted(results)
    low, high = wilson(counted["solved"].to_numpy(), counted["trials"].to_numpy())
    rated = counted.assign(rate=counted["solved"] / counted["trials"], low=low, high=high)
    rated = rated.drop(columns=["trial", "place_of_task", "attention"])
    attention = counted["attention"].to_numpy()
    tables = {"table": rated[~attention].drop(columns=["steps", "budget"]), "transformers": rated[attention]}
    return {name: rows.reset_index(drop=True) for name, rows in tables.items() if len(rows)}


def crossing_draws(rows: pd.DataFrame) -> Float[np.ndarray, " resamples"]:
    """Return the critical fraction of each bootstrap sample, infinite where no fraction suffices.

    Trials of each fraction are resampled from a Beta-smoothed share, (solved + 1/2) / (trials + 1), so that fractions
    with all or none of few trials solved vary too.
    """
    ordered = rows.sort_values("fraction")
    solved, trials = ordered["solved"].to_numpy(int), ordered["trials"].to_numpy(int)
    generator = np.random.default_rng(SEED)
    draws = generator.binomial(trials, (solved + 0.5) / (trials + 1), (RESAMPLES, len(trials))) / trials
    return np.array([(crossings(ordered["fraction"], rates) or [np.inf])[0] for rates in draws])


def critical(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per task: the interpolated fraction at which half generalise, with its bootstrap interval."""
    rows = []
    for task, cells in table.groupby("task", sort=False):
        middle = (crossings(cells["fraction"], cells["solved"] / cells["trials"]) or [np.nan])[0]
        low, high = np.quantile(crossing_draws(cells), [0.025, 0.975], method="nearest").tolist()
        rows.append((task, int(cells["order"].iloc[0]), middle, low, high))
    return pd.DataFrame(rows, columns=["task", "order", "critical", "low", "high"])


def typeset(task: str) -> str:
    """Return an operation's formula for a figure, without its modulus."""
    operation, _, group = task.partition(" mod ")[0].partition(" in ")
    formula = re.sub(r"\^(-?\d)", r"^{\1}", operation.replace("*", ""))
    named = operation if operation == "composition" else f"${formula}$"
    return f"{named} in ${group[0]}_{group[1:]}$" if group else named


def plot(tables: Tables) -> Figure:
    """Draw the share of networks that generalise by fraction, and the critical fraction by operation and modulus.

    Bars are Wilson 95% intervals of shares and 95% bootstrap intervals of critical fractions. Transformers have a
    fourth panel, by operation.
    """
    table = tables["table"]
    fractions = critical(table)
    additions = fractions[fractions["task"].str.startswith("x+y")].sort_values("order")
    modular = fractions["task"].str.contains(" mod ")
    main = fractions[modular].groupby("order").size().idxmax()
    others = fractions[(fractions["order"] == main) | ~modular]
    attention = tables.get("transformers")
    figure, grid = panels(1, 3, height=2.7) if attention is None else panels(2, 2, height=2.4)
    axes = grid.ravel()
    onset, by_operation, by_modulus = axes[:3]
    drawn = [task for task in others["task"] if task.startswith(ONSETS)]
    for place, (task, colour, marker) in enumerate(zip(drawn, COLOURS, "os^", strict=False)):
        rows = table[table["task"] == task]
        at = rows["fraction"] + DODGE * (place - 1)
        style: dict[str, Any] = {"fmt": f"{marker}-", "label": typeset(task)}
        estimates(onset, at, rows["rate"], rows["low"], rows["high"], colour, **style)
    onset.set(xlabel="fraction of pairs for training", ylabel="networks that generalise")
    _critical(by_operation, others, np.arange(len(others)), across=True)
    by_operation.set_yticks(range(len(others)), [typeset(task) for task in others["task"]])
    by_operation.invert_yaxis()
    _critical(by_modulus, additions, additions["order"].to_numpy(float))
    by_modulus.set_xlabel("modulus $p$")
    if attention is not None:
        ax, places = axes[3], range(len(attention))
        estimates(ax, places, attention["rate"], attention["low"], attention["high"])
        ax.set_xticks(places, [typeset(task) for task in attention["task"]])
        ax.set(
            xlim=(-0.5, len(attention) - 0.5), ylim=(-0.05, 1.05), xlabel="operation", ylabel="share that generalise"
        )
        percent(ax)
    percent(onset)
    panel_legend(onset, 3)
    names = [f"By fraction, mod {main} and in a group", f"By operation, mod {main}", "Addition, by modulus"]
    if attention is not None:
        share = f"{100 * attention['fraction'].iloc[0]:.0f}% of the pairs"
        names.append(f"Transformers, mod {attention['order'].iloc[0]}, {share}")
    title_panels(axes, names)
    finding = "Generalisation begins at a critical fraction of the table, which falls as the modulus grows"
    each = f"{table['trials'].median():.0f} networks per fraction"
    intervals = "Wilson 95% intervals of shares, bootstrap 95% intervals of critical fractions"
    title_figure(figure, finding, f"Two-layer quadratic networks, {each}; {intervals}")
    return figure


def _critical(ax: Axes, rows: pd.DataFrame, at: np.ndarray, *, across: bool = False) -> None:
    """Draw critical fractions with intervals, along x or y; words where no fraction suffices."""
    estimates(ax, at, rows["critical"], rows["low"], np.minimum(rows["high"], 1), across=across)
    ax.set(**({"xlabel": CRITICAL, "xlim": (0, 1)} if across else {"ylabel": CRITICAL, "ylim": (0, 1)}))
    for place in at[rows["critical"].isna()]:
        x, y = (0.98, place) if across else (place, 0.98)
        style: dict[str, Any] = {"va": "center", "fontsize": SMALL, "color": GREY, "rotation": 0 if across else 90}
        ax.text(x, y, "no fraction suffices", ha="right", **style)


def findings(tables: Tables) -> dict[str, Any]:
    """Return each task's critical fraction and its interval, None where no fraction suffices, and the growth with p.

    ``growth`` is the least-squares slope, over the moduli of addition, of the logarithm of the critical number of pairs
    against the logarithm of p, with its bootstrap interval. ``transformers`` has how many of them generalise each
    operation, and their median steps to do so, None where under half do.
    """
    table = tables["table"]
    trials = table.groupby("task")["trials"].sum()
    tasks = {
        str(row["task"]): {
            "critical": finite_or_none(row["critical"], 3),
            "interval": [finite_or_none(row[end], 3) for end in ("low", "high")],
            "trials": int(trials[row["task"]]),
        }
        for row in critical(table).to_dict("records")
    }
    attention = {
        str(row["task"]): {
            **{name: int(row[name]) for name in ("trials", "solved")},
            "steps": finite_or_none(row["steps"]),
        }
        for row in tables.get("transformers", pd.DataFrame()).to_dict("records")
    }
    return {"tasks": tasks, "growth": _growth(table), "transformers": attention}


def _growth(table: pd.DataFrame) -> dict[str, Any]:
    """Return how the critical number of pairs of addition grows with p, None with fewer than three moduli."""
    additions = [cells for name, cells in table.groupby("task") if str(name).startswith("x+y")]
    if len(additions) < 3:
        return {"exponent": None, "interval": [None, None]}
    order = np.array([cells["order"].iloc[0] for cells in additions], float)
    middle = [(crossings(cells["fraction"], cells["rate"]) or [np.nan])[0] for cells in additions]
    draws = np.array([crossing_draws(cells) for cells in additions])
    pairs = np.log(np.column_stack([middle, draws]) * order[:, None] ** 2)
    slopes = np.polyfit(np.log(order), pairs, 1)[0] if np.isfinite(pairs).all() else np.full(pairs.shape[1], np.nan)
    low, high = np.quantile(slopes[1:], [0.025, 0.975])
    return {"exponent": finite_or_none(slopes[0], 3), "interval": [finite_or_none(low, 3), finite_or_none(high, 3)]}


EXPERIMENT = Experiment(
    name="critical-fraction",
    shows="Networks generalise from a critical fraction of the table, which depends on the operation and falls with p",
    source="Power et al. (2022), figure 2 (right)",
    scales={
        "smoke": Scale(smoke, trials=3, rounds=1),
        "laptop": Scale(laptop, trials=8, rounds=1),
        "paper": Scale(
            paper, trials=4, rounds=1, part="two-layer networks, three operations mod 97 and three in S5, 1500 steps"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    further=further,
    claims=CLAIMS,
)

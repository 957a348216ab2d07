"""What quadratic networks end as, compared with the analytic solution of addition mod p and its exact accuracy.

Networks have the source's parametrisation and loss, and no regularisation: gradient descent in full batches, and Adam
with the learning rate of the authors' later work. The source gives p = 97, N = 500 and a fraction of 0.49; smaller
numbers are ours. At each width the analytic solution is built with random phases and evaluated on all pairs.

Source: Gromov (2023), sections 2 to 4, figures 1 to 4.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans import random
from elegans.analysis import describe, error_courses, finite_or_none
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP
from elegans.plots.style import (
    COLOURS,
    GREY,
    SMALL,
    logarithmic,
    panel_legend,
    panels,
    percent,
    title_panels,
)
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.studies.modular_grokking.analytic_solution_claims import CLAIMS
from elegans.studies.modular_grokking.probes import AnalyticForm
from elegans.studies.modular_grokking.settings import FITTED, SOLVED, WIDTH, P, mean_field
from elegans.studies.modular_grokking.theory.analytic import analytic_accuracy, analytic_accuracy_bound
from elegans.sweeps import Sweep
from elegans.tasks import ModularAddition, Split
from elegans.training import SGD, Trial

RATES: dict[str, float] = {"gd": 300.0, "adamw": 0.01}
"""Learning rates of W1 and W2; that of gradient descent, of an error averaged over classes, is ours."""
NAMES = {"gd": "gradient descent", "adamw": "Adam"}
WIDTHS = (8, 16, 24, 32, 48, 64, 96)
FRACTIONS = (0.4, 0.5, 0.6, 0.8)
MAIN = 0.7
DRAWS = 20
"""Analytic solutions per width."""
MEASURED, CHECKS = 10, 100
"""Numbers of measurements of the form, and of the errors."""
KEPT = 3
"""Trials whose neurons are kept."""
FORM = ("shares", "phases", "accuracy", "cosines", "frequencies")
SETTING = ["optimiser", "p", "width", "fraction"]


def trained(p: int, width: int, fraction: float, optimiser: str, steps: int, trials: int) -> Sweep:
    """Return networks of one setting."""
    one = mean_field(
        ModularAddition(p=p),
        fraction,
        width=width,
        optimiser=optimiser,
        learning_rate=RATES[optimiser],
        steps=steps,
        every=steps // CHECKS,
    )
    return Sweep(((one, range(trials)),))


def laptop(trials: int) -> Sweep:
    """Return both optimisers on p = 23, and Adam with other widths and fractions."""
    sweep = trained(P, WIDTH, MAIN, "adamw", 2000, trials) + trained(P, WIDTH, MAIN, "gd", 20_000, trials)
    for width in WIDTHS:
        sweep += trained(P, width, MAIN, "adamw", 2000, trials)
    for fraction in FRACTIONS:
        sweep += trained(P, WIDTH, fraction, "adamw", 2000, trials)
    return sweep


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors on all pairs, and the form of the neurons."""
    rule, size = one.stopping, one.regime.sample_size(one.task)
    assert size is not None
    errors = TrainErrorRate(every=rule.every, examples=size), HeldOutErrorRate(every=rule.every, examples=rule.examples)
    return *errors, AnalyticForm(every=one.steps // MEASURED)


def setting_of(one: Trial) -> dict[str, Any]:
    """Return the optimiser, p, width and fraction of a trial."""
    assert isinstance(one.model, MLP) and isinstance(one.regime, Split)
    optimiser = "gd" if isinstance(one.training, SGD) else "adamw"
    return {"optimiser": optimiser, "p": one.task.classes, "width": one.model.width, "fraction": one.regime.fraction}


def analyse(results: Results) -> Tables:
    """Return ``table``, ``course``, ``neurons`` and ``analytic``.

    ``table`` has one row per trial: optimiser, p, width, fraction and seed; ``train_at`` and ``test_at``;
    ``test_error_when_fitted`` and, at the end, ``test_error`` and the numbers of ``AnalyticForm``. ``course`` has the
    medians over the trials of a setting, by step; ``neurons`` one row per neuron of some trials, at the start and the
    end; ``analytic`` one row per p and width: mean, least and largest accuracy of 20 analytic solutions, and the bound.
    """
    trials = results.trials.assign(place=results.trials.index)
    errors = error_courses(trials, results.measures, ["place"], train=FITTED, test=SOLVED)
    described = pd.DataFrame([setting_of(results.trial(place)) for place in trials.index], index=trials.index)
    form = results.measures["analytic-form"].rename(columns={"trial": "place"})
    last = errors.groupby("place").last()
    fitted = errors[errors["step"] == errors["train_at"]].groupby("place")["test_error"].first()
    ends = form.groupby("place").last()[list(FORM)].astype(float)
    table = described.assign(seed=trials["seed"]).join(last[["train_at", "test_at", "test_error"]]).join(ends)
    table = table.assign(test_error_when_fitted=fitted.reindex(table.index))
    both = errors.merge(form[["place", "step", *FORM]], on=["place", "step"]).join(described, on="place")
    names = ["train_error", "test_error", *FORM]
    course = both.astype(dict.fromkeys(FORM, float)).groupby([*SETTING, "step"], as_index=False)[names].median()
    return {
        "table": table.reset_index(drop=True),
        "course": course,
        "neurons": _neurons(form.join(described, on="place"), results),
        "analytic": _analytic(described),
    }


def _neurons(form: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return the neurons of the first trials of each optimiser's first setting."""
    rows = []
    for optimiser, own in form.groupby("optimiser", sort=False):
        first = own[own["width"] == own["width"].iloc[0]]
        first = first[first["fraction"] == own["fraction"].iloc[0]]
        for place in first["place"].unique()[:KEPT]:
            taken = first[first["place"] == place]
            for when, row in (("start", taken.iloc[0]), ("end", taken.iloc[-1])):
                values = {name: np.asarray(row[name], float) for name in ("share", "phase", "size")}
                rows.append(pd.DataFrame({"optimiser": optimiser, "when": when, **values}))
    return pd.concat(rows, ignore_index=True).round(4)


def _analytic(described: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of analytic solutions at the widths of the trials."""
    rows = []
    for p, own in described.groupby("p"):
        for width in sorted(set(own["width"])):
            keys = [random.stream(seed, "probe") for seed in range(DRAWS)]
            found = [analytic_accuracy(int(str(p)), int(width), key) for key in keys]
            ends = {"accuracy": float(np.mean(found)), "low": min(found), "high": max(found)}
            bound = analytic_accuracy_bound(int(str(p)), int(width))
            rows.append({"p": p, "width": width, **ends, "bound": bound, "draws": DRAWS})
    return pd.DataFrame(rows)


def plot(tables: Tables) -> Figure:
    """Draw errors and cosines during training, neurons at the start and the end, and accuracy by width and fraction.

    Lines in the first two panels are medians over trials; points are single networks; the grey band is the range of 20
    analytic solutions, its line their mean, and the dashed line the lower bound.
    """
    table, course = tables["table"], tables["course"]
    kinds = list(dict.fromkeys(table["optimiser"]))
    main = table[table["optimiser"] == kinds[0]].iloc[0]
    figure, axes = panels(2, 3, height=2.5)
    drawn = list(axes.ravel())
    for ax, kind in zip(drawn, kinds, strict=False):
        _course(ax, course[(course["optimiser"] == kind) & _same(course, main, ("p", "width", "fraction"))])
    titles = [f"Errors with {NAMES[kind]}" for kind in kinds[:2]]
    if len(kinds) == 1:
        drawn[1].set_axis_off()
        titles.append("")
    for ax, name in ((drawn[2], "share"), (drawn[3], "phase")):
        _histogram(ax, tables["neurons"], name)
    adam = table[table["optimiser"] == main["optimiser"]]
    _widths(drawn[4], adam[_same(adam, main, ("p", "fraction"))], tables["analytic"].query("p == @main.p"))
    _fractions(drawn[5], adam[_same(adam, main, ("p", "width"))])
    forms = ["Power gathers", "Phases add up"]
    title_panels(drawn, [*titles, *forms, "Small networks do better", "Cosines are right first"])
    return figure


def _same(rows: pd.DataFrame, one: pd.Series, names: Sequence[str]) -> pd.Series:
    return (rows[list(names)] == one[list(names)].to_list()).all(axis=1)


def _course(ax: Axes, rows: pd.DataFrame) -> None:
    for place, (name, label) in enumerate(
        (("train_error", "train error"), ("test_error", "test error"), ("cosines", "error of its cosines"))
    ):
        values = 1 - rows[name] if name == "cosines" else rows[name]
        ax.plot(rows["step"], values, color=(GREY, COLOURS[0], COLOURS[1])[place], linewidth=1.1, label=label)
    ax.set(xlabel="steps", ylabel="error")
    percent(ax)
    panel_legend(ax, columns=2)


def _histogram(ax: Axes, neurons: pd.DataFrame, name: str) -> None:
    top = 1.0 if name == "share" else np.pi
    shown = [("start", neurons[neurons["when"] == "start"], GREY)]
    shown += [
        (f"end, {NAMES[str(kind)]}", own, COLOURS[place])
        for place, (kind, own) in enumerate(neurons[neurons["when"] == "end"].groupby("optimiser", sort=False))
    ]
    for label, own, colour in shown:
        style: dict[str, Any] = {"histtype": "step", "density": True, "color": colour, "linewidth": 1.1}
        ax.hist(own[name], bins=np.linspace(0, top, 21).tolist(), label=label, **style)
    text = "share of power at one frequency" if name == "share" else r"$|\phi_u + \phi_v - \phi_w|$ in radians"
    ax.set(xlabel=text, ylabel="density")
    panel_legend(ax, columns=1)


def _widths(ax: Axes, rows: pd.DataFrame, analytic: pd.DataFrame) -> None:
    ordered = analytic.sort_values("width")
    ax.fill_between(ordered["width"], ordered["low"], ordered["high"], color=GREY, alpha=0.25, linewidth=0)
    ax.plot(ordered["width"], ordered["accuracy"], color=GREY, linewidth=1.1, label="analytic")
    ax.plot(ordered["width"], ordered["bound"], color=GREY, linewidth=0.9, linestyle="--", label="bound")
    ax.plot(rows["width"], rows["accuracy"], ".", color=COLOURS[0], markersize=4, label="trained")
    logarithmic(ax, "x")
    percent(ax)
    ax.set(xlabel="width", ylabel="accuracy on all pairs")
    panel_legend(ax, columns=3)


def _fractions(ax: Axes, rows: pd.DataFrame) -> None:
    for name, label, colour, shift in (("accuracy", "network", 0, -0.006), ("cosines", "its cosines", 1, 0.006)):
        ax.plot(rows["fraction"] + shift, rows[name], ".", color=COLOURS[colour], markersize=4, label=label)
    percent(ax)
    ax.tick_params(labelsize=SMALL)
    ax.set(xlabel="fraction of pairs for training", ylabel="accuracy on all pairs")
    panel_legend(ax, columns=2)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each setting, when networks fit and generalise and how they end; and the analytic accuracies."""
    found: dict[str, Any] = {}
    for _, rows in tables["table"].groupby(SETTING, sort=False):
        one = rows.iloc[0]
        name = f"{NAMES[one['optimiser']]}, p = {one['p']}, width {one['width']}, fraction {one['fraction']:g}"
        quantities = ("train_at", "test_at", "test_error_when_fitted", "test_error", *FORM)
        found[name] = {"trials": len(rows), **{each: describe(rows[each]) for each in quantities}}
    analytic = {
        f"p = {row['p']}, width {row['width']}": {
            name: finite_or_none(row[name], 4) for name in ("accuracy", "low", "high", "bound")
        }
        for row in tables["analytic"].to_dict("records")
    }
    return {"networks": found, "analytic": analytic}


EXPERIMENT = Experiment(
    name="analytic-solution",
    shows="Quadratic networks grok without regularisation, and their cosines are those of the analytic solution",
    source="Gromov (2023), figures 1 to 4",
    scales={
        "smoke": Scale(
            lambda trials: trained(11, 48, MAIN, "adamw", 600, trials) + trained(11, 48, MAIN, "gd", 600, trials),
            trials=2,
        ),
        "laptop": Scale(laptop, trials=8),
        "paper": Scale(
            lambda trials: trained(97, 500, 0.49, "adamw", 2000, trials),
            trials=3,
            part="Adam alone: learning rates of gradient descent are not given",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)

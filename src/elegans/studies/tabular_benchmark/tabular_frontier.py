"""Errors of networks and forests on samples of tables, against the size of the sample (figures 3 and 6)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Option, Results, Scale, Tables, Verdict, claim, parts
from elegans.experiments.claims import HOLDS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, decided, holm, sign_test
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, SMALL, figure_legend, panels, title_figure, title_panels
from elegans.studies.tabular_benchmark.comparisons import PROBES, errors, interval, label_of, selected
from elegans.studies.tabular_benchmark.contrasts import CONTRASTS, differences, summaries
from elegans.studies.tabular_benchmark.published import FORESTS
from elegans.studies.tabular_benchmark.rules import (
    TRIALS,
    benchmark,
    little,
    most_when_small,
    nearly_always,
    per_optimiser,
    sometimes,
    wider,
)
from elegans.studies.tabular_benchmark.settings import decays, laptop, paper, part, smoke
from elegans.tabular.learners import TabularNetwork

SHOWN = {
    "2T: wider is better": "A wider network",
    "3T: sparse:2 is better than dense": "2 non-zeros, not all",
    "sparse:2 is better than sparse:4": "2 non-zeros, not 4",
    "depth 2 is better than 1": "Two hidden layers, not one",
    "weight decay 0.01 changes little": "Weight decay 0.01, not 0",
    "adamw is better than sgd": "AdamW, not SGD",
}
"""The contrasts that are drawn, and the meaning of their second value."""
OPTIMISERS = {"sgd": ("SGD", COLOURS[0]), "adamw": ("AdamW", COLOURS[1])}


def decay_alone(experiment: Experiment) -> Experiment:
    """Return only narrow networks with and without weight decay."""
    part = "1% of the tables at hand, width 100, with and without weight decay"
    scales = {name: Scale(decays, trials=2 if name == "smoke" else 40, part=part) for name in experiment.scales}
    return replace(experiment, scales=scales, plot=None, findings=None)


def analyse(results: Results) -> Tables:
    """Return the errors of every trial, and each sample's best network, best network trained by SGD and best forest."""
    table = errors(results)
    by_sgd = selected(table[table["optimiser"] == "sgd"], "test_error").assign(learner="network by sgd")
    return {"table": table, "best": pd.concat([selected(table, "test_error"), by_sgd], ignore_index=True)}


def plot(tables: Tables) -> Figure:
    """Draw paired differences of errors between two values of a setting: one panel per contrast, one line per table.

    Each seed's sample gives the mean over all pairs of networks that differ in nothing else; marks are medians over
    seeds with 95% bootstrap intervals. To the left of the line the second value is better. Tables with an asterisk are
    parts of the benchmark's.
    """
    table = tables["table"]
    reduced = table.groupby("table", sort=False)["reduced"].first()[::-1]
    drawn = ((contrast.name, differences(table, contrast)) for contrast in CONTRASTS if contrast.name in SHOWN)
    parts = {name: pairs for name, pairs in drawn if len(pairs)}
    columns = min(3, len(parts))
    figure, axes = panels(-(-len(parts) // columns), columns, height=0.14 * len(reduced) + 1.0, sharey=True)
    for ax, pairs in zip(axes.flat, parts.values(), strict=False):
        if "optimiser" not in pairs:
            _marks(ax, pairs, list(reduced.index), "black")
            continue
        for shift, (name, (_, colour)) in zip((0.17, -0.17), OPTIMISERS.items(), strict=True):
            _marks(ax, pairs[pairs["optimiser"] == name], list(reduced.index), colour, shift)
    for ax in axes.flat[: len(parts)]:
        ax.axvline(0, color=GREY, linewidth=0.7, zorder=0)
        ax.set_xlabel("change of the error (points)")
    for ax in axes.flat[len(parts) :]:
        ax.set_axis_off()
    axes[0, 0].set_ylim(-0.6, len(reduced) - 0.4)
    labels = [label_of(str(name), part) for name, part in reduced.items()]
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(labels)), labels, fontsize=SMALL)
    for label, colour in OPTIMISERS.values():
        axes[0, 0].plot([], [], "o", color=colour, markersize=3, label=label)
    title_panels(axes.ravel()[: len(parts)], [SHOWN[name] for name in parts])
    title_figure(
        figure,
        "Wide and sparse networks err less under SGD; under AdamW, which errs least, neither shows",
        f"{len(reduced)} tables; medians over paired trials with 95% bootstrap intervals; left of the line the named "
        "value errs less; * part of the benchmark's table",
    )
    figure_legend(figure, axes[0, 0])
    return figure


def _marks(ax: Axes, pairs: pd.DataFrame, names: Sequence[str], colour: str, shift: float = 0) -> None:
    """Draw a mark with its interval per table."""
    for name, rows in pairs.groupby("table", sort=False):
        errors = interval(rows.groupby("seed")["difference"].mean().to_numpy(float))
        place, middle = names.index(str(name)) + shift, errors["difference"]
        estimates(ax, place, middle, errors["low"], errors["high"], colour, across=True, markersize=2.5, capsize=0)


def findings(tables: Tables) -> dict[str, Any]:
    """Return the summaries of the published contrasts, and where the best network beats the best forest.

    ``train_error`` is the median error on the sample by optimiser, hidden layers and width: how well networks fit it.
    """
    table = tables["table"]
    best = selected(table, "validation_error")
    wide = best.pivot_table(index=["table", "rows"], columns="learner", values="error", sort=False).dropna()
    ahead = wide[wide["network"] < wide["forest"]] if len(wide) else wide
    known = table[(table["learner"] == "network") & table["width"].notna()]
    groups = known.groupby(["optimiser", "depth", "width"])["train_error"]
    return {
        "claims": summaries(table),
        "network_beats_forest": {
            "selected_by": "validation_error",
            "settings": len(wide),
            "ahead": [f"{name}, {rows} rows" for name, rows in ahead.index],
        },
        "train_error": {
            f"{optimiser}, depth {depth:g}, width {width:g}": round(float(errors.median()), 3)
            for (optimiser, depth, width), errors in groups
        },
        "seconds": table.groupby("learner")["seconds"].sum().round(1).to_dict(),
    }


WIDTH, SPARSE, FOUR, TWO_LAYERS, THREE_LAYERS, DECAY = CONTRASTS[:6]
PARTS = {1.0: "all rows", 0.1: "10%", 0.01: "1%"}
ACTS, ACTING = 0.1, 4
"""Learning rate times weight decay times steps from which weight decay can act, and on how many tables it must."""
SETTING = (
    "16 tables, fractions 1 to 0.0001, widths 100 to 30000, depths 1 to 3, 100 epochs, learning rate 0.001; the source "
    "names neither the optimiser, nor the loss (logistic here), nor which layers are sparse (the first here). "
    "Here: the tables at hand, smaller widths"
)
APART = (
    " SGD and AdamW are judged separately, on at least 12 tables with 10 trials; the claim holds in part if it holds "
    "for one and fails for the other. The thresholds are our choices."
)


@claim(
    id="pareto/tabular-beats-forests-sometimes",
    statement="In some settings, but not in all, the best network errs less than the tuned forest.",
    source="abstract, section 4.2 (2T), figure 3, table 2",
    setting=SETTING + "; 108 to 120 networks and 90 forests, selected and reported on the same rows",
    rule="At least 6 tables. Models are selected on validation rows and compared by seed on test rows, on each table "
    "and part of its pool (all, 10%, 1%). A setting counts only if its forest is selected from at least 90, the "
    "published grid. Holds if the network errs less in some of these settings and more in others (sign tests, Holm "
    "over all settings, 1% per direction); fails if it errs more in all, or less in all (sign tests).",
    revised="The error rate was 5%. The rule did not require the network to lose on some table, and a part failed "
    "without a test if no median was smaller. The claim was undecided and still was then, since each part of the pool "
    "had to hold by itself. The source speaks of some settings, so all were then judged together, and the claim held "
    "on the same tables, which we had seen. But every forest there was the best of three, not a tuned one: in the only "
    "setting in which a network led, it erred more than the published tuned forest does. Now forests must be tuned, "
    "and the claim is undecided. This rule was changed after the tables had been seen, too.",
)
def beats_forests(tables: Tables) -> Verdict:
    rows = benchmark(tables)
    rows = rows[~rows["reduced"].astype(bool)]
    named = rows.assign(part=rows["fraction"].map(PARTS)).groupby(["table", "part"])
    each = {(str(table), str(part)): _best_less_forest(cells) for (table, part), cells in named}
    pairs = {setting: values for setting, values in each.items() if len(values) >= TRIALS}
    at_least(6, {table for table, _ in pairs}, f"6 tables with {FORESTS} forests and 10 trials (the scale paper)")
    p = [[sign_test(int((way * values > 0).sum()), len(values)) for values in pairs.values()] for way in (-1, 1)]
    found = [{name for name, q in zip(pairs, holm(one), strict=True) if q <= LEVEL / 2} for one in p]
    found.append({name for name, values in pairs.items() if np.median(values) < 0})
    numbers, because = {}, []
    for name in PARTS.values():
        tried = [table for table, part in pairs if part == name]
        ahead, behind, median_ahead = ([table for table in tried if (table, name) in one] for one in found)
        numbers[name] = {"ahead": ahead, "behind": behind, "median_ahead": median_ahead, "tables": len(tried)}
        because += [
            f"{name}: significantly less on {', '.join(ahead) or 'none'}, more on {', '.join(behind) or 'none'}; less "
            f"in the median on {len(median_ahead)} of {len(tried)}"
        ] * bool(tried)
    alike = any(max(one) <= LEVEL / 2 for one in p)
    return decided(
        bool(found[0] and found[1]), alike, ". ".join(because), numbers, LEVEL, "more trials and wider networks"
    )


def _best_less_forest(rows: pd.DataFrame) -> np.ndarray:
    """Return the paired differences, by seed, of the selected network and a forest selected from as many as published.

    There are none if there are fewer forests.
    """
    chosen = []
    for learner in ("network", "forest"):
        models = rows[rows["learner"] == learner]
        if models["model"].nunique() < (FORESTS if learner == "forest" else 1):
            return np.empty(0)
        best = models.groupby("model")["validation_error"].median().idxmin()
        chosen.append(models[models["model"] == best].set_index("seed")["test_error"])
    return np.asarray((chosen[0] - chosen[1]).dropna(), float)


@claim(
    id="pareto/tabular-width",
    statement="Wider networks have smaller errors, nearly without exception, on tables and on reduced parts of them.",
    source="section 4.2 (2T), figures 3 and 6, appendix C.3 (2T)",
    setting=SETTING,
    rule="Neighbouring widths, depths 2 and 3, two-sparse. Holds if the mean paired differences are negative on "
    "significantly more than half of the tables (sign test) and at most 5% of settings have intervals above 0. Fails "
    "if they are positive on significantly more than half of the tables, or if more than 10% of settings are worse "
    f"after Holm's adjustment. 1% per optimiser.{APART}",
    revised="For AdamW the claim failed because differences were negative on 4 of 12 tables, but no test supported "
    "this. The claim held in part, for SGD; now it is undecided for AdamW, and therefore as a whole.",
)
def width(tables: Tables) -> Verdict:
    return per_optimiser(tables, wider, WIDTH)


@claim(
    id="pareto/tabular-sparse",
    statement="Two-sparse first layers sometimes reduce the error on tables.",
    source="section 4.2 (3T), figures 3 and 6, appendix C.3",
    setting=SETTING,
    rule="At least 20 trials. Sign tests per setting, adjusted by Holm over all settings of an optimiser. Holds if "
    "on at least three tables sparse networks err less at two widths of one sample size. Fails if in every setting "
    "the upper t limit of the mean gain is below one point. SGD and AdamW are judged separately, 1% each, on at least "
    "12 tables; 'sometimes' holds if it does for one, and fails if it fails for both. The thresholds are our choices.",
    revised="For AdamW the claim failed because the gain was not significant in any setting, which does not refute "
    "gains. The claim held in part, for SGD; then it was undecided for AdamW, and therefore as a whole. The error rate "
    "was 2.5% per optimiser. What happens sometimes need not happen under both optimisers, of which the source names "
    "none: on the same tables, which we had seen, the claim holds, by SGD.",
)
def sparse(tables: Tables) -> Verdict:
    both = per_optimiser(tables, sometimes, SPARSE, trials=2 * TRIALS)
    optimisers = [name for name, part in both.numbers.items() if part["verdict"] == HOLDS]
    return both.but(HOLDS, needs="") if optimisers else both


@claim(
    id="pareto/tabular-sparse-most-when-small",
    statement="The gain from sparse initialisation is largest on tables reduced by orders of magnitude.",
    source="section 4.2 (3T), appendix C.3 (3T)",
    setting=SETTING,
    rule="Each table's mean gain at 1% of the pool and below is compared with its gain at 10%, and with its gain at "
    "larger samples: sign tests over tables, 0.5% each. Holds if both differences are positive, in part if one "
    f"is and the other is negative.{APART}",
    revised="The error rate was 2.5% for each test; now it is 0.5%. The claim was undecided and still is.",
)
def sparse_when_small(tables: Tables) -> Verdict:
    return per_optimiser(tables, most_when_small, SPARSE)


@claim(
    id="pareto/tabular-four-worse-than-two",
    statement="Four non-zeros are almost always worse than two.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING,
    rule="The share of settings in which two non-zeros have the smaller median error, by the bootstrap over tables. "
    f"Holds if its lower limit exceeds 75%, fails if its upper limit is below 60% (1% each).{APART}",
    revised="The error rate was 2.5% for each limit; now it is 1%. The claim was undecided and still is.",
)
def four_worse(tables: Tables) -> Verdict:
    return per_optimiser(tables, nearly_always, FOUR)


@claim(
    id="pareto/tabular-one-layer-worse",
    statement="Networks with one hidden layer are almost always worse than deeper ones of the same width.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING,
    rule="The share of settings in which two or three layers have the smaller median error, by the bootstrap over "
    f"tables. Holds if its lower limit exceeds 75%, fails if its upper limit is below 60% (1% each).{APART}",
    revised="The error rate was 2.5% for each limit; now it is 1%. The claim was undecided and still is.",
)
def one_layer_worse(tables: Tables) -> Verdict:
    return per_optimiser(tables, nearly_always, TWO_LAYERS, THREE_LAYERS)


@claim(
    id="pareto/tabular-decay-does-little",
    statement="In the published settings a weight decay of 0.01 instead of 0 has a minimal effect on tables.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING + ". The samples that were run have 19 to 816 rows, so learning rate times weight decay times "
    "steps is at most 0.004: the weight decay cannot act. In the published settings this product passes 0.1 from "
    "25,400 rows on (six tables) and 1 from 256,000 rows on (two tables)",
    rule="The t interval of a table's mean difference (1% over tables), over samples in which learning rate times "
    "weight decay times steps is at least 0.1 (our choice: at 0.004 the claim would hold), on at least four tables. "
    "Holds if it lies within one percentage point on 13 of 16 tables (or the same share of fewer) and outside on none; "
    "fails if it lies outside on one. Without such samples all are judged, which can refute the claim, but not confirm "
    f"it.{APART}",
    revised="The claim was undecided, since networks with weight decay were trained by SGD alone. Narrow networks with "
    "and without it are now trained by both optimisers, on 1% of each table, and the rule was unchanged. It held, "
    "but in these runs the weight decay shrinks weights by less than 1%, so no effect was to be expected. It became "
    "undecided, by rules that let it hold only where weights shrink. But the source speaks of its own settings, in "
    "most of which they do not: only samples of 256,000 rows shrink weights by a factor of e, and two of the 16 tables "
    "have as many. How much weights shrink was then reported, and the claim held. But samples on which weight decay "
    "cannot act say nothing of the larger ones, so these are now needed, and the claim is undecided. Each time the "
    "rule was changed after the tables had been seen.",
)
def decay_little(tables: Tables) -> Verdict:
    verdict, rows = per_optimiser(tables, _little_where_decay_acts, DECAY), benchmark(tables)
    most = float(_shrinks(rows.loc[rows["weight_decay"] == DECAY.pairs[0][1], "rows"]).max())
    because = f"learning rate times weight decay times steps is at most {most:.2g}"
    return verdict.but(because=because, learning_rate_times_decay_times_steps=most)


def _shrinks(rows: "pd.Series[int]") -> "pd.Series[float]":
    """Return learning rate times weight decay times steps for samples of so many rows."""
    model, decay = TabularNetwork(hidden=(1,)), DECAY.pairs[0][1]
    product: pd.Series[float] = model.learning_rate * decay * model.epochs * np.ceil(rows / model.batch_size)
    return product


def _little_where_decay_acts(pairs: pd.DataFrame) -> Verdict:
    acts = pairs[_shrinks(pairs["rows"]) >= ACTS]
    if acts["table"].nunique() >= ACTING:
        return little(acts)
    verdict, needs = little(pairs), f"samples of 25,400 rows or more, from at least {ACTING} whole tables"
    return verdict.but(UNDECIDED, needs=needs) if verdict.verdict == HOLDS else verdict


EXPERIMENT = Experiment(
    name="tabular-frontier",
    shows="On small tables, wide and sparsely initialised networks err less if SGD leaves narrow ones half trained",
    source="figures 3 and 6",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=10),
        "part": Scale(part, trials=20, part="1% and 10% of the tables at hand, networks that cost little, 3 forests"),
        "paper": Scale(paper, trials=100),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=PROBES,
    partial=True,
    claims=[width, sparse, sparse_when_small, four_worse, one_layer_worse, decay_little, beats_forests],
    options={"parts": Option("all, or decay: only networks with and without weight decay", parts(decay=decay_alone))},
)

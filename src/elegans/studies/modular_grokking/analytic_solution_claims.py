"""The claims on quadratic networks: grokking without regularisation, and the form of what is learned."""

import math

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.rules import at_least, by_median, by_share, combine, decided, table

LEAST, OFTEN = 6, 0.5
ACCURATE, ALIGNED, PURE, LATE = 0.99, math.pi / 8, 0.8, 0.5
"""Thresholds, ours: of an accuracy, of the mean phase (pi/2 if random), of the share of power at one frequency, and of
the test error when the training set is fitted."""
NEEDS = "six networks or more of each optimiser that generalise: the laptop scale"


@claim(
    id="modular/groks-without-regularisation",
    statement="Two-layer quadratic networks grok under gradient descent with the mean squared error, without any "
    "regularisation.",
    source="Gromov (2023), section 2, figure 1",
    setting="p = 97, N = 500, fraction 0.49, full batches, learning rate not given; ours: p = 23, N = 128, 0.7",
    rule="The test error is above 50% (ours) when the train error is 1%, and falls to 1% later, in most trials "
    "(exact limits, 5%).",
)
def groks_unregularised(tables: Tables) -> Verdict:
    """Decide whether networks trained by gradient descent alone generalise after they fit."""
    rows = table(tables, "table", NEEDS, optimiser="gd")
    if len(rows) < LEAST or rows["train_at"].isna().all():
        raise InsufficientData(NEEDS)
    late = (rows["test_error_when_fitted"] > LATE) & (rows["test_at"] > rows["train_at"])
    return by_share("networks that generalise after they fit", int(late.sum()), len(rows), above=OFTEN)


@claim(
    id="modular/networks-learn-the-analytic-form",
    statement="Gradient descent and AdamW find the analytic solution: cosines of single frequencies whose phases "
    "add up.",
    source="Gromov (2023), section 4, figures 3 and 4",
    setting="p = 97, N = 500; ours: p = 23, N = 128, fraction 0.7, Adam without weight decay",
    rule="Of networks that generalise, for each optimiser (medians by the range of six or more): replacing neurons "
    "by the cosines of their largest frequency keeps 99% of all pairs; the mean |phi_u + phi_v - phi_w|, weighted "
    "by size, is below pi/8; the mean share of power at one frequency is above 80% (ours).",
)
def learned_form(tables: Tables) -> Verdict:
    """Decide whether networks that generalise have single frequencies, phases that add up, and cosines that suffice."""
    rows = table(tables, "table", NEEDS)
    rows = rows[rows["test_at"].notna()]
    parts = {}
    for optimiser, name in (("gd", "gradient descent"), ("adamw", "Adam")):
        networks = rows[rows["optimiser"] == optimiser]
        networks = at_least(LEAST, networks[networks["width"] == networks["width"].max()], NEEDS)
        cosines, phases, shares = (networks[column] for column in ("cosines", "phases", "shares"))
        parts[f"cosines suffice, {name}"] = by_median("the accuracy of the cosines", cosines, above=ACCURATE)
        parts[f"phases add up, {name}"] = by_median("the mean phase in radians", phases, below=ALIGNED)
        parts[f"one frequency, {name}"] = by_median("the mean share of power", shares, above=PURE)
    return combine(parts)


@claim(
    id="modular/analytic-solution-is-accurate",
    statement="The analytic weights with random phases solve modular addition if the network is wide enough.",
    source="Gromov (2023), section 3",
    setting="p = 97, N = 500; ours: frequencies balanced over neurons",
    rule="Exact counts over all pairs of 20 solutions per width: at all widths of at least 5 p the least "
    "accuracy is at least 99% (ours).",
)
def analytic_suffices(tables: Tables) -> Verdict:
    """Decide whether the analytic solution is right on nearly all pairs once the width is large."""
    needs = "analytic solutions of at least 5 p neurons: the laptop or the paper scale"
    rows = table(tables, "analytic", needs)
    wide = at_least(1, rows[rows["width"] >= 5 * rows["p"]], needs)
    worst = wide.sort_values("low").iloc[0]
    network = f"p = {worst['p']:.0f} and {worst['width']:.0f} neurons"
    least = f"{100 * worst['low']:.2f}% of all pairs"
    because = f"of {worst['draws']:.0f} analytic solutions with {network} the worst is right on {least}"
    numbers = {"least": worst["low"], "mean": worst["accuracy"], "bound": worst["bound"]}
    return decided(worst["low"] >= ACCURATE, worst["low"] < ACCURATE, because, numbers, 0.0, "")


CLAIMS = (
    groks_unregularised,
    learned_form,
    analytic_suffices,
)

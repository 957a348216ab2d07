"""Claims on addition mod p, decided from the tables of ``modular-addition``."""

from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import HOLDS, UNDECIDED
from elegans.experiments.rules import by_share, in_order, table
from elegans.studies.feature_margins.rules import (
    COUNTS,
    MOST,
    SINGLE,
    approaches,
    either,
    last,
    published,
    single_features,
)

P, WIDTH, SEEDS = 71, 500, 6
QUADRATIC, RELU = "quadratic", "ReLU"
NEEDS = "the networks of 500 neurons at p = 71, 6 seeds each: elegans run modular-addition --scale paper"
WIDE = "the networks of at least 2 p^2 neurons mod 7 and 11, 20 seeds each: elegans run modular-addition --scale part"
OFTEN = 0.9
"""The share of networks from which training counts as finding sparse features; ours."""
REACHES = 0.99
"""The ratio from which a network counts as having reached the largest margin."""
SLOPE = -0.5
"""The slope of ln(1 - ratio) on ln(steps) below which the gap counts as vanishing; it tends to 0 if the gap stays."""
ENOUGH = 12
"""The fewest seeds that decide whether gaps vanish: of 12, 10 suffice."""
SPREAD, LOOSE, DISPERSION = 0.15, 0.30, 1.43
"""Total variation of counts from uniform that counts as close, or loosely so; the 95% point of chi^2 / 34."""

SETTING = (
    "p = 71, 500 neurons, gradient descent on all pairs for 40 000 steps, learning rate 0.05 doubled at 1000, 2000, "
    "..., 10 000, penalty 1e-4; not stated: the power r of the penalty (here the degree), initialisation (here "
    "uniform by fan-in), seeds, which neurons count (here those of at least 5% of the largest norm)"
)
MAJORITY = (
    "A seed has the property or not; holds if the exact one-sided 98% limit of the share of seeds exceeds one half "
    "(6 of 6), fails if it is below. "
)


START = sum(1 / rank for rank in range(1, (P + 1) // 2)) / (P // 2)
"""The mean largest share of a Gaussian vector's power in one of the frequencies 1 to (p - 1)/2."""


def rows_of(tables: Tables, name: str, activation: str) -> pd.DataFrame:
    """Return the rows of the published networks."""
    return published(tables, name, NEEDS, SEEDS, p=P, width=WIDTH, activation=activation)


@claim(
    id="margins/mod-reaches-largest-margin",
    statement="A quadratic network trained on addition mod 71 under a small L_{2,3} penalty approaches, and "
    "asymptotically reaches, the largest normalised margin that theory allows.",
    source="figure 7.1(c), section 7.4",
    setting=SETTING + "; not stated: the value reached",
    rule="Section 7.4 says that networks approach the largest margin, figure 7.1(c) that they asymptotically reach it, "
    "which is said of no other task. Approached if the median over seeds, at least 6, of the last ratio to the largest "
    "margin is at least 0.90, as for the other tasks (one-sided limits, which are order statistics, 2%). Reaching it "
    "is asymptotic and judged as a trend, only where the margin is approached: as the steps double from half of them "
    "to all, a seed's gap 1 - ratio has to fall by a factor of at least 1.41, a slope below -0.5 in ln(1 - ratio) on "
    "ln(steps), which is 0 if the gap stays; or its ratio has to be 0.99 (thresholds ours). Holds if, of at "
    "least 12 seeds, the exact one-sided 98% limit of the share of such seeds exceeds one half (10 of 12), in part if "
    "it is below; undecided with fewer seeds; fails if the margin is not approached. The slope over the last quarter "
    "of the steps is reported for each seed. The minimiser at this penalty has ratio 1. Other powers r of the penalty: "
    "scale part, mod 11.",
    revised="The statement was that networks approach the largest margin, with a threshold of 0.99, although other "
    "tasks then had 0.95. Then it named what the figure says as well, and reaching the margin asked for a ratio of "
    "0.99 after 40,000 steps; the claim held in part, for approaching the margin, with 0.973. An asymptotic "
    "statement cannot be refuted at one number of steps, so a trend then decided, and the claim held, by 6 of 6 "
    "seeds. The rule was changed after the tables had been seen. In half of these seeds the gap hardly falls over the "
    "last quarter of the steps, or grows, and a rule that asks for 6 of 6 has no room for an exception. Now 12 seeds "
    "are needed, and the claim is undecided: the margin is approached, and whether it is reached is open.",
)
def largest_margin(tables: Tables) -> Verdict:
    where: dict[str, Any] = {"p": P, "width": WIDTH, "activation": QUADRATIC}
    approached = approaches(tables, NEEDS, least=SEEDS, **where)
    if approached.verdict != HOLDS:
        return approached
    ends, rows = last(tables, NEEDS, **where)["ratio"], table(tables, "margins", NEEDS, **where)
    half = rows[rows["step"] == rows["step"].max() // 2].set_index("seed")["ratio"].reindex(ends.index)
    slopes, reached = np.log2((1 - ends).clip(lower=0) / (1 - half)), ends >= REACHES
    falls = int((reached | (slopes < SLOPE)).sum())
    trend = by_share("seeds whose gap falls by a factor of 1.41 as the steps double", falls, len(ends))
    late = _late_slopes(rows, ends)
    because = f"slopes over the last quarter: {', '.join(f'{slope:+.2g}' for slope in late)}"
    trend = trend.but(
        because=because, slopes=slopes.tolist(), late=late.tolist(), seeds_that_reach_it=int(reached.sum())
    )
    if len(ends) < ENOUGH:
        trend = trend.but(UNDECIDED, needs=f"{ENOUGH} seeds (10 of them decide), on new seeds")
    return in_order({"approaching it": approached, "reaching it": trend})


def _late_slopes(rows: pd.DataFrame, ends: "pd.Series[float]") -> "pd.Series[float]":
    """Return each seed's slope of ln(1 - ratio) on ln(steps) over the last quarter of the steps."""
    steps = rows["step"].max()
    start = rows[rows["step"] <= 0.75 * steps].sort_values("step").groupby("seed").last().reindex(ends.index)
    gaps = (1 - ends).clip(lower=1e-12) / (1 - start["ratio"]).clip(lower=1e-12)
    slopes: pd.Series[float] = np.log(gaps) / np.log(steps / start["step"])
    return slopes


@claim(
    id="margins/mod-single-frequency",
    statement="In the trained quadratic network practically every neuron's embedding has all its Fourier power in "
    "one frequency; at initialisation the power is spread out.",
    source="figures 7.1(b), 7.4(a) and 7.4(c)",
    setting=SETTING + "; not stated: whether a frequency and its negative are one (they must be), the constant term",
    rule=(
        MAJORITY
        + "Property: 95% of all neurons, and all neurons of at least 5% of the largest norm, have power of at least "
        "0.99, and the mean initial power is within 0.1 of that of random vectors, 0.118. Holds in part if only "
        "neurons of at least one half of the norm, or 95% of those of at least 5%, have it (thresholds ours)."
    ),
    revised="The mean initial power had to be below 0.5. It is now compared with that of random vectors. Neurons below "
    "5% of the largest norm, a third of all, did not count; now 95% of all neurons must have the property as well. "
    "Both changes were made after the tables had been seen. The verdict is the same.",
)
def single_frequency(tables: Tables) -> Verdict:
    neurons = rows_of(tables, "neurons", QUADRATIC)
    return single_features(neurons, "neurons are single frequencies", START, of_all=MOST)


@claim(
    id="margins/mod-all-frequencies",
    statement="At least one neuron of the trained network uses each of the (p - 1)/2 frequencies.",
    source="theorem 7.7(2), section 7.4, figure D.1",
    setting=SETTING,
    rule=(
        MAJORITY + "Property: each of 35 frequencies has a neuron of at least 5% of the largest norm. Quadratic "
        "networks are tested and, once they are decided, ReLU networks; the claim holds in part if it holds for one "
        "of the two. Random assignment of 300 neurons misses one with probability below 1%: weak."
    ),
)
def all_frequencies(tables: Tables) -> Verdict:
    parts = {}
    for activation in (QUADRATIC, RELU):
        least = rows_of(tables, "features", activation).groupby("seed")["neurons"].min()
        what = f"{activation} seeds with a neuron of every frequency"
        parts[activation] = by_share(what, int((least >= 1).sum()), len(least)).but(**{"smallest count": least.min()})
    return in_order(parts)


@claim(
    id="margins/relu-nearly-single-frequency",
    statement="With ReLU and an L2 penalty neurons become nearly, but not exactly, single-frequency: the largest "
    "share of power concentrates around 0.9.",
    source="figures 7.1(a) and 7.4(b), section 7.7",
    setting=SETTING.replace("L_{2,3}", "L2") + "; ReLU; other architectures and norms stay undecided",
    rule=(
        MAJORITY + "Property: a median power in [0.85, 0.95], 80% of neurons in [0.80, 0.98], under 5% above 0.99; in "
        "part if the median is in [0.80, 0.98] (our thresholds)."
    ),
)
def nearly_single(tables: Tables) -> Verdict:
    neurons = rows_of(tables, "neurons", RELU)
    powers = neurons[neurons["size"] > COUNTS].groupby("seed")["power"]
    median = powers.median()
    around = powers.agg(lambda shares: shares.between(0.80, 0.98).mean()) >= 0.8
    few = powers.agg(lambda shares: (shares > SINGLE).mean()) < 0.05
    narrow, wide = median.between(0.85, 0.95) & around & few, median.between(0.80, 0.98)
    parts = {
        "powers around 0.9": by_share("seeds with powers around 0.9", int(narrow.sum()), len(median)),
        "a median of 0.80 to 0.98": by_share("seeds with a median of 0.80 to 0.98", int(wide.sum()), len(median)),
    }
    numbers: dict[str, Any] = {"median initial power": neurons["initial_power"].median()}
    return either(parts).but(medians=median.tolist(), **numbers)


@claim(
    id="margins/frequencies-near-uniform",
    statement="Neurons are spread nearly uniformly over the frequencies, in ReLU and in quadratic networks, as in the "
    "construction.",
    source="figure D.1, appendix D.3",
    setting=SETTING + "; not stated: counts and a measure of closeness",
    rule=(
        MAJORITY + "Property: total variation from uniform at most 0.15 and chi^2 / 34 at most 1.43, its 95% point for "
        "random assignment; in part with 0.30 (our thresholds). Quadratic networks, then, if these are decided, ReLU. "
        "All that can be shown is that counts are no more uneven than by chance."
    ),
)
def near_uniform(tables: Tables) -> Verdict:
    parts = {}
    for activation in (QUADRATIC, RELU):
        rows = rows_of(tables, "features", activation)
        counts = rows.pivot(index="seed", columns="feature", values="neurons").to_numpy(float)
        means = counts.mean(axis=1, keepdims=True)
        distance = np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / counts.shape[1]).sum(axis=1) / 2
        index = ((counts - means) ** 2 / means).sum(axis=1) / (counts.shape[1] - 1)
        close, loose = (distance <= SPREAD) & (index <= DISPERSION), distance <= LOOSE
        even = {
            "close": by_share(f"{activation} seeds with counts as even as chance", int(close.sum()), len(counts)),
            "a distance of 0.3": by_share(f"{activation} seeds within 0.3 of uniform", int(loose.sum()), len(counts)),
        }
        parts[activation] = either(even).but(distance=np.median(distance), dispersion=np.median(index))
    return in_order(parts)


@claim(
    id="margins/mod-phases-and-amplitudes",
    statement="The weights of trained quadratic networks agree with the theorem: u, v and w share an amplitude and "
    "their phases add up.",
    source="theorem 7.7(1), section 7.1",
    setting=SETTING + "; not stated: how far phases or amplitudes may deviate",
    rule=(
        MAJORITY
        + "Property: phases off by at most 0.05 rad and amplitudes by at most 0.05 over all neurons of at least 5% of "
        "the largest norm; in part with 0.2 (our thresholds)."
    ),
)
def phases_and_amplitudes(tables: Tables) -> Verdict:
    worst = rows_of(tables, "summary", QUADRATIC)[["phase.largest", "amplitude.largest"]].max(axis=1)
    parts = {}
    for limit in (0.05, 0.2):
        what = f"seeds whose phases and amplitudes are off by at most {limit:g}"
        parts[f"defects of at most {limit:g}"] = by_share(what, int((worst <= limit).sum()), len(worst))
    return either(parts)


@claim(
    id="margins/dense-classifiers-not-reached",
    statement="Training does not find correct classifiers without sparse features, whose margin is lower.",
    source="section 7.1, appendix D.4",
    setting="no experiment besides the main runs; at p = 71 the construction needs 2 p^2 neurons, more than their 500; "
    "that the lower margin is the reason is not tested",
    rule="Networks of 98 and 200 neurons mod 7 and 242 mod 11, 20 seeds each, otherwise as published: a network "
    "counts if it is correct on all pairs, and the median power of its neurons of at least 5% of the largest norm is "
    "at least 0.99 at the end and was below initially. Holds if over 90% of all networks count, fails if fewer (exact "
    "limits, 2%; our thresholds). Training that starts at the dense network is not part of the verdict.",
    revised="A network counted as not dense if its median power was at least one half, which even untrained networks "
    "mod 7 exceed. Now it must be correct and end with single frequencies, which no untrained network does. The "
    "verdict is the same. The statement gave the lower margin as the reason, which the rule does not test.",
)
def not_dense(tables: Tables) -> Verdict:
    neurons = table(tables, "neurons", WIDE, activation=QUADRATIC, p=[7, 11])
    neurons = neurons[(neurons["width"] >= 2 * neurons["p"] ** 2) & (neurons["size"] > COUNTS)]
    at = ["p", "width", "seed"]
    medians = neurons.groupby(at)[["power", "initial_power"]].median()
    ends = table(tables, "margins", WIDE, activation=QUADRATIC, p=[7, 11]).sort_values("step").groupby(at).last()
    correct = ends["accuracy"].reindex(medians.index) == 1
    sparse = correct & (medians["power"] >= SINGLE) & (medians["initial_power"] < SINGLE)
    counts = sparse.groupby(level=["p", "width"]).agg(["sum", "size"])
    if len(counts) < 3 or (counts["size"] < 20).any():
        raise InsufficientData(WIDE)
    verdict = by_share(
        "correct networks whose neurons end as single frequencies", int(sparse.sum()), len(sparse), above=OFTEN
    )
    numbers: dict[str, Any] = {
        **{
            f"p = {p}, {width} neurons": row.tolist()
            for (p, width), row in zip(counts.index, counts.to_numpy(), strict=True)
        },
        "median power": [medians["power"].min(), medians["power"].max()],
        "median power, untrained": [medians["initial_power"].min(), medians["initial_power"].max()],
    }
    untrained = f"untrained networks have a median power of at most {medians['initial_power'].max():.2f}"
    return verdict.but(because=untrained, **numbers)


CLAIMS = (
    largest_margin,
    single_frequency,
    all_frequencies,
    nearly_single,
    near_uniform,
    phases_and_amplitudes,
    not_dense,
)

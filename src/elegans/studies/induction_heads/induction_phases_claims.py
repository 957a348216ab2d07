"""The claims of ``induction-phases``."""

import math

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import HOLDS
from elegans.experiments.rules import LEVEL, by_interval, combine
from elegans.studies.induction_heads.rules import ends_of, first_at, gap_closed, most, near_best, runs_of

NEEDS = "30 seeds of two and three symbols at 100 tokens until losses settle"
CELLS = ("k = 2", "k = 3")
RUNS = 30
ALIKE = 0.25
"""What share of the variance between runs aligning may leave if their dynamics are the same (our choice)."""
DIRECTIONS = ("distance", "reverse")
"""KL(strategy || network) and KL(network || strategy)."""
SETTING = (
    "two layers, one head, width 16, AdamW, batches of 64, 100 tokens, flat rows; learning rate 1e-3, which matches "
    "the printed axis (printed: 3e-5, scale paper); not stated: norms, initial values, weight decay, k of the figures"
)
SEEDS = "30 fresh seeds, k = 2 and 3, 100 checks per run; shown by more than half of the runs (sign test)"
REVISED = (
    "Before, 16 of the first 20 runs were enough (error rate 0.6% per part); now all 30 runs count, and the parts "
    "share an error rate of 2%."
)


def _runs(tables: Tables, cell: str) -> list[pd.DataFrame]:
    return runs_of(tables, NEEDS, trials=RUNS, least_checks=100, cell=cell)


def phases_in_order(run: pd.DataFrame, direction: str) -> bool:
    """Return whether the closest strategies are uniform, unigram and bigram, once each and in this order."""
    distances = run[[f"{direction}.{name}" for name in ("uniform", "unigram", "bigram")]].to_numpy()
    closest = pd.Series(distances.argmin(axis=1))
    return list(closest[closest != closest.shift()]) == [0, 1, 2]


def stages_of_loss(run: pd.DataFrame) -> tuple[bool, bool, bool]:
    """Return whether there is a fast drop to the unigram line, a plateau at it, and a fast second drop."""
    moved, steps, loss = float(run["transition"].iloc[0]), run["step"], run["loss"]
    if not math.isfinite(moved):
        return False, False, False
    line, gap = float(run["line.unigram"].iloc[0]), float((run["line.unigram"] - run["line.bigram"]).iloc[0])
    begun = first_at(run, (loss / line - 1).abs() <= 0.15)
    level = loss[(steps >= 0.25 * moved) & (steps <= 0.75 * moved)]
    flat = len(level) > 1 and (level / line - 1).abs().max() <= 0.2 and level.iloc[0] - level.iloc[-1] < 0.15 * gap
    highest = np.maximum.accumulate(gap_closed(loss, run["line.unigram"], run["line.bigram"]))
    first, last = np.interp((0.3, 0.7), highest, steps)
    return begun < 0.25 * moved, bool(flat), bool(highest[-1] >= 0.7 and last - first < 0.25 * moved)


def crossing(run: pd.DataFrame, direction: str) -> tuple[bool, bool, bool, bool]:
    """Return whether distances to unigrams and bigrams fall, stay apart, diverge at the drop, and cross there.

    A network that equals the unigram strategy can be no nearer to bigrams than unigrams are, which is more than half of
    the first distance at k = 3: the distance to bigrams has to fall by a quarter only.
    """
    moved = float(run["transition"].iloc[0])
    if not math.isfinite(moved):
        return False, False, False, False
    steps = run["step"].to_numpy()
    unigram, bigram = (run[f"{direction}.{name}"].to_numpy() for name in ("unigram", "bigram"))
    times = np.array([0.25, 0.5, 0.9, 1.25]) * moved
    quarter, half, before, after = np.searchsorted(steps, times, side="right") - 1
    falls = unigram[quarter] < unigram[0] / 2 and bigram[quarter] < 0.75 * bigram[0]
    apart = unigram[half] <= bigram[half] / 2
    parting = bigram[after] <= bigram[before] / 2 and unigram[after] >= 2 * unigram[before]
    crossed = first_at(run, (bigram < unigram) & (steps > 0.5 * moved))
    return bool(falls), bool(apart), bool(parting), abs(crossed / moved - 1) <= 0.1


@claim(
    id="induction/phases-uniform-unigram-bigram",
    statement="In training, the network's predictions are closest first to uniform guesses, then to in-context "
    "unigrams, then to in-context bigrams, in this order and once each.",
    source="figures 8.1 (right), 8.3 (top right) and E.7; abstract",
    setting=SETTING + ", except E.7 (k = 2)",
    rule=SEEDS + ": the sequence of closest strategies at all checks is exactly this, by KL(strategy || network) "
    "and by its reverse. The first check is before training. In the median run the uniform stage lasts one or two "
    "checks at k = 2 and two or three at k = 3, so it is hardly more than the start. Four parts share an error rate "
    "of 2%: 23 of 30 runs each",
    revised=f"{REVISED} The verdict is the same.",
)
def phases(tables: Tables) -> Verdict:
    parts = {}
    for cell in CELLS:
        for direction in DIRECTIONS:
            shown = [phases_in_order(run, direction) for run in _runs(tables, cell)]
            parts[f"{cell}, {direction}"] = most(
                "uniform, unigram, bigram, once each", shown, runs=RUNS, level=LEVEL / 4
            )
    return combine(parts)


@claim(
    id="induction/staged-loss-curve",
    statement="The loss falls quickly to about the loss of the unigram strategy, then only slightly for a long "
    "time, until a second, rapid drop.",
    source="section 8.3.1, figure 8.3 (top left); abstract",
    setting=SETTING,
    rule=SEEDS + ", where S is the first check below the middle of unigrams and bigrams. (a) The loss is within 15% "
    "of the unigram line before 0.25 S. (b) From 0.25 S to 0.75 S it is within 20% of this line and falls by less "
    "than 15% of the gap to bigrams. (c) The gap closes from 0.3 to 0.7 in less than 0.25 S (all our choices). Six "
    "parts share an error rate of 2%: 23 of 30 runs each",
    revised=f"{REVISED} Part (b) began at the first check within 15% of the line, and so counted the tail of the "
    "first drop as a fall of the plateau. Now it begins at 0.25 S, before which part (a) wants the first drop to be "
    "over. The plateau failed at both k, and the claim held in part; now the plateau holds at k = 3 and is undecided "
    "at k = 2, and so is the claim. We changed the rule after seeing the tables of the evidence; the run on fresh "
    "seeds, of which the verdicts were known, is undecided as well.",
)
def staged(tables: Tables) -> Verdict:
    parts = {}
    for cell in CELLS:
        shown = np.array([stages_of_loss(run) for run in _runs(tables, cell)])
        for column, name in enumerate(("(a) fast first fall", "(b) plateau", "(c) fast second fall")):
            parts[f"{name}, {cell}"] = most(name, shown[:, column], runs=RUNS, level=LEVEL / 6)
    return combine(parts)


@claim(
    id="induction/final-loss-near-bayes",
    statement="Transformers end near the Bayes-optimal loss, by implementing bigrams.",
    source="sections 8.1 and 8.3.1, figure 8.3 (left)",
    setting=SETTING,
    rule=SEEDS + ": the loss closes 85% of the gap between unigrams and add-one bigrams and is at most twice the loss "
    "of add-one bigrams (our choice; the best linear logits reach 92% and 1.5 times), and bigrams are closest. The "
    "claim would hold in part from about 86% of the gap on, for k = 3, and be undecided below 1.94 times the loss "
    "(1.97 on fresh seeds), for k = 2. In the median run losses still fell by 7% to 10% over the second half of "
    "training. Losses that are not near: in part with half of the gap; undecided while most fall by more than 2% over "
    "the last tenth. Four parts share an error rate of 2%: 23 of 30 runs each",
    revised=f"{REVISED} The verdict is the same.",
)
def near_bayes(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 4
    for cell in CELLS:
        runs = _runs(tables, cell)
        parts[f"loss, {cell}"] = near_best("the final loss", ends_of(runs), runs=RUNS, level=level)
        closest = [run["phase"].iloc[-1] == "bigram" for run in runs]
        name = "bigrams are closest at the end"
        parts[f"closest strategy, {cell}"] = most(name, closest, runs=RUNS, level=level)
    return combine(parts)


@claim(
    id="induction/distances-cross-at-second-drop",
    statement="The distances to unigrams and to bigrams fall quickly at first, the distance to unigrams to a "
    "clearly lower value; about when the loss drops again, the distance to bigrams falls while the distance to "
    "unigrams rises.",
    source="section 8.3.1, figure 8.3 (right)",
    setting=SETTING,
    rule=SEEDS + ", where S is the transition. At 0.25 S the distance to unigrams is below half of its first value and "
    "the distance to bigrams below three quarters; the distance to unigrams is at most half of the distance to "
    "bigrams at 0.5 S; from 0.9 S to 1.25 S the distance to bigrams at least halves and the distance to unigrams at "
    "least doubles; they cross within 10% of S (all our choices); for both directions. Sixteen parts share an error "
    "rate of 2%: 24 of 30 runs each",
    revised=f"{REVISED} By 0.25 S the distance to bigrams had to halve, too. The source says only that it quickly goes "
    "down, and a network that equals the unigram strategy is still at more than half of it at k = 3. This part failed "
    "at k = 3, and the claim held in part; now it holds, and the claim is undecided, because of the drop at k = 2. We "
    "changed the rule after seeing the tables of the evidence; the verdicts on fresh seeds were known; that run "
    "is undecided as well.",
)
def distances_cross(tables: Tables) -> Verdict:
    names = ("both fall first", "unigram's is half of bigram's", "they part ways at the drop", "they cross there")
    parts = {}
    for cell in CELLS:
        for direction in DIRECTIONS:
            shown = np.array([crossing(run, direction) for run in _runs(tables, cell)])
            for column, name in enumerate(names):
                parts[f"{name}, {cell}, {direction}"] = most(name, shown[:, column], runs=RUNS, level=LEVEL / 16)
    return combine(parts)


def left_by_aligning(losses: np.ndarray, times: np.ndarray) -> float:
    """Return what share of the variance between curves is left when time counts from each run's own transition.

    Args:
        losses: gaps closed, shape (runs, 2, places): at shares of the run's own time to the transition, and at the same
            shares of the median time.
        times: the times of the transitions, shape (runs,); times that cannot be used are infinite.
    """
    curves = losses[np.isfinite(times)]
    own, common = ((curves - np.median(curves, axis=0)) ** 2).mean(axis=(0, 2))
    return float(own / common) if common > 0 else 1.0


@claim(
    id="induction/seeds-same-shape-other-times",
    statement="Ten networks of different seeds have the same training dynamics; only the moment of the transition "
    "differs.",
    source="figure E.3",
    setting=SETTING,
    rule="30 fresh seeds, k = 2 and 3: loss curves, as the share of the gap that they close, from a quarter to 1.5 "
    "times the time to the transition. When time counts from each run's own transition, less than a quarter (our "
    "choice) of the variance between runs at equal times is left (bootstrap over runs). All of it is left where "
    "transitions do not differ, or where only they are alike. Runs without a transition cannot be aligned: most runs "
    "must have one (sign test). Both k share an error rate of 2%",
    revised="At first, every run had to show the phases, the plateau of induction/staged-loss-curve and half of the "
    "gap. This demands a shape of our choice instead of the same shape. The latest transition had to take 1.25 times "
    "as long as the earliest, a ratio that grows with the number of seeds. Two later rules also required transitions "
    "to differ, by 10% and by one check, and left the claim undecided on the same runs. That part is unnecessary, "
    "since equal times leave all the variance. The claim held in part, for the times, and now holds. Runs without a "
    "transition were left out however many they were; now most must have one, and the verdict is the same.",
)
def same_shape(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 2
    for cell in CELLS:
        runs = _runs(tables, cell)
        times = np.array([float(run["transition"].iloc[0]) for run in runs])
        if most("a transition", np.isfinite(times), runs=RUNS, level=level).verdict != HOLDS:
            raise InsufficientData(f"a transition in most of {RUNS} runs, {cell}")
        times = np.where(np.isfinite(times), times, np.inf)
        middle, shares = float(np.median(times)), np.linspace(0.25, 1.5, 26)
        closed = [gap_closed(run["loss"], run["line.unigram"], run["line.bigram"]) for run in runs]
        curves = np.array(
            [
                [np.interp(shares * min(unit, run["step"].max()), run["step"], curve) for unit in (moved, middle)]
                for run, curve, moved in zip(runs, closed, times, strict=True)
            ]
        )
        generator = np.random.default_rng(0)
        drawn = (generator.choice(RUNS, RUNS) for _ in range(2000))
        left = [left_by_aligning(curves[rows], times[rows]) for rows in drawn]
        ends = np.quantile(left, [level / 2, 1 - level / 2]).tolist()
        what = "the share of the variance between runs that is left by aligning them"
        alike = left_by_aligning(curves, times)
        parts[cell] = by_interval(what, alike, ends, below=ALIKE, error_rate=level, needs="60 seeds")
    return combine(parts)


CLAIMS = (phases, staged, near_bayes, distances_cross, same_shape)

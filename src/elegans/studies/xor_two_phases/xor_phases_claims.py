"""The claims on runs of the XOR, and the rules that decide them from one row per trial and measured step."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import HOLDS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_pairs, by_rates, combine, decided, table
from elegans.studies.xor_two_phases.rules import by_mean, by_most, slope_on_log
from elegans.studies.xor_two_phases.settings import LEARNING_RATE, MARKS, THETA
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE

BOTH, FALLING = "both layers", "both layers from theta = log(d)^-2"
WITHIN = "both layers from theta = log(d)^-2, with eta = theta and batches of d/theta^2"
FROZEN, FROZEN_SMALL = "second layer frozen", "second layer frozen at theta"
VARIED = (
    *((rate, THETA) for rate in (0.03, 0.3, 1.0, 3.0)),
    *((LEARNING_RATE, theta) for theta in (0.01, 0.3, 1.0)),
)
"""Step sizes and thetas of further runs at d = 64; the source has only powers of log d, and eta <= theta."""
DIMENSIONS = (64, 256)
FALL, SIGNAL, RUNS = 2.0, 1.0, 56
GROWING, WITHIN_SIZES = (32, 64, 128, 256), (16, 32, 64, 96)
"""The powers C and c of Lemma 4.1, theta = log(d)^-C and a signal of log(d)^c theta, the runs per d, and these d: with
steps and batches as in other runs, and within the lemma's hypotheses, for which batches grow as d log(d)^4."""
LEAST, MOST = 29, 76
"""The fewest runs at each d that are judged at all, and the number of runs of both phases that decides."""
CELLS = len(DIMENSIONS) + len(VARIED)
MARGINS = [f"margin_{place}" for place in range(1, 5)]
ASKED = 0.3
"""The smallest margin from which the balance of the four is evaluated."""
RARE = 0.9
"""The share of runs that a statement of a probability near 1 must exceed: 1 - theta of Lemma C.1 at theta = 0.1."""
SIZES = "d = 64 and 256, 256 neurons, theta = eta = 0.1, batches of 10d, eta t = 40 (our choice: the source has none)"


def varied_arm(rate: float, theta: float) -> str:
    """Return the name of the arm of a step size and a theta that are not the usual ones."""
    return f"{BOTH}, eta = {rate:g}, theta = {theta:g}"


def runs(tables: Tables, n: int, arm: str = BOTH, least: int = 10, asked: int | None = None) -> list[pd.DataFrame]:
    """Return the runs of an arm, one table per seed; without the least number, the rule asks for ``asked``."""
    needs = f"{asked or least} runs at d = {n}, {arm}"
    rows = table(tables, "table", needs, arm=arm, task__n=n)
    return at_least(least, [run for _, run in rows.groupby("seed")], needs)


def balance(run: pd.DataFrame) -> "pd.Series[float]":
    """Return the largest of the four margins over the smallest."""
    return run[MARGINS].max(axis=1) / run[MARGINS].min(axis=1)


def growth(run: pd.DataFrame, name: str) -> float:
    """Return the rate of exponential growth of a quantity per unit of eta t."""
    return float(np.polyfit(LEARNING_RATE * run["step"], np.log(run[name]), 1)[0])


def surrogate_error(run: pd.DataFrame) -> float:
    """Return the largest relative error of the median signal that the map of single neurons predicts."""
    return float((run["predicted_signal"] / run["signal"] - 1).abs().max())


@claim(
    id="xor/two-phases",
    statement="Training first finds the signal while the output stays small. It then enters a phase in which the "
    "signal dominates and keeps dominating.",
    source="abstract; sections 1, 4 (Equation 4.1), 4.1 and 4.1.1",
    setting="apart from equation 4.1 the source gives no measurable criteria; not stated: 'small', 'much larger', "
    "theta and eta, apart from powers of log d and eta <= theta. Here theta = eta = 0.1 at d = 64 and 256, and at d "
    "= 64 also eta = 0.03; reported: eta = 0.3 to 3 and theta = 0.01 to 1",
    rule=f"76 runs each, {SIZES}; at d = 64 also eta = 0.03, where it was run. Step sizes above theta, and thetas "
    "other than 0.1, are only reported: the theorem asks for eta <= theta and a small theta. A run has the two phases "
    "if the marks found, dominates and fit come in this order, |f| is at most 0.1 on 4000 held-out examples when the "
    "signal is found, and Equation 4.1 with ratio 10 holds from then on once it is reached (our ratio and thresholds). "
    "Exact one-sided limits compare the share of such runs with 0.9; the three cells have a ninth of 2% each. The "
    "claim holds in part if it holds in some cells and fails in others.",
    revised="The limits had an error rate of 5% each, and 29 of 29 runs held at each d; at 1% the claim was "
    "undecided. It now holds by 76 of 76 runs at each d on new seeds. The source does not state step sizes and "
    "thetas; they are now varied at d = 64, and each is judged. In a trial run of six networks the phases appeared up "
    "to a step size of 1 and a theta of 0.3, but not at a step size of 3 or a theta of 1. On new seeds the claim holds "
    "up to a step size of 0.3 and a theta of 0.1, is open at 1 and 0.3, and fails at 3 and 1: it held, and then held "
    "in part. But the theorem asks for eta <= theta and a small theta, which was overlooked: the cells outside of this "
    "no longer count. The rule was changed after the evidence and the verdict on fresh seeds had been seen; the claim "
    "holds on both. The statement also named independent neurons and balance, which other claims judge.",
)
def two_phases(tables: Tables) -> Verdict:

    def ordered(run: pd.DataFrame) -> bool:
        found, dominates, fit = (float(run[f"{name}_at"].iloc[0]) for name in MARKS)
        small = run.loc[run["step"] == found, "largest"] <= 0.1
        stays = run.loc[run["step"] >= dominates, "dominance"] >= 10
        return bool(found < dominates < fit and small.all() and stays.all())

    what, parts = "runs of both phases in their order", {}
    reported: dict[str, Any] = {}
    for (setting, rate), members in _cells(tables).items():
        part = by_most(what, sum(map(ordered, members)), len(members), above=RARE, level=LEVEL / CELLS)
        if rate <= THETA and setting.endswith(f"theta = {THETA:g}"):
            parts[setting, rate] = {"": part}
        else:
            reported[f"{setting}, rate {rate:g}"] = part.numbers
    return by_rates(parts).but(**reported)


def _cells(tables: Tables) -> dict[tuple[str, float], list[pd.DataFrame]]:
    """Return the runs of each dimension at the usual step size and theta, and of the others where they were run."""
    cells = {(f"d = {n}, theta = {THETA}", LEARNING_RATE): runs(tables, n, BOTH, LEAST, MOST) for n in DIMENSIONS}
    known = set(tables["table"]["arm"])
    for rate, theta in VARIED:
        if (arm := varied_arm(rate, theta)) in known:
            cells[f"d = 64, theta = {theta:g}", rate] = runs(tables, 64, arm, LEAST, MOST)
    return cells


@claim(
    id="xor/phase-one-output",
    statement="At the end of the first phase E||aw|| <= 1 and E||w_perp + w_opp||^2 <= 4 theta^2; for each cluster, "
    "a tenth of all neurons point to it with a signal of log^c(d) theta; E||w||^2 <= E a^2 + sqrt(eta); and |a| <= "
    "||w||.",
    source="Lemma 4.1 (informal), Lemma C.1",
    setting="theta = log^(-C) d, C large compared with c, m >= d/theta^2, eta <= theta, probability 1 - theta; not "
    "stated: c and C",
    rule="56 runs each, d = 16, 32, 64 and 96, theta = eta = log(d)^-2, c = 1, 256 neurons, batches of d/theta^2 "
    "(rounded up), eta t = 16 (our choice: the source has none). (a) A run has the property if at some measured step "
    "all five hold at once: exact one-sided limits of the share against 0.9 at each d (1 - theta is 0.87 to 0.95). (b) "
    "The largest ratio of the tenth's signal to log(d) theta, over the steps at which the other four hold, does not "
    "fall with d: t interval of the slope of its logarithm on log d. Five comparisons share an error rate of 2%. "
    "Otherwise undecided, since the lemma is for large d. Runs at d = 32 to 256 with eta = 0.1 and batches of 10d are "
    "outside the hypotheses and decide nothing.",
    revised="The rule was only (a), with an error rate of 5% each, and the claim held; fresh seeds gave 25 of 29 "
    "runs at d = 256. Then (b) was added, with theta = 0.1 and 0.01 at d = 64 and 256. The lead fell with d, which "
    "decided nothing, since in the lemma theta falls with d. Then theta did so. In four trial runs of each size the "
    "lead grew with d at theta = log(d)^-1.6; at log(d)^-3 it grew up to d = 128 but not to 256. On other seeds, "
    "also fresh ones, the claim held. The last clause was read as o(1), for which 0.1 stood. These changes were made "
    "after the tables had been seen. But all of these runs are outside the hypotheses eta <= theta and m >= "
    "d/theta^2, so the claim was undecided. Runs within them (--parts lemma) are now asked for. In nine trial runs, "
    "at d = 16, 32 and 64, the lead was 1.4 to 3.2 and grew with d; the verdict is from other seeds.",
)
def phase_one_output(tables: Tables) -> Verdict:
    within = WITHIN in set(tables["table"]["arm"])
    arm, sizes = (WITHIN, WITHIN_SIZES) if within else (FALLING, GROWING)
    level = LEVEL / (len(sizes) + 1)
    parts: dict[str, Verdict] = {}
    leads: dict[int, list[float]] = {}
    for n in sizes:
        leads[n] = [_lead(run, n, within) for run in runs(tables, n, arm, LEAST, RUNS)]
        shown = sum(lead >= 1 for lead in leads[n])
        parts[f"d = {n}"] = by_most("runs with such a step", shown, len(leads[n]), above=RARE, level=level)
    of = [n for n, values in leads.items() for _ in values]
    logs = np.log([max(lead, 1e-12) for values in leads.values() for lead in values])
    parts["no fall with d"] = _no_fall(of, logs, level)
    found = combine(parts)
    if within:
        return found if found.verdict == HOLDS else found.but(UNDECIDED, needs="larger d")
    return found.but(UNDECIDED, needs="runs within the hypotheses: --parts lemma")


def _lead(run: pd.DataFrame, n: int, within: bool) -> float:
    """Return the largest ratio of the tenth's signal to log^c(d) theta while the other four hold, or 0."""
    theta = math.log(n) ** -FALL
    steps = (
        (run["heaviness"] <= 1)
        & (run["noise"] <= 4 * theta**2)
        & (run["weight_square"] <= run["output_square"] + math.sqrt(theta if within else LEARNING_RATE))
        & (run["excess"] <= 1e-6)
    )
    signal = float(run.loc[steps, "tenth"].max()) if steps.any() else 0.0
    return signal / float(math.log(n) ** SIGNAL * theta)


def _no_fall(n: Sequence[int], leads: np.ndarray, level: float) -> Verdict:
    """Decide whether the logarithm of the signal's lead does not fall with log d; a fall leaves it undecided."""
    slope, (low, high) = slope_on_log(pd.Series(n), leads, level)
    because = f"the logarithm of the signal's lead changes by {slope:.3g} ({low:.3g} to {high:.3g}) per unit of log d"
    return decided(low >= 0, False, because, {"slope": slope, "interval": [low, high]}, level, "larger d")


@claim(
    id="xor/exponential-rate",
    statement="Near initialisation, signal parts grow exponentially at the rate 1/sqrt(2 pi), and opposite parts "
    "shrink at the same rate.",
    source="Equation 4.3; the rate in section C.2",
    setting="signal and opposite part are far below the rest; not stated: how far",
    rule=f"At least 10 runs each, {SIZES}. While the median signal is below a quarter of the rest, the logarithms of "
    "the medians over neurons have slopes against eta t whose t intervals lie within 5% of the rate (our choice): "
    "for both parts and both d, at 0.5% each. Minibatch noise keeps opposite parts above 0.",
    revised="The intervals were at 95% each, and the claim held. At 99.5% the interval of the opposite part at d = 64 "
    "crossed the threshold, so the claim was undecided. It now holds by 76 runs on new seeds.",
)
def exponential_rate(tables: Tables) -> Verdict:
    parts = {}
    for n in DIMENSIONS:
        early = [run[(run["signal"] < run["rest"] / 4).cummin()] for run in runs(tables, n)]
        for name, sign in (("signal", 1), ("opposite", -1)):
            rates = [sign * growth(run, name) for run in early]
            ends = (0.95 * PHASE_ONE_RATE, 1.05 * PHASE_ONE_RATE)
            parts[f"{name}, d = {n}"] = by_mean(f"the rate of the {name} part", rates, *ends, level=LEVEL / 4)
    return combine(parts)


@claim(
    id="xor/neurons-independent",
    statement="In the first phase many neurons evolve independently, as if the output were 0. The parts outside the "
    "signal plane hardly move, and |a| stays close to ||w||.",
    source="sections 1, 4 and 4.1; conditions C3 and C4 of Definition C.9",
    setting="the source states no number",
    rule=f"At least 10 runs each, {SIZES}. Eight t intervals of means over runs share an error rate of 2%. Until the "
    "signal is found, the map of single neurons errs by at most 10% in its median, and the root of E||w||^2 / E "
    "a^2, in which no |a| exceeds ||w||, by at most 10% from 1. While the median signal is below a quarter of the "
    "rest, the rest moves by at most 25% (our thresholds). The claim is undecided unless the median signal grows at "
    "least fourfold by the time the signal is found.",
    revised="There were six intervals of 95% each, a total error rate of up to 30%. No part required the signal to "
    "grow, so networks that do not move passed. Then |a| was compared with its own start instead of ||w||. The changes "
    "were made after the tables had been seen. The verdict is the same.",
)
def neurons_independent(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 8
    for n in DIMENSIONS:
        members = runs(tables, n)
        early = [run[(run["signal"] < run["rest"] / 4).cummin()] for run in members]
        before = [run[run["step"] < run["found_at"]] for run in members]
        errors = list(map(surrogate_error, before))
        growth = [float(np.log(run["signal"].iloc[-1] / run["signal"].iloc[0])) for run in before if len(run)]
        what = "the logarithm of the factor by which the median signal grows"
        grows = by_mean(what, growth, above=math.log(4), level=level)
        if grows.verdict != HOLDS:
            return grows.but(UNDECIDED, needs=f"runs at d = {n} whose signal grows fourfold before it is found")
        moved = [run["moved"].max() for run in early]
        apart = [math.sqrt((run["weight_square"] / run["output_square"]).max()) - 1 for run in before]
        what = "the largest error of the median signal"
        parts[f"map of single neurons, d = {n}"] = by_mean(what, errors, below=0.1, level=level)
        parts[f"rest, d = {n}"] = by_mean("what the rest moves", moved, below=0.25, level=level)
        parts[f"output weights, d = {n}"] = by_mean("their distance from ||w||", apart, below=0.1, level=level)
    return combine(parts)


@claim(
    id="xor/margins-balance",
    statement="In the second phase the weakest cluster's margin grows fastest, so the margins equalise.",
    source="section 4.1.1; Lemma 4.4 (items 2 and 3); Lemma D.3; section 5",
    setting="asymptotic; the source states no number",
    rule=f"At least 10 runs each, {SIZES}. The ratio of the largest margin to the smallest falls from the step at "
    "which all margins are 0.3 to the end (sign test), and its mean at the end is below 1.1 (t interval): both at "
    "both d, at 0.5% each (our thresholds). Deliberately unbalanced starts were not tried.",
    revised="The error rate was 5% for each of four comparisons. The verdict is the same.",
)
def margins_balance(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 4
    for n in DIMENSIONS:
        courses = [balance(run[run["fit"] >= ASKED]) for run in runs(tables, n)]
        if not all(map(len, courses)):
            raise InsufficientData(f"runs at d = {n} whose margins all reach {ASKED}")
        first, last = ([course.iloc[end] for course in courses] for end in (0, -1))
        parts[f"falls, d = {n}"] = by_pairs("ratios that fall", np.subtract(first, last), level=level)
        what = "the largest margin over the smallest at the end"
        parts[f"balances, d = {n}"] = by_mean(what, last, below=1.1, level=level)
    return combine(parts)


@claim(
    id="xor/both-layers-amplify",
    statement="When both layers train, the signal of heavy neurons grows exponentially; with fixed output weights it "
    "grows linearly.",
    source="introduction; Remark 4.3",
    setting=(
        "output weights of norm 1; not stated: the size of hidden weights (here 0.1, and also 0.1 for both layers)"
    ),
    rule="10 paired runs at d = 64. Between found and fit, the heavy neurons' median signal is closer to a straight "
    "line on a logarithmic axis with both layers, and on a linear axis with output weights frozen at 1 and at theta. "
    "The three sign tests share an error rate of 2%. The imbalance of margins at the end and the mass of other "
    "neurons, which the remark says might grow at the same rate, are reported.",
    revised="The error rate was 5% for each of four sign tests. The fourth compared the imbalance of margins at the "
    "end, of which the source says nothing here; it is now reported. The verdict is the same.",
)
def both_layers(tables: Tables) -> Verdict:
    both, frozen, small = (runs(tables, 64, arm) for arm in (BOTH, FROZEN, FROZEN_SMALL))
    differences = {
        "both layers: growth straighter in the logarithm": [_straighter(run) for run in both],
        "frozen at 1: growth straighter as it is": [-_straighter(run) for run in frozen],
        "frozen at theta: growth straighter as it is": [-_straighter(run) for run in small],
    }
    parts = {name: by_pairs("runs", values, level=LEVEL / 3) for name, values in differences.items()}
    numbers: dict[str, Any] = {
        "imbalance_at_the_end, frozen at 1 less both layers": [
            balance(one).iloc[-1] - balance(other).iloc[-1] for one, other in zip(frozen, both, strict=False)
        ],
        "light_over_heavy_mass_at_the_end, frozen at 1": [(1 / run["heavy_mass"] - 1).iloc[-1] for run in frozen],
    }
    return combine(parts).but(**numbers)


def _straighter(run: pd.DataFrame) -> float:
    """Return by how much a line fits log s better than s, between found and fit (or the end)."""
    start, end = float(run["found_at"].iloc[0]), float(run["fit_at"].iloc[0])
    middle = run[(run["step"] >= start) & (run["step"] <= (end if np.isfinite(end) else math.inf))]
    if len(middle) < 4:
        return 0.0
    x, s = middle["step"].to_numpy(float), middle["heavy_signal"].to_numpy(float)
    return float(np.corrcoef(x, np.log(s))[0, 1] ** 2 - np.corrcoef(x, s)[0, 1] ** 2)


CLAIMS = (two_phases, phase_one_output, exponential_rate, neurons_independent, margins_balance, both_layers)

"""The lemmas on disjoint PolyNets, computed: gradient flow, the exact error, and the time on the plateau.

Names of checks that end in ``as printed`` test forms that the thesis prints with an error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf

from elegans.calculators.domain import Form
from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import checked, theorem
from elegans.studies.hidden_progress.theory import gradient_flow
from elegans.studies.hidden_progress.theory.disjoint import (
    disjoint_error,
    disjoint_error_bounds,
    plateau_level,
    plateau_ratio,
)

Rows = Iterator[dict[str, Any]]
FLOW, ERROR = "progress/lemma-b8", "progress/lemma-b9"
SHARES, PLATEAU = "progress/corollary-b10", "progress/theorem-5.7"
PRINTED = ", as printed"
FORMS: dict[Form, str] = {"corrected": ", corrected", "printed": PRINTED}
CROSSINGS = ("first", "last")
CLOSE = 1e-6
"""The largest relative deviation of an integrated flow."""
DEGREES = (3, 4, 5)
CHANCE_GAP = 0.01
"""How far below 1/2 the error is at the end of the plateau."""
SLOPE, LOG_SLOPE = 0.1, 0.2
"""By how much a slope may miss its exponent, without and with neglected logarithms (our choice)."""


def flows(starts: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma B.8 along integrated flows from normal starts with a positive product."""
    generator = np.random.default_rng([8, first_seed])
    found: dict[str, list[float]] = {}
    undefined = -math.inf
    for number in range(starts):
        k = 2 + number % 5
        squares, start = _positive(generator.normal(size=k))
        end = gradient_flow.flow_time(start) if k > 2 else 2.0
        times = [0.3 * end, 0.7 * end, 0.95 * end]
        growth = gradient_flow.relevant_flow(start, times) ** 2 - squares
        spread = np.abs(growth - growth[:, :1]).max(axis=1) / (1 + growth[:, 0])
        found.setdefault("squares grow by the same", []).extend(spread)
        low, high = gradient_flow.flow_growth_bounds(start, times)
        beyond = np.maximum(low - growth[:, 0], growth[:, 0] - high) / (1 + growth[:, 0])
        found.setdefault("growth beyond its bounds", []).extend(beyond)
        if k == 2:
            continue
        first, last = gradient_flow.flow_explosion_bounds(start)
        found.setdefault("explosion beyond its bounds", []).append(max(first - end, end - last) / end)
        block = int(squares.argmax())
        for level in abs(start[block]) * np.array([1.0, 1.2, 5.0, 50.0]):
            time = gradient_flow.flow_level_time(start, level, block)
            early = gradient_flow.flow_level_bound(start, level, block) - time
            late = end - time - gradient_flow.flow_remaining_bound(start, level, block)
            found.setdefault("times of levels beyond their bounds", []).append(max(early, late) / end)
        # at b = 0 the base of the printed power is the mean less v_i(0)^2
        undefined = max(undefined, float(start[block] ** 2 - np.exp(np.log(squares).mean())))
    for name, worst in found.items():
        yield check(FLOW, name, worst, CLOSE)
    yield check(FLOW, f"levels below |v_i(0)|: powers of negative numbers{PRINTED}", undefined, 0)


def errors(networks: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma B.9: both bounds against the exact error, and where the printed ones fail."""
    generator = np.random.default_rng([9, first_seed])
    made = [generator.integers(1, 4, (3, 9)) * generator.choice([-1, 1], (3, 9)) for _ in range(networks)]
    for weights in made:
        weights[:, 0] = generator.integers(1, 12, 3)
    signs = []
    for block, k, relevant in ((11, 3, 9.7), (10, 3, 1.5), (50, 3, 1.5), (25, 2, 4.5), (25, 4, 7.5)):
        signs.append(np.ones((k, block)))
        signs[-1][:, 0] = relevant
    every = [weights.astype(float) for weights in made] + signs
    exact = np.array([float(disjoint_error(weights.tolist())) for weights in every])
    for form, marked in FORMS.items():
        bounds = [disjoint_error_bounds(weights, form) for weights in every]
        low, high = (np.array([float(own[side]) for own in bounds]) for side in (0, 1))
        yield check(ERROR, f"lower bound less the error{marked}", low - exact, 1e-12)
        yield check(ERROR, f"error less the upper bound{marked}", exact - high, 1e-12)


def plateau_shares(largest: int, sizes: int) -> Rows:
    """Yield the checks of Corollary B.10: exact shares of time from signs, against n' and against gamma."""
    blocks = _blocks(largest, sizes)
    for k in DEGREES:
        left = [_after(block, k, CHANCE_GAP, "last") for block in blocks]
        yield check(SHARES, f"k = {k}: slope in n' above 1 - k/2", _slope(blocks, left) - (1 - k / 2), SLOPE)
        gammas = np.geomspace(max(0.001, (10 / largest) ** (k / 2)), 0.1, sizes)
        left = [_after(largest, k, float(gamma), "last") for gamma in gammas]
        yield check(SHARES, f"k = {k}: slope in gamma below 2/k - 1", 2 / k - 1 - _slope(gammas, left), SLOPE)


def plateaus(largest: int, sizes: int, blocks: Sequence[int], draws: int, first_seed: int) -> Rows:
    """Yield the checks of Theorem 5.7: how the share of time after the plateau falls with n', from both starts."""
    every = _blocks(largest, sizes)
    for k in DEGREES:
        for crossing in CROSSINGS:
            excess = _slope(every, [_after(block, k, CHANCE_GAP, crossing) for block in every]) - (1 - k / 2)
            yield check(PLATEAU, f"all-ones start, k = {k}, {crossing} times: slope above 1 - k/2", excess, SLOPE)
    generator = np.random.default_rng([57, first_seed])
    for k in DEGREES:
        drawn = [np.array([_normal_start(generator, block, k) for _ in range(draws)]) for block in blocks]
        for place, crossing in enumerate(CROSSINGS):
            left = [float(np.quantile(own[:, place], 0.9)) for own in drawn]
            excess = _slope(blocks, left) - (1 - k / 2)
            yield check(PLATEAU, f"normal start, k = {k}, {crossing} times: slope above 1 - k/2", excess, LOG_SLOPE)


def _blocks(largest: int, sizes: int) -> list[int]:
    """Return the block sizes for fitting slopes: many, since sums of signs turn the share into a staircase."""
    return [int(block) for block in np.unique(np.geomspace(50, largest, sizes).astype(int))]


def _after(block: int, k: int, gamma: float, crossing: str) -> float:
    """Return the exact share of time after the plateau from signs; last times leave out ties at single instants.

    Those ties take up no time, but hide the order in n' unless it is far beyond (k / gamma)^2.
    """
    if crossing == "first":
        return 1 - plateau_ratio(block, k, gamma, "first")
    return float(plateau_level(block, k, gamma, "first")) ** (2 - k)


def _normal_start(generator: np.random.Generator, block: int, k: int) -> tuple[float, float]:
    """Return the shares of time after the plateau of a flow from normal weights, by first and by last times.

    Sums of irrelevant weights are taken as normal at the plateau's end, as ``disjoint_error_normal`` does. An error of
    0 is first reached where every relevant weight exceeds the sum of its block's irrelevant ones, and the error is 0
    last at the explosion.
    """
    weights = generator.normal(size=(k, block))
    squares, start = _positive(weights[:, 0])
    norms, sums = np.linalg.norm(weights[:, 1:], axis=1), np.abs(weights[:, 1:]).sum(axis=1)

    def above(growth: float) -> float:
        return float(erf(np.sqrt(squares + growth) / (math.sqrt(2) * norms)).prod() - 2 * CHANCE_GAP)

    left = brentq(above, 0.0, 100.0 * block) if above(0.0) < 0 else 0.0
    plateau, end = gradient_flow.flow_time(start, left), gradient_flow.flow_time(start)
    perfect = gradient_flow.flow_time(start, max(0.0, float((sums**2 - squares).max())))
    return 1 - plateau / perfect, 1 - plateau / end


def _positive(start: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Return the squares of weights, and the weights, the first one's sign chosen so that their product is positive."""
    sign = np.sign(start.prod())
    return start**2, [float(sign * start[0]), *map(float, start[1:])]


def _slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        lambda seed: flows(20, seed),
        lambda seed: errors(10, seed),
        lambda _: plateau_shares(400, 25),
        lambda seed: plateaus(400, 25, (25, 100, 400), 40, seed),
    ),
    "paper": (
        lambda seed: flows(1000, seed),
        lambda seed: errors(200, seed),
        lambda _: plateau_shares(1600, 40),
        lambda seed: plateaus(1600, 40, (25, 100, 400, 1600), 400, seed),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check; starts and networks are drawn from the run's first seed."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


CLAIMS = (
    Claim(
        id="progress/lemma-b8",
        statement="Under gradient flow all squared relevant weights of a disjoint PolyNet grow by the same amount, "
        "which lies between two closed forms; the times to pass a level and to explode obey the printed bounds.",
        source="Lemma B.8, equations B.7 and B.8",
        setting="k > 2 (the proof has k = 2), positive product, any levels b",
        rule="Flows from 1000 normal starts, k = 2 to 6, integrated to a relative error of 1e-9 or by quadrature, "
        "violate no bound by more than 1e-6. Levels are b >= |v_i(0)|; for smaller levels the printed powers must "
        "have bases of at least 0.",
        decide=theorem("progress/lemma-b8", part="levels of at least |v_i(0)|"),
    ),
    Claim(
        id="progress/lemma-b9",
        statement="The error of a disjoint PolyNet lies between a product of error functions with a Berry-Esseen term "
        "and twice a sum of exponentials.",
        source="Lemma B.9",
        setting="c = 0.56 in practice, any weights with a positive product",
        rule="The exact error of 200 random networks of whole numbers and five of signs is compared with both bounds, "
        "as printed and with the exponent v^2/(2 ||u||^2) and the term 2c ||u||_inf/||u||_2. One violation decides. "
        "The source says only that there is a constant c. The printed term shrinks when all weights are multiplied by "
        "a constant, while the error does not change, so no c mends it.",
        decide=theorem("progress/lemma-b9", "the corrected exponent and Berry-Esseen term"),
    ),
    Claim(
        id="progress/corollary-b10",
        statement="From random signs with a positive product, 1 - T(1/2 - gamma)/T(0) is O(n'^(1 - k/2) gamma^(2/k - "
        "1)).",
        source="Corollary B.10",
        setting="gamma in (0, 1/2), k >= 3; T is the last time with at least that error",
        rule="Computed exactly, except for ties at single instants, for k = 3, 4, 5. Over 40 block sizes from 50 to "
        "1600 at gamma = 0.01, the logarithmic slope in n' is at most 1 - k/2 + 0.1. Over 40 gammas up to 0.1 with n' "
        "gamma^(2/k) >= 10 at n' = 1600, the logarithmic slope in gamma is at least 2/k - 1 - 0.1. The tolerances are "
        "ours.",
        decide=checked("progress/corollary-b10"),
        revised="In a first computation, which kept ties at single instants and fitted few sizes, the slopes missed "
        "the limits. Ties last no time, and sums of signs turn the shares into a staircase in n'. The rule now leaves "
        "ties out and fits 40 sizes. The limits are unchanged.",
    ),
    Claim(
        id="progress/theorem-5.7",
        statement="Gradient flow on a disjoint PolyNet with k >= 3 spends all but a share O(n'^(1 - k/2)) of its time "
        "before convergence at an error of at least 49%.",
        source="Theorem 5.7, main text and full statement; Informal Theorem 5.3",
        setting="correlation loss, positive product; a start from ones, or a normal start with probability 1 - "
        "1/poly(n'); T is the first time with at most, or the last with at least, an error",
        rule="The slope of log(1 - T(0.49)/T(0)) against log n', for k = 3, 4, 5 and both definitions of T. From "
        "ones, computed exactly except for ties at single instants, over 40 sizes from 50 to 1600: at most 1 - k/2 + "
        "0.1. From normal starts, the 90% quantile of 400 at n' = 25, 100, 400, 1600, with normal sums at the "
        "plateau's end: at most 1 - k/2 + 0.2, to allow for logarithms. The tolerances are ours.",
        decide=checked("progress/theorem-5.7"),
        revised="In a first computation from ones, which kept ties at single instants and fitted the sizes 25, 100, "
        "400 and 1600, the slopes missed the limit. Ties last no time, and sums of signs turn the shares into a "
        "staircase in n'. The rule now leaves ties out and fits 40 sizes. The limits are unchanged.",
    ),
)
EXPERIMENT = Experiment(
    name="disjoint-lemmas",
    shows="Gradient flow on disjoint parities spends nearly all its time on a plateau, within closed bounds",
    source="Lemmas B.8 and B.9, Corollary B.10, Theorem 5.7",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)

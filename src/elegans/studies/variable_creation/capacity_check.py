"""The capacity of attention heads: consequences of the bounds, the lemmas that they rest on, and the lower bound.

The bounds have unnamed constants, so consequences are checked: how they grow with T, H and L, and whether they depend
on units. The lemmas are inequalities without free constants: both sides are compared on random instances and after
searching for violations.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from elegans.calculators.domain import Form
from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import checked
from elegans.studies.variable_creation.theory.capacity import (
    BlockNorms,
    HeadForm,
    HeadNorms,
    depth_capacity,
    head_capacity,
    heads_capacity,
)
from elegans.studies.variable_creation.theory.covering import cover_allocation, head_change, head_cover, matrix_cover
from elegans.studies.variable_creation.theory.normalisation import softmax, softmax_change, softmax_truncation
from elegans.studies.variable_creation.theory.norms import project_to_ball, token_norm
from elegans.studies.variable_creation.theory.perturbation import (
    Block,
    attention_block,
    attention_output,
    block_change_bound,
    input_change_bound,
    readout_change_bound,
    weight_change_bound,
)
from elegans.studies.variable_creation.theory.selection import selection_norms
from elegans.studies.variable_creation.theory.shattering import attention_shattering

Rows = Iterator[dict[str, Any]]
CAPACITY, END = "variables/log-t-capacity", "variables/end-to-end-log-t"
DEPTH, PDIM, LIPSCHITZ = "variables/depth-factor-avoidable", "variables/proposition-4.8", "variables/lipschitz-lemmas"
BOUND = 1 + 1e-9
HEAD_FORMS: dict[str, HeadForm] = {
    "with the 2 and B_X^2": "corrected",
    "as its proof": "unit-query",
    "as in the appendix": "printed",
    "as in the main text": "printed-main",
}


def capacities(first_seed: int) -> Rows:
    """Yield the checks of the capacity's dependence on T, H and units, and of the split of an error."""
    from scipy.optimize import minimize

    contexts = 10.0 ** np.arange(2, 7)
    # all constants of lemmas A.10 and 4.10 in theorem 4.6, for 1000 sequences of tokens of dimension 64
    covers = [lambda epsilon, points=1000 * int(T): matrix_cover(1.0, 1.0, points, epsilon, 64) for T in contexts]
    sizes = np.array([head_cover(cover, cover, 0.5) for cover in covers])
    fit = np.polyval(np.polyfit(np.log(contexts), sizes, 1), np.log(contexts))
    yield check(CAPACITY, "explicit chain: off a line in log T", np.abs(sizes / fit - 1), 0.01)
    generator, off = np.random.default_rng([8, first_seed]), []
    for _ in range(20):
        alpha, beta = generator.uniform(0.1, 10, (2, 4))

        def cost(shares: np.ndarray, alpha: np.ndarray = alpha, beta: np.ndarray = beta) -> float:
            parts = np.exp(shares - np.logaddexp.reduce(shares)) / beta
            return float((alpha / parts**2).sum())

        least = minimize(cost, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).fun
        off.append(abs(float(least) / cover_allocation(alpha.tolist(), beta.tolist(), 1.0).value - 1))
    yield check(CAPACITY, "lemma A.8: allocation off a numerical optimum", off, 1e-8)
    one = HeadNorms(1.3, 0.7, 2.0)
    cubes = [heads_capacity([one] * H, 10**5, d=32) / heads_capacity([one], 10**5, d=32) / H**3 for H in range(1, 17)]
    yield check(CAPACITY, "H equal heads: off H^3", np.abs(np.array(cubes) - 1), 1e-10)
    for name, form in HEAD_FORMS.items():
        scaled = [
            head_capacity(2 / c, 1.5 / c, 3 / c**2, 10**4, d=16, input_norm=1.2 * c, form=form) for c in (1.0, 2.0, 0.5)
        ]
        described = f"one head, {name}: change with units{', as printed' * (form != 'corrected')}"
        yield check(CAPACITY, described, np.abs(np.array(scaled) / scaled[0] - 1), 1e-10)


def end_to_end() -> Rows:
    """Yield the exponent of log T with which the capacity of the constructed heads grows."""
    contexts = [10**power for power in range(2, 13)]
    sizes = [_constructed(T) for T in contexts]
    power = float(np.polyfit(np.log(np.log(contexts)), np.log(sizes), 1)[0])
    slope = float(np.polyfit(np.log(contexts[-4:]), np.log(sizes[-4:]), 1)[0])
    yield check(END, "power of log T of the capacity, as printed", power, 1.1)
    local = [math.log(_constructed(10**n) / _constructed(10 ** (n - 1))) / math.log(n / (n - 1)) for n in range(3, 201)]
    yield check(END, "local power of log T of the capacity up to T = 10^200", local, 3.0)
    yield check(END, "power of T of the capacity from T = 10^9 on", slope, 0.15)


def _constructed(T: int) -> float:
    """Return the capacity of one head with the norms of the construction at s = 3, on 1000 sequences."""
    norms = selection_norms(T, 3, 2 / 3)
    merged = norms.query * norms.key
    return head_capacity(norms.value, norms.value, merged, 1000 * T, d=T + 3, input_norm=2**0.5)


def depths(starts: int, first_seed: int) -> Rows:
    """Yield the checks of depth: the bound at spectral norms of 1, and how much layers actually amplify."""
    unit = BlockNorms(1, 1, 1, 1, 1, 1)
    forms: dict[Form, str] = {"printed": "as printed", "corrected": "as its proof"}
    for form, name in forms.items():
        sizes = [depth_capacity([unit] * L, 1.0, 10**5, d=64, k=8, form=form) for L in (6, 12)]
        yield check(DEPTH, f"bound, {name}: power of L from 6 to 12 layers", math.log2(sizes[1] / sizes[0]), 3.0)
        narrow, wide = (depth_capacity([unit], 1.0, 10**5, d=d, k=8, form=form) for d in (10**2, 10**6))
        power = math.log(wide / narrow) / math.log(10**4)
        yield check(DEPTH, f"bound, {name}: power of d from 10^2 to 10^6", power, 0.15)
    short, long = (depth_capacity([unit], 1.0, 1000 * T, d=64, k=8) for T in (10**2, 10**6))
    yield check(DEPTH, "bound: power of T from 10^2 to 10^6", math.log(long / short) / math.log(10**4), 0.15)
    generators = [np.random.default_rng([4, first_seed + number]) for number in range(starts)]
    worst = [_amplification(generator, 1 + number % 6) for number, generator in enumerate(generators)]
    yield check(DEPTH, "observed amplification of layers of spectral norm 1", worst, 2.0)


def _amplification(generator: np.random.Generator, layers: int, T: int = 6, d: int = 5) -> float:
    """Return the largest amplification of a small input change that hill climbing over weights finds."""

    def made(entries: np.ndarray) -> float:
        split = np.split(entries, [4 * layers * d * d, 4 * layers * d * d + T * d])
        weights = split[0].reshape(layers, 4, d, d)
        tokens, moved = (project_to_ball(part.reshape(T, d)) for part in split[1:])
        moved = project_to_ball(tokens + 1e-5 * moved)
        start = token_norm(moved - tokens)
        for parts in weights:
            block = Block(*_unit(parts))
            tokens, moved = attention_block(tokens, block), attention_block(moved, block)
        return token_norm(moved - tokens) / max(start, 1e-12)

    return _uphill(made, generator.standard_normal(4 * layers * d * d + 2 * T * d), generator, 150)


def _unit(parts: np.ndarray) -> np.ndarray:
    """Return W_Q, W_K, W_V and W_C with spectral norms of 1, also of W_Q W_K^T."""
    scaled = parts / np.linalg.norm(parts, 2, axis=(1, 2))[:, None, None]
    scaled[0] /= np.linalg.norm(scaled[0] @ scaled[1].T, 2)
    return np.asarray(scaled)


def _uphill(
    ratio: Callable[[np.ndarray], float], start: np.ndarray, generator: np.random.Generator, count: int
) -> float:
    """Return the largest ratio that random steps of decreasing size find from a start."""
    best, value = start, ratio(start)
    for size in 0.5 * 0.97 ** np.arange(count):
        moved = best + size * generator.standard_normal(len(best))
        if (larger := ratio(moved)) > value:
            best, value = moved, larger
    return value


def shattered(powers: Sequence[int]) -> Rows:
    """Yield the checks of Proposition 4.8's witness at T = 2^i, and at T that are not powers of 2."""
    missing, near = [], []
    for T in (*(2**power for power in powers), 3, 100):
        witness = attention_shattering(T)
        rows = witness.labelings[: 2 ** witness.labelings.shape[1]]
        missing.append(len(rows) - len(np.unique(rows, axis=0)))
        near.append(0.1 - float(np.abs(witness.outputs - 0.5).min()))
    yield check(PDIM, "labelings of log2 T sequences that are missing", missing, 0.0)
    yield check(PDIM, "outputs: by how much nearer than 0.1 to the threshold", near, 0.0)


def lemmas(instances: int, ascents: int, largest: int, first_seed: int) -> Rows:
    """Yield the largest ratio of the two sides of each lemma: random instances, then hill climbing."""
    for name, (entries, ratio) in _LEMMAS.items():
        generator = np.random.default_rng([7, first_seed])
        ratios: list[float] = []
        by_size: dict[int, list[float]] = {}
        for _ in range(instances):
            T = int(2 ** generator.uniform(1, math.log2(largest)))
            ratios.append(ratio(10 ** generator.uniform(-2, 0.7) * generator.standard_normal(entries(T)), T))
        for number in range(ascents):
            T = (2, 4, 8, largest)[number % 4]
            start = 10 ** generator.uniform(-1, 0.7) * generator.standard_normal(entries(T))
            ratios.append(_uphill(partial(ratio, T=T), start, generator, 100))
            by_size.setdefault(T, []).append(ratios[-1])
        yield check(LIPSCHITZ, name, ratios, BOUND)
        if name.startswith("4.7"):
            means = [math.log(float(np.mean(by_size[T]))) for T in by_size]
            slope = float(np.polyfit(np.log(list(by_size)), means, 1)[0])
            yield check(LIPSCHITZ, "4.7, slope of the log of what ascent finds against log T", slope, 0.05)


_D = 3


def _ratio(left: float, right: float) -> float:
    return left / right if right > 1e-12 else 0.0


def _head(entries: np.ndarray, T: int) -> float:
    d = _D
    tokens, rest = entries[: T * d].reshape(T, d), entries[T * d :].reshape(4, d, d)
    change = 0.1 * rest[2:]
    outputs, scores = [], []
    for merged, value in ((rest[0], rest[1]), (rest[0] + change[0], rest[1] + change[1])):
        scores.append(tokens @ (merged.T @ tokens[0]))
        outputs.append(softmax(scores[-1]) @ (tokens @ value))
    bounds = {"input_norm": token_norm(tokens), "value_bound": float(np.linalg.norm(rest[1], 2))}
    moved = head_change(float(np.abs(scores[1] - scores[0]).max()), token_norm(tokens @ change[1]), **bounds)
    return _ratio(float(np.linalg.norm(outputs[1] - outputs[0])), moved)


def _softmax(entries: np.ndarray, T: int) -> float:
    first, second = entries.reshape(2, T)
    return _ratio(
        float(np.abs(softmax(first) - softmax(second)).sum()), softmax_change(float(np.abs(first - second).max()))
    )


def _projection(entries: np.ndarray, T: int) -> float:
    first, second = entries.reshape(2, T)
    moved = project_to_ball(first) - project_to_ball(second)
    return _ratio(float(np.linalg.norm(moved)), float(np.linalg.norm(first - second)))


def _truncation(entries: np.ndarray, T: int) -> float:
    s = max(1, T // 3)
    scores = np.concatenate([abs(entries[-1]) + np.abs(entries[:s]), -np.abs(entries[s:T])])
    cut = np.where(np.arange(T) < s, scores, -np.inf)
    lost = float(np.abs(softmax(cut) - softmax(scores)).sum())
    return _ratio(lost, softmax_truncation(T, s, float(abs(entries[-1]))))


def _blocks(entries: np.ndarray, T: int) -> tuple[np.ndarray, np.ndarray, Block, Block]:
    d = _D
    tokens, moved = (project_to_ball(part) for part in entries[: 2 * T * d].reshape(2, T, d))
    weights = entries[2 * T * d :].reshape(2, 4, d, d)
    return tokens, project_to_ball(tokens + 0.3 * moved), Block(*weights[0]), Block(*(weights[0] + 0.3 * weights[1]))


def _weights(entries: np.ndarray, T: int) -> float:
    tokens, _, block, other = _blocks(entries, T)
    change = attention_output(tokens, block) - attention_output(tokens, other)
    return _ratio(token_norm(change), weight_change_bound(tokens, block, other))


def _inputs(entries: np.ndarray, T: int) -> float:
    tokens, moved, block, _ = _blocks(entries, T)
    change = attention_output(tokens, block) - attention_output(moved, block)
    return _ratio(token_norm(change), input_change_bound(tokens, moved, block))


def _block(entries: np.ndarray, T: int) -> float:
    tokens, moved, block, other = _blocks(entries, T)
    change = attention_block(tokens, block) - attention_block(moved, other)
    return _ratio(token_norm(change), block_change_bound(tokens, moved, block, other))


def _readout(entries: np.ndarray, T: int) -> float:
    weight, other, token, moved = entries.reshape(4, T)
    return _ratio(abs(float(weight @ token - other @ moved)), readout_change_bound(weight, other, token, moved))


_LEMMAS: dict[str, tuple[Callable[[int], int], Callable[..., float]]] = {
    "4.7, heads": (lambda T: T * _D + 4 * _D * _D, _head),
    "A.6 and A.7, softmax with the constant 2": (lambda T: 2 * T, _softmax),
    "A.9, projection": (lambda T: 2 * T, _projection),
    "A.13, attention by its weights": (lambda T: 2 * T * _D + 8 * _D * _D, _weights),
    "A.14, attention by its input": (lambda T: 2 * T * _D + 8 * _D * _D, _inputs),
    "A.15, block": (lambda T: 2 * T * _D + 8 * _D * _D, _block),
    "A.16, readout": (lambda T: 4 * T, _readout),
    "A.24, truncation": (lambda T: T + 1, _truncation),
}
"""For each inequality, how many numbers describe an instance, and the ratio of its sides."""

SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        capacities,
        lambda _: end_to_end(),
        lambda seed: depths(6, seed),
        lambda _: shattered(range(1, 6)),
        lambda seed: lemmas(100, 8, 32, seed),
    ),
    "paper": (
        capacities,
        lambda _: end_to_end(),
        lambda seed: depths(1000, seed),
        lambda _: shattered(range(1, 11)),
        lambda seed: lemmas(10_000, 200, 256, seed),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


EXPERIMENT = Experiment(
    name="capacity-check",
    shows=(
        "Bounds on attention's capacity grow like log T and rest on inequalities that hold; in depth they are loose"
    ),
    source="sections 4.3 to 4.5, appendices A.1 and A.2",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=[
        Claim(
            id="variables/log-t-capacity",
            statement="The log covering number of bounded-norm attention heads is at most a printed bound, which "
            "depends on the context length only through log(mT) or log(dmT). H heads cost a polynomial factor.",
            source="theorems 4.6, 4.11 and A.17, lemmas 4.10, A.8 and A.10 to A.12, corollary 4.9",
            setting="up to constants; the source prints three different versions of the bound on one head; the proof "
            "takes ||x_tau|| <= 1, and where only B_X bounds it, the second term needs B_X^2",
            rule="Only consequences can be checked. The explicit chain of lemmas is within 1% of a line in log T for "
            "T = 10^2 to 10^6; the allocation of Lemma A.8 is optimal to 1e-8; H equal heads cost H^3. Each printed "
            "version of the bound must stay the same when inputs are scaled up and weights down so that no function "
            "changes.",
            revised="The statement named a corrected term that the source does not have. The verdict is the same.",
            decide=checked("variables/log-t-capacity", corrected="B_X^2 in the second term, or B_X if ||x_tau|| <= 1"),
        ),
        Claim(
            id="variables/end-to-end-log-t",
            statement="The capacity bound and the small-norm constructions together let a head learn sparse functions "
            "from a number of examples that scales as log T.",
            source="abstract, sections 4.1, 4.5 and 4.7",
            setting="meaningful for s well below log T; the source may mean this up to logarithmic factors",
            rule="The norms of the constructed head (s = 3) in the bound on one head, T = 10^2 to 10^12: holds if the "
            "power of log T is at most 1.1, as printed, and the power of T from 10^9 on at most 0.15 (our thresholds). "
            "With correction if local powers of log T, up to T = 10^200, are at most 3. With all constants 1 the "
            "number of examples far exceeds any observed one: the bound explains only the order of growth.",
            revised="The claim held in part, if the power of log T was at most 4. But there is no setting in which the "
            "power is 1: the norm of W_Q, of order log T, enters squared. The claim now holds with correction. The "
            "rule was changed after the tables had been seen.",
            decide=checked("variables/end-to-end-log-t", corrected="(log T)^3 in place of log T"),
        ),
        Claim(
            id="variables/depth-factor-avoidable",
            statement="For L layers the bound depends on d and T logarithmically, and the exponential factor in L "
            "disappears if spectral norms are at most 1 and the activation is 1-Lipschitz.",
            source="remark after theorem 4.11, theorem A.17",
            setting="up to constants",
            rule="The full bound with all norms 1 must grow by at most the third power of L from 6 to 12 layers, and "
            "with one layer by at most d^0.15, each as printed and as its proof gives it, and by at most T^0.15. Also, "
            "the largest amplification of a small change through up to 6 such layers that 1000 searches find is at "
            "most 2 (our thresholds).",
            revised="The statement names d, which was fixed at 64. The rule was changed after the tables had been "
            "seen. The verdict is the same.",
            decide=checked(
                "variables/depth-factor-avoidable",
                "T, d without the printed d^(2/3) and k^(2/3), which the proof does not give, and layers as observed; "
                "the bound keeps up to 5^(2L)",
            ),
        ),
        Claim(
            id="variables/proposition-4.8",
            statement="Without norm bounds the pseudo-dimension of one head in three dimensions is at least floor(log "
            "T).",
            source="proposition 4.8, appendix A.1",
            setting="d = 3; the proof's logarithm has base 2",
            rule="The witness at T = 2, 4, ..., 2^10, 3 and 100: it realises every labelling of floor(log2 T) "
            "sequences, and no output is within 0.1 of the threshold.",
            decide=checked("variables/proposition-4.8"),
        ),
        Claim(
            id="variables/lipschitz-lemmas",
            statement="Perturbation bounds without a factor T hold: for a head in terms of its scores and values, for "
            "softmax, projection, layers, blocks and readout, and for a truncated softmax.",
            source="lemmas 4.7, A.6, A.9, A.13 to A.16 and A.24, corollary A.7, assumption 4.5",
            setting="abstract",
            rule="For each lemma 10,000 random instances and 200 hill climbs (T up to 256): no ratio of the two sides "
            "above 1; for 4.7 the ratios found grow at most as T^0.05.",
            decide=checked("variables/lipschitz-lemmas"),
        ),
    ],
)

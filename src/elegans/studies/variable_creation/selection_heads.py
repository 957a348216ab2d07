"""Hand-constructed attention heads that select s of T bits: errors and norms, compared with the printed ones.

For orthogonal positions, the largest error over all 2^T inputs has a closed form. Otherwise codes are random signs: for
positions the largest error is exact, for a bag of vectors it is the largest that a search over inputs finds. A third
kind of codes shows how far from orthogonal positions may be.
"""

import itertools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from elegans.calculators.domain import Form
from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import checked
from elegans.studies.variable_creation.theory.codes import (
    Codes,
    Encoding,
    all_bits,
    code_coherence,
    orthonormal_codes,
    random_codes,
)
from elegans.studies.variable_creation.theory.selection import (
    Selection,
    Target,
    selection_error,
    selection_flip_change,
    selection_gap,
    selection_heads,
    selection_norms,
    selection_separation,
    selection_worst_error,
)

Rows = Iterator[dict[str, Any]]
A19, A20, A21 = "variables/lemma-a19", "variables/lemma-a20", "variables/lemma-a21"
NORMS = "variables/constant-norms-fade"
LEMMAS: dict[Encoding, str] = {"fixed": A19, "trained": A20, "bag": A21}
TARGETS: dict[Target, str] = {"scalar": "one number", "vector": "a number for each bit"}
BOUND = 1 + 1e-12


def orthogonal(small: Sequence[int], large: Sequence[int], supports: Sequence[int]) -> Rows:
    """Yield the checks for orthogonal positions: by enumeration for few bits, by closed forms for many."""
    for (encoding, claim), (target, name) in itertools.product(LEMMAS.items(), TARGETS.items()):
        errors, norms = [], []
        for s, T in itertools.product(supports, (*small, *large)):
            gammas = {min(1.0, selection_separation(s, encoding, target)), 0.1}
            for gamma in gammas if s <= T else ():
                gap = selection_gap(T, s, gamma, encoding)
                errors.append(selection_worst_error(T, s, gap, encoding, target) / (gamma / 4))
                exact = selection_norms(T, s, gamma, encoding, target)
                printed = selection_norms(T, s, gamma, encoding, target, "printed")
                norms += [one / bound for one, bound in zip(exact, printed, strict=True) if bound > 0]
                if T in small:
                    made = _made(orthonormal_codes(T), range(s), encoding, target, gamma, "corrected")
                    errors.append(selection_error(made, range(s), all_bits(T), target=target) / (gamma / 4))
        yield check(claim, f"error over gamma/4, {name}", errors, BOUND)
        yield check(claim, f"norms over the printed ones, {name}", norms, BOUND)
    literal = []
    for s in (one for one in supports if one > 1):
        made = _made(orthonormal_codes(small[-1]), range(s), "fixed", "vector", 1.0, "printed")
        literal.append(selection_error(made, range(s), all_bits(small[-1]), target="vector", form="printed") / 0.25)
    yield check(A19, "error over gamma/4, a number for each bit, W_V as printed in the proof", literal, BOUND)


def _made(
    codes: Codes, support: Sequence[int], encoding: Encoding, target: Target, gamma: float, form: Form
) -> Selection:
    """Return heads, suppressing the warning that the printed ones err."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return selection_heads(codes, support, encoding=encoding, target=target, gamma=gamma, form=form)


def coherent(T: int, dimensions: Sequence[int], supports: Sequence[int], draws: int, first_seed: int) -> Rows:
    """Yield the checks for nearly orthogonal positions: printed keys, and dual ones within the printed norms."""
    kinds: list[tuple[Encoding, int]] = list(itertools.product(("fixed", "bag"), supports))
    ratios: dict[tuple[Encoding, int], dict[str, list[float]]] = {kind: defaultdict(list) for kind in kinds}
    largest = dict.fromkeys(kinds, 0.0)
    for d, seed in itertools.product(dimensions, range(first_seed, first_seed + draws)):
        codes = random_codes(T, d + 3, seed)
        delta = code_coherence(codes.position)
        for encoding, s in kinds:
            if s * delta < (1 if encoding == "fixed" else selection_separation(s, encoding)):
                largest[encoding, s] = max(largest[encoding, s], delta)
                support = np.random.default_rng([d, seed]).choice(T, s, replace=False).tolist()
                for name, values in _ratios(codes, delta, support, encoding):
                    ratios[encoding, s][name] += values
    for (encoding, s), by_name in ratios.items():
        for name, worst in by_name.items():
            about = f"s = {s}, coherence up to {largest[encoding, s]:.2g}"
            yield check(LEMMAS[encoding], name.format(about), worst, BOUND)


def _ratios(codes: Codes, delta: float, support: list[int], encoding: Encoding) -> Iterator[tuple[str, list[float]]]:
    """Yield, by check, errors of printed and dual keys over gamma/4, and norms over the printed ones."""
    s = len(support)
    for target in TARGETS:
        last = "" if target == "scalar" else f", {TARGETS[target]}"
        gamma = min(1.0, selection_separation(s, encoding, target))
        if target == "scalar":
            literal = _made(codes, support, encoding, target, gamma, "printed")
            error = _error(literal, support, target, "printed") / (gamma / 4)
            yield "error over gamma/4, {}, as printed in the proof", [error]
        dual = _made(codes, support, encoding, target, gamma, "corrected")
        yield f"dual keys: error over gamma/4, {{}}{last}", [_error(dual, support, target, "corrected") / (gamma / 4)]
        gap = selection_gap(codes.T, s, gamma, encoding, delta, "printed")
        yield f"dual keys: norms over the printed ones, {{}}{last}", _norms(dual, gap, s, target)


def _norms(made: Selection, gap: float, s: int, target: Target) -> list[float]:
    """Return the largest Frobenius norms of a head relative to the bounds of the lemma."""
    one = 1 if target == "vector" else s
    bounds = (gap, one, 2, 1) if made.encoding == "fixed" else (gap, s + 1, 2 * s, s)
    parts = (made.query, made.key, made.value, made.output)
    return [float(np.linalg.norm(part, axis=(1, 2)).max()) / bound for part, bound in zip(parts, bounds, strict=True)]


def _error(made: Selection, support: list[int], target: Target, form: Form) -> float:
    """Return the largest error: over all inputs for positions, over worst candidates for a bag."""
    if made.encoding != "bag":
        return selection_error(made, support, target=target, form=form)
    T = made.codes.T
    leak = made.codes.position @ made.key[0, :, 0]
    others = [np.zeros(T, int), np.ones(T, int), (leak > 0).astype(int), (leak < 0).astype(int)]
    patterns = all_bits(len(support))
    bits = np.repeat(np.array(others), len(patterns), axis=0)
    bits[:, support] = np.tile(patterns, (len(others), 1))
    return selection_error(made, support, bits, target=target, form=form)


def opposed(supports: Sequence[int], gamma: float = 0.02, near: float = 0.99) -> Rows:
    """Yield the checks of Lemma A.19's head for one number on codes for which the support is hardest to select."""
    least, errors, norms = [], list[float](), list[float]()
    for s in supports:
        least.append(least_error(s) / (gamma / 4))
        delta = near / (2 * s - 1)
        codes, wanted = opposed_codes(s, delta), min(1.0, selection_separation(s))
        made = _made(codes, range(s), "fixed", "scalar", wanted, "corrected")
        scale = math.log(8 * codes.T / wanted) * (1 - (s - 1) * delta) / (1 - (2 * s - 1) * delta)
        errors.append(selection_error(made, range(s)) / (wanted / 4))
        norms += _norms(made, scale, s, "scalar")
    yield check(A19, f"coherence 1/(2s - 1): least error over gamma/4 at gamma = {gamma:g}, as printed", least, BOUND)
    yield check(A19, f"dual keys: error over gamma/4, coherence {near:g}/(2s - 1)", errors, BOUND)
    yield check(A19, f"dual keys: norms over the corrected ones, coherence {near:g}/(2s - 1)", norms, BOUND)


def opposed_codes(s: int, delta: float) -> Codes:
    """Return 3 s - 1 codes whose products are -delta on the support, the first s, delta across, and 0 off it.

    At delta = 1/(2 s - 1) the mean code on the support is the mean code off it.
    """
    T = 3 * s - 1
    products = np.zeros((T, T))
    products[:s] = products[:, :s] = delta
    products[:s, :s] = -delta
    np.fill_diagonal(products, 1)
    values, vectors = np.linalg.eigh(products)
    return orthonormal_codes(T)._replace(position=np.pad(vectors * np.sqrt(values.clip(0)), ((0, 0), (0, 3))))


def least_error(s: int) -> float:
    """Return a lower bound on the error of every head with ||W_V|| <= 2 and ||W_C|| <= 1 on codes of equal means.

    The output is N/D with D = C + sum_t u_t h(b_t), N alike, u_t = exp(k.v_t): flipping bit t adds d_t = u_t (h(1) -
    h(0)) to D and n_t to N, which is within 2 |d_t| of u_t c with a common c, since values at v_t are at most 2. Let
    the error be e, where the target must be (2 r - s)/s, rising by q = 2/s; divide by D at b = 0. From inputs with
    up to two ones on the support, |d_i| <= x = 4 e/(q - 2 e) and |n_i - q| <= x + 2 e + e x there. From inputs with
    all or no ones on it, |d_t| <= y = e (2 + s x)/(1 - e) and |n_t| <= (1 + e) y + 2 e off it. So each u_t off the
    support over each u_i on it is at most ((3 + e) y + 2 e)/(q - (3 + e) x - 2 e). As their geometric means are equal,
    the ratio is at least 1, which bounds e from below.
    """
    from scipy.optimize import brentq

    def excess(e: float) -> float:
        q = 2 / s
        x = 4 * e / (q - 2 * e)
        y = e * (2 + s * x) / (1 - e)
        return (3 + e) * y + 2 * e - (q - (3 + e) * x - 2 * e)

    return float(brentq(excess, 0.0, 0.5 / s))


def permuted(T: int, draws: int, first_seed: int) -> Rows:
    """Yield the check that a bag's output does not depend on the order of its vectors."""
    made = _made(orthonormal_codes(T), (1, 3), "bag", "scalar", 0.5, "corrected")
    whole, worst = made.outputs(all_bits(T)), []
    for seed in range(first_seed, first_seed + draws):
        order = np.random.default_rng(seed).permutation(T)
        moved = made._replace(codes=made.codes._replace(position=made.codes.position[order]))
        worst.append(np.abs(moved.outputs(all_bits(T)[:, order]) - whole).max())
    yield check(A21, "change of the output with the order", worst, 1e-12)


def fading() -> Rows:
    """Yield the checks of the effect of one bit, at constant norms and at norms that grow like log T."""
    s, gamma = 3, 2 / 3
    contexts = 10 ** np.arange(1, 7)
    for gap in (2.0, 4.0):
        large = contexts[3:]
        changes = [selection_flip_change(int(T), s, gap) for T in large]
        slope = np.polyfit(np.log(large), np.log(changes), 1)[0]
        yield check(NORMS, f"power of T at a constant scale of {gap:g}, off -1", abs(slope + 1), 0.1)
    short = [2 / s - gamma / 2 - selection_flip_change(int(T), s, selection_gap(int(T), s, gamma)) for T in contexts]
    yield check(NORMS, "norms like log T: by how much the change misses 2/s - gamma/2", short, 0.0)


SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        lambda _: orthogonal((6,), (100,), (1, 2, 3)),
        lambda seed: coherent(20, (256, 1024), (2, 3), 4, seed),
        lambda _: opposed((2, 3)),
        lambda seed: permuted(6, 5, seed),
        lambda _: fading(),
    ),
    "paper": (
        lambda _: orthogonal((5, 8, 12), (50, 100, 300, 1000), (1, 2, 3, 4, 5)),
        lambda seed: coherent(50, (256, 1024, 4096, 16384), (2, 3, 4), 100, seed),
        lambda _: opposed((2, 3, 4, 5)),
        lambda seed: permuted(8, 100, seed),
        lambda _: fading(),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


ORTHOGONAL = (
    "Orthogonal positions, T = 5, 8, 12 by enumeration and up to 1000 by the closed form, s = 1 to 5, gamma the "
    "separation and 1/10: errors and all norms lie within the bounds."
)
COHERENT = (
    "Random codes, T = 50, s = 2, 3, 4, 256 to 16384 dimensions, 100 draws each: in every draw within the hypotheses, "
    "dual keys err by at most gamma/4 and have at most the printed norms, for one number and for a number for each "
    "bit. The errors of the proof's weights are shown beside and decide nothing."
)
EXPERIMENT = Experiment(
    name="selection-heads",
    shows=(
        "Hand-constructed attention heads select s of T bits with norms like log T; dual keys repair the printed "
        "weights"
    ),
    source="lemmas A.19 to A.21 and section 4.5",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=[
        Claim(
            id="variables/lemma-a19",
            statement="With fixed, nearly orthogonal positions one head approximates a strictly monotone symmetric "
            "function of s bits, and s heads an injective vector, within gamma/4, with weight norms log(8T/gamma)/(1 "
            "- s Delta), s (or 1), 2 and 1.",
            source="lemma A.19, propositions 4.12 and A.18",
            setting="Delta < 1/s, 0 < gamma <= 1; the lemma says that such heads exist, the proof gives weights; not "
            "stated: how codes are drawn",
            rule=f"{ORTHOGONAL} {COHERENT} One head, as printed: on codes of coherence 1/(2s - 1) whose mean on the "
            "support is the mean off it, s = 2 to 5, the error that no key can avoid is at most gamma/4 at gamma = "
            "0.02. One head, corrected: at 0.99 of this coherence dual keys err by at most gamma/4 and have the "
            "corrected norms.",
            revised="The claim held with correction, because misprints in the proof counted against the statement. "
            "With the proof's W_V the output of s heads is 0, and its keys err on random codes. The lemma only says "
            "that heads exist, and with dual keys on random codes the claim held. But the lemma is about any codes, "
            "and on those of coherence 1/(2s - 1) that were then added, one head need not exist. The claim now holds "
            "with correction. The rule was changed after the tables had been seen.",
            decide=checked(
                "variables/lemma-a19",
                corrected="one head for Delta < 1/(2s - 1), with ||W_Q|| at most log(8T/gamma) (1 - (s - 1) Delta)/(1 "
                "- (2s - 1) Delta); s heads as printed",
            ),
        ),
        Claim(
            id="variables/lemma-a20",
            statement="The same is true with trainable positions, of total row norm s, and weight norms log(8T/gamma) "
            "and 1.",
            source="lemma A.20, propositions 4.12 and A.18",
            setting="abstract",
            rule=ORTHOGONAL,
            decide=checked("variables/lemma-a20"),
        ),
        Claim(
            id="variables/lemma-a21",
            statement="With a bag of vectors one head approximates a strictly monotone function, or an injective "
            "vector, within gamma/4; its output does not depend on the order of positions.",
            source="lemma A.21, appendix A.2.1, propositions 4.12 and A.18",
            setting="s Delta < gamma < 1, Delta < 1/s; the input is read as diag(b) V",
            rule=f"{ORTHOGONAL} {COHERENT} Inputs are all patterns on the support with all, none, or the worst of the "
            "others. 100 permutations change the output by at most 1e-12. Codes chosen against the dual keys are not "
            "tried.",
            revised="The claim held with correction, because a misprint in the proof counted against the statement. "
            "The proof's keys err on random codes. The lemma only says that heads exist; those with dual keys satisfy "
            "it, and the claim now holds. Random codes were first tried for one number only.",
            decide=checked("variables/lemma-a21"),
        ),
        Claim(
            id="variables/constant-norms-fade",
            statement="At constant weight norms the largest effect of one token vanishes as T grows; norms that grow "
            "like log T avoid this.",
            source="section 4.5 (bypassing theoretical limitations)",
            setting="abstract",
            rule="A closed form, for the constructed head, of the change that one flip causes, s = 3, T = 10 to "
            "10^6. At constant scales it is a power of T within 0.1 of -1 from 10^4 on; with R = log(8T/gamma) it "
            "is at least 2/s - gamma/2.",
            decide=checked("variables/constant-norms-fade"),
        ),
    ],
)

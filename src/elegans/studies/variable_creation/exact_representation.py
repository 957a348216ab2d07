"""One attention layer and a ReLU network that compute sparse functions exactly, and the network by itself.

Printed and corrected constants are checked separately, each as its own construction.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from elegans.calculators.domain import Form
from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import checked
from elegans.studies.variable_creation.theory.codes import Encoding, all_bits
from elegans.studies.variable_creation.theory.construction import SelectingTransformer, selecting_transformer
from elegans.studies.variable_creation.theory.memorising import Memoriser, memoriser, memoriser_norms
from elegans.studies.variable_creation.theory.selection import Target, selection_norms, selection_separation

Rows = Iterator[dict[str, Any]]
EXACT, A25 = "variables/exact-representation", "variables/lemma-a25"
ENCODINGS: tuple[Encoding, ...] = ("fixed", "trained", "bag")
FORMS: dict[Form, str] = {"printed": "delta = gamma/8, as printed in the proof", "corrected": "delta = gamma/4"}
PROOF = ", as printed in the proof"
ROUNDING, BOUND = 1e-9, 1 + 1e-9


def represented(T: int, wide: int, drawn: int, first_seed: int) -> Rows:
    """Yield the checks of exact representation: all functions of up to 3 bits, random ones of 4, all gates of 2."""
    generator = np.random.default_rng([0, first_seed])
    for form, name in FORMS.items():
        errors: dict[str, list[float]] = {"one head": [], "a number for each bit": []}
        entries: list[float] = []
        for encoding, s in itertools.product(ENCODINGS, (1, 2, 3, 4)):
            tables = all_bits(2**s).astype(float) if s < 4 else generator.standard_normal((drawn, 2**s))
            counts = all_bits(s + 1).astype(float)
            for bits in (all_bits(T), generator.integers(0, 2, (64, wide))):
                by_target: dict[Target, np.ndarray] = {"scalar": counts, "vector": tables}
                for target, values in by_target.items():
                    support = generator.choice(bits.shape[1], s, replace=False).tolist()
                    kinds: dict[str, Any] = {"encoding": encoding, "target": target, "form": form}
                    made = selecting_transformer(values[-1].tolist(), bits.shape[1], support, **kinds)
                    key = "one head" if target == "scalar" else "a number for each bit"
                    errors[key].append(_error(made, bits, support, values))
                    entries += _entries(made.mlp, s, encoding, target)
        for kind, worst in errors.items():
            yield check(EXACT, f"largest error, {kind}, {name}", worst, ROUNDING)
        yield check(EXACT, f"entries over the printed bounds, {name}", entries, BOUND)
    gates, bits = [], all_bits(T)  # a bag's vector takes one head for all 16
    for table in all_bits(4).astype(float):
        made = selecting_transformer(table.tolist(), T, (1, 3), encoding="bag", target="vector")
        assert len(made.selection.query) == 1
        gates.append(float(np.abs(made(bits) - table[bits[:, 1] + 2 * bits[:, 3]]).max()))
    yield check(EXACT, "gates of two bits, one head: largest error", gates, ROUNDING)
    sizes = [selecting_transformer(np.ones(2**s).tolist(), s + 1, range(s), target="vector").mlp for s in range(1, 9)]
    norms = [math.log(max(float(np.linalg.norm(part)) for part in one)) for one in sizes]
    yield check(
        EXACT, "growth of the largest norm by s, from s = 4, above log 2", (norms[7] - norms[3]) / 4, math.log(2)
    )
    scales = [math.log(selection_norms(T, 2, 1.0).query) for T in (100, 10_000)]
    yield check(
        EXACT, "gates of two bits: power of log T of the largest norm", (scales[1] - scales[0]) / math.log(2), 1.0
    )


def _error(made: SelectingTransformer, bits: np.ndarray, support: list[int], values: np.ndarray) -> float:
    """Return the largest error over functions, shape (functions, values): they differ only in the last layer."""
    network = made.mlp
    units = np.maximum(made.selected(bits) @ network.first[:-1] + network.first[-1], 0)
    units = np.maximum(units @ network.second[:-1] + network.second[-1], 0)
    chosen = bits[:, support]
    symmetric = values.shape[1] == len(support) + 1 and made.selected(bits[:1]).shape[1] == 1
    place = chosen.sum(axis=1) if symmetric else chosen @ 2 ** np.arange(len(support))
    return float(np.abs(units @ np.concatenate([values, -values], axis=1).T - values.T[place]).max())


def _entries(network: Memoriser, s: int, encoding: Encoding, target: Target) -> list[float]:
    """Return the largest entries of both hidden layers relative to the printed bounds."""
    gamma = min(1.0, selection_separation(s, encoding, target))
    bound = s if (encoding, target) == ("bag", "scalar") else 1
    first, second = (float(np.abs(part).max()) for part in (network.first, network.second))
    return [first / (8 * max(1, bound) / gamma), second / (8 * s / gamma)]


def memorised(sets: int, first_seed: int, wide: float = 100.0) -> Rows:
    """Yield the checks of Lemma A.25 on random point sets: values in the balls, and entries; and of its reach.

    Where the output is constant, it is a sum of offsets alone, at most 2 n max|f| (4 n d_f |W_1| + 1) |W_2|. For the
    points 2 delta and -2 delta and the values 1 and -1 this is 68/delta.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    entries: dict[str, list[float]] = defaultdict(list)
    for number in range(sets):
        generator = np.random.default_rng([25, first_seed + number])
        d, n = 1 + number % 4, int(generator.integers(2, 33))
        points = generator.uniform(0.3, 3) * generator.uniform(-1, 1, (n, d))
        values, delta = generator.standard_normal(n), _width(points)
        corners = generator.choice([-1.0, 1.0], (20, 1, d)) * generator.choice([1.0, generator.random()], (20, 1, d))
        inside = (points + delta * (1 - 1e-9) * corners).reshape(-1, d)
        bounds = memoriser_norms(float(np.abs(points).max()), d, delta, float(np.abs(values).max()), "printed")
        corrected = memoriser(points, values, delta)
        networks = {
            "literal weights": memoriser(points, values, delta, "printed"),
            "bump corrected": corrected,
            f"bump corrected and rescaled, d_f {'= 1' if d == 1 else '>= 2'}": _rescaled(corrected, values, d),
        }
        for name, made in networks.items():
            errors[name].append(float(np.abs(made(inside) - np.tile(values, 20)).max()))
            entries[name].append(max(float(np.abs(p).max()) / bound for p, bound in zip(made, bounds, strict=True)))
    for name in errors:
        literal, unscaled = name == "literal weights", "rescaled" not in name
        yield check(A25, f"{name}: largest error{PROOF * literal}", errors[name], ROUNDING)
        yield check(A25, f"{name}: entries over their bounds{PROOF * unscaled}", entries[name], BOUND)
    n, largest = 2, 2.0  # |W_1| is at most max(1, B) / delta
    reach = 2 * n * (4 * n * largest + 1) / wide
    yield check(A25, f"delta = {wide:g}: value to take over the largest constant output, as printed", 1 / reach, BOUND)


def _rescaled(made: Memoriser, values: np.ndarray, inputs: int) -> Memoriser:
    """Return a memoriser of the same values whose entries are within the printed bounds: its first layer is halved.

    With one input, a bump is nonnegative by itself, so both units of a point carry half of its value.
    """
    second = made.second.copy()
    if inputs > 1:
        second[:-1] *= 2
        return Memoriser(made.first / 2, second, made.last)
    second[:-1], second[-1] = np.sign(second[:-1]), 0
    return Memoriser(made.first / 2, second, np.tile(values, 2))


def _width(points: np.ndarray) -> float:
    """Return the largest delta, at most 1, for which points are 4 delta apart."""
    distances = np.abs(points[:, None] - points).max(axis=2)
    np.fill_diagonal(distances, np.inf)
    return float(min(1.0, distances.min() / 4 * (1 - 1e-12)))


SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (lambda seed: represented(6, 40, 10, seed), lambda seed: memorised(12, seed)),
    "paper": (lambda seed: represented(10, 1000, 200, seed), lambda seed: memorised(100, seed)),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


EXPERIMENT = Experiment(
    name="exact-representation",
    shows="One attention layer and a ReLU network compute sparse functions exactly, with constants other than printed",
    source="proposition 4.12, lemmas A.22, A.23 and A.25",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=[
        Claim(
            id="variables/exact-representation",
            statement="Such a head followed by a ReLU network represents every symmetric s-sparse function with "
            "poly(s) weights, and every s-sparse function with 2^s poly(s), exactly on all inputs; gates of two bits "
            "take one head with norms of order log T.",
            source="proposition 4.12, lemmas A.22 and A.23, proposition A.18, section 4.5 (s = 2)",
            setting="orthogonal codes; the proofs set delta = gamma/8, which is too small for heads with an error of "
            "gamma/4",
            rule="All functions of at most 3 bits, 200 drawn ones of 4, all 16 gates, three encodings; all inputs at "
            "T = 10 and 64 drawn ones at T = 1000: error at most 1e-9, entries within the printed bounds, with delta "
            "= gamma/8 and gamma/4; the largest norm grows by at most log 2 for each bit (s = 4 to 8). Width of order "
            "log T needs codes that are not orthogonal: see variables/lemma-a19.",
            revised="The claim held in part, because the proofs' constant counted against the statement, which names "
            "none. With delta = gamma/4 it now holds.",
            decide=checked("variables/exact-representation"),
        ),
        Claim(
            id="variables/lemma-a25",
            statement="A three-layer ReLU network of sizes 4 n d_f and 2 n takes n prescribed values exactly on balls "
            "of radius delta around points that are 4 delta apart, with entries at most max(1, B)/delta, d_f/delta "
            "and max|f|.",
            source="lemma A.25",
            setting="the proof needs delta <= 1, which the lemma does not ask; the lemma says that weights exist, the "
            "proof prints them in full, including an odd bump",
            rule="100 random point sets (2 to 32 points, d_f = 1 to 4, the largest delta up to 1), corners and inner "
            "points of the balls: error at most 1e-9 and entries within the bounds, for weights with the bump "
            "corrected and the first layer halved, in one dimension and in more. Literal weights, and entries before "
            "halving, are shown beside and decide nothing. As printed, without a limit on delta: at delta = 100, with "
            "points 2 delta and -2 delta, a network within the bounds can be constant at 1 and -1.",
            revised="The claim held in part: misprints of the proof counted against it, no weights were known for one "
            "dimension, and delta was at most 1 without a word. Such weights are now given, and a closed form shows "
            "that the lemma is false for delta above 68. It now holds with correction. The rule was changed after the "
            "tables had been seen.",
            decide=checked("variables/lemma-a25", corrected="delta at most 1"),
        ),
    ],
)

"""Theorem 2 and corollary 4 computed: the bounds at many sizes, and the best linear predictors.

Source: Daniely and Malach (2020), sections 3 and 4.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from elegans.boolean.fourier import sign_table, walsh_hadamard
from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import theorem
from elegans.studies.learning_parities.theory.parity import (
    biased_average_bound,
    biased_fourier_bound,
    biased_linear_bound,
    biased_support_bounds,
)
from elegans.studies.learning_parities.theory.training import biased_loss_bound, biased_sizes

LINEAR, RATES = "parities/linear-lower-bound", "parities/corollary-rates"
EXACT, ROUNDING = 1e-12, 1e-9
SUPPORTS = {"smoke": 44, "paper": 1}
"""By scale, which of the 220 supports of 3 of 12 inputs are solved: every first, second, …."""
SAMPLED = {"smoke": (), "paper": ((48, 3), (80, 5))}
SETS, POINTS, FEATURES = 20, 20_000, 128
STEPS = 200
TERMS = 4
"""Terms of Theorem 3's bound: with constants 1, each must be at most epsilon."""


def analyse(results: Results) -> Tables:
    """Return the table ``checks``; features and samples are drawn from the run's first seed."""
    scale, seed = results.scale, results.first_seed
    return checks([*_logic(), *_optima(SUPPORTS[scale], seed), *_sampled(SAMPLED[scale], seed), *_rates()])


def _logic() -> Iterator[dict[str, Any]]:
    for form, place in (("corrected", "outside"), ("printed", "under")):
        gaps = []
        for k in (3, 5, 7, 9):
            for n in (16 * k, 40 * k):
                for features in (1, 10, 1000, 10**6):
                    for norm in np.logspace(-3, 6, 19):
                        bound = biased_linear_bound(k, features, float(norm), form)  # type: ignore[arg-type]
                        sharper = biased_fourier_bound(n, k, features, float(norm))
                        gaps.append(bound - sharper if bound > 0 else -1.0)
        yield check(LINEAR, f"bound with B {place} the root, less the sharper", gaps, 0)


def _optima(every: int, first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the best predictors on 64 random features of 12 inputs, for the supports of three."""
    n, k, count = 12, 3, 64
    features = random_relus(sign_table(n).astype(float), count, (1, first_seed))
    below, single, means = [], [], []
    for norm in (1.0, 4.0):
        bounds = biased_support_bounds(features, k, norm)
        losses = []
        for places, bound in list(zip(bounds.supports, bounds.bound, strict=True))[::every]:
            label = sign_table(n)[:, places].prod(axis=1)
            best = best_hinge(label[:, None] * features.T, norm)
            below.append(bound - best)
            losses.append(best)
        single.append(1 - norm * math.sqrt(count / math.comb(n, k)) - bounds.bound.mean())
        means.append(biased_average_bound(n, k, count, norm) - np.mean(losses))
    yield check(LINEAR, "bound of each support, above the best predictor found", below, 1e-6)
    yield check(LINEAR, "bound on the mean over all supports, above that of each", single, EXACT)
    yield check(LINEAR, "bound of the proof, above the mean of the best predictors", means, 1e-6)
    correlations = walsh_hadamard(features) / 2**n
    yield check(
        LINEAR, "Parseval over all supports", np.abs((correlations**2).sum(axis=1) - (features**2).mean(axis=1)), EXACT
    )


def _sampled(sizes: tuple[tuple[int, int], ...], first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the best predictors on samples of uniform inputs, against the bound that holds on each sample."""
    generator, below = np.random.default_rng([3, first_seed]), []
    for n, k in sizes:
        signs = generator.choice((-1.0, 1.0), (POINTS, n))
        features = random_relus(signs, FEATURES, (n, first_seed))
        for norm in (0.3, 1.0):
            for _ in range(SETS):
                rows = signs[:, generator.permutation(n)[:k]].prod(axis=1)[:, None] * features.T
                below.append(1 - norm * float(np.linalg.norm(rows.mean(axis=0))) - best_hinge(rows, norm))
    if below:
        yield check(LINEAR, "bound of each sample, above the best predictor found on it", below, 1e-6)


def random_relus(
    signs: Float[np.ndarray, "points n"], count: int, seed: tuple[int, int]
) -> Float[np.ndarray, "features points"]:
    """Return random ReLU features of signs, scaled to lie in [-1, 1]."""
    generator = np.random.default_rng(seed)
    n = signs.shape[1]
    hidden = generator.uniform(-1, 1, (count, n)) @ signs.T / math.sqrt(n) + generator.uniform(-0.5, 0.5, (count, 1))
    hidden = np.maximum(hidden, 0)
    return np.asarray(hidden / np.abs(hidden).max())


def best_hinge(rows: Float[np.ndarray, "points features"], norm: float) -> float:
    """Return the smallest mean hinge loss that projected subgradient steps find among predictors of bounded norm.

    Args:
        rows: the features of every point, times its label.
        norm: the largest norm of the predictor.
    """
    weight, best = np.zeros(rows.shape[1]), 1.0
    for step in range(1, STEPS + 1):
        slack = 1 - rows @ weight
        best = min(best, float(np.maximum(slack, 0).mean()))
        gradient = -(rows.T @ (slack > 0)) / len(rows)
        weight = weight - gradient * norm / (np.linalg.norm(gradient) + EXACT) / math.sqrt(step)
        weight = weight * min(1.0, norm / float(np.linalg.norm(weight)))
    return best


def _rates() -> Iterator[dict[str, Any]]:
    for form, name in (
        ("corrected", "q, T, n polynomial, with 1 / epsilon^2 in q"),
        ("printed", "as printed in the proof"),
    ):
        ratios = []
        for epsilon in np.logspace(-6, math.log10(0.4), 12):
            for k in (7, 11, 31, 99):
                for delta in (0.4, 0.01):
                    sizes = biased_sizes(k, float(epsilon), delta, form=form)  # type: ignore[arg-type]
                    ratios.append(biased_loss_bound(k, sizes.q, sizes.n, sizes.steps) / epsilon)
        yield check(RATES, f"Theorem 3's bound over epsilon, {name}", ratios, TERMS * (1 + ROUNDING))


CLAIMS = (
    Claim(
        id="parities/linear-lower-bound",
        statement="For every embedding into [-1, 1]^N and every norm B, if k <= n/16 some parity has hinge loss at "
        "least 1/2 - sqrt(N B) / (2^k sqrt(2)) for the best predictor of that norm.",
        source="Theorem 2, section 4",
        setting="any embedding, k odd; B is under the root in print and outside it in the proof; not stated: which "
        "one is meant",
        rule="The sharper bound 1/2 - (B/2) sqrt(N / C(n, k)), which follows from Parseval, must be at least as large "
        "as either form wherever that form is positive, on a grid of k, n, N and B. Best predictors must stay above "
        "the bounds: on 64 features of 12 inputs for all 220 supports, and at (48, 3) and (80, 5) on samples of 20 "
        "000 inputs for 20 supports, there above the bound of the sample itself, 1 - B ||mean f_A Psi|| (1e-6). Fails "
        "on any violation.",
        decide=theorem(LINEAR),
        revised="At first the best predictors were fitted on 4000 sampled inputs. They fit this sample better than "
        "the distribution, by more than the tolerance of 0.02, which was set for 20,000 inputs. Then 20,000 inputs "
        "were sampled with this tolerance, and one mean loss was 0.0083 below the bound. Predictors on a sample are "
        "now compared with the bound that holds on this sample, without a tolerance. The claim has held each time.",
    ),
    Claim(
        id="parities/corollary-rates",
        statement="Theorem 3 implies Corollary 4: for n large enough its bound is at most epsilon with a width q and "
        "a number of steps T that are polynomial in k, 1/epsilon and log(1/delta).",
        source="Corollary 4",
        setting="takes Theorem 3 for granted, which parities/network-learns leaves undecided; not stated: the "
        "constants of its bound, and the exponents, which only the proof names: q = "
        "Theta(k^16 log(k/delta) / epsilon), T = Theta(k^10 log(k/delta) / epsilon^2), n >= Omega(k^34 log(k/delta) / "
        "epsilon^4)",
        rule="Theorem 3's bound with constants 1, a sum of four terms, is at most 4 epsilon at the proof's powers of "
        "k, with 1/epsilon^2 in q and T, 1/epsilon^6 in n, and powers 1, 1/2 and 2 of log(k/delta) in q, T and n, for "
        "epsilon from 1e-6 to 0.4, k = 7 to 99, delta = 0.4 and 0.01. The bound at the sizes of the proof as printed "
        "is shown beside it and decides nothing. Fails if the bound is larger at one size. No sampling error.",
        revised="The claim held with correction, because a misprint in the proof counted against the statement. The "
        "corollary states polynomial sizes without exponents. With 1/epsilon^2 in q they suffice, and the claim now "
        "holds. The statement was that descent reaches this loss, which the rule does not test; it now names what "
        "follows from Theorem 3; this last change left the rule as it was.",
        decide=theorem(RATES),
    ),
)

EXPERIMENT = Experiment(
    name="linear-bounds",
    shows="What linear predictors cannot do on biased parities: bounds, best predictors, and the sizes of Corollary 4",
    source="Theorem 2, Corollary 4",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)

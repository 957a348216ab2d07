"""The lemmas on majorities, on the first step of a sign network and on its readout, computed.

Both sides of exact statements are compared by enumeration; statements about chance are tested by sampling. All draws
come from the run's first seed. Names of checks that end in ``as printed`` test forms that the thesis prints with an
error.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import gammaln

from elegans.boolean.fourier import fourier_coefficients, majority_coefficient, sign_table
from elegans.boolean.gaps import gap_correlations, majority_gap, majority_gap_bound, strict_gap
from elegans.boolean.learning import convex_sgd_rate, parity_of_sum
from elegans.calculators.domain import Form
from elegans.experiments import Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import LEVEL, share_limits
from elegans.studies.hidden_progress.progress_lemmas_claims import CLAIMS
from elegans.studies.hidden_progress.theory import sign_network
from elegans.studies.hidden_progress.theory.fixed_features import feature_alignments, fixed_feature_loss
from elegans.studies.hidden_progress.theory.recovery import noisy_correlation
from elegans.studies.hidden_progress.theory.theorem_5_5 import convex_sgd_excess

Rows = Iterator[dict[str, Any]]
B1, B2, B3 = "progress/lemma-b1", "progress/lemma-b2", "progress/lemma-b3"
STEP, READOUT, DESCENT = "progress/lemma-b4-b5-first-step", "progress/claim-5-readout", "progress/theorem-b6"
FIXED, NOISE = "progress/theorem-5.6", "progress/noise-scales-gap"
FORMS: tuple[Form, ...] = ("printed", "corrected")
PRINTED = ", as printed"
EXACT, BOUND = 1e-12, 1 + 1e-10
"""How far identities may deviate, and by how much a side may exceed its bound, due to rounding."""
SHARE = LEVEL / 5
"""The error rate of each of the five shares that are stated: exact one-sided limits."""
FLAT = 0.1
"""The largest logarithmic slope of a quantity claimed to stay between constants."""


def majorities(largest: int, highest: int) -> Rows:
    """Yield the checks of Lemma B.1: the closed form up to 15 signs, the level weights up to the highest degree."""
    found, even = [], []
    for n in range(3, largest + 1, 2):
        spectrum = fourier_coefficients(np.sign(sign_table(n).sum(axis=1)))
        sizes = np.bitwise_count(np.arange(2**n))
        for degree in range(n + 1):
            own = spectrum[sizes == degree]
            found.append(np.abs(own - float(majority_coefficient(n, degree))).max())
            even.append(0 if degree % 2 else np.abs(own).max())
    yield check(B1, "closed form against enumeration", found, EXACT)
    yield check(B1, "even degrees vanish", even, EXACT)
    degrees = np.arange(1, highest + 1, 2)
    logs = _level_weights(2 * degrees**2 + 1, degrees)
    for power, name in ((Fraction(3, 2), "power 3/2"), (Fraction(2, 3), f"power 2/3{PRINTED}")):
        slope = np.polyfit(np.log(degrees), logs + float(power) * np.log(degrees), 1)[0]
        yield check(B1, f"weight of a degree: {name}", abs(slope), FLAT)
    even_k = np.arange(2, highest, 2)
    sizes = 2 * (even_k + 1) ** 2 + 1
    ratio = ((even_k - 1) / (sizes - even_k)) ** 2
    yield check(B1, "equation B.5: ratio of squares", ratio / (8 * even_k**2 / sizes**2), BOUND)


def _level_weights(n: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """Return the logarithms of C(n, d) Maj^_n(d)^2 at odd degrees, by the closed form."""

    def choose(m: Any, j: Any) -> Any:
        return gammaln(m + 1.0) - gammaln(j + 1.0) - gammaln(m - j + 1.0)

    half, j = (n - 1) / 2, (degree - 1) / 2
    size = choose(half, j) - choose(2 * half, 2 * j) - 2 * half * math.log(2) + choose(2 * half, half)
    return np.asarray(choose(n, degree) + 2 * size)


def majority_gaps(largest: int) -> Rows:
    """Yield the checks of Lemma B.2: the gap's bound at every size, and its order at fixed k."""
    ratios = [
        majority_gap_bound(n, k) / float(majority_gap(n, k))
        for n in range(9, largest + 1, 2)
        for k in range(2, n // 4 + 1, 2)
    ]
    yield check(B2, "even k: bound over the gap", ratios, BOUND)
    spectrum = fourier_coefficients(np.sign(sign_table(13).sum(axis=1)))
    odd = float(strict_gap(gap_correlations(spectrum, range(3)), range(3)))
    yield check(B2, f"odd k: bound less the gap at (13, 3){PRINTED}", 0.03 * 12.0**-1 - odd, 0)
    for k in (2, 4, 6):
        first, last = (float(majority_gap(n, k)) * (n - 1) ** ((k - 1) / 2) for n in (1601, 6401))
        yield check(B2, f"order at k = {k}: change from n = 1601 to 6401", abs(last / first - 1), 0.02)


def first_gradients(sizes: Sequence[int], vectors: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma B.3: the gradient at the initialisation by enumeration of all inputs."""
    generator = np.random.default_rng([3, first_seed])
    worst, biases = [], []
    for n in sizes:
        x = sign_table(n)
        for k in (2, 4):
            y = x[:, :k].prod(axis=1)
            for _ in range(vectors):
                weight, output = generator.choice([-1, 1], n), int(generator.choice([-1, 1]))
                passed = y * (x @ weight + generator.uniform(-0.99, 0.99) > 0)
                closed = np.array(sign_network.sign_neuron_gradient(weight.tolist(), range(k), output), float)
                worst.append(np.abs(-output * (passed @ x) / len(x) - closed).max())
                biases.append(abs(passed.mean()))
    yield check(B3, "weights' gradient", worst, EXACT)
    yield check(B3, "bias' gradient is 0", biases, EXACT)


def first_steps(
    cells: Sequence[tuple[int, int]], perturbations: int, draws: int, batches: int, first_seed: int
) -> Rows:
    """Yield the checks of Lemmas B.4 and B.5: an inexact step, the neurons present at a width, the batch."""
    generator = np.random.default_rng([45, first_seed])
    for form in FORMS:
        ratios = [_step_ratios(generator, n, k, form, perturbations) for n, k in cells]
        yield check(STEP, f"weights after an inexact step, {form} bounds", ratios, BOUND)
    for form, marked in zip(FORMS, (PRINTED, ""), strict=True):
        for k in (4, 6):
            missing = _misses(generator, k, form, draws, 0.1)
            low, _ = share_limits(missing, draws, SHARE)
            name = f"k = {k}: share of widths that lack a neuron" + (marked or ", corrected width")
            yield check(STEP, name, low, 0.1, error_rate=SHARE)
    needed, most = max(sign_network.parity_readout(2, "printed").biases), max(sign_network.unbiased_biases(2))
    yield check(STEP, f"k = 2: bias needed beyond the list{PRINTED}", float(needed - most), 0)
    n, k, width, tau = 31, 2, 16, 0.05
    batch = sign_network.feature_batch(n, width, tau, 0.1)
    errors = [_sampled_error(generator, n, k, width, batch) for _ in range(batches)]
    low, _ = share_limits(sum(error > tau for error in errors), batches, SHARE)
    yield check(STEP, "share of first batches with a larger error than tau", low, 0.1, error_rate=SHARE)


def _step_ratios(generator: np.random.Generator, n: int, k: int, form: Form, perturbations: int) -> float:
    """Return the largest deviation of a good neuron after an inexact step, as a share of its bound."""
    sign = 1 if majority_coefficient(n, k - 1) > 0 else -1
    rate = float(sign_network.sign_network_rate(n, k))
    tau = 0.1 / rate / k
    bounds = sign_network.feature_bounds(n, k, tau, form)
    worst = 0.0
    for _ in range(max(1, perturbations // 10)):
        weight = generator.choice([-1, 1], n)
        weight[:k] = sign
        exact = np.array(sign_network.feature_step(weight.tolist(), range(k)), float)
        errors = np.concatenate([generator.uniform(-tau, tau, (5, n + 1)), tau * generator.choice([-1, 1], (5, n + 1))])
        after, bias = exact - rate * errors[:, :n], rate * errors[:, n]
        relevant = np.abs(after[:, :k] - 1 / (2 * k)).max() / bounds.relevant
        rest = np.abs(after[:, k:]).max() / bounds.irrelevant
        worst = max(worst, float(relevant), float(rest), float(np.abs(bias).max() / bounds.bias))
    return worst


def _misses(generator: np.random.Generator, k: int, form: Form, draws: int, delta: float) -> int:
    """Return how many initialisations lack a good neuron for one of the readout's biases."""
    pairs = sign_network.feature_width(k, delta, form) // 2
    grid = list(sign_network.unbiased_biases(k))
    needed = {grid.index(bias) for bias in sign_network.parity_readout(k, form).biases}
    missing = 0
    for _ in range(draws):
        signs = generator.choice([-1, 1], (pairs, k))
        good = np.abs(signs.sum(axis=1)) == k
        missing += not needed <= set(generator.integers(len(grid), size=pairs)[good].tolist())
    return missing


def _sampled_error(generator: np.random.Generator, n: int, k: int, width: int, batch: int) -> float:
    """Return the largest error of the gradient of any weight or bias of a sign network on one batch."""
    weight, bias = generator.choice([-1, 1], (width // 2, n)), generator.uniform(-0.5, 0.5, width // 2)
    x = generator.choice([-1.0, 1.0], (batch, n))
    passed = x[:, :k].prod(axis=1)[:, None] * (x @ weight.T + bias > 0)
    exact = np.array([sign_network.sign_neuron_gradient(row.tolist(), range(k)) for row in weight], float)
    return float(max(np.abs(-passed.T @ x / batch - exact).max(), np.abs(passed.mean(axis=0)).max()))


def readouts(largest: int) -> Rows:
    """Yield the checks of Claim 5: what k or k + 1 neurons of the support's sum compute at each of its values."""
    for form, name in zip(FORMS, (f"k neurons{PRINTED}", "k + 1 neurons, corrected weights"), strict=True):
        worst = [
            max(
                abs(made - 2 * sign)
                for made, sign in zip(sign_network.parity_readout(k, form).output(k), parity_of_sum(k), strict=True)
            )
            for k in range(2, largest + 1, 2)
        ]
        yield check(READOUT, name, np.array(worst, float), 0)
    residuals = []
    for k in range(2, largest + 1, 2):
        sums = np.arange(-k, k + 1, 2) / (2 * k)
        hidden = np.maximum(sums[:, None] + np.array(sign_network.parity_readout(k, "printed").biases, float), 0)
        target = 2 * np.array(parity_of_sum(k), float)
        residuals.append(np.abs(hidden @ np.linalg.lstsq(hidden, target, rcond=None)[0] - target).max())
    yield check(READOUT, f"k neurons of the printed biases, best weights{PRINTED}", residuals, 1e-9)


def descents(n: int, horizons: Sequence[int], runs: int, first_seed: int) -> Rows:
    """Yield the checks of Theorem B.6: the readout of a sign network after its exact first step, k = 2."""
    generator = np.random.default_rng([6, first_seed])
    x = sign_table(n)
    y = x[:, :2].prod(axis=1)
    weights = generator.choice([-1, 1], (16, n))
    hidden = x @ np.array([sign_network.feature_step(row.tolist(), range(2)) for row in weights], float).T
    hidden = np.maximum(hidden + generator.choice(np.array(sign_network.unbiased_biases(2), float), 16), 0)
    norm, rho = 8 * 2**1.5, float(np.linalg.norm(hidden, axis=1).max())

    def value(u: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(1 - y[:, None] * (hidden @ u), 0).mean(axis=0))

    u, best = np.zeros((16, 1)), 1.0
    for step in range(2000):
        best = min(best, float(value(u)[0]))
        slope = (y * (y * (hidden @ u)[:, 0] < 1)) @ hidden / len(y)
        u += norm / rho / math.sqrt(step + 1) * slope[:, None]
        u *= min(1.0, norm / float(np.linalg.norm(u)))
    for steps in horizons:
        u, total = np.zeros((16, runs)), np.zeros(runs)
        rate = convex_sgd_rate(norm, rho, steps)
        for _ in range(steps):
            total += value(u)
            rows = generator.integers(len(x), size=runs)
            active = y[rows] * (hidden[rows] * u.T).sum(axis=1) < 1
            u += rate * (hidden[rows] * (y[rows] * active)[:, None]).T
        excess = float((total / steps).mean()) - best
        yield check(DESCENT, f"mean excess at T = {steps}", excess / convex_sgd_excess(norm, rho, steps), 1)
    yield check(DESCENT, f"linear objective: share of runs above the bound{PRINTED}", _above_the_bound(generator), 0)


def _above_the_bound(generator: np.random.Generator) -> float:
    """Return the share of 1000 runs on a linear function of one number that exceed the bound of Theorem B.6.

    The stochastic gradients are 1 or -1, with a mean of 1/sqrt(T), in the unit ball.
    """
    steps, runs = 100, 1000
    slope = 1 / math.sqrt(steps)
    gradients = np.where(generator.random((steps, runs)) < (1 + slope) / 2, 1.0, -1.0)
    path = -convex_sgd_rate(1, 1, steps) * np.cumsum(gradients, axis=0)
    return float((slope * (path.mean(axis=0) + 1) > convex_sgd_excess(1, 1, steps)).mean())


def fixed_features(n: int, embeddings: int, steps: int, first_seed: int) -> Rows:
    """Yield the checks of Theorem 5.6: the best-hidden parity of random and tangent features; the 0-1 loss."""
    generator = np.random.default_rng([56, first_seed])
    k, norms = 3, {"printed": 1.0, "corrected": 4.0}  # the printed bound says nothing at 4
    x = sign_table(n).astype(float)
    supports = list(itertools.combinations(range(n), k))
    found: dict[str, list[float]] = {}
    for number in range(embeddings):
        name = "tangent features" if number % 2 else "random features"
        features = _embedding(generator, x, tangent=bool(number % 2))
        alignments = feature_alignments(features, k)
        support = list(supports[int(alignments.argmin())])
        for form in FORMS:
            loss = _best_hinge(features, x[:, support].prod(axis=1), norms[form], steps)
            bound = fixed_feature_loss(n, k, norms[form], features.shape[1], form)
            found.setdefault(f"hinge loss, {name}: {form} bound less the loss", []).append(bound - loss)
    for name, worst in found.items():
        yield check(FIXED, name, worst, EXACT)
    epsilon = 0.1
    small = epsilon * math.sqrt(math.comb(n, k)) / 2
    constant = np.full(len(x), small)
    errors = [
        min(float(np.mean(np.sign(sign * constant) != x[:, list(one)].prod(axis=1))) for sign in (-1, 1))
        for one in supports
    ]
    yield check(FIXED, f"0-1 loss: 1 - epsilon less a constant feature's error{PRINTED}", 1 - epsilon - max(errors), 0)
    yield check(
        FIXED,
        f"0-1 loss: 1 - epsilon less the largest error with all parities as features{PRINTED}",
        1 - epsilon - _error_of_parities(x, supports, epsilon / 2),
        0,
    )


def _error_of_parities(x: np.ndarray, supports: Sequence[tuple[int, ...]], norm: float) -> float:
    """Return the largest 0-1 loss over parities when all of them are the features, scaled to norm 1.

    The readout is the parity's own feature times ``norm``. As D = C(n, k), any norm below epsilon meets the hypothesis
    of Theorem 5.6.
    """
    parities = np.stack([x[:, list(one)].prod(axis=1) for one in supports], axis=1)
    features = parities / np.linalg.norm(parities, axis=1, keepdims=True)
    outputs = features @ (norm * np.eye(len(supports)))
    return float((np.sign(outputs) != parities).mean(axis=0).max())


def _embedding(generator: np.random.Generator, x: np.ndarray, *, tangent: bool) -> np.ndarray:
    """Return features of norm at most 1: of random ReLU neurons, or tangent features of a small ReLU network."""
    weight, bias = generator.normal(size=(10, x.shape[1])), generator.normal(size=10)
    values = x @ weight.T + bias
    features = np.maximum(values, 0)
    if tangent:
        moved = (values > 0)[:, :, None] * x[:, None, :]
        features = np.concatenate([features, moved.reshape(len(x), -1)], axis=1)
    return np.asarray(features / np.linalg.norm(features, axis=1).max())


def _best_hinge(features: np.ndarray, y: np.ndarray, norm: float, steps: int) -> float:
    """Return the smallest mean hinge loss that projected subgradient descent finds in the ball."""
    u, best = np.zeros(features.shape[1]), 1.0
    for step in range(steps):
        margin = y * (features @ u)
        best = min(best, float(np.maximum(1 - margin, 0).mean()))
        u += norm * 5 / math.sqrt(step + 1) * ((y * (margin < 1)) @ features) / len(y)
        u *= min(1.0, norm / max(float(np.linalg.norm(u)), 1e-12))
    return best


def noise(labels: int, first_seed: int) -> Rows:
    """Yield the checks of label noise: the factor of a correlation by sampling, and the printed one."""
    generator = np.random.default_rng([12, first_seed])
    shares = np.array([0.1, 0.25, 0.4, 0.49])
    factors = np.array([float(noisy_correlation(1, float(p))) for p in shares])
    measured = np.array([(1 - 2 * (generator.random(labels) < p)).mean() for p in shares])
    worst = np.abs(measured - factors) * math.sqrt(labels)
    yield check(NOISE, "factor 1 - 2p: standard errors off", worst, 4, error_rate=4 * 6.4e-5)
    yield check(NOISE, f"factor epsilon for a flip of 1/2 - epsilon{PRINTED}", np.abs(factors - (0.5 - shares)), EXACT)


SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        lambda _: majorities(9, 51),
        lambda _: majority_gaps(101),
        lambda seed: first_gradients((9, 11), 5, seed),
        lambda seed: first_steps(((31, 4),), 100, 100, 10, seed),
        lambda _: readouts(6),
        lambda seed: descents(7, (100, 1000), 20, seed),
        lambda seed: fixed_features(7, 4, 200, seed),
        lambda seed: noise(100_000, seed),
    ),
    "paper": (
        lambda _: majorities(15, 301),
        lambda _: majority_gaps(999),
        lambda seed: first_gradients((9, 15, 17), 20, seed),
        lambda seed: first_steps(((31, 2), (31, 4), (63, 4), (41, 6)), 1000, 299, 59, seed),
        lambda _: readouts(16),
        lambda seed: descents(9, (100, 1000, 10_000), 59, seed),
        lambda seed: fixed_features(10, 20, 2000, seed),
        lambda seed: noise(1_000_000, seed),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


EXPERIMENT = Experiment(
    name="progress-lemmas",
    shows="The lemmas on majorities, first steps and readouts hold, some of them with corrected constants",
    source="Lemmas B.1 to B.5, Theorems 5.6 and B.6",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)

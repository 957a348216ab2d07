"""The lemmas behind Theorems 4 and 5 about samples, tested on samples of the size that each lemma requires.

Samples of millions of examples are multinomial counts over all inputs.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from elegans import random
from elegans.boolean.fourier import sign_table
from elegans.boolean.learning import parity_of_sum
from elegans.calculators.domain import Form
from elegans.experiments.checks import check
from elegans.studies.pareto_frontiers.checking import Rows, rare
from elegans.studies.pareto_frontiers.theory import luck, neurons, over_sparse, theorem16
from elegans.studies.pareto_frontiers.training import OverSparseInit

FORMS: dict[str, Form] = {"as printed": "printed", "corrected": "corrected"}
ROUNDING = 1e-9
TIGHT = 1 + ROUNDING
"""The limit of a share of a bound that is reached exactly."""


def concentration(tau: float, samples: int, first_seed: int) -> Rows:
    """Yield the check of Lemma 10: how often the deviation exceeds tau, at (20, 2) with s = 9 and 40 neurons.

    The gradient of a bias has the mean 0: the majority of an odd number of signs has no coefficient of even degree.
    """
    n, k, s, count, delta = 20, 2, 9, 40, 0.1
    sample = theorem16.lemma10_sample(n, count, tau, delta)
    weight = OverSparseInit(s).weights(random.stream(first_seed, "init"), 2 * count, n)[:count]
    means = np.array([neurons.over_sparse_gradient(n, range(k), np.flatnonzero(row).tolist()) for row in weight], float)
    means = np.pad(means, ((0, 0), (0, 1)))
    generator = np.random.default_rng([10, first_seed])
    failures = 0
    for _ in range(samples):
        x = generator.choice(np.array([-1, 1], np.float32), (sample, n))
        inputs = np.pad(x, ((0, 0), (0, 1)), constant_values=1)
        found = (weight @ x.T > 0).astype(np.float32) @ (inputs * x[:, :k].prod(axis=1)[:, None]) / sample
        failures += int(np.abs(found - means).max() > tau)
    yield rare("pareto/lemma-10-concentration", "probability of a deviation above tau", failures, samples, delta)


def features(sizes: Sequence[tuple[int, int, int]], runs: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma 11, for all inputs: at the width of Lemma 15 and the sample of Lemma 10.

    Neurons with the same ones and bias have the same features: each is computed once and weighted by its number.
    """
    claim, delta = "pareto/lemma-11-features", 0.01
    for name, form in FORMS.items():
        lists = {k: over_sparse.over_sparse_biases(k, form=form) for k in (2, 4, 6)}
        losses = [float(over_sparse.smallest_hinge_loss(k, biases)) for k, biases in lists.items()]
        yield check(claim, f"smallest loss of a readout of the ideal features, {name}", losses, 0)
    slopes = [
        float(over_sparse.over_sparse_rate(k, s) * abs(neurons.over_sparse_irrelevant(k, s)) * s / 2)
        for k in (2, 4, 6, 8, 10)
        for s in range(4 * k + 1, 402, 2)
    ]
    yield check(claim, "|eta c| as a share of 2 / s", slopes, 1)
    for n, k, s in sizes:
        generator = np.random.default_rng([11, n, first_seed])
        found = np.array([_features(n, k, s, delta, generator) for _ in range(runs)])
        failures = (found > 1 + ROUNDING).sum(axis=0)
        events = [*(f"a {what} beyond its bound" for what in ("norm", "distance", "loss")), "a bad neuron that fires"]
        for name, count in zip(events, failures.tolist(), strict=True):
            yield rare(claim, f"probability of {name}, ({n}, {k}), s = {s}", count, runs, delta, 4 * len(sizes))


def _features(n: int, k: int, s: int, delta: float, generator: np.random.Generator) -> list[float]:
    """Return norm, distance and loss as shares of their bounds, and 2 if a bad neuron fires on any input, else 0."""
    width, rate = luck.lemma15_width(n, k, s, delta), float(over_sparse.over_sparse_rate(k, s))
    tau, r_prime = theorem16.lemma11_precision(n, k, rate), luck.good_per_bias(n, k, s, width)
    biases = np.array(over_sparse.over_sparse_biases(k), np.float32)
    x = sign_table(n).astype(np.float32)
    y = x[:, :k].prod(axis=1)
    seen = generator.multinomial(theorem16.lemma10_sample(n, width, tau, delta), np.full(2**n, 2.0**-n))
    rows = np.array([[i in ones for i in range(n)] for ones in itertools.combinations(range(n), s)], np.float32)
    counts = generator.multinomial(width // 2, np.full(len(rows) * len(biases), 1 / len(rows) / len(biases)))
    counts = counts.reshape(len(rows), len(biases))
    share = (seen / seen.sum() * y).astype(np.float32)[:, None] * x
    step = np.float32(rate) * np.array([(x @ row > 0).astype(np.float32) @ share for row in rows])
    means = [neurons.over_sparse_gradient(n, range(k), np.flatnonzero(row).tolist()) for row in rows]
    exact = (rate * np.array(means, float)).astype(np.float32)
    norm, distance, output = np.zeros(2**n), np.zeros(2**n), np.zeros(2**n)
    readout = np.array(over_sparse.over_sparse_readout(k), float)
    good = np.asarray((rows[:, :k] == 1).all(axis=1))
    fires = False
    direction = 1 if neurons.over_sparse_relevant(k, s) > 0 else -1
    for place, bias in enumerate(biases):
        group = counts[good, place].sum()
        for row in np.flatnonzero(counts[:, place]):
            towards, sampled = x @ exact[row], x @ step[row]
            for sign in (1, -1):
                ideal, noisy = np.maximum(sign * towards + bias, 0), np.maximum(sign * sampled + bias, 0)
                norm += counts[row, place] * ideal**2
                distance += counts[row, place] * (ideal - noisy) ** 2
                if good[row]:
                    weight = readout[1 + place + (0 if sign == direction else len(biases))]
                    output += weight * counts[row, place] / group * ideal
                else:
                    fires |= bool(noisy.any())
    loss = float(np.maximum(1 - y * (readout[0] + output), 0).mean())
    return [
        math.sqrt(norm.max()) / theorem16.lemma11_feature_norm(k, r_prime),
        math.sqrt(distance.max()) / theorem16.lemma11_distance(n, k, r_prime, rate, tau),
        loss / theorem16.lemma11_loss(k, s, r_prime, over_sparse.readout_norm(over_sparse.over_sparse_readout(k))),
        2.0 * fires,
    ]


def lipschitz(pairs: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma 12: random features, readouts and labels, on all inputs and on samples.

    Random pairs stay far below the bound. Features that move along the readout at every input, against the label and
    with the hinge active, reach it.
    """
    generator = np.random.default_rng([12, first_seed])
    everything, sampled, along = [], [], []
    for _ in range(pairs):
        n, width = int(generator.integers(2, 11)), int(generator.integers(1, 30))
        first = generator.standard_normal((2**n, width))
        second = first + 10 ** generator.uniform(-3, 1) * generator.standard_normal((2**n, width))
        readout, y = generator.standard_normal(width), generator.choice([-1, 1], 2**n)
        losses = [np.maximum(1 - y * (values @ readout), 0) for values in (first, second)]
        bound = theorem16.lemma12_bound(
            float(np.linalg.norm(readout)), float(np.linalg.norm(first - second, axis=1).max())
        )
        chosen = generator.integers(0, 2**n, 20)
        everything.append(abs(losses[0].mean() - losses[1].mean()) / bound)
        sampled.append(abs(losses[0][chosen].mean() - losses[1][chosen].mean()) / bound)
        along.append(along_readout(first, readout, y, float(np.linalg.norm(first - second, axis=1).max())))
    yield check("pareto/lemma-12-lipschitz", "change of the population's loss, share of the bound", everything, 1)
    yield check("pareto/lemma-12-lipschitz", "change of a sample's loss, share of the bound", sampled, 1)
    yield check(
        "pareto/lemma-12-lipschitz", "change along the readout, share of the bound", [one for one, _ in along], TIGHT
    )


def along_readout(first: np.ndarray, readout: np.ndarray, y: np.ndarray, distance: float) -> tuple[float, float]:
    """Return the change of the loss over the bound of Lemma 12, and over the bound with the largest entry as the norm.

    Features are first moved along the readout until the margin is at most 0, so that the hinge is active everywhere,
    then by ``distance`` further.
    """
    norm = float(np.linalg.norm(readout))
    wrong = first - np.outer(np.maximum(y * (first @ readout), 0) * y, readout) / norm**2
    moved = wrong - np.outer(distance * y, readout) / norm
    before, after = (np.maximum(1 - y * (values @ readout), 0).mean() for values in (wrong, moved))
    change = abs(float(after - before))
    apart = np.linalg.norm(wrong - moved, axis=1).max(), np.abs(wrong - moved).max()
    return change / theorem16.lemma12_bound(norm, float(apart[0])), change / (norm * float(apart[1]))


def generalisation(samples: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma 13 with exact features: the largest gap that subgradient ascent finds, at (10, 2)."""
    n, k, norm, delta, starts = 10, 2, 15.0, 0.1, 8
    generator = np.random.default_rng([13, first_seed])
    x = sign_table(n).astype(float)
    y = x[:, :k].prod(axis=1)
    hidden = np.maximum(x @ generator.standard_normal((n, 20)) / math.sqrt(n), 0)
    psi = np.column_stack([np.ones(len(x)), hidden]) * y[:, None]
    size = float(np.linalg.norm(psi, axis=1).max())
    sizes = (50, 200, 1000)
    for sample in sizes:
        bound = theorem16.lemma13_excess(norm, size, 0.0, sample, delta)
        failures = 0
        for _ in range(samples):
            weight = generator.multinomial(sample, np.full(len(x), 1 / len(x))) / sample - 1 / len(x)
            readout = generator.standard_normal((psi.shape[1], starts))
            best = 0.0
            for step in range(60):
                readout *= np.minimum(1, norm / np.linalg.norm(readout, axis=0))
                margin = psi @ readout
                best = max(best, float((-weight @ np.maximum(1 - margin, 0)).max()))
                ascent = psi.T @ (weight[:, None] * (margin < 1))
                length = np.maximum(np.linalg.norm(ascent, axis=0), 1e-12)
                readout = readout + norm / math.sqrt(1 + step) * ascent / length
            failures += int(best > bound)
        name = f"probability of an excess beyond the bound, {sample} examples"
        yield rare("pareto/lemma-13-generalisation", name, failures, samples, delta, len(sizes))


READOUTS = ((2, Fraction(1, 16)), (2, Fraction(3, 4)), (4, Fraction(1, 16)))
"""Size of the support and offset of the biases."""
THE_PROOFS, BEST = "the proof's rates", "best of three schedules"
"""The schedules of Lemma 14: the rates 1/(decay t) of the proof, or these and two that fall linearly to 0."""


def readout_descent(runs: int, corrected_steps: bool, first_seed: int) -> Rows:
    """Yield the checks of Lemma 14: readouts of the ideal features.

    The lemma says that some rates and decay exist once the sample is drawn, so each sample has the best of a family.
    """
    claim, epsilon, delta = "pareto/lemma-14-readout-descent", 0.1, 0.05
    limit = theorem16.lemma14_loss(epsilon, "printed")
    generator = np.random.default_rng([14, first_seed])
    cases = [(*case, BEST) for case in READOUTS] + [(2, Fraction(3, 4), "corrected")] * corrected_steps
    comparisons = len(cases) + len(READOUTS)
    for k, offset, name in cases:
        biases = over_sparse.over_sparse_biases(k, offset)
        psi = np.array(over_sparse.readout_features(k, biases), float)
        norm = over_sparse.readout_norm(over_sparse.over_sparse_readout(k, biases))
        size = float(np.linalg.norm(psi, axis=1).max())
        sample = theorem16.lemma14_sample(norm, size, epsilon, delta)
        chance = np.array([math.comb(k, ones) for ones in range(k + 1)]) / 2**k
        signed = psi * np.array(parity_of_sum(k), float)[:, None]
        share = generator.multinomial(sample, chance, runs) / sample
        steps = theorem16.lemma14_steps(norm, size, epsilon, "printed" if name == BEST else "corrected")
        decay = epsilon / norm**2
        with jax.enable_x64(True):
            readouts = [_descend(signed, share.T, decay, steps)]
            if name == BEST:
                readouts += [_descend_linearly(signed, share.T, norm, one, steps) for one in (0.0, decay)]
        losses = np.array([chance @ np.maximum(1 - signed @ np.asarray(readout), 0) for readout in readouts])
        event = f"probability of loss above 7 epsilon, k = {k}, offset {float(offset):g}"
        alone, best = (int((found > limit).sum()) for found in (losses[0], losses.min(axis=0)))
        if name == BEST:
            yield rare(claim, f"{event}, printed T, {BEST}", best, runs, 2 * delta, comparisons)
            label = f"{event}, {THE_PROOFS}, T as printed in the proof"
        else:
            label = f"{event}, {THE_PROOFS}, T corrected"
        yield rare(claim, label, alone, runs, 2 * delta, comparisons)
    ratios, repaired = [], []
    for _ in range(200):
        values, readout = generator.standard_normal((8, 3)), generator.standard_normal(3)
        norm = 10 ** generator.uniform(-2, 1)
        readout *= norm * generator.random() / np.linalg.norm(readout)
        bound = norm * float(np.linalg.norm(values, axis=1).max())
        loss = float(np.maximum(1 - values @ readout, 0).mean())
        ratios.append(loss / bound)
        repaired.append(loss / (1 + bound))
    yield check(claim, "Claim 1: loss as a share of 1 + B ||psi||, corrected", repaired, 1)
    yield check(claim, "Claim 1: loss as a share of B ||psi||, as printed in the proof", ratios, 1)


@jax.jit
def _descend(signed: jax.Array, share: jax.Array, decay: float, steps: int) -> jax.Array:
    """Return the last iterates of gradient descent on the hinge loss, one run per column.

    Args:
        signed: the features times the label, by value of the sum of signs.
        share: the share of each of these values in the sample, of shape (values, runs).
        decay: the weight decay; the rate at step t is its inverse divided by t.
        steps: the number of steps.
    """

    def step(number: jax.Array, readout: jax.Array) -> jax.Array:
        # sums of products, since many small matrix products would take ten times as long
        active = jnp.where((signed[:, :, None] * readout).sum(axis=1) < 1, share, 0.0)
        towards = (signed[:, :, None] * active[:, None]).sum(axis=0) / decay
        return readout + (towards - readout) / number

    last: jax.Array = jax.lax.fori_loop(1, steps + 1, step, jnp.zeros((signed.shape[1], share.shape[1])))
    return last


@jax.jit
def _descend_linearly(signed: jax.Array, share: jax.Array, first: float, decay: float, steps: int) -> jax.Array:
    """Return the last iterates as ``_descend`` does, with rates that fall linearly from ``first`` to 0."""

    def step(number: jax.Array, readout: jax.Array) -> jax.Array:
        active = jnp.where((signed[:, :, None] * readout).sum(axis=1) < 1, share, 0.0)
        towards = (signed[:, :, None] * active[:, None]).sum(axis=0)
        return readout + first * (1 - number / steps) * (towards - decay * readout)

    last: jax.Array = jax.lax.fori_loop(0, steps, step, jnp.zeros((signed.shape[1], share.shape[1])))
    return last

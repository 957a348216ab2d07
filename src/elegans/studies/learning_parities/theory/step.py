"""Biased parities: the first gradient step in closed form, for any number of inputs.

A neuron v = w . x + b has weights in {-1, 0, 1}. While the network's output is 0 every hinge is active and the gradient
is a correlation: with step size 1 and weight decay 1/2 the step leaves w = u0 E[y x relu6'(v)], u = E[y relu6(v)] and
b = b0 + u0 E[y relu6'(v)]. All these are sums of binomial probabilities: with J the nonzero weights, s = |J|,
W_A = sum_A w_j, and m fair signs of sum S_m,

win(m, c) = P(0 < S_m / sqrt(n) + c < 6) and

kap(t, m, c) = E[y_1 … y_t 1{0 < S_m / sqrt(n) + c < 6}] = 2^(-t) sum_i (-1)^i C(t, i) win(m - t, c + (t - 2i) /
sqrt(n)), with y_1, …, y_t t of the signs.

Source of all functions: Daniely and Malach (2020), section 5.1; the closed forms are derived here.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    support: the k coordinates of A, k odd.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import Side, require, require_positive
from elegans.studies.learning_parities.theory.parity import biased_support, require_mix
from elegans.studies.learning_parities.theory.window import CAP, InitialNeurons, signed_window


class BiasedStep(NamedTuple):
    """Population correlations of each of q neurons, in the units of inputs x with ||x|| = 1.

    Args:
        weight: E[y x relu6'(v)], float64 of shape (q, n).
        bias: E[y relu6'(v)], float64 of shape (q,).
        output: E[y relu6(v)], float64 of shape (q,).
    """

    weight: np.ndarray
    bias: np.ndarray
    output: np.ndarray


def biased_correlations(weight: Any, bias: Any, support: Iterable[int], mix: float = 0.5) -> BiasedStep:
    """Return the population correlations of q neurons under D_A, exactly.

    Formula: D1: sqrt(n) E[y x_j relu6'] = prod_Q w_i kap(|Q|, s, b) with Q = A xor {j} inside J, else 0;
        E[y relu6'] = prod_A w_i kap(k, s, b) with A inside J, else 0. D2, with r = W_A / sqrt(n) and s2 = |J - A|:
        (win(s2, b + r) + win(s2, b - r)) / 2 on A; w_j (kap(1, s2, b + r) - kap(1, s2, b - r)) / 2 outside;
        (win(s2, b + r) - win(s2, b - r)) / 2 for the bias. The output is like the bias, with relu6 in place of its
        derivative.
    Source: derived here, from the initialisation of Daniely and Malach (2020), section 2.

    Args:
        weight: the weights, all -1, 0 or 1, shape (q, n).
        bias: the biases, shape (q,) or one for all.
        mix: the probability of D2 in the mixture: 0 for D1 alone, 1 for D2 alone.
    """
    neurons = InitialNeurons(weight, bias, support)
    require_mix(mix)
    parts = [(share, part(neurons)) for share, part in ((1 - mix, _uniform), (mix, _aligned)) if share > 0]
    return BiasedStep(
        sum((share * part.weight for share, part in parts), np.zeros(neurons.weight.shape)),
        sum((share * part.bias for share, part in parts), np.zeros(neurons.q)),
        sum((share * part.output for share, part in parts), np.zeros(neurons.q)),
    )


class BiasedNetwork(NamedTuple):
    """The parameters of q neurons.

    Args:
        weight: float64 of shape (q, n).
        bias: float64 of shape (q,).
        output: float64 of shape (q,).
    """

    weight: np.ndarray
    bias: np.ndarray
    output: np.ndarray


def biased_first_step(weight: Any, bias: Any, output: Any, support: Iterable[int], mix: float = 0.5) -> BiasedNetwork:
    """Return q neurons after the first population step, with step size 1 and weight decay 1/2.

    The whole network's output must be 0 initially: neurons are mirrored by copies with the same w and b and the negated
    u. The copies' step follows by negating w and the change of b.

    Formula: w = u0 E[y x relu6'(v)]; b = b0 + u0 E[y relu6'(v)]; u = E[y relu6(v)].
    Source: derived here, from Daniely and Malach (2020), sections 2 and 5.1.

    Args:
        weight: the initial weights, all -1, 0 or 1, shape (q, n).
        bias: the initial biases, shape (q,) or one for all.
        output: the initial output weights u0, shape (q,).
        mix: the probability of D2 in the mixture.
    """
    step = biased_correlations(weight, bias, support, mix)
    start = np.asarray(output, float)
    return BiasedNetwork(start[:, None] * step.weight, bias + start * step.bias, step.output)


def biased_antipodal_output(preactivation: Any, output: Any) -> Float[np.ndarray, " points"]:
    """Return the initial output of the printed initialisation, whose copies have w, b and u all negated.

    It is not 0, as the lemmas require: about 150 in absolute value on average for n = 101, k = 3, q = 128. Mirrored
    copies, which keep w and b, do give 0.

    Formula: g0(x) = sum_{i <= q} u_i clip(w_i . x + b_i, -6, 6).
    Source: derived here, from Daniely and Malach (2020), section 2.

    Args:
        preactivation: w_i . x + b_i of the first q neurons, shape (points, q).
        output: their output weights, shape (q,).
    """
    return np.asarray(np.clip(preactivation, -CAP, CAP) @ np.asarray(output, float))


def p_good_biased(k: Side) -> Fraction:
    """Return the probability that a neuron's weights on A sum to 0, which makes it good.

    7/27, 51/243, 393/2187 for k = 3, 5, 7; about sqrt(3 / (4 pi k)).

    Formula: T_k / 3^k with the central trinomial T_k = sum_j C(k, 2j) C(2j, j).
    Source: the condition is Daniely and Malach (2020), Lemma 7; its probability derived here.

    Args:
        k: the size of A.
    """
    require_positive("Lemma 7", k=k)
    return Fraction(sum(math.comb(k, 2 * j) * math.comb(2 * j, j) for j in range(k // 2 + 1)), 3**k)


def p_good_biased_bound(n: int, k: int) -> float:
    """Return a guaranteed probability that a neuron is good.

    Formula: 1 / (14 sqrt(k)).
    Source: Daniely and Malach (2020), Lemma 9.

    Args:
        n: the number of inputs, at least 9 ln 7.
        k: the size of A, from 7 to n^(1/4) / (2 sqrt(2)).
    """
    require(n >= 9 * math.log(7), "n must be at least 9 ln 7 (Lemma 9)", n=n)
    require(k >= 7, "k must be at least 7 (Lemma 9)", k=k)
    require(k <= n**0.25 / (2 * math.sqrt(2)), "k must be at most n^(1/4) / (2 sqrt(2)) (Lemma 9)", k=k, n=n)
    return 1 / (14 * math.sqrt(k))


class NeuronReport(NamedTuple):
    """The result of the first step for q neurons.

    Args:
        balance: W_A, the sum of the initial weights on A, int64 of shape (q,).
        good: whether it is 0, bool of shape (q,).
        slope: alpha, the mean over A of sqrt(n) w_j / u0, shape (q,); from 1/4 to 1 for good neurons.
        spread: the largest minus the smallest of those, shape (q,).
        irrelevant: the largest |w_j| outside A, shape (q,).
        shift: |b - b0|, shape (q,).
        fraction_good: the share of good neurons.
        leak: the norm of the weights outside A over the norm of the weights on A, over all neurons.
    """

    balance: np.ndarray
    good: np.ndarray
    slope: np.ndarray
    spread: np.ndarray
    irrelevant: np.ndarray
    shift: np.ndarray
    fraction_good: float
    leak: float


def biased_neuron_report(before: BiasedNetwork, after: BiasedNetwork, support: Iterable[int]) -> NeuronReport:
    """Return how close the first step brings each neuron to the sum of the signs on A.

    For odd k a good neuron has a weight of 0 on A, so its irrelevant weights, the change of its bias and its new output
    weight are exactly 0 in the population (derived here); the lemma bounds them.

    Formula: alpha = mean_A sqrt(n) w_j / u0; leak = ||w_{outside A}|| / ||w_{on A}||.
    Source: the quantities of Daniely and Malach (2020), Lemma 9.

    Args:
        before: the initial parameters; q neurons with weights -1, 0, 1 and output weights that are not 0.
        after: the parameters after the step, of a population or of a sample.
    """
    initial, weight = np.asarray(before.weight), np.asarray(after.weight, float)
    n = weight.shape[1]
    places = biased_support(support, n)
    start = np.asarray(before.output, float)
    require(bool((start != 0).all()), "initial output weights must not be 0", zeros=int((start == 0).sum()))
    relevant, others = weight[:, places], np.delete(weight, places, axis=1)
    slopes = math.sqrt(n) * relevant / start[:, None]
    balance = initial[:, places].sum(axis=1).astype(np.int64)
    return NeuronReport(
        balance=balance,
        good=balance == 0,
        slope=slopes.mean(axis=1),
        spread=np.ptp(slopes, axis=1),
        irrelevant=np.abs(others).max(axis=1, initial=0),
        shift=np.abs(np.asarray(after.bias) - before.bias),
        fraction_good=float((balance == 0).mean()),
        leak=float(np.linalg.norm(others) / np.linalg.norm(relevant)),
    )


def _uniform(neurons: InitialNeurons) -> BiasedStep:
    none, one = neurons.zeros == 0, neurons.zeros == 1
    still = np.zeros(neurons.q, np.int64)
    k, window = neurons.k, neurons.window

    def moment(t: int, capped: bool = False) -> np.ndarray:
        chosen = (none | one) if t < k else none
        values = np.zeros(neurons.q)
        part = window.only(chosen)
        values[chosen] = signed_window(t, neurons.total[chosen], still[chosen], part, capped)
        return np.asarray(neurons.product * values)

    on = moment(k - 1)[:, None] * np.where(none[:, None], neurons.relevant, one[:, None] & (neurons.relevant == 0))
    return BiasedStep(neurons.broadcast(on, moment(k + 1)), moment(k), moment(k, capped=True))


def _aligned(neurons: InitialNeurons) -> BiasedStep:
    m, balance, window = neurons.outside, neurons.balance, neurons.window
    up, down = neurons.win(m, balance), neurons.win(m, -balance)
    on = np.repeat(((up + down) / 2)[:, None], neurons.k, axis=1)
    others = (signed_window(1, m, balance, window) - signed_window(1, m, -balance, window)) / 2
    output = (window.capped_mean(m, balance) - window.capped_mean(m, -balance)) / 2
    return BiasedStep(neurons.broadcast(on, others), (up - down) / 2, output)

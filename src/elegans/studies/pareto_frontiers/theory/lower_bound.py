"""The statistical-query lower bound in action: an adversary that hides the target.

Most parities are nearly uncorrelated with any one gradient entry (Lemma 6). Where resources fall short of the bound,
bounded noise can therefore cancel the labels' contribution to every gradient, and gradient descent follows the path
that it would follow without a target.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.boolean.fourier import sign_table, walsh_hadamard
from elegans.calculators.domain import AtMost, Seed, require, require_parity, require_positive
from elegans.studies.pareto_frontiers.theory.frontier import sq_resource

LARGEST_INPUT = 16
"""The largest number of inputs whose population gradients the demonstration enumerates."""


def parity_weight(values: Any, k: int) -> Float[np.ndarray, "..."]:
    """Return functions' mean squared correlations with the k-parities.

    For a gradient entry of at most 1 it is at most 1 / C(n, k), whatever the parameters. The printed lemma subtracts a
    term that depends on x; its expectation over x is meant.

    Formula: mean over |S| = k of (E[chi_S g])^2 = C(n, k)^-1 sum_{|S|=k} hat g(S)^2 <= E[g^2] / C(n, k).
    Source: Pareto frontiers, Lemma 6 (Parseval).

    Args:
        values: each g at all 2^n inputs in the order of ``sign_table``, shape (..., 2^n).
        k: the size of the parities, from 1 to n.
    """
    sums = walsh_hadamard(values)
    size = sums.shape[-1]
    require_parity(size.bit_length() - 1, k, "Lemma 6")
    chosen = np.bitwise_count(np.arange(size)) == k
    return np.asarray(((sums[..., chosen] / size) ** 2).mean(axis=-1))


@dataclass(frozen=True)
class NoiseForcing:
    """What the adversary did.

    Args:
        parameters: the number r of trained parameters.
        resource: r T / tau^2: the bound excludes success up to luck delta where it is at most
            delta x ``sq_threshold``.
        noise: the largest entry of the noise needed to hide the target, before any clipping.
        signal: the largest population correlation of a gradient entry with the target, on the target-free path.
        sampling: the largest deviation of the target-free gradient on the batch from its mean (Assumption 2
            requires at most tau / 2).
        departure: the largest difference in any parameter between the forced path and the target-free path.
        forced: whether the noise never had to be clipped, so the two paths coincide.
    """

    parameters: int
    resource: float
    noise: float
    signal: float
    sampling: float
    departure: float
    forced: bool


def noise_forcing_demo(
    n: int,
    k: int,
    *,
    width: Annotated[int, AtMost(100)],
    steps: Annotated[int, AtMost(1_000)],
    tau: float,
    seed: Seed = 0,
    sample: Annotated[int, AtMost(10_000)] | None = None,
    learning_rate: float = 0.1,
) -> NoiseForcing:
    """Run the adversary of the lower bound against gradient descent on a random parity.

    The network is f(x) = sum_i u_i relu(w_i . x + b_i) + c with fixed u_i = -1 or 1, so no derivative exceeds
    1; the loss is half the squared error, for which the labels enter gradients by -y alone. Adding the noise
    turns every gradient into the population gradient with all labels 0, unless it has to be clipped to [-tau, tau].

    Formula: xi_t = grad L_D(h, 0) - grad L_{S_t}(h, f), clipped; theta_{t+1} = theta_t - eta (grad L_{S_t} + xi_t).
    Source: Pareto frontiers, Proposition 3 and its proof.

    Args:
        n: the number of inputs, at most 16: population gradients are enumerated.
        k: the size of the support, drawn from the seed.
        width: the number of hidden units; it has width (n + 1) + 1 trained parameters.
        steps: the number T of steps.
        tau: the largest noise.
        seed: the seed of support, initialisation (uniform on [-1/sqrt(n), 1/sqrt(n)]) and batches.
        sample: the size of each step's fresh batch; None for population gradients.
        learning_rate: the step size eta.

    Returns:
        The results of the simulation; paths that coincide do so to rounding.
    """
    require_parity(n, k, "Proposition 3")
    require(n <= LARGEST_INPUT, f"n must be at most {LARGEST_INPUT} for population gradients", n=n)
    require_positive("Proposition 3", width=width, steps=steps, tau=tau, sample=1 if sample is None else sample)
    support = random.subsets(random.stream(seed, "task"), rows=1, n=n, size=k)[0]
    network = _Network(n, width, seed)
    everything = sign_table(n).astype(np.float64)
    parity = everything[:, support].prod(axis=1)
    forced = free = network.start
    seen = {"noise": 0.0, "signal": 0.0, "sampling": 0.0, "departure": 0.0}
    for step in range(steps):
        x, y = (everything, parity) if sample is None else _batch(n, support, sample, seed, step)
        target_free = network.gradient(forced, everything, network.output(forced, everything))
        empirical = network.gradient(forced, x, network.output(forced, x) - y)
        wanted = target_free - empirical
        forced = forced - learning_rate * (empirical + np.clip(wanted, -tau, tau))
        drift = network.gradient(free, everything, network.output(free, everything))
        _note(seen, "noise", wanted)
        _note(seen, "signal", network.gradient(free, everything, parity))
        _note(seen, "sampling", network.gradient(free, x, network.output(free, x)) - drift)
        free = free - learning_rate * drift
        _note(seen, "departure", forced - free)
    resource = sq_resource(network.parameters, steps, tau, 1)
    return NoiseForcing(network.parameters, resource, **seen, forced=seen["noise"] <= tau)


def target_free_noise(
    n: int,
    k: int,
    *,
    width: Annotated[int, AtMost(50)],
    steps: Annotated[int, AtMost(500)],
    seed: Seed = 0,
    learning_rate: float = 0.1,
) -> Float[np.ndarray, " parities"]:
    """Return how much noise hides each k-parity from the network of ``noise_forcing_demo``.

    Descent follows the target-free path; the noise that keeps it there when the labels are a parity's is the parity's
    correlation with each entry of the gradient.

    Formula: max over steps and entries i of |E[chi_S d_i h]|, for all |S| = k.
    Source: Pareto frontiers, proof of Proposition 3.

    Args:
        n: the number of inputs, at most 16.
        k: the size of the parities.
        width: the number of hidden units.
        steps: the number T of steps.
        seed: the seed of the initialisation.
        learning_rate: the step size eta.

    Returns:
        One value per parity, in the order of their positions in a table of all sets (``set_index``).
    """
    require_parity(n, k, "Proposition 3")
    require(n <= LARGEST_INPUT, f"n must be at most {LARGEST_INPUT} for population gradients", n=n)
    require_positive("Proposition 3", width=width, steps=steps)
    network = _Network(n, width, seed)
    x = sign_table(n).astype(np.float64)
    theta = network.start
    chosen = np.flatnonzero(np.bitwise_count(np.arange(2**n)) == k)
    # the parity of S times x_j is that of S with j added or removed
    places = np.stack([chosen, *(chosen ^ (1 << j) for j in range(n))])
    largest = np.zeros(len(chosen))
    for _ in range(steps):
        sums = walsh_hadamard((network.hidden(theta, x) > 0).T)
        largest = np.maximum(largest, np.abs(sums[:, places]).max(axis=(0, 1)) / 2**n)
        theta = theta - learning_rate * network.gradient(theta, x, network.output(theta, x))
    return largest


def _note(seen: dict[str, float], name: str, values: np.ndarray) -> None:
    seen[name] = max(seen[name], float(np.abs(values).max()))


def _batch(n: int, support: np.ndarray, size: int, seed: Seed, step: int) -> tuple[np.ndarray, np.ndarray]:
    index = np.arange(step * size, (step + 1) * size, dtype=np.uint32)
    x = random.rademacher(random.stream(seed, "sample"), index, n).astype(np.float64)
    return x, x[:, support].prod(axis=1)


class _Network:
    """Hidden weights and biases and an output bias, in one vector; the output weights are fixed signs."""

    def __init__(self, n: int, width: int, seed: Seed) -> None:
        self.shape = (width, n)
        self.parameters = width * (n + 1) + 1
        key, index, lane = random.stream(seed, "init"), np.arange(width, dtype=np.uint32), np.arange(n + 1)
        drawn = random.uniform_signed(key.fold(0), index[:, None], lane=lane[None, :].astype(np.uint32)) / np.sqrt(n)
        self.start = np.append(drawn.astype(np.float64).ravel(), 0.0)
        self.signs = random.rademacher(key.fold(1), np.zeros(1, np.uint32), width)[0].astype(np.float64)

    def hidden(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the hidden units' inputs, shape (count, width)."""
        rows = theta[:-1].reshape(self.shape[0], self.shape[1] + 1)
        return np.asarray(x @ rows[:, :-1].T + rows[:, -1])

    def output(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs, shape (count,)."""
        return np.asarray(np.maximum(self.hidden(theta, x), 0) @ self.signs + theta[-1])

    def gradient(self, theta: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the mean over examples of weight times the output's gradient, shape (parameters,)."""
        active = (self.hidden(theta, x) > 0) * weight[:, None] * self.signs
        rows = np.column_stack([active.T @ x, active.sum(axis=0)]) / len(x)
        return np.append(rows.ravel(), weight.mean())

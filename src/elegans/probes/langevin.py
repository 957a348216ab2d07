"""Langevin dynamics on a potential."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from pydantic import Field

from elegans import random
from elegans.component import Component

Count = Annotated[int, Field(ge=1, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Potential = Callable[[Any, Any], Any]
"""Returns the potential of parameters (d,), given a context of arrays, as JAX computes it."""
NoisyPotential = Callable[[Any, Any, random.Key], Any]
"""The same on a fresh minibatch, drawn from a key."""
RETURNED = 0.2
"""A chain has left if descent from its end reaches a loss that differs from the start's by this share of the excess."""


class LangevinChains(NamedTuple):
    """What chains of Langevin dynamics have visited.

    Args:
        start: the potential at the start.
        mean: each chain's mean potential over its draws, shape (chains,).
        end: the last parameters, shape (chains, d).
        descended: the potential that descent without noise reaches from there, shape (chains,).
        acceptance: the mean probability with which a Metropolis step would accept a chain's steps, shape (chains,); NaN
            with minibatches. It is near 1 where the step size does not matter.
    """

    start: float
    mean: Float64[np.ndarray, " chains"]
    end: Float64[np.ndarray, "chains d"]
    descended: Float64[np.ndarray, " chains"]
    acceptance: Float64[np.ndarray, " chains"]

    @property
    def has_left(self) -> Bool[np.ndarray, " chains"]:
        """Which chains ended in another basin, whose lowest potential differs from the start's, shape (chains,)."""
        excess = abs(float(self.mean.mean()) - self.start)
        return np.asarray(abs(self.descended - self.start) > RETURNED * excess)

    @property
    def left(self) -> float:
        """The share of chains that ended in another basin."""
        return float(self.has_left.mean())


class Langevin(Component):
    """Langevin dynamics around a point, in double precision, on any potential that JAX differentiates.

    A step moves w to w - (step_size / 2) (nbeta grad L(w) + localisation (w - start)) + sqrt(step_size) xi. A chain's
    draws depend on its key alone: it is the same alone and beside others.

    Source: Welling and Teh (2011); with the localisation of Lau et al. (2023).

    Args:
        chains: the number of chains.
        draws: the number of steps over which the potential is averaged.
        burn_in: the number of steps before these.
        step_size: above 0.
        localisation: the strength of the pull to the start, at least 0.
    """

    chains: Count = 16
    draws: Count = 1000
    burn_in: Annotated[int, Field(ge=0, lt=2**31)] = 0
    step_size: Positive = 1e-4
    localisation: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    def sample(
        self,
        potential: Potential,
        start: Any,
        nbeta: float,
        key: random.Key,
        context: Any = None,
        noisy: NoisyPotential | None = None,
    ) -> LangevinChains:
        """Return what the chains visit.

        Args:
            potential: a function of the parameters (d,) and the context; it is compiled once.
            start: the parameters at which all chains start, shape (d,).
            nbeta: the inverse temperature times the number of examples.
            key: the key of all chains.
            context: arrays that the potential needs, in any nesting.
            noisy: the potential of a minibatch, by which chains move; by default, all examples.
        """
        import jax
        import jax.numpy as jnp

        keys = np.array([key.fold(chain) for chain in range(self.chains)], np.uint32)
        with jax.enable_x64(True):
            run = _program(potential, noisy, len(start))
            at = jnp.asarray(np.asarray(start, float))
            sizes = np.uint32(self.burn_in), np.uint32(self.draws)
            result = run(keys, at, context, self.step_size, self.localisation, nbeta, *sizes)
            first, *arrays = (np.asarray(array) for array in result)
        return LangevinChains(float(first), *arrays)


@lru_cache(maxsize=64)
def _program(potential: Potential, noisy: NoisyPotential | None, size: int) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    lanes = np.arange(size, dtype=np.uint32)

    def chain(
        words: Any, start: Any, context: Any, step_size: Any, pull: Any, nbeta: Any, burn: Any, draws: Any
    ) -> Any:
        key = random.Key(words[0], words[1])

        def force(w: Any, step: Any) -> tuple[Any, Any]:
            value, slope = jax.value_and_grad(potential)(w, context)
            if noisy is not None:
                slope = jax.grad(noisy)(w, context, key.fold(1).fold(step))
            return value, nbeta * slope + pull * (w - start)

        def move(step: Any, state: Any) -> Any:
            w, value, slope, total, accepted = state
            noise = jnp.sqrt(step_size) * random.normal(key, step, lane=lanes).astype(w.dtype)
            new = w - step_size / 2 * slope + noise
            new_value, new_slope = force(new, step + 1)
            back = w - new + step_size / 2 * new_slope
            energies = nbeta * (value - new_value) + pull / 2 * (((w - start) ** 2).sum() - ((new - start) ** 2).sum())
            accepts = jnp.exp(jnp.minimum(0, energies + ((noise**2).sum() - (back**2).sum()) / (2 * step_size)))
            counts = step >= burn
            return new, new_value, new_slope, total + counts * new_value, accepted + counts * accepts

        zero = jnp.zeros((), start.dtype)
        w, _, _, total, accepted = jax.lax.fori_loop(
            np.uint32(0), burn + draws, move, (start, *force(start, np.uint32(0)), zero, zero)
        )
        accepted = accepted / draws if noisy is None else jnp.nan * accepted
        return total / draws, w, _descended(potential, w, context, step_size * nbeta), accepted

    def run(keys: Any, start: Any, context: Any, *settings: Any) -> Any:
        chains = jax.vmap(chain, in_axes=(0, *[None] * 7))(keys, start, context, *settings)
        return potential(start, context), *chains

    return jax.jit(run)


def _descended(potential: Potential, w: Any, context: Any, rate: Any) -> Any:
    """Return the potential after descent whose rate grows while it falls and shrinks otherwise."""
    import jax
    import jax.numpy as jnp

    def step(_: Any, state: Any) -> Any:
        w, value, slope, rate = state
        new = w - rate * slope
        new_value, new_slope = jax.value_and_grad(potential)(new, context)
        better = new_value < value
        w, slope = (jnp.where(better, after, before) for after, before in ((new, w), (new_slope, slope)))
        return w, jnp.where(better, new_value, value), slope, rate * jnp.where(better, 1.2, 0.5)

    return jax.lax.fori_loop(0, 1000, step, (w, *jax.value_and_grad(potential)(w, context), rate))[1]

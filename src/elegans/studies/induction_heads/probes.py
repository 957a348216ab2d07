"""What a network has learned about Markov chains in context: its closest strategy, and where it attends.

Source: thesis, chapter 8 (figures 8.1 to 8.5) and appendix E.2.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int32
from pydantic import Field, SerializeAsAny
from scipy.special import softmax

from elegans.compilation import jit
from elegans.learners.base import Learner
from elegans.models import AttentionOnly, Model
from elegans.probes.base import Probe, Snapshot
from elegans.studies.induction_heads.measures import chain_loss, parity_bias, strategy_distances
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.theory.strategies import chain_strategies
from elegans.tasks import MarkovChains, Prior, Task

BLOCK = 64
"""How many sequences are passed through a network at a time."""
Count = Annotated[int, Field(ge=1)]


class HeldOutSequences(NamedTuple):
    """Held-out sequences of one distribution of chains, at the positions that are evaluated.

    Args:
        tokens: shape (count, length).
        true: the true distribution of the next token, shape (count, positions, k).
        strategies: the predictions of each strategy, of the same shape, by name.
        lines: the mean KL(true || strategy) at the last position, by name.
    """

    tokens: Int32[np.ndarray, "count length"]
    true: Float[np.ndarray, "count positions k"]
    strategies: Mapping[str, Float64[np.ndarray, "count positions k"]]
    lines: Mapping[str, float]


class ChainLosses(Probe):
    """How far predictions on held-out sequences are from the true distribution of the next token, and from strategies.

    All measures are at the last position, in nats. The sequences are the first of the trial's test stream; sequences of
    other distributions of chains have the same counters.

    Args:
        every: how many steps lie between two measurements.
        examples: how many sequences.
        order: the largest n of the n-gram strategies, or None for the task's own order.
        priors: other distributions of chains that the network is evaluated on (``["unigram", "doubly-stochastic"]``).
        positions: whether the losses at every position are included.
    """

    examples: Count = 1000
    order: Count | None = None
    priors: tuple[SerializeAsAny[Prior], ...] = ()
    positions: bool = False

    def check(self, task: Task, model: Model) -> None:
        """Refuse anything but networks on Markov chains, strategies longer than sequences, and unsuitable priors."""
        task = _require_chains(self, task, model)
        if self._order(task) > task.length:
            rule = "the order of strategies must be at most the length"
            raise ValueError(f"{rule}: order={self._order(task)}, length={task.length}")
        labels = [prior.label() for prior in self.priors]
        if len(set(labels)) < len(labels):
            raise ValueError(f"priors must have labels of their own: {labels}")
        for prior in self.priors:
            _with_prior(task, prior)

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return the losses, and those on other distributions of chains under their labels: ``unigram.loss``.

        They are ``loss``, the mean KL(true || network), and ``cross_entropy``; ``distance.bigram``, … and
        ``reverse.bigram``, …, the mean KL(strategy || network) and KL(network || strategy); ``phase``, the order of the
        closest strategy, from 0 for uniform; ``line.bigram``, …, the strategies' own losses, which do not change; and,
        if requested, ``loss.positions`` and ``cross_entropy.positions``, of shape (length,).
        """
        assert isinstance(snapshot.task, MarkovChains)
        found = self._measured(snapshot, snapshot.task)
        for prior in self.priors:
            other = self._measured(snapshot, _with_prior(snapshot.task, prior))
            found |= {f"{prior.label()}.{name}": value for name, value in other.items()}
        return found

    def _measured(self, snapshot: Snapshot, task: MarkovChains) -> dict[str, float | np.ndarray]:
        name = f"chains:{task.prior.label()}:{self.examples}:{self.order}:{self.positions}"
        test: HeldOutSequences = snapshot.remember(name, lambda: self._held_out(snapshot, task))
        program = in_blocks(snapshot.model, "apply" if self.positions else "last")
        logits = np.asarray(program(snapshot.parameters, blocks(test.tokens)), np.float64)
        predicted = softmax(logits.reshape(-1, *test.true.shape[1:])[: self.examples], axis=-1)
        curve = chain_loss(test.true, predicted)
        distances = strategy_distances(predicted, test.strategies)
        reverse = strategy_distances(predicted, test.strategies, reverse=True)
        closest = float(np.argmin(list(distances.values()))) if np.isfinite(predicted).all() else np.nan
        found: dict[str, float | np.ndarray] = {
            "loss": float(curve.divergence[-1]),
            "cross_entropy": float(curve.cross_entropy[-1]),
            **{f"distance.{strategy}": value for strategy, value in distances.items()},
            **{f"reverse.{strategy}": value for strategy, value in reverse.items()},
            "phase": closest,
            **{f"line.{strategy}": value for strategy, value in test.lines.items()},
        }
        if self.positions:
            found |= {"loss.positions": curve.divergence, "cross_entropy.positions": curve.cross_entropy}
        return found

    def _held_out(self, snapshot: Snapshot, task: MarkovChains) -> HeldOutSequences:
        key, index = snapshot.key("test"), np.arange(self.examples, dtype=np.uint32)
        tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)
        kept = slice(None) if self.positions else slice(-1, None)
        predicted = chain_strategies(tokens, task.k, self._order(task)).items()
        strategies = {name: strategy[:, kept].copy() for name, strategy in predicted}
        lines = {name: float(chain_loss(true[:, -1:], known[:, -1:]).divergence[0]) for name, known in predicted}
        return HeldOutSequences(tokens, true[:, kept].copy(), strategies, lines)

    def _order(self, task: MarkovChains) -> int:
        return task.prior.order if self.order is None else self.order


class AttentionScores(Probe):
    """How much of each layer's and head's attention is on the previous token, and on what followed the current token.

    Args:
        every: how many steps lie between two measurements.
        examples: how many sequences, the first of the trial's test stream.
    """

    examples: Count = 128

    def check(self, task: Task, model: Model) -> None:
        """Refuse everything except transformers on sequences of at least two tokens."""
        _require_attention(self, task, model)
        if task.input_size < 2:
            raise ValueError(f"{self.kind} must have at least two tokens: length={task.input_size}")

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return ``layer1.previous`` and ``layer1.induction`` of shape (heads,), …, and the same for uniform attention.

        The previous-token mass is the mean of A_{i, i-1} over sequences and i >= 2; the induction mass is the last
        token's mean attention to tokens that follow earlier copies of it. ``uniform.previous`` and
        ``uniform.induction`` are the masses of uniform attention.
        """
        tokens = snapshot.remember(f"tokens:{self.examples}", lambda: snapshot.examples("test", self.examples)[0])
        length = tokens.shape[1]
        follows = tokens[:, :-1] == tokens[:, -1:]
        found: dict[str, float | np.ndarray] = {
            "uniform.previous": float((1 / np.arange(2, length + 1)).mean()),
            "uniform.induction": float(follows.sum(axis=1).mean() / length),
        }
        layers = in_blocks(snapshot.model, "attention", _before_and_last)(snapshot.parameters, blocks(tokens))
        for layer, parts in enumerate(layers, 1):
            before, last = (np.asarray(part).reshape(-1, *part.shape[2:])[: self.examples] for part in parts)
            found[f"layer{layer}.previous"] = before.mean(axis=0, dtype=np.float64)
            on_followers = (last[:, :, 1:] * follows[:, None]).sum(axis=2, dtype=np.float64)
            found[f"layer{layer}.induction"] = on_followers.mean(axis=0)
        return found


class AttentionMaps(Probe):
    """What every query of one fixed sequence attends to, in every layer and head: for figures.

    Args:
        every: how many steps lie between two measurements.
        tokens: the sequence, or None for the first of the trial's test stream.
        length: how many of its first tokens.
    """

    tokens: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    length: Count = 20

    def check(self, task: Task, model: Model) -> None:
        """Refuse everything except transformers on tokens, and sequences that they cannot read."""
        k = _require_attention(self, task, model)
        if self.tokens is None:
            return
        if not self.tokens or max(self.tokens) >= k:
            raise ValueError(f"tokens must lie in 0..k-1 and not be empty: tokens={self.tokens}, k={k}")
        if len(self.tokens) > task.input_size:
            rule = "tokens must be no more than the task's length"
            raise ValueError(f"{rule}: {len(self.tokens)} tokens, length={task.input_size}")

    def measure(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return ``tokens`` (length,) and ``layer1``, …, (heads, length, length), queries before keys.

        ``layer1.logits``, … are the same before the softmax, -infinity above the diagonal.
        """
        sequence = snapshot.examples("test", 1)[0] if self.tokens is None else np.array([self.tokens], np.int32)
        sequence = sequence[:, : self.length]
        attention = in_blocks(snapshot.model, "attention")(snapshot.parameters, sequence[None])
        found = {"tokens": sequence[0]}
        for layer, (logits, weights) in enumerate(zip(*attention, strict=True), 1):
            found |= {f"layer{layer}": np.asarray(weights[0, 0]), f"layer{layer}.logits": np.asarray(logits[0, 0])}
        return found


class PositionalProfile(Probe):
    """How the first layer weights distances regardless of tokens: v of the minimal model, else the effective encoding.

    Source: thesis, figures 8.3, 8.4b and E.7; we added the even/odd score.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse models without relative positions, and sequences too short for the score."""
        if task.symbols is None:
            raise ValueError(f"{self.kind} must have a task of tokens: {task.kind} has symbols=None")
        relative = isinstance(model, AttentionOnly) and model.positions == "relative"
        if not (relative or isinstance(model, MinimalAttention)):
            raise ValueError(f"{self.kind} needs a network with relative positions: {model.kind}")
        if task.input_size < 7:
            raise ValueError(f"{self.kind} must have at least 7 tokens: length={task.input_size}")

    def measure(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return ``profile`` (heads, length) and ``parity_bias`` (heads,), and for transformers the arrays behind them.

        Distances count from 0. The profile is v, or the logits averaged over symbols, minus their mean over positions.
        The bias is how much higher the profile is at distances 1, 3, 5 than at 2, 4, 6.

        Transformers also have the ``logits`` by head, symbol of the query and distance (heads, k, length); the
        ``encoding`` (heads, length), their softmax over all distances, averaged over symbols; and ``content`` (heads,
        k, k), the part of the layer's logits that depends on the symbols of query and key. The encoding describes
        attention well where the content barely depends on the key.
        """
        model, parameters = snapshot.model, snapshot.parameters
        if not isinstance(model, AttentionOnly):
            profile = np.asarray(parameters["position"], np.float64)[None]
            return {"profile": profile, "parity_bias": parity_bias(profile)}
        logits = np.asarray(model.positional_logits(parameters), np.float64)
        profile = (logits - logits.mean(axis=2, keepdims=True)).mean(axis=1)
        return {
            "profile": profile,
            "parity_bias": parity_bias(profile),
            "encoding": softmax(logits, axis=2).mean(axis=1),
            "logits": logits,
            "content": _content_logits(model, parameters) - logits[:, :, 1, None],
        }


def _content_logits(model: AttentionOnly, parameters: Any) -> Float64[np.ndarray, "heads k k"]:
    """Return the first layer's logits on pairs of tokens, by head, token of the query and its previous token."""
    k = len(parameters["embedding"]["token"])
    before, asking = np.divmod(np.arange(k * k, dtype=np.int32), k)
    layers = in_blocks(model, "attention")(parameters, np.stack([before, asking], axis=1)[None])
    logits = np.asarray(layers.logits[0], np.float64)[0, :, :, 1, 0]
    return logits.reshape(k, k, -1).transpose(2, 1, 0)


def _require_chains(probe: Probe, task: Task, model: Model) -> MarkovChains:
    """Refuse tasks other than Markov chains, and models that are not networks."""
    if not isinstance(task, MarkovChains):
        rule = f"{probe.kind} must have a task of Markov chains, whose true distributions it knows"
        raise ValueError(f"{rule}: {task.kind}")
    if isinstance(model, Learner):
        raise ValueError(f"{probe.kind} needs a network: {model.kind}")
    return task


def _require_attention(probe: Probe, task: Task, model: Model) -> int:
    """Refuse tasks without tokens and models without attention matrices; return the number of symbols."""
    if task.symbols is None:
        raise ValueError(f"{probe.kind} must have a task of tokens: {task.kind} has symbols=None")
    if not isinstance(model, AttentionOnly):
        raise ValueError(f"{probe.kind} needs a transformer: {model.kind}")
    return task.symbols


def _with_prior(task: MarkovChains, prior: Prior) -> MarkovChains:
    """Return the task on another distribution of chains."""
    return MarkovChains(k=task.k, length=task.length, prior=prior, start=task.start)


def blocks(tokens: Int32[np.ndarray, "count length"]) -> Int32[np.ndarray, "blocks block length"]:
    """Return sequences in blocks, the last one padded with copies of the first sequence."""
    missing = -len(tokens) % BLOCK
    return np.concatenate([tokens, np.repeat(tokens[:1], missing, axis=0)]).reshape(-1, BLOCK, tokens.shape[1])


def _before_and_last(attention: Any) -> tuple[tuple[Any, Any], ...]:
    """Return what is kept of every layer's weights: the mean on the previous token, and the last query's."""
    import jax.numpy as jnp

    return tuple(
        (jnp.diagonal(weights, offset=-1, axis1=2, axis2=3).mean(axis=-1), weights[:, :, -1])
        for weights in attention.weights
    )


@lru_cache(maxsize=64)
def in_blocks(model: Model, method: str, read: Any = None) -> Any:
    """Return a compiled method of a model that is applied block by block, with a selection of its result."""
    import jax

    def whole(parameters: Any, blocks: Any) -> Any:
        def outputs(block: Any) -> Any:
            result = getattr(model, method)(parameters, block)
            return result if read is None else read(result)

        with jax.default_matmul_precision("float32"):
            return jax.lax.map(outputs, blocks)

    return jit(whole)

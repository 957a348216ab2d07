"""How far trained attention is from the construction that selects the support.

Source: thesis, section 4.6 and figure 4.3 (right); the measures are defined in ``theory.measures``.
"""

import math
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int64
from pydantic import Field

from elegans.compilation import jit
from elegans.models import BooleanTransformer, Model, ParityTransformer
from elegans.probes.base import Probe, Snapshot
from elegans.studies.variable_creation.theory.capacity import HeadNorms, heads_capacity
from elegans.studies.variable_creation.theory.construction import SelectingTransformer, selecting_transformer_for
from elegans.studies.variable_creation.theory.generalisation import generalisation_sample
from elegans.studies.variable_creation.theory.measures import (
    attention_norms,
    attention_share,
    implied_score_gap,
    score_gap,
)
from elegans.tasks import SparseBoolean, SparseParity, Task

Count = Annotated[int, Field(ge=1)]
RISK = 0.1
"""The gap between risks for which the bound's number of examples is computed."""


class Examples(NamedTuple):
    """The examples for measuring one trial's heads.

    Args:
        x: held-out inputs (count, n).
        support: the coordinates that matter, shape (k,).
        size: the size of the trial's sample, or 1 if it has none.
    """

    x: Float32[np.ndarray, "count n"]
    support: Int64[np.ndarray, " k"]
    size: int


class Attended(NamedTuple):
    """What the class token attends to, and the largest norm of a token that attention reads.

    Args:
        scores: before the softmax, up to a constant per example, shape (count, heads, n + 1).
        weights: after it, of the same shape.
        token_norm: the largest norm of tokens, with a 1 appended where the heads have biases.
    """

    scores: Float[Any, "count heads places"]
    weights: Float[Any, "count heads places"]
    token_norm: Float[Any, ""]


class SelectionHeads(Probe):
    """What the class token of a transformer attends to, the norms of its heads, and the same for the construction.

    The examples are the first of the trial's test stream, and dropout is off. The same measures of constructed weights
    for the task's function, on the same inputs, have names that start with ``construction.``.

    Args:
        examples: how many held-out examples.
    """

    examples: Count = 1000

    def check(self, task: Task, model: Model) -> None:
        _require_class_token(self, task, model)
        _constructed(task, model, range(task.input_size)[: getattr(task, "k", 0)])

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return the measures of the network and of the construction.

        For each head, shape (heads,), means over the examples: the mass on the ``support``, on the ``class_token`` and
        on all ``others``, and ``mean_other`` on one of those; ``largest_other`` is the largest over all examples.
        ``on_zeros`` and ``on_ones`` are the weights of one position of the support by its bit, NaN where no example has
        it. ``distance`` is the l1 distance from equal weights on the support. ``gap`` is by how much the scores of the
        support exceed all others, R; ``implied_gap`` the one at which the construction has the same mass on the
        support. ``average.support``, … are the same for weights averaged over heads, and ``best`` is the head, from 0,
        with the largest mass on the support; ``uniform`` is the weight of uniform attention.

        Norms of each head are ``query``, ``key``, ``value``, ``output`` (Frobenius) and ``merged``, ``mapped``
        (spectral, of W_Q W_K^T and of W_V W_C); ``merged_rows`` is the sum of the norms of the rows of W_Q W_K^T, and
        ``mapped_rows`` the sum over the columns of W_V W_C. Biases are rows of their matrices, as for tokens with a 1
        appended, and W_Q is divided by the scale of the scores. ``token_norm`` is the largest norm of a token.

        ``capacity`` is the capacity of heads with such norms on the sample, and ``sample`` the number of examples at
        which the bound on generalisation is 0.1 for a unit read-out of them, with all unnamed constants set to 1;
        layers after the heads are not counted.
        """

        def prepared() -> tuple[Examples, dict[str, float | np.ndarray]]:
            support = snapshot.support
            assert support is not None
            held_out = Examples(snapshot.examples("test", self.examples)[0], support, snapshot.sample_size or 1)
            made = _constructed(snapshot.task, snapshot.model, support)
            return held_out, _measured(made.model, made.parameters, held_out)

        held_out, construction = snapshot.remember(f"selection:{self.examples}", prepared)
        trained = _measured(snapshot.model, snapshot.parameters, held_out)
        return trained | {f"construction.{name}": value for name, value in construction.items()}


class ClassWeights(Probe):
    """What the class token attends to on single examples, position by position: for figures.

    Args:
        examples: how many examples, the first of the trial's test stream.
    """

    examples: Count = 100

    def check(self, task: Task, model: Model) -> None:
        _require_class_token(self, task, model)

    def measure(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return ``weights``, shape (examples, heads, n + 1), the class token's own last; dropout is off."""
        x = snapshot.remember(f"inputs:{self.examples}", lambda: snapshot.examples("test", self.examples)[0])
        return {"weights": np.asarray(_attention(snapshot.model)(snapshot.parameters, x).weights)}


class IrrelevantBits(Probe):
    """How much a network's answers depend on the bits outside the support.

    Args:
        examples: how many held-out examples.
    """

    examples: Count = 10_000

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, SparseBoolean | SparseParity):
            raise ValueError(f"{self.kind} needs a sparse function of signs: {task.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``changed``, the share of predictions that change as all other bits are resampled, and ``explained``.

        The latter is the share of the output's variance between patterns of the support, NaN for a constant output.
        """
        support = snapshot.support
        assert support is not None
        x = snapshot.remember(f"irrelevant:{self.examples}", lambda: snapshot.examples("test", self.examples)[0])
        moved = np.roll(x, 1, axis=0)  # other examples have independent bits
        moved[:, support] = x[:, support]
        run = _outputs(snapshot.model)
        first, second = (np.asarray(run(snapshot.parameters, inputs), np.float64) for inputs in (x, moved))
        pattern = (x[:, support] > 0) @ 2 ** np.arange(len(support))
        counts = np.bincount(pattern)
        means = np.bincount(pattern, first) / np.maximum(counts, 1)
        total = float(first.var())
        explained = float(means[pattern].var()) / total if total > 0 else math.nan
        return {"changed": float((np.sign(first) != np.sign(second)).mean()), "explained": explained}


@lru_cache(maxsize=16)
def _outputs(model: Any) -> Any:
    """Return a compiled program from parameters and inputs to outputs."""
    return jit(model.apply)


def _require_class_token(probe: Probe, task: Task, model: Model) -> None:
    if not isinstance(model, BooleanTransformer | ParityTransformer):
        raise ValueError(f"{probe.kind} needs a transformer with a class token: {model.kind}")
    if not isinstance(task, SparseBoolean | SparseParity):
        raise ValueError(f"{probe.kind} needs a sparse function of signs: {task.kind}")


def _constructed(task: Task, model: Model, support: Any) -> SelectingTransformer:
    """Return the construction with the model's encoding."""
    encoding = model.encoding if isinstance(model, BooleanTransformer) else "trained"
    return selecting_transformer_for(task, list(support), encoding=encoding)


def _measured(model: Any, parameters: Any, held_out: Examples) -> dict[str, float | np.ndarray]:
    """Return all measures of one network."""
    attended = _attention(model)(parameters, held_out.x)
    scores, weights = np.asarray(attended.scores, np.float64), np.asarray(attended.weights, np.float64)
    bits = held_out.x[:, held_out.support] > 0
    by_head = _shares(weights, bits, held_out.support)
    average = _shares(weights.mean(axis=1), bits, held_out.support)
    return {
        **by_head,
        "gap": score_gap(scores, held_out.support.tolist()).mean(axis=0),
        **{f"average.{name}": float(value) for name, value in average.items()},
        "best": float(np.argmax(by_head["support"])),
        "uniform": 1 / weights.shape[2],
        **_bounds(_heads(model, parameters), float(attended.token_norm), held_out),
    }


def _shares(
    weights: Float[np.ndarray, "count ... places"], bits: np.ndarray, support: np.ndarray
) -> dict[str, np.ndarray]:
    """Return where attention goes, averaged over examples; the shape is the shape of an example's heads."""
    share = attention_share(weights, support.tolist())
    means = {name: np.asarray(getattr(share, name).mean(axis=0)) for name in share._fields}
    means["largest_other"] = np.asarray(share.largest_other.max(axis=0))
    relevant = np.moveaxis(weights[..., support], 0, -2)  # heads (if any), examples, support
    for name, members in (("on_zeros", ~bits), ("on_ones", bits)):
        there = relevant[..., members]
        means[name] = there.mean(axis=-1) if members.any() else np.full(there.shape[:-1], np.nan)
    T, s = weights.shape[-1] - 1, len(support)
    implied = [implied_score_gap(m, T, s) if 0 < m < 1 else np.nan for m in means["support"].ravel()]
    return means | {"implied_gap": np.reshape(implied, means["support"].shape)}


def _bounds(matrices: dict[str, np.ndarray], token_norm: float, held_out: Examples) -> dict[str, float | np.ndarray]:
    """Return the norms of heads, and the resulting capacity and number of examples."""
    norms = attention_norms(**matrices)
    T, d = held_out.x.shape[1], matrices["query"].shape[1]
    rows = (norms.mapped_rows, norms.mapped, norms.merged_rows)
    heads = [HeadNorms(*row) for row in np.transpose(rows).tolist()]
    measures: dict[str, float | np.ndarray] = {name: np.asarray(getattr(norms, name)) for name in norms._fields}
    measures["token_norm"] = token_norm
    if min(map(min, heads)) <= 0:  # the formula gives no capacity for heads whose weights are 0
        return measures | {"capacity": np.nan, "sample": np.nan}
    capacity = heads_capacity(heads, held_out.size * (T + 1), d=d, input_norm=token_norm)
    growth = capacity / math.log(held_out.size * (T + 1) * d)
    least = generalisation_sample(
        growth * math.log((T + 1) * d), float(norms.mapped.sum()) * token_norm, RISK, growth=growth
    )
    return measures | {"capacity": capacity, "sample": float(least)}


def _heads(model: Any, parameters: Any) -> dict[str, np.ndarray]:
    """Return W_Q, W_K, W_V and W_C in the theory's form, with biases as rows."""
    attention = {name: np.asarray(part, np.float64) for name, part in parameters["attention"].items()}
    matrices = {name: attention[name] for name in ("query", "key", "value", "output")}
    if "query_bias" in attention:
        for name in ("query", "key", "value"):
            matrices[name] = np.concatenate([matrices[name], attention[f"{name}_bias"][:, None]], axis=1)
    scale = 1 / math.sqrt(model.head_size) if isinstance(model, ParityTransformer) else model.score_scale
    matrices["query"] = matrices["query"] * scale
    return matrices


@lru_cache(maxsize=64)
def _attention(model: Any) -> Any:
    """Return a compiled program from parameters and inputs to what the class token attends to."""
    import jax
    import jax.numpy as jnp

    def attended(parameters: Any, x: Any) -> Attended:
        with jax.default_matmul_precision("float32"):
            if isinstance(model, ParityTransformer):
                weights = model.attention(parameters, x)
                embedding = parameters["embedding"]
                tokens = [*(embedding["position"] + sign for sign in embedding["sign"]), embedding["class"][None]]
                return Attended(jnp.log(weights), weights, _longest(tokens))
            attention = model.attention(parameters, x)
            biased = "query_bias" in parameters["attention"]
            return Attended(attention.scores, attention.weights, _longest(model.tables(parameters), biased))

    return jit(attended)


def _longest(tables: Any, biased: bool = False) -> Any:
    """Return the largest norm of tokens (count, width), with a 1 appended where there are biases."""
    import jax.numpy as jnp

    return jnp.sqrt(jnp.stack([(table**2).sum(axis=1).max() for table in tables]).max() + biased)

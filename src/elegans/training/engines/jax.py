"""The general engine: any task, model and training, vmapped over trials that share a signature."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32, Int, Shaped

from elegans import random
from elegans.compilation import jit
from elegans.component import Component, walk
from elegans.errors import TrialError, article
from elegans.extensions import is_own
from elegans.training.engines.base import BatchIndices, Chunk, ChunkRequest, Engine, Interval, jax_failure
from elegans.training.losses import example_losses
from elegans.training.mistakes import mistakes
from elegans.training.optimisers import Minibatches
from elegans.training.trial import Trial, signature

SUBNORMAL = 1e-20
"""Parameters that weight decay has made smaller become 0: steps are several times slower in the subnormal range."""
STRIDE = 1024  # maximum number of steps in one call of the compiled loop: a single size needs one compilation
IN_CACHE = 2**18  # maximum number of parameters of trials side by side on a CPU: beyond it, each takes longer
BLOCK = 512  # numbers of examples are rounded up to a multiple of this, so that few sizes need compiling


@dataclass(frozen=True)
class _State:
    """The networks of a batch, each array with a leading axis for the trial."""

    template: Trial
    parameters: Any
    static: Any
    optimiser: Any
    inputs: dict[str, Any]
    step: int
    diverged_at: Int[np.ndarray, " trials"]


class JaxEngine(Engine):
    """Trains networks by minibatches side by side in one XLA program, on the CPU or on a CUDA device."""

    name = "jax"
    takes_targets = True
    side_by_side: ClassVar[int] = 64
    point_cost: ClassVar[int] = 2 * BLOCK  # a block without a backward pass, and about a millisecond of dispatch

    def unavailable(self) -> str | None:
        return jax_failure()

    def refusal(self, trial: Trial) -> str | None:
        if isinstance(trial.training, Minibatches):
            return None
        part, component = ("model", trial.model) if trial.training is None else ("training", trial.training)
        return f"the jax engine takes no {part} {component.kind!r}"

    def together(self, trial: Trial) -> int:
        """Return how many trials' parameters fit into a CPU's cache; on other devices, the engine's maximum."""
        import jax

        if jax.default_backend() != "cpu":
            return self.side_by_side
        return int(np.clip(IN_CACHE // max(1, trial.model.parameter_count(trial.task)), 1, self.side_by_side))

    def signature(self, trial: Trial) -> str:
        return signature(trial)

    def init(self, trials: Sequence[Trial]) -> Any:
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        template = trials[0]
        if is_own(type(template.task)):
            _check_examples(template)
        initial = [trial.model.initialise(trial.key("init"), trial.task) for trial in trials]
        arrays = [eqx.partition(tree, eqx.is_array_like)[0] for tree in initial]
        static = eqx.partition(initial[0], eqx.is_array_like)[1]
        # stacked by NumPy: JAX would compile a program for each shape
        parameters = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves), jnp.float32), *arrays)
        hidden = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *[_hidden(trial) for trial in trials])
        streams = ("sample", "batches", "noise", "test", "dropout", "gradient")
        inputs = {
            "traced": {path: jnp.asarray([_number(trial, path) for trial in trials]) for path in template.traced()},
            "hidden": hidden,
            "keys": {name: tuple(np.array([trial.key(name) for trial in trials], np.uint32).T) for name in streams},
        }
        optimiser = jax.vmap(lambda tree: _training(template).optimiser(1.0).init(tree))(parameters)
        return _State(template, parameters, static, optimiser, inputs, 0, np.full(len(trials), -1))

    def advance(self, state: Any, plan: ChunkRequest) -> tuple[Any, Chunk]:
        loss: Any = 0.0
        error: Any = 0.0
        steps = min(plan.steps(), plan.pace)
        for first in range(state.step, state.step + steps, STRIDE):
            stride = min(STRIDE, state.step + steps - first)
            state, stride_loss, stride_error = self._stride(state, first, stride)
            loss, error = loss + stride_loss, error + stride_error
        state = replace(state, step=state.step + steps)
        return state, Chunk([Interval(steps, loss / steps, error / steps)], state.diverged_at)

    def _stride(self, state: Any, first: int, count: int) -> tuple[Any, Any, Any]:
        """Run the compiled loop once; return the state and the sums of minibatch loss and error."""
        factors = np.zeros(STRIDE, np.float32)
        factors[:count] = _training(state.template).factors(first, count)
        diverged_at = state.diverged_at.astype(np.int32)
        parameters, optimiser, loss, error, diverged_at = _programs_of(state).advance(
            state.parameters, state.optimiser, state.inputs, factors, np.uint32(first), np.int32(count), diverged_at
        )
        diverged_at = np.asarray(diverged_at, np.int64)
        state = replace(state, parameters=parameters, optimiser=optimiser, diverged_at=diverged_at)
        return state, np.asarray(loss, np.float64), np.asarray(error, np.float64)

    def wrong(self, state: Any, stream: str, index: BatchIndices) -> Shaped[np.ndarray, "trials count"]:
        count = index.shape[1]
        padded = np.zeros((len(index), -(-count // BLOCK) * BLOCK), np.uint32)
        padded[:, :count] = index
        return np.asarray(_programs_of(state).wrong[stream](state.parameters, state.inputs, padded))[:, :count]

    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count"]:
        programs = _programs_of(state)
        return np.asarray(programs.predict(state.parameters, state.inputs, np.asarray(x, np.float32)))

    def parameters(self, state: Any) -> list[Any]:
        import equinox as eqx
        import jax

        host = jax.tree.map(np.asarray, state.parameters)
        count = len(state.diverged_at)
        return [eqx.combine(jax.tree.map(lambda leaf, i=i: leaf[i], host), state.static) for i in range(count)]

    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Keep some of the networks; the arrays shrink, so that the others cost nothing."""
        import jax

        rows, trees = np.asarray(positions), (state.parameters, state.optimiser, state.inputs)
        parameters, optimiser, inputs = jax.tree.map(lambda leaf: leaf[rows], trees)
        diverged_at = state.diverged_at[rows]
        return replace(state, parameters=parameters, optimiser=optimiser, inputs=inputs, diverged_at=diverged_at)


@dataclass(frozen=True)
class _Programs:
    advance: Callable[..., Any]
    wrong: dict[str, Callable[..., Any]]
    predict: Callable[..., Any]


class _Pinned:
    """A trial and its model's static parts, passed along with their signature."""

    def __init__(self, trial: Trial, static: Any) -> None:
        self.trial, self.static = trial, static
        self.classes = tuple(type(value) for _, _, value in walk(trial) if isinstance(value, Component))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pinned) and self.classes == other.classes

    def __hash__(self) -> int:
        return hash(self.classes)


def _programs_of(state: _State) -> _Programs:
    return _programs(signature(state.template), _Pinned(state.template, state.static))


@lru_cache(maxsize=128)
def _programs(signature: str, pinned: _Pinned) -> _Programs:
    """Compile the programs of a signature, in which everything that is not traced is a constant."""
    import jax

    network = _Network(pinned.trial, pinned.static)
    return _Programs(
        advance=jit(network.advance, donate_argnums=(0, 1)),
        wrong={stream: jit(jax.vmap(partial(network.wrong, stream=stream))) for stream in ("sample", "test")},
        predict=jit(jax.vmap(network.predict, in_axes=(0, 0, None))),
    )


@dataclass(frozen=True)
class _Network:
    """The computations of one network of a signature, for JAX to trace: a template, and its model's static parts."""

    template: Trial
    static: Any

    def advance(
        self, parameters: Any, optimiser: Any, inputs: Any, factors: Any, first: Any, count: Any, diverged_at: Any
    ) -> Any:
        import jax
        import jax.numpy as jnp

        batched = jax.vmap(self.step, in_axes=(0, 0, 0, None, None))

        def body(offset: Any, carry: Any) -> Any:
            parameters, optimiser, loss, error, diverged_at = carry
            step = first + offset.astype(jnp.uint32)
            moved, optimised, new_loss, new_error, finite = batched(
                parameters, optimiser, inputs, step, factors[offset]
            )
            diverged_at = jnp.where((diverged_at < 0) & ~finite, step.astype(jnp.int32), diverged_at)
            alive = diverged_at < 0
            parameters = _where(alive, moved, parameters)
            optimiser = _where(alive, optimised, optimiser)
            return parameters, optimiser, loss + new_loss, error + new_error, diverged_at

        zeros = jnp.zeros(diverged_at.shape, jnp.float32)
        return jax.lax.fori_loop(0, count, body, (parameters, optimiser, zeros, zeros, diverged_at))

    def step(self, parameters: Any, optimiser: Any, inputs: Any, step: Any, factor: Any) -> Any:
        """Take one step of one network; return the new state, minibatch loss and error, and whether all is finite."""
        import jax
        import jax.numpy as jnp

        trial = self.template.substitute(inputs["traced"])
        training = _training(trial)
        batches = random.Key(*inputs["keys"]["batches"])
        index = trial.regime.batch(trial.task, batches, step, training.batch_size, training.batches)
        key = random.Key(*inputs["keys"]["sample"])
        x, y = _precisely(trial.regime.examples, trial.task, inputs["hidden"], key, index)
        y = self._corrupt(trial, inputs, y, index)
        descend = jax.value_and_grad(self._objective, has_aux=True)
        dropout = random.Key(*inputs["keys"]["dropout"]).fold(step)
        (_, (loss, error, finite)), gradients = descend(parameters, trial, x, y, dropout)
        gradients = jax.tree.map(lambda gradient: trial.model.gradient_scale * gradient, gradients)
        gradients = training.prepared(gradients, random.Key(*inputs["keys"]["gradient"]).fold(step))
        updates, optimiser = training.optimiser(factor).update(gradients, optimiser, parameters)
        moved = jax.tree.map(lambda old, change: old + change, parameters, updates)
        moved = jax.tree.map(lambda leaf: jnp.where(jnp.abs(leaf) < SUBNORMAL, 0, leaf), moved)
        return moved, optimiser, loss, error, finite

    def wrong(self, parameters: Any, inputs: Any, index: Any, stream: str) -> Any:
        """Return the mistakes of one network on examples of a stream; the sample has the labels used in training."""
        trial = self.template.substitute(inputs["traced"])

        def key(name: str) -> random.Key:
            return random.Key(*inputs["keys"][name])

        x, y = _precisely(trial.regime.evaluated, trial.task, inputs["hidden"], key, stream, index)
        outputs = self._outputs(trial, parameters, x)
        labels = self._corrupt(trial, inputs, y, index) if stream == "sample" else y
        return mistakes(trial.task, _training(trial).loss, outputs, labels)

    def predict(self, parameters: Any, inputs: Any, x: Any) -> Any:
        return self._outputs(self.template.substitute(inputs["traced"]), parameters, x)

    def _objective(self, parameters: Any, trial: Trial, x: Any, y: Any, dropout: random.Key) -> Any:
        import jax.numpy as jnp

        exact = _training(trial).objective(trial.task, trial.model, self._whole(parameters))
        if exact is not None:
            total = exact + _training(trial).added(trial.model, self._whole(parameters))
            return total, (exact, exact, jnp.isfinite(exact))
        output = _precisely(trial.model.train, self._whole(parameters), x, dropout)
        loss = example_losses(_training(trial).loss, trial.task, output, y).mean()
        total = loss + _training(trial).added(trial.model, self._whole(parameters))
        error = mistakes(trial.task, _training(trial).loss, output, y).astype(jnp.float32).mean()
        return total, (loss, error, jnp.isfinite(output).all())

    def _outputs(self, trial: Trial, parameters: Any, x: Any) -> Any:
        return _precisely(trial.model.apply, self._whole(parameters), x)

    def _whole(self, parameters: Any) -> Any:
        import equinox as eqx

        return eqx.combine(parameters, self.static)

    def _corrupt(self, trial: Trial, inputs: Any, y: Any, index: Any) -> Any:
        return trial.task.corrupt(y, random.Key(*inputs["keys"]["noise"]), index)


def _precisely(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without the reduced precision that accelerators use for matrix products by default."""
    import jax

    with jax.default_matmul_precision("float32"):
        return function(*arguments)


def _where(alive: Any, moved: Any, old: Any) -> Any:
    """Return the new arrays of trials that are alive, and the old ones of others."""
    import jax
    import jax.numpy as jnp

    def choose(new: Any, old: Any) -> Any:
        return jnp.where(alive.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, moved, old)


def _training(trial: Trial) -> Minibatches:
    assert isinstance(trial.training, Minibatches)
    return trial.training


def _number(trial: Trial, path: str) -> Any:
    value = trial.traced()[path]
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity, and the trial diverges
        return np.uint32(value) if isinstance(value, int) else np.float32(value)


def _hidden(trial: Trial) -> Any:
    return trial.task.draw(trial.key("task"))


def _check_examples(trial: Trial) -> None:
    """Refuse a user-defined task whose examples are not finite numbers: compiled programs may return anything."""
    count, size = 4, trial.task.input_size
    rule = f"the task {trial.task.kind!r} must return inputs of shape (count, {size}) and count labels, all finite"
    examples = trial.task.examples(_hidden(trial), trial.key("test"), np.arange(count, dtype=np.uint32))
    if not isinstance(examples, tuple) or len(examples) != 2:
        raise TrialError(f"{rule}: got {article(type(examples).__name__)}")
    x, y = map(np.asarray, examples)
    if x.shape != (count, size) or y.shape[:1] != (count,):
        raise TrialError(f"{rule}: shapes {x.shape} and {y.shape} of {count} examples")
    if (targets := trial.task.targets) is not None and y.shape != (count, targets)[: 1 + (targets > 1)]:
        raise TrialError(f"{rule}, each of targets={targets} numbers: shape {y.shape} of {count} examples")
    if not all(part.dtype.kind in "biuf" and np.isfinite(part).all() for part in (x, y)):
        raise TrialError(f"{rule}: some values of {x.dtype} and {y.dtype} are not")

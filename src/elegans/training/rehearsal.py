"""Rehearsals of user-defined code: each part of a trial is run once, on a few examples, and its draws are compared.

Two draws of one key that share a counter are equal or correlated, which no result shows. So when a trial with parts of
one's own is first used, these run once before any training, under NumPy and under JAX as the engines would call them,
with a ledger of every counter that they draw; see ``elegans.ledger``. Later trials of the same parts cost nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from elegans import random
from elegans.errors import OverlappingDraws
from elegans.extensions import is_own, parts
from elegans.ledger import recorded
from elegans.models import Model
from elegans.models.inits import Init
from elegans.probes import Probe, Snapshot
from elegans.tasks import Task
from elegans.training.optimisers import Minibatches
from elegans.training.trial import Trial, signature

EXAMPLES = 256
"""Maximum number of examples of a rehearsal: draws for indices further apart than this are not compared."""
NUMBERS = 2**20
"""Maximum number of inputs of a rehearsal."""

_REHEARSED: set[Any] = set()


def rehearse(trial: Trial, probes: Sequence[Probe] = (), chosen: Callable[[type], bool] = is_own) -> None:
    """Refuse a trial or probes whose user-defined classes draw a counter twice.

    Args:
        trial: the trial.
        probes: the measures to take while it trains.
        chosen: whether a class is rehearsed; user-defined ones by default.

    Raises:
        OverlappingDraws: names the two lines, the counter and the remedy.
    """
    classes = tuple(type(part) for part in (*parts(trial), *probes))
    if not any(map(chosen, classes)):
        return
    identity = chosen, classes, signature(trial), *(probe.model_dump_json() for probe in probes)
    if identity not in _REHEARSED:
        _rehearse(trial, chosen)
        for probe in probes:
            if chosen(type(probe)):
                with _quietly():
                    snapshot = _initial(trial)
                    with _rehearsed(traced=True, repeatable=(Task, Model)):
                        probe.measure(snapshot)
        _REHEARSED.add(identity)


def _rehearse(trial: Trial, chosen: Callable[[type], bool]) -> None:
    """Run the parts of a trial whose classes are chosen, each with a ledger of its own."""
    task, model, training = trial.task, trial.model, trial.training
    of_model = [type(part) for part in parts(model)]
    if any(map(chosen, map(type, parts(task)))):
        _examples(trial, traced=False)
        _examples(trial, traced=True)
    if any(map(chosen, of_model)):
        with _rehearsed():
            model.initialise(trial.key("init"), task)
    if isinstance(training, Minibatches):
        own_steps = any(chosen(type(part)) for part in parts(training) if part is not training.loss)
        own_model = any(chosen(cls) for cls in of_model if not issubclass(cls, Init))
        own_loss = any(map(chosen, map(type, parts(training.loss))))
        if own_steps or own_model or own_loss:
            _training(trial, training, step=own_steps, outputs=own_model, loss=own_loss)


def _examples(trial: Trial, *, traced: bool) -> None:
    """Draw a task's hidden part, examples and noise."""
    task, index = trial.task, _as_given(_index(trial.task), traced)
    sample, noise = (_key(trial, stream, traced) for stream in ("sample", "noise"))
    with _rehearsed(traced=traced):
        _, labels = task.examples(task.draw(trial.key("task")), sample, index)
        task.corrupt(labels, noise, index)


def _training(trial: Trial, training: Minibatches, *, step: bool, outputs: bool, loss: bool) -> None:
    """Compute outputs, losses and two steps from gradients of ones, each with a ledger of its own."""
    parameters = x = y = output = None
    with _quietly():
        parameters = trial.model.initialise(trial.key("init"), trial.task)
        index = _index(trial.task)[:8]
        x, y = trial.task.examples(trial.task.draw(trial.key("task")), trial.key("sample"), index)
        output = trial.model.apply(parameters, _as_given(x, True))
    if outputs and x is not None:
        with _rehearsed(traced=True):
            trial.model.train(parameters, _as_given(x, True), _key(trial, "dropout", True).fold(0))
    if loss and output is not None:
        with _rehearsed(traced=True):
            training.loss.value(output, _as_given(y, True))
    if step and parameters is not None:
        with _rehearsed(traced=True):
            import equinox as eqx
            import jax
            import jax.numpy as jnp

            arrays = jax.tree.map(
                lambda leaf: jnp.asarray(leaf, jnp.float32), eqx.filter(parameters, eqx.is_array_like)
            )
            optimiser = training.optimiser(1.0)
            state = optimiser.init(arrays)
            for _ in range(2):  # with the same draws in every step they would be repeated
                _, state = optimiser.update(jax.tree.map(jnp.ones_like, arrays), state, arrays)


@contextmanager
def _rehearsed(*, traced: bool = False, repeatable: tuple[type, ...] = ()) -> Iterator[None]:
    """Record draws and raise the first overlap; other errors are left to the training, which explains them."""
    with recorded(repeatable) as ledger, _quietly(traced=traced):
        yield
    ledger.settle()


@contextmanager
def _quietly(*, traced: bool = True) -> Iterator[None]:
    """Ignore all errors but overlaps: a user's own code fails in the same way when it is used."""
    try:
        with _eager() if traced else nullcontext():
            yield
    except OverlappingDraws:
        raise
    except Exception:
        pass


@contextmanager
def _eager() -> Iterator[None]:
    """Run JAX's loops and compiled functions as Python's, so that counters are numbers, and refuse used keys."""
    import jax

    with jax.disable_jit(), jax.debug_key_reuse(True):
        try:
            yield
            jax.effects_barrier()  # type: ignore[no-untyped-call]
        except jax.errors.KeyReuseError as error:
            used = str(error).partition("\n")[0]
            rule = "two draws of jax.random must not share a key"
            raise OverlappingDraws(f"{rule}: {used}; draw from the keys of jax.random.split") from None


def _index(task: Task) -> np.ndarray:
    return np.arange(max(2, min(EXAMPLES, NUMBERS // max(1, task.input_size))), dtype=np.uint32)


def _as_given(value: Any, traced: bool) -> Any:
    """Return an array as the general engine gives it to user-defined code, or as native ones do."""
    if not traced:
        return value
    import jax.numpy as jnp

    return jnp.asarray(value)


def _key(trial: Trial, stream: str, traced: bool) -> random.Key:
    return random.Key(*(_as_given(np.uint32(word), traced) for word in trial.key(stream)))


def _initial(trial: Trial) -> Snapshot:
    """Return the network before its first step, which is taken to be right everywhere."""
    parameters = trial.model.initialise(trial.key("init"), trial.task)
    return Snapshot(
        step=0,
        task=trial.task,
        model=trial.model,
        hidden=trial.task.draw(trial.key("task")),
        sample_size=trial.regime.sample_size(trial.task),
        key=trial.key,
        read_parameters=lambda: parameters,
        wrong=lambda stream, index: np.zeros(len(index), bool),
        regime=trial.regime,
    )

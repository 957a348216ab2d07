"""Rehearsals of user-defined code: run each part of a trial once, on a few examples, and compare its draws.

Two draws from one key that share a counter are equal or correlated, and nothing in the results reveals it. Therefore
user-defined parts run once before a process first trains with them, with NumPy or JAX arrays as the engines would call
them, and a ledger records every counter that they draw; see ``elegans.ledger``.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property, partial
from types import FunctionType
from typing import Any, cast

import numpy as np

from elegans import random
from elegans.component import Component
from elegans.display import note
from elegans.errors import OverlappingDraws, TrialError
from elegans.extensions import is_own, parts
from elegans.ledger import recorded
from elegans.models import Model
from elegans.models.inits import Init
from elegans.probes import Probe
from elegans.tasks import Regime, Task
from elegans.training.loop import snapshot
from elegans.training.losses import Square
from elegans.training.optimisers import Minibatches
from elegans.training.trial import Trial, signature

EXAMPLES = 256  # maximum number of examples in a rehearsal; draws for indices further apart than this are not compared
NUMBERS = 2**20  # maximum number of input values in a rehearsal: examples times input size, but at least two examples

_REHEARSED: set[Any] = set()
_MADE = ("__hash__", "__annotate")  # how the names of functions begin that Python and pydantic give every class


def rehearse(trial: Trial, probes: Sequence[Probe] = (), chosen: Callable[[type], bool] = is_own) -> None:
    """Refuse a trial or probes whose user-defined classes draw a counter twice.

    Args:
        trial: the trial.
        probes: the probes that measure while it trains.
        chosen: says whether to rehearse a class; by default, whether it is user-defined.

    Raises:
        OverlappingDraws: a counter is drawn twice; the message names the lines, the counter and the remedy.
    """
    for cls in {type(part) for part in parts(trial)}:
        if idle := idle_fields(cls):
            names, base = ", ".join(idle), (cls.__base__ or cls).__name__
            note(f"note: {cls.__name__} adds {names} to {base} but no method, so {names} changes nothing in training")
    task, model, training = trial.task, trial.model, trial.training

    def is_chosen(component: Component | None, but: tuple[type, ...] = ()) -> bool:
        return any(chosen(type(part)) for part in parts(component) if not isinstance(part, but))

    if is_chosen(task):
        _once(_examples, trial, signature(task))
    if is_chosen(task) and isinstance(training, Minibatches) and not is_own(type(training.loss)):
        _once(_labels, trial, signature(task), signature(training.loss))
    if is_chosen(model):
        _once(_initial_values, trial, model.model_dump_json(), task.model_dump_json())
    if isinstance(training, Minibatches) and (is_chosen(training) or is_chosen(model, but=(Init,))):
        _once(_steps, trial, *map(signature, (task, model, training)))
    for probe in probes:
        if chosen(type(probe)):
            _once(partial(_measure, probe=probe), trial, signature(task), signature(model), probe.model_dump_json())


@cache
def idle_fields(cls: type[Component]) -> list[str]:
    """Return the fields that a user-defined class adds although it defines no method, so that it trains as its base."""
    bases = [base for base in cls.__mro__ if issubclass(base, Component) and not is_own(base)]
    values = [pair for base in cls.__mro__ if is_own(base) for pair in vars(base).items()]
    methods = FunctionType, classmethod, staticmethod, property, cached_property
    if any(isinstance(value, methods) and not name.startswith(_MADE) for name, value in values):
        return []
    return [name for name in cls.model_fields if not any(name in base.model_fields for base in bases)]


def _once(run: Callable[[Trial], None], trial: Trial, *texts: str) -> None:
    """Rehearse part of a trial unless a part of the same classes and text has been rehearsed in this process."""
    rehearsal = getattr(run, "func", run).__name__, tuple(map(type, parts(trial))), texts
    if rehearsal not in _REHEARSED:
        run(trial)
        _REHEARSED.add(rehearsal)


def _examples(trial: Trial) -> None:
    """Draw a task's hidden part, examples and noise, under NumPy and under JAX."""
    task = trial.task
    for traced in (False, True):
        index = _as_given(_index(task), traced)
        sample, noise = (_key(trial, stream, traced) for stream in ("sample", "noise"))
        with _rehearsed(traced=traced):
            _, labels = task.examples(task.draw(trial.key("task")), sample, index)
            task.corrupt(labels, noise, index)


def _labels(trial: Trial) -> None:
    """Refuse labels of another shape than the outputs, and labels that the loss cannot take.

    The square of one output takes any number.
    """
    task, model, loss = trial.task, trial.model, cast(Minibatches, trial.training).loss
    labels, outputs = np.empty(0, np.float32), None
    with _quietly(traced=False):
        x, y = task.examples(task.draw(trial.key("task")), trial.key("sample"), _index(task))
        labels = np.asarray(y)
        outputs = np.shape(model.apply(model.initialise(trial.key("init"), task), x))
    if outputs is not None and labels.shape[:1] == outputs[:1] == (len(_index(task)),):
        _check_outputs(trial, outputs, labels.shape)
    is_number = labels.dtype.kind in "biuf"  # other labels are refused with the examples themselves
    if not is_number or isinstance(loss, Square) or (loss.several_outputs and labels.dtype.kind in "iu"):
        return
    if len(strange := labels[~np.isin(labels, (-1, 1))].reshape(-1)[:1]):
        raise TrialError(f"labels of task {task.kind!r} must be -1 or +1 for loss {loss.kind!r}: label={strange[0]}")


def _initial_values(trial: Trial) -> None:
    with _rehearsed(traced="jax" in sys.modules):
        trial.model.initialise(trial.key("init"), trial.task)


def _steps(trial: Trial) -> None:
    """Compute outputs, losses and two steps in which every gradient is one, each with its own ledger."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    model, training, dropout = trial.model, cast(Minibatches, trial.training), _key(trial, "dropout", True).fold(0)
    outputs = labels = values = None
    with _quietly():
        parameters = model.initialise(trial.key("init"), trial.task)
        arrays = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), eqx.filter(parameters, eqx.is_array_like))
        network = eqx.combine(arrays, parameters)
        hidden, index = trial.task.draw(trial.key("task")), _index(trial.task)
        x, y = map(jnp.asarray, trial.regime.evaluated(trial.task, hidden, trial.key, "test", index))
        with _rehearsed(traced=True):
            model.train(network, x, dropout)
        with _rehearsed(traced=True):
            output = model.apply(network, x)
        outputs, labels = np.shape(output), np.shape(y)
        with _rehearsed(traced=True):
            values = np.shape(training.loss.value(output, y))
        with _rehearsed(traced=True):
            training.added(model, network)
            optimiser = training.optimiser(1.0)
            state = optimiser.init(arrays)
            for _ in range(2):  # so that an optimiser that draws the same in every step is noticed
                _, state = optimiser.update(jax.tree.map(jnp.ones_like, arrays), state, arrays)
    if outputs is not None and labels is not None:
        _check_outputs(trial, outputs, labels)
        if values is not None and values[:1] != labels[:1]:
            rule = f"value of loss {training.loss.kind!r} must return one value for each of {labels[0]} examples"
            raise TrialError(f"{rule}: shape {values}")


def _check_outputs(trial: Trial, shape: tuple[int, ...], labels: tuple[int, ...]) -> None:
    """Refuse outputs of another shape than the labels, with a last axis for several classes: JAX might broadcast it."""
    several = trial.task.targets is None and trial.model.outputs(trial.task) > 1
    right = (*labels, trial.model.outputs(trial.task)) if several else labels
    if shape == right:
        return
    if not is_own(type(trial.model)):
        right = shape[:-1] if several else shape
        rule = f"labels of task {trial.task.kind!r} must have shape {right} for {labels[0]} examples"
        raise TrialError(f"{rule} and model {trial.model.kind!r}: shape {labels}")
    rule = f"apply of model {trial.model.kind!r} must return outputs of shape {right} for {labels[0]} examples"
    raise TrialError(f"{rule} of task {trial.task.kind!r}: shape {shape}")


def _measure(trial: Trial, probe: Probe) -> None:
    """Measure the network before its first step, which is taken to be right on every other example."""
    with _quietly():
        parameters = trial.model.initialise(trial.key("init"), trial.task)
        before = snapshot(trial, 0, lambda: parameters, lambda stream, index: np.arange(len(index)) % 2 == 1, {})
        with _rehearsed(traced="jax" in sys.modules, repeatable=(Task, Model, Regime)):
            probe.measure(before)


@contextmanager
def _rehearsed(*, traced: bool = False, repeatable: tuple[type, ...] = ()) -> Iterator[None]:
    """Record draws and raise the first overlap; other errors are left to training, which explains them."""
    with recorded(repeatable) as ledger, _quietly(traced=traced):
        yield
    ledger.settle()


@contextmanager
def _quietly(*, traced: bool = True) -> Iterator[None]:
    """Ignore all errors except overlaps: user-defined code that fails here fails in the same way when it is used."""
    try:
        with _eager() if traced else nullcontext():
            yield
    except OverlappingDraws:
        raise
    except (Exception, SystemExit):
        pass


@contextmanager
def _eager() -> Iterator[None]:
    """Run JAX's loops and compiled functions as plain Python, so that counters are numbers; refuse reused keys."""
    try:
        import jax
    except ImportError:  # native engines do without it
        yield
        return
    with jax.disable_jit(), jax.debug_key_reuse(True):
        try:
            yield
            jax.effects_barrier()  # type: ignore[no-untyped-call]
        except jax.errors.KeyReuseError as error:
            rule, reuse = "two draws of jax.random must not share a key", str(error).partition("\n")[0]
            raise OverlappingDraws(f"{rule}: {reuse}; use a new key from jax.random.split for each draw") from None


def _index(task: Task) -> np.ndarray:
    return np.arange(max(2, min(EXAMPLES, NUMBERS // max(1, task.input_size))), dtype=np.uint32)


def _as_given(value: Any, traced: bool) -> Any:
    """Return an array as the general engine passes it to user-defined code or, if not traced, as native engines do."""
    if not traced:
        return value
    import jax.numpy as jnp

    return jnp.asarray(value)


def _key(trial: Trial, stream: str, traced: bool) -> random.Key:
    return random.Key(*(_as_given(np.uint32(word), traced) for word in trial.key(stream)))

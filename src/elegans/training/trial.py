"""The trial: one task, regime, model, training and seed."""

import hashlib
import json
from functools import cached_property
from numbers import Integral
from typing import Annotated, Any

import tomli_w
from pydantic import Field, SerializeAsAny, model_validator

from elegans import discovery, random, records
from elegans.component import IDENTITY, LARGEST, Component
from elegans.display import card
from elegans.errors import TrialError, shown
from elegans.learners.base import Learner
from elegans.models import Model
from elegans.stopping import StoppingRule
from elegans.tasks import Regime, Split, Task
from elegans.training.optimisers import Minibatches, Training

Seed = Annotated[int, Field(ge=0, lt=2**64)]
RESAMPLED = frozenset({"init", "batches", "dropout"})
"""The streams that a restart resamples: the learner's own draws, not its data."""
RESTART_KEYS = 2**31
"""The first number of restarts' keys; smaller numbers are used within streams, for layers and steps."""


class Trial(Component):
    """A complete description of one training: frozen, validated, and convertible to and from JSON.

    Trials that differ only in their seed form a *cell*. A trial is identified by ``identity``, a hash of its content.
    User-defined classes are identified by kind and fields, not by their code; stores keep a hash of the code.

    Args:
        task: the task to learn.
        regime: how examples reach the learner.
        model: the model that learns.
        training: loss, optimiser, batch size, steps, stopping rule; None for learners with their own steps.
        seed: from 0 to 2^64 - 1; it determines all draws of the trial.
        restart: the number of earlier restarts on the same problem: the task's hidden part and all examples are those
            of restart 0, while initial values, minibatches and dropout are resampled. Below 2^31.

    Raises:
        TrialError: a field breaks a rule, or the parts do not fit each other.
    """

    task: SerializeAsAny[Task]
    regime: SerializeAsAny[Regime]
    model: SerializeAsAny[Model]
    training: SerializeAsAny[Training] | None = None
    seed: Seed = 0
    restart: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="after")
    def _parts_fit(self) -> "Trial":
        size = self.task.input_size  # a user's own task may return anything
        if not isinstance(size, Integral) or isinstance(size, bool) or not 1 <= size < LARGEST:
            rule = "input_size of a task must be a whole number of at least 1 and below 2^31"
            raise ValueError(f"{rule}: task={self.task.kind!r}, input_size={shown(size)}")
        self.model.check(self.task)
        model, training = self.model, self.training
        self._check_outputs()
        if isinstance(model, Learner):
            if training is not None:
                kinds = f"model={model.kind!r}, training={training.kind!r}"
                raise ValueError(f"training must be None for a learner that is not a network: {kinds}")
        elif training is None:
            raise ValueError(f"training must be given for a network: model={model.kind!r}, training=None")
        if isinstance(self.regime, Split) and not isinstance(training, Minibatches):
            kind = f"model={model.kind!r}" if training is None else f"training={training.kind!r}"
            raise ValueError(f"a split must feed a network that trains by minibatches: {kind}")
        if isinstance(model, Learner):
            model.check_regime(self.task, self.regime)
        else:
            assert training is not None
            training.check(self.task, self.regime, model)
        if self.task.targets is None and self.stopping.loss is not None:
            kinds = f"task={self.task.kind!r}, stopping.loss={self.stopping.loss:g}"
            raise ValueError(f"a bound on the loss must have a task with real-valued targets: {kinds}")
        return self

    def _check_outputs(self) -> None:
        task, outputs = self.task, self.model.outputs(self.task)
        for number, name, plural in ((task.classes, "class", "classes"), (task.targets, "target", "targets")):
            if number is not None and outputs != number:
                counts = f"{outputs} outputs of {self.model.kind!r}, {number} {plural} of {task.kind!r}"
                raise ValueError(f"a model must have an output for each {name}: {counts}")

    @property
    def steps(self) -> int:
        """The largest number of steps: the training's, or the rounds of a learner that is not a network."""
        if self.training is not None:
            return self.training.steps
        assert isinstance(self.model, Learner)
        return self.model.rounds(self.task)

    @property
    def memory(self) -> int:
        """The minimum size of its arrays in bytes: parameters, their gradients, and a minibatch."""
        examples = self.training.batch_size if isinstance(self.training, Minibatches) else 0
        return 4 * (2 * self.model.parameter_count(self.task) + examples * self.task.input_size)

    @property
    def stopping(self) -> StoppingRule:
        """When the trial counts as solved, and whether it then ends."""
        if self.training is not None:
            return self.training.stopping
        assert isinstance(self.model, Learner)
        return self.model.stopping

    @cached_property
    def cell(self) -> str:
        """The hash of everything but the seed: 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.identified, sort_keys=True).encode()).hexdigest()

    @property
    def identified(self) -> dict[str, Any]:
        """What identifies the cell, in JSON types: all fields but the seed, and later ones only off their defaults."""
        return self.model_dump(mode="json", exclude={"seed"}, context=IDENTITY)

    @property
    def identity(self) -> str:
        """The hash of the trial's content: 64 hexadecimal digits."""
        return identity(self.cell, self.seed)

    def with_seed(self, seed: int) -> "Trial":
        """Return the same trial with another seed, from 0 to 2^64 - 1."""
        return self.model_copy(update={"seed": random.checked_seed(seed)})

    def key(self, stream: str) -> random.Key:
        """Return the key of one of the trial's streams (see ``elegans.random.STREAMS``)."""
        if isinstance(stream, str) and stream == "sample":
            return self.regime.sample_key(self.task, self.seed)
        key = random.stream(self.seed, stream)
        return key.fold(RESTART_KEYS + self.restart) if self.restart and stream in RESAMPLED else key

    def explain(self) -> Any:
        """Return which engine trains the trial, why, and how long it takes here: an ``Explanation``, to be printed."""
        return discovery.load("elegans.training.explanation", "explain")(self)

    def _repr_html_(self) -> str:
        return card("Trial", labels(self))

    def to_json(self) -> str:
        """Return the trial as JSON; ``Trial.from_json`` reads it back."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Trial":
        """Read a trial from JSON."""
        return cls.parse(records.read(text, "JSON", "a trial", TrialError))

    @classmethod
    def from_toml(cls, text: str) -> "Trial":
        """Read a trial from TOML with the tables ``task``, ``regime``, ``model`` and ``training``."""
        return cls.parse(records.read(text, "TOML", "a trial", TrialError))

    def to_toml(self) -> str:
        """Return the trial as TOML; ``Trial.from_toml`` reads it back."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def identity(cell: str, seed: int) -> str:
    """Return the identity of the trial of a cell with a seed."""
    return hashlib.sha256(f"{cell}:{seed}".encode()).hexdigest()


def signature(part: Component) -> str:
    """Return a trial, or a part of one, as JSON without what may differ in a batch: seed, restart, traced numbers."""
    record = part.substitute(dict.fromkeys(part.traced(), 0))
    if isinstance(part, Trial):
        record = record.model_copy(update={"seed": 0, "restart": 0})
    return json.dumps(record.model_dump(mode="json", warnings=False), sort_keys=True)


def labels(trial: Trial) -> dict[str, Any]:
    """Return short labels of a trial's parts, with their numbers."""
    texts: dict[str, Any] = {}
    for name in ("task", "regime", "model", "training"):
        part = getattr(trial, name)
        if part is not None:
            fields = [field for field in type(part).model_fields if field in part.model_fields_set]
            texts[name] = f"{part.kind}({', '.join(f'{field}={_short(getattr(part, field))}' for field in fields)})"
    return {**texts, "seed": trial.seed, **({"restart": trial.restart} if trial.restart else {})}


def _short(value: Any) -> str:
    text = value.label() if isinstance(value, Component) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

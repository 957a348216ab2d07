"""Learners of tables in trials: networks for tables, and random forests."""

from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.errors import TrialError
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models import Init, Model, SparseInit
from elegans.stopping import StoppingRule
from elegans.tabular.descent import forward, with_ones
from elegans.tabular.network import Networks, init_networks
from elegans.tabular.settings import Settings
from elegans.tabular.table import Table
from elegans.tasks import Regime, Sample, Task

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TableLearner(Learner, Model):
    """A learner of a table's rows, from a sample of the pool without its validation part.

    Its errors are exact: all held-out rows of the table are evaluated; see ``exact``.
    """

    def check(self, task: Task) -> None:
        """Refuse a task that is not a table."""
        if not isinstance(task, Table):
            raise ValueError(f"{self.kind} must learn a table: task={task.kind!r}")

    def check_regime(self, task: Task, regime: Regime) -> None:
        """Refuse anything but a sample of at least 2 rows that excludes the validation part."""
        assert isinstance(task, Table)
        if not isinstance(regime, Sample):
            raise ValueError(f"{self.kind} must have a sample: regime={regime.kind!r}")
        if not 2 <= regime.size <= task.training_rows:
            raise ValueError(
                f"a sample of {task.name} must have from 2 rows to {task.training_rows}, which excludes its validation "
                f"part: size={regime.size}"
            )
        if self.stopping.examples != task.held_out_rows:
            raise ValueError(
                f"stopping.examples must be the {task.held_out_rows} held-out rows of {task.name}, for an exact error: "
                f"stopping.examples={self.stopping.examples}"
            )

    def sample(self, lesson: LearnerData) -> tuple[Float32[np.ndarray, "count features"], Bool[np.ndarray, " count"]]:
        """Return the sample's features and whether each row is of the second class."""
        assert isinstance(lesson.regime, Sample)
        x, y = lesson.examples(np.arange(lesson.regime.size, dtype=np.uint32))
        second = y > 0
        if not 0 < second.sum() < len(y):
            raise TrialError(f"a sample must have rows of both classes: size={len(y)}, of the second {second.sum()}")
        return x, second


def exact(task: Table) -> StoppingRule:
    """Return the rule that evaluates all held-out rows of a table once, at the end.

    Tables do not count as solved or unsolved; the rule keeps the usual 10%.
    """
    return StoppingRule(examples=task.held_out_rows)


class TabularNetwork(TableLearner):
    """A multi-layer ReLU network fitted to a table by minibatch descent of the logistic loss; a round is an epoch.

    Its parameters are ``{"layers": (…)}``, one array (fan-out, fan-in + 1) per layer whose last column has the biases.
    The curve's loss is the mean over each epoch's minibatches; its error is not computed, but set to 1.

    Source: Pareto frontiers, appendix C.3. It names neither loss nor optimiser; see ``elegans.tabular.network``.

    Args:
        hidden: the widths of the hidden layers, the first layer's first.
        init: the initialisation of the first layer's weights; the others are dense.
        optimiser: ``sgd`` or ``adamw``.
        learning_rate: above 0.
        weight_decay: the decay of all weights and biases, at least 0.
        batch_size: rows per step; an epoch's last step takes the remaining rows.
        epochs: passes over the sample.
        steps: None, or fewer rounds than there are epochs.
        stopping: when the trial counts as solved, as returned by ``exact``.
    """

    hidden: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=16)]
    init: SerializeAsAny[Init] = SparseInit(2)
    optimiser: Literal["sgd", "adamw"] = "sgd"
    learning_rate: Rate = 1e-3
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    batch_size: Annotated[int, Field(ge=1)] = 256
    epochs: Annotated[int, Field(ge=1)] = 100

    @property
    def settings(self) -> Settings:
        """The same description in the form for fits without trials."""
        names = ("hidden", "init", "optimiser", "learning_rate", "weight_decay", "batch_size", "epochs")
        return Settings(**{name: getattr(self, name) for name in names})

    def check(self, task: Task) -> None:
        """Refuse a task that is not a table, and an initialisation with more non-zeros than features."""
        super().check(task)
        self.init.check(self.hidden[0], task)

    def rounds(self, task: Task) -> int:
        """Return the number of epochs, or ``steps`` if that is smaller."""
        return min(self.epochs, self.steps or self.epochs)

    def initialise(self, key: random.Key, task: Task) -> dict[str, Any]:
        return _layers(self.drawn(key, task))

    def drawn(self, key: random.Key, task: Task) -> Networks:
        """Draw the network; the two words of the key are its seed, which also determines the orders of its epochs."""
        return init_networks(self.settings, [int(key.high) << 32 | int(key.low)], task.input_size)

    def apply(self, parameters: Any, x: Float32[Any, "count features"]) -> Float[Any, " count"]:
        layers = parameters["layers"]
        return forward(layers, with_ones(x, str(layers[0].dtype)))[:, 0]

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Fit(self, lesson)


class _Fit(LearnerRun):
    def __init__(self, model: TabularNetwork, lesson: LearnerData) -> None:
        self.x, self.second = model.sample(lesson)
        self.networks = model.drawn(lesson.key("init"), lesson.task)

    @property
    def parameters(self) -> dict[str, Any]:
        """The current layers."""
        return _layers(self.networks)

    def advance(self, rounds: int) -> None:
        self.loss = float(self.networks.train(self.x, self.second, epochs=rounds).mean())


def _layers(networks: Networks) -> dict[str, Any]:
    return {"layers": tuple(layer[0] for layer in networks.layers)}


class Forest(TableLearner):
    """scikit-learn's random forest, in one round; other settings are the library's defaults.

    Its parameters are ``{"forest": …}``, the fitted classifier or None. Its random state is the second word of the
    trial's init key, and determines the only draws of a trial that are not made by ``elegans.random``.

    Source: Pareto frontiers, appendix C.3, whose ``max_depth = -1`` is read as no limit.

    Args:
        n_estimators: how many trees.
        max_depth: the depth of each tree; None for no limit.
        max_features: how many features a split considers: a number, ``sqrt`` or None for all.
        steps: None, or 1.
        stopping: when the trial counts as solved, as returned by ``exact``.
    """

    shorthand = "n_estimators"
    n_estimators: Annotated[int, Field(ge=1)] = 100
    max_depth: Annotated[int, Field(ge=1)] | None = None
    max_features: Annotated[int, Field(ge=1)] | Literal["sqrt"] | None = "sqrt"

    def check(self, task: Task) -> None:
        """Refuse a task that is not a table, and splits that consider more features than there are."""
        super().check(task)
        if isinstance(self.max_features, int) and self.max_features > task.input_size:
            values = f"max_features={self.max_features}, n={task.input_size}"
            raise ValueError(f"max_features must be at most the number of features: {values}")

    def rounds(self, task: Task) -> int:
        """Return 1."""
        return 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, Any]:
        return {"forest": None}

    def apply(self, parameters: Any, x: Float32[Any, "count features"]) -> Float[Any, " count"]:
        forest = parameters["forest"]
        return np.zeros(len(x)) if forest is None else 2.0 * forest.predict(x) - 1

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Growth(self, lesson)


class _Growth(LearnerRun):
    def __init__(self, model: Forest, lesson: LearnerData) -> None:
        self.model, self.lesson = model, lesson
        self.x, self.second = model.sample(lesson)
        self.forest: Any = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The forest, or None."""
        return {"forest": self.forest}

    def advance(self, rounds: int) -> None:
        from sklearn.ensemble import RandomForestClassifier

        settings = {name: getattr(self.model, name) for name in ("n_estimators", "max_depth", "max_features")}
        forest = RandomForestClassifier(**settings, random_state=int(self.lesson.key("init").low))
        self.forest = forest.fit(self.x, self.second)

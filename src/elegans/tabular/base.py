"""What the classifier and the regressor share: settings, fitting, prediction, importances."""

import inspect
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.base import _fit_context, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d

from elegans import random
from elegans.component import LARGEST
from elegans.display import span
from elegans.errors import shown
from elegans.models.inits import Init, SparseInit
from elegans.tabular.descent import StopSignal
from elegans.tabular.encoding import Encoder, RawRows
from elegans.tabular.interface import Estimator
from elegans.tabular.network import Networks
from elegans.tabular.reading import Reader, row_weights
from elegans.tabular.settings import DEEPEST, Settings
from elegans.tabular.shared import (
    MANY_ROWS,
    SharedNetworks,
    SharedSettings,
    automatic_dropout,
    automatic_epochs,
)
from elegans.tabular.training import Independent, Shared, Targeted

Method = TypeVar("Method", bound=Callable[..., Any])


class _Range(Interval):  # type: ignore[misc]
    """Numbers between two bounds, excluding True and False."""

    def is_satisfied_by(self, value: Any) -> bool:
        plain = value.item() if isinstance(value, np.generic) else value  # a bound may have another type
        return not isinstance(plain, bool) and bool(super().is_satisfied_by(plain))


MOST_MEMBERS = 1000
"""Maximum number of networks that are trained side by side."""
AT_LEAST_ZERO = _Range(Real, 0, sys.float_info.max, closed="both")
_AT_LEAST_ONE = _Range(Integral, 1, LARGEST - 1, closed="both")
_ABOVE_ZERO = _Range(Real, 0, sys.float_info.max, closed="right")
_CONTINUED = ("hidden", "head", "init", "init_layers", "optimiser", "dtype")
_PREPARED = ("shared", "encoding", "n_bins", "missing", "missing_indicator", "standardise", "n_members")
"""Settings that cannot change when training continues: settings of the networks and of their rows."""
_DIVERGED = 10
"""Training has diverged if its loss exceeds this multiple of the loss of all-zero outputs."""
OTHER_SPELLINGS = {
    "optimizer": "optimiser",
    "standardize": "standardise",
    "max_iter": "epochs",
    "alpha": "weight_decay",
    "learning_rate_init": "learning_rate",
}
"""Settings by their names in scikit-learn's own networks."""
CLASSIC: dict[str, Any] = {
    "width": 300,
    "init": "sparse:2",
    "shared": False,
    "n_members": 1,
    "encoding": "standard",
    "missing": "error",
    "learning_rate": 1e-3,
    "weight_decay": 1.0,
    "epochs": 100,
    "batch_size": 256,
}
"""The settings of ``classic``."""


_CONSTRAINTS: dict[str, list[Any]] = {
    "width": [_AT_LEAST_ONE],
    "depth": [_Range(Integral, 1, DEEPEST, closed="both")],
    "hidden_layer_sizes": ["array-like", _AT_LEAST_ONE, None],
    "init": [str, Init],
    "init_layers": [StrOptions({"first", "all"})],
    "n_members": [_Range(Integral, 1, MOST_MEMBERS, closed="both")],
    "shared": ["boolean"],
    "encoding": [StrOptions({"bins", "standard"})],
    "n_bins": [_Range(Integral, 1, 60_000, closed="both"), None],
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "missing": [StrOptions({"auto", "error", "mean", "median", "most_frequent"})],
    "missing_indicator": ["boolean"],
    "standardise": ["boolean"],
    "dropout": [_Range(Real, 0, 1, closed="left"), StrOptions({"auto"})],
    "optimiser": [StrOptions({"adamw", "sgd"})],
    "learning_rate": [_ABOVE_ZERO],
    "schedule": [StrOptions({"cycles", "constant"})],
    "weight_decay": [AT_LEAST_ZERO],
    "epochs": [_AT_LEAST_ONE, StrOptions({"auto"})],
    "batch_size": [_AT_LEAST_ONE],
    "early_stopping": ["boolean", StrOptions({"auto"})],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [_AT_LEAST_ONE],
    "dtype": [StrOptions({"float32", "float64", "auto"})],
    "time_limit": [_ABOVE_ZERO, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
_CONSTRAINTS |= {other: [*_CONSTRAINTS[ours], None] for other, ours in OTHER_SPELLINGS.items()}


def settings_checked(method: Method) -> Method:
    """Check an estimator's settings before a method, by scikit-learn's decorator, which has no types."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))


def _completed(doc: str, base: str) -> str:
    """Return a docstring whose lists of arguments and attributes continue with the base class's lists."""
    for section in ("Args", "Attributes"):
        entries = re.compile(rf"^{section}:\n((?:    .*\n?)+)", re.MULTILINE)
        match, inherited = entries.search(doc), entries.search(base)
        assert inherited is not None
        if match is None:
            doc = f"{doc.rstrip()}\n\n{section}:\n{inherited[1]}"
        else:
            doc = f"{doc[: match.end()].rstrip()}\n{inherited[1]}{doc[match.end() :]}"
    return doc


@dataclass(eq=False, repr=False)
class SparseMLP(Estimator, ABC):
    """The base of the classifier and the regressor: several networks for tables of numbers and categories.

    By default sixteen networks share a trunk, and differ in the signs of their columns and in their heads; numbers are
    read through quantile bins. Predictions are means over networks. The name fits ``classic``, the study's network.

    Source: TabM (Gorishniy, Kotelnikov and Babenko, 2024) for the members, RealMLP (Holzmüller, Grinsztajn and
    Steinwart, 2024) for scaling, learning rate and embeddings; Pareto frontiers, section 4 and appendix C.3, for
    ``classic``.

    Args:
        width: the number of neurons of each hidden layer.
        depth: the number of hidden layers.
        hidden_layer_sizes: the sizes of the hidden layers instead of width and depth, or None.
        init: of the first layer's weights: ``dense``, ``sparse:s`` for s non-zeros per neuron, or a component.
        init_layers: which hidden layers have that initialisation, ``first`` or ``all``; the others are dense.
        n_members: how many networks are trained side by side; predictions are averaged.
        shared: whether they share a trunk; else each is a network of its own.
        encoding: ``bins``: each number by quantile bins and robustly scaled, each category by its levels; ``standard``:
            numbers only, standardised.
        n_bins: the largest number of bins of a column, or None for max(4, min(32, rows // 4, 8000 // columns)).
        categorical_features: ``from_dtype`` for columns of type category, object or string; numbers or names of
            columns; a mask; or None for no column.
        missing: ``auto``: gaps are an input of their own; ``error``: they are refused; or the statistic of training
            rows that replaces a missing number: ``mean``, ``median`` or ``most_frequent``.
        missing_indicator: whether each column with replaced values gets an input that shows where they were.
        standardise: whether ``encoding="standard"`` scales columns to mean 0 and standard deviation 1 in training rows.
        dropout: the probability that a step leaves a neuron of a shared trunk out; ``auto``: 0.5 up to 500 rows,
            down to 0.1 at 4000.
        optimiser: ``adamw`` or ``sgd``.
        learning_rate: the largest learning rate.
        schedule: ``cycles`` for a learning rate of four cosine cycles that ends at 0, of networks that share a trunk;
            ``constant``, as in continued training and for other networks.
        weight_decay: each step multiplies weights by 1 - learning rate x weight_decay; with a shared trunk not biases.
        epochs: passes over the rows; ``auto``: 12 below 1000 rows, 10 up to 40,000, fewer beyond, at least 230 steps.
        batch_size: rows per step, of each member.
        early_stopping: whether training returns to its state of lowest loss on validation rows: with a shared trunk
            after all epochs, else after ``n_iter_no_change`` epochs without a lower loss. Rows are held out by class
            (none of a class with a single row) unless they are given to ``fit``. ``auto``: if they are given, or for
            networks of their own if there are at least 1000 rows and at least as many rows are held out as there are
            classes.
        validation_fraction: the fraction of rows to hold out.
        n_iter_no_change: the patience of early stopping, in epochs, of networks of their own.
        dtype: the type of all arithmetic in training, ``float32`` or ``float64``; ``auto``: ``float32`` with at least
            1000 rows.
        time_limit: seconds after which training ends, within a step, or None.
        warm_start: whether ``fit`` continues from where the last one ended, at a constant learning rate.
        random_state: an integer, a ``RandomState`` or None, as everywhere in scikit-learn.
        verbose: whether to print a line after every epoch.
        optimizer: another spelling of ``optimiser``, None for its value; like the next four.
        standardize: of ``standardise``.
        max_iter: of ``epochs``.
        alpha: of ``weight_decay``.
        learning_rate_init: of ``learning_rate``.

    Attributes:
        networks_: the members, as ``elegans.tabular.SharedNetworks`` or ``Networks``.
        n_iter_: the number of epochs trained.
        loss_curve_: the mean loss of each epoch.
        validation_curve_: the mean loss on validation rows after each epoch, if there are any.
        feature_importances_: how strongly the first layer uses each feature; 0 for a constant one.
        member_importances_: the same for each member, shape (members, features).
        n_features_in_: the number of features.
        feature_names_in_: their names, if ``X`` has names.
    """

    width: int = 256
    depth: int = 2
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] | int | None = None
    init: Init | str = "dense"
    init_layers: str = "first"
    n_members: int = 16
    shared: bool = True
    encoding: str = "bins"
    n_bins: int | None = None
    categorical_features: "str | Sequence[str] | Sequence[int] | Sequence[bool] | np.ndarray | None" = "from_dtype"
    missing: str = "auto"
    missing_indicator: bool = False
    standardise: bool = True
    dropout: float | str = "auto"
    optimiser: str = "adamw"
    learning_rate: float = 2e-3
    schedule: str = "cycles"
    weight_decay: float = 3e-4
    epochs: int | str = "auto"
    batch_size: int = 16
    early_stopping: bool | str = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    dtype: str = "auto"
    time_limit: float | None = None
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False
    optimizer: str | None = None
    standardize: bool | None = None
    max_iter: int | None = None
    alpha: float | None = None
    learning_rate_init: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = _CONSTRAINTS

    def __init_subclass__(cls, **options: Any) -> None:
        """Append these lists of arguments and attributes to a subclass's lists, so that ``help`` shows all of them."""
        super().__init_subclass__(**options)
        if cls.__doc__ and SparseMLP.__doc__:  # with -OO there are no docstrings
            cls.__doc__ = _completed(inspect.cleandoc(cls.__doc__), inspect.cleandoc(SparseMLP.__doc__))

    @classmethod
    def classic(cls, **changes: Any) -> Self:
        """Return an estimator with the study's network: wide, sparsely initialised, on standardised numbers."""
        return cls(**CLASSIC | {OTHER_SPELLINGS.get(name, name): value for name, value in changes.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = tags.input_tags.string = self.encoding == "bins"
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_training")

    @property
    def networks_(self) -> Networks | SharedNetworks:
        """The members."""
        return self._training.networks

    @property
    def loss_curve_(self) -> list[float]:
        """The mean loss of each epoch."""
        return self._training.losses

    @property
    def validation_curve_(self) -> list[float]:
        """The mean loss on validation rows after each epoch, if there are any."""
        return self._training.validation_losses

    @settings_checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation: tuple[Any, ...] | None = None) -> Self:
        """Train networks.

        Args:
            X: shape (rows, features): numbers and categories; a data frame's column names are remembered and checked,
                and a sparse matrix is made dense.
            y: the targets, shape (rows,), or (rows, targets) for a regressor.
            sample_weight: weights of the rows, or None; only their ratios count.
            validation: ``(X, y)`` or ``(X, y, sample_weight)``, whose loss is evaluated after every epoch
                (``validation_curve_``); no rows are then held out. A pipeline does not apply its earlier steps to it.

        Returns:
            The estimator; after a keyboard interrupt, with the networks so far.
        """
        stop = StopSignal(self.time_limit)
        fresh = not (self.warm_start and hasattr(self, "_training"))
        if fresh:
            self._forget()
        rows, y = self._read(X, y, reset=fresh, least=2)
        self._learn_targets(y, fresh)
        weights = row_weights(sample_weight, rows)
        if (weights == 0).any():
            counted = np.flatnonzero(weights > 0)
            rows, y, weights = rows[counted], y[counted], weights[counted]
        self._refuse_constant(y)
        self._learn_class_weights(y, weights)
        weights = self._weighted(y, weights)
        if fresh:
            self._draw_seeds()
        stops = self.early_stopping
        if stops == "auto":
            many = not self.shared and len(y) >= MANY_ROWS and self._can_hold_out(y)
            stops = validation is not None or many
        held_out = None
        if stops and validation is None:
            train, test = self._hold_out(y)
            held_out = rows[test], y[test], weights[test]
            rows, y, weights = rows[train], y[train], weights[train]
        if fresh:
            self._begin(rows, y, weights)
        self._continue(len(rows))
        held_out = held_out if validation is None else self._validation_rows(validation)
        watched = None if held_out is None else Targeted(held_out[0], self._encoded(held_out[1]), held_out[2])
        self._train(rows, y, weights, stop, watched, self.n_iter_no_change if stops else None)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if self.early_stopping is True:
            raise ValueError("partial_fit does not support early_stopping=True")
        fresh = not hasattr(self, "_training")
        rows, y = self._read(X, y, reset=fresh, least=1)
        self._learn_targets(y, fresh, whole=False)
        self._learn_class_weights(y, weights := row_weights(sample_weight, rows))
        weights = self._weighted(y, weights)
        if fresh:
            self._draw_seeds()
            self._begin(rows, y, weights)
        self._continue(len(rows), epochs=1)
        self._train(rows, y, weights, StopSignal(self.time_limit))
        return self

    # -- the networks

    def _option(self, name: str) -> Any:
        """Return a setting, which may have been given by its other name."""
        other = next((other for other, ours in OTHER_SPELLINGS.items() if ours == name), None)
        ours, theirs = getattr(self, name), None if other is None else getattr(self, other)
        if theirs is None or theirs == ours:
            return ours
        if ours != next(each.default for each in fields(self) if each.name == name):
            raise ValueError(f"{name} and {other} are one setting: {name}={shown(ours)}, {other}={shown(theirs)}")
        return theirs

    def _settings(self, rows: int, epochs: int | None = None) -> Settings:
        """Return the settings for a training on some rows."""
        sizes = self.hidden_layer_sizes
        hidden: Any = (
            (self.width,) * self.depth if sizes is None else (sizes,) if isinstance(sizes, Integral) else sizes
        )
        names = ("init_layers", "optimiser", "learning_rate", "weight_decay", "batch_size")
        others = {name: self._option(name) for name in names}
        constant = self.schedule == "constant" or self.warm_start or epochs is not None
        epochs = self._option("epochs") if epochs is None else epochs
        others["epochs"] = automatic_epochs(rows, self.batch_size) if epochs == "auto" else epochs
        init = Init.parse(self.init)
        if isinstance(init, SparseInit) and self._encoder.inputs.count == 1:
            init = SparseInit(1)
        dtype: Any = self._dtype if self.dtype == "auto" else self.dtype
        others |= {"hidden": hidden, "head": self._head(), "dtype": dtype, "init": init}
        if not self.shared:
            return Settings(**others)
        dropout: Any = automatic_dropout(rows) if self.dropout == "auto" else self.dropout
        return SharedSettings(**others, dropout=dropout, cycles=not constant)

    def _draw_seeds(self) -> None:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        members = np.arange(self.n_members, dtype=np.uint32)
        high, low = random.bits(random.stream(self._seed, "init"), members)
        self._seeds = [int(first) << 32 | int(second) for first, second in zip(high, low, strict=True)]

    def _begin(self, rows: RawRows, y: np.ndarray, weights: np.ndarray) -> None:
        """Learn how rows and targets are encoded, and draw the networks."""
        self._preparing = {name: self._option(name) for name in _PREPARED}
        names = ("encoding", "missing", "missing_indicator", "standardise", "n_bins")
        self._encoder = Encoder(**{name: self._preparing[name] for name in names}, embed=self.shared)
        self._dtype = "float32" if len(rows) >= MANY_ROWS else "float64"
        self._encoder.fit(rows, weights)
        self._learn_scale(y, weights)
        kind = Shared if self.shared else Independent
        self._training = kind(self._encoder, rows, self._settings(len(rows)), self._seeds, self._heads())

    def _continue(self, rows: int, epochs: int | None = None) -> None:
        """Adopt settings that may change between trainings; refuse changes of the others."""
        changed = [name for name in _PREPARED if self._option(name) != self._preparing[name]]
        if not changed:
            settings, before = self._settings(rows, epochs), self.networks_.settings
            changed = [name for name in _CONTINUED if getattr(settings, name) != getattr(before, name)]
        if changed:
            rule = "must be the same as in the training that is continued: fit from scratch without warm_start"
            raise ValueError(f"{changed[0]} {rule}")
        self._training.networks.settings = settings

    def _train(
        self,
        rows: RawRows,
        y: np.ndarray,
        weights: np.ndarray,
        stop: StopSignal,
        watched: Any = None,
        patience: Any = None,
    ) -> None:
        begun, before, training = time.monotonic(), len(self.loss_curve_), self._training
        epochs = self.networks_.settings.epochs

        def report() -> None:
            if self.verbose:
                self._report(len(self.loss_curve_) - before, epochs, time.monotonic() - begun)

        data = Targeted(rows, self._encoded(y), None if (weights == weights[0]).all() else weights)
        try:
            training.train(data, watched, patience, stop, report)
        except KeyboardInterrupt:
            warnings.warn("Training interrupted by user.", stacklevel=3)
        loss, rate = training.settle(), self._option("learning_rate")
        if not training.is_finite():
            self._forget()
            raise ValueError(
                "Solver produced non-finite parameter weights: training diverged. Lower "
                f"learning_rate={rate:g}, or preprocess the input data if they contain large values."
            )
        zeros = self._loss_of_zeros(y, weights)
        if loss is not None and not loss <= _DIVERGED * zeros:
            scaled = self.encoding == "bins" or self._option("standardise")
            warnings.warn(
                f"training diverged: the mean loss is {loss:.3g}, and {zeros:.3g} of outputs that are all 0; "
                f"lower learning_rate={rate:g}{'' if scaled else ' or take standardise=True'}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = len(self.loss_curve_)

    def _report(self, number: int, epochs: int, seconds: float) -> None:
        validation = f", validation loss {self.validation_curve_[-1]:.5g}" if self.validation_curve_ else ""
        line = f"epoch {number} of {epochs}: loss {self.loss_curve_[-1]:.5g}{validation}, {span(seconds)}"
        print(f"[{type(self).__name__}] {line}", flush=True)  # noqa: T201  (what `verbose` means everywhere)

    def _outputs(self, X: Any, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return what ``use`` makes of the outputs (members, rows, heads) in float64."""
        check_is_fitted(self)
        return self._training.outputs(self._reader.read(self, X, reset=False)[0], use)

    def _forget(self) -> None:
        self.__dict__.pop("_training", None)

    # -- differences between the classifier and the regressor

    @abstractmethod
    def _head(self) -> Any: ...

    @abstractmethod
    def _heads(self) -> int: ...

    @abstractmethod
    def _learn_targets(self, y: np.ndarray, fresh: bool, whole: bool = True) -> None: ...

    @abstractmethod
    def _refuse_constant(self, y: np.ndarray) -> None: ...

    def _learn_class_weights(self, y: np.ndarray, weights: np.ndarray) -> None:  # only classes have any
        pass

    def _weighted(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights

    def _learn_scale(self, y: np.ndarray, weights: np.ndarray) -> None:  # only targets have any
        pass

    @abstractmethod
    def _encoded(self, y: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _loss_of_zeros(self, y: np.ndarray, weights: np.ndarray) -> float: ...

    # -- rows

    def _read(self, X: Any, y: Any, *, reset: bool, least: int) -> tuple[RawRows, np.ndarray]:
        if reset:
            self._reader = Reader(
                self.categorical_features if self.encoding == "bins" else None, self.missing != "error"
            )
        checks = {"multi_output": True, "y_numeric": not is_classifier(self), "ensure_min_samples": least}
        rows, y = self._reader.read(self, X, y, reset=reset, **checks)
        return rows, self._typed(column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y)

    def _typed(self, y: Any) -> np.ndarray:
        return np.asarray(y)

    def _validation_rows(self, validation: tuple[Any, ...]) -> tuple[RawRows, np.ndarray, np.ndarray]:
        if not isinstance(validation, tuple) or len(validation) not in (2, 3):
            raise ValueError("validation must be (X, y) or (X, y, sample_weight)")
        rows, y = self._read(*validation[:2], reset=False, least=1)
        self._learn_targets(y, fresh=False, whole=False)
        weights = row_weights((*validation, None)[2], rows)
        return rows, y, self._weighted(y, weights)

    def _hold_out(self, y: np.ndarray) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
        """Split rows into training and held-out rows, with the same fraction of each class."""
        if not self._can_hold_out(y):
            raise ValueError(
                "The validation set is too small. Increase 'validation_fraction' or the size of your dataset: "
                f"n_samples={len(y)}, validation_fraction={self.validation_fraction}"
            )
        labels = self._strata(y)
        counts = np.bincount(labels)
        test_counts = np.clip(np.rint(self.validation_fraction * counts).astype(int), 1, counts - 1)
        rows = np.arange(len(y), dtype=np.uint32)
        order = np.argsort(random.bits(random.stream(self._seed, "test"), rows)[0], kind="stable")
        by_label = [order[labels[order] == label][:count] for label, count in enumerate(test_counts)]
        test = np.sort(np.concatenate(by_label))
        return np.setdiff1d(rows.astype(np.int64), test), test

    def _strata(self, y: np.ndarray) -> Int[np.ndarray, " rows"]:
        return np.unique(y, return_inverse=True)[1] if is_classifier(self) else np.zeros(len(y), np.int64)

    def _can_hold_out(self, y: np.ndarray) -> bool:
        """Return whether at least as many rows are held out as there are classes, and some are left."""
        held_out = round(self.validation_fraction * len(y))
        return held_out >= max(2, len(np.unique(self._strata(y)))) and len(y) >= 3

    @property
    def feature_importances_(self) -> Float[np.ndarray, " features"]:
        """How strongly the first layer uses each feature, summing to 1; 0 for a feature that is constant in training.

        The sum over first-layer neurons of the standard deviation of what the feature adds to the neuron x the norm of
        the neuron's outgoing weights, averaged over members. What shows that a value is missing counts towards its
        feature. Importances show which features the networks use, not how the error would grow without them.
        """
        check_is_fitted(self)
        strength = self._training.strengths()
        return np.asarray(strength.sum(axis=0) / max(strength.sum(), np.finfo(float).tiny))

    @property
    def member_importances_(self) -> Float[np.ndarray, "members features"]:
        """How strongly each member's first layer uses each feature, summing to 1 for each member."""
        check_is_fitted(self)
        strength = self._training.strengths()
        return np.asarray(strength / np.maximum(strength.sum(axis=1, keepdims=True), np.finfo(float).tiny))

    def permutation_importances(self, X: Any, y: Any, *, n_repeats: int = 5) -> pd.DataFrame:
        """Return how much the score falls when a feature is shuffled, by ``sklearn.inspection.permutation_importance``.

        Args:
            X: rows, preferably of a test set.
            y: their targets.
            n_repeats: how often each feature is shuffled.

        Returns:
            ``mean`` and ``std`` of each feature, the largest mean first.
        """
        from sklearn.inspection import permutation_importance

        check_is_fitted(self)
        result = permutation_importance(self, X, y, n_repeats=n_repeats, random_state=self._seed)
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        table = pd.DataFrame({"mean": result.importances_mean, "std": result.importances_std}, index=pd.Index(names))
        return table.sort_values("mean", ascending=False)

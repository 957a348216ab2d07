"""Wide, sparsely initialised networks as scikit-learn estimators."""

import inspect
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from elegans import random
from elegans.component import LARGEST
from elegans.errors import shown
from elegans.machine import memory
from elegans.models.inits import Init, SparseInit
from elegans.tabular.descent import StopSignal, inverse_link
from elegans.tabular.interface import Estimator
from elegans.tabular.network import Epoch, init_networks
from elegans.tabular.settings import DEEPEST, Settings
from elegans.tabular.stopping import BestEpoch

Method = TypeVar("Method", bound=Callable[..., Any])


class _Range(Interval):  # type: ignore[misc]
    """Numbers between two bounds, excluding True and False."""

    def is_satisfied_by(self, value: Any) -> bool:
        plain = value.item() if isinstance(value, np.generic) else value  # a bound may have another type
        return not isinstance(plain, bool) and bool(super().is_satisfied_by(plain))


TINY = 1e-30
"""A difference between inputs below which even large weights hardly change an output."""
MOST_MEMBERS = 1000
"""Maximum number of networks that are trained side by side."""
_AT_LEAST_ONE = _Range(Integral, 1, LARGEST - 1, closed="both")
_AT_LEAST_ZERO = _Range(Real, 0, sys.float_info.max, closed="both")
_ABOVE_ZERO = _Range(Real, 0, sys.float_info.max, closed="right")
_MANY_ROWS = 1000
"""Number of rows from which early stopping and float32 are automatic."""
_CONTINUED = ("hidden", "head", "init", "init_layers", "optimiser", "dtype")
_PREPARED = ("missing", "missing_indicator", "standardise")
"""Settings that cannot change when training continues: those of the networks, and of their rows."""
_DIVERGED = 10
"""Training has diverged if its loss exceeds this multiple of the loss of all-zero outputs."""


def _settings_checked(method: Method) -> Method:
    """Check an estimator's settings before a method, by scikit-learn's decorator, which has no types."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))


def _completed(doc: str, base: str) -> str:
    """Return a docstring whose lists of arguments and attributes continue with those of the base class."""
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
    """The base of the classifier and the regressor: wide networks with a sparsely initialised first layer.

    Each first-layer neuron starts with s random features, not with all as in a dense network: a wide layer then has
    neurons that happen to have the right few.

    Source: Pareto frontiers, section 4 and appendix C.3, for width, depth and sparse initialisation; the defaults are
    ours.

    Args:
        width: the number of neurons of each hidden layer.
        depth: the number of hidden layers.
        hidden_layer_sizes: the sizes of the hidden layers instead of width and depth, or None.
        init: the initialisation of the first layer's weights: ``sparse:s`` for s non-zeros per neuron (one, if there is
            only one feature), ``dense``, or a component.
        init_layers: which hidden layers have that initialisation, ``first`` or ``all``; the others are dense.
        optimiser: ``adamw`` or ``sgd``.
        learning_rate: the learning rate of every step.
        weight_decay: the decay of weights and biases: each step multiplies them by 1 - learning_rate x weight_decay.
        epochs: passes over the rows.
        batch_size: rows per step.
        early_stopping: whether each member ends after ``n_iter_no_change`` epochs without a lower loss on validation
            rows, and returns to its best state. They are held out, with the same fraction of each class (none of a
            class with a single row), unless they are given to ``fit``. ``auto``: if they are given, or there are at
            least 1000 rows and at least as many held out as classes.
        validation_fraction: the fraction of rows to hold out.
        n_iter_no_change: the patience of early stopping, in epochs.
        n_members: how many networks are trained side by side, each with its own seed; predictions are averaged.
        missing: ``error``, or the statistic of the training rows that replaces a missing value: ``mean``, ``median`` or
            ``most_frequent``.
        missing_indicator: whether each feature with missing values gets a column that shows where they were.
        standardise: whether to scale features to mean 0 and standard deviation 1 over the training rows (those of the
            first call with ``partial_fit``).
        dtype: the type of all arithmetic in training, ``float32`` or ``float64``; ``auto``: ``float32`` with at least
            1000 rows.
        time_limit: seconds after which training ends, within a step, or None.
        warm_start: whether ``fit`` continues from where the last one ended.
        random_state: an integer, a ``RandomState`` or None, as everywhere in scikit-learn.
        verbose: whether to print a line after every epoch.

    Attributes:
        networks_: the members, as ``elegans.tabular.Networks``.
        n_iter_: the number of epochs trained.
        loss_curve_: the mean loss of each epoch.
        validation_curve_: the mean loss on validation rows after each epoch, if there are any.
        feature_importances_: how strongly the first layer uses each feature; 0 for a constant one.
        member_importances_: the same for each member, shape (members, features).
        n_features_in_: the number of features.
        feature_names_in_: their names, if ``X`` has names.
    """

    width: int = 300
    depth: int = 2
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] | int | None = None
    init: Init | str = "sparse:2"
    init_layers: str = "first"
    optimiser: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1.0
    epochs: int = 100
    batch_size: int = 256
    early_stopping: bool | str = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    n_members: int = 1
    missing: str = "error"
    missing_indicator: bool = False
    standardise: bool = True
    dtype: str = "auto"
    time_limit: float | None = None
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "width": [_AT_LEAST_ONE],
        "depth": [_Range(Integral, 1, DEEPEST, closed="both")],
        "hidden_layer_sizes": ["array-like", _AT_LEAST_ONE, None],
        "init": [str, Init],
        "init_layers": [StrOptions({"first", "all"})],
        "optimiser": [StrOptions({"adamw", "sgd"})],
        "learning_rate": [_ABOVE_ZERO],
        "weight_decay": [_AT_LEAST_ZERO],
        "epochs": [_AT_LEAST_ONE],
        "batch_size": [_AT_LEAST_ONE],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [_AT_LEAST_ONE],
        "n_members": [_Range(Integral, 1, MOST_MEMBERS, closed="both")],
        "missing": [StrOptions({"error", "mean", "median", "most_frequent"})],
        "missing_indicator": ["boolean"],
        "standardise": ["boolean"],
        "dtype": [StrOptions({"float32", "float64", "auto"})],
        "time_limit": [_ABOVE_ZERO, None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Append these lists of arguments and attributes to those of a subclass, so that ``help`` shows all of them."""
        super().__init_subclass__(**options)
        if cls.__doc__ and SparseMLP.__doc__:  # with -OO there are no docstrings
            cls.__doc__ = _completed(inspect.cleandoc(cls.__doc__), inspect.cleandoc(SparseMLP.__doc__))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "networks_")

    @_settings_checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation: tuple[Any, ...] | None = None) -> Self:
        """Train networks.

        Args:
            X: numbers, shape (rows, features); a data frame's column names are remembered and checked, and a sparse
                matrix is made dense.
            y: the targets, shape (rows,), or (rows, targets) for a regressor.
            sample_weight: weights of the rows, or None; only their ratios count.
            validation: ``(X, y)`` or ``(X, y, sample_weight)``, whose loss is evaluated after every epoch
                (``validation_curve_``); no rows are then held out. A pipeline does not apply its earlier steps to it.

        Returns:
            The estimator; after a keyboard interrupt, with the networks so far.
        """
        stop = StopSignal(self.time_limit)
        fresh = not (self.warm_start and hasattr(self, "networks_"))
        if fresh:
            self._forget()
        X, y = self._rows(X, y, reset=fresh, least=2)
        self._learn_targets(y, fresh)
        weights = _row_weights(sample_weight, X)
        counted = np.flatnonzero(weights > 0)
        X, y, weights = X[counted], y[counted], weights[counted]
        self._refuse_constant(y)
        self._learn_class_weights(y, weights)
        weights = self._weighted(y, weights)
        if fresh:
            self._draw_seeds()
        self._stops_early = self.early_stopping
        if self.early_stopping == "auto":
            self._stops_early = validation is not None or (len(y) >= _MANY_ROWS and self._can_hold_out(y))
        held_out = None
        if self._stops_early and validation is None:
            train, test = self._hold_out(y)
            held_out = X[test], y[test], weights[test]
            X, y, weights = X[train], y[train], weights[train]
        if fresh:
            self._begin(X, y, weights)
        self._continue()
        if validation is not None:
            held_out = self._validation_rows(validation)
        watched = None
        if held_out is not None:
            patience = self.n_iter_no_change if self._stops_early else None
            watched = BestEpoch(self._prepared(held_out[0]), self._encoded(held_out[1]), held_out[2], patience)
        self._train(X, y, weights, self.epochs, stop, watched)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if self.early_stopping is True:
            raise ValueError("partial_fit does not support early_stopping=True")
        fresh = not hasattr(self, "networks_")
        X, y = self._rows(X, y, reset=fresh, least=1)
        self._learn_targets(y, fresh, whole=False)
        self._learn_class_weights(y, weights := _row_weights(sample_weight, X))
        weights = self._weighted(y, weights)
        if fresh:
            self._draw_seeds()
            self._begin(X, y, weights)
        self._continue()
        self._train(X, y, weights, 1, StopSignal(self.time_limit))
        return self

    # -- the networks

    def _settings(self) -> Settings:
        sizes = self.hidden_layer_sizes
        hidden: Any = (
            (self.width,) * self.depth if sizes is None else (sizes,) if isinstance(sizes, Integral) else sizes
        )
        names = ("init_layers", "optimiser", "learning_rate", "weight_decay", "batch_size", "epochs")
        others = {name: getattr(self, name) for name in names}
        init = Init.parse(self.init)
        if isinstance(init, SparseInit) and len(self._varies) == 1:
            init = SparseInit(1)
        dtype: Any = self._dtype if self.dtype == "auto" else self.dtype
        return Settings(hidden=hidden, head=self._head(), dtype=dtype, init=init, **others)

    def _draw_seeds(self) -> None:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        members = np.arange(self.n_members, dtype=np.uint32)
        high, low = random.bits(random.stream(self._seed, "init"), members)
        self._seeds = [int(first) << 32 | int(second) for first, second in zip(high, low, strict=True)]

    def _begin(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """Learn the replacements of missing values and the scales, and draw the networks."""
        self._preparing = {name: getattr(self, name) for name in _PREPARED}
        self._imputer = None
        if self.missing != "error":
            indicator = self.missing_indicator
            self._imputer = SimpleImputer(strategy=self.missing, add_indicator=indicator, keep_empty_features=True)
            X = self._imputer.fit_transform(X)
        self._dtype = "float32" if len(X) >= _MANY_ROWS else "float64"
        self._varies = np.ptp(X, axis=0) > 0
        with np.errstate(over="ignore", invalid="ignore"):
            self._scaler = StandardScaler().fit(X, sample_weight=weights)
        if self.standardise and not np.isfinite(self._scaler.var_).all():
            raise ValueError("Input X contains a value too large to be standardised: its square must be finite")
        lost = self._varies & (self._scaler.var_ < sys.float_info.min if self.standardise else np.ptp(X, axis=0) < TINY)
        if lost.any():
            warnings.warn(
                f"{int(lost.sum())} of {len(lost)} features of X vary by so little that they are constant to networks: "
                "multiply X by a large number",
                stacklevel=4,
            )
        self._learn_scale(y, weights)
        self.networks_ = init_networks(self._settings(), self._seeds, X.shape[1], self._heads())
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []

    def _continue(self) -> None:
        """Adopt settings that may change between trainings; refuse changes of the others."""
        settings, before = self._settings(), self.networks_.settings
        changed = [name for name in _CONTINUED if getattr(settings, name) != getattr(before, name)]
        changed += [name for name in _PREPARED if getattr(self, name) != self._preparing[name]]
        changed += ["n_members"] if self.n_members != len(self.networks_) else []
        if changed:
            rule = "must be the same as in the training that is continued: fit from scratch without warm_start"
            raise ValueError(f"{changed[0]} {rule}")
        self.networks_.settings = settings

    def _train(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        epochs: int,
        stop: StopSignal,
        watched: BestEpoch | None = None,
    ) -> None:
        begun, before = time.monotonic(), len(self.loss_curve_)

        def after_epoch(epoch: Epoch) -> Any:
            self.loss_curve_.append(_mean(epoch.losses))
            stopping = None
            if watched is not None:
                stopping = watched(epoch)
                self.validation_curve_.append(_mean(watched.losses[-1]))
            if self.verbose:
                self._report(epoch.number, epochs, time.monotonic() - begun)
            return stopping

        try:
            self.networks_.train(
                self._prepared(X),
                self._encoded(y),
                weights=None if (weights == weights[0]).all() else weights,
                epochs=epochs,
                callback=after_epoch,
                stop=stop,
            )
        except KeyboardInterrupt:
            warnings.warn("Training interrupted by user.", stacklevel=3)
        losses = self.loss_curve_[before:]
        if watched is not None and watched.best is not None and self._stops_early:
            self.networks_ = watched.best
            losses = [_mean(np.fmin.reduce(watched.losses))]
        if not all(np.isfinite(layer).all() for layer in self.networks_.layers):
            self._forget()
            raise ValueError(
                "Solver produced non-finite parameter weights: training diverged. Lower "
                f"learning_rate={self.learning_rate:g}, or preprocess the input data if they contain large values."
            )
        zeros = self._loss_of_zeros(y, weights)
        if losses and not losses[-1] <= _DIVERGED * zeros:
            warnings.warn(
                f"training diverged: the mean loss is {losses[-1]:.3g}, and {zeros:.3g} of outputs that are all 0; "
                f"lower learning_rate={self.learning_rate:g}{'' if self.standardise else ' or take standardise=True'}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = len(self.loss_curve_)

    def _report(self, number: int, epochs: int, seconds: float) -> None:
        validation = f", validation loss {self.validation_curve_[-1]:.5g}" if self.validation_curve_ else ""
        line = f"epoch {number} of {epochs}: loss {self.loss_curve_[-1]:.5g}{validation}, {seconds:.1f} s"
        print(f"[{type(self).__name__}] {line}", flush=True)  # noqa: T201  (what `verbose` means everywhere)

    def _outputs(self, X: Any) -> Float[np.ndarray, "members rows heads"]:
        """Return outputs in float64, so that those of a row do not depend on the other rows."""
        check_is_fitted(self)
        return self.networks_.outputs(self._prepared(self._validated(X, reset=False)), dtype="float64")

    def _forget(self) -> None:
        self.__dict__.pop("networks_", None)

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

    @abstractmethod
    def _strata(self, y: np.ndarray) -> Int[np.ndarray, " rows"]: ...

    # -- rows

    def _validated(self, *data: Any, **checks: Any) -> Any:
        """Return checked rows as a dense array, and the targets if there are any."""
        checks |= {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
        _refuse_times(data[0], "X")
        with _in_range("X and y"):
            validated = validate_data(self, *data, **checks)
        X, *rest = validated if len(data) > 1 else (validated,)
        X = _dense(X) if issparse(X) else X
        missing = self._preparing["missing"] if hasattr(self, "networks_") and not checks["reset"] else self.missing
        if missing == "error" and np.isnan(X).any():
            raise ValueError(
                'Input X contains NaN. Choose missing="median" (or "mean", "most_frequent"), and that statistic of the '
                "training rows takes the place of missing values; missing_indicator=True adds columns that show where "
                "they were."
            )
        return (X, *rest) if rest else X

    def _prepared(self, X: np.ndarray) -> np.ndarray:
        """Return rows in the networks' form: without missing values, and standardised."""
        if self._imputer is not None:
            X = self._imputer.transform(X)
        if self._preparing["standardise"]:
            X = self._scaler.transform(X)
        dtype = self.networks_.settings.dtype
        if np.abs(X).max(initial=0) > np.finfo(dtype).max:
            raise ValueError(f"Input X contains infinity or a value too large for dtype('{dtype}').")
        return X

    def _rows(self, X: Any, y: Any, *, reset: bool, least: int) -> tuple[np.ndarray, np.ndarray]:
        checks = {"multi_output": True, "y_numeric": isinstance(self, RegressorMixin), "ensure_min_samples": least}
        X, y = self._validated(X, y, reset=reset, **checks)
        return X, self._typed(column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y)

    def _typed(self, y: Any) -> np.ndarray:
        return np.asarray(y)

    def _validation_rows(self, validation: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not isinstance(validation, tuple) or len(validation) not in (2, 3):
            raise ValueError("validation must be (X, y) or (X, y, sample_weight)")
        X, y = self._rows(*validation[:2], reset=False, least=1)
        self._learn_targets(y, fresh=False, whole=False)
        weights = _row_weights((*validation, None)[2], X)
        return X, y, self._weighted(y, weights)

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

    def _can_hold_out(self, y: np.ndarray) -> bool:
        """Return whether at least as many rows are held out as there are classes, and some are left."""
        held_out = round(self.validation_fraction * len(y))
        return held_out >= max(2, len(np.unique(self._strata(y)))) and len(y) >= 3

    @property
    def feature_importances_(self) -> Float[np.ndarray, " features"]:
        """How strongly the first layer uses each feature, summing to 1; 0 for a feature that is constant in training.

        The sum over first-layer neurons of |weight of the feature| x (norm of the neuron's outgoing weights), averaged
        over members. Weights are those of features with standard deviation 1: without ``standardise`` each is
        multiplied by its feature's deviation in training, so that units do not matter. A missing-value indicator counts
        towards its feature. Importances show which features the networks use, not how the error would grow without
        them.
        """
        strength = self._strengths()
        return np.asarray(strength.sum(axis=0) / max(strength.sum(), np.finfo(float).tiny))

    @property
    def member_importances_(self) -> Float[np.ndarray, "members features"]:
        """How strongly each member's first layer uses each feature, summing to 1 for each member."""
        strength = self._strengths()
        return np.asarray(strength / np.maximum(strength.sum(axis=1, keepdims=True), np.finfo(float).tiny))

    def _strengths(self) -> Float[np.ndarray, "members features"]:
        check_is_fitted(self)
        first, second = self.networks_.layers[:2]
        outgoing = np.linalg.norm(second[:, :, :-1], axis=1)
        strength = np.einsum("mi,mij->mj", outgoing, np.abs(first[:, :, :-1]), dtype=np.float64) * self._varies
        if not self._preparing["standardise"]:
            strength *= np.sqrt(self._scaler.var_)
        result: np.ndarray = strength[:, : self.n_features_in_].copy()
        if self._imputer is not None and self._imputer.indicator_ is not None:
            np.add.at(result.T, self._imputer.indicator_.features_, strength[:, self.n_features_in_ :].T)
        return result


@dataclass(eq=False, repr=False, kw_only=True)
class SparseMLPClassifier(ClassifierMixin, SparseMLP):  # type: ignore[misc]
    """Wide, sparsely initialised networks for two classes (logistic loss) or more (softmax loss).

    An ensemble's probabilities are the average of its members'. The other arguments and attributes are those of
    ``SparseMLP``.

    Args:
        class_weight: weights by class, ``balanced`` for the total weight / (classes x the class's weight), or None.

    Attributes:
        classes_: the classes, in order.
    """

    class_weight: dict[Any, float] | str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseMLP._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    @_settings_checked
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train the current networks for one epoch on these rows.

        Scales and replacements of missing values are learned in the first call, which needs all ``classes``. Calls with
        the same rows are the epochs of one ``fit``; only the ratios of weights within a call count.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit. In order to use 'balanced' weights, use "
                "compute_class_weight('balanced', classes=classes, y=y) and pass the resulting weights as class_weight."
            )
        _check_partial_fit_first_call(self, classes)
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        score = self.decision_function(X)
        return np.asarray(self.classes_[(score > 0).astype(int) if score.ndim == 1 else score.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, averaged over members."""
        probability = inverse_link(self._outputs(X), self._head()).mean(axis=0)
        return np.hstack([1 - probability, probability]) if self._head() == "logistic" else probability

    def decision_function(self, X: Any) -> Float[np.ndarray, "rows *classes"]:
        """Return log-odds of the second of two classes, shape (rows,), or log-probabilities, shape (rows, classes)."""
        outputs = self._outputs(X)
        if self._head() == "logistic":
            outputs = outputs[:, :, 0]
            return np.asarray(_log_mean(-np.logaddexp(0, -outputs)) - _log_mean(-np.logaddexp(0, outputs)))
        return _log_mean(outputs - np.logaddexp.reduce(outputs, axis=2, keepdims=True))

    def _head(self) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def _heads(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _learn_targets(self, y: np.ndarray, fresh: bool, whole: bool = True) -> None:
        """Learn the classes, or refuse others than the known ones (or a whole sample without all of them)."""
        check_classification_targets(y)
        classes = np.unique(column_or_1d(y))
        if fresh and whole:
            self.classes_ = classes
        elif whole and not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start can only be used where `y` has the same classes as in the previous call to fit. "
                f"Previously got {self.classes_}, `y` has {classes}"
            )
        elif len(np.setdiff1d(classes, self.classes_)):
            raise ValueError(
                f"`y` has classes not in `self.classes_`. `self.classes_` has {self.classes_}. 'y' has {classes}."
            )

    def _refuse_constant(self, y: np.ndarray) -> None:
        if len(np.unique(y)) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data, but the data contains only "
                f"one class: {y[0]!r}"
            )

    def _learn_class_weights(self, y: np.ndarray, weights: np.ndarray) -> None:
        if self.class_weight == "balanced":
            totals = np.bincount(self._encoded(y), weights, minlength=len(self.classes_))
            self._class_weights = totals.sum() / (len(totals) * np.where(totals > 0, totals, 1))
        else:
            by_class: dict[Any, Any] = self.class_weight if isinstance(self.class_weight, dict) else {}
            for value in by_class.values():
                if not _AT_LEAST_ZERO.is_satisfied_by(value):
                    raise ValueError(f"class_weight must hold finite numbers of at least 0: {shown(value)}")
            self._class_weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)

    def _weighted(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights * self._class_weights[self._encoded(y)])

    def _encoded(self, y: np.ndarray) -> Int[np.ndarray, " rows"]:
        return np.searchsorted(self.classes_, y)

    def _loss_of_zeros(self, y: np.ndarray, weights: np.ndarray) -> float:
        return float(np.log(len(self.classes_)))

    def _strata(self, y: np.ndarray) -> Int[np.ndarray, " rows"]:
        return np.unique(y, return_inverse=True)[1]


@dataclass(eq=False, repr=False)
class SparseMLPRegressor(RegressorMixin, SparseMLP):  # type: ignore[misc]
    """Wide, sparsely initialised networks for one real target or several (half the squared error, summed over targets).

    Targets are standardised for training, and losses are in those units. An ensemble predicts the average of its
    members. Arguments and attributes are those of ``SparseMLP``.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @_settings_checked
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the current networks for one epoch on these rows.

        Scales (also the target's) and replacements of missing values are learned in the first call. Calls with the same
        rows are the epochs of one ``fit``; only the ratios of weights within a call count.
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> Float[np.ndarray, "rows *targets"]:
        """Return the targets, shape (rows,) or (rows, targets) as in ``fit``."""
        values = self._outputs(X).mean(axis=0) * self._target_scale + self._target_mean
        return np.asarray(values.reshape(-1, *self._target_shape))

    def _head(self) -> str:
        return "square"

    def _heads(self) -> int:
        return int(np.prod(self._target_shape))

    def _typed(self, y: Any) -> Float[np.ndarray, "rows *targets"]:
        _refuse_times(y, "y")
        with _in_range("y"):
            return np.asarray(check_array(y, dtype=np.float64, order="C", ensure_2d=False, input_name="y"))

    def _learn_targets(self, y: np.ndarray, fresh: bool, whole: bool = True) -> None:
        if fresh:
            self._target_shape = y.shape[1:]
        elif y.shape[1:] != self._target_shape:
            raise ValueError(f"y must have as many targets as before: {y.shape[1:]}, not {self._target_shape}")

    def _refuse_constant(self, y: np.ndarray) -> None:
        constant = np.flatnonzero(np.ptp(y.reshape(len(y), -1), axis=0) == 0)
        if len(constant):
            value = y.reshape(len(y), -1)[0, constant[0]]
            raise ValueError(
                f"{type(self).__name__} needs a target that varies, but target {constant[0]} is constant: all "
                f"{len(y)} values are {value}"
            )

    def _learn_scale(self, y: np.ndarray, weights: np.ndarray) -> None:
        y = y.reshape(len(y), -1)
        self._target_mean = np.average(y, axis=0, weights=weights)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.sqrt(np.average((y - self._target_mean) ** 2, axis=0, weights=weights))
        if not np.isfinite(scale).all():
            raise ValueError("Input y contains a value too large to be standardised: its square must be finite")
        self._target_scale = np.where(scale > 0, scale, 1.0)

    def _encoded(self, y: np.ndarray) -> Float[np.ndarray, "rows targets"]:
        return np.asarray((y.reshape(len(y), -1) - self._target_mean) / self._target_scale)

    def _loss_of_zeros(self, y: np.ndarray, weights: np.ndarray) -> float:
        """Return at least the loss on targets of variance 1, since those of some rows may all equal the mean."""
        loss = np.average((self._encoded(y) ** 2).sum(axis=1), weights=weights) / 2
        return float(max(loss, self._heads() / 2))

    def _strata(self, y: np.ndarray) -> Int[np.ndarray, " rows"]:
        return np.zeros(len(y), np.int64)


@contextmanager
def _in_range(name: str) -> Iterator[None]:
    """Refuse numbers that are too large for any array, for which NumPy raises another error than for other values."""
    try:
        yield
    except OverflowError:
        raise ValueError(f"Input {name} must hold numbers of at most {sys.float_info.max:.2g}") from None


def _refuse_times(data: Any, name: str) -> None:
    """Refuse dates and durations, which NumPy reads as numbers in units of its own (and a missing one as -2^63)."""
    is_frame = getattr(data, "ndim", 1) == 2 and hasattr(data, "dtypes")
    dtypes = list(data.dtypes) if is_frame else [getattr(data, "dtype", None)]
    if times := [str(dtype) for dtype in dtypes if getattr(dtype, "kind", "") in ("m", "M")]:
        raise ValueError(f"Input {name} must hold numbers, not dates or durations: {times[0]}")


def _row_weights(weights: Any, X: np.ndarray) -> Float[np.ndarray, " rows"]:
    _refuse_times(weights, "sample_weight")
    with _in_range("sample_weight"):
        weights = np.full(len(X), weights) if isinstance(weights, Real) else weights
        return np.asarray(_check_sample_weight(weights, X, ensure_non_negative=True))


def _dense(X: Any) -> np.ndarray:
    """Return a sparse matrix as an array, or refuse one that would not fit into memory."""
    if (needed := X.dtype.itemsize * X.shape[0] * X.shape[1]) > memory():
        rule = "a sparse X is made dense, and must fit into the memory of the machine"
        raise ValueError(f"{rule}: {needed / 2**30:.3g} GiB: shape {X.shape}")
    return np.asarray(X.toarray())


def _mean(losses: Float[np.ndarray, " members"]) -> float:
    """Return the mean loss, ignoring NaN; NaN if all are."""
    numbers = losses[~np.isnan(losses)]
    return float(numbers.mean()) if len(numbers) else float("nan")


def _log_mean(logs: Float[np.ndarray, "members *rest"]) -> Float[np.ndarray, "*rest"]:
    """Return the logarithm of the mean over members of numbers, given their logarithms."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))

"""Networks for tables as scikit-learn estimators."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import column_or_1d

from elegans.errors import shown
from elegans.tabular.base import AT_LEAST_ZERO, SparseMLP, settings_checked
from elegans.tabular.descent import inverse_link
from elegans.tabular.reading import in_range, refuse_times


@dataclass(eq=False, repr=False, kw_only=True)
class SparseMLPClassifier(ClassifierMixin, SparseMLP):  # type: ignore[misc]
    """Networks for tables with two classes (logistic loss) or more (softmax loss).

    An ensemble's probabilities are the average of its members'. The other arguments and attributes are described at
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

    @settings_checked
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
        probability = self._outputs(X, lambda outputs: inverse_link(outputs, self._head()).mean(axis=0))
        return np.hstack([1 - probability, probability]) if self._head() == "logistic" else probability

    def decision_function(self, X: Any) -> Float[np.ndarray, "rows *classes"]:
        """Return log-odds of the second of two classes, shape (rows,), or log-probabilities, shape (rows, classes)."""
        return self._outputs(X, self._log_odds)

    def _log_odds(self, outputs: Float[np.ndarray, "members rows heads"]) -> Float[np.ndarray, "rows *classes"]:
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
                if not AT_LEAST_ZERO.is_satisfied_by(value):
                    raise ValueError(f"class_weight must hold finite numbers of at least 0: {shown(value)}")
            self._class_weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)

    def _weighted(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights * self._class_weights[self._encoded(y)])

    def _encoded(self, y: np.ndarray) -> Int[np.ndarray, " rows"]:
        return np.searchsorted(self.classes_, y)

    def _loss_of_zeros(self, y: np.ndarray, weights: np.ndarray) -> float:
        return float(np.log(len(self.classes_)))


@dataclass(eq=False, repr=False, kw_only=True)
class SparseMLPRegressor(RegressorMixin, SparseMLP):  # type: ignore[misc]
    """Networks for tables with one real target or several (half the squared error, summed over targets).

    Targets are standardised for training, and losses are in those units. An ensemble predicts the average of its
    members. The other arguments and attributes are the same as in ``SparseMLP``.

    Args:
        clamp: whether predictions of networks that share a trunk stay within the range of the training targets.
    """

    clamp: bool = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseMLP._parameter_constraints,
        "clamp": ["boolean"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @settings_checked
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the current networks for one epoch on these rows.

        Scales (also the target's) and replacements of missing values are learned in the first call. Calls with the same
        rows are the epochs of one ``fit``; only the ratios of weights within a call count.
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> Float[np.ndarray, "rows *targets"]:
        """Return the targets, shape (rows,) or (rows, targets) as in ``fit``."""
        values = self._outputs(X, lambda outputs: outputs.mean(axis=0)) * self._target_scale + self._target_mean
        if self.clamp and self.shared:
            values = np.clip(values, *self._target_range)
        return np.asarray(values.reshape(-1, *self._target_shape))

    def _head(self) -> str:
        return "square"

    def _heads(self) -> int:
        return int(np.prod(self._target_shape))

    def _typed(self, y: Any) -> Float[np.ndarray, "rows *targets"]:
        refuse_times(y, "y")
        with in_range("y"):
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
        self._target_range = y.min(axis=0), y.max(axis=0)

    def _encoded(self, y: np.ndarray) -> Float[np.ndarray, "rows targets"]:
        return np.asarray((y.reshape(len(y), -1) - self._target_mean) / self._target_scale)

    def _loss_of_zeros(self, y: np.ndarray, weights: np.ndarray) -> float:
        """Return at least the loss on targets of variance 1, since the targets of some rows may all equal the mean."""
        loss = np.average((self._encoded(y) ** 2).sum(axis=1), weights=weights) / 2
        return float(max(loss, self._heads() / 2))


def _log_mean(logs: Float[np.ndarray, "members *rest"]) -> Float[np.ndarray, "*rest"]:
    """Return the logarithm of the mean over members of numbers, given their logarithms."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))

"""The interface of scikit-learn's estimators, with types, which scikit-learn does not state."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

Requested = bool | str | None
"""Whether a method takes an argument that a meta-estimator passes on, or under which name."""


class Estimator(BaseEstimator):  # type: ignore[misc]
    """scikit-learn's base of estimators, for which type checkers know what it and its mixins define."""

    if TYPE_CHECKING:
        n_features_in_: int
        feature_names_in_: np.ndarray

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...

        def set_params(self, **params: Any) -> Self: ...

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

        def get_metadata_routing(self) -> object: ...

        def set_fit_request(self, *, sample_weight: Requested = ..., validation: Requested = ...) -> Self: ...

        def set_partial_fit_request(self, *, classes: Requested = ..., sample_weight: Requested = ...) -> Self: ...

        def set_score_request(self, *, sample_weight: Requested = ...) -> Self: ...

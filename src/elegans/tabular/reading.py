"""Tables as users have them: checked, and as rows of numbers and categories."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.sparse import issparse
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, validate_data

from elegans.errors import shown
from elegans.machine import memory
from elegans.tabular.encoding import RawRows

_NUMBERS = [np.float64, np.float32]


@dataclass
class Reader:
    """Reads tables for an estimator; which columns hold categories is learned from the first one.

    Args:
        features: which columns hold categories: ``from_dtype``, their numbers or names, a mask, or None for no column.
        missing: whether values may be missing.
        columns: the numbers of those columns, once learned.
    """

    features: Any
    missing: bool
    columns: list[int] | None = field(default=None)

    def read(self, estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> tuple[RawRows, Any]:
        """Return checked rows, and the targets or None; a sparse matrix is made dense."""
        refuse_times(X, "X")
        frame = self._frame(X)
        checks |= {"ensure_all_finite": "allow-nan"}
        with in_range("X and y"):
            if frame is None:
                read = validate_data(estimator, X, *y, reset=reset, dtype=_NUMBERS, accept_sparse="csr", **checks)
                values, target = read if y else (read, None)
                rows = RawRows(_dense(values) if issparse(values) else values)
            else:
                validate_data(estimator, X, *y, skip_check_array=True, reset=reset)
                rows = self._columns(frame)
                estimated = {**checks, "estimator": estimator, "dtype": _NUMBERS}
                if y:
                    rows.numbers, target = check_X_y(rows.numbers, *y, **estimated)
                else:
                    rows.numbers, target = check_array(rows.numbers, input_name="X", **estimated), None
        if reset:
            self.columns = self.columns if frame is not None else self._given(rows.numbers.shape[1], None)
        for column in set(self.columns or ()) - set(rows.categories):
            rows.numbers = rows.numbers.copy() if not rows.categories else rows.numbers
            rows.categories[column] = rows.numbers[:, column].astype(object)
            rows.numbers[:, column] = 0
        self._refuse_missing(rows)
        return rows, target

    def _refuse_missing(self, rows: RawRows) -> None:
        if not self.missing and (
            np.isnan(rows.numbers).any() or any(pd.isna(values).any() for values in rows.categories.values())
        ):
            raise ValueError(
                'Input X contains NaN. Choose missing="auto", and networks learn from what is missing, or '
                'missing="median" (or "mean", "most_frequent"), and that statistic of the rows takes its place.'
            )

    def _frame(self, X: Any) -> pd.DataFrame | None:
        """Return a table that may have columns of categories as a frame, or None."""
        X = X.to_pandas() if hasattr(X, "to_pandas") else X
        if isinstance(X, pd.DataFrame):
            plain = all(isinstance(dtype, np.dtype) and dtype.kind in "biufc" for dtype in X.dtypes)
            return None if plain and (self.columns is None and not self._is_named()) else X
        if issparse(X) or not self._reads_texts():
            return None
        array = X if isinstance(X, np.ndarray) else np.asarray(X, None if _is_numeric(X) else object)
        if array.ndim != 2 or array.dtype.kind not in "OUS":
            return None
        frame = pd.DataFrame({number: _numeric(values) for number, values in enumerate(array.T)})
        return frame if any(dtype.kind == "O" for dtype in frame.dtypes) else None

    def _reads_texts(self) -> bool:
        return self.features is not None and self.columns != []

    def _is_named(self) -> bool:
        return self.features is not None and not isinstance(self.features, str)

    def _columns(self, frame: pd.DataFrame) -> RawRows:
        if self.columns is None:
            self.columns = self._given(frame.shape[1], frame)
        numbers, categories = np.zeros(frame.shape), {}
        for number in range(frame.shape[1]):
            values = frame.iloc[:, number]
            if number in self.columns:
                categories[number] = np.asarray(values, dtype=object)
            else:
                numbers[:, number] = values.to_numpy(float, na_value=np.nan)
        return RawRows(numbers, categories)

    def _given(self, count: int, frame: pd.DataFrame | None) -> list[int]:
        """Return the numbers of the columns of categories."""
        if self.features is None or isinstance(self.features, str):
            if frame is None or self.features is None:
                return []
            return [number for number, dtype in enumerate(frame.dtypes) if _is_category(dtype)]
        given = np.asarray(self.features)
        if given.dtype == bool and given.shape == (count,):
            return np.flatnonzero(given).tolist()
        names = [] if frame is None else frame.columns.tolist()
        numbers = [names.index(each) if each in names else each for each in given.ravel().tolist()]
        if any(type(number) is not int or not 0 <= number < count for number in numbers):
            rule = f"categorical_features must be names of columns, numbers from 0 to {count - 1}, or a mask"
            raise ValueError(f"{rule}: {shown(self.features)}")
        return numbers


def _is_category(dtype: Any) -> bool:
    return isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_string_dtype(dtype) or dtype.kind == "O"


def _is_numeric(X: Any) -> bool:
    try:
        return np.asarray(X).dtype.kind not in "US"
    except ValueError:
        return True


def _numeric(values: np.ndarray) -> np.ndarray:
    """Return numbers as numbers, whatever their type, and other values as they are."""
    try:
        return np.where(pd.isna(values), np.nan, values).astype(np.float64)
    except TypeError:
        return np.zeros(len(values))  # neither numbers nor texts: refused where numbers are checked
    except ValueError:
        return values.astype(object)


@contextmanager
def in_range(name: str) -> Iterator[None]:
    """Refuse numbers that are too large for any array, for which NumPy raises another error than for other values."""
    try:
        yield
    except OverflowError:
        raise ValueError(f"Input {name} must hold numbers of at most {sys.float_info.max:.2g}") from None


def refuse_times(data: Any, name: str) -> None:
    """Refuse dates and durations, which NumPy reads as numbers in units of its own (and a missing one as -2^63)."""
    is_frame = getattr(data, "ndim", 1) == 2 and hasattr(data, "dtypes")
    dtypes = list(data.dtypes) if is_frame else [getattr(data, "dtype", None)]
    if times := [str(dtype) for dtype in dtypes if getattr(dtype, "kind", "") in ("m", "M")]:
        raise ValueError(f"Input {name} must hold numbers, not dates or durations: {times[0]}")


def row_weights(weights: Any, rows: RawRows) -> Float[np.ndarray, " rows"]:
    """Return checked weights of rows."""
    refuse_times(weights, "sample_weight")
    with in_range("sample_weight"):
        weights = np.full(len(rows), weights) if isinstance(weights, Real) else weights
        return np.asarray(_check_sample_weight(weights, rows.numbers, ensure_non_negative=True))


def _dense(X: Any) -> np.ndarray:
    """Return a sparse matrix as an array, or refuse one that would not fit into memory."""
    if (needed := X.dtype.itemsize * X.shape[0] * X.shape[1]) > memory():
        rule = "a sparse X is made dense, and must fit into the memory of the machine"
        raise ValueError(f"{rule}: {needed / 2**30:.3g} GiB: shape {X.shape}")
    return np.asarray(X.toarray())

"""Checks annotations of arrays (``Float[np.ndarray, "trials count"]``) at run time: types, axes, and equal sizes.

``make test-shapes`` has jaxtyping apply this to every function when elegans is imported.
"""

import numbers
import types
import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import Float, Real

ANY_FLOAT: Any = Float[Any, ""]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its arguments and its result against their annotations of arrays.

    Arguments that are ``Float`` may be whole numbers too, as elegans takes them, and results may not. All other
    annotations are left to mypy, and so are arrays in lists and dictionaries: beartype would check one at random.
    """
    function.__annotations__ = {
        name: hint if name == "return" else _real(hint)
        for name, hint in function.__annotations__.items()
        if _states_shape(hint) and _exact(hint)
    }
    return beartype(function) if function.__annotations__ else function


def _states_shape(hint: Any) -> bool:
    return hasattr(hint, "dim_str") or any(_states_shape(part) for part in typing.get_args(hint))


def _exact(hint: Any) -> bool:
    """Return whether a check of the annotation looks at all of a value."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) or (origin is tuple and Ellipsis not in parts):
        return all(_exact(part) for part in parts)
    return hint is Any or (isinstance(hint, type) and origin is None)


def _real(hint: Any) -> Any:
    """Return the annotation with ``Float`` replaced by real numbers; a number is an array without axes."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(_real(part) for part in typing.get_args(hint))]  # noqa: UP007
    if getattr(hint, "dtypes", None) != ANY_FLOAT.dtypes:
        return hint
    real = Real[hint.array_type, hint.dim_str]
    return real | numbers.Real if hint.array_type is Any and hint.index_variadic is not None else real

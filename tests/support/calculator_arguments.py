"""Arguments for calculators, by the kinds that their signatures state: mostly plain ones, and everything else."""

import inspect
import math
import types
import typing
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

import elegans as el
from elegans import groups, theory
from elegans.studies.induction_heads.theory.construction import AttentionLayer, AttentionNetwork
from elegans.tasks import Task

HUGE = (2**63, 10**30, -(10**30), 10**4299, Fraction(1, 10**400), Fraction(10**400))
STRANGE: tuple[Any, ...] = (
    None,
    True,
    "x",
    "",
    b"x",
    {},
    {"a": 1},
    object(),
    math.nan,
    math.inf,
    -math.inf,
    1j,
    [],
    [[]],
    {1},
    ...,
    np.ma.masked,
)
ARRAYS = (
    [1.0, -1.0, 1.0],
    [[1.0, -1.0], [1.0, 1.0]],
    np.ones((2, 3)),
    -np.ones((2, 2, 2)),
    np.zeros((3, 3)),
    np.eye(4, dtype=np.float32),
    np.arange(8),
    np.array([[0, 1, 1, 0, 1, 0]]),
    np.full((2, 3), np.nan),
    np.array([1, np.inf]),
    np.zeros((0, 3)),
    np.zeros((2, 0)),
    np.array(3.0),
    np.array(["a", "b"]),
    np.array([object()]),
    np.ones(4, bool),
    np.ones((2, 2), complex),
    np.full(3, 1e300),
    [[1, 2], [3]],
    [10**400, 1],
    range(10**12),
    (1 / 3, 1 / 3, 1 / 3),
)
WHOLE = st.one_of(st.integers(-2, 12), st.integers(-2, 12), st.sampled_from([10**6 + 1, 10**9, 10**18, 2**1000, *HUGE]))
REAL = st.one_of(st.sampled_from([0.01, 0.1, 0.5, 0.9, 1.0, 2.0, 10.0]), st.floats(), st.sampled_from(HUGE))
EXACT = st.one_of(st.fractions(0, 1, max_denominator=50), REAL, WHOLE)
LAYER = AttentionLayer(np.eye(3), np.eye(3), np.eye(3), np.ones((4, 3)))
NETWORK = AttentionNetwork(np.ones((2, 3)), (LAYER,), np.ones((3, 2)))
REPLACED: Any = NETWORK._replace
BROKEN = [REPLACED(**{name: value}) for name in NETWORK._fields for value in (None, "x", (), np.ones(3), [LAYER])]
OBJECTS: dict[Any, list[Any]] = {
    AttentionNetwork: [NETWORK, *BROKEN],
    groups.Group: [groups.Cyclic(n=3), groups.Symmetric(n=3), groups.Cyclic(n=5000)],
    Task: [el.SparseParity(n=10, k=2), el.SparseParity(n=65536, k=32768)],
}


def arguments(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of keyword arguments of a calculator."""
    function = getattr(theory, name)
    hints = typing.get_type_hints(function)
    needed: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for key, one in inspect.signature(function).parameters.items():
        (needed if one.default is one.empty else optional)[key] = _anything(hints[key])
    return st.fixed_dictionaries(needed, optional=optional)


def _anything(annotation: Any) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda place: st.sampled_from(STRANGE) if place == 0 else _kind(annotation))


def _kind(annotation: Any) -> st.SearchStrategy[Any]:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin in (typing.Union, types.UnionType):
        return EXACT if Fraction in parts else st.one_of(*(_kind(part) for part in parts))
    if origin is tuple and parts[-1] is not ...:
        return st.tuples(*(_kind(part) for part in parts))
    if origin is not None and parts and isinstance(origin, type) and issubclass(origin, typing.Iterable):
        return st.one_of(st.lists(_kind(parts[0]), max_size=6), st.sampled_from([range(3), range(10**12)]))
    kinds = {int: WHOLE, float: REAL, bool: st.booleans(), type(None): st.none(), str: st.sampled_from(["and", "zzz"])}
    if annotation in kinds:
        return kinds[annotation]
    if annotation is typing.Any or hasattr(annotation, "dim_str"):
        return st.sampled_from(ARRAYS)
    return st.sampled_from([*OBJECTS.get(annotation, []), *STRANGE])

"""Every calculator has one value for a list and for arrays of all types, and refuses in arrays what it refuses."""

import inspect
import re
import typing
from typing import Any

import numpy as np
import pytest
from calculator_examples import example
from number_types import TYPES, WHOLE, alike, forms, undefined, value_or_refusal

from elegans import theory
from elegans.errors import ElegansError

NAMES = sorted(entry.name for entry in theory.catalogue())
SHAPES = (np.zeros(0), np.zeros((0, 3)), np.zeros((2, 0)), np.array(1.0), np.ones(1), np.ones((1, 1)), np.zeros(2))
SLOW = {"analytic_width", "best_pair_neuron", "biased_first_step", "dense_gradients", "noise_barrier", "overlap_path"}
SLOW |= {"two_step_curriculum"}
"""Calculators of some milliseconds: their arguments are tried in fewer types."""


def numbers_of(name: str) -> dict[str, Any]:
    """Return those of a calculator's arguments that are numbers, or arrays or lists of them."""
    hints = typing.get_type_hints(getattr(theory, name))
    given = {key: value for key, value in example(name).items() if hints[key] is not bool and forms_of(value)}
    return {key: value for key, value in given.items() if bool not in typing.get_args(hints[key])}


def forms_of(value: Any) -> list[np.ndarray]:
    members = value if isinstance(value, list | tuple) else []
    return [] if hasattr(value, "_fields") or any(hasattr(member, "_fields") for member in members) else forms(value)


def listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def explains_nan(function: Any) -> bool:
    """Return whether the docstring of a calculator, or of the record that it returns, says where a number is NaN."""
    texts = (function.__doc__, inspect.getdoc(inspect.signature(function).return_annotation))
    return any(re.search(r"\bnan\b", text or "", re.IGNORECASE) for text in texts)


def test_every_calculator_has_an_example():
    refused = [name for name in NAMES if value_or_refusal(getattr(theory, name), example(name)) is ElegansError]
    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_value_is_the_same_for_a_list_a_tuple_and_all_types_of_numbers(name):
    function, given = getattr(theory, name), example(name)
    for key, value in numbers_of(name).items():
        expected = value_or_refusal(function, {**given, key: listed(value)})
        assert expected is not ElegansError and not undefined(expected)
        arrays = forms_of(value)[-2 if name in SLOW else 0 :]
        others = [array[()] for array in arrays] if np.ndim(value) == 0 else [tuples(listed(value)), *arrays]
        if np.ndim(value) == 1:
            others += [[array[place] for place in range(len(array))] for array in arrays if array.dtype in WHOLE[:2]]
        for other in others:
            plain = isinstance(other, np.ndarray | np.generic) and other.dtype == bool
            wanted = value_or_refusal(function, {**given, key: other.tolist()}) if plain else expected
            actual = value_or_refusal(function, {**given, key: other})
            assert alike(wanted, actual), f"{key}={other!r}: {wanted} and {actual}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_number_is_refused_alone_and_in_lists_and_arrays(name):
    function, given = getattr(theory, name), example(name)
    for key, value in numbers_of(name).items():
        extended = "WithInfinity" in str(inspect.signature(function).parameters[key])
        for wrong in (np.nan,) if extended else (np.nan, np.inf):
            broken = np.array(value, float, order="C")
            broken.flat[-1] = wrong
            for argument in (broken, broken.tolist(), broken.astype(np.longdouble)):
                assert value_or_refusal(function, {**given, key: argument}) is ElegansError, f"{key}={argument}"


@pytest.mark.parametrize("name", sorted({*NAMES} - SLOW))
def test_an_array_of_any_shape_has_the_value_of_its_list_or_a_refusal_in_one_line(name):
    function, given = getattr(theory, name), example(name)
    for key, value in numbers_of(name).items():
        for array in (*SHAPES, np.asarray(value).ravel()[:1]):
            actual = value_or_refusal(function, {**given, key: array})
            assert explains_nan(function) or not undefined(actual), f"{key}={array!r}"
            if array.shape != (0, 3):  # which as a list has lost an axis
                assert alike(value_or_refusal(function, {**given, key: array.tolist()}), actual), f"{key}={array!r}"


@pytest.mark.parametrize("kind", TYPES[:-1])
def test_members_of_any_type_are_exact_numbers(kind):
    if np.issubdtype(kind, np.integer) or kind is not np.float16:
        assert theory.set_index(np.array([64, 70]).astype(kind)) == 2**64 + 2**70
    entries = np.array([[0, 5, 9, 3]]).astype(kind)
    assert theory.recover_support(entries, 2).tolist() == [[1, 2]]

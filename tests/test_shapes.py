"""The check of annotated shapes that ``make test-shapes`` turns on."""

from typing import Any

import numpy as np
import pytest
import shapes
from jaxtyping import Float, Float32, TypeCheckError, jaxtyped


@jaxtyped(typechecker=shapes.checked)
def product(left: Float[np.ndarray, "rows inner"], right: Float[Any, "inner columns"]) -> Float[Any, "rows columns"]:
    return left @ right


@jaxtyped(typechecker=shapes.checked)
def halves(values: Float32[np.ndarray, "..."] | None, names: list[str]) -> Float32[np.ndarray, "..."]:
    return np.zeros(0) if values is None else values / np.float32(2)


def test_axes_of_one_name_have_one_size():
    assert product(np.ones((2, 3)), np.ones((3, 4))).shape == (2, 4)
    with pytest.raises(TypeCheckError, match="right"):
        product(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(TypeCheckError, match="left"):
        product(np.ones(3), np.ones((3, 4)))


def test_arguments_may_be_whole_numbers_where_results_may_not():
    assert product(np.ones((2, 3), int), np.ones((3, 4))).dtype == float
    with pytest.raises(TypeCheckError, match="return value"):
        product(np.ones((2, 3), int), np.ones((3, 4), int))


def test_types_are_those_that_are_stated_and_other_annotations_are_left_alone():
    assert halves(np.ones(3, np.float32), names=3).tolist() == [0.5] * 3
    with pytest.raises(TypeCheckError, match="values"):
        halves(np.ones(3), [])
    with pytest.raises(TypeCheckError, match="return value"):
        halves(None, [])

"""Direct products of groups, whose properties are all products of the factors'."""

from functools import partial, reduce
from itertools import product
from math import prod
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int32, Int64
from pydantic import Field, SerializeAsAny, model_validator

from elegans.groups.base import Group
from elegans.groups.decomposition import real_form
from elegans.groups.irreps import Irrep, whole
from elegans.groups.multiplication import LARGEST_ORDER


class DirectProduct(Group):
    """The direct product of two or more groups; the last factor varies fastest.

    Names of elements, classes and irreps combine the factors' names: ``((12), 1)``, ``(standard, sign)``. An irrep is a
    tensor product of the factors' irreps.

    Args:
        factors: the groups.
    """

    factors: Annotated[tuple[SerializeAsAny[Group], ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _has_few_classes(self) -> "DirectProduct":
        count = prod(len(factor.class_sizes) for factor in self.factors)
        if count > LARGEST_ORDER:
            raise ValueError(f"a product must have at most {LARGEST_ORDER} classes: {count} of {self.name}")
        return self

    @property
    def name(self) -> str:
        return "x".join(f"({factor.name})" if " " in factor.name else factor.name for factor in self.factors)

    @property
    def order(self) -> int:
        return prod(factor.order for factor in self.factors)

    def make_elements(self) -> tuple[str, ...]:
        return _tuples([factor.elements for factor in self.factors])

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        return reduce(_product_table, (factor.table for factor in self.factors))

    def make_class_of(self) -> Int64[np.ndarray, " order"]:
        return reduce(
            lambda left, right: np.add.outer(left * (right.max() + 1), right).ravel(),
            (factor.class_of for factor in self.factors),
        )

    def make_class_sizes(self) -> Int64[np.ndarray, " classes"]:
        return reduce(np.kron, (factor.class_sizes for factor in self.factors))

    def make_class_names(self) -> tuple[str, ...]:
        return _tuples([factor.class_names for factor in self.factors])

    def make_irreps(self) -> tuple[Irrep, ...]:
        """Take the tensor products of the factors' irreps."""
        irreps = map(self._tensor_product, product(*(factor.irreps for factor in self.factors)))
        return tuple(sorted(irreps, key=lambda irrep: irrep.dimension))

    def _tensor_product(self, parts: tuple[Irrep, ...]) -> Irrep:
        trivial = all(part.name == "trivial" for part in parts)
        return Irrep(
            name="trivial" if trivial else f"({', '.join(part.name for part in parts)})",
            dimension=prod(part.dimension for part in parts),
            character=whole(reduce(np.kron, (part.character for part in parts))),
            indicator=prod(part.indicator for part in parts),
            build=partial(self._matrices, parts),
        )

    def _matrices(self, parts: tuple[Irrep, ...]) -> Any:
        self.check_order("list of matrices")
        matrices = reduce(np.kron, (part.matrices for part in parts))
        # the product of two irreps of quaternionic type is of real type
        real = np.isrealobj(matrices) or prod(part.indicator for part in parts) != 1
        return matrices if real else real_form(matrices)


def _tuples(names: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(f"({', '.join(parts)})" for parts in product(*names))


def _product_table(left: Int32[np.ndarray, "n n"], right: Int32[np.ndarray, "m m"]) -> Int32[np.ndarray, "nm nm"]:
    order = len(left) * len(right)
    blocks = left[:, None, :, None] * np.int32(len(right)) + right[None, :, None, :]
    return np.asarray(blocks.reshape(order, order))

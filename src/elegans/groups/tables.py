"""Groups given by their multiplication tables, which are checked."""

from typing import Any

import numpy as np
from jaxtyping import Int32
from pydantic import model_validator

from elegans.groups.base import Group
from elegans.groups.multiplication import check_table, square


class TableGroup(Group, kind="table"):
    """A group given by its multiplication table; made by ``Group.from_table`` and ``Group.from_file``.

    Its irreps come from a numerical decomposition of the regular representation and are named by their dimensions:
    ``3_1`` and ``3_2``, or ``4`` if there is only one.

    Args:
        rows: the number of the product ab in row a and column b. If the identity is not 0, it is moved to the front,
            and the other elements keep their order.
        names: the elements' names; their numbers by default.
        title: the group's name.
    """

    rows: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] | None = None
    title: str | None = None

    def __hash__(self) -> int:
        return hash((self.title, self.names, len(self.rows), self.rows[-1]))

    @model_validator(mode="before")
    @classmethod
    def _is_group(cls, fields: Any) -> Any:
        names = fields.get("names")
        table = square(fields.get("rows", ()))
        identity = check_table(table, names)
        order = np.concatenate([[identity], np.delete(np.arange(len(table)), identity)])
        table = np.argsort(order)[table[np.ix_(order, order)]]
        return {
            **fields,
            "rows": tuple(map(tuple, table.tolist())),
            "names": None if names is None else tuple(names[element] for element in order),
        }

    @property
    def name(self) -> str:
        """The title, or ``group of order n``."""
        return self.title or f"group of order {self.order}"

    @property
    def order(self) -> int:
        return len(self.rows)

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        return np.array(self.rows, dtype=np.int32)

    def make_elements(self) -> tuple[str, ...]:
        return self.names or super().make_elements()

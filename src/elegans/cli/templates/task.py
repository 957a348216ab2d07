"""Your own task: its inputs and their labels."""

from typing import Annotated, Any

from pydantic import Field

import elegans as el


class MyFirst(el.Task):
    """The label is the majority of k of the n signs; each trial chooses which k.

    Args:
        n: the number of signs.
        k: how many of them count.
    """

    n: Annotated[int, Field(ge=1)]
    k: Annotated[int, Field(ge=1)] = 3

    @property
    def input_size(self) -> int:
        return self.n

    def draw(self, key: el.random.Key) -> Any:
        """Draw what the examples of a trial share: here, the relevant coordinates."""
        return el.random.subsets(key, rows=1, n=self.n, size=self.k)[0]

    def examples(self, hidden: Any, key: el.random.Key, index: Any) -> tuple[Any, Any]:
        """Return the examples with the given indices: inputs of shape (count, n), and labels -1 or +1.

        Use only operators and methods that NumPy and JAX arrays share. A second draw needs a key of its own, such as
        ``key.fold(1)``.
        """
        x = el.random.rademacher(key, index, self.n)
        return x, 2.0 * (x[:, hidden].sum(axis=1) > 0) - 1

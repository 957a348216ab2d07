"""A table as a task: its rows are split afresh in every trial."""

from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32, UInt32
from pydantic import Field, model_validator

from elegans import random
from elegans.tabular.datasets import Rows, is_available, load_table
from elegans.tasks import Task

Share = Annotated[float, Field(gt=0, lt=0.5)]


class Table(Task):
    """The rows of a table in an order drawn for each trial: first those held out, then the pool for training.

    Example i of the held-out rows, or of the pool, is row i of that part, starting again at its first row beyond the
    last. ``Sample(m)`` is therefore m rows of the pool without repetition if m is at most ``training_rows``; the
    remaining rows of the pool are the validation part, which such a sample does not include. Test errors are exact if
    as many examples are evaluated as there are held-out rows. Labels are +1 for the second class and -1 for the first.

    Source: Pareto frontiers, appendix C.3 (10% held out, per trial; features of mean 0 and variance 1). We added the
    validation part: the paper selects models by the held-out errors that it then reports.

    Args:
        name: the table, as for ``elegans.tabular.load_table``. Tables that need no download are checked at once.
        held_out_share: the fraction of rows held out for the test, above 0 and below 1/2.
        validation_share: the fraction of rows, taken from the pool, for model selection; above 0 and below 1/2.
        standardised_by: what the features' means and deviations are computed from: ``table``, as in the paper, which
            reveals a little of the held-out rows' features to every learner; or ``pool``, which does not.
    """

    shorthand = "name"
    name: Annotated[str, Field(min_length=1)]
    held_out_share: Share = 0.1
    validation_share: Share = 0.1
    standardised_by: Literal["table", "pool"] = "table"

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if is_available(self.name) and min(self.held_out_rows, self.validation_rows, self.training_rows) < 1:
            parts = f"held out {self.held_out_rows}, validation {self.validation_rows}, training {self.training_rows}"
            raise ValueError(f"every part of a table must have a row: {self.name}: {parts}")
        return self

    @property
    def data(self) -> Rows:
        """The table."""
        return load_table(self.name)

    @property
    def input_size(self) -> int:
        return int(self.data.x.shape[1])

    @property
    def held_out_rows(self) -> int:
        """How many rows are held out."""
        return round(self.held_out_share * len(self.data.x))

    @property
    def pool_rows(self) -> int:
        """How many rows are not held out."""
        return len(self.data.x) - self.held_out_rows

    @property
    def validation_rows(self) -> int:
        """How many rows of the pool are for model selection."""
        return round(self.validation_share * len(self.data.x))

    @property
    def training_rows(self) -> int:
        """The size of the largest sample that excludes the validation part."""
        return self.pool_rows - self.validation_rows

    def draw(self, key: random.Key) -> dict[str, np.ndarray]:
        """Draw the order of the rows.

        Returns:
            ``rows`` of the pool, shape (pool_rows,); ``others``, the held-out rows, shape (held_out_rows,); ``mean``
            and ``deviation`` of each feature, shape (features,), where the deviation of a constant feature is 1.
        """
        x = self.data.x
        high, low = random.bits(key, np.arange(len(x), dtype=np.uint32))
        order = np.argsort(high.astype(np.uint64) << np.uint64(32) | low, kind="stable").astype(np.uint32)
        others, rows = np.split(order, [self.held_out_rows])
        source = x if self.standardised_by == "table" else x[rows]
        mean, deviation = source.mean(axis=0, dtype=float), source.std(axis=0, dtype=float)
        deviation = np.where(deviation > 0, deviation, 1)
        moments = {"mean": mean.astype(np.float32), "deviation": deviation.astype(np.float32)}
        return {"rows": rows, "others": others, **moments}

    def held_out(self, hidden: Any) -> Any:
        """Return the same with the two parts swapped."""
        return {**hidden, "rows": hidden["others"], "others": hidden["rows"]}

    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count features"], Float32[Any, " count"]]:
        """Return standardised features (count, features) and labels (count,) of rows by position in their part."""
        xp = index.__array_namespace__()
        row = xp.asarray(hidden["rows"])[index % np.uint32(len(hidden["rows"]))]
        x = (xp.asarray(self.data.x)[row] - hidden["mean"]) / hidden["deviation"]
        return x, 2 * xp.asarray(self.data.y)[row].astype(np.float32) - 1

"""Your own probe: something to measure while a network learns."""

import numpy as np

import elegans as el


class MyFirst(el.Probe):
    """The effective rank of the hidden weights: the exponential of the entropy of their normalised singular values.

    Source: Roy and Vetterli, "The effective rank: a measure of effective dimensionality" (2007).
    """

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        """Return named numbers, or arrays of constant shape; each becomes a column of the measures.

        A snapshot has the ``step``, the ``weights`` by name, the ``task`` and what it has drawn (``hidden``), the
        ``model``, and ``examples("test", 1000)`` to evaluate it on.
        """
        values = np.linalg.svd(snapshot.weights["hidden.weight"], compute_uv=False)
        shares = values[values > 0] / values.sum()
        return {"rank": float(np.exp(-(shares * np.log(shares)).sum()))}

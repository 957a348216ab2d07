"""Branch and bound over inputs: prove that all are right, or find one that is wrong."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from elegans.certificates.bounds import Bounds, Nodes, bounds
from elegans.certificates.network import Network
from elegans.certificates.quadratic import LARGEST_N, quadratic

BATCH = 128
"""Number of nodes bounded at once."""
_ROUNDS = 10
"""Maximum number of moves of an input to the minimum of the network's affine form around it."""


class CertificateSearch:
    """The nodes not yet proved, the smallest lower bound, and the smallest margin found at an input.

    Args:
        network: the network.
        support: the coordinates whose product is the label.
        budget: the largest number of nodes to bound.
        tighten: whether to continue until the smallest margin is known, rather than only its sign.
    """

    def __init__(self, network: Network, support: Int[np.ndarray, " k"], budget: int, tighten: bool = False) -> None:
        self.network, self.support, self.budget, self.tighten = network, support, budget, tighten
        self.nodes = 0
        self.proved = np.inf
        self.intervals, self.affine = np.inf, np.inf
        self.attained: Fraction | None = None
        self.worst = np.ones(network.n, np.int8)
        self.open: Nodes = np.zeros((0, network.n))
        self.lower: Float[np.ndarray, " open"] = np.zeros(0)
        self.blame: Float[np.ndarray, "open n"] = np.zeros((0, network.n))
        self._estimate = np.inf

    @property
    def margin(self) -> float:
        """A lower bound of y f over all inputs."""
        return float(min(self.proved, self.lower.min(initial=np.inf)))

    @property
    def refuted(self) -> bool:
        """Whether an input with y f at most 0 has been found."""
        return self.attained is not None and self.attained <= 0

    @property
    def wanted(self) -> float:
        """The threshold for a node's bound: float32 rounding if that is possible, or else 0."""
        if self.tighten:
            return max(self._estimate - 3 * self.network.rounding, 0.0)
        return self.network.float32_rounding if self._estimate > self.network.float32_rounding else 0.0

    def patterns(self) -> None:
        """Bound the 2^k patterns on the support, and look for the smallest margin within each."""
        for nodes in self._patterns():
            relaxed = self._bound(nodes)
            self.intervals = min(self.intervals, float(relaxed.intervals.min()))
            self.affine = min(self.affine, float(relaxed.affine.min()))
            self._look_at(self._descend(relaxed.candidate))
            self._drop_closed()

    def branch(self) -> None:
        """Split the nodes with the lowest bounds, many at a time, until all is proved, refuted or spent."""
        while len(self.open) and not self.refuted and self.nodes + 2 <= self.budget:
            count = min(BATCH // 2, len(self.open), (self.budget - self.nodes) // 2)
            chosen = np.argpartition(self.lower, count - 1)[:count]
            children = self._split(chosen)
            self._keep(np.setdiff1d(np.arange(len(self.open)), chosen))
            self._bound(children)
            self._drop_closed()

    def labels(self, x: Nodes) -> Float[np.ndarray, " count"]:
        """Return the product over the support, shape (count,)."""
        return np.asarray(x[:, self.support].prod(axis=1))

    def _patterns(self) -> Iterator[Nodes]:
        bits = np.arange(len(self.support))
        # a coordinate without any weight is fixed at once: splitting it would only double the work
        idle = np.where(np.abs(self.network.output) @ self.network.size == 0, 1.0, 0.0)
        for first in range(0, 2 ** len(bits), BATCH):
            numbers = np.arange(first, min(first + BATCH, 2 ** len(bits)))
            nodes = np.repeat(idle[None], len(numbers), axis=0)
            nodes[:, self.support] = 1 - 2 * ((numbers[:, None] >> bits) & 1)
            yield nodes

    def _bound(self, nodes: Nodes) -> Bounds:
        """Bound nodes and open them, evaluate their candidate inputs, and return the quick bounds."""
        labels = self.labels(nodes)
        relaxed = bounds(self.network, nodes, labels)
        self.nodes += len(nodes)
        self._look_at(relaxed.candidate)
        lower, settled = relaxed.affine.copy(), (nodes != 0).all(axis=1)
        for row in np.flatnonzero(~self._closed(lower)):
            if settled[row]:
                lower[row] = np.nextafter(float(self._record(nodes[row])), -np.inf)
            elif self.network.n <= LARGEST_N:
                lower[row] = max(lower[row], quadratic(self.network, nodes[row], labels[row]))
        self.open = np.concatenate([self.open, nodes])
        self.lower = np.concatenate([self.lower, lower])
        self.blame = np.concatenate([self.blame, relaxed.blame])
        return relaxed

    def _split(self, chosen: np.ndarray) -> Nodes:
        """Split each chosen node at the free coordinate that most widens neurons of undetermined sign."""
        free = self.open[chosen] == 0
        coordinate = np.where(free, self.blame[chosen] + 1e-300, 0).argmax(axis=1)
        children = np.repeat(self.open[chosen][None], 2, axis=0)
        rows = np.arange(len(chosen))
        children[0, rows, coordinate], children[1, rows, coordinate] = 1, -1
        return children.reshape(-1, self.network.n)

    def _closed(self, lower: np.ndarray) -> np.ndarray:
        return np.asarray(lower > self.wanted)

    def _drop_closed(self) -> None:
        """Drop nodes that are proved, and single inputs, which cannot be bounded any better."""
        done = self._closed(self.lower) | (self.open != 0).all(axis=1)
        self.proved = min(self.proved, float(self.lower[done].min(initial=np.inf)))
        self._keep(np.flatnonzero(~done))

    def _keep(self, rows: np.ndarray) -> None:
        self.open, self.lower, self.blame = self.open[rows], self.lower[rows], self.blame[rows]

    def _look_at(self, x: Nodes) -> None:
        """Evaluate inputs, and keep the one with the smallest exact margin if it is a new minimum."""
        margins = self.labels(x) * self.network.outputs(x)
        least = int(margins.argmin())
        # if rounding hides the sign, evaluate exactly even an estimate that is not smaller
        if margins[least] < self._estimate or margins[least] <= self.network.rounding:
            self._estimate = min(self._estimate, float(margins[least]))
            self._record(x[least])

    def _record(self, x: np.ndarray) -> Fraction:
        exact = int(x[self.support].prod()) * self.network.exactly(x)
        if self.attained is None or exact < self.attained:
            self.attained, self.worst = exact, x.astype(np.int8)
            self._estimate = min(self._estimate, float(exact))
        return exact

    def _descend(self, x: Nodes) -> Nodes:
        """Move inputs to the minimum of the network's affine form around them, while that lowers their margins."""
        x, labels = x.copy(), self.labels(x)
        margins = labels * self.network.outputs(x)
        for _ in range(_ROUNDS):
            fires = x @ self.network.weight.T + self.network.bias > 0
            linear = (labels[:, None] * self.network.output * fires) @ self.network.weight
            moved = np.where(linear > 0, -1.0, 1.0)
            moved[:, self.support] = x[:, self.support]
            after = labels * self.network.outputs(moved)
            better = after < margins
            x[better], margins[better] = moved[better], after[better]
            if not better.any():
                break
        return x

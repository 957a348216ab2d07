"""One attention layer and an MLP that compute a sparse Boolean function exactly, on all inputs.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from elegans.calculators.domain import Form, Side, coordinates, require, require_form
from elegans.component import Component
from elegans.models.boolean import BooleanTransformer
from elegans.models.inits import Layers
from elegans.studies.variable_creation.theory.codes import Codes, Encoding, all_bits, orthonormal_codes
from elegans.studies.variable_creation.theory.memorising import Memoriser, memoriser
from elegans.studies.variable_creation.theory.selection import (
    Selection,
    Target,
    selection_heads,
    selection_separation,
    selection_target,
)
from elegans.tasks import SparseBoolean, SparseParity, Task
from elegans.tasks.boolean import BooleanFunction

LARGEST_TASK = 2_000
"""The largest number of bits of a task whose transformer is written out."""

LARGEST_TABLE = 8
"""The largest support for which any function is written into an MLP: its second layer has 8 s 4^s weights."""


class SelectingTransformer(NamedTuple):
    """A transformer of one layer: selection heads, read at the class token, then an MLP.

    Args:
        selection: codes, W_Q, W_K, W_V and W_C; see ``Selection`` for the shapes.
        mlp: W_1, W_2 and w; it reads the first coordinates of the heads' output.
    """

    selection: Selection
    mlp: Memoriser

    def __call__(self, bits: Any) -> Float64[np.ndarray, " count"]:
        """Return f_(tf+mlp) of bits of shape (count, T)."""
        return self.mlp(self.selected(bits))

    def selected(self, bits: Any) -> Float64[np.ndarray, "count read"]:
        """Return what the MLP reads, shape (count, 1) or (count, s)."""
        return self.selection.outputs(bits)[:, : len(self.mlp.first) - 1]

    @property
    def model(self) -> BooleanTransformer:
        """The smallest transformer that has these weights among its parameters."""
        heads, width, size = self.selection.query.shape
        units = (self.mlp.first.shape[1], len(self.mlp.last))
        own: dict[str, Any] = {"encoding": self.selection.encoding, "head_size": size, "mlp": units}
        return BooleanTransformer(form="plain", width=width, heads=heads, **own)

    @property
    def parameters(self) -> Layers:
        """The parameters that make ``model`` this construction, in single precision."""
        return self.parameters_of(self.model)

    def parameters_of(self, model: BooleanTransformer) -> Layers:
        """Return parameters that make a larger transformer equal this construction; spare parameters are 0.

        Args:
            model: of the plain form and the same encoding, with at least as many heads, dimensions and neurons.

        Returns:
            float32 arrays, nested and named as the model's own.

        Raises:
            TheoryError: the model is of another form or encoding, or smaller; the message says what is needed.
        """
        own = self.model
        require(model.form == "plain", "form must be plain: the construction has no norms", form=model.form)
        require(model.encoding == own.encoding, f"encoding must be {own.encoding}", encoding=model.encoding)
        require(len(model.sizes) == 2, "the MLP must have two hidden layers", mlp=model.sizes)
        needed = (own.width, own.heads, own.head_width, *own.sizes)
        given = width, heads, size, first, second = (model.width, model.heads, model.head_width, *model.sizes)
        fits = all(there >= least for there, least in zip(given, needed, strict=True))
        require(fits, f"width, heads, head_size and mlp must be at least {needed}", given=given)
        codes, mlp = self.selection.codes, self.mlp
        positions = codes.T + (own.encoding == "trained")  # the class token's own position is 0
        embedding = {"token": (codes.token, (2, width)), "position": (codes.position, (positions, width))}
        if own.encoding == "bag":
            del embedding["token"]
        projections = {
            name: (getattr(self.selection, name), (heads, width, size)) for name in ("query", "key", "value")
        }
        shaped: dict[str, dict[str, tuple[np.ndarray, tuple[int, ...]]]] = {
            "embedding": {**embedding, "class": (codes.class_token, (width,))},
            "attention": {**projections, "output": (self.selection.output, (heads, size, width))},
            "hidden1": {"weight": (mlp.first[:-1].T, (first, width)), "bias": (mlp.first[-1], (first,))},
            "hidden2": {"weight": (mlp.second[:-1].T, (second, first)), "bias": (mlp.second[-1], (second,))},
            "output": {"weight": (mlp.last, (second,))},
        }
        return {layer: {name: _padded(*part) for name, part in parts.items()} for layer, parts in shaped.items()}


def selecting_transformer(
    function: str | BooleanFunction | Sequence[float],
    T: Side,
    support: Sequence[int],
    *,
    encoding: Encoding = "fixed",
    target: Target | None = None,
    codes: Codes | None = None,
    gamma: float | None = None,
    form: Form = "corrected",
) -> SelectingTransformer:
    """Return weights of a one-layer transformer that is exactly f on all 2^T inputs.

    The heads map every input to within gamma/4 of one of a few points gamma apart; the MLP equals f within delta of
    each. The printed delta = gamma/8 is too small, and fails where heads use up more than half of their tolerance: with
    one head per bit.

    Formula: f_{tf+mlp}(b) = memoriser(selection(X(b))), the points g(0), ..., g(s) for symmetric f, or g(b) for all
        2^s values of b on the support; delta = gamma/4; printed: delta = gamma/8.
    Source: thesis, Proposition A.18, Lemmas A.22 and A.23; delta corrected from Lemma A.25.

    Args:
        function: ``parity`` and so on, or a Boolean function (its values are then the labels -1 and 1 of a task), or
            real values: s + 1 of them, by the number of ones, or 2^s, in the order of ``BooleanFunction.table``.
        T: the number of bits.
        support: the s coordinates; bit j of a position in the table belongs to the j-th.
        encoding: "fixed", "trained" or "bag".
        target: "scalar" (one head; f must be symmetric), "vector" (s heads, one for a bag; s at most 8), or None for
            the scalar one where it suffices.
        codes: the vectors that inputs are made of; None for orthonormal ones.
        gamma: four times the error of the heads; None for the target's separation, or for 1 if that is larger.
    """
    require_form(form)
    places = list(support)
    coordinates("support", places, T)
    s = len(places)
    require(s >= 1, "s must be at least 1 (Lemma A.22)", s=s)
    by_count, table = _values(function, s)
    symmetric = target != "scalar" or by_count is not None
    require(symmetric, "a scalar head counts ones: f must be symmetric (Lemma A.22)", function=function)
    kind: Target = target or ("vector" if by_count is None else "scalar")
    used = _codes(T, s, encoding, kind) if codes is None else codes
    require(used.T == T, "codes must have T positions", positions=used.T, T=T)
    wanted = min(1.0, selection_separation(s, encoding, kind)) if gamma is None else gamma
    apart = selection_separation(s, encoding, kind)
    require(wanted <= apart * (1 + 1e-12), "gamma must be at most the separation", gamma=wanted, separation=apart)
    heads = selection_heads(used, places, encoding=encoding, target=kind, gamma=wanted)
    inputs = _patterns(s) if kind == "vector" else np.tri(s + 1, s, -1)
    values = table if kind == "vector" else by_count
    delta = wanted / (4 if form == "corrected" else 8)
    return SelectingTransformer(heads, memoriser(selection_target(inputs, encoding, kind), values, delta))


def selecting_transformer_for(
    task: Task, support: Sequence[int], *, encoding: Encoding = "fixed", target: Target | None = None
) -> SelectingTransformer:
    """Return weights of a one-layer transformer that is exactly a task's label on all inputs.

    Formula: as for ``selecting_transformer``, with f the task's function, or the product of the signs on the support.
    Source: thesis, Proposition A.18.

    Args:
        task: a Boolean function of some bits, or a parity of signs.
        support: those bits, in increasing order.
        encoding: as in ``selecting_transformer``.
        target: as in ``selecting_transformer``.
    """
    known = isinstance(task, SparseBoolean | SparseParity)
    require(known, "the task must be a boolean function or a parity of signs", task=task.label())
    assert isinstance(task, SparseBoolean | SparseParity)
    require(task.n <= LARGEST_TASK, f"n must be at most {LARGEST_TASK}", n=task.n)
    signs = [float((-1) ** (task.k - ones)) for ones in range(task.k + 1)]
    function = task.function if isinstance(task, SparseBoolean) else signs
    return selecting_transformer(function, task.n, support, encoding=encoding, target=target)


def _padded(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return single-precision values padded with zeros along every axis."""
    spare = [(0, larger - size) for larger, size in zip(shape, values.shape, strict=True)]
    return np.pad(values, spare).astype(np.float32)


def _codes(T: int, s: int, encoding: Encoding, target: Target) -> Codes:
    if encoding != "trained":
        return orthonormal_codes(T)
    special = np.eye(s + 3 if target == "vector" else 4)[-3:]
    return Codes(np.zeros((T, special.shape[1])), special[:2], special[2])


def _patterns(s: int) -> np.ndarray:
    """Return all inputs on the support in a table's order, shape (2^s, s)."""
    require(s <= LARGEST_TABLE, f"s must be at most {LARGEST_TABLE} for a table of 2^s points", s=s)
    return all_bits(s)


def _values(function: Any, s: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return a function's values by the number of ones, if it is symmetric, and its table, if s is small."""
    if isinstance(function, str | Component):
        boolean = BooleanFunction.parse(function)
        counts = boolean.by_count(s)
        table = boolean.table(s) if s <= LARGEST_TABLE else None
        return (None if counts is None else 2.0 * counts - 1), (None if table is None else 2.0 * table - 1)
    values = np.asarray(function, float)
    fits = values.shape in ((s + 1,), (2**s,))
    require(fits, "there must be s + 1 or 2^s values", values=values.shape, s=s)
    if s > LARGEST_TABLE:
        require(values.shape == (s + 1,), f"s must be at most {LARGEST_TABLE} for a table of 2^s points", s=s)
        return values, None
    ones = np.bitwise_count(np.arange(2**s))
    if values.shape == (s + 1,):
        return values, values[ones]
    counts = values[2 ** np.arange(s + 1) - 1]
    return (counts if np.array_equal(counts[ones], values) else None), values

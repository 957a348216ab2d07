"""The capacity C of attention heads and deep transformers: log N <= C / epsilon^2, up to one linear cover's factor.

All bounds take the cover of a linear map as B^2 log(d m T) / epsilon^2, with constant 1: they serve to compare
architectures, and are not numbers of examples. The default is what the proofs give; printed statements that differ have
names.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    lipschitz: L, of the activation.
    points: m T, the number of tokens of all sequences.
    d: the dimension of tokens.
    blocks: the bounds on each block's norms, from the input on.
    readout: B_w.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from elegans.calculators.domain import Form, require, require_form, require_positive
from elegans.studies.variable_creation.theory.covering import cover_allocation

HeadForm = Literal["corrected", "unit-query", "printed", "printed-main"]
"""Corollary 4.9 as its hypotheses require, as its proof gives it, and as printed in the appendix and the main text."""


class HeadNorms(NamedTuple):
    """Bounds on the norms of one head's weights.

    Args:
        value_rows: B_V^{2,1} of W_V.
        value: B_V, the spectral norm of W_V.
        merged_rows: B_QK^{2,1}, of the merged W_QK.
    """

    value_rows: float
    value: float
    merged_rows: float


class BlockNorms(NamedTuple):
    """Bounds on the norms of one transformer block's weights.

    Args:
        value_rows: B_V^{2,1}.
        value: B_V, spectral.
        merged_rows: B_QK^{2,1}, of W_K W_Q^T.
        merged: B_QK, spectral.
        output_rows: B_C^{2,1}.
        output: B_C, spectral.
    """

    value_rows: float
    value: float
    merged_rows: float
    merged: float
    output_rows: float
    output: float


def head_capacity(
    value_rows: float,
    value: float,
    merged_rows: float,
    points: int,
    *,
    d: int = 1,
    input_norm: float = 1.0,
    lipschitz: float = 1.0,
    form: HeadForm = "corrected",
) -> float:
    """Return the capacity of a single attention head.

    Both printed statements drop the 2 of the softmax's Lipschitz constant, and the main text also drops B_X and d. The
    proof takes ||x_tau|| <= 1 where the hypothesis is ||x_tau|| <= B_X, and so gives "unit-query". Only the corrected
    form is unchanged when inputs are scaled up and weights down so that no function changes.

    Formula: (L B_X)^2 (B_V21^(2/3) + (2 B_QK21 B_V B_X^2)^(2/3))^3 log(d m T); unit-query: B_X in place of B_X^2;
        printed: unit-query without the 2; printed-main: no B_X^2 and no 2, and log(m T). With fixed positions of norm
        at most B_P, B_X + B_P stands for B_X.
    Source: thesis, Corollary 4.9 and Lemma A.11; corrected from their proofs (Theorem 4.6, Lemmas 4.10 and A.8).

    Args:
        value_rows: B_V21, a bound on ||W_V||_{2,1}.
        value: B_V, a bound on the spectral norm of W_V.
        merged_rows: B_QK21, a bound on ||W_QK^T||_{2,1}.
        input_norm: B_X, or B_X + B_P. Trained positions may cost another factor T.
        form: "corrected", "unit-query", "printed" (the appendix) or "printed-main".
    """
    require_form(form, ("corrected", "unit-query", "printed", "printed-main"))
    require_positive("Corollary 4.9", points=points, d=d, input_norm=input_norm, lipschitz=lipschitz)
    mixed = {"corrected": 2 * input_norm**2, "unit-query": 2 * input_norm, "printed": input_norm, "printed-main": 1.0}
    gamma = _two_thirds([HeadNorms(value_rows, value, merged_rows)], mixed[form])
    return (lipschitz * input_norm) ** 2 * gamma**3 * math.log(points if form == "printed-main" else d * points)


def heads_capacity(
    heads: Sequence[HeadNorms],
    points: int,
    *,
    d: int = 1,
    input_norm: float = 1.0,
    lipschitz: float = 1.0,
    form: Literal["corrected", "unit-query", "printed"] = "corrected",
) -> float:
    """Return the capacity of the sum of several heads: H^3 times one head's capacity if they are equal.

    The printed statement drops B_X inside the second term, which its own Corollary 4.9 has.

    Formula: (L B_X)^2 (sum_h (B_V21_h^(2/3) + (2 B_QK21_h B_V_h B_X^2)^(2/3)))^3 log(d m T); unit-query: B_X in
        place of B_X^2; printed: neither B_X^2 nor B_X.
    Source: thesis, Lemma A.12; corrected from its proof.

    Args:
        heads: the bounds on each head's norms.
        input_norm: B_X.
        form: "corrected", "unit-query" (the asking token has norm at most 1) or "printed".
    """
    require_form(form, ("corrected", "unit-query", "printed"))
    require(len(heads) > 0, "heads must be at least 1 (Lemma A.12)", heads=len(heads))
    require_positive("Lemma A.12", points=points, d=d, input_norm=input_norm, lipschitz=lipschitz)
    mixed = {"corrected": 2 * input_norm**2, "unit-query": 2 * input_norm, "printed": 2.0}
    return (lipschitz * input_norm) ** 2 * _two_thirds(heads, mixed[form]) ** 3 * math.log(d * points)


def _two_thirds(heads: Sequence[HeadNorms], factor: float) -> float:
    """Return the sum over heads of both terms to the power 2/3: the gamma of Lemma A.8."""
    for norms in heads:
        require_positive("Corollary 4.9", value_rows=norms.value_rows, value=norms.value, merged_rows=norms.merged_rows)
    parts = [(norms.value_rows, factor * norms.merged_rows * norms.value) for norms in heads]
    return float(sum(own ** (2 / 3) + mixed ** (2 / 3) for own, mixed in parts))


def block_lipschitz(output: float, value: float, merged: float, lipschitz: float = 1.0) -> float:
    """Return the largest factor by which a block amplifies a change of its input.

    Bounding all spectral norms by 1 does not make it 1, contrary to a remark of the thesis: up to 5 per layer remains.
    A residual connection adds at most 1.

    Formula: a = L B_C B_V (1 + 4 B_QK).
    Source: thesis, Lemma A.15 (tokens of norm at most 1).

    Args:
        output: B_C, a bound on the spectral norm of W_C.
        value: B_V, the same bound for W_V.
        merged: B_QK, the same bound for W_K W_Q^T.
    """
    require_positive("Lemma A.15", output=output, value=value, merged=merged, lipschitz=lipschitz)
    return lipschitz * output * value * (1 + 4 * merged)


def depth_amplification(
    blocks: Sequence[BlockNorms], lipschitz: float = 1.0, form: Form = "corrected"
) -> tuple[float, ...]:
    """Return the factor by which an error in each block is amplified up to the last block's output.

    Formula: alpha_i = prod_{j > i} a_j, by unrolling e_{i+1} = a_i e_i + own_i; printed: prod_{j < i} a_j, the
        same set of products where all blocks are alike, in reverse.
    Source: thesis, Theorem A.17; corrected from the recursion in its proof.
    """
    require_form(form)
    require(len(blocks) > 0, "blocks must be at least 1 (Theorem A.17)", blocks=len(blocks))
    steep = [block_lipschitz(block.output, block.value, block.merged, lipschitz) for block in blocks]
    places = range(len(blocks))
    return tuple(math.prod(steep[i + 1 :] if form == "corrected" else steep[:i]) for i in places)


def depth_capacity(
    blocks: Sequence[BlockNorms],
    readout: float,
    points: int,
    *,
    d: int,
    k: int,
    lipschitz: float = 1.0,
    form: Form = "corrected",
) -> float:
    """Return the capacity of a transformer of several blocks with a linear read-out; tokens have norm at most 1.

    The printed statement multiplies by products over the wrong blocks, lacks B_w before every block's terms, and has
    factors d^(2/3) and k^(2/3) that the proof does not give.

    Formula: log(d m T) (B_w^(2/3) + sum_i alpha_i^(2/3) (B_C21^(2/3) + (2 L B_C B_V B_QK21)^(2/3)
        + (L B_C B_V21)^(2/3))_i)^3, alpha_i = B_w prod_{j > i} a_j; printed: d^(2/3) and k^(2/3) before the second and
        third term, alpha_i = prod_{j < i} a_j.
    Source: thesis, Theorem A.17; corrected from its proof.
    """
    require_positive("Theorem A.17", readout=readout, points=points, d=d, k=k)
    printed = form == "printed"
    costs, counts = [readout**2], [1.0]
    for block, grown in zip(blocks, depth_amplification(blocks, lipschitz, form), strict=True):
        rows = {"output_rows": block.output_rows, "merged_rows": block.merged_rows, "value_rows": block.value_rows}
        require_positive("Theorem A.17", **rows)
        alpha = grown if printed else readout * grown
        outer = lipschitz * block.output
        own = (1.0, 2 * outer * block.value * (d if printed else 1), outer * (k if printed else 1))
        costs += [norm**2 for norm in rows.values()]
        counts += [alpha * factor for factor in own]
    return math.log(d * points) * cover_allocation(costs, counts, 1.0).value


def depth_capacity_simplified(
    spectral: float,
    rows: float,
    readout: float,
    points: int,
    *,
    d: int,
    depth: int,
    input_norm: float = 1.0,
    exponent: float = 1.0,
) -> float:
    """Return the simplified capacity of deep transformers, with a chosen value of the constant that it leaves open.

    Formula: (C_2 L)^(c depth) B_X^2 B_w^2 C_21^2 log(d m T).
    Source: thesis, Theorem 4.11, whose exponent is O(depth).

    Args:
        spectral: C_2 times the activation's Lipschitz constant.
        rows: C_21, the bound on all (2,1)-norms.
        depth: the number of blocks.
        input_norm: B_X.
        exponent: c, which the source does not name.
    """
    require_positive("Theorem 4.11", spectral=spectral, rows=rows, readout=readout, points=points, d=d, depth=depth)
    require_positive("Theorem 4.11", input_norm=input_norm, exponent=exponent)
    return float(spectral ** (exponent * depth) * (input_norm * readout * rows) ** 2 * math.log(d * points))

"""How bits become vectors: the tokens that a constructed head reads.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    T: the number of positions, at least 1.
"""

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from elegans import random
from elegans.calculators.domain import AtMost, Form, Seed, Side, require, require_form, whole_array

Encoding = Literal["fixed", "trained", "bag"]
"""Fixed positions, trained positions (chosen by the construction), or a bag of vectors, one per 1."""


class Codes(NamedTuple):
    """The vectors that make up inputs.

    Args:
        position: v_1, ..., v_T, or P, shape (T, d).
        token: E_0 and E_1, shape (2, d).
        class_token: v_CLS, shape (d,).
    """

    position: np.ndarray
    token: np.ndarray
    class_token: np.ndarray

    @property
    def T(self) -> int:
        """The number of positions."""
        return len(self.position)

    @property
    def d(self) -> int:
        """The dimension."""
        return int(self.position.shape[1])


def orthonormal_codes(T: Side, d: Annotated[int, AtMost(10_000)] | None = None) -> Codes:
    """Return orthonormal positions, tokens and class token.

    Formula: v_t = e_t; E_0, E_1, v_CLS = e_(d-2), e_(d-1), e_d.
    Source: thesis, appendix A.2.1, with Delta = 0.

    Args:
        d: the dimension; None for the smallest, T + 3.
    """
    require(T >= 1, "T must be at least 1", T=T)
    width = T + 3 if d is None else d
    require(width >= T + 3, f"d must be at least T + 3 = {T + 3} for orthonormal positions", d=width, T=T)
    return _coded(np.eye(T, width))


def random_codes(T: Side, d: Annotated[int, AtMost(10_000)], seed: Seed = 0) -> Codes:
    """Return nearly orthogonal positions, random signs scaled to norm 1; tokens and class token are orthogonal to all.

    Formula: v_t uniform on {-1, 1}^(d-3) / sqrt(d - 3); |v_t . v_u| is about sqrt(2 log(T^2) / d) at most.
    Source: derived here; the thesis takes any vectors with |v_t . v_u| <= Delta (appendix A.2.1).

    Args:
        d: the dimension, at least 4.
    """
    require(T >= 1, "T must be at least 1", T=T)
    require(d >= 4, "d must be at least 4: three dimensions are taken by tokens and class token", d=d)
    signs = random.rademacher(random.stream(seed, "init"), np.arange(T, dtype=np.uint32), d - 3).astype(np.float64)
    return _coded(np.pad(signs / np.sqrt(d - 3), ((0, 0), (0, 3))))


def code_coherence(position: Any) -> float:
    """Return how far vectors are from orthogonal.

    Formula: Delta = max |v_t . v_u| over t != u; 0 for a single vector.
    Source: thesis, appendix A.2.1.

    Args:
        position: the vectors, shape (T, d).
    """
    v = np.asarray(position, float)
    products = np.abs(v @ v.T)
    np.fill_diagonal(products, 0)
    return float(products.max())


def attention_inputs(
    codes: Codes, bits: Any, encoding: Encoding = "fixed", form: Form = "corrected"
) -> Float64[np.ndarray, "count T+1 d"]:
    """Return the tokens that bits become, the class token last.

    The bag of vectors is printed as V diag(b), which scales coordinates instead of tokens and makes sense only for d =
    T, and as V + diag(b) elsewhere.

    Formula: x_t = v_t + E_{b_t} for fixed and trained positions; x_t = b_t v_t, that is diag(b) V, for a bag;
        x_{T+1} = v_CLS; printed: V diag(b) for a bag.
    Source: thesis, appendix A.2.1.

    Args:
        codes: the vectors.
        bits: 0 and 1, shape (count, T).
        encoding: "fixed", "trained" or "bag".
    """
    require_form(form)
    require_form(encoding, ("fixed", "trained", "bag"))
    b = checked_bits(codes, bits)
    if encoding != "bag":
        tokens = codes.position + codes.token[b]
    elif form == "corrected":
        tokens = codes.position * b[:, :, None]
    else:
        require(codes.d == codes.T, "V diag(b) needs d = T", d=codes.d, T=codes.T)
        tokens = codes.position * b[:, None, :]
    last = np.broadcast_to(codes.class_token, (len(b), 1, codes.d))
    return np.concatenate([tokens, last], axis=1)


def all_bits(T: int) -> Int64[np.ndarray, "inputs T"]:
    """Return all 2^T inputs, bit t of an input's index first to last, shape (2^T, T)."""
    return np.asarray((np.arange(2**T)[:, None] >> np.arange(T)) & 1)


def checked_bits(codes: Codes, bits: Any) -> np.ndarray:
    """Return bits as integers, refusing anything but arrays of 0 and 1 of shape (count, T)."""
    b = whole_array("bits", bits)
    require(b.ndim == 2 and b.shape[1] == codes.T, "bits must have shape (count, T)", bits=b.shape, T=codes.T)
    require(bool(((b == 0) | (b == 1)).all()), "bits must be 0 and 1", smallest=b.min(), largest=b.max())
    return b


def _coded(position: np.ndarray) -> Codes:
    d = position.shape[1]
    special = np.eye(3, d, d - 3)
    return Codes(position, special[:2], special[2])

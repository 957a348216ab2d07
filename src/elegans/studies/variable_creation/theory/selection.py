"""Attention heads that select s of T bits: their weights, their exact worst errors, and their norms.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    encoding: "fixed", "trained" or "bag".
    target: "scalar" or "vector".
    T: the number of bits.
    form: "corrected" or "printed".
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from elegans import random
from elegans.calculators.domain import Form, coordinates, require, require_form
from elegans.studies.variable_creation.theory.codes import Codes, Encoding, all_bits, checked_bits, code_coherence
from elegans.studies.variable_creation.theory.normalisation import softmax

Target = Literal["scalar", "vector"]
"""Whether a construction's output is a single number that counts ones, or one coordinate per bit of the support."""

LARGEST_ENUMERATED = 14
"""The largest T at which all 2^T inputs are enumerated."""


class Selection(NamedTuple):
    """Selection heads with their codes: all arrays of a one-layer attention.

    In the thesis' notation, and in the shapes of ``ParityTransformer``'s parameters (its ``embedding`` and
    ``attention``), so that a transformer without a residual path and with unscaled scores computes the same.

    Args:
        encoding: how ``codes`` make inputs: "fixed", "trained" or "bag".
        codes: v or P (T, d), E_0 and E_1 (2, d), v_CLS (d,).
        query: W_Q of each head, shape (heads, d, k).
        key: W_K, shape (heads, d, k).
        value: W_V, shape (heads, d, k).
        output: W_C, shape (heads, k, d); heads are summed.
    """

    encoding: Encoding
    codes: Codes
    query: Float64[np.ndarray, "heads d k"]
    key: Float64[np.ndarray, "heads d k"]
    value: Float64[np.ndarray, "heads d k"]
    output: Float64[np.ndarray, "heads k d"]

    def scores(self, bits: Any) -> Float64[np.ndarray, "count heads places"]:
        """Return the class token's scores of every position and, last, of itself: (count, heads, T + 1)."""
        asked = np.einsum("hek,hk->he", self.key, np.einsum("d,hdk->hk", self.codes.class_token, self.query))
        own = np.broadcast_to(self.codes.class_token @ asked.T, (len(bits), 1, len(asked)))
        return np.concatenate([self._read(bits, asked.T), own], axis=1).transpose(0, 2, 1)

    def attention(self, bits: Any) -> Float64[np.ndarray, "count heads places"]:
        """Return the class token's attention weights, which sum to 1: (count, heads, T + 1)."""
        return softmax(self.scores(bits))

    def outputs(self, bits: Any) -> Float64[np.ndarray, "count d"]:
        """Return f_head, summed over heads: (count, d)."""
        total = np.zeros((len(bits), self.codes.d))
        for weights, value, output in zip(self.attention(bits).swapaxes(0, 1), self.value, self.output, strict=True):
            own = weights[:, -1:] * (self.codes.class_token @ value)
            total += (np.einsum("bt,btk->bk", weights[:, :-1], self._read(bits, value)) + own) @ output
        return total

    def _read(self, bits: Any, matrix: np.ndarray) -> Float64[np.ndarray, "count T columns"]:
        """Return X M for the T tokens without forming the tokens themselves, which may be long."""
        b = checked_bits(self.codes, bits)
        placed = self.codes.position @ matrix
        if self.encoding == "bag":
            return np.asarray(b[:, :, None] * placed)
        return np.asarray(placed + (self.codes.token @ matrix)[b])


def selection_separation(s: int, encoding: Encoding = "fixed", target: Target = "scalar") -> float:
    """Return how far apart the values of a selection's target are: gamma of its strict monotonicity or injectivity.

    Formula: 2/s (positions, scalar), 2 (positions, vector), 1/s (bag).
    Source: thesis, Lemmas A.19 to A.21.

    Args:
        s: the size of the support, at least 1.
    """
    _require_kinds(s, encoding, target)
    if encoding == "bag":
        return 1 / s
    return 2 / s if target == "scalar" else 2.0


def selection_target(
    selected: Any, encoding: Encoding = "fixed", target: Target = "scalar", form: Form = "corrected"
) -> np.ndarray:
    """Return what selection heads approximate.

    With the printed sign of W_V the scalar target decreases in r for positions, though the lemma calls it strictly
    monotone, defined as increasing; the corrected one has E_1 - E_0 in W_V. Later layers are unaffected.

    Formula: r ones among the s bits. Positions: (2 r - s) / s, or 2 b_i - 1 in coordinate n(i); printed: the negatives.
        Bag: (r - s) / (r + 1), or (b_i - 1) / (r + 1).
    Source: thesis, Lemmas A.19 to A.21 and their proofs.

    Args:
        selected: the bits on the support, shape (count, s).

    Returns:
        float64 of shape (count, 1) or (count, s).
    """
    require_form(form)
    b = np.asarray(selected, float)
    _require_kinds(b.shape[1], encoding, target)
    ones = b.sum(axis=1, keepdims=True)
    if encoding == "bag":
        each = (b - 1) / (ones + 1)
        return np.asarray(each if target == "vector" else each.sum(axis=1, keepdims=True))
    each = (2 * b - 1) * (1 if form == "corrected" else -1)
    return each if target == "vector" else each.mean(axis=1, keepdims=True)


def selection_gap(
    T: int, s: int, gamma: float, encoding: Encoding = "fixed", leak: float = 0.0, form: Form = "corrected"
) -> float:
    """Return the scale R of the scores at which selection heads are within gamma/4 of their target.

    In the corrected form the scores on the support are R exactly and ``leak`` bounds |v_t . u| off it, u being the
    support's dual vector. The printed R takes ``leak`` as Delta and is too small for it: its own error bound needs
    1 - 2 s Delta, and moreover scores on the support differ from each other, increasingly so with larger R.

    Formula: positions log(8 T / gamma) / (1 - leak), bag log(8 T (s + leak) / gamma) / (1 - leak); printed: positions
        log(8 T / gamma) / (1 - s Delta), bag log(8 T s (1 + Delta) / (gamma - s Delta)) / (1 - s Delta).
    Source: thesis, Lemmas A.19 to A.21; corrected forms derived here, the same at Delta = 0.

    Args:
        gamma: four times the error, above 0 and at most 1.
        leak: the largest |v_t . u| off the support, or Delta as printed; below 1, or 1/s as printed.
    """
    require_form(form)
    _require_kinds(s, encoding, "scalar")
    require(s <= T, "s must be at most T (Lemma A.19)", s=s, T=T)
    require(0 < gamma <= 1, "gamma must lie in (0, 1] (Lemma A.19)", gamma=gamma)
    if form == "printed":
        require(0 <= s * leak < 1, "Delta must be below 1/s (Lemma A.19)", Delta=leak, s=s)
        if encoding != "bag":
            return math.log(8 * T / gamma) / (1 - s * leak)
        require(s * leak < gamma, "s Delta must be below gamma (Lemma A.21)", Delta=leak, s=s, gamma=gamma)
        return math.log(8 * T * s * (1 + leak) / (gamma - s * leak)) / (1 - s * leak)
    require(0 <= leak < 1, "leak must lie in [0, 1): positions are too far from orthogonal", leak=leak)
    return math.log(8 * T * (s + leak if encoding == "bag" else 1) / gamma) / (1 - leak)


def selection_worst_error(T: int, s: int, gap: float, encoding: Encoding = "fixed", target: Target = "scalar") -> float:
    """Return the exact largest error of selection heads over all 2^T inputs, for orthonormal positions.

    Formula: positions (2 (T - s) + 1) / (s e^R + T + 1 - s), with s = 1 for a head of the vector target; bag
        max_r (s - r)(T - r) / ((r + 1)((r + 1) e^R + T - r)), which is s T / (e^R + T), or T / (e^R + T) (vector).
    Source: derived here; the thesis bounds them by 2 T e^-R, 2 T s e^-R and 2 T e^-R.

    Args:
        s: the size of the support, from 1 to T.
        gap: R, at least 0.
    """
    _require_kinds(s, encoding, target)
    require(s <= T, "s must be at most T (Lemma A.19)", s=s, T=T)
    require(gap >= 0, "R must be at least 0", R=gap)
    if encoding != "bag":
        chosen = s if target == "scalar" else 1
        return (2 * (T - chosen) + 1) / (chosen * math.exp(gap) + T + 1 - chosen)
    if target == "vector":
        return T / (math.exp(gap) + T)
    return max((s - r) * (T - r) / ((r + 1) * ((r + 1) * math.exp(gap) + T - r)) for r in range(s + 1))


def selection_flip_change(T: int, s: int, gap: float) -> float:
    """Return the largest change of a scalar head's output when one bit flips, for orthonormal fixed positions.

    At fixed R, that is at fixed weight norms, it tends to 0 as T grows; R must grow like log T.

    Formula: 2 e^R / (s e^R + T + 1 - s).
    Source: derived here from the thesis' Lemma A.19.

    Args:
        s: the size of the support, from 1 to T.
        gap: R.
    """
    require(1 <= s <= T, "s must lie in 1..T (Lemma A.19)", s=s, T=T)
    return 2 / (s + (T + 1 - s) * math.exp(-gap))


class SelectionNorms(NamedTuple):
    """Norms of one head's matrices.

    Args:
        query: ||W_Q||_F.
        key: ||W_K||_F.
        value: ||W_V||_F.
        output: ||W_C||_F.
        position: ||P^T||_{2,1} of trained positions, 0 for others.
    """

    query: float
    key: float
    value: float
    output: float
    position: float


def selection_norms(
    T: int, s: int, gamma: float, encoding: Encoding = "fixed", target: Target = "scalar", form: Form = "corrected"
) -> SelectionNorms:
    """Return the norms of a selection head for orthonormal positions.

    Formula: R for W_Q; sqrt(s) (fixed, scalar), sqrt(s + 1) (bag) or else 1 for W_K; sqrt 2, or sqrt(2 s) (bag), for
        W_V; 1, or sqrt(s) (bag), for W_C; ||P^T||_{2,1} = s. Printed, as upper bounds: R; s, s + 1 or 1; 2 or 2 s;
        1 or s; s.
    Source: thesis, Lemmas A.19 to A.21; exact values derived here.

    Args:
        gamma: as in ``selection_gap``.
        target: "scalar" or "vector": of each of s heads where positions are used.
        form: "corrected" for the exact norms, "printed" for the claimed bounds.
    """
    _require_kinds(s, encoding, target)
    gap = selection_gap(T, s, gamma, encoding, form=form)
    keyed = {"fixed": s if target == "scalar" else 1, "trained": 1, "bag": s + 1}[encoding]
    outer = s if encoding == "bag" else 1
    moved = float(s) if encoding == "trained" else 0.0
    if form == "printed":
        return SelectionNorms(gap, keyed, 2 * outer, outer, moved)
    return SelectionNorms(gap, math.sqrt(keyed), math.sqrt(2 * outer), math.sqrt(outer), moved)


def selection_heads(
    codes: Codes,
    support: Sequence[int],
    *,
    encoding: Encoding = "fixed",
    target: Target = "scalar",
    gamma: float | None = None,
    k: int | None = None,
    form: Form = "corrected",
) -> Selection:
    """Return attention heads that are within gamma/4 of ``selection_target``.

    The printed recipe takes v_I = sum_I v_i for the key. Where positions are not orthogonal, the scores on the support
    then differ, and from s = 3 on no scale repairs this: a warning states the error. The corrected one takes dual
    vectors u_i, in the support's span with u_i . v_j = 1[i = j]. The printed W_V of several heads on fixed positions
    writes a_2 while W_C reads a_1: its output is 0.

    Formula: W_Q = R v_CLS a_1^T in all. Fixed: W_K = u a_1^T, u = sum_I u_i, or v_(i_h) a_1^T for head h. Trained:
        P = e_1 on I and 0 off it, or P = e_{n(i)}; W_K = e_1 a_1^T, or e_h a_1^T. Both: W_V = (E_1 - E_0) a_1^T,
        W_C = a_1 e_1^T or a_1 e_h^T. Bag: W_K = (u + v_CLS) a_1^T, W_V = sum_I u_i a_{n(i)}^T - v_CLS sum_I a_{n(i)}^T,
        W_C = sum_I a_{n(i)} e_1^T, or e_{n(i)}^T. Printed: v_i in place of u_i, E_0 - E_1.
    Source: thesis, proofs of Lemmas A.19 to A.21; dual vectors derived here.

    Args:
        codes: the vectors that make up inputs; trained positions replace ``codes.position``.
        support: the s coordinates, in the order of the output's.
        target: "scalar" (one head) or "vector" (s heads; one for a bag).
        gamma: four times the largest error; None for the target's separation, or for 1 if that is larger.
        k: the dimension of a head; None for the smallest: s for a bag, else 1 (2 as printed).
    """
    require_form(form)
    places = list(support)
    coordinates("support", places, codes.T)
    s = len(places)
    _require_kinds(s, encoding, target)
    heads = s if target == "vector" and encoding != "bag" else 1
    least_k = s if encoding == "bag" else 2 if _writes_beside(encoding, heads, form) else 1
    width = least_k if k is None else k
    require(width >= least_k, f"k must be at least {least_k} ({encoding} positions)", k=width, s=s)
    _require_dimension(codes, s, encoding, target)
    wanted = min(1.0, selection_separation(s, encoding, target)) if gamma is None else gamma
    if encoding == "trained":
        codes = codes._replace(position=_trained_positions(codes, places, target))
    keys, leak = _keys(codes, places, encoding, heads, form)
    gap = selection_gap(codes.T, s, wanted, encoding, leak, form)
    made = _assembled(codes, keys, gap, (encoding, target, form), width)
    delta = code_coherence(codes.position) if encoding != "trained" else 0.0
    if form == "printed" and heads == 1 and s >= 3 and delta > 1e-12:
        _warn(made, places, wanted, delta, target)
    return made


def _writes_beside(encoding: Encoding, heads: int, form: Form) -> bool:
    """Return whether the printed W_V writes to a_2: several heads on fixed positions."""
    return form == "printed" and encoding == "fixed" and heads > 1


def _require_kinds(s: int, encoding: str, target: str) -> None:
    require_form(encoding, ("fixed", "trained", "bag"))
    require_form(target, ("scalar", "vector"))
    require(s >= 1, "s must be at least 1 (Lemma A.19)", s=s)


def _require_dimension(codes: Codes, s: int, encoding: Encoding, target: Target) -> None:
    read = s if target == "vector" else 1
    least = read + 3 if encoding == "trained" else read
    require(codes.d >= least, f"d must be at least {least} ({encoding} positions, {target})", d=codes.d, s=s)


def _trained_positions(codes: Codes, places: list[int], target: Target) -> np.ndarray:
    chosen = np.zeros((codes.T, codes.d))
    chosen[places, np.arange(len(places)) if target == "vector" else 0] = 1
    special = np.vstack([codes.token, codes.class_token])
    free = bool(np.allclose(chosen @ special.T, 0))
    require(free, "trained positions need the first coordinates: tokens must use others", token=codes.token.shape)
    return chosen


def _keys(codes: Codes, places: list[int], encoding: Encoding, heads: int, form: Form) -> tuple[np.ndarray, float]:
    """Return the vectors that select each coordinate of the support, shape (s, d), and how much they leak off it."""
    own = codes.position[places]
    if encoding == "trained":
        return (own if heads > 1 else own[:1]), 0.0
    if form == "printed":
        delta = code_coherence(codes.position)
        return own, 0.0 if delta < 1e-12 else delta
    gram = own @ own.T
    if heads > 1:  # each head selects one position: its own vector is dual to itself
        products = np.abs(codes.position @ own.T)
        products[places, np.arange(heads)] = 0
        return own, _rounded(float(products.max()))
    require(np.linalg.cond(gram) < 1e8, "positions on the support must be linearly independent", s=len(places))
    dual = np.linalg.solve(gram, own)
    off = np.delete(codes.position @ dual.sum(axis=0), places)
    return dual, _rounded(float(np.abs(off).max(initial=0)))


def _rounded(leak: float) -> float:
    return 0.0 if leak < 1e-12 else leak


def _assembled(
    codes: Codes, keys: np.ndarray, gap: float, kinds: tuple[Encoding, Target, Form], width: int
) -> Selection:
    encoding, target, form = kinds
    several = encoding != "bag" and target == "vector"
    heads, s, d = (len(keys) if several else 1), len(keys), codes.d
    query, key, value = np.zeros((3, heads, d, width))
    output = np.zeros((heads, width, d))
    query[:, :, 0] = gap * codes.class_token
    if encoding == "bag":
        key[0, :, 0] = keys.sum(axis=0) + codes.class_token
        value[0, :, :s] = keys.T - codes.class_token[:, None]
        output[0, np.arange(s), np.arange(s) if target == "vector" else 0] = 1
    else:
        key[:, :, 0] = keys if several else keys.sum(axis=0)
        sign = 1 if form == "corrected" else -1
        value[:, :, int(_writes_beside(encoding, heads, form))] = sign * (codes.token[1] - codes.token[0])
        output[np.arange(heads), 0, np.arange(heads)] = 1
    return Selection(encoding, codes, query, key, value, output)


def selection_error(
    selection: Selection,
    support: Sequence[int],
    bits: Any = None,
    *,
    target: Target = "scalar",
    form: Form = "corrected",
) -> float:
    """Return the largest error of given selection heads, whatever their codes.

    Formula: max_b ||f_head(X(b)) - g_I(b)||_inf on the first coordinates; for positions, where no weight depends on b,
        over all b it is max_h sum_{t <= T} |p_t - q_t|, q the wanted weights.
    Source: derived here; the definition is the thesis' uniform approximation (appendix A.2.1).

    Args:
        selection: the heads.
        support: the s coordinates, in the order that the heads were made for.
        bits: the inputs, shape (count, T); None for all 2^T, in closed form for positions and for T up to 14 else.
        form: the form of the target.
    """
    places = list(support)
    if bits is None and selection.encoding != "bag":
        return _error_of_weights(selection, places, target)
    if bits is None:
        T = selection.codes.T
        require(T <= LARGEST_ENUMERATED, f"T must be at most {LARGEST_ENUMERATED} for all inputs: give bits", T=T)
        bits = all_bits(T)
    wanted = selection_target(np.asarray(bits)[:, places], selection.encoding, target, form)
    found = selection.outputs(bits)[:, : wanted.shape[1]]
    return float(np.abs(found - wanted).max())


def _error_of_weights(selection: Selection, places: list[int], target: Target) -> float:
    weights = selection.attention(np.zeros((1, selection.codes.T)))[0, :, :-1]
    wanted = np.zeros(weights.shape)
    if target == "scalar":
        wanted[0, places] = 1 / len(places)
    else:
        wanted[np.arange(len(places)), places] = 1
    return float(np.abs(weights - wanted).sum(axis=1).max())


def _warn(selection: Selection, places: list[int], gamma: float, delta: float, target: Target) -> None:
    bits = None
    if selection.encoding == "bag":
        signs = random.rademacher(random.stream(0, "probe"), np.arange(256, dtype=np.uint32), selection.codes.T)
        bits = (signs > 0).astype(int)
    error = selection_error(selection, places, bits, target=target, form="printed")
    warnings.warn(
        f"the printed selection of s >= 3 positions needs orthogonal ones: s={len(places)}, Delta={delta:.3g}, "
        f"error={error:.3g} where gamma/4={gamma / 4:.3g}",
        stacklevel=3,
    )

"""Features that are fixed before the support is known fail on some parity, whatever the readout.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of the supports, from 1 to n.
"""

import itertools
import math
from typing import Any

import numpy as np

from elegans.boolean.fourier import fourier_coefficients, set_index
from elegans.calculators.domain import Form, binomial, require, require_form, require_parity, require_positive


def feature_alignments(features: Any, k: int) -> np.ndarray:
    """Return how well fixed features align with each parity of k inputs.

    No readout of norm R has a hinge loss below 1 - R times this on that parity. The squares of all alignments (for
    other k too) add up to the mean of ||Psi||^2.

    Formula: ||E[chi_S(x) Psi(x)]||_2 for every S of k inputs.
    Source: derived here, for the thesis' Theorem 5.6: max(0, 1 - y z) >= 1 - y z, and Cauchy-Schwarz.

    Args:
        features: Psi at all 2^n inputs in the order of ``sign_table``, shape (2^n, D).

    Returns:
        float64 of shape (C(n, k),), in the order of ``itertools.combinations(range(n), k)``.
    """
    spectrum = fourier_coefficients(np.asarray(features).T)
    n = spectrum.shape[-1].bit_length() - 1
    require_parity(n, k, "Theorem 5.6")
    places = [set_index(members) for members in itertools.combinations(range(n), k)]
    return np.asarray(np.linalg.norm(spectrum[:, places], axis=0))


def fixed_feature_loss(n: int, k: int, norm: float, dimension: int | None = None, form: Form = "corrected") -> float:
    """Return a hinge loss that every readout of bounded norm has on some parity, whatever the fixed features.

    The features' norm is at most 1. The corrected bound does not involve the number of features, and is far stronger.
    The theorem is also stated for the 0-1 loss, where it cannot hold: one of w and -w is wrong on at most half of the
    inputs (apart from outputs of 0), and 1 - epsilon may exceed 1/2.

    Formula: 1 - R / sqrt(C(n, k)); printed: 1 - R sqrt(D / C(n, k)), the epsilon at which D R^2 = epsilon^2 C(n, k).
    Source: thesis, Theorem 5.6; the corrected form derived here (Bessel: the squared ``feature_alignments`` add to at
        most 1 over C(n, k) parities).

    Args:
        n: the number of inputs.
        norm: the bound R on the readout's norm.
        dimension: the number D of features; needed only for the printed form.
        form: "corrected" or "printed".

    Returns:
        A lower bound on the largest over supports of the smallest loss; 0 where it says nothing.
    """
    require_parity(n, k, "Theorem 5.6")
    require_positive("Theorem 5.6", norm=norm)
    require_form(form)
    scale = 1
    if form == "printed":
        require(dimension is not None and dimension > 0, "dimension must be given (Theorem 5.6)", dimension=dimension)
        scale = dimension or 1
    return max(0.0, 1 - norm * math.sqrt(scale / binomial(n, k)))

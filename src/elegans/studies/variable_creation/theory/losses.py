"""The losses on a score f and a label y = -1 or 1 that the thesis prints with slips."""

from typing import Any

import numpy as np

from elegans.calculators.domain import Form, require_form


def correlation_loss(label: Any, score: Any, form: Form = "corrected") -> np.ndarray:
    """Return the correlation loss, which falls as the score agrees more with the label.

    As printed, without the sign, it is smallest where every answer is wrong.

    Formula: -y f; printed: y f.
    Source: thesis, section 3.1.

    Args:
        label: y, -1 or 1.
        score: f, of a shape that goes with it.
        form: "corrected" or "printed".

    Returns:
        float64 of the common shape.
    """
    require_form(form)
    product = np.asarray(label, float) * np.asarray(score, float)
    return np.asarray(-product if form == "corrected" else product)


def logistic_loss(label: Any, score: Any, form: Form = "corrected") -> np.ndarray:
    """Return the logistic loss.

    The printed form is the same function, but overflows where y f is beyond 709 in size.

    Formula: log(1 + exp(-y f)); printed: -log(exp(y f) / (1 + exp(y f))).
    Source: thesis, section 3.1.

    Args:
        label: y, -1 or 1.
        score: f, of a shape that goes with it.
        form: "corrected" or "printed".

    Returns:
        float64 of the common shape.
    """
    require_form(form)
    product = np.asarray(label, float) * np.asarray(score, float)
    if form == "corrected":
        return np.asarray(np.logaddexp(0, -product))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(-np.log(np.exp(product) / (1 + np.exp(product))))

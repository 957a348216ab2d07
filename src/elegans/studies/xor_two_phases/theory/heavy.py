"""XOR: heavy neurons, the signal-heavy condition, and the marks that separate the phases of a run.

Source of all functions: Glasgow (2024), section 4 and Definition 4.2.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: w, shape (p, d).
    output: a, shape (p,).
    basis: an orthonormal Q where the inputs are Q times signs.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from elegans.calculators.domain import Extended, Form, require, require_form, require_positive
from elegans.studies.xor_two_phases.theory.network import (
    ROOT2,
    network,
    plane,
    rotated,
    xor_margins,
    xor_points,
    xor_sizes,
)

_ROUNDING = 1e-6
"""The relative rounding error allowed in |a| <= ||w||: networks are trained in single precision."""

_LARGEST_ZETA = 1e6


def xor_heavy_margins(weight: Any, output: Any, members: Any, basis: Any = None) -> np.ndarray:
    """Return the margins from a set of neurons only, at the clusters that they face.

    For +-mu2 these neurons have a < 0: the printed definition, with a in place of |a|, has the wrong sign there.

    Formula: gt_mu = E[1{w in S, w_sig . mu > 0} |a| relu(w . mu)].
    Source: Glasgow (2024), Definition 4.2 and D.1.

    Args:
        members: which neurons belong to S, bool of shape (p,).

    Returns:
        float64 of shape (4,), for mu1, -mu1, mu2, -mu2.
    """
    weights, outputs = network(weight, output)
    along = plane(rotated(weights, basis))
    chosen = np.asarray(members, bool)
    require(chosen.shape == outputs.shape, "members must have shape (p,)", shape=chosen.shape, p=len(outputs))
    positive, negative = np.where(outputs >= 0, outputs, 0), np.where(outputs < 0, outputs, 0)
    return np.concatenate([xor_points(along, positive, chosen)[:2], xor_points(along, negative, chosen)[2:]])


class SignalHeaviness(NamedTuple):
    """Whether a network is signal-heavy, condition by condition.

    Args:
        members: the largest set S of neurons whose signal outweighs the rest, bool of shape (p,).
        margins: their margins at the four clusters, shape (4,).
        light: E[1{w not in S} ||w||^2], which must be at most zeta times the smallest of these margins.
        outside: whether it is.
        balanced: whether E ||w||^2 <= E a^2 + zeta H.
        bounded: whether E ||w||^2 <= 2 H.
        ordered: whether |a| <= ||w|| for all neurons.
        small: whether zeta <= exp(-10 H); True in the relaxed version, which does not require it.
        holds: whether all of these hold.
    """

    members: np.ndarray
    margins: np.ndarray
    light: float
    outside: bool
    balanced: bool
    bounded: bool
    ordered: bool
    small: bool
    holds: bool


def xor_signal_heavy(
    weight: Any,
    output: Any,
    zeta: float,
    *,
    scale: float | None = None,
    kappa: float | None = None,
    basis: Any = None,
) -> SignalHeaviness:
    """Return whether a network is (zeta, H)-signal-heavy, with the largest possible set S, which is the best choice.

    A larger S raises the margins and lowers the mass outside. The relaxed version has kappa in place of exp(6 H) and no
    condition zeta <= exp(-10 H), which no network of laboratory size meets. The third condition is printed as one
    chain, E ||w||^2 <= E a^2 + zeta H <= 2 H; here 2 H bounds E ||w||^2, which differs by at most zeta H and keeps the
    condition monotone in zeta.

    Formula: (i) exp(6 H) ||w_perp|| + ||w_opp|| <= zeta ||w_sig|| on S; (ii) E[1{w not in S} ||w||^2] <= zeta gt_min;
        (iii) E ||w||^2 <= min(E a^2 + zeta H, 2 H); (iv) |a| <= ||w||; zeta <= exp(-10 H).
    Source: Glasgow (2024), Definition 4.2; the choice of S and the relaxed version derived here.

    Args:
        zeta: above 0.
        scale: H, at least 1; None for the smallest that (iii) allows, max(1, E ||w||^2 / 2).
        kappa: the factor that replaces exp(6 H) in the relaxed version; None for the condition as defined.
    """
    require_positive("signal-heavy", zeta=zeta)
    return _Heavy(weight, output, scale, kappa, basis).at(zeta)


def xor_smallest_zeta(
    weight: Any, output: Any, *, scale: float | None = None, kappa: float | None = None, basis: Any = None
) -> Extended:
    """Return the smallest zeta for which conditions (i) to (iv) of a signal-heavy network hold, by bisection.

    The definition also requires it to be at most exp(-10 H).

    Formula: inf { zeta : (i) to (iv) hold }, to a relative 1e-9.
    Source: Glasgow (2024), Definition 4.2; we added the bisection: see ``xor_signal_heavy``.

    Args:
        scale: H, at least 1; None for the smallest that (iii) allows.
        kappa: the factor that replaces exp(6 H); None for exp(6 H) itself.

    Returns:
        zeta; infinity where none up to a million suffices.
    """
    heavy = _Heavy(weight, output, scale, kappa, basis)
    low, high = 1e-12, _LARGEST_ZETA
    if not heavy.meets(high):
        return math.inf
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if heavy.meets(middle) else (middle, high)
    return high


class _Heavy:
    """A network's quantities in the signal-heavy condition, for any zeta."""

    def __init__(self, weight: Any, output: Any, scale: float | None, kappa: float | None, basis: Any) -> None:
        weights, self.output = network(weight, output)
        self.sizes = xor_sizes(weights, self.output, basis)
        self.square = (weights**2).sum(axis=1)
        self.scale = max(1.0, float(self.square.mean()) / 2) if scale is None else scale
        require(self.scale >= 1, "H must be at least 1 (signal-heavy)", H=self.scale)
        require(kappa is None or kappa > 0, "kappa must be positive (signal-heavy)", kappa=kappa)
        self.relaxed = kappa is not None
        factor = math.exp(6 * self.scale) if kappa is None else kappa
        self.burden = factor * self.sizes.rest + self.sizes.opposite
        self.reach = np.abs(self.output) * ROOT2 * self.sizes.signal / len(self.output)

    def at(self, zeta: float) -> SignalHeaviness:
        members = self.burden <= zeta * self.sizes.signal
        margins = np.array([self.reach[members & (self.sizes.cluster == mu)].sum() for mu in range(4)])
        light = float(self.square[~members].sum() / len(self.square))
        total, outer = float(self.square.mean()), float((self.output**2).mean())
        conditions = {
            "outside": light <= zeta * float(margins.min()),
            "balanced": total <= outer + zeta * self.scale,
            "bounded": total <= 2 * self.scale * (1 + _ROUNDING),
            "ordered": bool((np.abs(self.output) <= np.sqrt(self.square) * (1 + _ROUNDING)).all()),
            "small": self.relaxed or zeta <= math.exp(-10 * self.scale),
        }
        return SignalHeaviness(members, margins, light, **conditions, holds=all(conditions.values()))

    def meets(self, zeta: float) -> bool:
        found = self.at(zeta)
        return found.outside and found.balanced and found.bounded and found.ordered


class XorMarks(NamedTuple):
    """How far a run has progressed through its phases.

    Args:
        share: the share of all neurons whose signal exceeds the rest, by cluster, shape (4,). The signal is found once
            each is at least 0.1.
        margins: the margins from these neurons, shape (4,).
        noise: E ||w_perp + w_opp||^2.
        dominance: the smallest of these margins over the noise. The signal dominates once it is at least 10.
        fit: the network's smallest margin. The data are fit once it is at least 1.
    """

    share: np.ndarray
    margins: np.ndarray
    noise: float
    dominance: Extended
    fit: float


def xor_marks(weight: Any, output: Any, basis: Any = None) -> XorMarks:
    """Return the quantities whose levels mark the phases of a run.

    The theorem's own marks are vacuous below d = 3e5; these are measured ones.

    Formula: S = {w : ||w_sig|| > ||w_perp + w_opp||}; share_mu = P(w in S, w_sig . mu > 0);
        dominance = min gt_mu / E ||w_perp + w_opp||^2.
    Source: Glasgow (2024), Lemma C.1 (3) and Equation 4.1; as marks derived here.
    """
    weights, outputs = network(weight, output)
    sizes = xor_sizes(weights, outputs, basis)
    noise = sizes.opposite**2 + sizes.rest**2
    members = sizes.signal**2 > noise
    share = np.array([(members & (sizes.cluster == mu)).mean() for mu in range(4)])
    margins = xor_heavy_margins(weights, outputs, members, basis)
    fit = float(xor_margins(weights, outputs, basis).min())
    total = float(noise.mean())
    return XorMarks(share, margins, total, float(margins.min()) / total if total > 0 else math.inf, fit)


def xor_least_slope(heaviness: float, form: Form = "corrected") -> float:
    """Return a lower bound on the slope at any cluster, from the network's total weight.

    The printed bound ignores that the clusters have norm sqrt(2): a network of neurons along one of them violates it.

    Formula: g_min >= exp(-sqrt(2) H_rho); printed: exp(-H_rho).
    Source: Glasgow (2024), Equation D.1.

    Args:
        heaviness: H_rho = E ||a w||, as ``xor_heaviness`` gives it.
    """
    require(heaviness >= 0, "heaviness must be at least 0", heaviness=heaviness)
    require_form(form)
    return math.exp(-(ROOT2 if form == "corrected" else 1) * heaviness)

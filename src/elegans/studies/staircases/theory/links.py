"""Functions of one normal number: targets and neurons of one direction, with derivatives and Hermite coefficients.

``h1`` to ``h8`` are Hermite polynomials with E h^2 = 1; ``bump`` is z^2 exp(-z^2), ``cosine`` cos 2z, ``step3`` the
sign of h3. ``relu`` may have a bias: relu(z + b).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.polynomial import hermite_e

from elegans.arguments import AtMost
from elegans.calculators.domain import require

Degree = Annotated[int, AtMost(60)]
LARGEST_DEGREE = 8
END = 12.0
"""Beyond this, a normal number has a probability below 1e-32."""
NODES = 60
"""Nodes of Gauss-Legendre quadrature in each interval on which a link is smooth, at most 2 wide."""


@dataclass(frozen=True)
class Link:
    """A function of one number.

    Args:
        name: its name.
        value: the function, on arrays.
        slope: its derivative, on arrays.
        breaks: where it, its derivative or the sign of its derivative changes its form, in rising order.
        flat: whether it is constant between breaks.
    """

    name: str
    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    breaks: tuple[float, ...] = ()
    flat: bool = False


def link_named(name: str, bias: float = 0.0) -> Link:
    """Return a link by its name.

    Raises:
        TheoryError: the name is unknown, or a bias is given for another link than relu.
    """
    require(bias == 0 or name == "relu", "only relu has a bias", link=name, bias=bias)
    if name == "relu":
        return Link("relu", lambda z: np.maximum(z + bias, 0.0), lambda z: (z + bias > 0).astype(float), (-bias,))
    known = _links()
    require(name in known, f"link must be one of {', '.join([*known, 'relu'])}", link=name)
    return known[name]


@cache
def _links() -> dict[str, Link]:
    links = [_hermite(degree) for degree in range(1, LARGEST_DEGREE + 1)]
    cubic = _hermite(3)
    root = math.sqrt(3)
    quarters = tuple(float(i) * math.pi / 2 for i in range(-7, 8))
    links += [
        Link("tanh", np.tanh, lambda z: 1 - np.tanh(z) ** 2),
        Link("abs", np.abs, np.sign, (0.0,)),
        Link("square", np.square, lambda z: 2 * z, (0.0,)),
        Link("cosine", lambda z: np.cos(2 * z), lambda z: -2 * np.sin(2 * z), quarters),
        Link(
            "bump", lambda z: z**2 * np.exp(-(z**2)), lambda z: 2 * z * (1 - z**2) * np.exp(-(z**2)), (-1.0, 0.0, 1.0)
        ),
        Link("step3", lambda z: np.sign(cubic.value(z)), np.zeros_like, (-root, 0.0, root), flat=True),
    ]
    return {link.name: link for link in links}


def _hermite(degree: int) -> Link:
    series = np.zeros(degree + 1)
    series[degree] = 1 / math.sqrt(math.factorial(degree))
    derived = hermite_e.hermeder(series)
    turns = tuple(float(root) for root in np.sort(hermite_e.hermeroots(derived))) if degree > 1 else ()
    return Link(f"h{degree}", lambda z: hermite_e.hermeval(z, series), lambda z: hermite_e.hermeval(z, derived), turns)


def hermite_value(degree: int, z: Any) -> np.ndarray:
    """Return the Hermite polynomial of a degree with E h^2 = 1 at numbers of any shape."""
    series = np.zeros(degree + 1)
    series[degree] = 1 / math.sqrt(math.factorial(degree))
    return np.asarray(hermite_e.hermeval(np.asarray(z, float), series))


@cache
def normal_rule(breaks: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights that integrate functions of a normal number that are smooth between breaks."""
    edges = sorted({-END, END, *np.arange(-END, END, 2.0).tolist(), *(b for b in breaks if abs(b) < END)})
    x, w = np.polynomial.legendre.leggauss(NODES)
    low, high = np.array(edges[:-1])[:, None], np.array(edges[1:])[:, None]
    z = ((high + low) / 2 + (high - low) / 2 * x).ravel()
    weight = ((high - low) / 2 * w).ravel() * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return z, weight

"""How all figures look: sizes of type, colours that every reader can tell apart, how numbers are written."""

from typing import Any

import matplotlib

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, in an order whose neighbours differ in lightness too."""
GREY = "0.4"
SMALL, MEDIUM, LARGE = 6.5, 7.5, 8.5
"""Sizes of type in points, for figures printed at 7 inches."""

RATES = matplotlib.colormaps["viridis"]


def short(number: float) -> str:
    """Return a size as it is written on an axis: ``300``, ``1k``, ``2.5k``, ``1M``."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def ink(colour: Any) -> str:
    """Return black or white, whichever can be read on a colour (relative luminance of WCAG 2)."""
    red, green, blue = (_linear(part) for part in matplotlib.colors.to_rgb(colour))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "white"


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

"""Figures with maps of colours for dark pages, on which others are shown with their lightness turned round.

Turned round, a map's key would contradict the colours that readers know, so that these figures are drawn a second time:
ink and paper change places, and the colours of data stay.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import Collection, QuadMesh
from matplotlib.colors import to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

PAPER, INK = (0.118, 0.129, 0.161), (0.87, 0.87, 0.87)
"""The colours of a dark page and of what is written on it."""


def has_map(figure: Figure) -> bool:
    """Return whether a figure shows values as colours."""
    return any(_maps(ax) for ax in figure.axes)


def darken(figure: Figure) -> None:
    """Recolour a figure for a dark page, but for its maps and what is written on their cells."""
    figure.canvas.draw()
    written = [text for ax in figure.axes if _maps(ax) for text in ax.texts if _on_cell(text)]
    for artist in figure.findobj():
        if isinstance(artist, Text):
            if artist not in written:
                artist.set_color(_turned(artist.get_color()))
        elif isinstance(artist, Line2D):
            for part in ("color", "markerfacecolor", "markeredgecolor"):
                _turn(artist, part)
        elif isinstance(artist, Patch):
            for part in ("facecolor", "edgecolor"):
                _turn(artist, part)
        elif isinstance(artist, Collection):
            for part in ("edgecolor", *(("facecolor",) if artist.get_array() is None else ())):
                colours = to_rgba_array(getattr(artist, f"get_{part}")())
                artist.set(**{part: [_turned(colour) for colour in colours]})


def _maps(ax: Axes) -> list[Any]:
    return [one for one in ax.get_children() if isinstance(one, QuadMesh | AxesImage)]


def _on_cell(text: Text) -> bool:
    """Return whether a text lies in its panel, and has the colour that is chosen to be readable on a coloured cell."""
    box = text.get_window_extent()
    inside = text.axes is not None and text.axes.bbox.contains((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    return inside and text.get_color() in ("black", "white")


def _turn(artist: Any, part: str) -> None:
    colour = getattr(artist, f"get_{part}")()
    if not (isinstance(colour, str) and colour in ("none", "auto")):
        artist.set(**{part: _turned(colour)})


def _turned(colour: Any) -> tuple[float, float, float, float]:
    """Return a grey colour with its lightness turned round, and any other a little lighter."""
    *parts, alpha = to_rgba(colour)
    if max(parts) - min(parts) > 0.1:
        red, green, blue = (0.25 + 0.75 * part for part in parts)
    else:
        red, green, blue = (ink + (paper - ink) * sum(parts) / 3 for ink, paper in zip(INK, PAPER, strict=True))
    return red, green, blue, alpha

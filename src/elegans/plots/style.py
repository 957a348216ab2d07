"""House style of figures: font sizes, colours that all readers can distinguish, formats of numbers."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation, Text
from matplotlib.transforms import ScaledTranslation

from elegans.display import in_notebook
from elegans.errors import ExperimentError, article

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, ordered so that neighbours differ in lightness too."""
GREY = "0.4"
SMALL, MEDIUM, LARGE = 6.5, 7.5, 8.5
"""Font sizes in points, for figures printed at 7 inches."""
SPACING = 1.2
"""The distance of a title's lines, in their height."""
LETTERS = 20
"""How many letters of the small size fit into an inch."""

RATES = matplotlib.colormaps["viridis"]
"""Colour map of quantities without a sign."""
DIVERGING = matplotlib.colormaps["RdBu_r"]
"""Colour map of signed quantities: white is 0, red is positive."""
GRAMS = dict(zip(("unigram", "bigram", "trigram", "4-gram", "uniform"), COLOURS, strict=False))
"""Colours of n-gram predictions, by n."""
LAYER_COLOURS = (COLOURS[2], COLOURS[3])
"""Colours of a network's first layer, or what replaces it, and its second."""


SomeAxes = Axes | np.ndarray | Sequence[Axes]
"""Axes of a figure: one, an array of any shape, or a list."""


class HouseFigure(Figure):
    """A figure that a notebook displays as the value of a cell."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of a given size in inches, for a plot that returns its axes.

    In notebooks it is registered with pyplot, which displays it under the cell; elsewhere nothing global refers to it.
    """
    if not in_notebook():
        return HouseFigure(figsize=(width, height), layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained", FigureClass=HouseFigure)


def panels(
    rows: int, columns: int, *, height: float = 2.1, width: float = 7.0, **subplots: Any
) -> tuple[Figure, np.ndarray]:
    """Return a new figure and its axes in house style, an array of shape (rows, columns); sizes in inches."""
    figure = HouseFigure(figsize=(width, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **subplots)
    in_house_style(*axes.flat)
    return figure, axes


def in_house_style(*axes: Axes) -> None:
    """Give new axes the house style's sizes of labels and ticks, and no upper and right spine."""
    for ax in axes:
        ax.xaxis.label.set_fontsize(MEDIUM)
        ax.yaxis.label.set_fontsize(MEDIUM)
        if ax.name == "rectilinear":
            despine(ax)


def title_panels(axes: Any, findings: Sequence[str], setting: str = "") -> None:
    """Title the panels in reading order with their findings, after a bold letter where there are several.

    Args:
        axes: the panels.
        findings: one per panel.
        setting: the task, the networks and the intervals, above all panels.
    """
    for ax, letter, finding in zip(np.atleast_1d(axes).ravel(), "abcdefgh", findings, strict=False):
        title = rf"$\bf{{{letter}}}$  {finding}" if len(findings) > 1 else finding
        ax.set_title(title, loc="left", fontsize=MEDIUM)
    if setting:
        figure = figure_of(axes)
        lines = _wrapped(figure, setting, SMALL, LETTERS)
        figure.suptitle(lines, x=0.01, ha="left", fontsize=SMALL, color=GREY)


def title_figure(figure: Figure, finding: str, task: str) -> None:
    """Write a figure's finding above its panels and, in a smaller grey line below it, the task.

    The figure grows by the height of these lines, so that its panels keep theirs.

    Args:
        figure: the figure, whose layout is constrained.
        finding: what the figure shows, a sentence without a full stop; it is wrapped to the figure's width.
        task: what was trained on what, in a line or two.
    """
    task = _wrapped(figure, task, SMALL, 21)
    title = _write_finding(figure, finding, room="\n" * (task.count("\n") + 1))
    style: dict[str, Any] = {"fontsize": SMALL, "linespacing": SPACING * LARGE / SMALL, "color": GREY}
    figure.add_artist(Annotation(task, (0, 0), xycoords=title, ha="left", va="bottom", **style))
    lines = title.get_text().count("\n") + 1
    figure.set_figheight(figure.get_figheight() + 1.16 * SPACING * LARGE / 72 * lines)


def withhold_finding(figure: Figure, instead: str) -> None:
    """Write a text instead of a finding that ``title_figure`` has written, if there is one; the task stays."""
    title = figure.get_suptitle()
    if title.endswith("\n"):
        _write_finding(figure, instead, room=title[len(title.rstrip("\n")) :])


def _write_finding(figure: Figure, finding: str, room: str) -> Text:
    text = _wrapped(figure, finding, LARGE, 15.5) + room
    return figure.suptitle(text, x=0.01, ha="left", fontsize=LARGE, linespacing=SPACING)


def note_empty_panels(figure: Figure, note: str) -> None:
    """Write a grey note into panels that show nothing, instead of ticks."""
    for ax in figure.axes:
        shows = np.isfinite(ax.dataLim.get_points()).any() or ax.texts or ax.tables or ax.get_legend()
        if ax.axison and not shows:
            ax.tick_params(which="both", bottom=False, left=False, labelbottom=False, labelleft=False)
            ax.text(0.5, 0.5, note, transform=ax.transAxes, ha="center", va="center", fontsize=SMALL, color=GREY)


def _wrapped(figure: Figure, text: str, size: float, letters: float) -> str:
    """Return a text in lines of so many letters an inch, or of fewer where such lines are wider than the figure."""
    for most in range(round(letters * figure.get_figwidth()), 1, -1):
        lines = textwrap.fill(text, most)
        drawn = figure.text(0, 0, lines, fontsize=size)
        width = drawn.get_window_extent().width
        drawn.remove()
        if width < 0.98 * figure.bbox.width:
            break
    return lines


def figure_legend(figure: Figure, *axes: Axes, columns: int = 3) -> None:
    """Put one legend below a figure, with every label of its panels once, in fewer columns if it would be too wide."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    style: dict[str, Any] = {"loc": "outside lower center", "fontsize": SMALL, "frameon": False}
    for count in range(columns, 0, -1):
        legend = figure.legend(list(handles.values()), list(handles), ncols=count, **style)
        if count == 1 or legend.get_window_extent().width < figure.bbox.width:
            return
        legend.remove()


def note_below(figure: Figure, text: str) -> None:
    """Write a grey line below a figure: after its own note, or above its legend, since a layout puts both at the edge.

    The figure becomes higher by the line.
    """
    figure.set_figheight(figure.get_figheight() + 0.2)
    if not figure.get_supxlabel() and figure.legends:
        figure.legends[-1].set_title(text, prop=FontProperties(size=SMALL))
        figure.legends[-1].get_title().set_color(GREY)
        return
    figure.supxlabel("\n".join(filter(None, (figure.get_supxlabel(), text))), fontsize=SMALL, color=GREY)


def panel_legend(ax: Axes, columns: int = 2, **style: Any) -> None:
    """Put a panel's legend, if it has labels, below the label of its axis."""
    if not ax.get_legend_handles_labels()[1]:
        return
    below = ax.transAxes + ScaledTranslation(0, -0.33, figure_of(ax).dpi_scale_trans)
    style = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "handlelength": 1.4, **style}
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns, **style)


def figure_of(axes: SomeAxes) -> Figure:
    """Return the figure of one axes or of an array of axes."""
    return cast(Figure, np.atleast_1d(np.asarray(axes, object)).ravel()[0].get_figure(root=True))


def short(number: float) -> str:
    """Return a size as written on an axis: ``300``, ``1k``, ``2.5k``, ``1M``."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def name_of(parameter: str, value: Any) -> str:
    """Return a parameter and its value in words: ``sparse initialisation (2 non-zeros)``, ``n = 50``."""
    if parameter == "model.init":
        name, _, nonzeros = str(value).partition(":")
        return f"{name} initialisation" + (f" ({nonzeros} non-zeros)" if nonzeros else "")
    if parameter in ("network", "problem"):
        return str(value)
    text = f"{value:g}" if isinstance(value, float) else f"{value}"
    return f"{parameter.rpartition('.')[2].replace('_', ' ')} = {text}"


def contrast_colour(colour: Any) -> str:
    """Return black or white, whichever is readable on a colour (relative luminance of WCAG 2)."""
    parts = matplotlib.colors.to_rgb(colour)
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "white"


def shades(count: int) -> list[Any]:
    """Return a given number of colours from dark to light, none too light to see."""
    return [RATES(0.88 * index / max(count - 1, 1)) for index in range(count)]


def logarithmic(ax: Axes, which: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic, with numbers as sizes; 2 and 5 are labelled too if it spans little over a decade.

    An axis that spans less than a decade has 2, 3, 5 and 7, and one that spans less than a factor of two all numbers.

    Where it begins below 1/1000 its numbers are powers of ten.
    """
    axis: Any = getattr(ax, f"{which}axis")
    ax.set(**{f"{which}scale": "log"})
    low, high = axis.get_view_interval()
    if low < 1e-3:
        return
    axis.set_major_formatter(lambda value, _: short(value))
    labelled = "123456789" if high < 2 * low else "2357" if high < 9 * low else "25" if high < 50 * low else ""

    def minor(value: float, _: Any) -> str:
        digit, more = f"{value:.3e}"[0], f"{value:.3e}"[2:5]  # a short axis has numbers such as 420, too
        return short(value) if digit in labelled or more != "000" else ""

    axis.set_minor_formatter(minor)
    ax.tick_params(axis=which, which="minor", labelsize=SMALL, length=1)


def percent(ax: Axes) -> None:
    """Show fractions on the y axis as percentages."""
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")


def despine(ax: Axes) -> None:
    """Remove the upper and right spines, and make ticks small."""
    if ax.name != "rectilinear":
        raise ExperimentError(f"a figure must be drawn on rectangular axes: got {article(type(ax).__name__)}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize=SMALL)
    ax.tick_params(length=2)

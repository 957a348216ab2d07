"""Live views, redrawn in place on a terminal and in a notebook; plain lines elsewhere."""

import html
import io
import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Self, TypeVar

from elegans.errors import shown

Class = TypeVar("Class")
PLAIN_SHARE, PLAIN_MOST = 0.05, 60.0
"""Without a terminal, the seconds between two lines: this share of the time so far, and at most so many."""
LIVE_EVERY = 0.1  # seconds between two redraws of a view


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return hasattr(shell, "kernel")


def wanted(progress: bool | None, watched: bool) -> bool:
    """Return whether to show progress: as requested, or else in a notebook or terminal that no callback watches."""
    if progress is not None:
        return progress
    main = threading.current_thread() is threading.main_thread()
    return main and not watched and (in_notebook() or sys.stderr.isatty())


def card(title: str, facts: Mapping[str, Any], drawing: str = "") -> str:
    """Return the HTML that a notebook shows for an object: a title, facts in two columns, and a drawing.

    Args:
        title: shown in bold.
        facts: values by name, escaped; None is left out.
        drawing: HTML to show below them, not escaped.
    """
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<div><b>{html.escape(title)}</b><table>{rows}</table>{drawing}</div>"


def displayed(cls: type[Class]) -> type[Class]:
    """Make a dataclass or named tuple print in one line, arrays and tables by their shapes, and display in notebooks.

    If the class defines its own card, that card stays. A class with its own representation does not need this
    decorator.
    """
    names: tuple[str, ...] = getattr(cls, "_fields", None) or tuple(vars(cls)["__dataclass_fields__"])

    def representation(result: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{name}={_short(getattr(result, name))}' for name in names)})"

    def html_card(result: Any) -> str:
        facts = {name: getattr(result, name) for name in names}
        return card(cls.__name__, {name: None if value is None else _short(value) for name, value in facts.items()})

    cls.__repr__ = representation  # type: ignore[method-assign]
    if not hasattr(cls, "_repr_html_"):
        cls._repr_html_ = html_card  # type: ignore[attr-defined]
    return cls


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} {shape}" if isinstance(shape, tuple) and shape else shown(value)


def sparkline(x: Sequence[float], y: Sequence[float], label: str) -> str:
    """Return a curve as a small SVG drawing, scaled from 0 to its largest value, with its first and last values.

    Args:
        x: positions, in non-decreasing order.
        y: the value at each position; values that are not finite are left out.
        label: the name of the curve.
    """
    points = [(position, value) for position, value in zip(x, y, strict=True) if math.isfinite(value)]
    if len(points) < 2:
        return ""
    width, height = 240, 60
    right, top = points[-1][0] or 1, max(value for _, value in points) or 1
    line = " ".join(f"{at / right * width:.1f},{height - value / top * height:.1f}" for at, value in points)
    caption = html.escape(f"{label}: {points[0][1]:.3g} to {points[-1][1]:.3g}")
    size = f"width='{width}' height='{height}' viewBox='0 -2 {width} {height + 4}'"
    curve = f"<polyline points='{line}' fill='none' stroke='#0072B2' stroke-width='1.5'/>"
    drawing = f"<svg {size} role='img' aria-label='{caption}'>{curve}</svg>"
    return f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>"


@cache
def note(text: str) -> None:
    """Write a line to stderr, once per process."""
    print(text, file=sys.stderr)  # noqa: T201 (meant for people)


class LiveView:
    """A view that is redrawn in place within a ``with`` block, on a terminal or in a notebook.

    Args:
        console: where to write; by default the notebook, or else stderr.
        transient: whether the display is cleared at the end.
        plain_every: seconds between plain lines elsewhere, at first; a long run writes one at most every minute.

    Attributes:
        live: rich's display, or None where there is no terminal.
    """

    def __init__(self, console: Any = None, *, transient: bool = False, plain_every: float = 5.0) -> None:
        from rich.console import Console
        from rich.live import Live

        self.notebook = console is None and in_notebook()
        options: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True, "force_jupyter": False}
        self.console: Console = console or Console(stderr=True, **options)
        in_place = self.console.is_terminal and not self.notebook
        self.live = Live(console=self.console, auto_refresh=False, transient=transient) if in_place else None
        self.every = LIVE_EVERY if self.live or self.notebook else plain_every
        self.shown_at = self.started_at = time.monotonic()
        self._last = ""
        self._cell: Any = None

    def __enter__(self) -> Self:
        """Start drawing."""
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop drawing."""
        if self.live:
            self.live.stop()

    def is_due(self) -> bool:
        """Return whether the view is due to be redrawn; if so, the interval starts again."""
        now = time.monotonic()
        if now - self.shown_at < self.every:
            return False
        self.shown_at = now
        return True

    def show(self, view: Any, line: str) -> None:
        """Show a rich renderable, or a plain line where nothing can be redrawn, unless it is the last one again."""
        if self.live:
            self.live.update(view, refresh=True)
        elif self.notebook:
            self._show_in_cell(view)
        elif line != self._last:
            self._last = line
            self.every = max(self.every, min(PLAIN_MOST, PLAIN_SHARE * (time.monotonic() - self.started_at)))
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show_in_cell(self, view: Any) -> None:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120, force_jupyter=False)
        console.print(view, end="")
        text = {"text/plain": console.file.getvalue()}  # type: ignore[attr-defined]
        if self._cell is None:
            display = sys.modules["IPython"].display.display
            self._cell = display(text, raw=True, display_id=True)
        else:
            self._cell.update(text, raw=True)


def span(seconds: float) -> str:
    """Return a duration in the unit that suits it, as everywhere: ``2.5 s``, ``12 min``."""
    if 0 < seconds < 0.0995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 99.5:
        return f"{seconds:.1f} s" if 0 < seconds < 9.95 else f"{seconds:.0f} s"
    for unit, name, end in ((60, "min", 99.5), (3600, "h", 47.5)):
        if seconds < end * unit:
            return f"{seconds / unit:.{int(seconds < 9.95 * unit)}f} {name}"
    return f"{seconds / 86400:,.{int(seconds < 9.95 * 86400)}f} days"


def remaining(seconds: float) -> str:
    """Return the time left and, from a minute on, when it ends: ``13 min left, until 14:32``."""
    if seconds < 60:
        return f"{span(seconds)} left"
    now = datetime.now()
    end = now + timedelta(seconds=min(seconds, 10**9))
    day = "" if end.date() == now.date() else f" on {end:%d %b %Y}"
    return f"{span(seconds)} left, until {end:%H:%M}{day}"

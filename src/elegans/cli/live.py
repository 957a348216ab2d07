"""What all views share: a live display where there is a terminal, plain lines elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live


class LiveView:
    """A view that draws over itself while it is entered, on a terminal.

    Args:
        console: where to write.
        transient: whether the display is cleared at the end.

    Attributes:
        live: rich's display, or None where there is no terminal.
    """

    def __init__(self, console: Console, *, transient: bool = False) -> None:
        self.console = console
        self.live = Live(console=console, auto_refresh=False, transient=transient) if console.is_terminal else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as views leave it."""
        if self.live:
            self.live.stop()

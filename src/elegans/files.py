"""Paths as users give them: checked before they are used, and files that are whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elegans.errors import ElegansError, printable

LONGEST_PATH = 4096
"""Characters of a path."""


def checked_path(path: str | Path, what: str, error: type[ElegansError]) -> Path:
    """Return a path that a file may have, the user's home in place of ``~``.

    Args:
        path: as it was given.
        what: what it is the path of, for the error: ``a store``.
        error: what is raised.
    """
    text = str(path)
    if not text or (isinstance(path, Path) and not path.name and path == Path()):
        raise error(f"{what} must have a name: {text!r}")
    if "\0" in text or len(text) > LONGEST_PATH:
        raise error(f"{what} must be a path of at most {LONGEST_PATH} characters and no NUL: {printable(text[:40])!r}")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise error(f"{what} must lie in a home folder that exists: {printable(text)!r}") from None


def readable(path: str | Path, what: str, error: type[ElegansError]) -> Path:
    """Return the path of a regular file; a pipe or a device would never end."""
    file = checked_path(path, what, error)
    try:
        if file.exists() and not file.is_file():
            raise error(f"{what} must be a regular file: {printable(str(file))}")
    except OSError as reason:
        raise error(f"{what} must be readable: {printable(str(file))} ({reason.strerror})") from None
    return file


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the path of a new file beside one, which takes its place in the end: it is whole, or it is as it was."""
    place = Path(os.path.realpath(path))  # unlike Path.resolve, of a loop of links too
    draft = place.with_name(f".{place.name[:200]}.{os.getpid()}")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        if place.exists():
            draft.chmod(place.stat().st_mode & 0o7777)
        draft.replace(place)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)

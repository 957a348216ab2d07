"""Checks of paths that users give, and files that are written completely or not at all."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elegans.errors import ElegansError, printable

LONGEST_PATH = 4096  # maximum number of characters of a path
STORE_ENDINGS = ("", "-wal", "-shm", "-journal")  # what follows a store's name in the names of its files


def checked_path(path: str | Path, what: str, error: type[ElegansError]) -> Path:
    """Return a valid path, with ``~`` expanded to the user's home.

    Args:
        path: the path as given.
        what: what the path names, for the message: ``a store``.
        error: the error to raise.
    """
    text = str(path)
    if not text or (isinstance(path, Path) and not path.name and path == Path()):
        raise error(f"{what} must have a name: {text!r}")
    if "\0" in text or len(text) > LONGEST_PATH:
        raise error(f"{what} must be a path of at most {LONGEST_PATH} characters and no NUL: {printable(text[:40])!r}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise error(f"{what} must be a path that this system can encode: {printable(text)}") from None
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise error(f"{what} must lie in a home folder that exists: {printable(text)!r}") from None


def failure(error: OSError) -> str:
    """Return the file that an operation failed for, with the reason: ``folder/file (Permission denied)``."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{printable(str(error.filename))} ({reason})"


def readable(path: str | Path, what: str, error: type[ElegansError]) -> Path:
    """Return the path of a regular file; reading a pipe or a device might never end."""
    file = checked_path(path, what, error)
    try:
        if file.exists() and not file.is_file():
            raise error(f"{what} must be a regular file: {printable(str(file))}")
    except OSError as reason:
        raise error(f"{what} must be readable: {printable(str(file))} ({reason.strerror})") from None
    return file


def writable(
    path: str | Path,
    what: str,
    error: type[ElegansError],
    store: str | Path | None = None,
    inputs: Iterable[Path] = (),
) -> Path:
    """Return the path of a file to be written: a new file or a regular one, through links too, and not an input.

    Args:
        path: the path as given.
        what: what the path names, for the message: ``a report``.
        error: the error to raise.
        store: the store that is read, a file or a URL; SQLite's files beside it are part of it.
        inputs: further files that are read.
    """
    file = checked_path(path, what, error)
    target, label = Path(os.path.realpath(file)), printable(str(file))
    parts = [Path(f"{os.path.realpath(store)}{ending}") for ending in STORE_ENDINGS] if store is not None else []
    try:
        if target.exists() and not target.is_file():
            raise error(f"{what} must go to a regular file: {label}")
        for source in (*parts, *inputs):
            if target == source or (target.exists() and source.exists() and target.samefile(source)):
                kind = "store" if source in parts else "file"
                raise error(f"{what} must not go to the {kind} that it is made from: {label}")
    except OSError as reason:
        raise error(f"{what} must go to a writable file: {label} ({reason.strerror})") from None
    return file


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, and replace the file at the end: it is complete or unchanged.

    The temporary file has the same ending, by which libraries choose a format.
    """
    target = Path(os.path.realpath(path))  # unlike Path.resolve, it accepts a loop of links
    draft = target.with_name(f".{os.getpid()}.{target.name[-200:]}")
    try:
        yield draft
        with draft.open("rb") as complete:
            os.fsync(complete.fileno())
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o7777)
        draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)

"""Where a store is: a file, a server's database, or memory."""

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from elegans.errors import StoreError, printable, without_passwords
from elegans.files import checked_path


class Location(NamedTuple):
    """Where a store is.

    Args:
        address: its address for SQLAlchemy.
        file: the file of a store in SQLite; None for a server's database, and in memory.
        name: its name in messages, without a password.
        read_only: whether the address itself asks for reading only.
    """

    address: URL
    file: Path | None
    name: str
    read_only: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether it is an SQLite database in memory."""
        return self.file is None and self.address.get_backend_name() == "sqlite"


def locate(url: str | Path | None) -> Location:
    """Return the location of a store given by a path or URL (None: in memory).

    Raises:
        StoreError: it is neither a path nor a URL, or a URL of a file asks for more than reading only.
    """
    if url is None:
        return Location(make_url("sqlite://"), None, "memory")
    if isinstance(url, Path) or "://" not in url:
        file = checked_path(url, "a store", StoreError)
        return Location(URL.create("sqlite", database=str(file)), file, str(url))
    name = without_passwords(url)
    try:
        address = make_url(url)
        backend = address.get_backend_name()
    except (ArgumentError, ValueError):
        raise StoreError(f"a store must be a path or an SQLAlchemy URL: {printable(name)!r}") from None
    if backend != "sqlite":
        if address.drivername == "postgresql":
            address = address.set(drivername="postgresql+psycopg")  # SQLAlchemy's default is the older psycopg2
        return Location(address, None, name)
    if address.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StoreError(f"a store in SQLite must be opened by Python's own driver: {printable(address.drivername)}")
    options, database = dict(address.query), str(address.database or "")
    if (
        options.get("mode") == "memory"
        or "mode=memory" in database
        or database in ("", ":memory:", "file:", "file::memory:")
    ):
        return Location(make_url("sqlite://"), None, "memory")
    mode = options.pop("mode", "rwc")
    options.pop("uri", None)
    database, _, more = database.removeprefix("file:").partition("?")
    if options or more or mode not in ("ro", "rw", "rwc"):
        raise StoreError(f"the URL of an SQLite file may only ask for mode=ro: {printable(url)!r}")
    file = checked_path(database, "a store", StoreError)
    return Location(URL.create("sqlite", database=str(file)), file, name, mode == "ro")

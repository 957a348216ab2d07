"""A PostgreSQL server for the tests, started as an unprivileged user on a Unix socket of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, NullPool, create_engine, make_url

SECONDS = 300
"""Seconds for which a command of the server may take on a machine under load."""


def programs() -> Path | None:
    """Return the folder of the server's programs, or None if no server is installed."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = known[-1] if known else shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """A temporary cluster of databases, which is gone with ``close``.

    Args:
        programs: the folder of ``initdb`` and ``pg_ctl``.
        durable: whether a commit waits until it is on the disk, as on a server that people use.
    """

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        self.programs, self.durable = programs, durable
        # PostgreSQL refuses to run as root; pytest's own folders are closed to other users
        self.user: dict[str, Any] = (
            {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        self.folder = Path(tempfile.mkdtemp(prefix="elegans-postgres-"))
        if self.user:
            shutil.chown(self.folder, "nobody", "nogroup")
        self.watchdog = self._watch()
        try:
            self.call("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=elegans")
            self.start()
        except BaseException:
            self._bury()
            raise

    def _watch(self) -> subprocess.Popen[bytes]:
        """Start a process that stops the server and deletes its files once this one is gone, however it ended."""
        script = 'read -r _; "$1" stop --wait --mode=immediate -D "$2/data"; cd / && rm -rf "$2"'
        command: list[str | Path] = ["sh", "-c", script, "sh", self.programs / "pg_ctl", self.folder]
        nowhere = subprocess.DEVNULL
        watchdog: subprocess.Popen[bytes] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, cwd=self.folder,
            start_new_session=True, **self.user,
        )  # fmt: skip
        return watchdog

    def _bury(self) -> None:
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.close()
        self.watchdog.wait(SECONDS)

    def call(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs on the cluster, and raise if it fails."""
        command: list[str | Path] = [self.programs / program, "-D", self.folder / "data", *arguments]
        with (self.folder / "log").open("ab") as log:  # no pipe: the server would keep it open
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                timeout=2 * SECONDS, check=True, **self.user,
            )  # fmt: skip

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"{'' if self.durable else '-F '}-k {self.folder} -c listen_addresses=''"
        self.call("pg_ctl", "start", "--wait", f"--timeout={SECONDS}", f"--options={options}")

    def stop(self) -> None:
        """Stop the server as a crash would, and wait until it is gone."""
        self.call("pg_ctl", "stop", "--wait", f"--timeout={SECONDS}", "--mode=immediate")

    def close(self) -> None:
        """Stop the server and delete its databases."""
        self._bury()

    def url(self, database: str, **query: str) -> str:
        """Return the URL of a database, as a user would write it."""
        return str(URL.create("postgresql", "elegans", database=database, query={"host": str(self.folder), **query}))

    def new(self) -> str:
        """Return the URL of a schema that does not exist yet."""
        return self.url("postgres", schema=f"store_{uuid.uuid4().hex}")

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Execute statements, each in a transaction of its own."""
        address = self.url(database).replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(address, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


class Proxy:
    """The only way to a server for those who use its URL, which can be cut and mended again.

    Args:
        server: the server.
    """

    def __init__(self, server: Server) -> None:
        self.folder = server.folder
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.lock = threading.Lock()
        self.passing = threading.Event()
        self.passing.set()
        self.refusing = self.closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.closed = True
        self.passing.set()
        self.listener.close()
        self._drop()

    def url(self, place: str) -> str:
        """Return the URL of a database of the server that leads here."""
        host, port = self.listener.getsockname()
        return str(make_url(place).update_query_dict({"host": host, "port": str(port)}))

    def cut(self, *, silent: bool) -> None:
        """Cut all connections and refuse new ones; or keep them, and let nothing through."""
        if silent:
            self.passing.clear()
        else:
            self.refusing = True
            self._drop()

    def mend(self) -> None:
        """Let new connections through again; those that have been silent are gone."""
        if not self.passing.is_set():
            self._drop()
        self.refusing = False
        self.passing.set()

    def _drop(self) -> None:
        with self.lock:
            for end in (end for pair in self.pairs for end in pair):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self.pairs.clear()

    def _accept(self) -> None:
        while not self.closed:
            try:
                threading.Thread(target=self._serve, args=self.listener.accept()[:1], daemon=True).start()
            except OSError:
                return

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as there, suppress(OSError):
            if self.refusing:
                return
            there.connect(str(self.folder / ".s.PGSQL.5432"))
            with self.lock:
                self.pairs.append((client, there))
            back = threading.Thread(target=self._pass, args=(there, client), daemon=True)
            back.start()
            self._pass(client, there)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.passing.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

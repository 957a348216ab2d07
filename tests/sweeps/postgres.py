"""A PostgreSQL server for the tests, started as an unprivileged user on a Unix socket of its own."""

import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from sqlalchemy import URL, NullPool, create_engine

SECONDS = 300
"""Seconds for which a command of the server may take on a machine under load."""


def programs():
    """Return the folder of the server's programs, or None if no server is installed."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = known[-1] if known else shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """A temporary cluster of databases, which is gone with ``close``.

    Args:
        programs: the folder of ``initdb`` and ``pg_ctl``.
    """

    def __init__(self, programs):
        self.programs = programs
        # PostgreSQL refuses to run as root; pytest's own folders are closed to other users
        self.user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
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

    def _watch(self):
        """Start a process that stops the server and deletes its files once this one is gone, however it ended."""
        script = 'read -r _; "$1" stop --wait --mode=immediate -D "$2/data"; cd / && rm -rf "$2"'
        command = ["sh", "-c", script, "sh", self.programs / "pg_ctl", self.folder]
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, cwd=self.folder,
            start_new_session=True, **self.user,
        )  # fmt: skip

    def _bury(self):
        self.watchdog.stdin.close()
        self.watchdog.wait(SECONDS)

    def call(self, program, *arguments):
        """Run one of the server's programs on the cluster, and raise if it fails."""
        command = [self.programs / program, "-D", self.folder / "data", *arguments]
        with (self.folder / "log").open("ab") as log:  # no pipe: the server would keep it open
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                timeout=2 * SECONDS, check=True, **self.user,
            )  # fmt: skip

    def start(self):
        """Start the server, and wait until it answers."""
        options = f"-F -k {self.folder} -c listen_addresses=''"
        self.call("pg_ctl", "start", "--wait", f"--timeout={SECONDS}", f"--options={options}")

    def stop(self):
        """Stop the server as a crash would, and wait until it is gone."""
        self.call("pg_ctl", "stop", "--wait", f"--timeout={SECONDS}", "--mode=immediate")

    def close(self):
        """Stop the server and delete its databases."""
        self._bury()

    def url(self, database, **query):
        """Return the URL of a database, as a user would write it."""
        return str(URL.create("postgresql", "elegans", database=database, query={"host": str(self.folder), **query}))

    def new(self):
        """Return the URL of a schema that does not exist yet."""
        return self.url("postgres", schema=f"store_{uuid.uuid4().hex}")

    def execute(self, *statements, database="postgres"):
        """Execute statements, each in a transaction of its own."""
        address = self.url(database).replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(address, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

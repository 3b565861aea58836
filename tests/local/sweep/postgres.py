"""A PostgreSQL of a test's own: on this machine, with a password, and gone with the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube import host
from tests.local.conftest import until

if TYPE_CHECKING:
    from collections.abc import Mapping

USER, PASSWORD = "tester", "correct horse: 50 %"


class Server:
    """A server that listens on loopback.

    Attributes:
        port: where.
    """

    def __init__(self) -> None:
        """Make its files; they are its user's, as it refuses to be run by root."""
        self._folder = Path(tempfile.mkdtemp(prefix="allranks-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # Who ends without ending it takes it along.
        self._as = [host.find("setpriv"), "--pdeathsig", "INT"]
        if os.geteuid() == 0:
            self._as += ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
            shutil.chown(self._folder, "nobody")
        word = self._folder / "password"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        command = [host.find("initdb"), "--auth=scram-sha-256", f"--pwfile={word}", "--no-sync"]
        # Not this machine's locale.
        command += ["--encoding=UTF8", "--locale=C"]
        self._run(*command, f"--username={USER}", f"--pgdata={self._data}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    @property
    def env(self) -> Mapping[str, str]:
        """How its password reaches a program."""
        return {"PGPASSWORD": PASSWORD}

    def url(self, database: str, user: str = USER) -> str:
        """A database of it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Begin to listen."""
        words = [host.find("postgres"), "-D", str(self._data), "-p", str(self.port), "-F"]
        words += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*self._as, *words], stdout=log, stderr=log, cwd="/")
        ready = [host.find("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until(lambda: not subprocess.run(ready, check=False).returncode, "PostgreSQL to listen")

    def make(self, database: str, *statements: str) -> str:
        """A new database, perhaps with something in it; its URL."""
        self.sql("postgres", f"CREATE DATABASE {database}")
        for statement in statements:
            self.sql(database, statement)
        return self.url(database)

    def sql(self, database: str, statement: str) -> str:
        """What a statement says."""
        return self._run(
            *(host.find("psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-Atqw"),
            *("-d", database, "-c", statement),
        )

    def stop(self) -> None:
        """Let go of all connections, and end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=240)
            self._process = None

    def remove(self) -> None:
        """End, and leave nothing."""
        self.stop()
        shutil.rmtree(self._folder)

    def _run(self, *words: str) -> str:
        process = subprocess.run(
            [*self._as, *words],
            cwd="/",
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not process.returncode, process.stdout + process.stderr
        return process.stdout

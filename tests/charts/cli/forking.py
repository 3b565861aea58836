"""Calls of the command line that are forked; see `zygote.py`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROGRAM = Path(__file__).with_name("zygote.py")
_LENGTH = 4
# Python reads these as it starts, which a forked call does not.
_OF_PYTHON = ("PYTHON", "LC_", "LANG")


class Zygote:
    """A process that has loaded the command line, and forks for each call."""

    def __init__(self) -> None:
        """Start it."""
        self._connection, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, _PROGRAM, str(other.fileno())],
                env={"PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.wait()

    @staticmethod
    def can_run(environment: Mapping[str, str]) -> bool:
        """Whether nothing in the environment is for the start of Python itself."""
        return not any(name.startswith(_OF_PYTHON) for name in environment)

    def run(
        self,
        words: Sequence[str | bytes | Path],
        folder: Path,
        environment: Mapping[str, str],
        stdin: bytes,
        seconds: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command line to its end.

        Args:
            words: the program and its arguments.
            folder: where it is called.
            environment: all of it.
            stdin: what it reads.
            seconds: how long it may take.

        Raises:
            TimeoutExpired: it took longer, and was killed.
        """
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        call = {
            "words": [os.fsdecode(word) for word in words],
            "folder": str(folder),
            "environment": dict(environment),
            "cores": sorted(os.sched_getaffinity(0)),
        }
        request = json.dumps(call).encode()
        socket.send_fds(self._connection, [len(request).to_bytes(_LENGTH, "little")], theirs)
        self._connection.sendall(request)
        for descriptor in theirs:
            os.close(descriptor)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_write, pipes[0][1], stdin)
            streams = [pool.submit(_read, pipe[0]) for pipe in pipes[1:]]
            child = self._number()
            self._connection.settimeout(seconds)
            try:
                code = self._number()
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._connection.settimeout(None)
                self._number()
                raise subprocess.TimeoutExpired(list(words), seconds) from None
            self._connection.settimeout(None)
            stdout, stderr = (stream.result() for stream in streams)
        return subprocess.CompletedProcess(list(words), code, stdout, stderr)

    def _number(self) -> int:
        data = self._connection.recv(_LENGTH, socket.MSG_WAITALL)
        assert data, f"the zygote ended with {self._process.wait()}"
        return int.from_bytes(data, "little", signed=True)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()

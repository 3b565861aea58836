"""The processes of a run: each ends with the guardian that started it, however that one ends.

Every process is its guardian's child, in a session of its own, and carries the kernel's
parent-death signal: where the guardian is killed, the kernel kills the child. What is ended, is
ended by SIGKILL after at most a short grace, because the data of a run is thrown away and the API
server alone would take a minute to stop by itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_GONE_SECONDS = 10.0
_LAST_LINES = 6
# Programs in Go: a control plane that collects its garbage whenever its heap has doubled takes a
# quarter more of the processor, and collects with every core that it finds idle.
_FEWER_COLLECTIONS = {"GOGC": "400", "GOMEMLIMIT": "1500MiB"}
# The process's start time in /proc/PID/stat, counted after the name in brackets.
_STARTED_FIELD = 19


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, also after its number has been given to another.

    Attributes:
        pid: its number.
        started: when it started, in the kernel's clock ticks since boot.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this number now; None where there is none, or only its remains."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[_STARTED_FIELD]))

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Identity.of(self.pid) == self

    def end(self, grace: float = 0.0) -> None:
        """End it, and return when it is gone.

        Args:
            grace: seconds between SIGTERM and SIGKILL; 0 kills at once.

        Raises:
            BenchError: it is still there ten seconds after SIGKILL.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Asked after the handle was opened: from here on the handle is this process or gone.
            if not self.alive:
                return
            if grace:
                _signal(handle, signal.SIGTERM)
                if _gone(handle, grace):
                    return
            _signal(handle, signal.SIGKILL)
            if not _gone(handle, _GONE_SECONDS):
                raise BenchError(f"process {self.pid} does not end")
        finally:
            os.close(handle)


def _signal(handle: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _gone(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Processes:
    """What a guardian has started."""

    def __init__(self, folder: Path, changed: Callable[[Mapping[str, Identity]], None]) -> None:
        """Nothing is started yet.

        Args:
            folder: where they run, with `logs/` in it.
            changed: told the name and identity of each process, after every start and end.
        """
        self._folder = folder
        self._changed = changed
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._identities: dict[str, Identity] = {}

    def start(self, name: str, *command: str | Path, env: Mapping[str, str] | None = None) -> int:
        """Start a program; its output goes to `logs/NAME.log`.

        Args:
            name: what it is called; one process at a time has a name.
            command: the program and its arguments.
            env: added to a plain environment: nothing of the user's own gets in.

        Returns:
            Its process id.

        Raises:
            BenchError: setpriv, of Debian's util-linux, is missing.
        """
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise BenchError("setpriv is not on PATH", "install the package util-linux")
        path = os.environ.get("PATH", os.defpath)
        plain = {"PATH": path, "HOME": str(self._folder), **_FEWER_COLLECTIONS}
        with self.log(name).open("ab") as log:
            popen = subprocess.Popen(
                (setpriv, "--pdeathsig", "KILL", "--", *map(str, command)),
                cwd=self._folder,
                env={**plain, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[name] = popen
        identity = Identity.of(popen.pid)
        if identity is not None:
            self._identities[name] = identity
        self._changed(self._identities)
        return popen.pid

    def stop(self, name: str, grace: float = 0.0) -> None:
        """End a process and everything of its session that is left.

        Args:
            name: its name; one that is not there is no error.
            grace: seconds between SIGTERM and SIGKILL.
        """
        popen = self._running.pop(name, None)
        if popen is None:
            return
        if grace and popen.poll() is None:
            popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(grace)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait(_GONE_SECONDS)
        self._identities.pop(name, None)
        self._changed(self._identities)

    def stop_all(self) -> None:
        """End all, the newest first."""
        for name in reversed(list(self._running)):
            self.stop(name)

    def log(self, name: str) -> Path:
        """Where the output of a process goes."""
        return self._folder / "logs" / f"{name}.log"

    def wait(self, ready: Callable[[], Any], expectation: str, seconds: float) -> None:
        """Wait for a condition while all processes live.

        Args:
            ready: the condition.
            expectation: what is waited for, as the subject of a sentence.
            seconds: the longest wait.

        Raises:
            BenchError: a process has ended, or it takes too long; with the last lines of its log.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            for name, popen in self._running.items():
                if popen.poll() is not None:
                    raise BenchError(
                        f"{name} ended with code {popen.returncode}:\n{self._last_lines(name)}"
                    )
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{expectation} took longer than {seconds:g} s", f"see {self._folder}/logs"
                )
            time.sleep(0.01)

    def _last_lines(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

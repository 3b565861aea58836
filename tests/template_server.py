"""`helm template`, many times in one process: a third of one render is Helm's own start.

``tools/helm*/template`` links Helm's packages by the go.mod that pins the real binary;
tests/charts/helm/test_template_server.py holds the two equal. What the server does not know is left
to the real one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# A server that lives long may keep what it has thrown away for a while.
_MEMORY = {"GOGC": "800", "GOMEMLIMIT": "512MiB"}


class TemplateServer:
    """One process that renders charts, one after the other."""

    def __init__(self, path: Path) -> None:
        """Start it.

        Args:
            path: the program of one major version of Helm.
        """
        self._lock = threading.Lock()
        self._folder = Path.cwd()
        self._environment = _settings()
        self._path = path
        self._process = self._started()
        atexit.register(self.close)

    def _started(self) -> subprocess.Popen[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        return subprocess.Popen(
            [self._path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env | _MEMORY
        )

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=10)

    def run(self, words: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str] | None:
        """What ``helm template`` does with its words; None where the real helm must be asked.

        Args:
            words: the arguments after ``template``.
            stdin: what it reads.
        """
        # It started where and as whom the test worker did; a test may have moved on.
        if (self._folder, self._environment) != (Path.cwd(), _settings()):
            return None
        request = json.dumps({"args": list(words), "stdin": stdin}, ensure_ascii=True)
        with self._lock:
            try:
                line = self._answer(request)
            except BaseException:
                # A test's time was up. The answer that nobody read would be the next one's.
                self._process.kill()
                self._process.wait()
                self._process = self._started()
                raise
        assert line, f"the template server ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        if answer.get("unknown"):
            return None
        return subprocess.CompletedProcess(
            ["helm", "template", *words], answer["code"], answer["stdout"], answer["stderr"]
        )

    def _answer(self, request: str) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request.encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@cache
def server(path: Path) -> TemplateServer:
    """The server of this test worker.

    Args:
        path: the program of one major version of Helm.
    """
    return TemplateServer(path)


def _settings() -> dict[str, str]:
    """The part of the environment that Helm reads."""
    names = ("HOME", "KUBECONFIG", "TMPDIR", "XDG_", "HELM_")
    return {name: value for name, value in os.environ.items() if name.startswith(names)}

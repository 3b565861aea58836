"""Submits that wait before a request of theirs until they are let go, amid a fault."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names

from . import front
from .program import Program, job

if TYPE_CHECKING:
    import subprocess
    from contextlib import ExitStack
    from pathlib import Path

    from tests.kube.cluster import Cluster

_SECONDS = 240.0
COMMAND = ("--", "python", "train.py")


@dataclass(slots=True)
class Submit:
    """A submit at a request of its own.

    Attributes:
        process: the command.
        there: set once the request is about to be sent on.
        go: set to let it go.
        text: what it has printed.
    """

    process: subprocess.Popen[str]
    there: threading.Event
    go: threading.Event
    text: str = ""

    def end(self) -> int:
        """Its exit code, once it has ended."""
        self.text = "".join(self.process.communicate(timeout=_SECONDS))
        assert "Traceback" not in self.text
        return self.process.returncode


@dataclass(slots=True)
class Submits:
    """Where folders are submitted.

    Attributes:
        program: the command line, straight to the API server.
        stack: ends the fronts.
        folder: for folders of code.
    """

    program: Program
    stack: ExitStack
    folder: Path
    _codes: dict[str, Path] = field(default_factory=dict)

    def words(self, name: str) -> tuple[str | Path, ...]:
        """The command line that submits a folder of the run's own."""
        if name not in self._codes:
            self._codes[name] = self.folder / f"code-{name}"
            self._codes[name].mkdir()
            (self._codes[name] / "train.py").write_text(f"print({name!r})\n", encoding="utf-8")
        return "submit", name, "--detach", "--workspace", self._codes[name]

    def begin(self, name: str, part: str) -> Submit:
        """Submit, and wait for the first request that writes to a path with this in it."""
        own = self.folder / f"front-{name}"
        own.mkdir()
        proxy = self.stack.enter_context(front.stand(self.program.cluster, own))
        there, go = threading.Event(), threading.Event()

        def before(_: int) -> bool:
            method, path = proxy.requests[-1]
            if method != "GET" and part in path and not go.is_set():
                there.set()
                go.wait(_SECONDS)
            return True

        proxy.before = before
        through = Program(
            self.program.cluster,
            self.program.namespace,
            self.program.helm,
            self.program.home,
            proxy.kubeconfig,
        )
        process = through.start(*self.words(name), *COMMAND, values=job())
        held = Submit(process, there, go)
        assert there.wait(_SECONDS), f"no request to {part}: {proxy.requests}"
        return held

    def again(self, name: str) -> None:
        """Submit the same name; where a release of it was begun, do as the message says."""
        words = self.words(name)
        if self.record(name):
            output = self.program(*words, *COMMAND, code=2, values=job())
            assert "was begun and is not finished" in output
            words = (*words, "--replace")
        assert f"started {name}" in self.program(*words, *COMMAND, values=job())

    def record(self, name: str) -> list[dict[str, Any]]:
        """Helm's records of a release."""
        return [
            item
            for item in self.program.items("v1/secrets")
            if item["metadata"].get("labels", {}).get("name") == name
        ]

    def nothing_left(self) -> None:
        """Neither objects of a run, nor a snapshot, nor a record."""
        for name in self._codes:
            assert [] == self.program.objects_of(name)
        assert [] == [
            item["metadata"]["name"]
            for item in self.program.items("v1/configmaps")
            if names.WORKSPACE in (item["metadata"].get("labels") or {})
        ]


def submits(cluster: Cluster, namespace: str, helm: Any, stack: ExitStack, folder: Path) -> Submits:
    """Where folders of a test are submitted."""
    home = folder / "home"
    home.mkdir()
    return Submits(Program(cluster, namespace, helm.path, home), stack, folder)

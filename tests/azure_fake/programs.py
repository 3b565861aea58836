"""The command line as processes of its own, by the hundred: forked from one that has loaded all.

A start of Python with the SDKs takes a second and more of a core. A process that is forked is as
real as any: it has its own memory, speaks over its own sockets, and dies of SIGKILL.

    python -m tests.azure_fake.programs

It reads a line of JSON for each, ``{"args", "env", "cwd", "out"}``, and answers with its process
id; and ``{"wait"}`` with such an id, which it answers with the exit code when that has ended. A
negative one is the signal that it died of.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended.

    Attributes:
        code: the exit code; a negative one is the signal that it died of.
        out: what it wrote to standard output.
        err: what it wrote to standard error.
    """

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


class Programs:
    """Runs `allranks` as processes of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.azure_fake.programs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

    def start(self, *args: str | Path, env: dict[str, str], cwd: Path) -> Program:
        """Start one.

        Args:
            args: the command line.
            env: variables beside those of this process.
            cwd: where it runs.
        """
        self._count += 1
        out = self._folder / f"program-{self._count}"
        order = {"args": [*map(str, args)], "env": env, "cwd": str(cwd), "out": str(out)}
        return Program(self, int(self._ask(order)), out)

    def run(
        self,
        *args: str | Path,
        env: dict[str, str],
        cwd: Path,
        started: Callable[[int], None] = lambda _: None,
    ) -> Ended:
        """Run one to its end.

        Args:
            args: as of `start`; so are the others.
            env: see there.
            cwd: see there.
            started: gets its process id.
        """
        program = self.start(*args, env=env, cwd=cwd)
        started(program.pid)
        return program.wait()

    def _ask(self, order: dict[str, Any]) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline()


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was started.

    Attributes:
        programs: what has started it.
        pid: its process id.
        out: where its output goes, without the ending.
    """

    programs: Programs
    pid: int
    out: Path

    def wait(self) -> Ended:
        """Wait until it has ended."""
        code = int(self.programs._ask({"wait": self.pid}))
        texts = [Path(f"{self.out}.{name}").read_text() for name in ("out", "err")]
        return Ended(code, *texts)


def _child(order: dict[str, Any]) -> None:
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{order['out']}.{name}", flags), number)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    from allranks.cli.main import main

    code = 1
    try:
        code = main(order["args"], name="allranks")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _load() -> None:
    """Load all that a command loads, by giving commands to an Azure that only pretends."""
    import contextlib
    import io
    import tempfile

    from allranks.cli.main import main
    from tests.azure_fake import arm

    text = f"name: warm\nsubscription: {arm.SUBSCRIPTION}\n"
    with tempfile.TemporaryDirectory() as folder, arm.FakeArm(looks=1) as fake:
        path = Path(folder) / "azure.yaml"
        path.write_text(text)
        before = dict(os.environ)
        os.environ.update(fake.env(Path(folder)))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for words in (["up", "--yes"], ["down", "--yes"]):
                main(["azure", *words, "-f", str(path)], name="allranks")
        os.environ.clear()
        os.environ.update(before)


def _serve() -> None:
    _load()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _child(order)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()

"""The command line as processes of its own, by the hundred: forked from one that has loaded all.

A start of Python with the SDKs takes a second and more of a core. A process that is forked is as
real as any: it has its own memory, speaks over its own sockets, and dies of SIGKILL.

    python -m tests.azure_fake.programs

It reads a JSON line ``{"args", "env", "cwd", "out"}`` for each, answers with its process id, and then with
the exit code when it has ended; a negative one is the signal that it died of.
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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

    def run(
        self,
        *args: str | Path,
        env: dict[str, str],
        cwd: Path,
        started: Callable[[int], None] = lambda _: None,
    ) -> Ended:
        """Run one to its end.

        Args:
            args: the command line.
            env: variables beside those of this process.
            cwd: where it runs.
            started: gets its process id.
        """
        self._count += 1
        out = self._folder / f"program-{self._count}"
        order = {"args": [*map(str, args)], "env": env, "cwd": str(cwd), "out": str(out)}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        started(int(self._server.stdout.readline()))
        code = int(self._server.stdout.readline())
        texts = [Path(f"{out}.{name}").read_text() for name in ("out", "err")]
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


def _serve() -> None:
    import azure.mgmt.compute
    import azure.mgmt.containerservice
    import azure.mgmt.resource.resources
    import azure.mgmt.storage
    import requests

    import allranks.azure.engine
    import allranks.azure.plans
    import allranks.azure.sdk.arm
    import allranks.cli.commands.azure
    import allranks.cli.main

    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _child(order)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()

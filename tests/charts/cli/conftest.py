"""The program as a person calls it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.charts.cli.forking import Zygote

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).parent / "allranks"
_SECONDS = 110
MINIMAL = """\
workload: torchrun
image: {repository: my/trainer, tag: "1.0"}
command: [python, train.py]
nodes: 2
"""


class Pinned(Protocol):
    """A helm as the fixtures of all tests give it."""

    path: Path


@dataclass
class Cli:
    """Calls the program.

    Attributes:
        cwd: where it is called; also its home and where its state would go.
        env: what the environment has besides PATH.
        zygote: what calls are forked by; None where each is a process from its start.
    """

    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    zygote: Zygote | None = None

    def __call__(
        self, *args: str | bytes | Path, stdin: str | bytes = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        words, environment = [PROGRAM, *args], self.environment(env)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        if self.zygote is not None and self.zygote.can_run(environment):
            process = self.zygote.run(words, self.cwd, environment, data, _SECONDS)
        else:
            process = subprocess.run(
                words,
                cwd=self.cwd,
                env=environment,
                input=data,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
            )
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    def start(self, *args: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start it and go on."""
        return subprocess.Popen(
            [PROGRAM, *args],
            cwd=self.cwd,
            env=self.environment(None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def environment(self, extra: dict[str, str] | None) -> dict[str, str]:
        """The whole environment of a call; an empty value removes a variable."""
        full = {"PATH": os.environ["PATH"], **self.env, **(extra or {})}
        return {name: value for name, value in full.items() if value}

    def write(self, text: str | bytes, name: str = "values.yaml") -> Path:
        """Put a file where the program is called."""
        path = self.cwd / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def tree(self) -> dict[str, bytes]:
        """Every file and folder below, with its content."""
        return {
            str(path.relative_to(self.cwd)): path.read_bytes() if path.is_file() else b"/"
            for path in sorted(self.cwd.rglob("*"))
        }


@pytest.fixture
def cli(tmp_path: Path, helm4: Pinned) -> Iterator[Cli]:
    """The program in an empty folder, with helm 4 and nothing else of this machine's.

    A run that a test has left, because it failed, ends with it.
    """
    cwd = tmp_path / "work"
    cwd.mkdir()
    runner = Cli(
        cwd,
        {
            "HOME": str(cwd / "home"),
            "TMPDIR": str(tmp_path),
            "ALLRANKS_HELM": str(helm4.path),
            "KUBECONFIG": str(cwd / "no-kubeconfig"),
        },
    )
    yield runner
    for run in (cwd / "home/.local/state/allranks/runs").glob("*/*"):
        runner("delete", run.name, "-n", run.parent.name, "--on", "local")


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """What the forked calls of this test worker come from."""
    shared = Zygote()
    yield shared
    shared.close()


@pytest.fixture
def forked(cli: Cli, zygote: Zygote) -> None:
    """Calls are forked, and Python and the libraries loaded once for all of them.

    For tests in which the start of the program is not the subject (see `zygote.py`).
    """
    cli.zygote = zygote


@pytest.fixture
def values(cli: Cli) -> Path:
    """A small values file that is right."""
    return cli.write(MINIMAL)

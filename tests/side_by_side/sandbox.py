"""Runs a side in a sandbox: a filesystem of its own, no network, and a stub for every program."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.side_by_side import filesystem
from tests.side_by_side.inside.program import IN_STEP

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tests.side_by_side.filesystem import Side, Site

_USER = "61234"  # nobody's
_SECONDS = 120  # of a side; the sandbox is ended some later
_HERE = Path(__file__).parent
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--ipc", "--uts")


class SandboxError(Exception):
    """There can be no sandbox, or it ended too early; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a stub was given.

    Attributes:
        words: its name as it was called, and its words.
        folder: where it ran.
        stdin: what its standard input was.
        stdout: what its standard output was.
        limits: ulimit's of stack, core files and open files, and the umask.
        environment: its variables.
        files: the files and folders that it finds, but for those of the sandbox itself.
    """

    words: tuple[str, ...]
    folder: str
    stdin: str
    stdout: str
    limits: str
    environment: Mapping[str, str]
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a side.

    Attributes:
        records: what its programs were given.
        exit_codes: of its commands; None for one that did not end.
        errors: what was written to the standard error.
    """

    records: tuple[Record, ...]
    exit_codes: tuple[int | None, ...]
    errors: str

    @property
    def exit_code(self) -> int | None:
        """The first that is no success; 0 where all are."""
        return next((code for code in self.exit_codes if code != 0), 0)

    @property
    def rank_names(self) -> set[str]:
        """The names of the programs that a launcher started."""
        return {
            Path(record.words[0]).name for record in self.records if IN_STEP in record.environment
        }


def check() -> None:
    """Look whether this machine lets a sandbox be.

    Raises:
        SandboxError: it does not.
    """
    if os.geteuid():
        raise SandboxError("the sandbox is made of namespaces, which takes root")
    for name in ("unshare", "setpriv", "timeout"):
        if shutil.which(name) is None:
            raise SandboxError(f"{name} is not on PATH, and the sandbox is made by it")
    process = subprocess.run((*_UNSHARE, "true"), check=False, capture_output=True, text=True)
    if process.returncode:
        reason = process.stderr.strip() or f"it ended with exit code {process.returncode}"
        raise SandboxError(f"the sandbox is made of namespaces, and root may make none: {reason}")


def run(side: Side, site: Site, failing: Collection[str] = ()) -> Run:
    """Run a side.

    Args:
        side: what is started.
        site: what is there.
        failing: the programs that end with `inside.program.FAILURE`, as ranks do then; none where
            all succeed.

    Raises:
        SandboxError: the sandbox did not end by itself.
    """
    with tempfile.TemporaryDirectory(prefix="allranks-side-by-side-") as folder:
        tree = Path(folder)
        (tree / "files").mkdir()
        filesystem.fill(tree / "files", side, site, user=_USER, seconds=_SECONDS, failing=failing)
        prefix = Path(sys.base_prefix).resolve()
        command = ("bash", str(_HERE / "sandbox.sh"), folder, _USER, str(prefix))
        killed = ("timeout", "-s", "KILL", str(_SECONDS + 20))
        process = subprocess.run(
            (*killed, *_UNSHARE, *command),
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
    lines = process.stdout.decode(errors="replace").splitlines()
    if process.returncode or not lines:
        raise SandboxError(f"the sandbox ended with {process.returncode}: {process.stderr!r}")
    result = json.loads(lines[-1])
    return Run(tuple(_records(result["records"])), tuple(result["exit_codes"]), result["errors"])


def _records(text: str) -> list[Record]:
    records = []
    for line in text.splitlines():
        fields = ast.literal_eval(line)
        own = {"words": tuple(fields["words"]), "files": frozenset(fields["files"])}
        records.append(Record(**{**fields, **own}))
    return records

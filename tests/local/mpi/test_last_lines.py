"""Which lines of its stderr the launcher of an MPI job shows of a failure."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from .pods import REPO

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local

_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
_DASHES = "-" * 74
_ABORT = f"{_DASHES}\nMPI_ABORT was invoked on rank 3 in communicator\n\nNOTE: it\n{_DASHES}\n"
_END = f"{_DASHES}\nPrimary job  terminated normally, but 1 process returned\n{_DASHES}\n"
_EXIT = f"{_DASHES}\nmpirun detected that one or more processes exited\n{_DASHES}\n"
_MORE = "[host:7] 1 more process has sent help message help-mpi-api.txt / mpi-abort\n"
_OWN = f"{_DASHES}\nepoch 1\n{_DASHES}\n"


@pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"last words\n{_ABORT}", "last words\n"),
        (f"{_ABORT}last words\n", "last words\n"),
        (f"a warning\n{_ABORT}last words\n{_MORE}", "a warning\nlast words\n"),
        (f"{_OWN}last words\n{_END}{_EXIT}", "epoch 1\nlast words\n"),
        (f"{_DASHES}\nlast words", "last words\n"),
        (f"last words\n{_DASHES}\nmpirun noticed that process rank 1\n", "last words\n"),
        ("last words\nAbort(37) on node 3 (rank 3 in comm 0)\n= x\n", "last words\n"),
    ],
)
def test_last_lines(tmp_path: Path, shell: list[str], text: str, lines: str) -> None:
    """Those of the ranks, before and after what mpirun says of MPI_Abort, and none of mpirun's."""
    (tmp_path / "said").mkdir()
    (tmp_path / "said" / "err").write_text(text)
    program = f". {REPO}/charts/mpi/files/blame.sh; allranks_last_lines"
    process = subprocess.run(
        [*shell, "-c", f"ALLRANKS_STATE={tmp_path}; {program}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (lines, "") == (process.stdout, process.stderr)

"""What connects an mpirun with a worker: rsh.sh, and what it starts for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from .forks import HeldForks, has_ended, name_of, pending
from .pods import REPO

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_RSH = REPO / "charts" / "mpi" / "files" / "rsh.sh"
_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
# An ssh that writes down when it begins, and ends when it is told to, with a code of its own.
_SSH = """#!/bin/sh
trap 'kill $!; : >{folder}/told; exit 7' TERM
sleep 60 &
: >{folder}/begun
wait
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)
def test_a_signal_that_comes_as_the_connection_begins(
    tmp_path: Path, shell: list[str], number: signal.Signals
) -> None:
    """The daemon behind it is told all the same, whenever mpirun ends what it has just begun.

    The signal comes while the connection runs, and the shell that began it does not know it yet.
    """
    program = tmp_path / "ssh"
    program.write_text(_SSH.format(folder=tmp_path))
    program.chmod(0o755)
    env = {**os.environ, "ALLRANKS_STATE": str(tmp_path), "ALLRANKS_MPI_SSH": str(program)}
    words = [*shell, str(_RSH), "worker-0.lab", "true"]
    # It begins when it is held: a process keeps its id.
    process = subprocess.Popen(
        # A hang-up may be ignored here, as under nohup, and that is handed down.
        ["env", "--default-signal=HUP", *shell, "-c", 'read -r line && exec "$@"', "start", *words],
        stdin=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert process.stdin is not None
    held = HeldForks(process.pid)
    process.stdin.write("begin\n")
    process.stdin.flush()

    def is_connection(pid: int) -> bool:
        while not has_ended(pid):  # as the one does that asks for this host's name
            if name_of(pid) == "ssh":
                return True
            time.sleep(0.005)
        return False

    def signalled() -> bool:
        if not (tmp_path / "begun").exists():
            return False
        process.send_signal(number)
        return pending(process.pid, number)

    held.hold(is_connection, signalled)
    try:
        assert (7, True) == (process.wait(timeout=240), (tmp_path / "told").exists())
    finally:
        process.kill()

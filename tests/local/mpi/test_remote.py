"""What a worker answers to commands of the launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .pods import REPO

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local

_REMOTE = REPO / "charts" / "mpi" / "files" / "remote.sh"
_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])


def _ask(shell: list[str], state: Path) -> tuple[int, str, str]:
    answer = subprocess.run(
        [*shell, _REMOTE, "allranks:instance"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ALLRANKS_STATE": str(state)},
        timeout=60,
    )
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)
def test_a_worker_is_there_while_its_first_process_lives(tmp_path: Path, shell: list[str]) -> None:
    """One that was killed, and that nobody has waited for yet, is a worker no more."""
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "pid").write_text(f"{worker.pid}\n")
    (tmp_path / "instance").write_text("first\n")
    assert (0, "first\n", "") == _ask(shell, tmp_path)
    worker.kill()
    # What waitid leaves is there still, as it is when the kernel has ended it.
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    not_ready = (255, "", "allranks: this worker is not ready\n")
    assert not_ready == _ask(shell, tmp_path)
    worker.wait()
    assert not_ready == _ask(shell, tmp_path)


# It begins when the daemon has ended, as on a machine that is busy with other things.
_LATE_RELAY = """#!/bin/sh
until [ -e "$ALLRANKS_STATE/ended" ]; do sleep 0.05; done
exec /bin/sh {relay} "$@"
"""
_DAEMON = """
: hydra_pmi_proxy
printf 'host 2 137 alone\\n' 1<>"$ALLRANKS_MPI_ENDS"
: >"$ALLRANKS_STATE/ended"
"""


@pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)
def test_what_ranks_say_is_kept_until_somebody_reads_it(tmp_path: Path, shell: list[str]) -> None:
    """A rank may fail, or ask for a copy of its stderr, before the relay of its pod has begun."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    remote = shutil.copy(_REMOTE, scripts)
    (scripts / "relay.sh").write_text(_LATE_RELAY.format(relay=_REMOTE.with_name("relay.sh")))
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "env").touch()
    (tmp_path / "folder").write_text(f"{tmp_path}\n")
    process = subprocess.run(
        [*shell, remote, _DAEMON],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ALLRANKS_STATE": str(tmp_path)},
        timeout=60,
    )
    report = "allranks-end: host 2 137 alone\n"
    assert (0, "", report) == (process.returncode, process.stdout, process.stderr)

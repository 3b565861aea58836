"""What a launcher says while it waits, without a network: only ssh stands in for one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from .pods import REPO, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local


@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"], ["busybox", "sh"]], ids=" ".join)
def test_a_launcher_says_what_it_waits_for_at_once(tmp_path: Path, shell: list[str]) -> None:
    """A resolver may take a minute over a name that is not there yet; it is said."""
    files, bin_folder, log = tmp_path / "files", tmp_path / "bin", tmp_path / "log"
    shutil.copytree(REPO / "charts" / "mpi" / "files", files)
    library = REPO / "charts" / "library" / "files" / "entry.sh"
    (files / "entry.sh").write_text(library.read_text() + (files / "entry.sh").read_text())
    bin_folder.mkdir()
    ssh = bin_folder / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    for path in (ssh, files / "rsh.sh"):
        path.chmod(0o755)
    hosts = [f"job-worker-{index}.job.lab.svc" for index in range(65)]
    (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
    key = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-C", "", "-f", key], check=True
    )
    with log.open("wb") as output:
        launcher = subprocess.Popen(
            [*shell, files / "entry.sh", "0", "true"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                "PATH": f"{bin_folder}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "ALLRANKS_ROLE": "launcher",
                "ALLRANKS_STATE": str(tmp_path / "state"),
                "ALLRANKS_TERMINATION_LOG": str(tmp_path / "message"),
                "ALLRANKS_WAIT_SECONDS": "0",
                "ALLRANKS_MPI_WAIT_FOR_PODS": "scheduler",
                "ALLRANKS_MPI_HOSTFILE": str(tmp_path / "hostfile"),
                "ALLRANKS_MPI_KEY": str(key),
            },
        )
    try:
        until(lambda: "and 62 more" in log.read_text(), "a word of the launcher's")
        launcher.terminate()
        assert launcher.wait(60) == 143
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait(60)
    away = "its name is looked up, then port 2222 is tried (is its pod running?)"
    waited = re.sub(r"\(\d+ s\)", "(N s)", log.read_text())
    assert f"waiting for 65 of 65 hosts (N s): {hosts[0]}: {away}; {hosts[1]}: {away}" in waited

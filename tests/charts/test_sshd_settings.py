"""The sshd of an MPI job: what its settings leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.attack

WORKER = Path(__file__).parents[2] / "charts/mpi/files/worker.sh"


def test_no_port_is_forwarded() -> None:
    """A key of the job runs the job's own command, and is no way into the pod's network."""
    lines = WORKER.read_text(encoding="utf-8").splitlines()
    off = {"AllowTcpForwarding", "AllowAgentForwarding", "X11Forwarding", "PermitTunnel"}
    assert off == {line.split()[0] for line in lines if line.endswith(" no")} & off


def test_nobody_takes_all_of_an_sshd() -> None:
    """Who has shown no key yet has a share of what may have shown none, and a minute for it."""
    options = dict(
        line.split()
        for line in WORKER.read_text(encoding="utf-8").splitlines()
        if line.startswith(("MaxStartups ", "PerSourceMaxStartups ", "LoginGraceTime "))
    )
    assert {"MaxStartups": "4096", "PerSourceMaxStartups": "128", "LoginGraceTime": "60"} == options

"""The sshd of an MPI job: what its settings leave out."""

from __future__ import annotations

from pathlib import Path

WORKER = Path(__file__).parents[2] / "charts/mpi/files/worker.sh"


def test_no_port_is_forwarded() -> None:
    """A key of the job runs the job's own command, and is no way into the pod's network."""
    lines = WORKER.read_text(encoding="utf-8").splitlines()
    off = {"AllowTcpForwarding", "AllowAgentForwarding", "X11Forwarding", "PermitTunnel"}
    assert off == {line.split()[0] for line in lines if line.endswith(" no")} & off

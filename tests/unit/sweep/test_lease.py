"""Who holds the Lease of a sweep in a cluster: a process that is alive, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cluster import paths
from allranks.errors import InputError
from allranks.sweep.storage import lease
from tests.unit.cluster.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest

_MARK = "from allranks.sweep.storage import lease; print(lease.process_mark())"


def _lease(mark: str = "") -> Manifest:
    """A Lease that somebody has renewed just now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "vm:6882", "renewTime": now, "leaseDurationSeconds": 12}
    metadata: dict[str, Any] = {"name": "s-journal", "resourceVersion": "7"}
    metadata["annotations"] = {names.SWEEP_HOLDER: mark}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


def _dead() -> str:
    """The mark of a process that has ended."""
    process = subprocess.run(
        [sys.executable, "-c", _MARK], capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


def test_a_mark_tells_of_its_process_alone() -> None:
    """Of this machine's own it is known whether they are gone; of others nothing is."""
    mine = lease.process_mark()
    kernel, pid, ticks = mine.split()
    assert (str(os.getpid()), False) == (pid, lease.is_gone(mine))
    assert lease.is_gone(f"{kernel} {pid} {int(ticks) - 1}")
    assert lease.is_gone(_dead())
    for other in ("", "x", f"boot/1 {pid} 1", f"{kernel} x 1", kernel):
        assert not lease.is_gone(other), other


@pytest.mark.parametrize("wait", [False, True])
def test_a_dead_process_of_this_machine_is_not_waited_for(*, wait: bool) -> None:
    """Its Lease is held by nobody, and is taken at once, with the mark of who has it now."""
    held_lease = _lease(_dead())
    assert not lease.holder(held_lease)
    cluster = FakeCluster(held_lease)
    hold = lease.LeaseHolder(cluster, "lab", "s-journal")
    hold.acquire(wait=wait)
    taken_lease = cluster.get(paths.LEASES, "s-journal")
    assert (lease.identity(), lease.process_mark()) == (
        taken_lease["spec"]["holderIdentity"],
        taken_lease["metadata"]["annotations"][names.SWEEP_HOLDER],
    )
    hold.release()
    assert not lease.holder(cluster.get(paths.LEASES, "s-journal"))


@pytest.mark.parametrize("mark", ["", "boot/1 6882 5", "mine"])
def test_who_may_be_alive_keeps_it(mark: str) -> None:
    """A second runner is told who has it, and how long to wait where that one is dead."""
    held_lease = _lease(lease.process_mark() if mark == "mine" else mark)
    assert "vm:6882" == lease.holder(held_lease)
    with pytest.raises(InputError, match="another process runs this sweep: vm:6882") as excinfo:
        lease.LeaseHolder(FakeCluster(held_lease), "lab", "s-journal").acquire(wait=False)
    assert "if that process is dead, try again in 12 s" in excinfo.value.problem.hint

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
from allranks.sweep.storage import holding, processes
from tests.unit.cluster.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from allranks.model.manifest import Manifest

_MARK = "from allranks.sweep.storage import processes; print(processes.mine())"


def _lease(mark: str = "") -> Manifest:
    """A Lease that somebody has renewed just now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "vm:6882", "renewTime": now, "leaseDurationSeconds": 12}
    about: dict[str, Any] = {"name": "s-journal", "resourceVersion": "7"}
    about["annotations"] = {names.SWEEP_HOLDER: mark}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": about,
        "spec": spec,
    }


def _dead() -> str:
    """The mark of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", _MARK], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_mark_tells_of_its_process_alone() -> None:
    """Of this machine's own it is known whether they are gone; of others nothing is."""
    mine = processes.mine()
    kernel, pid, ticks = mine.split()
    assert (str(os.getpid()), False) == (pid, processes.is_gone(mine))
    assert processes.is_gone(f"{kernel} {pid} {int(ticks) - 1}")
    assert processes.is_gone(_dead())
    for other in ("", "x", f"boot/1 {pid} 1", f"{kernel} x 1", kernel):
        assert not processes.is_gone(other), other


@pytest.mark.parametrize("wait", [False, True])
def test_a_dead_process_of_this_machine_is_not_waited_for(*, wait: bool) -> None:
    """Its Lease is held by nobody, and is taken at once, with the mark of who has it now."""
    lease = _lease(_dead())
    assert not holding.holder(lease)
    cluster = FakeCluster(lease)
    hold = holding.Hold(cluster, "lab", "s-journal")
    hold.take(wait=wait)
    held = cluster.get(paths.LEASES, "s-journal")
    assert (holding.identity(), processes.mine()) == (
        held["spec"]["holderIdentity"],
        held["metadata"]["annotations"][names.SWEEP_HOLDER],
    )
    hold.let_go()
    assert not holding.holder(cluster.get(paths.LEASES, "s-journal"))


@pytest.mark.parametrize("mark", ["", "boot/1 6882 5", "mine"])
def test_who_may_be_alive_keeps_it(mark: str) -> None:
    """A second runner is told who has it, and how long to wait where that one is dead."""
    lease = _lease(processes.mine() if mark == "mine" else mark)
    assert "vm:6882" == holding.holder(lease)
    with pytest.raises(InputError, match="another process runs this sweep: vm:6882") as caught:
        holding.Hold(FakeCluster(lease), "lab", "s-journal").take(wait=False)
    assert "if that process is dead, try again in 12 s" in caught.value.problem.hint

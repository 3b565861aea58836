"""The control plane itself fails: its API server starts anew, its store stands still, or is full.

The operator is at work meanwhile, or somebody submits.
"""

from __future__ import annotations

import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import cluster as kube
from tests.kube import faults
from tests.waiting import until

from . import submitting, watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .operator_process import Zygote
    from .submitting import Submits
    from .watching import Lab

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("operator-outages")]

_PAUSE = 30.0
_FAST = 500


@pytest.fixture(scope="module")
def broken() -> Iterator[Cluster]:
    """A control plane that no other test needs."""
    with kube.start(name="outages", kwok=True, controller_qps=_FAST) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", watching.REPO / "charts/operator/crds")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=100s")
        yield cluster


zygote, lab = watching.fixtures("broken", "module")


@pytest.fixture(scope="module")
def endings(zygote: Zygote) -> Iterator[ExitStack]:
    """What ends after the last test."""
    del zygote
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def submits(lab: Lab, helm4: Any, tmp_path: Path) -> Iterator[Submits]:
    """Where folders are submitted, in the lab's namespace."""
    with ExitStack() as stack:
        yield submitting.submits(lab.cluster, lab.namespace, helm4, stack, tmp_path)


def test_a_store_that_stands_still(lab: Lab) -> None:
    """The store stops for 30 s amid a plan: the lease is lost, and after it all goes on."""
    operator = lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=40)
    until(lambda: len(lab.names("j")) >= 5, "the first pods")
    with faults.paused(lab.cluster, "etcd"):
        time.sleep(_PAUSE)  # nothing answers: there is nothing to wait for
    until(lambda: len(operator.log_lines("acting")) >= 2, "the operator to act again", 60)
    assert operator.log_lines("lost the lease; standing by")
    lab.plan("j", 1, worker=45)
    lab.running("j", 45, seconds=watching.LONG)
    assert [f"j-edljob-worker-{index}" for index in range(45)] == sorted(
        lab.names("j"), key=lambda name: int(name.rpartition("-")[2])
    )
    assert operator.process.alive
    operator.sound()


def test_an_api_server_that_starts_anew(lab: Lab, endings: ExitStack, submits: Submits) -> None:
    """Amid a plan of 300 pods: watches drop, and nothing is lost.

    Whether their places are forgotten, too, depends on what changed in between (unit/operator).
    Two submits are in the middle of it as well. Code that is being sent is sent in the end; a
    release that helm was making is not, which is said, and the command can be given again.
    """
    operator = lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=300)
    until(lambda: len(lab.names("j")) >= 20, "the first pods")
    # Code is sent for a minute at most: this one last, so that it is not held for long.
    making = submits.begin("making", "/jobs")
    sending = submits.begin("sending", "/configmaps")

    def let_go() -> None:
        for held in (sending, making):
            held.go.set()

    endings.enter_context(faults.restarted(lab.cluster, "kube-apiserver", let_go))
    assert 0 == sending.end(), sending.text
    assert sending.text.startswith("started sending")
    assert 1 == making.end()
    assert "does not answer" in making.text
    submits.again("making")
    for name in ("sending", "making"):
        submits.program("delete", name)
    submits.nothing_left()
    lab.running("j", 300, seconds=watching.LONG)
    ids = {int(name.rpartition("-")[2]) for name in lab.names("j")}
    assert set(range(300)) == ids
    lab.plan("j", 1, worker=2)
    lab.running("j", 2)
    until(lambda: lab.phase_of_plan("j-plan-1") == "Succeeded", "the plan's end")
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics") as answer:
        text = answer.read().decode()
    assert 'reason="dropped"' in text
    assert operator.process.alive
    operator.sound()


def test_a_full_store_is_said_and_leaves_nothing(submits: Submits) -> None:
    """Full before the code is sent, or before the release is recorded: both name etcd, at once."""
    for name, part, words in (
        ("early", "/configmaps", "the snapshot cannot be stored: the etcd of"),
        ("late", "/secrets", "the release cannot be stored: the etcd of the cluster is full"),
    ):
        held = submits.begin(name, part)
        with faults.full(submits.program.cluster):
            held.go.set()
            assert 1 == held.end()
        assert words in held.text
        assert "make room in etcd" in held.text
        submits.nothing_left()
        submits.again(name)
        submits.program("delete", name)
    submits.nothing_left()

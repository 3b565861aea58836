"""The control plane itself fails: its API server starts anew, its store stands still for a time."""

from __future__ import annotations

import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.kube import cluster as kube
from tests.kube import faults

from . import watching
from .waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.cluster import Cluster

    from .operator_process import Zygote
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


def test_a_store_that_stands_still(lab: Lab) -> None:
    """The store stops for 30 s amid a plan: the lease is lost, and after it all goes on."""
    operator = lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=40)
    until(lambda: len(lab.names("j")) >= 5, "the first pods")
    with faults.paused(lab.cluster, "etcd"):
        time.sleep(_PAUSE)  # nothing answers: there is nothing to wait for
    until(lambda: len(operator.log_lines("acting")) == 2, "the operator to act again", 60)
    assert operator.log_lines("lost the lease; standing by")
    lab.plan("j", 1, worker=45)
    lab.running("j", 45, seconds=watching.LONG)
    assert [f"j-edljob-worker-{index}" for index in range(45)] == sorted(
        lab.names("j"), key=lambda name: int(name.rpartition("-")[2])
    )
    assert operator.process.alive
    operator.sound()


def test_an_api_server_that_starts_anew(lab: Lab, endings: ExitStack) -> None:
    """Amid a plan of 300 pods: watches drop, their places are forgotten, and nothing is lost."""
    operator = lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=300)
    until(lambda: len(lab.names("j")) >= 20, "the first pods")
    endings.enter_context(faults.restarted(lab.cluster, "kube-apiserver"))
    lab.running("j", 300, seconds=watching.LONG)
    ids = {int(name.rpartition("-")[2]) for name in lab.names("j")}
    assert set(range(300)) == ids
    lab.plan("j", 1, worker=2)
    lab.running("j", 2)
    until(lambda: lab.phase_of_plan("j-plan-1") == "Succeeded", "the plan's end")
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics") as answer:
        text = answer.read().decode()
    assert 'reason="dropped"' in text
    assert 'reason="expired"' in text
    assert operator.process.alive
    operator.sound()

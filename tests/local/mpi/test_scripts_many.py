"""Many hosts: all are asked at once, and mpirun reaches all of them."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.amounts import amount

if TYPE_CHECKING:
    from .conftest import MakeLab

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_HOSTS = amount(64, ci=24)


def test_many_hosts(lab: MakeLab, record_property: pytest.RecordProperty) -> None:
    """The launcher starts soon after the last worker is ready, and ranks run on each host.

    How soon is recorded, not judged: all pods start on this one machine meanwhile.
    """
    job = lab("openmpi4", workers=_HOSTS, slots=1, env={"ALLRANKS_WAIT_SECONDS": "250"})
    launcher = job.launcher("uname", "-n")
    workers = [job.worker(index) for index in range(_HOSTS)]
    for worker in workers:
        worker.says("this worker is ready", 200)
    ready = time.monotonic()
    launcher.says(f"{_HOSTS} of {_HOSTS} hosts answer; starting", 60)
    record_property("seconds_from_ready_to_start", round(time.monotonic() - ready, 2))
    assert launcher.end() == 0, launcher.log
    names = {f"job-worker-{index}" for index in range(_HOSTS)}
    assert names == set(re.findall(r"job-worker-\d+(?![\d.])", launcher.log))
    assert [0] * _HOSTS == [worker.end() for worker in workers]

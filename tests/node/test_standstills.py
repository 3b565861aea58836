"""Jobs of real pods that stand still: who is named, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from allranks import names

from . import watching
from .conftest import until

if TYPE_CHECKING:
    from .conftest import Allranks, Lab

pytestmark = [pytest.mark.timeout(600)]

_RANK_1_STAYS_AWAY = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
if os.environ["RANK"] == "1":
    time.sleep(600)
dist.all_reduce(torch.ones(1))
"""
# On a busy machine one pod loads torch for long while the other waits for it.
_SECONDS = 20
_SLEEPS = "import time\ntime.sleep(600)\n"


def test_a_job_that_stands_still_names_the_rank_and_ends(lab: Lab, allranks: Allranks) -> None:
    """The launchers of torchrun agree on a rank; that of MPI asks its hosts. Both end with 218."""
    policy = {"backoffLimit": 0, "stallSeconds": _SECONDS, "onStall": "end"}
    lab.install("still", nodes=2, script=_RANK_1_STAYS_AWAY, runPolicy=policy)
    lab.install("quiet", "mpi", script=_SLEEPS, runPolicy=policy, mpi={"numWorkers": 2, "np": 2})
    for name, part in (("still", ""), ("quiet", "launcher")):
        assert "Failed" == lab.finished(name, part, seconds=240)["type"]
    still, quiet = (
        json.loads(allranks("status", name, "-o", "json")) for name in ("still", "quiet")
    )
    assert [names.EXIT_STALLED] * 2 == [still["exitCode"], quiet["exitCode"]]
    failure = still["failure"]
    assert (1, "still-1") == (failure["rank"], failure["pod"][:7]), still
    assert "has not entered all_reduce #1; it is at script:5 in <module>" in failure["message"]
    assert quiet["failure"]["message"].startswith(
        f"no progress for {_SECONDS} s: no rank computes"
    ), quiet
    log = lab.log(lab.pod("quiet", role="launcher")["metadata"]["name"])
    for rank in range(2):
        assert f"no progress: rank {rank} is at script:2 in <module>, in no collective" in log


def test_workers_of_an_elastic_job_say_why_they_stand_still(lab: Lab) -> None:
    """Of ranks that torchrun starts the one that the others wait for is named, with its line."""
    elastic = {
        "mode": "auto",
        "framework": "pytorch",
        "auto": {"minWorkers": 2, "maxWorkers": 2},
    }
    watching.install(lab, replicas=1)
    policy = {"stallSeconds": _SECONDS}
    lab.install("auto", "elastic", script=_RANK_1_STAYS_AWAY, elastic=elastic, runPolicy=policy)
    beginning = f"allranks: no progress for {_SECONDS} s: rank 1 (pod auto-edljob-worker-"

    def sentences() -> list[str]:
        return [line for line in lab.logs("auto").splitlines() if line.startswith(beginning)]

    until(sentences, lambda: lab.logs("auto"), 240)
    (sentence,) = sentences()
    reason = "has not entered all_reduce #1; it is at script:5 in <module>; 1 rank waits"
    assert sentence.endswith(reason)

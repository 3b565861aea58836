"""DLRover's released master in a pod of the cluster, as the ElasticJob's own master pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kube import image_recipe

from . import watching
from .conftest import small, until
from .watching import JOBS, PLANS

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

# Its end is seen by the master within half a minute.
_ENDS = 120.0
_WORKER = """
import os, pathlib, time
print("worker", os.environ["NODE_RANK"], "of", os.environ["NODE_NUM"],
      "asks", os.environ["DLROVER_MASTER_ADDR"], flush=True)
while not pathlib.Path("/tmp/go-on").exists():
    time.sleep(0.1)
"""


def test_a_master_pod_drives_a_job_to_its_end(lab: Lab) -> None:
    """Its plans make the workers, a deleted one comes back, and its exit code ends the job."""
    watching.install(lab, replicas=1)
    master = ("python", "-W", "ignore", "-m", "dlrover.python.master.main", "--platform", "k8s")
    about = ("--namespace", lab.namespace, "--job_name", "edl", "--port", "50001")
    values = {
        "script": _WORKER,
        "elastic": {
            "mode": "auto",
            "framework": "pytorch",
            "roles": {"worker": {"replicas": 2}},
            "auto": {
                "history": False,
                "master": {
                    "image": image_recipe.DLROVER,
                    "command": [*master, *about],
                    "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}},
                },
            },
        },
    }
    lab.install("edl", "elastic", **small(values))
    watching.reaches(lab, JOBS, "edl", "Running", 90)
    lab.line("edl", "worker 1 of 2 asks elasticjob-edl-dlrover-master", 1, "worker")

    lab.delete("pods", "edl-edljob-worker-1", grace=0)
    until(lambda: lab.get("pods", "edl-edljob-worker-2"), lambda: lab.logs("edl"))
    lab.line("edl", "worker 1 of 2", 1, "worker")
    for pod in ("edl-edljob-worker-0", "edl-edljob-worker-2"):
        lab.let_go(pod, "/tmp/go-on")

    status = watching.reaches(lab, JOBS, "edl", "Succeeded", _ENDS)
    assert "completionTime" in status["status"]
    until(lambda: not lab.cluster.items(lab.path(PLANS)), "the end of handled plans")

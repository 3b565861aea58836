"""The operator on a real node: it installs by its chart, and says how real runs do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kube.errors import BenchError

from . import watching
from .conftest import small, until
from .watching import RUNS

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

_TRAINS = """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
print("met", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def test_it_runs_as_nobody_on_a_root_that_it_cannot_write_to(lab: Lab) -> None:
    """Two replicas are ready under Pod Security "restricted"; one of them has the lease."""
    watching.install(lab)
    pods = watching.pods(lab)
    assert len(pods) == 2
    lease = lab.get("coordination.k8s.io/v1/leases", f"{watching.RELEASE}-watcher")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] in pods
    for pod in pods:
        inside = ("exec", pod, "--container", "watcher", "--")
        assert lab.cluster.kubectl(*inside, "id", "-u", namespace=lab.namespace).strip() == "65532"
        with pytest.raises(BenchError, match="Read-only file system"):
            lab.cluster.kubectl(*inside, "touch", "/tmp/x", namespace=lab.namespace)


def test_a_run_is_followed_to_its_success(lab: Lab, tmp_path: Path) -> None:
    """Its phase goes from Pending over Running to Succeeded, and `helm --wait` waits for it."""
    watching.install(lab, replicas=1)
    values = small({"nodes": 2, "script": _TRAINS})
    with watching.phases(lab, tmp_path) as log:

        def phases() -> list[str]:
            return list(dict.fromkeys(log.read_text(encoding="utf-8").splitlines()))

        words = ("install", "ddp", lab.charts / "torchrun", "--wait", "--timeout", "120s")
        lab.run_helm(*words, "--values", "-", stdin=json.dumps(values))
        status = watching.status(lab, RUNS, "ddp")
        assert status["phase"] in {"Running", "Succeeded"}
        status = watching.reaches(lab, RUNS, "ddp", "Succeeded", 90)
        # kubectl may write it a moment later than the API server gives it to others.
        until(lambda: "ddp Succeeded" in phases(), lambda: str(phases()), 30)
    assert phases()[-3:] == ["ddp Pending", "ddp Running", "ddp Succeeded"]
    assert {"completionTime", "startTime"} <= status.keys()
    assert lab.cluster.kubectl("get", "runs", namespace=lab.namespace).count("Succeeded") == 1


def test_a_run_that_fails_says_which_rank_and_why(lab: Lab) -> None:
    """`kubectl wait` ends with its failure; rank, exit code and last words are in its message."""
    watching.install(lab, replicas=1)
    script = "import sys\nsys.exit('the data is not there')\n"
    lab.install("bad", nodes=1, script=script, runPolicy={"backoffLimit": 0})
    wait = ("wait", "runs/bad", "--for=condition=Failed", "--timeout=90s")
    lab.cluster.kubectl(*wait, namespace=lab.namespace)
    status = watching.status(lab, RUNS, "bad")
    assert status["phase"] == "Failed"
    for word in ("rank 0", "1"):
        assert word in status["message"], status
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert {"Ready": "False", "Stalled": "True"}.items() <= conditions.items()

"""How jobs end that do not end well: at once, in time, and with a reason that names the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import image_recipe, node_volumes

from .conftest import rank_of, until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

_SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def test_a_fatal_exit_code_fails_the_job_at_once(lab: Lab) -> None:
    """The exit code of one rank ends the job without a retry, and is in the pod's own status."""
    script = "import os, sys\nsys.exit(13 if os.environ['RANK'] == '1' else 0)\n"
    policy = {"backoffLimit": 5, "fatalExitCodes": [13]}
    lab.install("fatal", nodes=2, script=script, runPolicy=policy)
    condition = lab.finished("fatal", seconds=90)
    assert ("Failed", "PodFailurePolicy") == (condition["type"], condition["reason"])
    assert "exit code 13" in condition["message"]
    # Kubernetes removes what still ran; rank 1 was not tried again.
    assert 1 == len([pod for pod in lab.pods("fatal") if rank_of(pod) == 1])
    assert lab.ended("fatal", 1)["message"].startswith("rank 1 ended with exit code 13")


def test_other_failures_are_retried_and_counted(lab: Lab) -> None:
    """A rank that fails is tried again as often as the values say, each time in a new pod."""
    policy = {"backoffLimit": 1}
    torchrun = {"maxRestarts": 0}
    lab.install(
        "retried", nodes=1, script="raise SystemExit(7)\n", runPolicy=policy, torchrun=torchrun
    )
    condition = lab.finished("retried", seconds=120)
    assert ("Failed", "MaxFailedIndexesExceeded") == (condition["type"], condition["reason"])
    assert 2 == len(lab.pods("retried"))


def test_a_deadline_ends_a_job(lab: Lab) -> None:
    """A job that runs too long fails, and its pods go."""
    lab.install("late", nodes=2, script=_SLEEP, runPolicy={"activeDeadlineSeconds": 8})
    condition = lab.finished("late", seconds=60)
    assert ("Failed", "DeadlineExceeded") == (condition["type"], condition["reason"])
    until(lambda: not lab.job("late")["status"].get("active"), "the pods to end", 60)


def test_a_finished_job_removes_itself(lab: Lab) -> None:
    """With a time to live the Job and its pods are gone that long after the end."""
    lab.install(
        "brief", nodes=1, script="print('done')\n", runPolicy={"ttlSecondsAfterFinished": 1}
    )
    until(lambda: lab.get("batch/v1/jobs", "brief") is None, "the Job to go", 90)
    until(lambda: not lab.pods("brief"), "its pods to go")


def test_a_memory_limit_is_real(lab: Lab) -> None:
    """A rank that takes more memory than the limit is killed, and the job's end says so."""
    resources = {"perPod": {"limits": {"memory": "700Mi"}}}
    lab.install(
        "greedy",
        nodes=1,
        script="x = bytearray(1 << 30)\nprint(len(x))\n",
        resources=resources,
        runPolicy={"backoffLimit": 0},
        torchrun={"maxRestarts": 0},
    )
    condition = lab.finished("greedy", seconds=90)
    assert "Failed" == condition["type"]
    end = lab.ended("greedy")
    assert ("OOMKilled", 137) == (end["reason"], end["exitCode"])
    assert "137" in end["message"]


def test_an_image_that_is_not_there_is_named(lab: Lab) -> None:
    """The pod says which image cannot be pulled; nothing else of the job goes wrong."""
    image = {"repository": "localhost/allranks/none", "tag": "1"}
    lab.install("missing", nodes=1, script="pass\n", image=image)

    def waiting() -> dict[str, Any] | None:
        statuses = lab.pod("missing")["status"].get("containerStatuses", [])
        states = [container_status["state"].get("waiting", {}) for container_status in statuses]
        states_of_pull = [
            state for state in states if state.get("reason") in {"ErrImagePull", "ImagePullBackOff"}
        ]
        return states_of_pull[0] if states_of_pull else None

    state = until(waiting, "the image pull to fail")
    assert "localhost/allranks/none:1" in state["message"]


def test_an_image_without_python_says_so(lab: Lab) -> None:
    """The pod ends at once with the code for "not found" and a sentence on what is missing."""
    repository, tag = image_recipe.BARE.rsplit(":", 1)
    lab.install(
        "bare",
        nodes=1,
        script="pass\n",
        image={"repository": repository, "tag": tag},
        runPolicy={"backoffLimit": 0},
    )
    assert "Failed" == lab.finished("bare")["type"]
    end = lab.ended("bare")
    assert 127 == end["exitCode"]
    assert "neither python3 nor python on PATH has torch" in end["message"]


def test_a_full_volume_fails_with_the_systems_own_words(lab: Lab) -> None:
    """A checkpoint that does not fit fails its rank; the log names the cause."""
    script = "open('/checkpoints/x', 'wb').write(bytes(32 << 20))\n"
    lab.install(
        "full",
        nodes=1,
        script=script,
        storage={"checkpoints": {"size": "16Mi", "storageClassName": node_volumes.SMALL}},
        runPolicy={"backoffLimit": 0},
        torchrun={"maxRestarts": 0},
    )
    assert "Failed" == lab.finished("full", seconds=90)["type"]
    assert "No space left on device" in lab.logs("full")


def test_a_full_scratch_folder_evicts_the_pod(lab: Lab) -> None:
    """A pod that outgrows its emptyDir is evicted with a message that names the volume."""
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "8Mi"}}
    mount = {"name": "scratch", "mountPath": "/scratch"}
    lab.install(
        "scratch",
        nodes=1,
        script=f"open('/scratch/x', 'wb').write(bytes(32 << 20))\n{_SLEEP}",
        podTemplate={
            "spec": {
                "containers": [{"name": "trainer", "volumeMounts": [mount]}],
                "volumes": [scratch],
            }
        },
        runPolicy={"backoffLimit": 0},
    )
    until(lambda: lab.events("Evicted"), lambda: f"the eviction\n{lab.logs('scratch')}", 90)
    assert 'EmptyDir volume "scratch"' in lab.events("Evicted")[0]

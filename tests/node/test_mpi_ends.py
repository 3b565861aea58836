"""How MPI jobs end: what becomes of workers and exit codes, and of a job that loses a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import image_recipe

from .conftest import until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

# Ranks that need no MPI library: mpirun starts any program.
_HELLO = "import socket\nprint('on', socket.gethostname(), flush=True)\n"
# Runs for ever, unless it has been started before.
_ONCE = """
import pathlib, time
begun = pathlib.Path("/checkpoints/begun")
if begun.exists():
    print("second start", flush=True)
else:
    print("first start", flush=True)
    time.sleep(2)
    begun.touch()
    time.sleep(600)
"""


def _values(**values: Any) -> dict[str, Any]:
    mpi = {"numWorkers": 2, "np": 2, **values.pop("mpi", {})}
    return {"script": _HELLO, "mpi": mpi, "runPolicy": {"backoffLimit": 0}, **values}


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_clean_pod_policy(lab: Lab, policy: str) -> None:
    """At the end workers stay, stop, or are removed with their Job, with no operator running."""
    lab.install("hello", "mpi", **_values(mpi={"cleanPodPolicy": policy}))
    lab.completes("hello", "launcher", seconds=90)
    if policy == "All":
        until(lambda: lab.get("batch/v1/jobs", "hello-worker") is None, "the workers' Job to go")
        until(lambda: not lab.pods("hello", "worker"), "the workers to go")
        return
    if policy == "Running":
        lab.completes("hello", "worker")
    phases = {pod["status"]["phase"] for pod in lab.pods("hello", "worker")}
    assert {"Running" if policy == "None" else "Succeeded"} == phases
    assert 2 == len(lab.pods("hello", "worker"))


def test_workers_of_a_statefulset_are_scaled_to_nothing(lab: Lab) -> None:
    """With ssh as with exec: a StatefulSet would start its pods again however they end."""
    lab.install("scaled", "mpi", **_values(mpi={"controller": "StatefulSet"}))
    lab.completes("scaled", "launcher", seconds=120)
    until(lambda: not lab.pods("scaled", "worker"), "the workers to go")
    assert 0 == lab.get("apps/v1/statefulsets", "scaled-worker")["spec"]["replicas"]


def test_another_mpi_than_the_values_name(lab: Lab) -> None:
    """It would find no hosts and run all ranks on the launcher: refused by name instead."""
    lab.install("other", "mpi", **_values(mpi={"implementation": "MPICH"}))
    assert "Failed" == lab.finished("other", "launcher", seconds=90)["type"]
    end = lab.ended("other", role="launcher")
    assert "that of OpenMPI, and mpi.implementation is MPICH: set it to OpenMPI" in end["message"]
    lab.completes("other", "worker")


def test_the_launchers_exit_code_fails_the_job_at_once(lab: Lab) -> None:
    """A fatal code of a rank is the launcher's; nothing is retried, and the workers stop."""
    policy = {"backoffLimit": 3, "fatalExitCodes": [13]}
    lab.install("fatal", "mpi", **_values(script="raise SystemExit(13)\n", runPolicy=policy))
    condition = lab.finished("fatal", "launcher", seconds=90)
    assert "Failed" == condition["type"]
    end = lab.ended("fatal", role="launcher")
    assert 13 == end["exitCode"]
    assert "exit code 13, which is fatal" in end["message"]
    assert 1 == len(lab.pods("fatal", "launcher"))
    lab.completes("fatal", "worker")


def test_a_failed_command_is_tried_again(lab: Lab) -> None:
    """The workers stay for the launcher's next try, and stop after the last."""
    policy = {"backoffLimit": 1}
    lab.install("retried", "mpi", **_values(script="raise SystemExit(7)\n", runPolicy=policy))
    assert "Failed" == lab.finished("retried", "launcher", seconds=120)["type"]
    launchers = lab.pods("retried", "launcher")
    assert 2 == len(launchers)
    assert 7 == lab.ended("retried", role="launcher")["exitCode"]
    lab.completes("retried", "worker")


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_a_lost_worker_costs_no_retry_of_the_launcher(lab: Lab, transport: str) -> None:
    """A worker pod deleted in mid-run ends the command; the job begins anew."""
    lab.install(
        "lost",
        "mpi",
        **_values(
            script=_ONCE,
            mpi={"transport": transport},
            runPolicy={"backoffLimit": 1},
            storage={"checkpoints": {"size": "16Mi"}},
        ),
    )
    lab.line("lost", "first start", role="launcher", seconds=90)
    first = lab.pod("lost", role="launcher")["metadata"]["name"]
    worker = lab.pod("lost", 1, "worker")["metadata"]["name"]
    script = "import pathlib, time\nwhile not pathlib.Path('/checkpoints/begun').exists():\n"
    lab.inside(worker, "python3", "-c", f"{script}    time.sleep(0.1)\n")
    lab.delete("pods", worker, grace=0)

    def end() -> dict[str, Any] | None:
        pod = lab.get("pods", first)
        statuses = pod["status"].get("containerStatuses", []) if pod else []
        states = [container_status["state"].get("terminated") for container_status in statuses]
        return states[0] if states else None

    state = until(end, lambda: f"the launcher's end\n{lab.logs('lost')}")
    assert 214 == state["exitCode"]
    assert "lost 1 of 2 hosts: lost-worker-1" in state["message"]
    lab.line("lost", "second start", role="launcher", seconds=90)
    lab.completes("lost", "launcher", seconds=60)


def test_an_image_without_ssh_is_named(lab: Lab) -> None:
    """Each role says at once what its image misses, and what to do instead."""
    repository, tag = image_recipe.BARE.rsplit(":", 1)
    lab.install(
        "bare",
        "mpi",
        **_values(image={"repository": repository, "tag": tag}, network={"waitSeconds": 10}),
    )
    for role, program in (("worker", "no sshd"), ("launcher", "no ssh client")):
        end = lab.ended("bare", role=role)
        assert 127 == end["exitCode"]
        assert program in end["message"]
        assert "mpi.transport: exec" in end["message"]
    assert "Failed" == lab.finished("bare", "launcher")["type"]


def test_workers_that_never_come_are_named(lab: Lab) -> None:
    """The launcher waits as long as it was told, then names the hosts and why."""
    nowhere = {"spec": {"nodeSelector": {"nowhere": "yes"}}}
    lab.install(
        "alone",
        "mpi",
        **_values(mpi={"worker": {"podTemplate": nowhere}}, network={"waitSeconds": 12}),
    )
    assert "Failed" == lab.finished("alone", "launcher")["type"]
    message = lab.ended("alone", role="launcher")["message"]
    assert "2 of 2 hosts did not answer" in message
    assert "alone-worker-1" in message
    assert "has no address" in message

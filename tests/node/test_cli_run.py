"""The command line against a real node: what a person sees of a job, and of what stops one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import image_recipe, node_volumes

from .conftest import until
from .test_status import container, job

if TYPE_CHECKING:
    from .conftest import Allranks, Lab

pytestmark = [pytest.mark.timeout(900)]


def test_run_follows_a_job_and_delete_keeps_its_checkpoints(lab: Lab, allranks: Allranks) -> None:
    """The example reaches 95 % under the eyes of `run`; `delete` keeps what it saved."""
    output = allranks("run", "digits", **lab.example("torchrun-digits"))
    line = next(line for line in output.splitlines() if '"final": true' in line)
    final = json.loads(line[line.index("{") :])
    assert (4, "gloo") == (final["world_size"], final["backend"])
    assert final["accuracy"] >= 0.95
    status = json.loads(allranks("status", "digits", "-o", "json"))
    assert "Succeeded" == status["phase"]
    moments = json.loads(allranks("timeline", "digits", "-o", "json"))["moments"]
    expected = ["created", "scheduled", "pulled", "started", "first step", "ended"]
    assert expected == [moment["name"] for moment in moments if moment["name"] in expected]
    spent = json.loads(allranks("goodput", "digits", "-o", "json"))
    assert 0 < spent["goodput"] < 1
    assert "digits-checkpoints" in allranks("delete", "digits")
    assert [] == lab.pods("digits")
    claim = lab.get("persistentvolumeclaims", "digits-checkpoints")
    assert claim is not None
    assert "Bound" == claim["status"]["phase"]


def test_run_ends_with_the_jobs_own_exit_code(lab: Lab, allranks: Allranks) -> None:
    """Too low an accuracy is the example's exit code 3, and the command's."""
    values = lab.example("torchrun-digits")
    values["args"][1] = "1"
    assert "exit code 3" in allranks("run", "poor", code=3, **values)


def test_run_names_a_missing_python(allranks: Allranks) -> None:
    """An image without Python ends the run with the shell's code and the entry script's words."""
    repository, tag = image_recipe.BARE.rsplit(":", 1)
    values = {"image": {"repository": repository, "tag": tag}, "runPolicy": {"backoffLimit": 0}}
    output = allranks("run", "bare", code=127, nodes=1, script="pass\n", **values)
    assert "neither python3 nor python on PATH has torch" in output


def test_run_shows_the_last_words_of_a_rank_whose_disk_is_full(allranks: Allranks) -> None:
    """The system's own reason is on the screen, and the run has failed."""
    checkpoints = {"size": "16Mi", "storageClassName": node_volumes.SMALL}
    output = allranks(
        *("run", "full"),
        code=1,
        nodes=1,
        script="open('/checkpoints/x', 'wb').write(bytes(32 << 20))\n",
        storage={"checkpoints": checkpoints},
        runPolicy={"backoffLimit": 0},
        torchrun={"maxRestarts": 0},
    )
    assert "No space left on device" in output


def test_a_missing_image_is_named_in_bounded_time(allranks: Allranks) -> None:
    """Following gives up when it was told to; the status says which image cannot be had."""
    image = {"repository": "localhost/allranks/none", "tag": "1"}
    values = {"nodes": 1, "script": "pass\n", "image": image}
    allranks("run", "missing", "--timeout", "15s", code=1, **values)
    until(lambda: "localhost/allranks/none:1" in allranks("status", "missing"), "the reason")


def test_run_follows_an_mpi_job_and_delete_leaves_nothing(lab: Lab, allranks: Allranks) -> None:
    """The launcher's log is on the screen, its pods can be told apart, and all of it goes."""
    output = allranks("run", "pi", **lab.example("mpi-pi"))
    assert '"ranks": 4, "hosts": 2' in output
    status = json.loads(allranks("status", "pi", "-o", "json"))
    assert "Succeeded" == status["phase"]
    assert "told to stop" in allranks("logs", "pi", "--role", "worker")
    allranks("delete", "pi")
    kinds = ("pods", "services", "secrets", "batch/v1/jobs", "persistentvolumeclaims")
    leftovers = [
        item["metadata"]["name"] for kind in kinds for item in lab.cluster.items(lab.path(kind))
    ]
    assert [] == leftovers


def test_run_names_workers_that_never_come(allranks: Allranks) -> None:
    """The run fails when the launcher gives up, with its words."""
    mpi = {"numWorkers": 2, "worker": {"podTemplate": {"spec": {"nodeSelector": {"no": "where"}}}}}
    output = allranks(
        *("run", "alone"),
        code=1,
        workload="mpi",
        command=["true"],
        mpi=mpi,
        network={"waitSeconds": 6},
        runPolicy={"backoffLimit": 0},
    )
    assert "2 of 2 hosts did not answer" in output
    assert "alone-worker-0" in output


def test_run_names_a_missing_sshd(allranks: Allranks) -> None:
    """An image without ssh ends the run with the shell's code and what to do instead."""
    repository, tag = image_recipe.BARE.rsplit(":", 1)
    output = allranks(
        *("run", "bare"),
        code=127,
        workload="mpi",
        command=["true"],
        image={"repository": repository, "tag": tag},
        mpi={"numWorkers": 1},
        runPolicy={"backoffLimit": 0},
    )
    assert "set mpi.transport: exec" in output


def test_run_ends_with_the_code_of_the_rank_that_failed_first(allranks: Allranks) -> None:
    """Rank 3 of two pods ends with 37 while the others wait in a barrier: so does the run."""
    script = (
        "import os, sys, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.barrier()\n"
        "if dist.get_rank() == 3:\n"
        "    sys.stderr.write('disk of rank 3 is full\\n')\n"
        "    sys.stderr.flush()\n"
        "    os._exit(37)\n"
        "while True:\n"
        "    dist.barrier()\n"
    )
    values = {"nodes": 2, "procsPerNode": 2, "script": script, "torchrun": {"maxRestarts": 0}}
    output = allranks("run", "first", code=37, runPolicy={"backoffLimit": 0}, **values)
    assert "exit code 37" in output
    status = json.loads(allranks("status", "first", "-o", "json"))
    assert 37 == status["exitCode"]
    assert status["failure"]["pod"].startswith("first-1")
    assert status["failure"]["message"].startswith("rank 3 ended with exit code 37")
    assert "disk of rank 3 is full" in status["failure"]["message"]


_RANK_ENDS = """
import os, signal, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == int(sys.argv[1]):
    sys.stderr.write("last words of the first\\n")
    sys.stderr.flush()
    os._exit(37) if sys.argv[2] == "exit" else os.kill(os.getpid(), signal.SIGKILL)
while True:
    world.Barrier()
"""


@pytest.mark.xdist_group("mpi")
@pytest.mark.parametrize(
    ("rank", "how", "code", "own"),
    [(3, "exit", 37, False), (1, "kill", 137, False), (2, "exit", 37, True)],
    ids=["exit", "kill", "own-mpirun"],
)
def test_the_rank_of_an_mpi_job_that_failed_first(
    lab: Lab, allranks: Allranks, rank: int, how: str, code: int, *, own: bool
) -> None:
    """Its code is the run's and the pod's; the status names it, its pod and its last lines."""
    program = ["python3", "-c", _RANK_ENDS, str(rank), how]
    values = {
        "workload": "mpi",
        "command": [*(["mpirun", "-np", "4"] if own else []), *program],
        "procsPerNode": 2,
        "mpi": {"numWorkers": 2},
        "runPolicy": {"backoffLimit": 0},
    }
    output = allranks("run", "first", code=code, **values)
    sentence = (
        f"failed first: rank {rank} in pod first-worker-{rank // 2} ended with exit code {code}"
    )
    assert sentence in output
    end = lab.ended("first", role="launcher")
    assert code == end["exitCode"]
    assert f"{sentence}\nlast words of the first" == end["message"].strip()
    status = json.loads(allranks("status", "first", "-o", "json"))
    failure = status["failure"]
    assert (code, code, rank) == (status["exitCode"], failure["exitCode"], failure["process"])
    assert failure["pod"].startswith(f"first-worker-{rank // 2}")
    assert f"rank {rank} ended with exit code {code}\nlast words of the first" == failure["message"]
    output = allranks("status", "first")
    assert f"failed first: rank {rank} (pod {failure['pod']})" in output


_FILLS = """
import time
with open("/scratch/big", "wb") as big:
    big.write(bytes(8 << 20))
print("full", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("scratch", "own", "words"),
    [
        ({"sizeLimit": "1Mi"}, {}, 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi".'),
        ({}, {"ephemeral-storage": "1Mi"}, "ephemeral local storage"),
    ],
    ids=["volume", "limit"],
)
def test_status_says_what_a_pod_was_evicted_for(
    allranks: Allranks, scratch: dict[str, str], own: dict[str, str], words: str
) -> None:
    """A pod that writes more than it may: the kubelet's own words are the failure's."""
    trainer = {
        "name": "trainer",
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "resources": {"limits": own},
    }
    volumes = [{"name": "scratch", "emptyDir": scratch}]
    allranks(
        *("run", "full", "--detach"),
        nodes=1,
        script=_FILLS,
        podTemplate={"spec": {"containers": [trainer], "volumes": volumes}},
        runPolicy={"backoffLimit": 0},
        torchrun={"maxRestarts": 0},
    )

    def look() -> dict[str, Any] | None:
        status: dict[str, Any] = json.loads(allranks("status", "full", "-o", "json"))
        return status if status["failure"] else None

    status = until(look, lambda: f"an eviction\n{allranks('status', 'full')}")
    assert "Evicted" == status["failure"]["reason"]
    assert words in status["failure"]["message"]
    output = allranks("status", "full")
    assert words in output
    assert "unable to retrieve container logs" not in output


# Saves once it is asked to, and waits then.
_SAVES = """import time
from allranks_progress import saved, should_save
print("up", flush=True)
while not should_save():
    time.sleep(0.1)
saved(7)
time.sleep(600)
"""


def test_status_says_that_a_service_of_the_release_does_not_come_up(
    lab: Lab, allranks: Allranks
) -> None:
    """Whatever runs beside the training in a Deployment: who, which pod, and the exit code.

    Of the training itself `why` says through the API server what its rank does, and `checkpoint`
    has it save, which `status` then shows.
    """
    allranks("run", "beside", "--detach", nodes=1, script=_SAVES)
    labels = lab.pod("beside")["metadata"]["labels"]
    labels = {key: labels[key] for key in labels if key.startswith("app.kubernetes.io/")}
    labels |= {"app.kubernetes.io/component": "tensorboard", names.ROLE: "tensorboard"}
    program = container("echo there is no log; exit 3") | {"name": "tensorboard"}
    spec = job(program)["spec"]["template"]["spec"] | {"restartPolicy": "Always"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "beside-tensorboard", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    lab.cluster.api("POST", lab.path("apps/v1/deployments"), deployment)

    def look() -> str | None:
        output = allranks("status", "beside")
        return output if "tensorboard is not up" in output else None

    output: str = until(look, lambda: f"the service\n{allranks('status', 'beside')}")
    assert "Running" in output
    (line,) = [line for line in output.splitlines() if "tensorboard is not up" in line]
    assert "pod beside-tensorboard-" in line
    assert "(exit code 3)" in line
    until(lambda: "up" in allranks("logs", "beside"), lambda: f"a rank\n{lab.logs('beside')}")
    request = json.loads(allranks("checkpoint", "beside", "-o", "json"))
    assert (1, 1, []) == (request["pods"], request["ranks"], request["problems"])
    until(
        lambda: "saved at step 7" in allranks("status", "beside"),
        lambda: f"a save\n{lab.logs('beside')}",
    )
    answer = allranks("why", "beside")
    assert "none waits in a collective: rank 0 sleeps, script:7 in <module>" in answer


def test_logs_of_a_stateful_set_show_the_training_after_its_end(
    lab: Lab, allranks: Allranks
) -> None:
    """Its container was started again once it had ended: the log before that is read first."""
    values = {"nodes": 1, "script": "print('trained well')\n"}
    allranks("run", "set", torchrun={"controller": "StatefulSet"}, **values)
    name = lab.pod("set")["metadata"]["name"]

    def restarted() -> bool:
        pod = lab.get("pods", name) or {}
        return any(status["restartCount"] for status in pod["status"]["containerStatuses"])

    until(restarted, lambda: f"a second start\n{lab.logs('set')}")
    output = allranks("logs", "set")
    assert 1 <= output.count("trained well")
    assert "Succeeded" == json.loads(allranks("status", "set", "-o", "json"))["phase"]

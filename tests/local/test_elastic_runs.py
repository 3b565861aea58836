"""Elastic jobs on this machine, with real processes and masters that do as a test tells them."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli.main import main
from allranks.elastic.scale_request import ScaleRequest
from allranks.errors import InputError
from allranks.local import runs as local_runs
from allranks.model.status import Phase, PodPhase

from .conftest import container, first_process, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_FOR_EVER = "while :; do sleep 0.01; done"
# A worker that says who it is and stays until it is told to go.
_WORKER = f"trap 'echo bye; exit 0' TERM; echo rank $NODE_RANK at $POD_IP; {_FOR_EVER}"
# A master that makes one plan, waits until the test lets it go, and ends with the code it is given.
_MASTER = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["ALLRANKS_MASTER_FOLDER"])
name = os.environ["ALLRANKS_JOB"]
plan = {
    "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ScalePlan",
    "metadata": {"name": name + "-plan-0", "labels": {"scale-type": "auto"}},
    "spec": {"ownerJob": name, "replicaResourceSpecs": {"worker": {"replicas": 2}}},
}
path = folder / "plans" / (name + "-plan-0.json")
if not path.exists():
    partial = folder / "plan.partial"
    partial.write_text(json.dumps(plan))
    partial.rename(path)
print("master at", os.environ["POD_IP"], flush=True)
while not (folder / "end").exists():
    time.sleep(0.01)
sys.exit(int((folder / "end").read_text()))
"""


def pod(script: str, name: str) -> dict[str, Any]:
    """A pod template of one container."""
    spec = {"containers": [container(script, name=name)], "terminationGracePeriodSeconds": 30}
    return {"spec": spec}


def elastic(worker: str = _WORKER, master: str = _MASTER, **spec: Any) -> dict[str, Any]:
    """An ElasticJob whose master is a Python script."""
    leader = pod("", "main")
    leader["spec"]["containers"][0]["command"] = [sys.executable, "-c", master]
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {
            "name": "run",
            "labels": {names.WORKLOAD: "elastic"},
            "annotations": {names.MASTER: "own"},
        },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {
                "worker": {"template": pod(worker, "trainer"), **spec.pop("worker_spec", {})},
                names.EDL_MASTER: {"template": leader},
            },
            **spec,
        },
    }


def folder(machine: Machine) -> Path:
    """The folder that a run's master, supervisor and command line share."""
    return machine.folder().path / "elastic"


def end(machine: Machine, code: int = 0) -> None:
    """Let the master end."""
    partial = folder(machine) / "end.partial"
    partial.write_text(str(code))
    partial.rename(folder(machine) / "end")


def running() -> list[str]:
    """The names of the trainers that run."""
    status = local_runs.status("run", "lab")
    return sorted(
        pod.name for pod in status.pods if pod.role != "master" and pod.phase is PodPhase.RUNNING
    )


def workers(*numbers: int) -> list[str]:
    """The names of workers by their ids."""
    return [f"run-edljob-worker-{number}" for number in numbers]


def plan(machine: Machine, name: str) -> dict[str, Any]:
    """A plan as it stands."""
    content: dict[str, Any] = json.loads((folder(machine) / "plans" / f"{name}.json").read_text())
    return content


def kill(machine: Machine, name: str) -> None:
    """Send SIGKILL to the first process of a pod."""
    first_process(machine.processes, name).kill()


def addresses(machine: Machine) -> dict[str, str]:
    """The address of each pod that is there."""
    return {pod.name: pod.address for pod in machine.handles[-1].status().pods}


def test_the_first_plan_makes_the_pods_and_the_masters_end_is_the_jobs(machine: Machine) -> None:
    """Without counts in its specs a job has only its master, until that makes a plan."""
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    until(lambda: "Succeeded" == plan(machine, "run-plan-0").get("status", {}).get("phase"), "plan")
    assert Phase.RUNNING is handle.status().phase

    def lines() -> list[str]:
        return [log.text for log in local_runs.logs("run", "lab", role="worker")]

    until(lambda: 2 == len([line for line in lines() if line.startswith("rank ")]), "both workers")
    end(machine)
    status = handle.wait()
    assert (Phase.SUCCEEDED, 0) == (status.phase, status.exit_code)
    assert 2 == len([line for line in lines() if line.startswith("rank ")])
    assert 2 == lines().count("bye")


def test_a_killed_worker_is_replaced_at_its_address(machine: Machine) -> None:
    """SIGKILL costs a worker its process; another pod takes over its rank and its address."""
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    before = addresses(machine)
    kill(machine, "run-edljob-worker-1")
    until(lambda: workers(0, 2) == running(), "the replacement")
    assert before["run-edljob-worker-1"] == addresses(machine)["run-edljob-worker-2"]
    (new,) = (pod for pod in handle.status().pods if pod.name == "run-edljob-worker-2")
    assert (1, 1) == (new.rank, new.restarts)
    end(machine)
    status = handle.wait()
    assert (Phase.SUCCEEDED, None) == (status.phase, status.failure)


def test_a_run_that_is_stopped_blames_no_worker_that_recovered(machine: Machine) -> None:
    """While it runs, its status tells why it has restarted; a person's end is no failure of its.

    Its master finds the end in the job before it is stopped.
    """
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    kill(machine, "run-edljob-worker-1")
    until(lambda: workers(0, 2) == running(), "the replacement")
    failure = handle.status().failure
    assert failure is not None
    assert "run-edljob-worker-1" == failure.pod
    handle.stop()
    status = handle.wait()
    assert (Phase.FAILED, 130, None) == (status.phase, status.exit_code, status.failure)
    job = json.loads((folder(machine) / "job.json").read_text())
    assert "deletionTimestamp" in job["metadata"]


def test_scale_suspend_and_resume(machine: Machine) -> None:
    """The command line's wishes are plans and edits; suspended, no process is left."""
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    assert "run-scale-0" == local_runs.scale("run", "lab", ScaleRequest({"worker": 3}))
    until(lambda: workers(0, 1, 2) == running(), "three workers")
    until(lambda: local_runs.plan_answer("run", "lab", "run-scale-0").over, "the plan's end")
    local_runs.scale("run", "lab", ScaleRequest({"worker": 1}))
    until(lambda: workers(0) == running(), "one worker")
    assert local_runs.suspend("run", "lab")
    until(lambda: not machine.processes(), "the end of all processes")
    until(lambda: handle.status().phase is Phase.SUSPENDED, "the phase")
    assert local_runs.resume("run", "lab")
    until(lambda: 1 == len(running()), "its worker again")
    end(machine)
    assert Phase.SUCCEEDED is handle.wait().phase


def test_a_run_that_starts_suspended_waits_to_be_resumed(machine: Machine) -> None:
    """Nothing of it runs before, and it says how to go on; its loss would be said, too."""
    handle = machine.start(elastic(suspend=True))
    assert any("`allranks resume run -n lab --on local`" in note for note in handle.notes)
    until(lambda: handle.status().phase is Phase.SUSPENDED, "the phase")
    assert [] == machine.processes()
    assert local_runs.resume("run", "lab")
    until(lambda: workers(0, 1) == running(), "two workers")
    assert [1, 2] == [role.ready for role in handle.status().roles]
    local_runs.suspend("run", "lab")
    until(lambda: handle.status().phase is Phase.SUSPENDED, "the phase again")
    for process in machine.supervisors():
        process.kill()
    handle.wait()
    assert "SupervisorLost" == local_runs.status("run", "lab").reason


def test_a_master_that_dies_is_made_again_where_it_was(machine: Machine) -> None:
    """Its workers train on, and the new one has the old one's address, which they know."""
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    before = addresses(machine)
    kill(machine, "elasticjob-run-dlrover-master-0")
    second = "elasticjob-run-dlrover-master-1"
    until(lambda: second in addresses(machine), "another master")
    assert before["elasticjob-run-dlrover-master-0"] == addresses(machine)[second]
    assert workers(0, 1) == running()
    end(machine)
    assert Phase.SUCCEEDED is handle.wait().phase


def test_workers_that_a_master_sends_home_are_the_last(machine: Machine) -> None:
    """They leave its verdict, and nobody takes their places while it is still there.

    The words become the run's, and the exit code of the training its exit code.
    """
    verdict = f"{names.JOB_HAS_FAILED}run-edljob-worker-1: rank 0 ended with exit code 13"
    worker = f"echo '{verdict}' > /dev/termination-log; exit 13"
    status = machine.start(elastic(worker)).wait()
    assert (Phase.FAILED, 13) == (status.phase, status.exit_code)
    assert "run-edljob-worker-1: rank 0 ended with exit code 13" == status.message
    assert "TrainingFailed" == status.reason
    assert set(workers(0, 1)) >= {pod.name for pod in status.pods if pod.role != "master"}
    assert "PodsReplaced" not in (folder(machine) / "events.jsonl").read_text()


def test_a_job_that_fails_ends_with_its_workers_exit_code(machine: Machine) -> None:
    """A worker whose tries are used up ends a job whose master says so, with the worker's code."""
    spec = {"restartCount": 0, "restartPolicy": "Never"}
    handle = machine.start(elastic(worker="echo so be it; exit 7", worker_spec=spec))
    until(
        lambda: (
            {PodPhase.FAILED} == {pod.phase for pod in handle.status().pods if pod.role == "worker"}
        ),
        "the failure of both workers",
    )
    end(machine, 1)
    status = handle.wait()
    assert (Phase.FAILED, 7) == (status.phase, status.exit_code)
    assert status.failure is not None
    assert ("so be it",) == status.failure.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_supervisor_leaves_nothing(
    machine: Machine, number: signal.Signals
) -> None:
    """Master and workers end with the supervisor, in order or not."""
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    _, supervisor = machine.supervisors()
    supervisor.send_signal(number)
    assert Phase.FAILED is handle.wait().phase
    assert [] == machine.processes()


def test_parameter_servers_have_names_and_ports(machine: Machine) -> None:
    """TF_CONFIG leads to each rank's own address and port, whoever has the rank."""
    script = f"echo $TF_CONFIG; trap 'exit 0' TERM; {_FOR_EVER}"
    job = elastic(worker=script, distributionStrategy="ParameterServerStrategy")
    job["spec"]["replicaSpecs"]["ps"] = {"template": pod(script, "trainer"), "replicas": 2}
    job["spec"]["replicaSpecs"]["worker"]["replicas"] = 1
    job["spec"]["replicaSpecs"]["worker"]["autoScale"] = False
    master = job["spec"]["replicaSpecs"][names.EDL_MASTER]["template"]["spec"]["containers"][0]
    groups = '{"ps": {"replicas": 2}, "worker": {"replicas": 1}}'
    master["command"][2] = _MASTER.replace('{"worker": {"replicas": 2}}', groups)
    handle = machine.start(job)
    names_of = ["run-edljob-ps-0", "run-edljob-ps-1", "run-edljob-worker-0"]
    until(lambda: names_of == running(), "all pods")
    reports = until(
        lambda: (
            len(
                reports_of_pods := [
                    json.loads(log.text)
                    for log in local_runs.logs("run", "lab")
                    if log.text.startswith('{"cluster')
                ]
            )
            == 3
            and reports_of_pods
        ),
        "what all pods are told",
    )
    clusters = [report["cluster"] for report in reports]
    assert all(clusters[0] == cluster for cluster in clusters)
    hosts = [host.rpartition(":") for kind in ("ps", "worker") for host in clusters[0][kind]]
    assert [addresses(machine)[name] for name in names_of] == [host for host, _, _ in hosts]
    assert 3 == len({port for _, _, port in hosts})
    kill(machine, "run-edljob-ps-0")
    until(lambda: "run-edljob-ps-2" in running(), "another server")
    assert hosts[0][0] == addresses(machine)["run-edljob-ps-2"]
    end(machine)
    assert Phase.SUCCEEDED is handle.wait().phase


def test_what_cannot_run_here_is_refused_before_it_starts(machine: Machine) -> None:
    """A master that needs an API server, and a job without any pod to make, are named at once."""
    manifest = elastic()
    manifest["metadata"]["annotations"] = {names.MASTER: "given"}
    with pytest.raises(InputError, match="needs the API of a cluster"):
        machine.start(manifest)
    bare = elastic()
    del bare["spec"]["replicaSpecs"]["worker"]["template"]
    with pytest.raises(InputError, match="no pod of type 'worker' can be made"):
        machine.start(bare)
    missing = elastic()
    template = missing["spec"]["replicaSpecs"]["worker"]["template"]
    template["spec"]["containers"][0]["command"] = ["no-such-trainer"]
    with pytest.raises(InputError, match="no program 'no-such-trainer'"):
        machine.start(missing)
    assert [] == local_runs.list_runs()


def test_wishes_that_a_run_cannot_have(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is not there, a role, nodes, and a run that has ended are said."""
    with pytest.raises(InputError, match="no local run"):
        local_runs.scale("run", "lab", ScaleRequest({"worker": 1}))
    handle = machine.start(elastic())
    until(lambda: workers(0, 1) == running(), "two workers")
    with pytest.raises(InputError, match="has no role chief"):
        local_runs.scale("run", "lab", ScaleRequest({"chief": 1}))
    with pytest.raises(InputError, match="is outside of"):
        local_runs.scale("run", "lab", ScaleRequest({"worker": -1}))
    assert 2 == main(["scale", "run", "-n", "lab", "--nodes", "3", "--on", "local"])
    output = capsys.readouterr().err
    assert "run 'run' is an elastic job: it has roles, not nodes" in output
    assert "`allranks scale run -n lab --worker 3 --on local`" in output
    handle.stop(at_once=True)
    handle.wait()
    with pytest.raises(InputError, match="has ended") as excinfo:
        local_runs.suspend("run", "lab")
    assert "`allranks run`" in str(excinfo.value.problem.hint)

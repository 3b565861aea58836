"""Parameter servers under our own master, with real processes: a plain program, no framework.

What TensorFlow does with such a job is tested where TensorFlow is. Here it is what the master does:
nobody joins it, the chief's end is the job's, and servers and workers never end by themselves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import process_tree
from allranks.local.state import store
from allranks.model.status import Phase

from .conftest import first_process, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# A server sums up what it is sent, by sender. The chief is done when every worker has sent enough
# since the file "again" appeared: those that were there before it, or others in their place.
PROGRAM = """
import json, os, pathlib, socket, sys, time
from allranks_report import Reporter
role, me = os.environ["ALLRANKS_ROLE"], os.environ["POD_NAME"]
hosts = os.environ["ALLRANKS_PS_HOSTS"].split(",")
config = json.loads(os.environ["TF_CONFIG"])
here = pathlib.Path(sys.argv[1])
(here / me).write_text(json.dumps([hosts, config]))

def ask(word):
    host, _, port = hosts[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall((word + "\\n").encode())
        return json.loads(link.makefile().readline())

def serve():
    host, _, port = hosts[config["task"]["index"]].rpartition(":")
    sums = {}
    with socket.create_server((os.environ["POD_IP"], int(port))) as listener:
        while True:
            link = listener.accept()[0]
            with link:
                who = link.makefile().readline().strip()
                sums[who] = sums.get(who, 0) + 1
                link.sendall((json.dumps(sums) + "\\n").encode())

if role == "ps":
    serve()
report = Reporter(interval=0.2)
while True:
    time.sleep(0.05)
    again = (here / "again").exists()
    try:
        sums = ask(role + str(config["task"]["index"]) + (":again" if again else ""))
    except OSError:
        continue  # the server is made again
    report.step(samples=1)
    if role == "chief" and all(sums.get("worker%d:again" % one, 0) > 5 for one in (0, 1)):
        print("chief is done", flush=True)
        sys.exit(0)
"""


def values(folder: Path) -> Path:
    """A job of a chief, two workers and a server."""
    (folder / "train.py").write_text(PROGRAM)
    job_values = {
        "workload": "elastic",
        "image": {"repository": "any", "tag": "1"},
        "command": ["python", "-u", "train.py", str(folder)],
        "nodes": 2,
        "elastic": {
            "mode": "auto",
            "framework": "tensorflow",
            "roles": {"chief": {"replicas": 1}, "ps": {"replicas": 1}},
            "auto": {"maxWorkers": 2},
        },
        "runPolicy": {"terminationGracePeriodSeconds": 5},
    }
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(job_values))
    return path


def running() -> set[str]:
    """The trainers that run."""
    status = local_runs.status("servers", "default")
    return {pod.name for pod in status.pods if pod.role != "master" and pod.phase == "Running"}


def kill(pod: str) -> None:
    """End a pod's first process, unasked."""
    mark = [str(store.run_folder("servers", "default").path)]
    first_process(lambda: process_tree.find_marked(names.ENV_RUN, mark), pod).kill()


def pods(*numbers: str) -> set[str]:
    """Their names."""
    return {f"servers-edljob-{number}" for number in numbers}


def test_a_job_with_a_server_loses_it_and_a_worker_and_ends_with_its_chief(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are made again at their places; the chief's end is a good one for all."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    command_line("run", "servers", "-f", values(tmp_path), "--on", "local", "--detach")
    try:
        first = pods("chief-0", "worker-0", "worker-1", "ps-0")
        until(lambda: running() == first, "the first pods")
        until(lambda: all((tmp_path / name).exists() for name in first), "what they are told")
        kill("servers-edljob-ps-0")
        kill("servers-edljob-worker-1")
        second = pods("chief-0", "worker-0", "worker-2", "ps-1")
        until(lambda: running() == second, "two others")
        (tmp_path / "again").touch()
        ends = {Phase.SUCCEEDED, Phase.FAILED}
        until(lambda: local_runs.status("servers", "default").phase in ends, "the end")
        assert Phase.SUCCEEDED is local_runs.status("servers", "default").phase
        events = (store.run_folder("servers", "default").path / "elastic/events.jsonl").read_text()
    finally:
        command_line("delete", "servers", "--on", "local")
    environments: dict[str, Any] = {
        name.rpartition("edljob-")[2]: json.loads((tmp_path / name).read_text())
        for name in (*first, *second)
    }
    hosts = {json.dumps(environment[0]) for environment in environments.values()}
    assert (1, 1) == (len(hosts), len(json.loads(hosts.pop())))
    assert 2 == len(environments["chief-0"][1]["cluster"]["worker"])
    reasons = [json.loads(line)["reason"] for line in events.splitlines()]
    assert "FirstPlan" == reasons[0]
    assert {"TrainingEnded", "PodsReplaced", "JobSucceeded"} <= set(reasons)
    assert not {"Generation", "WorkerLost"} & set(reasons)

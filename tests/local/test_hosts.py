"""Several controllers in one run, one of which decides, and pods that have hosts of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks import names
from allranks.errors import InputError
from allranks.local import runs as local_runs
from allranks.local.host import namespaces
from allranks.model.status import Phase, PodPhase

from .conftest import container, job, until

if TYPE_CHECKING:
    from .conftest import Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_WAIT = "trap 'exit 143' TERM; while :; do sleep 0.1; done"
_RELEASE = {"subdomain": "run"}


def _role(role: str, manifest: dict[str, Any]) -> dict[str, Any]:
    labels = {names.ROLE: role, names.WORKLOAD: "mpi"}
    manifest["spec"]["template"]["metadata"] = {"labels": labels}
    return manifest


def _env(**values: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _launcher(script: str, *, transport: str = "ssh", clean: str = "None", **spec: Any) -> Any:
    env = _env(ALLRANKS_MPI_TRANSPORT=transport, ALLRANKS_MPI_CLEAN=clean)
    path = f"metadata.annotations['{names.JOB_INDEX_FAILURE_COUNT}']"
    env.append({"name": "FAILURES", "valueFrom": {"fieldRef": {"fieldPath": path}}})
    spec = {"backoffLimit": None, "backoffLimitPerIndex": 0, "pod": _RELEASE, **spec}
    return _role("launcher", job("run-launcher", container(script, env=env), **spec))


def _workers(script: str = _WAIT, nodes: int = 2, **spec: Any) -> dict[str, Any]:
    state = [{"name": "state", "mountPath": "/var/run/allranks"}]
    box = container(script, env=_env(ALLRANKS_STATE="/var/run/allranks"), volumeMounts=state)
    pod = {**_RELEASE, "volumes": [{"name": "state", "emptyDir": {}}]}
    return _role("worker", job("run-worker", box, nodes=nodes, pod=pod, **spec))


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "run"},
        "spec": {"clusterIP": "None", "selector": {names.WORKLOAD: "mpi"}, "ports": []},
    }


def test_the_launcher_decides(machine: Machine) -> None:
    """Workers that would run for ever are stopped when it is done, and that is a good end."""
    outcome = machine.run(_workers(), _launcher("echo done"))
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code), outcome.status
    assert {PodPhase.SUCCEEDED} == {pod.phase for pod in outcome.status.pods}
    assert {"launcher": 1, "worker": 2} == {
        role.role: role.expected for role in outcome.status.roles
    }
    assert outcome.status.failure is None


def test_workers_that_were_told_to_end_may(machine: Machine) -> None:
    """What a worker does when its launcher has told it to end is waited for."""
    script = 'while ! [ -e "$WORK/stop" ]; do sleep 0.02; done; sleep 0.3; echo ended by myself'
    workers = _workers(script.replace("$WORK", str(machine.workdir)), nodes=1)
    outcome = machine.run(workers, _launcher(f"touch {machine.workdir}/stop", clean="All"))
    assert Phase.SUCCEEDED == outcome.status.phase
    assert "ended by myself" in outcome.texts


def test_the_launcher_is_stopped_before_its_workers(machine: Machine) -> None:
    """Its ranks are on them: it may end them in order, and only then do the workers go."""
    order = machine.workdir / "order"
    script = (
        "trap '{wait}echo {name} >>{order}; exit 143' TERM; echo up; while :; do sleep 0.1; done"
    )
    worker = script.format(wait="", name="worker", order=order)
    launcher = script.format(wait="sleep 0.3; ", name="launcher", order=order)
    handle = machine.start(_workers(worker, nodes=1), _launcher(launcher, clean="Running"))
    until(lambda: ["up", "up"] == [log.text for log in local_runs.logs("run", "lab")], "both")
    handle.stop()
    assert "Stopped" == handle.wait().reason
    assert ["launcher", "worker"] == order.read_text().split()


def test_the_launchers_last_exit_code_is_the_runs(machine: Machine) -> None:
    """A worker that failed before, and an earlier try of the launcher, do not give the code."""
    script = "echo try $FAILURES; exit $((FAILURES + 3))"
    outcome = machine.run(_workers(), _launcher(script, backoffLimitPerIndex=2))
    assert (Phase.FAILED, 5) == (outcome.status.phase, outcome.status.exit_code)
    assert ["try 0", "try 1", "try 2"] == outcome.texts
    assert outcome.status.failure is not None
    assert "run-launcher-0" == outcome.status.failure.pod


def test_an_ignored_exit_code_is_no_failure(machine: Machine) -> None:
    """A launcher that ends with a code to ignore is tried again without using up a retry."""
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [214]}}]
    again = f"[ -e {machine.workdir}/again ] && exit 0; touch {machine.workdir}/again; exit 214"
    launcher = _launcher(f"echo failed $FAILURES; {again}", podFailurePolicy={"rules": rules})
    outcome = machine.run(_workers(), launcher)
    assert (Phase.SUCCEEDED, 1) == (outcome.status.phase, outcome.status.restarts), outcome.status
    assert ["failed 0", "failed 0"] == outcome.texts


def test_a_worker_without_retries_ends_the_run(machine: Machine) -> None:
    """The worker is named, and its exit code is the run's: no one else has failed."""
    outcome = machine.run(_workers("exit 9", nodes=1), _launcher(_WAIT))
    assert (Phase.FAILED, 9) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.failure is not None
    assert "run-worker-0" == outcome.status.failure.pod


def test_lines_of_one_role(machine: Machine) -> None:
    """A reader may ask for a role; one that the run does not have is refused by name."""
    mark = machine.workdir / "said"
    launcher = f"echo launcher; until [ -e {mark} ]; do sleep 0.02; done"
    machine.run(_workers(f"echo worker; touch {mark}", nodes=1), _launcher(launcher))
    assert ["worker"] == [log.text for log in local_runs.logs("run", "lab", role="worker")]
    assert "launcher" == next(iter(local_runs.logs("run", "lab"))).role
    with pytest.raises(InputError, match="has no role 'node'"):
        local_runs.logs("run", "lab", role="node")


# ---------------------------------------------------------------- hosts of their own

# Without sshd only root can have them; the transport that needs no cluster is the same for all.
_OWN = namespaces.way() is namespaces.IsolationMethod.ROOT


def test_each_pod_has_a_name_that_all_know(machine: Machine) -> None:
    """A pod's host name is its own, and each name of the release leads to the pod's address."""
    # Where pods have no hosts of their own, an address stands in place of a name.
    lookup = "getent ahostsv4 $name | head -n 1 | cut -d' ' -f1"
    script = f"hostname; for name in run-worker-1.run.lab.svc run-launcher-0; do {lookup}; done"
    outcome = machine.run(_service(), _workers(), _launcher(script, transport="exec"))
    address = {pod.name: pod.address for pod in outcome.status.pods}
    name = "run-launcher-0" if _OWN else os.uname().nodename
    assert [name, address["run-worker-1"], address["run-launcher-0"]] == outcome.texts
    (note,) = outcome.status.notes
    assert "mpi.transport exec" in note or "no host name of its own" in note


def test_what_a_pod_has_in_shared_memory_goes_with_it(machine: Machine) -> None:
    """Neither the machine nor another pod sees it, and nothing of it is left."""
    path = Path(namespaces.SHARED_MEMORY, f"allranks-test-{os.getpid()}")
    outcome = machine.run(_workers(), _launcher(f"echo x >{path}; ls {path}", transport="exec"))
    assert [str(path)] == outcome.texts
    assert _OWN != path.exists()
    path.unlink(missing_ok=True)


def test_a_process_without_its_marks_ends_with_the_rest(machine: Machine) -> None:
    """A process that lost its environment is found by the host it is on."""
    lose = "env -i" if _OWN else ""
    script = f"{lose} setsid sleep 1234 & exec sleep 1234"
    machine.start(_workers(script, nodes=1), _launcher(_WAIT, transport="exec"))
    until(lambda: len(_sleepers(machine)) == 2, "both processes")
    _, supervisor = machine.supervisors()
    supervisor.kill()
    machine.handles[0].wait()
    assert [] == _sleepers(machine)


def _sleepers(machine: Machine) -> list[psutil.Process]:
    return [process for process in machine.processes() if "1234" in _words(process)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


# ---------------------------------------------------------------- other pods without ssh


def test_the_launcher_reaches_workers_without_ssh(machine: Machine) -> None:
    """The map says where each pod is; a command run through it is on that pod's host."""
    script = """
until line=$(grep "^run-worker-1.run.lab.svc	" "$ALLRANKS_MPI_LOCAL_MAP"); do sleep 0.02; done
prefix=$(printf '%s\n' "$line" | cut -f3- | tr '\t' ' ')
$prefix sh -c 'hostname; pwd'
printf '%s\n' "$line" | cut -f2
echo $ALLRANKS_MPI_TRANSPORT
"""
    outcome = machine.run(_workers(), _launcher(script, transport="exec"))
    name = "run-worker-1" if _OWN else os.uname().nodename
    assert [name, str(machine.workdir), "local"] == [*outcome.texts[:2], outcome.texts[3]]
    assert outcome.texts[2].startswith(str(machine.folder().pods / "run-worker-1"))


def test_a_worker_that_is_gone_is_not_entered(machine: Machine) -> None:
    """The way into a pod that has ended leads nowhere, whoever has its pid now."""
    script = """
until grep -q "^run-worker-0	" "$ALLRANKS_MPI_LOCAL_MAP"; do sleep 0.02; done
$(dirname "$ALLRANKS_MPI_LOCAL_MAP")/enter $PPID another/trainer/0 true
echo $?
"""
    outcome = machine.run(_workers(), _launcher(script, transport="exec"))
    expected = ["allranks: the pod is gone", "255"] if _OWN else ["127"]
    assert expected == outcome.texts[-len(expected) :]


# As on a hardened machine: no further user namespace, and root without its powers.
_FORBID = 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all "$@"'
_RUN_HERE = """
import json, pathlib, sys
from allranks.local import runs as local_runs
manifests = json.loads(sys.argv[1])
with local_runs.start(manifests, name="run", namespace="lab", workdir=pathlib.Path.cwd(),
                   foreground=True) as handle:
    print(json.dumps([[line.text for line in handle.follow()], handle.notes]))
"""


def test_where_no_host_of_its_own_is_allowed(machine: Machine) -> None:
    """Without the right to make them all pods share this machine's host, and a note says so."""
    manifests = json.dumps([_workers(), _launcher("hostname")])
    forbid = ("unshare", "--user", "--map-root-user", "sh", "-c", _FORBID, "sh")
    run = machine.script(_RUN_HERE, manifests, before=forbid if namespaces.way() else ())
    texts, notes = json.loads(run.communicate(timeout=90)[0])
    assert [os.uname().nodename] == texts
    (note,) = notes
    assert "no host name of its own" in note


# As another user: setuid makes a process unreadable to itself, which only a new program undoes.
_AS_USER = """
import os, pathlib, shutil, tempfile
from allranks.local.host import namespaces
from allranks.local.host import namespaces
from allranks.local.host import process
here = pathlib.Path(tempfile.mkdtemp())
if os.geteuid() == 0:
    os.chown(here, 12345, 12345)
    os.setgroups([]), os.setresgid(12345, 12345, 12345), os.setresuid(12345, 12345, 12345)
    namespaces.prctl(4, 1)
way = namespaces.way()
hosts = here / "hosts"
hosts.write_text("127.64.0.9 elsewhere\\n")
host = namespaces.Host(way, "own-name", hosts, {"MARK": "x"})
script = "hostname; id -u; getent hosts elsewhere; echo x >/dev/shm/file; wc -l </dev/shm/file"
command = process.ProcessSpec(["/bin/sh", "-c", script], dict(os.environ), here, here / "log", host)
os.waitpid(process.spawn(command), 0)
print(way, os.geteuid(), *(here / "log").read_text().split())
shutil.rmtree(here)
"""


def test_another_user_has_them_in_a_user_namespace(machine: Machine) -> None:
    """Where the kernel lets users make namespaces; they stay the user that they are."""
    way, user, *words = machine.script(_AS_USER).communicate(timeout=90)[0].split(" ")
    if way == namespaces.IsolationMethod.USER:
        assert ["own-name", user, "127.64.0.9", "elsewhere", "1"] == [
            word.strip() for word in words
        ]
    else:
        assert (namespaces.IsolationMethod.NONE, os.uname().nodename) == (way, words[0])

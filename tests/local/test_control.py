"""Starting, watching and ending runs: what survives, and what must not."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks.errors import InputError
from allranks.local import runs as local_runs
from allranks.model.status import Phase, PodPhase

from .conftest import claim_volume, container, job, port_base, until

if TYPE_CHECKING:
    import subprocess

    from .conftest import Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_FOREVER = "echo up; while :; do sleep 0.01; done"
# Starts a run as a command line would and follows it; Ctrl-C leaves the block, which ends the run.
_COMMAND_LINE = """
import json, pathlib, sys
from allranks.local import runs as local_runs
from allranks.local import runs as local_runs
manifests, foreground = json.loads(sys.argv[1]), sys.argv[2] == "foreground"
handle = local_runs.start(
    manifests, name="run", namespace="lab", workdir=pathlib.Path("."), foreground=foreground
)
if not foreground:
    sys.exit(0)
try:
    with handle:
        for line in handle.follow():
            print(line.text, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


def _listener(port: int) -> dict[str, Any]:
    """A container whose grandchild, in a session of its own, listens on a wildcard port."""
    program = (
        f"import socket, time; s = socket.create_server(('', {port})); "
        "print('listening', flush=True); time.sleep(600)"
    )
    return container(f'setsid python -c "{program}" & wait')


def _command_line(machine: Machine, *manifests: dict[str, Any], how: str) -> subprocess.Popen[str]:
    return machine.script(_COMMAND_LINE, json.dumps(manifests), how)


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _start(machine: Machine, how: str = "foreground") -> tuple[subprocess.Popen[str], int]:
    """A run with a listener that is up, from a command line of its own."""
    port = local_runs.free_port(port_base() + 600)
    cli = _command_line(machine, job("run", _listener(port), nodes=1), how=how)
    until(lambda: machine.folder().exists(), "the run's start")
    machine.line("listening")
    assert not _port_is_free(port)
    return cli, port


def test_ctrl_c_ends_the_run(machine: Machine) -> None:
    """SIGINT to the command line ends the run in order; nothing and no port is left."""
    cli, port = _start(machine)
    cli.send_signal(signal.SIGINT)
    assert cli.wait(90) == 130
    assert (Phase.FAILED, 130) == (
        local_runs.status("run", "lab").phase,
        local_runs.status("run", "lab").exit_code,
    )
    assert machine.leftovers() == []
    assert _port_is_free(port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_line_that_is_killed_takes_its_run_with_it(
    machine: Machine, number: signal.Signals
) -> None:
    """Whatever ends the command line ends a foreground run, without anyone's help."""
    cli, port = _start(machine)
    cli.send_signal(number)
    assert -number == cli.wait(90)
    until(lambda: not machine.folder().alive(), "the run's end")
    assert machine.leftovers() == []
    assert _port_is_free(port)
    status = local_runs.status("run", "lab")
    assert (Phase.FAILED, "Stopped") == (status.phase, status.reason)


def test_a_supervisor_that_is_killed_leaves_nothing(machine: Machine) -> None:
    """Kill -9 of the supervisor: its guardian ends what it leaves, and the status says so."""
    cli, port = _start(machine)
    _, supervisor = machine.supervisors()
    supervisor.kill()
    cli.wait(90)
    assert machine.leftovers() == []
    assert _port_is_free(port)
    status = local_runs.status("run", "lab")
    assert (Phase.FAILED, "SupervisorLost", 1) == (status.phase, status.reason, status.exit_code)
    assert "exit code 137" in status.message
    assert [(PodPhase.FAILED, "Lost", False)] == [
        (pod.phase, pod.reason, pod.ready) for pod in status.pods
    ]


def test_a_guardian_that_is_killed_leaves_nothing(machine: Machine) -> None:
    """Kill -9 of the guardian: the supervisor ends the run in order."""
    cli, port = _start(machine)
    guardian, _ = machine.supervisors()
    guardian.kill()
    cli.wait(90)
    assert machine.leftovers() == []
    assert _port_is_free(port)


def test_delete_after_everything_was_killed(machine: Machine) -> None:
    """Kill -9 of command line, guardian and supervisor at once: delete ends what is left."""
    cli, port = _start(machine)
    for process in (*machine.supervisors(), psutil.Process(cli.pid)):
        process.kill()
    cli.wait(90)
    until(lambda: not machine.folder().alive(), "the supervisor's end")
    status = local_runs.status("run", "lab")
    assert (Phase.FAILED, "SupervisorLost") == (status.phase, status.reason)
    assert "allranks delete run" in status.message
    assert [(0, 1)] == [(role.running, role.failed) for role in status.roles]
    assert status.finished_at is not None
    assert not _port_is_free(port)
    local_runs.delete("run", "lab")
    assert machine.leftovers() == []
    assert _port_is_free(port)
    assert local_runs.list_runs() == []


def test_a_stopped_supervisor_cannot_hold_up_delete(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where even the supervisor hangs, delete kills it."""
    monkeypatch.setattr(local_runs, "STOP_MARGIN", 0.1)
    trainer = container(_FOREVER)
    handle = machine.start(job("run", trainer, pod={"terminationGracePeriodSeconds": 0}))
    machine.line("up")
    for process in machine.supervisors():
        process.suspend()
    local_runs.delete("run", "lab")
    handle.wait()
    assert machine.leftovers() == []


def test_a_detached_run_outlives_its_command_line(machine: Machine) -> None:
    """It goes on, can be followed and stopped from elsewhere, and keeps its record."""
    cli, port = _start(machine, how="detached")
    assert cli.wait(90) == 0
    running = local_runs.status("run", "lab")
    assert (Phase.RUNNING, [1]) == (running.phase, [role.ready for role in running.roles])
    assert not _port_is_free(port)
    lines = local_runs.logs("run", "lab", follow=True)
    assert next(lines).text == "listening"
    stopped = local_runs.stop("run", "lab")
    assert (Phase.FAILED, "Stopped", 143) == (stopped.phase, stopped.reason, stopped.exit_code)
    assert list(lines) == []
    assert machine.leftovers() == []
    assert _port_is_free(port)


def test_stopping_at_once_does_not_wait(machine: Machine) -> None:
    """A second Ctrl-C does not wait for a grace period of an hour."""
    trainer = container("trap '' TERM; " + _FOREVER)
    handle = machine.start(job("run", trainer, pod={"terminationGracePeriodSeconds": 3600}))
    machine.line("up")
    handle.stop()
    until(lambda: "processes to end" in handle.status().waiting_for, "the orderly stop")
    handle.stop(at_once=True)
    assert Phase.FAILED is handle.wait().phase


def test_two_runs_at_once(machine: Machine) -> None:
    """Two releases run side by side, each on addresses of its own, with the same port even."""
    program = (
        "import os, socket; s = socket.create_server((os.environ['ME'], 28999)); "
        "print('up', flush=True); s.accept()"
    )
    me = {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    trainer = {"name": "t", "command": ["python", "-c", program], "env": [me]}
    first = machine.start(job("one", trainer), name="one")
    second = machine.start(job("two", trainer), name="two")
    machine.line("up", "one")
    machine.line("up", "two")
    assert ["one", "two"] == [run.name for run in local_runs.list_runs()]
    for handle in (first, second):
        (pod,) = handle.status().pods
        socket.create_connection((pod.address, 28999)).close()
        assert Phase.SUCCEEDED is handle.wait().phase


def test_a_name_in_use_is_refused(machine: Machine) -> None:
    """Two runs of one name cannot meet; the refusal says how to end the first."""
    handle = machine.start(job("run", container(_FOREVER)))
    with pytest.raises(InputError, match="allranks delete run"):
        machine.start(job("run", container("true")))
    handle.stop()
    handle.wait()


def test_a_name_can_be_used_again(machine: Machine) -> None:
    """After its end or its deletion a name starts anew, with logs of its own."""
    assert ["first"] == machine.run(job("run", container("echo first"))).texts
    assert ["second"] == machine.run(job("run", container("echo second"))).texts
    assert ["second"] == [line.text for line in local_runs.logs("run", "lab")]
    local_runs.delete("run", "lab")
    assert ["third"] == machine.run(job("run", container("echo third"))).texts


def test_a_taken_port_is_refused(machine: Machine) -> None:
    """A port that another run or program has is named, with one that is free."""
    service = {
        "kind": "Service",
        "metadata": {"name": "run"},
        "spec": {"clusterIP": "None", "selector": {}, "ports": [{"port": 0}]},
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        service["spec"]["ports"] = [{"port": port}]
        with pytest.raises(InputError, match=f"port {port} is in use by another program") as error:
            machine.start(job("run", container("true")), service)
    assert "--set torchrun.port=" in str(error.value)
    other = machine.start(job("other", container(_FOREVER)), service, name="other")
    with pytest.raises(InputError, match="in use by the local run 'other'"):
        machine.start(job("run", container("true")), service)
    assert port != local_runs.free_port(port)
    other.stop()
    other.wait()


def test_delete_keeps_what_is_to_be_kept(machine: Machine) -> None:
    """Claims of the release go, those with a keep policy and those it did not make stay."""

    def claim(name: str, **annotations: str) -> dict[str, Any]:
        metadata = {"name": name, "annotations": annotations}
        return {"kind": "PersistentVolumeClaim", "metadata": metadata}

    kinds = ("work", "checkpoints", "theirs")
    volumes = [{"name": kind, "persistentVolumeClaim": {"claimName": kind}} for kind in kinds]
    mounts = [{"name": kind, "mountPath": f"/{kind}"} for kind in kinds]
    script = "for f in /work /checkpoints /theirs; do echo x > $f/file; done"
    outcome = machine.run(
        claim("work"),
        claim("checkpoints", **{"helm.sh/resource-policy": "keep"}),
        job("run", container(script, volumeMounts=mounts), pod={"volumes": volumes}),
    )
    claims = machine.folder().claims
    assert (f"claim 'theirs' is the folder {claims / 'theirs'}",) == outcome.status.notes
    deleted = local_runs.delete("run", "lab")
    assert ("PersistentVolumeClaim/work", "Job/run") == deleted.removed
    assert (f"PersistentVolumeClaim/checkpoints ({claims / 'checkpoints'})",) == deleted.claims
    assert ["checkpoints", "theirs"] == sorted(path.name for path in claims.iterdir())


def test_claims_carry_over_to_the_next_run(machine: Machine) -> None:
    """What a run wrote into a claim, the next run of the name finds."""
    volume, mount = claim_volume()
    script = "cat /notes/last; echo from before > /notes/last"
    trainer = job("run", container(script, volumeMounts=[mount]), pod={"volumes": [volume]})
    machine.run(trainer)
    assert ["from before"] == machine.run(trainer).texts


def test_a_finished_run_is_forgotten_after_its_ttl(machine: Machine) -> None:
    """TtlSecondsAfterFinished removes the record of the run at the next look."""
    machine.run(job("run", container("true"), ttlSecondsAfterFinished=0))
    assert local_runs.list_runs() == []
    assert not machine.folder().exists()


def test_logs_of_one_node(machine: Machine) -> None:
    """A pod's lines alone; one that is not there is refused with those that are."""
    machine.run(job("run", container("echo node $JOB_COMPLETION_INDEX"), nodes=2))
    assert ["node 1"] == [line.text for line in local_runs.logs("run", "lab", node=1)]
    with pytest.raises(InputError, match="run 'run' has no node 2") as excinfo:
        local_runs.logs("run", "lab", node=2)
    assert "it has node 0, 1" == excinfo.value.problem.hint
    with pytest.raises(InputError, match="nothing says how its processes are numbered"):
        local_runs.logs("run", "lab", rank=1)


def test_an_unknown_run_is_refused(machine: Machine) -> None:
    """Every verb names the nearest run there is."""
    machine.run(job("digits", container("true")), name="digits")
    for verb in (local_runs.status, local_runs.logs, local_runs.stop, local_runs.delete):
        with pytest.raises(InputError, match="did you mean 'digits'"):
            verb("digit", "lab")
        with pytest.raises(InputError, match="allranks list"):
            verb("digits", "elsewhere")


def test_a_bad_back_off_setting_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named, with values that work."""
    monkeypatch.setenv("ALLRANKS_BACKOFF_SCALE", "fast")
    with pytest.raises(InputError, match="ALLRANKS_BACKOFF_SCALE is 'fast'"):
        local_runs.start(
            [job("run", container("true"))],
            name="run",
            namespace="lab",
            workdir=machine.workdir,
            foreground=True,
        )


def test_a_run_can_be_stopped_in_the_moment_it_starts(machine: Machine) -> None:
    """A stop that comes before the supervisor is up is not lost."""
    for foreground in (True, False):
        handle = machine.start(job("run", container(_FOREVER)), foreground=foreground)
        handle.stop()
        status = handle.wait()
        assert (Phase.FAILED, "Stopped", 130) == (status.phase, status.reason, status.exit_code)


def test_a_run_that_is_deleted_from_elsewhere(machine: Machine) -> None:
    """Who waits for it is told so."""
    handle = machine.start(job("run", container(_FOREVER)))
    machine.line("up")
    local_runs.delete("run", "lab")
    assert list(handle.follow()) == []
    status = handle.wait()
    assert (Phase.FAILED, "Deleted", 130) == (status.phase, status.reason, status.exit_code)


@pytest.mark.parametrize("file", ["state.json", "run.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_broken_record_can_be_listed_and_deleted(
    machine: Machine, file: str, content: str
) -> None:
    """A record that cannot be read is no reason to be stuck with it."""
    machine.run(job("run", container("true")))
    (machine.folder().path / file).write_text(content)
    (listed_run,) = local_runs.list_runs()
    assert ("run", "lab") == (listed_run.name, listed_run.namespace)
    if file == "state.json":
        assert (Phase.FAILED, "RecordLost") == (listed_run.phase, listed_run.reason)
        assert "allranks delete run" in listed_run.message
    local_runs.delete("run", "lab")
    assert local_runs.list_runs() == []


def test_a_state_folder_that_cannot_be_written_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is named, with the variable that chooses another."""
    file = machine.workdir / "file"
    file.touch()
    monkeypatch.setenv("ALLRANKS_STATE", str(file / "state"))
    with pytest.raises(InputError, match="set ALLRANKS_STATE to a folder"):
        machine.start(job("run", container("true")))
    monkeypatch.setenv("ALLRANKS_STATE", str(machine.state))

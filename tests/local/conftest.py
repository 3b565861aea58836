"""Real runs on this machine, in a state folder of each test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import namespaces, process_tree
from allranks.local.state import store
from allranks.yamlio.load import load_all
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from allranks.local.runs import Handle, LogLine
    from allranks.model.status import RunStatus

# Ranks of a test share few cores: threads of one would wait for a core that another has.
os.environ.setdefault("OMP_NUM_THREADS", "1")


until = partial(waiting.until, poll=0.01)


def container(script: str, name: str = "trainer", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": "any", "command": ["/bin/sh", "-c", script], **fields}


def job(name: str, *containers: dict[str, Any], nodes: int = 1, **spec: Any) -> dict[str, Any]:
    """An Indexed Job; `pod` is merged into its pods' spec."""
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "subdomain": name,
        "containers": list(containers),
        **spec.pop("pod", {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            "backoffLimit": 0,
            "template": {"spec": pod},
            **spec,
        },
    }


def first_process(processes: Callable[[], Iterable[psutil.Process]], pod: str) -> psutil.Process:
    """The process that a pod consists of, which the others of the pod belong to.

    A process whose parent has ended since they were listed looks like one, until it ends too.
    """

    def firsts() -> list[psutil.Process]:
        parents = {}
        for process in processes():
            with suppress(psutil.Error, OSError):  # it has ended since it was listed
                environment = process.environ()
                if pod in {environment.get("POD_NAME"), environment.get("HOSTNAME")}:
                    parents[process] = process.ppid()
        pids = {parent.pid for parent in parents}
        return [process for process, parent in parents.items() if parent not in pids]

    first: psutil.Process
    (first,) = until(lambda: len(listed := firsts()) == 1 and listed, f"one first process in {pod}")
    return first


def claim_volume(claim: str = "notes") -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod's volume on a claim, and a mount of it at /notes."""
    volume = {"name": "notes", "persistentVolumeClaim": {"claimName": claim}}
    return volume, {"name": "notes", "mountPath": "/notes"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that has ended, and what its pods wrote."""

    status: RunStatus
    lines: list[LogLine]

    @property
    def texts(self) -> list[str]:
        """The lines alone."""
        return [line.text for line in self.lines]


@dataclass(slots=True)
class Machine:
    """This machine, as one test sees it."""

    state: Path
    workdir: Path
    handles: list[Handle] = field(default_factory=list)

    def start(
        self,
        *manifests: dict[str, Any],
        name: str = "run",
        foreground: bool = True,
        backoff_scale: float = 0.01,
    ) -> Handle:
        """Start a run."""
        handle = local_runs.start(
            manifests,
            name=name,
            namespace="lab",
            workdir=self.workdir,
            foreground=foreground,
            backoff_scale=backoff_scale,
        )
        self.handles.append(handle)
        return handle

    def run(self, *manifests: dict[str, Any], **options: Any) -> Outcome:
        """Start a run, follow it, and wait for its end."""
        handle = self.start(*manifests, **options)
        lines = list(handle.follow())
        return Outcome(handle.wait(), lines)

    def line(self, text: str, name: str = "run") -> None:
        """Wait for a line that a pod of a run writes."""
        until(
            lambda: any(log.text == text for log in local_runs.logs(name, "lab")),
            f"the line {text!r}",
        )

    def folder(self, name: str = "run") -> store.RunFolder:
        """A run's folder."""
        return store.run_folder(name, "lab")

    def processes(self, name: str = "run") -> list[psutil.Process]:
        """The living processes of a run's pods."""
        return process_tree.find_marked(names.ENV_RUN, [str(self.folder(name).path)])

    def supervisors(self, name: str = "run") -> tuple[psutil.Process, psutil.Process]:
        """The guardian and the supervisor of a run, once both are there."""

        def both() -> tuple[psutil.Process, psutil.Process] | None:
            processes = process_tree.find_marked(
                names.ENV_SUPERVISOR, [str(self.folder(name).path)]
            )
            parents = {process: process_tree.parent(process) for process in processes}
            pids = {process.pid for process in processes}
            guardians = [
                process for process, parent in parents.items() if parent not in {None, *pids}
            ]
            first = {guardian.pid for guardian in guardians}
            children = [process for process, parent in parents.items() if parent in first]
            return (guardians[0], children[0]) if guardians and children else None

        pair: tuple[psutil.Process, psutil.Process] = until(both, "the supervisor")
        return pair

    def script(
        self, text: str, *arguments: str, before: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """Another Python process on the same state, as a command line would be one.

        Args:
            text: what it runs.
            arguments: its arguments.
            before: the words of a program that starts it.
        """
        return subprocess.Popen(
            [*before, sys.executable, "-c", text, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.workdir,
            env={**os.environ, names.ENV_STATE: str(self.state)},
        )

    def leftovers(self) -> list[str]:
        """Command lines of processes that belong to any run of this state folder."""
        processes = []
        for process in psutil.process_iter():
            try:
                env = process.environ()
            except (psutil.Error, OSError):
                continue
            if names.ENV_RUN not in env:
                env = namespaces.marks(process)
            marks = (env.get(names.ENV_RUN, ""), env.get(names.ENV_SUPERVISOR, ""))
            if any(mark.startswith(f"{self.state}/") for mark in marks):
                processes.append(f"{process.pid} {env.get(names.ENV_CONTAINER_ID, 'supervisor')}")
        return processes


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A state folder of the test's own; at the end no process of it may be left."""
    state, workdir = tmp_path / "state", tmp_path / "work"
    workdir.mkdir()
    monkeypatch.setenv(names.ENV_STATE, str(state))
    local_machine = Machine(state, workdir)
    try:
        yield local_machine
        for run in local_runs.list_runs():
            local_runs.delete(run.name, run.namespace)
        assert local_machine.leftovers() == []
    finally:
        for folder in store.run_folders():
            process_tree.kill(names.ENV_SUPERVISOR, [str(folder.path)])
            process_tree.kill(names.ENV_RUN, [str(folder.path)])
        for handle in local_machine.handles:
            handle.wait()


@pytest.fixture
def warm_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks of launchers that start are forked, and torch loaded once for all of a node.

    For tests in which the start of a rank is not the subject (see `warm/forked_ranks.py`).
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("warm")))


class CommandLine(Protocol):
    """The command line as a person runs it."""

    def __call__(self, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run it; another exit code than this fails the test."""


@pytest.fixture
def command_line(tmp_path: Path, helm4: Any) -> CommandLine:
    """The command line with a state folder of its own."""
    program = Path(sys.executable).parent / names.CLI
    env = {**os.environ, names.ENV_STATE: str(tmp_path), names.ENV_HELM: str(helm4.path)}

    def run(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        process = subprocess.run(
            [program, *words], env=env, capture_output=True, text=True, check=False, timeout=500
        )
        assert code == process.returncode, process.stdout + process.stderr
        return process

    return run


def status_of_failed_run(
    command_line: CommandLine, folder: Path, values: dict[str, Any], code: int
) -> dict[str, Any]:
    """What `status -o json` says of a run `ex` that has ended with an exit code."""
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    command_line("run", "ex", "--on", "local", "-f", path, code=code)
    status: dict[str, Any] = json.loads(
        command_line("status", "ex", "--on", "local", "-o", "json").stdout
    )
    return status


def progress_of(command_line: CommandLine, name: str) -> dict[str, Any]:
    """What `status -o json` says of how far a run of this machine is; {} where it says nothing."""
    status = json.loads(command_line("status", name, "--on", "local", "-o", "json").stdout)
    report: dict[str, Any] = status["progress"] or {}
    return report


def metrics(log: str) -> list[dict[str, Any]]:
    """The JSON lines of a log whose lines may have a rank before them; those of its program."""
    lines = [line for line in log.splitlines() if '{"' in line and names.PROGRESS_LINE not in line]
    return [json.loads(line[line.index("{") :]) for line in lines]


# For tests of one worker: TensorFlow's servers listen on all addresses of the machine, on the port
# that ssh has in an MPI job.
one_by_one = pytest.mark.xdist_group("port-2222")


def port_base() -> int:
    """A first port of this worker's own: tests side by side do not see each other's runs."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return 20000 + 1000 * int(worker)


def two_nodes_with_spares(
    helm4: Any, repo: Path, spares: int, **values: Any
) -> list[dict[str, Any]]:
    """The manifests of a job `run` of train.py, in which a lost pod is noticed soon."""
    values = {
        "image": {"repository": "any"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "torchrun": {
            "spares": spares,
            "rdzvConf": {"keep_alive_interval": "3"},
            "port": local_runs.free_port(port_base()),
        },
        **values,
    }
    text = helm4.render(repo / "charts/torchrun", values=values, name="run")
    return [manifest for manifest in load_all(text) if manifest]

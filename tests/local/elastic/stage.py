"""A master and its workers as real processes, with the operator's part played by the test.

`Stage.turn` is one look of an operator: new plans are taken into the target by the very functions
that a real one uses, missing pods are started, superfluous ones ended, and the job and the pods are
written for the master. It is called by whoever waits for something, so no thread is needed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import psutil

from allranks import names
from allranks.elastic.api import job, plan
from allranks.elastic.members import SUCCEEDED, Member
from allranks.elastic.plans import apply
from allranks.elastic.pods import metadata as pod_metadata
from allranks.elastic.target import DesiredState

FILES = Path(__file__).parents[3] / "charts/elastic/files"
WORKER = FILES / "elastic_worker.py"
GRACE_SECONDS = 5.0
UID = "11111111-2222-3333-4444-555555555555"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Stage:
    """One job on this machine.

    Attributes:
        folder: of the master and of the processes' logs.
        workers: the worker's replica spec, but its template.
        options: the master's options.
        script: what each worker trains.
        strategy: the job's distributionStrategy.
        words: what a worker runs.
        types: further replica types, with what their pods run.
    """

    folder: Path
    workers: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    script: str = ""
    strategy: str = "AllreduceStrategy"
    words: tuple[str, ...] = ("train.py",)
    types: dict[str, list[str]] = field(default_factory=dict)
    relaunch: bool = True
    extra_env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the job; nothing runs yet."""
        self.port = free_port()
        self.target = DesiredState()
        self.done: set[str] = set()
        self.ended: dict[str, str] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.types_of: dict[str, str] = {}
        self.leaving: dict[str, float] = {}
        self.master: subprocess.Popen[bytes] | None = None
        self.masters = 0
        (self.folder / "train.py").write_text(self.script)
        self._write()

    # --- processes --------------------------------------------------------------------------------

    def start_master(self) -> subprocess.Popen[bytes]:
        """Start a master, or another one."""
        env = self._env() | {
            names.ENV_NAMESPACE: "lab",
            names.ENV_JOB: "demo",
            names.ENV_MASTER_PORT: str(self.port),
            names.ENV_MASTER_FOLDER: str(self.folder),
            names.ENV_MASTER_OPTIONS: json.dumps(self.options),
            names.ENV_TERMINATION_LOG: str(self.folder / "reason"),
            "POD_IP": "127.0.0.1",
        }
        self.masters += 1
        with (self.folder / f"master.{self.masters}.log").open("ab") as log:
            self.master = subprocess.Popen(
                [sys.executable, "-m", "allranks_operator.master"], env=env, stdout=log, stderr=log
            )
        return self.master

    def turn(self) -> bool:
        """One look of an operator; True, so that it can stand in a condition."""
        self._see_ends()
        for path in sorted((self.folder / "plans").glob("*.json")):
            if path.name not in self.done:
                self._take(json.loads(path.read_text()))
                self.done.add(path.name)
        for kind, group in self.target.groups.items():
            for member in group.current:
                name = pod_metadata.pod_name("demo", kind, member.id)
                if name not in self.running and name not in self.ended:
                    self._start(kind, member)
        desired = {
            pod_metadata.pod_name("demo", kind, member.id)
            for kind, group in self.target.groups.items()
            for member in group.current
        }
        for name, process in self.running.items():
            if name not in desired and process.poll() is None:
                self._end_in_time(name, process)
        self._write()
        return True

    def grow(self, workers: int) -> None:
        """Somebody asks for another number of workers by hand."""
        spec = {"ownerJob": "demo", "replicaResourceSpecs": {"worker": {"replicas": workers}}}
        metadata = {"name": "demo-manual-2", "labels": {names.SCALE_TYPE: "manual"}}
        self._take({"metadata": metadata, "spec": spec})

    def kill(self, name: str) -> None:
        """End a pod as a lost machine ends it: all its processes at once, unasked."""
        process = psutil.Process(self.running[name].pid)
        for victim in [*process.children(recursive=True), process]:
            victim.kill()

    def freeze(self, name: str) -> None:
        """Stop a pod where it stands: all its processes, which still are there."""
        process = psutil.Process(self.running[name].pid)
        for victim in [process, *process.children(recursive=True)]:
            victim.suspend()

    def status(self) -> dict[str, Any]:
        """What the master says of itself; {} while it is away."""
        self.turn()
        try:
            url = f"http://127.0.0.1:{self.port}/v1/status"
            with build_opener(ProxyHandler({})).open(url, timeout=30) as answer:
                content: dict[str, Any] = json.load(answer)
                return content
        except (URLError, OSError):
            return {}

    def training(self, *pods: str) -> bool:
        """Whether exactly these workers train, by their numbers, and all have started."""
        status = self.status()
        ranks = {worker["pod"]: worker["rank"] for worker in status.get("workers", [])}
        trains = [
            worker["pod"] for worker in status.get("workers", []) if worker["state"] == "training"
        ]
        pod_names = [pod_metadata.pod_name("demo", "worker", int(pod)) for pod in pods]
        if sorted(trains) != sorted(pod_names) or status.get("forming"):
            return False
        marks = {f"{status['generation']}:{ranks[pod]}:{len(pods)}" for pod in pod_names}
        return marks <= set(self.starts())

    def starts(self) -> list[str]:
        """``generation:rank:size`` of each training process that has joined its group so far."""
        path = self.folder / "starts"
        return path.read_text().split() if path.exists() else []

    def reasons(self) -> list[str]:
        """The reasons of the events that the master told."""
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["reason"] for line in lines]

    def logs(self) -> str:
        """Everything that was printed, for a test that fails."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()}" for path in self.folder.glob("*.log")
        )

    def ended_well(self) -> bool:
        """Whether the master has ended; the pods are looked after until then."""
        self.turn()
        return self.master is not None and self.master.poll() is not None

    def close(self) -> None:
        """End everything that still runs."""
        for process in [*self.running.values(), *([self.master] if self.master else [])]:
            if process.poll() is None:
                whole = psutil.Process(process.pid)
                for victim in [*whole.children(recursive=True), whole]:
                    victim.kill()
            process.wait()

    # --- an operator's part -----------------------------------------------------------------------

    def _take(self, raw: dict[str, Any]) -> None:
        scale_plan = plan.read(raw)
        outcome = apply.apply_plan(self.target, scale_plan, job.read(self._job()))
        self.target = replace(outcome.target, plan=scale_plan.name)

    def _start(self, kind: str, member: Member) -> None:
        name = pod_metadata.pod_name("demo", kind, member.id)
        command = self.types.get(kind) or [sys.executable, "-B", "-u", str(WORKER), *self.words]
        env = self._env() | {
            "POD_NAME": name,
            "POD_IP": "127.0.0.1",
            "ALLRANKS_MASTER_ADDR": f"127.0.0.1:{self.port}",
            "ALLRANKS_GRACE_SECONDS": "3",
            "ALLRANKS_TERMINATION_LOG": str(self.folder / f"{name}.reason"),
            **self.extra_env,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=log, stderr=log
            )
        self.types_of[name] = kind

    def _env(self) -> dict[str, str]:
        return {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}

    def _end_in_time(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """What a kubelet does with a pod that is deleted: SIGTERM, and SIGKILL for all of it."""
        if name not in self.leaving:
            self.leaving[name] = time.monotonic() + GRACE_SECONDS
            process.terminate()
        elif time.monotonic() > self.leaving[name]:
            self.kill(name)

    def _see_ends(self) -> None:
        for name, process in self.running.items():
            code = process.poll()
            if code is None or name in self.ended:
                continue
            self.ended[name] = "Succeeded" if code == 0 else "Failed"
            self._end(name, "" if code else SUCCEEDED)

    def _end(self, name: str, end: str) -> None:
        """Mark a member as done, or put another in the place of one that failed."""
        kind = self.types_of[name]
        group = self.target.groups[kind]
        members = []
        next_id = group.next_id
        for member in group.members:
            if pod_metadata.pod_name("demo", kind, member.id) != name:
                members.append(member)
            elif end or not self.relaunch:
                members.append(replace(member, ended=end or "Failed"))
            else:
                members.append(Member(next_id, member.rank, member.relaunches + 1))
                next_id += 1
        members.sort(key=lambda member: member.id)
        groups = dict(self.target.groups)
        groups[kind] = replace(group, members=tuple(members), next_id=next_id)
        self.target = replace(self.target, groups=groups)

    def _job(self) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "main", "image": "any"}]}}
        specs = {"worker": {**self.workers, "template": template}}
        specs |= {kind: {"replicas": 1, "template": template} for kind in self.types}
        return {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.ELASTIC_JOB,
            "metadata": {"name": "demo", "namespace": "lab", "uid": UID},
            "spec": {"distributionStrategy": self.strategy, "replicaSpecs": specs},
            "status": {"target": self.target.as_status()},
        }

    def _write(self) -> None:
        metadata = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
        pods = [
            {
                "metadata": {
                    "name": name,
                    "labels": {names.EDL_TYPE: self.types_of[name]},
                    **(metadata if name in self.leaving else {}),
                },
                "status": {"phase": self.ended.get(name, "Running")},
            }
            for name in self.running
        ]
        for name, content in (("job.json", self._job()), ("pods.json", pods)):
            text = json.dumps(content)
            path = self.folder / name
            if not path.exists() or path.read_text() != text:
                partial = self.folder / f"{name}.partial"
                partial.write_text(text)
                partial.replace(path)


def terminate(process: subprocess.Popen[bytes]) -> int:
    """Tell a process to stop; its exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=100)

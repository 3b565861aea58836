"""The folder shared by an elastic job's master, its supervisor and the command line.

::

    <run>/elastic/
        job.json            the ElasticJob with its status; the supervisor writes it
        pods.json           its pods, a list; the supervisor writes it
        plans/NAME.json     a ScalePlan; who makes one writes it whole, the supervisor its status
        events.jsonl        what happened, one Event a line; master and supervisor append
        history.json        what the master remembers for the next job of this name
        suspended           there while the job is to have no pods

A file appears and changes as a whole: it is written beside its name and renamed. The history
outlives the run, as the ConfigMap that holds it in a cluster does; its copy is among the volumes.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import atomic, names
from allranks.local import run_events as events
from allranks.local.elastic import objects
from allranks.local.state.store import ELASTIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from allranks.elastic.actions import RecordEvent
    from allranks.k8s.manifest import Manifest
    from allranks.local.state.store import RunFolder

FOLDER = ELASTIC
JOB, PODS, PLANS, EVENTS = "job.json", "pods.json", "plans", events.FILE
HISTORY, SUSPENDED = "history.json", "suspended"


def memory(run: RunFolder, name: str) -> Path:
    """The folder with the history of an elastic job, which outlives its runs.

    Args:
        run: the folder of one of its runs.
        name: the release.
    """
    return run.claims / f"{name}{names.HISTORY_SUFFIX}"


@dataclass(slots=True)
class _Plan:
    """A plan and the state of its file when it was last read or written."""

    document: Manifest
    stat: tuple[int, int]


class SharedFolder:
    """The supervisor's side of the folder.

    Args:
        path: the folder.
        namespace: of the job.
        memory: a folder that outlives the run, for the history.
    """

    def __init__(self, path: Path, namespace: str, memory: Path) -> None:
        self.path = path
        self._namespace = namespace
        self._memory = memory
        self._remembered = 0
        self._plans: dict[str, _Plan] = {}
        self._broken: dict[str, tuple[int, int]] = {}
        self._written: dict[str, str] = {}
        (path / PLANS).mkdir(parents=True, exist_ok=True)
        (path / EVENTS).touch()
        if (memory / HISTORY).is_file():
            atomic.write(path / HISTORY, (memory / HISTORY).read_text())

    @property
    def plans(self) -> tuple[Manifest, ...]:
        """All plans in the folder."""
        return tuple(plan.document for plan in self._plans.values())

    @property
    def suspended(self) -> bool:
        """Whether the job is to be suspended."""
        return (self.path / SUSPENDED).exists()

    def suspend(self) -> None:
        """Mark the job as suspended."""
        (self.path / SUSPENDED).touch()

    def read_plans(self) -> bool:
        """Read new and changed plans; return whether there were any."""
        entries = {entry.name: entry for entry in os.scandir(self.path / PLANS)}
        files = {name: entry for name, entry in entries.items() if _is_plan(name)}
        absent = [name for name in self._plans if f"{name}.json" not in files]
        for name in absent:
            del self._plans[name]
        return bool([name for name in files if self._read(files[name])]) or bool(absent)

    def remember(self) -> None:
        """Copy a changed history to where the next run of this name finds it."""
        path = self.path / HISTORY
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if changed != self._remembered:
            self._memory.mkdir(parents=True, exist_ok=True)
            atomic.write(self._memory / HISTORY, path.read_text())
            self._remembered = changed

    def write(self, job: Manifest, pods: Sequence[Manifest]) -> None:
        """Write the job and its pods, where they have changed."""
        for name, document in ((JOB, job), (PODS, list(pods))):
            text = json.dumps(document)
            if self._written.get(name) != text:
                atomic.write(self.path / name, text)
                self._written[name] = text

    def add_plan(self, manifest: Manifest) -> None:
        """Add a plan, unless one of its name exists."""
        atomic.create(self._file(manifest["metadata"]["name"]), json.dumps(manifest))

    def set_plan_status(self, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Write the status of a plan, unless another one has its name now."""
        plan = self._plans.get(name)
        if plan is not None and plan.document["metadata"]["uid"] == uid:
            self._keep(name, objects.with_status(plan.document, status))

    def drop_plan(self, name: str, uid: str) -> None:
        """Remove a plan, unless another one has its name now."""
        plan = self._plans.get(name)
        if plan is not None and plan.document["metadata"]["uid"] == uid:
            self._file(name).unlink(missing_ok=True)
            del self._plans[name]

    def tell(self, tell: RecordEvent) -> None:
        """Write an Event."""
        about = events.InvolvedObject(tell.kind, tell.name, tell.uid)
        event = events.EventText(tell.type, tell.reason, tell.message)
        events.write(self.path / EVENTS, about, event, time.time())

    def _file(self, name: str) -> Path:
        return self.path / PLANS / f"{name}.json"

    def _read(self, entry: os.DirEntry[str]) -> bool:
        """Read a plan's file; return whether it has changed."""
        name = entry.name.removesuffix(".json")
        plan = self._plans.get(name)
        try:
            state = _state(entry.stat())
            if state in (plan.stat if plan else None, self._broken.get(name)):
                return False
            document = json.loads(self._file(name).read_text())
        except FileNotFoundError:  # removed between the two looks
            return False
        except ValueError:
            self._broken[name] = state
            return False
        if not isinstance(document, dict):
            self._broken[name] = state
            return False
        self._take(name, document, state)
        return True

    def _take(self, name: str, document: Manifest, state: tuple[int, int]) -> None:
        plan = self._plans.get(name)
        if plan is not None:  # somebody wrote it anew: an edit
            edited = {"spec": document.get("spec"), "status": plan.document.get("status") or {}}
            self._plans[name] = _Plan({**plan.document, **edited}, state)
            return
        metadata = {**(document.get("metadata") or {}), "name": name}
        completed = {**document, "metadata": metadata}
        complete = objects.complete(completed, self._namespace, str(uuid.uuid4()), time.time())
        self._keep(name, complete)

    def _keep(self, name: str, document: Manifest) -> None:
        path = self._file(name)
        atomic.write(path, json.dumps(document))
        self._plans[name] = _Plan(document, _state(path.stat()))


def _is_plan(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_mtime_ns, stat.st_ino

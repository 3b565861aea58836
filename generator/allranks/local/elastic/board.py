"""The folder that an elastic job's master, its supervisor and the command line share.

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

from allranks import names
from allranks.local import happenings
from allranks.local.elastic import objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from allranks.elastic.actions import Tell
    from allranks.local.store import RunFolder
    from allranks.model.manifest import Manifest

FOLDER = "elastic"
JOB, PODS, PLANS, EVENTS = "job.json", "pods.json", "plans", happenings.FILE
HISTORY, SUSPENDED = "history.json", "suspended"


def memory(run: RunFolder, name: str) -> Path:
    """Where the history of elastic jobs of a name stays, whatever becomes of a run.

    Args:
        run: the folder of one of its runs.
        name: the release.
    """
    return run.claims / f"{name}{names.HISTORY_SUFFIX}"


def is_elastic(run: RunFolder) -> bool:
    """Whether a run is one that has such a folder."""
    return (run.path / FOLDER).is_dir()


@dataclass(slots=True)
class _Plan:
    """A plan and the state of its file when it was last read or written."""

    document: Manifest
    seen: tuple[int, int]


class Board:
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
            replace_file(path / HISTORY, (memory / HISTORY).read_text())

    @property
    def plans(self) -> tuple[Manifest, ...]:
        """All plans there are."""
        return tuple(one.document for one in self._plans.values())

    @property
    def suspended(self) -> bool:
        """Whether somebody wants the job to have no pods."""
        return (self.path / SUSPENDED).exists()

    def suspend(self) -> None:
        """Want that."""
        (self.path / SUSPENDED).touch()

    def look(self) -> bool:
        """Read the plans that are new or another; whether there were any."""
        found = {one.name: one for one in os.scandir(self.path / PLANS)}
        files = {name: one for name, one in found.items() if _is_plan(name)}
        gone = [name for name in self._plans if f"{name}.json" not in files]
        for name in gone:
            del self._plans[name]
        return bool([name for name in files if self._read(files[name])]) or bool(gone)

    def remember(self) -> None:
        """Copy the history to where the next run of this name finds it, where it has changed."""
        path = self.path / HISTORY
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if changed != self._remembered:
            self._memory.mkdir(parents=True, exist_ok=True)
            replace_file(self._memory / HISTORY, path.read_text())
            self._remembered = changed

    def write(self, job: Manifest, pods: Sequence[Manifest]) -> None:
        """Show the job and its pods, where they are not what they were."""
        for name, document in ((JOB, job), (PODS, list(pods))):
            text = json.dumps(document)
            if self._written.get(name) != text:
                replace_file(self.path / name, text)
                self._written[name] = text

    def add_plan(self, manifest: Manifest) -> None:
        """Make a plan; where one of its name is there already, that is as good."""
        make_file(self._file(manifest["metadata"]["name"]), json.dumps(manifest))

    def set_plan_status(self, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Write the status of the very plan."""
        known = self._plans.get(name)
        if known is not None and known.document["metadata"]["uid"] == uid:
            self._keep(name, objects.with_status(known.document, status))

    def drop_plan(self, name: str, uid: str) -> None:
        """Remove the very plan."""
        known = self._plans.get(name)
        if known is not None and known.document["metadata"]["uid"] == uid:
            self._file(name).unlink(missing_ok=True)
            del self._plans[name]

    def tell(self, tell: Tell) -> None:
        """Note what happened, as the Event it is in a cluster."""
        about = happenings.About(tell.kind, tell.name, tell.uid)
        said = happenings.Said(tell.type, tell.reason, tell.message)
        happenings.write(self.path / EVENTS, about, said, time.time())

    def _file(self, name: str) -> Path:
        return self.path / PLANS / f"{name}.json"

    def _read(self, entry: os.DirEntry[str]) -> bool:
        """Take a plan's file in; whether it has changed."""
        name = entry.name.removesuffix(".json")
        known = self._plans.get(name)
        try:
            state = _state(entry.stat())
            if state in (known.seen if known else None, self._broken.get(name)):
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
        known = self._plans.get(name)
        if known is not None:  # somebody wrote it anew: an edit
            edited = {"spec": document.get("spec"), "status": known.document.get("status") or {}}
            self._plans[name] = _Plan({**known.document, **edited}, state)
            return
        metadata = {**(document.get("metadata") or {}), "name": name}
        made = {**document, "metadata": metadata}
        complete = objects.completed(made, self._namespace, str(uuid.uuid4()), time.time())
        self._keep(name, complete)

    def _keep(self, name: str, document: Manifest) -> None:
        path = self._file(name)
        replace_file(path, json.dumps(document))
        self._plans[name] = _Plan(document, _state(path.stat()))


def replace_file(path: Path, text: str) -> None:
    """Write a file whole."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.new")
    partial.write_text(text)
    partial.replace(path)


def make_file(path: Path, text: str) -> bool:
    """Write a file whole, unless one of its name is there; whether it was made."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.new")
    partial.write_text(text)
    try:
        # A link, not a rename: it fails where the name is taken.
        path.hardlink_to(partial)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    return True


def _is_plan(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_ino

"""The surroundings of a master: a cluster, or a folder of the local runtime."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from allranks import atomic, names
from allranks.cluster import paths
from allranks.cluster.client import KubeCluster
from allranks.errors import ForbiddenError, NotFoundError, RunError, ToolError
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from allranks.cluster.interface import KubeClient
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.policy.observation import PolicyDecision
    from allranks.k8s.manifest import Manifest


class MasterBackend(Protocol):
    """The job's objects, wherever they are stored.

    Every method raises AllranksError where it cannot be done now; a master tries again.
    """

    def job(self) -> Manifest:
        """The ElasticJob.

        Raises:
            NotFoundError: it is gone.
        """

    def pods(self) -> list[Manifest]:
        """The job's pods, including the master's."""

    def plans(self) -> list[Manifest]:
        """The ScalePlans that name the job."""

    def create_plan(self, plan: Manifest) -> bool:
        """Create a plan; False where one of its name exists."""

    def record_event(self, event: Manifest) -> None:
        """Write a Kubernetes Event about the job."""

    def history(self) -> str:
        """The job's saved history; "" where there is none."""

    def save_history(self, history: str) -> None:
        """Save the job's history."""


def event(job: ElasticJob, decision: PolicyDecision, number: int, now: datetime) -> Manifest:
    """The Event of a decision.

    Args:
        job: the job.
        decision: what was decided.
        number: how many events this master has told; with the time it makes the name.
        now: the time, with a zone.
    """
    stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    reference: dict[str, Any] = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "name": job.name,
        "namespace": job.namespace,
        "uid": job.uid,
    }
    # As client-go names them: the object, and the time in hexadecimal.
    suffix = f"{int(now.timestamp() * 1e6) * 1000 + number % 1000:x}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{suffix}", "namespace": job.namespace},
        "involvedObject": reference,
        "reason": decision.reason,
        "message": decision.message[:1024],
        "type": "Warning" if decision.warning else "Normal",
        "eventTime": stamp,
        "firstTimestamp": stamp[:19] + "Z",
        "lastTimestamp": stamp[:19] + "Z",
        "count": 1,
        "action": decision.reason,
        "reportingComponent": names.MASTER_PROGRAM,
        "reportingInstance": names.MASTER_PROGRAM,
        "source": {"component": names.MASTER_PROGRAM},
    }


_JOBS = f"apis/{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}"
_PLANS = f"apis/{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}"
_HISTORY_KEY = "history.json"


class Kubernetes:
    """The backend of a cluster; see `MasterBackend`."""

    def __init__(self, namespace: str, job: str, cluster: KubeClient | None = None) -> None:
        """Create the backend of one job; nothing is requested yet."""
        self._namespace, self._job = namespace, job
        self._cluster: KubeClient = KubeCluster() if cluster is None else cluster
        self._label = f"{names.EDL_NAME}={job}"

    def job(self) -> Manifest:
        """The ElasticJob."""
        return self._cluster.get(_JOBS, self._job, namespace=self._namespace)

    def pods(self) -> list[Manifest]:
        """The job's pods."""
        return self._cluster.list(paths.PODS, namespace=self._namespace, label_selector=self._label)

    def plans(self) -> list[Manifest]:
        """The plans with the job's label; all of ours have it.

        Who may write plans may write that label on one that nobody can read: it is none of ours.
        """
        return self._cluster.list(
            _PLANS,
            namespace=self._namespace,
            label_selector=self._label,
            unread=lambda _: None,
        )

    def create_plan(self, plan: Manifest) -> bool:
        """Create a plan."""
        try:
            self._cluster.create(_PLANS, plan, namespace=self._namespace)
        except ForbiddenError:
            raise
        except ToolError:
            if self._has(plan["metadata"]["name"]):
                return False
            raise
        return True

    def _has(self, name: str) -> bool:
        try:
            self._cluster.get(_PLANS, name, namespace=self._namespace)
        except NotFoundError:
            return False
        return True

    def record_event(self, event: Manifest) -> None:
        """Create an Event."""
        self._cluster.create(paths.EVENTS, event, namespace=self._namespace)

    def history(self) -> str:
        """The job's saved history; "" where it may not be read."""
        try:
            configmap = self._cluster.get(
                paths.CONFIG_MAPS, self._history, namespace=self._namespace
            )
        except (NotFoundError, ForbiddenError):
            return ""
        return text(configmap, "data", _HISTORY_KEY)

    def save_history(self, history: str) -> None:
        """Save the job's history, where that is allowed.

        Who makes the account of a master makes the ConfigMap: a right to create has no name.
        """
        data = {"data": {_HISTORY_KEY: history}}
        self._cluster.patch(paths.CONFIG_MAPS, self._history, data, namespace=self._namespace)

    @property
    def _history(self) -> str:
        return f"{self._job}{names.HISTORY_SUFFIX}"


class FolderBackend:
    """The backend of a folder; see `MasterBackend`."""

    def __init__(self, folder: Path) -> None:
        """Create the backend of a folder, which the local supervisor maintains."""
        self._folder = folder

    def job(self) -> Manifest:
        """The ElasticJob."""
        job = self._read("job.json")
        if not isinstance(job, dict):
            raise NotFoundError(f"{self._folder / 'job.json'} is not there")
        return job

    def pods(self) -> list[Manifest]:
        """The job's pods; none before the first list is written."""
        return _objects(self._read("pods.json"))

    def plans(self) -> list[Manifest]:
        """This master's plans, with the status that the supervisor wrote."""
        plans = []
        with suppress(FileNotFoundError):
            for path in sorted((self._folder / "plans").glob("*.json")):
                plan = self._read(f"plans/{path.name}")
                if isinstance(plan, dict):
                    plans.append(plan)
        return plans

    def create_plan(self, plan: Manifest) -> bool:
        """Write a plan, unless one of its name exists."""
        path = self._folder / "plans" / f"{plan['metadata']['name']}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return atomic.create(path, json.dumps(plan))
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}") from error

    def record_event(self, event: Manifest) -> None:
        """Append an Event as a line."""
        path = self._folder / "events.jsonl"
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}") from error

    def history(self) -> str:
        """The job's saved history."""
        try:
            return (self._folder / "history.json").read_text(encoding="utf-8")
        except OSError:
            return ""

    def save_history(self, history: str) -> None:
        """Save the job's history."""
        path = self._folder / "history.json"
        try:
            atomic.write(path, history)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}") from error

    def _read(self, name: str) -> Any:
        path = self._folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {path}: {error}") from error


def _objects(value: Any) -> list[Manifest]:
    entries = value.get("items") if isinstance(value, dict) else value
    return (
        [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )

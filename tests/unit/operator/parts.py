"""The operator's parts around a pretended API server, put together as a test needs them."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks_operator import log
from allranks_operator.cache.cache import ObjectCache
from allranks_operator.cache.owner_keys import Key
from allranks_operator.events import EventRecorder
from allranks_operator.executor import ActionExecutor
from allranks_operator.kube.resources import ELASTIC_JOBS, PODS, TRAINING_RUNS
from allranks_operator.metrics import Metrics
from allranks_operator.workqueue import WorkItem, WorkQueue

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api
    from tests.unit.operator.fakes import FakeServer

JOBS_PATH = f"/apis/{names.ELASTIC_API_VERSION}/namespaces/lab/elasticjobs"
PLANS_PATH = f"/apis/{names.ELASTIC_API_VERSION}/namespaces/lab/scaleplans"
RUNS_PATH = f"/apis/{names.API_VERSION}/namespaces/lab/trainingruns"
PODS_PATH, EVENTS_PATH = "/api/v1/namespaces/lab/pods", "/api/v1/namespaces/lab/events"
JOB_KEY, RUN_KEY = Key("job", "lab", "j"), Key("run", "lab", "j")


class _DelayQueue(WorkQueue):
    """A queue that remembers the delays: the clock goes on while a busy machine does not."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: dict[Key, float] = {}
        self._holds: dict[Key, float] = {}

    def add(self, key: Key, *, after: float = 0.0, since: float | None = None) -> None:
        before = self._due.get(key)
        super().add(key, after=after, since=since)
        if self._due.get(key) != before:
            self.delays[key] = max(after, self._holds.get(key, 0.0))

    def hold(self, key: Key, seconds: float) -> None:
        before = self._due.get(key)
        super().hold(key, seconds)
        self._holds[key] = seconds
        if self._due.get(key) != before:
            self.delays[key] = seconds


@dataclass(slots=True)
class Parts:
    """The parts.

    Attributes:
        server: what is asked.
        api: who asks.
        leading: whether this operator may act.
    """

    server: FakeServer
    api: Api
    leading: bool = True
    queue: _DelayQueue = field(default_factory=_DelayQueue)
    metrics: Metrics = field(default_factory=Metrics)
    cache: ObjectCache = field(init=False)
    recorder: EventRecorder = field(init=False)
    executor: ActionExecutor = field(init=False)
    changed: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Put them together."""
        self.cache = ObjectCache(lambda key, _: self.changed.append(key))
        self.recorder = EventRecorder(self.api, "me", lambda _: None)
        self.executor = ActionExecutor(
            self.api,
            self.cache,
            self.metrics,
            self.recorder,
            log=log.setup("error", io.StringIO()),
            concurrency=4,
            may_act=lambda: self.leading,
        )
        self.server.routes["POST", EVENTS_PATH] = lambda _, body: body
        self.server.routes["POST", PODS_PATH] = lambda _, body: creation_answer(body)

    def give(self, *manifests: Manifest) -> None:
        """Let the cache know of objects."""
        resources = {resource.kind: resource for resource in (PODS, ELASTIC_JOBS, TRAINING_RUNS)}
        for manifest in manifests:
            resource = resources.get(manifest["kind"])
            assert resource is not None
            self.cache.change(resource, "lab", "ADDED", manifest)

    def bodies(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests of one kind."""
        return [body for verb, at, _, body in self.server.requests if (verb, at) == (method, path)]

    def events(self) -> list[str]:
        """The reasons that were told."""
        return [body["reason"] for body in self.bodies("POST", EVENTS_PATH)]

    def due(self) -> float | None:
        """The seconds to the next turn, to a tenth, from when it was queued; None for never."""
        delays = [self.queue.delays[key] for key in self.queue._due]
        return round(min(delays), 1) if delays else None


_versions = iter(range(100, 10_000))
_lock = threading.Lock()


def creation_answer(body: Manifest) -> Manifest:
    """What the server answers to a creation: the metadata, with a uid and a version."""
    with _lock:
        version = next(_versions)
    name = body["metadata"]["name"]
    return {"metadata": {**body["metadata"], "uid": f"u-{name}", "resourceVersion": str(version)}}


def job(version: int = 5, **status: Any) -> Manifest:
    """An elastic job."""
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {
            "name": "j",
            "namespace": "lab",
            "uid": "u-j",
            "resourceVersion": str(version),
            "generation": 1,
        },
        "spec": {},
        "status": status,
    }


def pod(name: str) -> Manifest:
    """A pod of it, as it is sent."""
    owner = {"kind": names.ELASTIC_JOB, "name": "j", "uid": "u-j", "controller": True}
    labels = {names.EDL_NAME: "j", names.EDL_INDEX: "0", names.APP_PART_OF: names.PART_OF}
    metadata = {"name": name, "namespace": "lab", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}


def turn(key: Key = JOB_KEY, since: float | None = None) -> WorkItem:
    """A turn of a key."""
    return WorkItem(key, since)

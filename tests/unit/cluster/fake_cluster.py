"""A cluster that only pretends: objects in a dictionary, behind the port that real ones have.

What a real API server does with our requests is shown in the tier that has one; here the rules of
our own are tested, and what they ask is written down.
"""

from __future__ import annotations

import copy
import queue
from typing import TYPE_CHECKING, Any

from allranks.cluster import paths
from allranks.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.cluster.interface import Manifests, Rules
    from allranks.k8s.manifest import Manifest


class FakeStream:
    """Lines or changes that a test feeds; `None` ends it, an exception is raised."""

    def __init__(self, *items: Any, end: bool = True) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for item in items:
            self._items.put(item)
        if end:
            self._items.put(None)
        self.closed = False

    def feed(self, item: Any) -> None:
        """One more."""
        self._items.put(item)

    def __iter__(self) -> Iterator[Any]:
        """What was fed, until the end."""
        while (item := self._items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """End it."""
        self.closed = True
        self._items.put(None)


class FakeCluster:
    """Keeps objects by kind and name; `refuse` says what a request is answered with."""

    where = "context fake at nowhere"
    namespace = "lab"

    def __init__(self, *objects: Manifest) -> None:
        self.objects = {
            (paths.manifest_path(manifest), manifest["metadata"]["name"]): manifest
            for manifest in objects
        }
        self.requests: list[tuple[Any, ...]] = []
        self.refuse: Callable[..., Exception | None] = lambda *_: None
        self.streams: dict[str, list[FakeStream]] = {}

    def _ask(self, *request: Any) -> None:
        self.requests.append(request)
        error = self.refuse(*request)
        if error is not None:
            raise error

    def list(self, resource_path: str, **how: Any) -> Manifests:
        """All of a kind whose labels have what the selector asks."""
        self._ask("list", resource_path)
        labels = dict(part.split("=") for part in how.get("label_selector", "").split(",") if part)
        return [
            copy.deepcopy(manifest)
            for (path, _), manifest in list(self.objects.items())  # another thread adds some
            if path == resource_path
            and labels.items() <= (manifest["metadata"].get("labels") or {}).items()
        ]

    def get(self, resource_path: str, name: str, *, namespace: str = "") -> Manifest:
        """One object."""
        self._ask("get", resource_path, name, namespace)
        try:
            return copy.deepcopy(self.objects[resource_path, name])
        except KeyError:
            raise NotFoundError(f"there is no {name}") from None

    def patch(self, resource_path: str, name: str, body: Any, **how: Any) -> Manifest:
        """Merge a patch of two levels; JSON patches and dry runs only get written down."""
        self._ask("patch", resource_path, name, body, how)
        item = self.objects[resource_path, name]
        if isinstance(body, dict) and not how.get("dry_run"):
            _merge(item, body)
            entries = item["metadata"].setdefault("managedFields", [])
            entries.append({"manager": how.get("manager", ""), "operation": "Update"})
        elif isinstance(body, list):
            del item["metadata"]["managedFields"][int(body[1]["path"].rsplit("/", 1)[1])]
        return copy.deepcopy(item)

    def delete(
        self, resource_path: str, name: str, *, namespace: str = "", foreground: bool = False
    ) -> bool:
        """Take an object away."""
        self._ask("delete", resource_path, name, namespace, foreground)
        return self.objects.pop((resource_path, name), None) is not None

    def watch(self, resource_path: str, **how: Any) -> FakeStream:
        """The next of the streams that the test has made for a kind."""
        self._ask("watch", resource_path, how.get("version"))
        waiting = self.streams.get(resource_path) or []
        return waiting.pop(0) if waiting else FakeStream(end=False)

    def logs(self, pod: str, **how: Any) -> FakeStream:
        """The next of the streams that the test has made for a pod."""
        self._ask("logs", pod, how)
        waiting = self.streams.get(pod) or []
        return waiting.pop(0) if waiting else FakeStream()

    def rules(self, namespace: str) -> Rules | None:
        """Nothing is forbidden here."""
        self._ask("rules", namespace)
        return None


def manifest(kind: str, name: str, **rest: Any) -> Manifest:
    """An object of a run named `demo`."""
    versions = {"Job": "batch/v1", "StatefulSet": "apps/v1"}
    labels = {
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/part-of": "allranks",
        "allranks.dev/role": rest.pop("role", "node"),
        "allranks.dev/workload": "torchrun",
        **rest.pop("labels", {}),
    }
    metadata = {"name": name, "labels": labels, **rest.pop("metadata", {})}
    return {
        "apiVersion": versions.get(kind, "v1"),
        "kind": kind,
        "metadata": metadata,
        **rest,
    }


def _merge(item: Manifest, body: Manifest) -> None:
    for key, value in body.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        else:
            item[key] = value

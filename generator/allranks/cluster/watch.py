"""A live run: its controllers and pods, kept up to date by a watch of each kind.

Following a run must not cost more the longer it takes or the more pods it has: nothing is polled,
and a pod is never asked for by itself. What is not watched (events, queues) is only looked at when
the run stands still, which is when a person asks why.
"""

from __future__ import annotations

import threading
import time
from itertools import chain
from typing import TYPE_CHECKING, Self

from allranks import names, retry
from allranks.cluster import paths, scale
from allranks.cluster.observe import observe
from allranks.errors import AllranksError, ExpiredError, ForbiddenError, NotFoundError
from allranks.status.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.interface import KubeClient, WatchStream
    from allranks.k8s.manifest import Manifest

_CONTROLLERS = {
    "Job": paths.JOBS,
    "StatefulSet": paths.STATEFUL_SETS,
    names.ELASTIC_JOB: paths.ELASTIC_JOBS,
}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class RunObserver:
    """Observes a run continuously; a context manager that closes its watches."""

    def __init__(
        self, cluster: KubeClient, release: str, namespace: str, kinds: Iterable[str] = _CONTROLLERS
    ) -> None:
        """Create it; nothing is requested before the context is entered.

        Args:
            cluster: the cluster.
            release: the run.
            namespace: its namespace.
            kinds: the kinds of its objects, where they are known: what has none is not watched.
        """
        self._cluster = cluster
        self._release = release
        self.namespace = namespace
        self._lock = threading.Lock()
        controllers = [path for kind, path in _CONTROLLERS.items() if kind in set(kinds)]
        self._controllers = tuple(controllers or _CONTROLLERS.values())
        self._items: dict[str, dict[str, Manifest]] = {
            path: {} for path in (*self._controllers, paths.PODS)
        }
        self._beside: tuple[Manifest, ...] = ()
        self._events: tuple[Manifest, ...] = ()
        self._open: dict[str, WatchStream] = {}
        self._closed = threading.Event()
        self._deleted = False
        self._failed: AllranksError | None = None
        self.changed = threading.Event()
        self.trouble = ""

    def __enter__(self) -> Self:
        """Start the watches."""
        for path in self._items:
            threading.Thread(target=self._keep, args=(path,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the watches."""
        self._closed.set()
        with self._lock:
            watches = list(self._open.values())
        for watch in watches:
            watch.close()

    def observation(self) -> Observation:
        """The run as it is now.

        Raises:
            ForbiddenError: a watch is not allowed.
        """
        if self._failed is not None:
            raise self._failed
        with self._lock:
            objects = {path: tuple(items.values()) for path, items in self._items.items()}
        pods = objects.pop(paths.PODS)
        return Observation(
            release=self._release,
            namespace=self.namespace,
            objects=(*chain.from_iterable(objects.values()), *self._beside),
            pods=pods,
            events=self._events,
            now=time.time(),
        )

    @property
    def gone(self) -> bool:
        """Whether the run was deleted while it was watched."""
        with self._lock:
            return self._deleted and not any(self._items[path] for path in self._controllers)

    def look_around(self) -> None:
        """Refresh what is not watched: events, queues, claims."""
        try:
            observation = observe(self._cluster, self._release, self.namespace)
        except NotFoundError:
            self._deleted = True
            return
        except AllranksError as error:
            self.trouble = error.problem.message
            return
        self._beside = tuple(
            manifest for manifest in observation.objects if manifest.get("kind") not in _CONTROLLERS
        )
        self._events = observation.events
        self.changed.set()

    # --- one watch, in a thread of its own --------------------------------------------------------

    def _keep(self, path: str) -> None:
        """Keep one list up to date until the end, across lost connections."""
        version, failures = "", 0
        while not self._closed.is_set():
            try:
                watch = self._cluster.watch(
                    path,
                    namespace=self.namespace,
                    label_selector=paths.selector(self._release),
                    version=version,
                )
                with self._lock:
                    self._open[path] = watch
                if self._closed.is_set():
                    watch.close()
                for kind, item in watch:
                    version = str(item["metadata"].get("resourceVersion") or version)
                    self._take(path, kind, item)
                    failures, self.trouble = 0, ""
            except ExpiredError:
                version = ""
                with self._lock:
                    self._items[path].clear()
            except NotFoundError:
                return  # the cluster has no such kind, so the run has none
            except ForbiddenError as error:
                if path == paths.ELASTIC_JOBS:
                    return  # who may not see elastic jobs has none
                self._failed = error
                self.changed.set()
                return
            except AllranksError as error:
                if not self._closed.is_set():
                    self.trouble = error.problem.message
            failures += 1
            self._closed.wait(retry.delay(failures, _FIRST_PAUSE, _LONGEST_PAUSE))

    def _take(self, path: str, kind: str, item: Manifest) -> None:
        if kind == "BOOKMARK":
            return
        name = str(item["metadata"]["name"])
        with self._lock:
            if kind != "DELETED":
                self._items[path][name] = item
            elif path in {paths.JOBS, paths.ELASTIC_JOBS} and scale.has_ended(item):
                # Removed after its end (its TTL): how it ended is still the answer.
                self._items[path][name] = item
            else:
                self._items[path].pop(name, None)
                self._deleted = self._deleted or path != paths.PODS
        self.changed.set()

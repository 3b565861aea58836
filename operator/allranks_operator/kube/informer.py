"""An informer: a list kept up to date by a watch, one thread per kind and namespace.

List, page by page; watch from there on; when the watch ends (the server ends each after some
minutes, connections break) watch on from the last change or bookmark; when the server has forgotten
that place (410), list again. A list replaces everything before it: objects that are not in it were
deleted meanwhile.

Delays are spread at random, so that a hundred operators do not come back in the same second.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allranks import retry
from allranks.cluster.paths import pairs
from allranks.errors import (
    ApiError,
    BusyError,
    ExpiredError,
    NotFoundError,
    RefusedError,
    TooLongError,
)
from allranks_operator.kube.bounds import UnreadObject
from allranks_operator.kube.client import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api, Watching
    from allranks_operator.kube.resources import ApiResource

_PAGE = 500
# How many times fewer where a page was too long.
_SMALLER = 8
_LIST_SECONDS = 60.0
_SHORT = 1.0


@dataclass(frozen=True, slots=True)
class InformerTimeouts:
    """Timeouts and delays of an informer, in seconds.

    Attributes:
        watch: the requested length of a watch; up to half of it is added at random.
        silence: the time without any event after which a connection counts as broken.
        first: the delay after a first failure; doubled after each further one.
        most: the longest delay between two tries.
        missing: the delay where the cluster does not have the kind, or forbids it.
    """

    watch: float = 300.0
    silence: float = 150.0
    first: float = 0.2
    most: float = 10.0
    missing: float = 30.0


class Sink(Protocol):
    """Receives the objects of an informer."""

    def replace(
        self, resource: ApiResource, namespace: str, manifests: list[Manifest], at: str
    ) -> None:
        """Take a whole list, as of a resource version."""

    def change(self, resource: ApiResource, namespace: str, kind: str, manifest: Manifest) -> None:
        """Take one event: ADDED, MODIFIED, DELETED or BOOKMARK."""

    def trim(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        """The part of an object to keep; the rest is dropped page by page."""


class Reflector:
    """Keeps one list up to date."""

    def __init__(
        self,
        api: Api,
        resource: ApiResource,
        namespace: str,
        sink: Sink,
        *,
        waits: InformerTimeouts,
        restarted: Callable[[ApiResource, str], None],
        on_error: Callable[[ApiResource, str, ApiError], None],
    ) -> None:
        """Create it; nothing is requested before `start`.

        Args:
            api: the API server.
            resource: what is listed.
            namespace: where; "" is everywhere.
            sink: where the objects go.
            waits: the timeouts.
            restarted: called on each new list or watch after the first, with its reason.
            on_error: called with each failure.
        """
        self.resource = resource
        self.namespace = namespace
        self.problem: ApiError | None = None
        self._api = api
        self._sink = sink
        self._waits = waits
        self._restarted = restarted
        self._on_error = on_error
        self._lock = threading.Condition()
        self._lists = 0  # how many lists have been begun on request, and how many are done
        self._requested = 1
        self._watching: Watching | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"watch-{resource.plural}-{namespace}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; returns at once."""
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
            if self._watching is not None:
                self._watching.close()

    @property
    def synced(self) -> bool:
        """Whether every list that was requested has been read."""
        with self._lock:
            return self._lists >= self._requested

    @property
    def listed(self) -> bool:
        """Whether the list has been read at least once."""
        with self._lock:
            return self._lists > 0

    def relist(self) -> None:
        """Request a new list; `synced` is true when it has been read."""
        with self._lock:
            self._requested += 1
            if self._watching is not None:
                self._watching.close()
            self._lock.notify_all()

    # --- its thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        place, failures = "", 0
        while not self._stopping.is_set():
            try:
                if not place or not self.synced:
                    place = self._list()
                    failures = 0
                before, opened = place, time.monotonic()
                place = self._watch(place)
                # One that ends as soon as it is open must not be opened in a hot loop.
                idle = place == before and time.monotonic() - opened < _SHORT
                failures = failures + 1 if idle else 0
                if idle and self.synced:
                    self._wait(self._delay(None, failures))
            except ExpiredError:
                place = ""
                self._restarted(self.resource, "expired")
            except (NotFoundError, RefusedError) as error:
                self._fail(error)
                place = ""
                self._wait(self._waits.missing)
            except ApiError as error:
                if self._stopping.is_set():
                    return
                failures += 1
                self._fail(error)
                self._restarted(self.resource, "dropped")
                self._wait(self._delay(error, failures))

    def _fail(self, error: ApiError) -> None:
        """Store the error; a kind that the cluster does not have is an empty list."""
        self.problem = error
        self._on_error(self.resource, self.namespace, error)
        if isinstance(error, NotFoundError) and self.resource.extension:
            self._sink.replace(self.resource, self.namespace, [], "0")
            with self._lock:
                self._lists = self._requested

    def _delay(self, error: ApiError | None, failures: int) -> float:
        retry_after = error.retry_after if isinstance(error, BusyError) else 0.0
        return retry.pause(failures, self._waits.first, self._waits.most, retry_after)

    def _wait(self, seconds: float) -> None:
        """Wait, until a list is requested or the informer is stopped."""
        deadline = time.monotonic() + seconds
        with self._lock:
            request = self._requested
            while not self._stopping.is_set() and request == self._requested:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return
                self._lock.wait(remaining)

    def _list(self) -> str:
        """Read the whole list; return the resource version to watch from."""
        with self._lock:
            request = self._requested
        manifests: list[Manifest] = []
        token = place = ""
        size = _PAGE
        while True:
            try:
                page = self._page(token, size)
            except TooLongError:
                if size == 1:
                    raise
                size = max(1, size // _SMALLER)
                continue
            head = metadata(page)
            # All pages are as of the first one's version.
            place = str(head.get("resourceVersion") or "")
            manifests += self._trim(page)
            token = str(head.get("continue") or "")
            if not token:
                break
        self._sink.replace(self.resource, self.namespace, manifests, place)
        with self._lock:
            self._lists = request
        self.problem = None
        return place

    def _page(self, token: str, size: int) -> Manifest:
        query = pairs(limit=str(size), labelSelector=self.resource.selector, **{"continue": token})
        return self._api.page(self.resource.path, self.namespace, query, seconds=_LIST_SECONDS)

    def _trim(self, page: Manifest) -> Iterator[Manifest]:
        for item in page.get("items") or ():
            item["kind"] = self.resource.kind
            item["apiVersion"] = self.resource.api_version
            yield self._sink.trim(self.resource, item)

    def _watch(self, place: str) -> str:
        """Follow the changes until the watch ends; return the last resource version."""
        seconds = retry.spread(self._waits.watch, 1.0, 1.5)
        query = pairs(
            watch="1",
            allowWatchBookmarks="true",
            timeoutSeconds=str(max(1, round(seconds))),
            labelSelector=self.resource.selector,
            resourceVersion=place,
        )
        watching = self._api.watch(
            self.resource.path, self.namespace, query, silence=self._waits.silence
        )
        with self._lock:
            self._watching = watching
            closed = self._stopping.is_set() or self._lists < self._requested
        try:
            if not closed:
                self.problem = None
                place = self._follow(watching, place)
        finally:
            with self._lock:
                self._watching = None
            watching.close()
        return place

    def _follow(self, watching: Watching, place: str) -> str:
        try:
            for kind, manifest in watching:
                if isinstance(manifest, UnreadObject):
                    manifest["kind"] = self.resource.kind
                    manifest["apiVersion"] = self.resource.api_version
                version = str(metadata(manifest).get("resourceVersion") or "")
                self._sink.change(self.resource, self.namespace, kind, manifest)
                place = version or place
        except BusyError:
            if self._stopping.is_set() or not self.synced:
                return place  # closed here
            self._restarted(self.resource, "dropped")
        return place

"""A list that is kept true by a watch: one thread per kind and namespace.

List, page by page; watch from there on; when the watch ends (the server ends each after some
minutes, connections break) watch on from the last change or bookmark; when the server has
forgotten that place (410), list anew. A list replaces all that was known: what is missing in it was
deleted while nobody looked, and is told so.

The waits are spread at random, so that a hundred watchers do not come back in the same second.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allranks_operator.kube.api import metadata, pairs
from allranks_operator.kube.bounds import Unread
from allranks_operator.kube.errors import (
    ApiError,
    BusyError,
    ExpiredError,
    GoneError,
    RefusedError,
    TooLongError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.model.manifest import Manifest
    from allranks_operator.kube.api import Api, Watching
    from allranks_operator.kube.resources import Resource

_PAGE = 500
# How many times fewer where a page was too long.
_SMALLER = 8
_LIST_SECONDS = 60.0
_SHORT = 1.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long is waited for what, in seconds.

    Attributes:
        watch: how long the server is asked to keep a watch; up to half of it is added at random.
        silence: without a word, not even a bookmark, after which a connection is taken for dead.
        first: after a first failure; doubled after each further one.
        most: at most, between two tries.
        missing: between two looks for a kind that the cluster does not have, or forbids.
    """

    watch: float = 300.0
    silence: float = 150.0
    first: float = 0.2
    most: float = 10.0
    missing: float = 30.0


class Sink(Protocol):
    """Where the objects go."""

    def replace(self, resource: Resource, namespace: str, found: list[Manifest], at: str) -> None:
        """All that there is, as of a resource version."""

    def change(self, resource: Resource, namespace: str, kind: str, found: Manifest) -> None:
        """One change: ADDED, MODIFIED, DELETED or BOOKMARK."""

    def trim(self, resource: Resource, found: Manifest) -> Manifest:
        """What is kept of an object; the rest of it is thrown away page by page."""


class Reflector:
    """Keeps one list true."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str,
        sink: Sink,
        *,
        waits: Waits,
        restarted: Callable[[Resource, str], None],
        told: Callable[[Resource, str, ApiError], None],
    ) -> None:
        """Nothing is asked before `start`.

        Args:
            api: the API server.
            resource: what is listed.
            namespace: where; "" is everywhere.
            sink: where the objects go.
            waits: how long is waited for what.
            restarted: told of each new list or watch after the first: expired, dropped, asked.
            told: told of each failure.
        """
        self.resource = resource
        self.namespace = namespace
        self.problem: ApiError | None = None
        self._api = api
        self._sink = sink
        self._waits = waits
        self._restarted = restarted
        self._told = told
        self._lock = threading.Condition()
        self._lists = 0  # how many lists have been begun on request, and how many are done
        self._asked = 1
        self._watching: Watching | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"watch-{resource.plural}-{namespace}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns at once."""
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
            if self._watching is not None:
                self._watching.close()

    @property
    def synced(self) -> bool:
        """Whether all lists that were asked for have been read."""
        with self._lock:
            return self._lists >= self._asked

    @property
    def listed(self) -> bool:
        """Whether it has been read once."""
        with self._lock:
            return self._lists > 0

    def relist(self) -> None:
        """Ask for a list that is read from now on; `synced` says when it has been."""
        with self._lock:
            self._asked += 1
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
            except (GoneError, RefusedError) as error:
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
        """Remember why; a kind that the cluster does not have is an empty list."""
        self.problem = error
        self._told(self.resource, self.namespace, error)
        if isinstance(error, GoneError) and self.resource.extension:
            self._sink.replace(self.resource, self.namespace, [], "0")
            with self._lock:
                self._lists = self._asked

    def _delay(self, error: ApiError | None, failures: int) -> float:
        longest = min(self._waits.most, self._waits.first * 2.0 ** min(failures - 1, 16))
        asked = error.after if isinstance(error, BusyError) else 0.0
        return max(asked, longest * (0.5 + random.random() / 2))  # noqa: S311 - spreads the load

    def _wait(self, seconds: float) -> None:
        """Wait, unless a list is asked for or the end comes."""
        deadline = time.monotonic() + seconds
        with self._lock:
            asked = self._asked
            while not self._stopping.is_set() and asked == self._asked:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._lock.wait(left)

    def _list(self) -> str:
        """Read the whole list; return the place where a watch goes on."""
        with self._lock:
            asked = self._asked
        found: list[Manifest] = []
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
            found += self._trimmed(page)
            token = str(head.get("continue") or "")
            if not token:
                break
        self._sink.replace(self.resource, self.namespace, found, place)
        with self._lock:
            self._lists = asked
        self.problem = None
        return place

    def _page(self, token: str, size: int) -> Manifest:
        query = pairs(limit=str(size), labelSelector=self.resource.selector, **{"continue": token})
        return self._api.page(self.resource.path, self.namespace, query, seconds=_LIST_SECONDS)

    def _trimmed(self, page: Manifest) -> Iterator[Manifest]:
        for item in page.get("items") or ():
            item["kind"] = self.resource.kind
            item["apiVersion"] = self.resource.api_version
            yield self._sink.trim(self.resource, item)

    def _watch(self, place: str) -> str:
        """Follow the changes until the server ends the watch; return the place they got to."""
        seconds = self._waits.watch * (1 + random.random() / 2)  # noqa: S311 - spreads the load
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
            closed = self._stopping.is_set() or self._lists < self._asked
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
            for kind, found in watching:
                if isinstance(found, Unread):
                    found["kind"] = self.resource.kind
                    found["apiVersion"] = self.resource.api_version
                version = str(metadata(found).get("resourceVersion") or "")
                self._sink.change(self.resource, self.namespace, kind, found)
                place = version or place
        except BusyError:
            if self._stopping.is_set() or not self.synced:
                return place  # closed here
            self._restarted(self.resource, "dropped")
        return place

"""The reconciler of unread objects: an Event tells their authors, and nothing else is done.

An Event stands on the object itself. A namespace of ten thousand such objects gets some Events and
no more: what its author writes must not take the turns of others.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from allranks_operator import events
from allranks_operator.events import Event, ObjectReference
from allranks_operator.kube.bounds import UnreadObject

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from allranks_operator.cache.cache import ObjectCache
    from allranks_operator.events import EventRecorder
    from allranks_operator.executor import ActionExecutor
    from allranks_operator.workqueue import WorkItem

# Events for one namespace, in so many seconds.
_EVENTS_MAX, _SECONDS = 20, 600.0
_MESSAGE = "this {} is not read, and nothing is done for it: {}"


class UnreadObjects:
    """Records Events for unread objects."""

    def __init__(
        self,
        cache: ObjectCache,
        executor: ActionExecutor,
        recorder: EventRecorder,
        log: FilteringBoundLogger,
    ) -> None:
        """Create it; nothing is recorded yet.

        Args:
            cache: the objects.
            executor: checks that this operator may act, and counts the Events.
            recorder: writes the Events.
            log: gets a line for each Event.
        """
        self._cache, self._executor, self._recorder, self._log = cache, executor, recorder, log
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[float, int]] = {}

    def reconcile(self, item: WorkItem) -> None:
        """Record an Event for an unread object, up to a limit per namespace.

        Raises:
            NotLeadingError: another operator acts.
        """
        for objects in self._cache.of(item.key).values():
            for unread in objects:
                if isinstance(unread, UnreadObject) and self._is_due(item.key.namespace):
                    self._report(unread)

    def _report(self, unread: UnreadObject) -> None:
        metadata = unread["metadata"]
        kind, namespace = str(unread["kind"]), str(metadata.get("namespace") or "")
        about = ObjectReference(
            str(unread["apiVersion"]), kind, namespace, metadata["name"], metadata.get("uid", "")
        )
        message = _MESSAGE.format(kind, unread.reason)
        sentence = Event(about, "Warning", events.NOT_READ, message)
        self._log.warning(
            "an object is not read",
            kind=kind,
            namespace=namespace,
            name=about.name,
            why=unread.reason,
        )
        self._executor.call("tell", namespace, lambda: self._recorder.record(sentence))

    def _is_due(self, namespace: str) -> bool:
        now = time.monotonic()
        with self._lock:
            since, count = self._counts.get(namespace, (now, 0))
            if now - since >= _SECONDS:
                since, count = now, 0
            self._counts[namespace] = (since, count + 1)
        return count < _EVENTS_MAX

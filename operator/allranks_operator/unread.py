"""Objects that are kept by their names alone: their authors are told, and nothing is done for them.

An Event stands on the object itself. A namespace of ten thousand such objects gets some Events and
no more: what its author writes must not take the turns of others.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from allranks_operator import reasons
from allranks_operator.kube.bounds import Unread
from allranks_operator.telling import About, Sentence

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from allranks_operator.act import Actor
    from allranks_operator.agenda import Turn
    from allranks_operator.telling import Teller
    from allranks_operator.world.world import World

# Events for one namespace, in so many seconds.
_TOLD_MAX, _SECONDS = 20, 600.0
_MESSAGE = "this {} is not read, and nothing is done for it: {}"


class UnreadObjects:
    """Tells of them."""

    def __init__(
        self, world: World, actor: Actor, teller: Teller, log: FilteringBoundLogger
    ) -> None:
        """Nothing is told yet.

        Args:
            world: has them.
            actor: whether this watcher may act; counts the Events.
            teller: says them.
            log: told of each as well.
        """
        self._world, self._actor, self._teller, self._log = world, actor, teller, log
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[float, int]] = {}

    def look(self, turn: Turn) -> None:
        """Tell of one, unless enough was told of its namespace.

        Raises:
            NotLeadingError: another watcher acts.
        """
        for objects in self._world.of(turn.key).values():
            for found in objects:
                if isinstance(found, Unread) and self._is_due(turn.key.namespace):
                    self._tell(found)

    def _tell(self, found: Unread) -> None:
        metadata = found["metadata"]
        kind, namespace = str(found["kind"]), str(metadata.get("namespace") or "")
        about = About(
            str(found["apiVersion"]), kind, namespace, metadata["name"], metadata.get("uid", "")
        )
        message = _MESSAGE.format(kind, found.why)
        sentence = Sentence(about, "Warning", reasons.NOT_READ, message)
        self._log.warning(
            "an object is not read", kind=kind, namespace=namespace, name=about.name, why=found.why
        )
        self._actor.timed("tell", namespace, lambda: self._teller.tell(sentence))

    def _is_due(self, namespace: str) -> bool:
        now = time.monotonic()
        with self._lock:
            since, count = self._counts.get(namespace, (now, 0))
            if now - since >= _SECONDS:
                since, count = now, 0
            self._counts[namespace] = (since, count + 1)
        return count < _TOLD_MAX

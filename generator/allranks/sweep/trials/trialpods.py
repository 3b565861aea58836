"""The pods of one trial that tell how it goes: their logs, and their last words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from allranks.cluster import pods as reading
from allranks.sweep.model import TERMINATION
from allranks.sweep.trials.podlogs import PodLog

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest
    from allranks.sweep.model import SweepSpec

# So long a log may take to come to its end once its trial has, in seconds.
_PATIENCE = 20.0


class TrialPods:
    """What the pods of a trial say.

    Attributes:
        message: the termination message of the newest of them that ended well.
        was_seen: there was a pod or a controller.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, spec: SweepSpec, slots: threading.Semaphore
    ) -> None:
        """Nothing is read yet.

        Args:
            cluster: the cluster.
            namespace: the pods'.
            spec: the sweep; it says what is worth reading.
            slots: how many logs may be read at a time, of all trials.
        """
        self.message = ""
        self.was_seen = False
        self._cluster = cluster
        self._namespace = namespace
        self._slots = slots
        self._wanted = bool(spec.objective.metric) and spec.metrics.source != TERMINATION
        # By the pod's uid, in the order in which they were created.
        self._logs: dict[str, PodLog] = {}
        self._over: set[str] = set()
        self._ended_at: float | None = None

    def look(self, objects: Iterable[Manifest], pods: Iterable[Manifest]) -> None:
        """Take in the trial's controllers and pods as they are now."""
        objects, pods = list(objects), list(pods)
        self.was_seen = self.was_seen or bool(objects or pods)
        leading = reading.Ranks(objects).leading(pods) or pods
        for pod in sorted(leading, key=reading.created):
            container = reading.main_container(pod)
            state = reading.container_status(pod, container).get("state") or {}
            ended = state.get("terminated")
            uid = str(pod["metadata"]["uid"])
            if ended is not None:
                self._over.add(uid)
                if ended.get("exitCode") == 0:
                    self.message = str(ended.get("message") or "")
            if self._wanted and uid not in self._logs and reading.has_started(pod):
                self._logs[uid] = self._log(uid, pod, container)

    def take(self) -> list[str]:
        """The lines since the last call, pod by pod: the next one begins when one is done."""
        found: list[str] = []
        for log in self._logs.values():
            found += log.take()
            if not (log.done and log.is_empty):
                break
        return found

    def is_read(self) -> bool:
        """Whether, now that the trial has ended, all that it said is at hand."""
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
            self._over |= set(self._logs)
        return all(log.done for log in self._logs.values()) or now > self._ended_at + _PATIENCE

    def close(self) -> None:
        """Stop reading."""
        for log in self._logs.values():
            log.close()

    def _log(self, uid: str, pod: Manifest, container: str) -> PodLog:
        place = (self._namespace, str(pod["metadata"]["name"]), container)
        writers = reading.writers(pod)
        return PodLog(self._cluster, place, lambda: uid in self._over, self._slots, writers)

"""Follow the logs of a run's pods, through every restart and lost connection.

Each line is asked for with its time, so that a stream that broke off goes on where it ended and no
line is shown twice. A pod's log is one request for as long as its container runs.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.cluster.pod_selection import container_status, creation_time, main_container, writers
from allranks.errors import AllranksError, ForbiddenError, NotFoundError
from allranks.model import rank_lines
from allranks.model.rank_lines import ALL, SINGLE_WRITER, LineSelection, LogWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.cluster.interface import KubeClient, Stream
    from allranks.cluster.pod_selection import PodRanks, RankIdentity
    from allranks.k8s.manifest import Manifest

# The API server and each kubelet hold a connection per log.
MOST = 64
_PAUSE_SECONDS = 1.0
# Of a log that was read before, and of one that never was: there it is the node's fault.
_TRIES, _FIRST_TRIES = 4, 2


@dataclass(frozen=True, slots=True)
class PodLogLine:
    """One line of a pod's log.

    Attributes:
        pod: the pod's name.
        identity: its role and rank.
        container: the container's name.
        attempt: how often this rank had been started before.
        text: the line, without its end and without the rank before it.
        writers: the processes of the pod.
        process: the rank of the process that wrote it; None where the line does not say it.
    """

    pod: str
    identity: RankIdentity
    container: str
    attempt: int
    text: str
    writers: LogWriters = SINGLE_WRITER
    process: int | None = None

    @property
    def writer(self) -> str:
        """The writer, as shown before the line."""
        return rank_lines.who(str(self.identity), self.identity.role, self.writers, self.process)

    @property
    def is_lead(self) -> bool:
        """Whether rank 0 or its pod wrote it; any process there, where ranks are not fixed."""
        return not self.process or not self.writers.fixed

    def as_dict(self) -> dict[str, object]:
        """The line as data."""
        return {
            "who": self.writer,
            "pod": self.pod,
            "role": self.identity.role,
            "node": self.identity.rank,
            "rank": self.identity.rank if self.writers.count == 1 else self.process,
            "container": self.container,
            "attempt": self.attempt,
            "text": self.text,
        }


class Tails:
    """Follows the logs of chosen pods, each in its own thread."""

    def __init__(
        self,
        cluster: KubeClient,
        namespace: str,
        *,
        sink: Callable[[PodLogLine], None],
        tell: Callable[[str], None],
        tail: int | None = None,
        selection: LineSelection = ALL,
    ) -> None:
        """Create it; nothing is requested before the first `look`.

        Args:
            cluster: the cluster.
            namespace: the pods' namespace.
            sink: gets each line; called from several threads.
            tell: hears of a log that cannot be read; called from several threads.
            tail: of what was written before the first look, only so many last lines of each pod.
            selection: which lines of the pods.
        """
        self._tail = tail
        self._selection = selection
        self._cluster = cluster
        self._namespace = namespace
        self._sink = sink
        self._tell = tell
        self._threads: dict[tuple[str, int], threading.Thread] = {}
        self._attempts: dict[RankIdentity, int] = {}
        self._streams: set[Stream] = set()
        # By pod: the start whose container runs, and the time of the last line shown.
        self._running: dict[str, tuple[str, int]] = {}
        self._since: dict[str, str] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._limited = False

    def look(self, pods: Iterable[Manifest], ranks: PodRanks) -> None:
        """Start following each container that has started since the last call.

        Args:
            pods: the chosen pods as they are now.
            ranks: which rank each is.
        """
        for pod in sorted(pods, key=creation_time):
            container = main_container(pod)
            status = container_status(pod, container)
            state = status.get("state") or {}
            key = (str(pod["metadata"]["uid"]), int(status.get("restartCount") or 0))
            self._running.pop(key[0], None)
            if "running" in state:
                self._running[key[0]] = key
            elif "terminated" not in state:
                continue
            if key in self._threads:
                continue
            if sum(thread.is_alive() for thread in self._threads.values()) >= MOST:
                self._say_limited()
                continue
            before = (key[0], key[1] - 1)
            if key[1] and before not in self._threads:
                # A StatefulSet starts a container again that has ended: what it trained is here.
                self._start(before, pod, ranks.identity(pod), previous=True)
            self._start(key, pod, ranks.identity(pod))
        self._tail = None

    def drain(self, seconds: float) -> None:
        """Wait until every followed log has ended, or the time is over."""
        for thread in self._threads.values():
            thread.join(seconds)

    def close(self) -> None:
        """Close every stream."""
        self._closed.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    def _start(
        self, key: tuple[str, int], pod: Manifest, rank: RankIdentity, *, previous: bool = False
    ) -> None:
        attempt = self._attempts.get(rank, -1) + 1
        self._attempts[rank] = attempt
        place = _Place(
            pod=str(pod["metadata"]["name"]),
            key=key,
            identity=rank,
            container=main_container(pod),
            attempt=attempt,
            tail=self._tail,
            writers=writers(pod),
            previous=previous,
            after=None if previous else self._threads.get((key[0], key[1] - 1)),
        )
        thread = threading.Thread(target=self._follow, args=(place,), daemon=True)
        self._threads[key] = thread
        thread.start()

    def _follow(self, place: _Place) -> None:
        if place.after is not None:  # the lines of a pod's starts in their order
            place.after.join()
        if place.previous:
            with suppress(AllranksError):  # the kubelet may have removed that container
                self._read(place)
            return
        failures, tries = 0, _FIRST_TRIES
        while not self._closed.is_set() and failures < tries:
            try:
                read = self._read(place)
            except (ForbiddenError, NotFoundError) as error:
                self._tell(f"the log of pod {place.pod} cannot be read: {error.problem.message}")
                return
            except AllranksError as error:
                failures += 1
                if failures == tries:
                    message = error.problem.message
                    self._tell(f"the log of pod {place.pod} cannot be read: {message}")
            else:
                failures, tries = 0 if read else failures + 1, _TRIES
                if self._running.get(place.key[0]) != place.key:
                    return
            self._closed.wait(_PAUSE_SECONDS)

    def _read(self, place: _Place) -> int:
        """Read a stream to its end; return the number of its lines."""
        uid, count = place.key[0], 0
        stream = self._cluster.logs(
            place.pod,
            namespace=self._namespace,
            container=place.container,
            follow=not place.previous,
            previous=place.previous,
            tail=None if uid in self._since else place.tail,
            timestamps=True,
            since=self._since.get(uid, ""),
        )
        with self._lock:
            self._streams.add(stream)
        try:
            for line in stream:
                time, _, text = line.partition(" ")
                # The server's filter knows whole seconds only.
                if time <= self._since.get(uid, ""):
                    continue
                self._since[uid] = time
                count += 1
                self._pass_on(place, text)
        finally:
            with self._lock:
                self._streams.discard(stream)
        return count

    def _pass_on(self, place: _Place, text: str) -> None:
        process, text = place.writers.split(text)
        if self._selection.has_line(place.identity.role, place.writers, process):
            origin = (place.pod, place.identity, place.container, place.attempt)
            self._sink(PodLogLine(*origin, text, place.writers, process))

    def _say_limited(self) -> None:
        if not self._limited:
            self._limited = True
            self._tell(f"only {MOST} logs are followed at once; `logs --node N` shows another")


@dataclass(frozen=True, slots=True)
class _Place:
    """One start of a container."""

    pod: str
    key: tuple[str, int]  # the pod's uid and the container's restart
    identity: RankIdentity
    container: str
    attempt: int
    tail: int | None
    writers: LogWriters
    previous: bool  # the log of the start before the one that is there
    after: threading.Thread | None  # reads the start before this one

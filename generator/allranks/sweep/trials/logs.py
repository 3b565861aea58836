"""Follow the logs of trials' pods, with a thread for each, and a limit on their number.

Lines have timestamps, so that a broken stream goes on where it ended, and no line is read twice.
Lines that the runner has not taken yet wait in a bounded queue: a trial that prints faster than it
is read is not kept in memory.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import AllranksError, ForbiddenError, NotFoundError
from allranks.model.rank_lines import SINGLE_WRITER, LogWriters

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.cluster.interface import KubeClient, Stream

# The API server and each kubelet hold a connection per log.
MOST = 64
_LINES = 10_000
_PAUSE = 0.5
_TRIES = 3


class PodLog:
    """The log of one container of one pod.

    Attributes:
        done: all of it was read, or it cannot be read.
        trouble: why it cannot be read; "" if it can.
    """

    def __init__(
        self,
        cluster: KubeClient,
        place: tuple[str, str, str],
        is_over: Callable[[], bool],
        slots: threading.Semaphore,
        writers: LogWriters = SINGLE_WRITER,
    ) -> None:
        """Begin to read.

        Args:
            cluster: the cluster.
            place: the namespace, the pod and its container.
            is_over: returns whether the container has ended, so that the end of the stream is the
                end of the log.
            slots: limits how many logs are read at a time.
            writers: the processes of the container, whose rank prefixes are cut off.
        """
        self.done = False
        self.trouble = ""
        self._cluster = cluster
        self._place = place
        self._is_over = is_over
        self._slots = slots
        self._writers = writers
        self._lines: queue.Queue[str] = queue.Queue(_LINES)
        self._closed = threading.Event()
        self._stream: Stream | None = None
        self._last = ""
        threading.Thread(target=self._read_all, name=f"log-{place[1]}", daemon=True).start()

    def take(self) -> list[str]:
        """Return the lines since the last call."""
        lines: list[str] = []
        with suppress(queue.Empty):
            while len(lines) < _LINES:
                lines.append(self._lines.get_nowait())
        return lines

    @property
    def is_empty(self) -> bool:
        """Whether all lines that were read are taken."""
        return self._lines.empty()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def _read_all(self) -> None:
        with self._slots:
            tries = 0
            while not self._closed.is_set() and tries < _TRIES:
                over = self._is_over()  # before the read, which has all lines up to then
                try:
                    count = self._read()
                except (ForbiddenError, NotFoundError) as error:
                    self.trouble = error.problem.message
                    break
                except AllranksError as error:
                    tries += 1
                    self.trouble = error.problem.message
                else:
                    tries, self.trouble = 0, ""
                    if over and not count:
                        break
                    if over:
                        continue  # once more: the stream may have broken off
                self._closed.wait(_PAUSE)
            self.done = True

    def _read(self) -> int:
        """Read a stream to its end, and return how many new lines it had."""
        namespace, pod, container = self._place
        count = 0
        stream = self._cluster.logs(
            pod,
            namespace=namespace,
            container=container,
            follow=True,
            timestamps=True,
            since=self._last,
        )
        self._stream = stream
        try:
            for line in stream:
                time, _, text = line.partition(" ")
                # The server's filter knows whole seconds only.
                if time <= self._last:
                    continue
                self._last = time
                count += 1
                if not self._put(self._writers.split(text)[1]):
                    break
        finally:
            self._stream = None
        return count

    def _put(self, text: str) -> bool:
        while not self._closed.is_set():
            try:
                self._lines.put(text, timeout=_PAUSE)
            except queue.Full:
                continue
            return True
        return False

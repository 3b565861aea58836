"""The work queue: keys to reconcile, each at most once, and the loop that reconciles them.

A thousand changes of a run become one reconciliation. A key that is being reconciled is not handed
out a second time; changes meanwhile queue it again for afterwards. So no two threads ever work on
the same key. Namespaces take turns: who makes ten thousand objects in one keeps those of another
waiting for one of them.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from allranks_operator.executor import NotLeadingError
from allranks_operator.rate_limit import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import FilteringBoundLogger

    from allranks_operator.cache.owner_keys import Key


class WorkItem(NamedTuple):
    """A key handed out by the queue.

    Attributes:
        key: the key.
        since: when the oldest change was seen that is not acted on yet (time.monotonic); None where
            there was no change, only a delay.
    """

    key: Key
    since: float | None


class WorkQueue:
    """A queue of keys with delays; all methods are safe for any thread."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._lock = threading.Condition()
        self._due: dict[Key, float] = {}
        self._since: dict[Key, float] = {}
        self._held_until: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        # The keys of the heap whose time has come, by namespace; the first namespace is the next.
        self._ready: dict[str, deque[tuple[float, Key]]] = {}
        self._busy: set[Key] = set()
        self._closed = False

    def add(self, key: Key, *, after: float = 0.0, since: float | None = None) -> None:
        """Queue a key.

        Args:
            key: the key.
            after: the delay in seconds. An earlier due time stays, and so does a later one that
                `hold` has set.
            since: when the change that causes it was seen (time.monotonic); None for no change.
        """
        due = time.monotonic() + after
        with self._lock:
            due = max(due, self._held_until.get(key, 0.0))
            if since is not None:
                self._since.setdefault(key, since)
            earlier = self._due.get(key)
            if earlier is not None and earlier <= due:
                return
            self._due[key] = due
            if key not in self._busy:
                heapq.heappush(self._heap, (due, key))
                self._lock.notify()

    def hold(self, key: Key, seconds: float) -> None:
        """Do not hand out a key for some seconds, whatever adds it.

        Without it, each change of an object that must not be written yet would be reconciled.
        """
        until = time.monotonic() + seconds
        with self._lock:
            self._held_until[key] = until
            due = self._due.get(key)
            if due is None or due >= until:
                return
            self._due[key] = until  # added while the key was being reconciled
            if key not in self._busy:
                heapq.heappush(self._heap, (until, key))

    def get(self, timeout: float) -> WorkItem | None:
        """The next key that is due; None where none is due in time. Call `done` afterwards."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while not self._closed:
                now = time.monotonic()
                key = self._next(now)
                if key is not None:
                    return key
                wake = min(deadline, self._heap[0][0]) if self._heap else deadline
                if now >= deadline:
                    return None
                self._lock.wait(max(0.0, wake - now))
            return None

    def done(self, item: WorkItem, *, retain: bool = False) -> None:
        """Mark a key as reconciled.

        Args:
            item: the item that `get` returned.
            retain: whether the change is still to be acted on, so that its age keeps counting.
        """
        with self._lock:
            self._busy.discard(item.key)
            if retain and item.since is not None:
                later = self._since.get(item.key, item.since)
                self._since[item.key] = min(later, item.since)
            due = self._due.get(item.key)
            if due is not None:
                heapq.heappush(self._heap, (due, item.key))
                self._lock.notify()

    def shut_down(self) -> None:
        """Hand out no more keys."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def clear(self) -> None:
        """Remove all keys."""
        with self._lock:
            self._due.clear()
            self._since.clear()
            self._held_until.clear()
            self._heap.clear()
            self._ready.clear()

    @property
    def depth(self) -> int:
        """The number of keys that are due now."""
        now = time.monotonic()
        with self._lock:
            return sum(due <= now for due in self._due.values())

    def _next(self, now: float) -> WorkItem | None:
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            self._ready.setdefault(key.namespace, deque()).append((due, key))
        while self._ready:
            namespace = next(iter(self._ready))
            entries = self._ready.pop(namespace)
            first = self._first(entries)
            if entries:
                self._ready[namespace] = entries  # behind all others
            if first is not None:
                del self._due[first]
                self._held_until.pop(first, None)
                self._busy.add(first)
                return WorkItem(first, self._since.pop(first, None))
        return None

    def _first(self, entries: deque[tuple[float, Key]]) -> Key | None:
        """Take the first key of some entries that counts; None where none does."""
        while entries:
            due, key = entries.popleft()
            # Stale: an earlier entry replaced it, or the key is being reconciled.
            if self._due.get(key) == due and key not in self._busy:
                return key
        return None


_WORKERS = 4
_GET_SECONDS = 1.0
# No request takes this long: if no key could be handed out meanwhile, all workers hang.
_STALL_SECONDS = 300.0


class Loop:
    """Takes keys from the queue, and reconciles them in worker threads."""

    def __init__(
        self,
        queue: WorkQueue,
        reconcile: Callable[[WorkItem], None],
        log: FilteringBoundLogger,
    ) -> None:
        """Create it; nothing is reconciled before `run`.

        Args:
            queue: the keys.
            reconcile: reconciles one key.
            log: gets a line for each exception.
        """
        self._queue = queue
        self._reconcile = reconcile
        self._log = log
        self._backoff = Backoff()
        self._free = threading.Semaphore(_WORKERS)
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="look")
        self._acting = threading.Event()
        self._stopping = threading.Event()
        self._beat = time.monotonic()

    def act(self, *, now: bool) -> None:
        """Start or stop reconciling."""
        if now:
            self._acting.set()
        else:
            self._acting.clear()

    @property
    def acting(self) -> bool:
        """Whether keys are being reconciled."""
        return self._acting.is_set()

    def health(self) -> str:
        """The fault of the loop, in words; "" where there is none."""
        silent = time.monotonic() - self._beat
        return f"no turn was given for {silent:.0f} s" if silent > _STALL_SECONDS else ""

    def run(self) -> None:
        """Reconcile keys until `stop`."""
        while not self._stopping.is_set():
            if not self._acting.wait(_GET_SECONDS):
                self._beat = time.monotonic()
                continue
            if not self._free.acquire(timeout=_GET_SECONDS):
                continue
            self._beat = time.monotonic()
            item = self._queue.get(_GET_SECONDS)
            if item is None:
                self._free.release()
                continue
            self._pool.submit(self._reconcile, item).add_done_callback(partial(self._finish, item))
        self._pool.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """Start no more reconciliations; those that run come to their end."""
        self._stopping.set()
        self._queue.shut_down()

    def _finish(self, item: WorkItem, future: Future[None]) -> None:
        self._free.release()
        error = None if future.cancelled() else future.exception()
        if error is None:
            self._backoff.reset(item.key, "")
        elif not isinstance(error, NotLeadingError):
            seconds = self._backoff.record_failure(item.key, "", 1.0, 120.0)
            self._queue.add(item.key, after=seconds)
            self._log.error(
                "a look failed",
                kind=item.key.kind,
                namespace=item.key.namespace,
                name=item.key.name,
                again_in=round(seconds, 1),
                exc_info=error,
            )
        self._queue.done(item)

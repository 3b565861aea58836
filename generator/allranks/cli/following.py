"""Follow a run on a cluster to its end: its state in one line, and the logs that were asked for."""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.cli import statusview
from allranks.cluster.live import Live
from allranks.cluster.pods import Ranks
from allranks.cluster.tails import Line, Tails
from allranks.errors import AllranksError, RunError
from allranks.model.ranklines import ALL, Wanted
from allranks.model.status import Phase
from allranks.status.reduce import first_failed, reduce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation

_TICK_SECONDS = 0.2
# How long a run stands still before its events are looked at, and then between two looks.
_STILL_SECONDS = 5.0
_STILL_LONGEST = 60.0
_DRAIN_SECONDS = 10.0
# Between two notes on what is waited for, where no line at the foot shows it.
_NOTE_SECONDS = 15.0
_LAST_LINES = 20
# Reading a thousand pods takes a while; it must not become all that this process does.
_REST_SHARE = 10


@dataclass(frozen=True, slots=True)
class How:
    """How a run is followed.

    Attributes:
        logs: lead (rank 0's or the launcher's), all or none; what is wanted wins over it.
        wanted: whose log lines.
        timeout: seconds; None is to its end.
        json: the log is told about the result, and is not the result.
        quiet: no notes on how the run goes.
        as_json: each log line is an object of its own.
        kinds: the kinds of the run's objects, where they are known.
        tail: of what the pods wrote before, only so many last lines of each; None for all.
    """

    logs: str = "lead"
    wanted: Wanted = ALL
    timeout: float | None = None
    json: bool = False
    quiet: bool = False
    as_json: bool = False
    kinds: tuple[str, ...] = ("Job", "StatefulSet")
    tail: int | None = None

    @property
    def leads(self) -> bool:
        """Whether only what rank 0 and its pod say is shown, and not rank 0's neighbours."""
        return self.logs == "lead" and self.wanted == ALL

    def of(self, seen: Observation) -> How:
        """The same for a run that was looked at: no kind is watched that it has none of."""
        kinds = {str(one.get("kind")) for one in seen.objects}
        return replace(self, kinds=tuple(sorted(kinds)))

    def chosen(self, pods: tuple[Manifest, ...], ranks: Ranks) -> list[Manifest]:
        """The pods whose logs are shown."""
        if self.logs == "none":
            return []
        if self.wanted != ALL:
            return ranks.chosen(pods, self.wanted)
        return list(pods) if self.logs == "all" else ranks.leading(pods)


def follow(console: Console, cluster: Cluster, name: str, namespace: str, how: How) -> RunStatus:
    """Follow a run; return its last status.

    Raises:
        RunError: the time is over, or the run was deleted meanwhile.
        AllranksError: the cluster forbids it.
    """
    with Live(cluster, name, namespace, how.kinds) as live:
        follower = _Follower(console, cluster, live, how)
        try:
            with console.progress(lambda _: follower.line()):
                status = follower.to_the_end()
        finally:
            follower.tails.close()
        return explain(cluster, live.observation(), status)


def explain(cluster: Cluster, seen: Observation, status: RunStatus) -> RunStatus:
    """The status with the last lines of what failed first, where there is such a thing."""
    failed = first_failed(seen) if status.phase is not Phase.SUCCEEDED else None
    if failed is None:
        return status
    pod, container, previous = failed
    try:
        stream = cluster.logs(
            pod,
            namespace=seen.namespace,
            container=container,
            previous=previous,
            tail=_LAST_LINES,
        )
        logs: Mapping[str, tuple[str, ...]] = {pod: tuple(stream)}
    except AllranksError:
        return status  # the pod or its node is gone; the status stands without its words
    return reduce(seen, logs)


# What time does not mend. Room on a node or in a scheduler's queue is not among it: that is waited
# for, as long as --timeout allows.
_NEEDS_A_PERSON = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
        *("CreateContainerConfigError", "CreateContainerError", "ClaimMissing"),
        *("PodSecurity", "QuotaExceeded", "QuotaUnnamed"),
    }
)
# A new pull, a Secret that comes a little later, a quota that an ending job leaves: time for these.
_STUCK_SECONDS = 120.0


class _Follower:
    """The loop: log lines as they come, the status when something has changed."""

    def __init__(self, console: Console, cluster: Cluster, live: Live, how: How) -> None:
        self._console = console
        self._live = live
        self._how = how
        self._lines: queue.SimpleQueue[Line | str] = queue.SimpleQueue()
        self._training = statusview.TrainingProgress()
        self._status: RunStatus | None = None
        self._started = time.monotonic()
        self._next_look = self._started + _STILL_SECONDS
        self._pause = _STILL_SECONDS
        self._next_read = self._next_note = 0.0
        self._told: tuple[object, str] | None = None
        self._stuck_since: float | None = None
        put = self._lines.put
        self.tails = Tails(
            cluster, live.namespace, sink=put, tell=put, tail=how.tail, wanted=how.wanted
        )

    def line(self) -> str:
        """The state in one line."""
        status = self._status
        if status is None:
            return "waiting for the cluster"
        took = statusview.duration(status.started_at, None, time.time())
        waits = f"waits for {status.waiting_for}" if status.waiting_for else ""
        parts = [f"{status.phase}: {statusview.counts(status)}", took, self._training.text, waits]
        if self._live.trouble:
            parts.append(self._live.trouble)
        return ", ".join(part for part in parts if part)

    def to_the_end(self) -> RunStatus:
        """Follow until the run has ended, or what was waited for is there."""
        while True:
            self._show(_TICK_SECONDS)
            status = self._read()
            if status is not None and status.finished:
                break
            self._check_time()
            self._check_progress()
            self._look_around()
        self._look_at_logs(self._live.observation())
        self._drain()
        return status

    def _read(self) -> RunStatus | None:
        """The status, read anew where something has changed; None where nothing has."""
        if self._live.gone:
            raise RunError("the run was deleted while it was followed")
        now = time.monotonic()
        if not self._live.changed.is_set() or now < self._next_read:
            return None
        self._live.changed.clear()
        seen = self._live.observation()
        if not seen.objects:
            return None  # the first watches have not answered yet
        status = reduce(seen)
        self._look_at_logs(seen)
        self._note(status)
        self._next_read = now + _REST_SHARE * (time.monotonic() - now)
        return status

    def _look_at_logs(self, seen: Observation) -> None:
        if self._how.logs != "none":
            ranks = Ranks(seen.objects)
            self.tails.look(self._how.chosen(seen.pods, ranks), ranks)

    def _note(self, status: RunStatus) -> None:
        before, self._status = self._status, status
        moved = before is None or _shape(before) != _shape(status)
        if moved:
            self._pause = _STILL_SECONDS
            self._next_look = time.monotonic() + self._pause
        if not self._console.live and not self._how.quiet:
            self._tell(status)

    def _tell(self, status: RunStatus) -> None:
        """A note where the phase has changed, or (now and then) what is waited for."""
        now, news = time.monotonic(), (status.phase, status.waiting_for)
        same_phase = self._told is not None and self._told[0] == status.phase
        if news == self._told or (same_phase and now < self._next_note):
            return
        self._told, self._next_note = news, now + _NOTE_SECONDS
        waits = f", waits for {status.waiting_for}" if status.waiting_for else ""
        self._console.note(f"{status.phase}: {statusview.counts(status)}{waits}")

    def _look_around(self) -> None:
        """Look at events where the run stands still, ever less often."""
        standing = self._status is None or self._status.phase is not Phase.RUNNING
        if standing and time.monotonic() >= self._next_look:
            self._live.look_around()
            self._pause = min(self._pause * 2, _STILL_LONGEST)
            self._next_look = time.monotonic() + self._pause

    def _check_time(self) -> None:
        limit = self._how.timeout
        if limit is None or time.monotonic() - self._started < limit:
            return
        self._live.look_around()
        status = reduce(self._live.observation())
        waits = f" and waits for {status.waiting_for}" if status.waiting_for else ""
        run = f"{status.name} -n {status.namespace}"
        if status.phase is Phase.SUSPENDED:
            raise RunError(
                f"{status.name} is still suspended after {statusview.length(limit)}",
                hint=f"`{names.CLI} resume {run}` lets it go on",
            )
        raise RunError(
            f"{status.name} is {status.phase} after {statusview.length(limit)}{waits}; it goes on",
            hint=f"`{names.CLI} attach {run}` follows it again, `{names.CLI} delete {run}` ends it",
        )

    def _check_progress(self) -> None:
        """Stop following where only a person can help; the run itself is left as it is."""
        status, now = self._status, time.monotonic()
        if status is None or self._how.quiet or status.reason not in _NEEDS_A_PERSON:
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = now
        if now - self._stuck_since < _STUCK_SECONDS:
            return
        run = f"{status.name} -n {status.namespace}"
        raise RunError(
            f"{status.name} cannot go on: it waits for {status.waiting_for}",
            hint=f"mend the cause, or the values with `{names.CLI} upgrade {run} --recreate -f "
            f"FILE`; `{names.CLI} delete {run}` gives it up",
        )

    def _show(self, seconds: float) -> None:
        """Show the lines that come within a time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return
            self._print(line)

    def _drain(self) -> None:
        """Show what is still to come of logs whose containers have ended."""
        ending = threading.Thread(target=self.tails.drain, args=(_DRAIN_SECONDS,), daemon=True)
        ending.start()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while time.monotonic() < deadline and (ending.is_alive() or not self._lines.empty()):
            self._show(_TICK_SECONDS / 4)

    def _print(self, line: Line | str) -> None:
        if isinstance(line, str):
            self._console.note(line)
            return
        if self._how.as_json:
            self._console.raw(json.dumps(line.as_dict(), ensure_ascii=False) + "\n")
            return
        if self._how.leads and not line.is_lead:
            return
        self._training.read(line.text)
        self._console.log(line.by, line.text, result=not self._how.json)


def _shape(status: RunStatus) -> tuple[object, ...]:
    """What of a status shows that the run moves."""
    return (status.phase, status.roles, status.restarts)

"""Follow a run on a cluster to its end: its state in one line, and the selected logs."""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names, retry
from allranks.cli import status_view
from allranks.cluster.logs import PodLogLine, Tails
from allranks.cluster.pod_selection import PodRanks
from allranks.cluster.watch import RunObserver
from allranks.errors import AllranksError, RunError
from allranks.model.rank_lines import ALL, LineSelection
from allranks.model.status import Phase
from allranks.status.reduce import first_failed, reduce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation

_TICK_SECONDS = 0.2
# How long a run may stand still before its events are read, and then between two reads.
_STILL_SECONDS = 5.0
_STILL_LONGEST = 60.0
_DRAIN_SECONDS = 10.0
# Between two notes on what the run waits for, without a progress line.
_NOTE_SECONDS = 15.0
_LAST_LINES = 20
# Reading a thousand pods takes a while; this process pauses so many times as long.
_REST_SHARE = 10


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options of following a run.

    Attributes:
        logs: lead (rank 0's or the launcher's), all or none; `selection` wins over it.
        selection: the pods or processes whose log lines are shown.
        timeout: seconds; None is to its end.
        json: the result is JSON, and the log goes to standard error.
        quiet: no notes on the state of the run.
        as_json: each log line is an object of its own.
        kinds: the kinds of the run's objects.
        tail: how many last lines of each pod's earlier output to show; None for all.
    """

    logs: str = "lead"
    selection: LineSelection = ALL
    timeout: float | None = None
    json: bool = False
    quiet: bool = False
    as_json: bool = False
    kinds: tuple[str, ...] = ("Job", "StatefulSet")
    tail: int | None = None

    @property
    def leads(self) -> bool:
        """Whether only the lines of rank 0 and of its pod are shown, not of its neighbours."""
        return self.logs == "lead" and self.selection == ALL

    def of(self, observation: Observation) -> FollowOptions:
        """Return a copy that watches only the kinds of an observed run."""
        kinds = {str(manifest.get("kind")) for manifest in observation.objects}
        return replace(self, kinds=tuple(sorted(kinds)))

    def choose_pods(self, pods: tuple[Manifest, ...], ranks: PodRanks) -> list[Manifest]:
        """Return the pods whose logs are shown."""
        if self.logs == "none":
            return []
        if self.selection != ALL:
            return ranks.choose(pods, self.selection)
        return list(pods) if self.logs == "all" else ranks.leading(pods)


def follow(
    console: Console, cluster: KubeClient, name: str, namespace: str, how: FollowOptions
) -> RunStatus:
    """Follow a run; return its last status.

    Raises:
        RunError: the time is over, or the run was deleted meanwhile.
        AllranksError: the cluster forbids it.
    """
    with RunObserver(cluster, name, namespace, how.kinds) as live:
        follower = _Follower(console, cluster, live, how)
        try:
            with console.progress(lambda _: follower.line()):
                status = follower.to_the_end()
        finally:
            follower.tails.close()
        return explain(cluster, live.observation(), status)


def explain(cluster: KubeClient, observation: Observation, status: RunStatus) -> RunStatus:
    """Return the status with the last log lines of the container that failed first, if any."""
    failed = first_failed(observation) if status.failure is not None else None
    if failed is None:
        return status
    pod, container, previous = failed
    try:
        stream = cluster.logs(
            pod,
            namespace=observation.namespace,
            container=container,
            previous=previous,
            tail=_LAST_LINES,
        )
        logs: Mapping[str, tuple[str, ...]] = {pod: tuple(stream)}
    except AllranksError:
        return status  # the pod or its node is gone, and its log with it
    return reduce(observation, logs)


# Reasons that need a person. Room on a node or in a scheduler's queue is not among them: that is
# waited for, as long as --timeout allows.
_NEEDS_A_PERSON = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
        *("CreateContainerConfigError", "CreateContainerError", "ClaimMissing"),
        *("PodSecurity", "QuotaExceeded", "QuotaUnnamed"),
    }
)
# Time for a new pull, a Secret that comes a little later, a quota that an ending job frees.
_STUCK_SECONDS = 120.0


class _Follower:
    """The loop that shows log lines as they come, and reads the status when something changes."""

    def __init__(
        self, console: Console, cluster: KubeClient, live: RunObserver, how: FollowOptions
    ) -> None:
        self._console = console
        self._live = live
        self._how = how
        self._lines: queue.SimpleQueue[PodLogLine | str] = queue.SimpleQueue()
        self._training = status_view.TrainingProgress()
        self._status: RunStatus | None = None
        self._started = time.monotonic()
        self._next_events = self._started + _STILL_SECONDS
        self._looks = 0  # at the events, since the run last moved
        self._next_read = self._next_note = 0.0
        self._last_note: tuple[object, str] | None = None
        self._stuck_since: float | None = None
        put = self._lines.put
        self.tails = Tails(
            cluster, live.namespace, sink=put, tell=put, tail=how.tail, selection=how.selection
        )

    def line(self) -> str:
        """Return the state of the run in one line."""
        status = self._status
        if status is None:
            return "waiting for the cluster"
        took = status_view.duration(status.started_at, None, time.time())
        waits = f"waits for {status.waiting_for}" if status.waiting_for else ""
        parts = [f"{status.phase}: {status_view.counts(status)}", took, self._training.text, waits]
        if self._live.trouble:
            parts.append(self._live.trouble)
        return ", ".join(part for part in parts if part)

    def to_the_end(self) -> RunStatus:
        """Follow until the run has ended."""
        while True:
            self._show(_TICK_SECONDS)
            status = self._read()
            if status is not None and status.finished:
                break
            self._check_time()
            self._check_progress()
            self._read_events()
        self._update_tails(self._live.observation())
        self._drain()
        return status

    def _read(self) -> RunStatus | None:
        """Return the new status if something has changed, else None."""
        if self._live.gone:
            raise RunError("the run was deleted while it was followed")
        now = time.monotonic()
        if not self._live.changed.is_set() or now < self._next_read:
            return None
        self._live.changed.clear()
        observation = self._live.observation()
        if not observation.objects:
            return None  # the first watches have not answered yet
        status = reduce(observation)
        self._update_tails(observation)
        self._note(status)
        self._next_read = now + _REST_SHARE * (time.monotonic() - now)
        return status

    def _update_tails(self, observation: Observation) -> None:
        if self._how.logs != "none":
            ranks = PodRanks(observation.objects)
            self.tails.look(self._how.choose_pods(observation.pods, ranks), ranks)

    def _note(self, status: RunStatus) -> None:
        before, self._status = self._status, status
        moved = before is None or _shape(before) != _shape(status)
        if moved:
            self._looks = 0
            self._next_events = time.monotonic() + _STILL_SECONDS
        if not self._console.live and not self._how.quiet:
            self._note_phase(status)

    def _note_phase(self, status: RunStatus) -> None:
        """Write a note if the phase has changed, or now and then if the reason to wait has."""
        now, news = time.monotonic(), (status.phase, status.waiting_for)
        same_phase = self._last_note is not None and self._last_note[0] == status.phase
        if news == self._last_note or (same_phase and now < self._next_note):
            return
        self._last_note, self._next_note = news, now + _NOTE_SECONDS
        waits = f", waits for {status.waiting_for}" if status.waiting_for else ""
        self._console.note(f"{status.phase}: {status_view.counts(status)}{waits}")

    def _read_events(self) -> None:
        """Read events if the run stands still, ever less often."""
        standing = self._status is None or self._status.phase is not Phase.RUNNING
        if standing and time.monotonic() >= self._next_events:
            self._live.look_around()
            self._looks += 1
            pause = retry.delay(self._looks + 1, _STILL_SECONDS, _STILL_LONGEST)
            self._next_events = time.monotonic() + pause

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
                f"{status.name} is still suspended after {status_view.length(limit)}",
                hint=f"`{names.CLI} resume {run}` lets it go on",
            )
        raise RunError(
            f"{status.name} is {status.phase} after {status_view.length(limit)}{waits}; it goes on",
            hint=f"`{names.CLI} attach {run}` follows it again, `{names.CLI} delete {run}` ends it",
        )

    def _check_progress(self) -> None:
        """Stop following if only a person can help; the run itself is left as it is."""
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
        """Show the lines that come within some seconds."""
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=rest)
            except queue.Empty:
                return
            self._print(line)

    def _drain(self) -> None:
        """Show the remaining lines of logs whose containers have ended."""
        ending = threading.Thread(target=self.tails.drain, args=(_DRAIN_SECONDS,), daemon=True)
        ending.start()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while time.monotonic() < deadline and (ending.is_alive() or not self._lines.empty()):
            self._show(_TICK_SECONDS / 4)

    def _print(self, line: PodLogLine | str) -> None:
        if isinstance(line, str):
            self._console.note(line)
            return
        if self._how.as_json:
            self._console.raw(json.dumps(line.as_dict(), ensure_ascii=False) + "\n")
            return
        if self._how.leads and not line.is_lead:
            return
        self._training.read(line.text)
        self._console.log(line.writer, line.text, result=not self._how.json)


def _shape(status: RunStatus) -> tuple[object, ...]:
    """Return the part of a status whose change means progress."""
    return (status.phase, status.roles, status.restarts)

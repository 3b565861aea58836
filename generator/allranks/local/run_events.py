"""Events of a local run, as a cluster would have them; a JSON line each.

A state says how things stand; this says what came before: which attempt of a pod ended with what,
and when. The supervisor looks at its pods again and again, and writes down what is new.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.model.status import Phase, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from allranks.k8s.manifest import Manifest
    from allranks.local.pod.lifecycle import ContainerState
    from allranks.local.pod.runner import PodRun
    from allranks.model.status import RunStatus

FILE = "events.jsonl"
NORMAL, WARNING = "Normal", "Warning"


class InvolvedObject(NamedTuple):
    """The object that an Event is about."""

    kind: str
    name: str
    uid: str = ""


class EventText(NamedTuple):
    """The text of an Event: its type, reason and message."""

    type: str
    reason: str
    message: str


def write(path: Path, about: InvolvedObject, text: EventText, at: float) -> None:
    """Append an Event to a file.

    Args:
        path: the file.
        about: the object.
        text: what happened to it.
        at: when, in seconds since the epoch.
    """
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": about._asdict(),
        **text._asdict(),
        "eventTime": timestamp(at),
    }
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(event) + "\n")


def read(path: Path) -> list[Manifest]:
    """The Events of a file; [] where there is none. A line that is still written is left out."""
    if not path.is_file():
        return []
    *lines, _open_line = path.read_text(encoding="utf-8").split("\n")
    return [event for line in lines if (event := _parse(line))]


def _parse(line: str) -> Manifest:
    try:
        event = json.loads(line)
    except ValueError:  # a master of somebody's own writes what it likes
        return {}
    return event if isinstance(event, dict) else {}


class EventLog:
    """Writes the Events of a run's pods.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_states: dict[tuple[str, str], ContainerState] = {}
        self._stopped: set[str] = set()

    def update(self, pods: Iterable[PodRun], now: float) -> None:
        """Write the Events since the last call.

        Args:
            pods: every pod created so far.
            now: the time.
        """
        for pod in pods:
            about = InvolvedObject("Pod", pod.plan.name, pod.uid)
            for name, state in pod.states.items():
                before = self._last_states.get((pod.uid, name))
                if state != before:
                    self._last_states[pod.uid, name] = state
                    for at, event in _news(name, before, state):
                        write(self._path, about, event, at)
            if pod.stopped and pod.uid not in self._stopped:
                self._stopped.add(pod.uid)
                reason = "nothing is left for it to do" if pod.done else "it was told to end"
                write(self._path, about, EventText(NORMAL, "Stopping", reason), now)

    def end(self, status: RunStatus, now: float) -> None:
        """Write the Event of the run's end."""
        about = InvolvedObject(names.TRAINING_RUN, status.name)
        kind = WARNING if status.phase is Phase.FAILED else NORMAL
        reason = status.reason or str(status.phase)
        write(
            self._path, about, EventText(kind, f"Run{status.phase}", status.message or reason), now
        )


def _news(
    name: str, before: ContainerState | None, after: ContainerState
) -> Iterator[tuple[float, EventText]]:
    """The Events of a container since the last call, which may include an end and a restart."""
    starts = 0 if before is None else before.starts
    finished_at = None if before is None else before.finished_at
    again = (
        _end_text(name, after) if after.finished_at and after.finished_at != finished_at else None
    )
    if again is not None and after.running:
        yield after.finished_at, again
    if after.starts > starts:
        message = "started" if after.starts == 1 else f"started again (start {after.starts})"
        yield after.started_at, EventText(NORMAL, "Started", f"container {name} was {message}")
    if again is not None and not after.running:
        yield after.finished_at, again


def _end_text(name: str, state: ContainerState) -> EventText:
    detail = f": {state.message}" if state.message else ""
    return EventText(
        WARNING if state.exit_code else NORMAL,
        state.reason or ("Error" if state.exit_code else "Completed"),
        f"container {name} ended with exit code {state.exit_code}{detail}",
    )

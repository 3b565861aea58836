"""What happened in a run, as the Events that a cluster would have of it, one a line of a file.

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

    from allranks.local.pod import PodRun
    from allranks.local.podlife import ContainerState
    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus

FILE = "events.jsonl"
NORMAL, WARNING = "Normal", "Warning"


class About(NamedTuple):
    """The object that an Event is about."""

    kind: str
    name: str
    uid: str = ""


class Said(NamedTuple):
    """What an Event says: its type, one word, and a sentence."""

    type: str
    reason: str
    message: str


def write(path: Path, about: About, said: Said, at: float) -> None:
    """Add an Event to a file.

    Args:
        path: the file.
        about: the object.
        said: what happened to it.
        at: when, in seconds since the epoch.
    """
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": about._asdict(),
        **said._asdict(),
        "eventTime": timestamp(at),
    }
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(event) + "\n")


def read(path: Path) -> list[Manifest]:
    """The Events of a file; [] where there is none. A line that is still written is left out."""
    if not path.is_file():
        return []
    *lines, _open_line = path.read_text(encoding="utf-8").split("\n")
    return [found for line in lines if (found := _parsed(line))]


def _parsed(line: str) -> Manifest:
    try:
        found = json.loads(line)
    except ValueError:  # a master of somebody's own writes what it likes
        return {}
    return found if isinstance(found, dict) else {}


class Journal:
    """Writes down what happens to the pods of a run.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[tuple[str, str], ContainerState] = {}
        self._stopped: set[str] = set()

    def look(self, pods: Iterable[PodRun], now: float) -> None:
        """Write down what is new.

        Args:
            pods: every pod created so far.
            now: the time.
        """
        for pod in pods:
            about = About("Pod", pod.plan.name, pod.uid)
            for name, state in pod.states.items():
                before = self._seen.get((pod.uid, name))
                if state != before:
                    self._seen[pod.uid, name] = state
                    for at, said in _news(name, before, state):
                        write(self._path, about, said, at)
            if pod.stopped and pod.uid not in self._stopped:
                self._stopped.add(pod.uid)
                why = "nothing is left for it to do" if pod.done else "it was told to end"
                write(self._path, about, Said(NORMAL, "Stopping", why), now)

    def end(self, status: RunStatus, now: float) -> None:
        """Write down how the run ended."""
        about = About(names.TRAINING_RUN, status.name)
        kind = WARNING if status.phase is Phase.FAILED else NORMAL
        reason = status.reason or str(status.phase)
        write(self._path, about, Said(kind, f"Run{status.phase}", status.message or reason), now)


def _news(
    name: str, before: ContainerState | None, after: ContainerState
) -> Iterator[tuple[float, Said]]:
    """What a container has done between two looks; it may have ended and started again."""
    starts = 0 if before is None else before.starts
    ended = None if before is None else before.finished_at
    again = _ended(name, after) if after.finished_at and after.finished_at != ended else None
    if again is not None and after.running:
        yield after.finished_at, again
    if after.starts > starts:
        told = "started" if after.starts == 1 else f"started again (start {after.starts})"
        yield after.started_at, Said(NORMAL, "Started", f"container {name} was {told}")
    if again is not None and not after.running:
        yield after.finished_at, again


def _ended(name: str, state: ContainerState) -> Said:
    why = f": {state.message}" if state.message else ""
    return Said(
        WARNING if state.exit_code else NORMAL,
        state.reason or "Ended",
        f"container {name} ended with exit code {state.exit_code}{why}",
    )

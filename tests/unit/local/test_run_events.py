"""What is written down of a run as it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import run_events as events
from allranks.local.pod.lifecycle import ContainerState
from allranks.local.run_events import EventLog
from allranks.model.status import Phase, RunStatus

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Pod:
    """What a journal looks at of a pod."""

    name: str = "j-0"
    stopped: bool = False
    done: bool = False
    states: dict[str, ContainerState] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """One for each."""
        return f"uid of {self.name}"

    @property
    def plan(self) -> Any:
        """Its plan has its name."""
        return SimpleNamespace(name=self.name)


@pytest.fixture
def journal(tmp_path: Path) -> EventLog:
    """One that nothing stands in."""
    return EventLog(tmp_path / events.FILE)


def sentences(path: Path) -> list[tuple[str, str, str]]:
    """Type, reason and message of each Event."""
    entries = events.read(path / events.FILE)
    return [(entry["type"], entry["reason"], entry["message"]) for entry in entries]


def test_each_start_and_each_end_is_written_once(journal: EventLog, tmp_path: Path) -> None:
    """Also where a container has ended and started again between two looks."""
    pod: Any = Pod(states={"trainer": ContainerState()})
    journal.update([pod], 1.0)
    assert [] == sentences(tmp_path)
    pod.states["trainer"] = ContainerState(running=True, starts=1, started_at=1.0)
    journal.update([pod], 1.0)
    journal.update([pod], 1.5)
    end = {"finished_at": 2.0, "exit_code": 7, "reason": "Error", "message": "no data"}
    pod.states["trainer"] = ContainerState(running=True, starts=2, started_at=3.0, **end)
    journal.update([pod], 3.0)
    pod.states["trainer"] = ContainerState(
        starts=2, started_at=3.0, finished_at=4.0, exit_code=0, reason="Completed"
    )
    journal.update([pod], 4.0)
    assert [
        ("Normal", "Started", "container trainer was started"),
        ("Warning", "Error", "container trainer ended with exit code 7: no data"),
        ("Normal", "Started", "container trainer was started again (start 2)"),
        ("Normal", "Completed", "container trainer ended with exit code 0"),
    ] == sentences(tmp_path)
    (first, *_) = events.read(tmp_path / events.FILE)
    assert {"kind": "Pod", "name": "j-0", "uid": "uid of j-0"} == first["involvedObject"]
    assert "1970-01-01T00:00:01.000Z" == first["eventTime"]


def test_a_start_that_fails_at_once_is_a_start_and_an_end(
    journal: EventLog, tmp_path: Path
) -> None:
    """In this order, though both are seen in one look."""
    state = ContainerState(
        starts=1, started_at=1.0, finished_at=1.0, exit_code=128, reason="StartError"
    )
    journal.update([Pod(states={"trainer": state})], 1.0)  # type: ignore[list-item]
    assert ["Started", "StartError"] == [reason for _, reason, _ in sentences(tmp_path)]


def test_a_pod_that_is_stopped_and_the_end_of_the_run(journal: EventLog, tmp_path: Path) -> None:
    """Each once, with why."""
    pods: list[Any] = [Pod("j-0", stopped=True), Pod("j-1", stopped=True, done=True)]
    journal.update(pods, 1.0)
    journal.update(pods, 2.0)
    journal.end(RunStatus("j", "lab", Phase.FAILED, reason="Stopped", message="by Ctrl-C"), 3.0)
    assert [
        ("Normal", "Stopping", "it was told to end"),
        ("Normal", "Stopping", "nothing is left for it to do"),
        ("Warning", "RunFailed", "by Ctrl-C"),
    ] == sentences(tmp_path)


def test_what_is_no_event_is_left_out(tmp_path: Path) -> None:
    """A line that is still written, and one that somebody else wrote."""
    path = tmp_path / events.FILE
    assert [] == events.read(path)
    path.write_text('{"reason": "a"}\nhello\n[1]\n{"reason": "b')
    assert [{"reason": "a"}] == events.read(path)

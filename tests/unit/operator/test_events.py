"""Events: the same sentence once in some minutes, and nothing waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks_operator import events
from allranks_operator.events import Event, EventRecorder, ObjectReference
from tests.clock import FakeClock
from tests.unit.operator.fakes import FakeServer, status_answer
from tests.unit.operator.parts import EVENTS_PATH

if TYPE_CHECKING:
    import pytest

    from allranks.errors import ApiError
    from allranks_operator.kube.client import Api

ABOUT = ObjectReference("v1", "Pod", "lab", "p", "u")


def sentence(message: str = "it is so") -> Event:
    """Something to say."""
    return Event(ABOUT, "Warning", "Because", message)


def test_a_sentence_is_an_event(server: FakeServer, api: Api) -> None:
    """About its object, by us, with a name of its own, and not too long."""
    server.routes["POST", EVENTS_PATH] = lambda _, body: body
    recorder = EventRecorder(api, "me", lambda _: None)
    recorder.record(sentence("x" * 5000))
    (_, _, _, body) = server.requests[0]
    assert ("Pod", "p", "u") == tuple(
        body["involvedObject"][key] for key in ("kind", "name", "uid")
    )
    assert ("Warning", "Because", 1024) == (body["type"], body["reason"], len(body["message"]))
    assert "allranks-watcher" == body["source"]["component"]
    assert body["metadata"]["name"].startswith("p.")


def test_a_sentence_is_not_repeated_all_the_time(
    server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some minutes it is; another sentence is at once."""
    server.routes["POST", EVENTS_PATH] = lambda _, body: body
    clock = FakeClock(100.0)
    monkeypatch.setattr(events, "time", clock)
    recorder = EventRecorder(api, "me", lambda _: None)
    for event in (sentence(), sentence(), sentence("something else")):
        recorder.record(event)
    assert 2 == len(server.requests)
    clock.now += 700
    recorder.record(sentence())
    assert 3 == len(server.requests)


def test_what_cannot_be_said_is_told_to_the_log(server: FakeServer, api: Api) -> None:
    """And nobody else hears of it."""
    server.routes["POST", EVENTS_PATH] = status_answer(403, "Forbidden", "may not")
    errors: list[ApiError] = []
    EventRecorder(api, "me", errors.append).record(sentence())
    assert ["may not"] == [error.detail for error in errors]

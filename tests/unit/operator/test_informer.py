"""A list that is kept true: by watches that end, break, expire, and by lists when they do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from allranks_operator.kube.informer import InformerTimeouts, Reflector
from allranks_operator.kube.resources import PODS, SCALE_PLANS
from tests.unit.operator.fakes import FakeServer, pod, pod_list, status_answer, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.errors import ApiError
    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api
    from allranks_operator.kube.resources import ApiResource

WAITS = InformerTimeouts(watch=60, first=0.001, most=0.01, missing=0.01)


class Notes:
    """What a reflector tells."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.changes: list[tuple[str, str]] = []
        self.restarts: list[str] = []
        self.errors: list[ApiError] = []

    def trim(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        """Keep the kind and the name."""
        assert resource.kind == manifest["kind"]
        return {"name": manifest["metadata"]["name"]}

    def replace(
        self, resource: ApiResource, namespace: str, manifests: list[Manifest], at: str
    ) -> None:
        """Note a list."""
        assert (namespace, True) == ("lab", bool(resource.plural and at))
        self.lists.append([manifest["name"] for manifest in manifests])

    def change(self, resource: ApiResource, namespace: str, kind: str, manifest: Manifest) -> None:
        """Note a change."""
        assert (PODS, "lab") == (resource, namespace)
        self.changes.append((kind, manifest["metadata"].get("name", "")))


@contextmanager
def reflecting(api: Api, resource: ApiResource = PODS) -> Iterator[tuple[Reflector, Notes]]:
    """A reflector at work."""
    notes = Notes()
    reflector = Reflector(
        api,
        resource,
        "lab",
        notes,
        waits=WAITS,
        restarted=lambda _, reason: notes.restarts.append(reason),
        on_error=lambda _, __, error: notes.errors.append(error),
    )
    reflector.start()
    try:
        yield reflector, notes
    finally:
        reflector.stop()


def bookmark(version: str) -> Manifest:
    """A bookmark's object."""
    return {"kind": "Pod", "metadata": {"resourceVersion": version}}


def watch(server: FakeServer, number: int) -> Any:
    """The watch of this number, once it is open."""
    return until(lambda: server.lines[number - 1 : number], f"watch {number}")[0]


def test_pages_are_one_list(server: FakeServer, api: Api) -> None:
    """All pages are read, and the watch begins where the list was."""
    server.pages = [pod_list(pod("a"), version="7", next_page="t"), pod_list(pod("b"), version="7")]
    with reflecting(api) as (reflector, notes):
        line = watch(server, 1)
        assert [["a", "b"]] == notes.lists
        assert reflector.synced
        assert "t" == server.requests[1][2]["continue"]
        assert "7" == line.query["resourceVersion"]
        assert "true" == line.query["allowWatchBookmarks"]
        assert 60 <= int(line.query["timeoutSeconds"]) <= 90


def test_a_watch_that_ends_goes_on_where_it_was(server: FakeServer, api: Api) -> None:
    """After the last change or bookmark, without another list."""
    with reflecting(api) as (_, notes):
        first = watch(server, 1)
        first.send("ADDED", pod("a", "5"))
        first.send("BOOKMARK", bookmark("9"))
        first.end()
        assert "9" == watch(server, 2).query["resourceVersion"]
        watch(server, 2).cut()
        assert "9" == watch(server, 3).query["resourceVersion"]
        assert [("ADDED", "a"), ("BOOKMARK", "")] == notes.changes
        assert (1, ["dropped"]) == (len(notes.lists), notes.restarts)


def test_a_place_that_was_forgotten_is_listed_anew(server: FakeServer, api: Api) -> None:
    """410, inside a watch, at its start, and amid the pages of a list."""
    with reflecting(api) as (_, notes):
        first = watch(server, 1)
        server.pages = [pod_list(pod("b"), version="11")]
        first.send("ERROR", status_answer(410, "Expired")[1])
        assert "11" == watch(server, 2).query["resourceVersion"]
        server.refusals = [status_answer(410, "Gone")]
        server.pages = [
            pod_list(pod("c"), next_page="t"),
            status_answer(410, "Expired"),
            pod_list(pod("d"), version="13"),
        ]
        watch(server, 2).end()
        assert "13" == watch(server, 3).query["resourceVersion"]
        assert [[], ["b"], ["d"]] == notes.lists
        assert ["expired"] * 3 == notes.restarts


def test_a_server_that_fails_is_asked_again(server: FakeServer, api: Api) -> None:
    """Later and calmly; each failure is told, and the problem is forgotten once it works."""
    server.pages = [
        status_answer(500, "InternalError"),
        status_answer(429, "TooManyRequests"),
        pod_list(),
    ]
    with reflecting(api) as (reflector, notes):
        watch(server, 1)
        assert [500, 429] == [error.status for error in notes.errors]
        assert reflector.problem is None


def test_a_kind_that_is_not_there_is_empty(server: FakeServer, api: Api) -> None:
    """An extension that the cluster has not got counts as read; it is looked for again."""
    server.pages = [status_answer(404, "NotFound"), pod_list(version="3")]
    with reflecting(api, SCALE_PLANS) as (reflector, notes):
        until(lambda: notes.lists, "the empty list")
        assert reflector.listed
        assert "3" == watch(server, 1).query["resourceVersion"]


def test_a_list_that_is_forbidden_is_never_synced(server: FakeServer, api: Api) -> None:
    """Nothing may be decided on a list that could not be read; the reason is kept."""
    server.routes["GET", "/api/v1/namespaces/lab/pods"] = status_answer(403, "Forbidden", "may not")
    with reflecting(api) as (reflector, notes):
        until(lambda: len(notes.errors) > 1, "a second try")
        assert not reflector.synced
        assert reflector.problem is not None
        assert "may not" in str(reflector.problem)


def test_a_list_on_request_is_begun_after_it(server: FakeServer, api: Api) -> None:
    """The watch is left, the list read, and only then it is synced again."""
    with reflecting(api) as (reflector, notes):
        watch(server, 1)
        server.pages = [pod_list(pod("late"), version="20")]
        reflector.relist()
        until(lambda: reflector.synced, "the new list")
        assert ["late"] == notes.lists[-1]
        assert "20" == watch(server, 2).query["resourceVersion"]
        assert [] == notes.restarts


def test_watches_that_end_at_once_are_not_a_hot_loop(server: FakeServer, api: Api) -> None:
    """A server in trouble is not asked a thousand times a second."""
    with reflecting(api):
        for number in range(1, 6):
            watch(server, number).end()
        watch(server, 6)
    lists = [request for request in server.requests if not request[2].get("watch")]
    assert 1 == len(lists)

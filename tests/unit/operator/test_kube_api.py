"""What the watcher sends, and what it makes of each answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster.connection import Connection
from allranks_operator.kube import errors
from allranks_operator.kube.api import Api
from tests.unit.operator.fakes import FakeServer, listed, pod, refused, until

if TYPE_CHECKING:
    from pathlib import Path

PODS = "api/v1/pods"
PATH = "/api/v1/namespaces/lab/pods"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(404, "NotFound"), errors.GoneError),
        (refused(409, "AlreadyExists"), errors.ExistsError),
        (refused(409, "Conflict"), errors.ConflictError),
        (refused(410, "Expired"), errors.ExpiredError),
        (refused(403, "Forbidden", "pods x is forbidden: exceeded quota: q"), errors.QuotaError),
        (refused(403, "Forbidden", "may not"), errors.RefusedError),
        (refused(422, "Invalid"), errors.RefusedError),
        (refused(401, "Unauthorized"), errors.BusyError),
        (refused(429, "TooManyRequests"), errors.BusyError),
        (refused(500, "InternalError"), errors.BusyError),
        (refused(504, "Timeout"), errors.BusyError),
    ],
)
def test_a_refusal_says_how_to_go_on(
    server: FakeServer, api: Api, answer: Any, kind: type[errors.ApiError]
) -> None:
    """Each status is one way to go on; it carries the server's word and sentence."""
    server.routes["POST", PATH] = answer
    with pytest.raises(errors.ApiError) as caught:
        api.create(PODS, "lab", pod("a"))
    assert kind is type(caught.value)
    assert answer[0] == caught.value.status
    assert answer[1]["message"] == caught.value.said
    assert "create pods in namespace lab" in str(caught.value)


def test_a_namespace_that_ends_is_gone(server: FakeServer, api: Api) -> None:
    """What is refused because its namespace is being removed goes with it; no person is told."""
    said = "unable to create new content in namespace lab because it is being terminated"
    server.routes["POST", PATH] = refused(403, "Forbidden", said)
    with pytest.raises(errors.GoneError):
        api.create(PODS, "lab", pod("a"))


def test_a_server_that_is_not_there_is_busy(server: FakeServer, api: Api) -> None:
    """No answer is no verdict: the request may succeed later."""
    server.close()
    with pytest.raises(errors.BusyError, match="does not answer"):
        api.find(PODS, "lab", "a")


def test_what_is_no_kubernetes_is_busy(server: FakeServer, api: Api) -> None:
    """A login page in between is no answer."""
    server.routes["GET", PATH] = [1, 2]
    with pytest.raises(errors.BusyError, match="not Kubernetes"):
        api.find(PODS, "lab", "a")


def test_one_object_is_found_by_the_right_to_list(server: FakeServer, api: Api) -> None:
    """No right to get is needed; what is not there is gone."""
    server.pages = [listed(pod("a")), listed()]
    found, at = api.find(PODS, "lab", "a")
    assert ("a", "Pod", "v1") == (found["metadata"]["name"], found["kind"], found["apiVersion"])
    assert "1" == at
    assert {"fieldSelector": "metadata.name=a"} == server.requests[0][2]
    with pytest.raises(errors.GoneError):
        api.find(PODS, "lab", "a")


def test_requests_carry_what_makes_them_safe(server: FakeServer, api: Api) -> None:
    """A delete names a uid, an apply and a create the manager of the fields."""
    for method, path in (("DELETE", f"{PATH}/a"), ("PATCH", f"{PATH}/a/status"), ("POST", PATH)):
        server.routes[method, path] = pod("a")
    api.delete(PODS, "lab", "a", uid="u", grace=0)
    api.apply(PODS, "lab", "a", {"status": {}}, part="status")
    api.create(PODS, "lab", pod("a"))
    (_, _, _, deleted), (_, _, applied, _), (_, _, created, _) = server.requests
    assert {"uid": "u"} == deleted["preconditions"]
    assert (0, "Background") == (deleted["gracePeriodSeconds"], deleted["propagationPolicy"])
    assert {"fieldManager": "allranks-watcher", "force": "true"} == applied
    assert {"fieldManager": "allranks-watcher"} == created


def test_a_watch_gives_long_and_short_changes(server: FakeServer, api: Api) -> None:
    """Changes come whole, whatever their length, and in their order."""
    watching = api.watch(PODS, "lab", [("watch", "1")], silence=5)
    changes = iter(watching)
    line = until(lambda: server.lines, "the watch")[0]
    line.send("ADDED", pod("long", annotations={"x": "y" * 3_000_000}))
    line.send("DELETED", pod("short"))
    line.end()
    kind, found = next(changes)
    assert ("ADDED", 3_000_000) == (kind, len(found["annotations"]["x"]))
    assert [("DELETED", "short")] == [(kind, one["metadata"]["name"]) for kind, one in changes]


def test_a_watch_tells_how_it_ends(server: FakeServer, api: Api) -> None:
    """Broken is not ended, and an error that the server sends inside is that error."""
    broken = iter(api.watch(PODS, "lab", [("watch", "1")], silence=5))
    until(lambda: server.lines, "the watch")[0].cut()
    with pytest.raises(errors.BusyError, match="the connection broke"):
        next(broken)
    expired = iter(api.watch(PODS, "lab", [("watch", "1")], silence=5))
    line = until(lambda: server.lines[1:], "the next watch")[0]
    line.send("ERROR", refused(410, "Expired")[1])
    with pytest.raises(errors.ExpiredError):
        next(expired)


def test_a_silent_watch_is_taken_for_dead(server: FakeServer, api: Api) -> None:
    """Not even a bookmark within the time: the connection is given up."""
    silent = iter(api.watch(PODS, "lab", [("watch", "1")], silence=0.05))
    with pytest.raises(errors.BusyError):
        next(silent)
    assert 1 == len(server.lines)


def test_credentials_are_asked_for_now_and_then_and_after_a_refusal(
    server: FakeServer, tmp_path: Path
) -> None:
    """A plugin whose tokens are short-lived does not run at each of a thousand requests."""
    calls, plugin = tmp_path / "calls", tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho call >> {calls}\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}\'\n'
    )
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    run = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"exec": run}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "plugged"
    path.write_text(json.dumps(config))
    api = Api(Connection(str(path), None, 5.0))
    server.routes["POST", PATH] = (201, pod("a"))
    api.create(PODS, "lab", pod("a"))
    before = len(calls.read_text().split())
    for _ in range(20):
        api.create(PODS, "lab", pod("a"))
    assert before == len(calls.read_text().split())
    server.routes["POST", PATH] = refused(401, "Unauthorized")
    for _ in range(2):
        with pytest.raises(errors.BusyError):
            api.create(PODS, "lab", pod("a"))
    assert before < len(calls.read_text().split())

"""What the operator sends, and what it makes of each answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import errors
from allranks_operator.kube.client import Api, connect
from tests.unit.operator.fakes import FakeServer, pod, pod_list, status_answer, until

if TYPE_CHECKING:
    from pathlib import Path

PODS = "api/v1/pods"
PATH = "/api/v1/namespaces/lab/pods"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status_answer(404, "NotFound"), errors.NotFoundError),
        (status_answer(409, "AlreadyExists"), errors.ExistsError),
        (status_answer(409, "Conflict"), errors.ConflictError),
        (status_answer(410, "Expired"), errors.ExpiredError),
        (
            status_answer(403, "Forbidden", "pods x is forbidden: exceeded quota: q"),
            errors.QuotaError,
        ),
        (status_answer(403, "Forbidden", "may not"), errors.ForbiddenError),
        (status_answer(422, "Invalid"), errors.RejectedError),
        (status_answer(413, "RequestEntityTooLarge"), errors.RefusedError),
        (status_answer(401, "Unauthorized"), errors.BusyError),
        (status_answer(429, "TooManyRequests"), errors.BusyError),
        (status_answer(500, "InternalError"), errors.BusyError),
        (status_answer(504, "Timeout"), errors.BusyError),
    ],
)
def test_a_refusal_says_how_to_go_on(
    server: FakeServer, api: Api, answer: Any, kind: type[errors.ApiError]
) -> None:
    """Each status is one way to go on; it carries the server's word and sentence."""
    server.routes["POST", PATH] = answer
    with pytest.raises(errors.ApiError) as excinfo:
        api.create(PODS, "lab", pod("a"))
    assert kind is type(excinfo.value)
    assert answer[0] == excinfo.value.status
    assert answer[1]["message"] == excinfo.value.detail
    assert "create pods in namespace lab" in str(excinfo.value)


def test_a_namespace_that_ends_is_gone(server: FakeServer, api: Api) -> None:
    """What is refused because its namespace is being removed goes with it; no person is told."""
    message = "unable to create new content in namespace lab because it is being terminated"
    server.routes["POST", PATH] = status_answer(403, "Forbidden", message)
    with pytest.raises(errors.TerminatingError):
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
    server.pages = [pod_list(pod("a")), pod_list()]
    manifest, at = api.find(PODS, "lab", "a")
    assert ("a", "Pod", "v1") == (
        manifest["metadata"]["name"],
        manifest["kind"],
        manifest["apiVersion"],
    )
    assert "1" == at
    assert {"fieldSelector": "metadata.name=a"} == server.requests[0][2]
    with pytest.raises(errors.NotFoundError):
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
    kind, manifest = next(changes)
    assert ("ADDED", 3_000_000) == (kind, len(manifest["annotations"]["x"]))
    assert [("DELETED", "short")] == [
        (kind, manifest["metadata"]["name"]) for kind, manifest in changes
    ]


def test_a_watch_tells_how_it_ends(server: FakeServer, api: Api) -> None:
    """Broken is not ended, and an error that the server sends inside is that error."""
    broken = iter(api.watch(PODS, "lab", [("watch", "1")], silence=5))
    until(lambda: server.lines, "the watch")[0].cut()
    with pytest.raises(errors.BusyError, match="the connection broke"):
        next(broken)
    expired = iter(api.watch(PODS, "lab", [("watch", "1")], silence=5))
    line = until(lambda: server.lines[1:], "the next watch")[0]
    line.send("ERROR", status_answer(410, "Expired")[1])
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
    api = Api(connect(str(path), None, 5.0))
    server.routes["POST", PATH] = (201, pod("a"))
    api.create(PODS, "lab", pod("a"))
    before = len(calls.read_text().split())
    for _ in range(20):
        api.create(PODS, "lab", pod("a"))
    assert before == len(calls.read_text().split())
    server.routes["POST", PATH] = status_answer(401, "Unauthorized")
    for _ in range(2):
        with pytest.raises(errors.BusyError):
            api.create(PODS, "lab", pod("a"))
    assert before < len(calls.read_text().split())

"""Objects, watches and logs over real HTTP: what is sent, and what is made of the answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster import paths
from allranks.cluster.client import KubeCluster
from allranks.errors import ExpiredError, NotFoundError, RejectedError, ToolError

if TYPE_CHECKING:
    from pathlib import Path

JOBS = "/apis/batch/v1/namespaces/lab/jobs"
PODS = "/api/v1/namespaces/lab/pods"


@pytest.fixture
def cluster(api: Any, fake_api: Any, tmp_path: Path) -> KubeCluster:
    """A client of the pretended server."""
    return KubeCluster(str(fake_api.write_kubeconfig(tmp_path / "config", api.url)), timeout=10)


def events(*changes: tuple[str, Any]) -> str:
    """The body of a watch."""
    return "".join(json.dumps({"type": kind, "object": item}) + "\n" for kind, item in changes)


def test_items_of_a_list_say_what_they_are(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """The server leaves kind and version out of a list; selectors and forms are passed on."""
    api.routes[JOBS] = fake_api.paged([{"metadata": {"name": "a"}}], "Job")
    (item,) = cluster.list(
        paths.JOBS, namespace="lab", label_selector="a=b", field_selector="c=d", metadata_only=True
    )
    assert ("Job", "v1") == (item["kind"], item["apiVersion"])
    (request,) = api.requests
    assert {"labelSelector": "a=b", "fieldSelector": "c=d"}.items() <= request.query.items()
    assert "PartialObjectMetadataList" in request.headers["accept"]


def test_a_namespace_is_listed_in_pages(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """Of a thousand, so that a look costs the same up to there; the whole cluster's are smaller."""
    pods = [{"metadata": {"name": f"p{n}"}} for n in range(1200)]
    api.routes[PODS] = api.routes["/api/v1/pods"] = fake_api.paged(pods, "Pod")
    listed = [pod["metadata"]["name"] for pod in cluster.list(paths.PODS, namespace="lab")]
    assert [f"p{n}" for n in range(1200)] == listed
    assert 2 == len(api.requests)
    assert 1200 == len(cluster.list(paths.PODS))
    assert 5 == len(api.requests)


@pytest.mark.parametrize(
    ("kind", "content", "query"),
    [
        ("merge", "application/merge-patch+json", {}),
        ("strategic", "application/strategic-merge-patch+json", {}),
        ("apply", "application/apply-patch+yaml", {"force": "true"}),
    ],
)
def test_each_kind_of_patch(
    api: Any, fake_api: Any, cluster: KubeCluster, *, kind: Any, content: str, query: dict[str, str]
) -> None:
    """Its content type, in whose name, and whether it is only tried."""
    api.routes[f"{JOBS}/demo"] = lambda request: fake_api.Answer(data=request.body)
    body = {"spec": {"x": 1}}
    how: Any = {"namespace": "lab", "kind": kind, "manager": "me", "dry_run": True}
    assert body == cluster.patch(paths.JOBS, "demo", body, **how)
    (request,) = api.requests
    assert content == request.headers["content-type"]
    assert query | {"dryRun": "All", "fieldManager": "me"} == request.query


def test_a_json_patch_is_a_list(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """And is sent as one."""
    api.routes[f"{JOBS}/demo"] = lambda _: fake_api.Answer(data={"kind": "Job"})
    cluster.patch(paths.JOBS, "demo", [{"op": "test"}], namespace="lab", kind="json")
    (request,) = api.requests
    assert [{"op": "test"}] == request.body
    assert "application/json-patch+json" == request.headers["content-type"]


def test_a_deletion_says_what_becomes_of_what_it_owns(
    api: Any, fake_api: Any, cluster: KubeCluster
) -> None:
    """In the foreground or behind; what is gone already is no error."""
    api.routes[f"{JOBS}/demo"] = lambda _: fake_api.Answer(data={"kind": "Status"})
    assert cluster.delete(paths.JOBS, "demo", namespace="lab", foreground=True)
    assert cluster.delete(paths.JOBS, "demo", namespace="lab")
    policies = [request.query["propagationPolicy"] for request in api.requests]
    assert ["Foreground", "Background"] == policies
    assert not cluster.delete(paths.JOBS, "other", namespace="lab")


def test_a_deletion_of_what_was_read(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """An object that has changed since stays: the server compares versions, and says so."""
    api.routes[f"{JOBS}/demo"] = lambda _: fake_api.Answer(data={"kind": "Status"})
    assert cluster.delete(paths.JOBS, "demo", namespace="lab", version="7")
    (request,) = api.requests
    assert ("Background", {"resourceVersion": "7"}) == (
        request.body["propagationPolicy"],
        request.body["preconditions"],
    )


def test_the_metadata_of_an_object_alone(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """What a large object is and whose, without its content."""
    api.routes[f"{JOBS}/demo"] = lambda _: fake_api.Answer(data={"metadata": {"name": "demo"}})
    cluster.get(paths.JOBS, "demo", namespace="lab", metadata_only=True)
    (request,) = api.requests
    assert "as=PartialObjectMetadata;" in request.headers["accept"]


def test_a_watch_gives_changes_until_it_ends(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """Half a line at the end is the connection's, and not a change."""
    item = {"metadata": {"name": "a"}}
    text = events(("ADDED", item), ("BOOKMARK", {})) + '{"type": "MODI'
    api.routes[JOBS] = lambda _: fake_api.Answer(text=text)
    watch = cluster.watch(paths.JOBS, namespace="lab", label_selector="a=b", version="7")
    assert [("ADDED", item), ("BOOKMARK", {})] == list(watch)
    expected = {"watch": "1", "resourceVersion": "7", "labelSelector": "a=b"}
    assert expected.items() <= api.requests[0].query.items()


@pytest.mark.parametrize(("code", "kind"), [(410, ExpiredError), (500, ToolError)])
def test_a_watch_that_the_server_ends(
    api: Any, fake_api: Any, cluster: KubeCluster, code: int, kind: type[Exception]
) -> None:
    """A forgotten place is told apart from all else."""
    text = events(("ERROR", {"code": code, "message": "no"}))
    api.routes[JOBS] = lambda _: fake_api.Answer(text=text)
    with pytest.raises(kind):
        list(cluster.watch(paths.JOBS, namespace="lab"))


def test_a_log_is_lines(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """Whatever bytes a program writes; the last line needs no end."""
    text = "one\ntwo \ud7ff\n\nlast"
    api.routes[f"{PODS}/p/log"] = lambda _: fake_api.Answer(text=text)
    lines = cluster.logs(
        "p", namespace="lab", container="c", follow=True, tail=5, timestamps=True, since="t"
    )
    assert ["one", "two \ud7ff", "", "last"] == list(lines)
    assert {
        "container": "c",
        "follow": "true",
        "tailLines": "5",
        "timestamps": "true",
        "sinceTime": "t",
    } == api.requests[0].query


def test_the_kubelets_word_that_a_log_is_gone_is_no_line_of_it(
    api: Any, fake_api: Any, cluster: KubeCluster
) -> None:
    """Of a container that was removed, as an evicted pod's is, there is nothing to read."""
    text = "unable to retrieve container logs for containerd://4174d9"
    api.routes[f"{PODS}/p/log"] = lambda _: fake_api.Answer(text=text)
    assert [] == list(cluster.logs("p", namespace="lab"))
    api.routes[f"{PODS}/p/log"] = lambda _: fake_api.Answer(text=f"{text}\n")
    assert [text] == list(cluster.logs("p", namespace="lab"))


def test_a_log_that_is_not_there(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """A container that has not started yet is told, and a pod that is gone."""
    message = "container is waiting to start: ContainerCreating"
    api.routes[f"{PODS}/p/log"] = fake_api.error_route(400, "BadRequest", message)
    with pytest.raises(RejectedError, match="waiting to start"):
        cluster.logs("p", namespace="lab")
    with pytest.raises(NotFoundError):
        cluster.logs("other", namespace="lab")


def test_all_rights_are_one_question(api: Any, fake_api: Any, cluster: KubeCluster) -> None:
    """None where the server cannot tell all of them."""
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    status = {"resourceRules": [rule], "incomplete": False}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    api.routes[path] = lambda request: fake_api.Answer(201, request.body | {"status": status})
    assert [rule] == cluster.rules("lab")
    assert {"namespace": "lab"} == api.requests[0].body["spec"]
    status["incomplete"] = True
    assert cluster.rules("lab") is None

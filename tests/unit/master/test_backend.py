"""A master's dealings with an API server, over real HTTP with one that only pretends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster.client import KubeCluster
from allranks.errors import ForbiddenError, NotFoundError, ToolError
from allranks_operator.master.backend import Kubernetes
from tests.unit.cluster import fake_api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = "/apis/elastic.iml.github.io/v1alpha1/namespaces/lab"
HISTORY = "/api/v1/namespaces/lab/configmaps/demo-history"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An API server that only pretends."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    with fake_api.FakeApiServer() as server:
        yield server


@pytest.fixture
def backend(api: Any, tmp_path: Path) -> Kubernetes:
    """A master's backend there."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    return Kubernetes("lab", "demo", KubeCluster(str(path)))


def answers(data: Any, status: int = 200) -> Any:
    """A route that always says the same."""
    return lambda _: fake_api.Answer(status=status, data=data)


def test_the_job_and_its_pods_are_read(api: Any, backend: Kubernetes) -> None:
    """By name, and by the job's label."""
    api.routes[f"{ROOT}/elasticjobs/demo"] = answers({"metadata": {"name": "demo"}})
    api.routes["/api/v1/namespaces/lab/pods"] = fake_api.paged([{"metadata": {"name": "p"}}], "Pod")
    assert "demo" == backend.job()["metadata"]["name"]
    assert ["p"] == [pod["metadata"]["name"] for pod in backend.pods()]
    assert "elasticjob.dlrover/name=demo" == api.requests[-1].query["labelSelector"]


def test_a_job_that_is_gone_is_told_from_a_server_that_does_not_answer(
    api: Any, backend: Kubernetes
) -> None:
    """The one ends the master, the other is tried again."""
    path = f"{ROOT}/elasticjobs/demo"
    api.routes[path] = fake_api.error_route(404, "NotFound", 'elasticjobs "demo" not found')
    with pytest.raises(NotFoundError):
        backend.job()
    api.routes[path] = fake_api.error_route(500, "InternalError", "etcd is away")
    with pytest.raises(ToolError):
        backend.job()


def test_a_plan_whose_name_is_taken_is_told_from_one_that_failed(
    api: Any, backend: Kubernetes
) -> None:
    """The first gets another number, the second another try."""
    plan = {"metadata": {"name": "demo-plan-0"}}
    plans = f"{ROOT}/scaleplans"
    api.routes[plans] = answers(plan, 201)
    assert backend.create_plan(plan)
    api.routes[plans] = fake_api.error_route(409, "AlreadyExists", "it is there")
    api.routes[f"{plans}/demo-plan-0"] = answers(plan)
    assert not backend.create_plan(plan)
    del api.routes[f"{plans}/demo-plan-0"]
    api.routes[plans] = fake_api.error_route(500, "InternalError", "no")
    with pytest.raises(ToolError):
        backend.create_plan(plan)
    api.routes[plans] = fake_api.error_route(403, "Forbidden", "no right")
    with pytest.raises(ForbiddenError):
        backend.create_plan(plan)


def test_history_is_kept_in_a_config_map(api: Any, backend: Kubernetes) -> None:
    """It is changed where it is there; who makes the master's account makes it."""
    assert not backend.history()
    api.routes[HISTORY] = answers({"data": {"history.json": "{}"}})
    assert "{}" == backend.history()
    backend.save_history('{"good": 3}')
    assert {"data": {"history.json": '{"good": 3}'}} == api.requests[-1].body
    del api.routes[HISTORY]
    with pytest.raises(NotFoundError):
        backend.save_history('{"good": 4}')
    assert {"GET", "PATCH"} == {request.method for request in api.requests}


def test_history_that_may_not_be_read_is_none(api: Any, backend: Kubernetes) -> None:
    """A job does not fail for it."""
    api.routes[HISTORY] = fake_api.error_route(403, "Forbidden", "no right")
    assert not backend.history()


def test_events_and_plans_go_to_the_jobs_namespace(api: Any, backend: Kubernetes) -> None:
    """Where people look for them."""
    api.routes["/api/v1/namespaces/lab/events"] = answers({"metadata": {}}, 201)
    backend.record_event({"metadata": {"name": "demo.1"}})
    assert ("POST", "demo.1") == (
        api.requests[-1].method,
        api.requests[-1].body["metadata"]["name"],
    )
    api.routes[f"{ROOT}/scaleplans"] = fake_api.paged([{"metadata": {"name": "x"}}], "ScalePlan")
    assert ["x"] == [plan["metadata"]["name"] for plan in backend.plans()]

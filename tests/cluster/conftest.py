"""A real control plane with fake nodes, shared by the whole tier, and a namespace for each test."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from allranks import names
from tests.kube import cluster as kube
from tests.kube import kwok
from tests.kube.errors import BenchError
from tests.waiting import until

from . import kinds, watching
from .sweeping import Field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

# Requests per second that the controllers may make: no test is to wait for their own limit of 20.
_FAST = 500


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: at the end one worker would do them while the other waits."""
    items.sort(key=lambda item: "test_kwok" not in item.path.name)


class MakeNamespace(Protocol):
    """Makes namespaces."""

    def __call__(self, level: str = "restricted") -> str:
        """The name of a new one.

        Args:
            level: of Pod Security: enforced on pods, warned of on what makes pods.
        """


class MakeNodes(Protocol):
    """Makes fake nodes."""

    def __call__(self, count: int) -> dict[str, str]:
        """The node selector that finds so many of them."""


@pytest.fixture(scope="session")
def cluster(testrun_uid: str) -> Iterator[Cluster]:
    """A control plane and KWOK, shared by all workers; it knows the schedulers' kinds."""
    try:
        with kube.share(f"cluster-{testrun_uid[:8]}", kwok=True, controller_qps=_FAST) as shared:
            kinds.add(shared, kinds.SCHEDULERS)
            yield shared
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def elastic_cluster(testrun_uid: str) -> Iterator[Cluster]:
    """Another one, that knows the operator's kinds: the other tests are to see none of them."""
    try:
        with kube.share(f"elastic-{testrun_uid[:8]}", kwok=True, controller_qps=_FAST) as shared:
            kinds.add(shared, kinds.SCHEDULERS)
            kinds.add(shared, kinds.ELASTIC)
            yield shared
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)


zygote, lab = watching.fixtures("elastic_cluster", "session")


@pytest.fixture
def make_namespace(cluster: Cluster) -> Iterator[MakeNamespace]:
    """Namespaces that go with the test."""
    namespaces = []

    def make(level: str = "restricted") -> str:
        name = f"lab-{secrets.token_hex(4)}"
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        cluster.api("POST", "/api/v1/namespaces", body)
        namespaces.append(name)
        account = f"/api/v1/namespaces/{name}/serviceaccounts"
        until(lambda: cluster.items(account), "the namespace's service account")
        return name

    yield make
    for name in namespaces:
        cluster.api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace of the test's own, under Pod Security "restricted"."""
    return make_namespace()


@pytest.fixture
def field(
    cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Field:
    """Where sweeps run, with helm 4."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))
    return Field(cluster, namespace, helm4.path, tmp_path)


@pytest.fixture(scope="session")
def make_nodes(cluster: Cluster) -> MakeNodes:
    """Fake nodes that stay as long as the cluster; their pods need `kwok.TOLERATION`.

    A pod that names no node may be on those of another test. If they went with that test, the pod
    would neither run to its end nor go before Kubernetes collects it, most of a minute later.
    """
    selectors: dict[int, dict[str, str]] = {}

    def make(count: int) -> dict[str, str]:
        if count not in selectors:
            prefix = f"fake-{secrets.token_hex(3)}"
            selector = {"bench.allranks.dev/nodes": prefix}
            kwok.create(cluster.admin, count, prefix=prefix, labels=selector)
            selectors[count] = selector
        return dict(selectors[count])

    return make

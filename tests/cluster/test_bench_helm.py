"""Helm 4 and Helm 3 install our charts to a real API server, with and without the post-renderer.

Fake nodes run the pods, so that what helm waits for really happens.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import kwok
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

_HELM_3 = 3
_KINDS = (
    "batch/v1/jobs",
    "apps/v1/statefulsets",
    "v1/services",
    "v1/configmaps",
    "v1/secrets",
    "v1/persistentvolumeclaims",
    "v1/serviceaccounts",
    "rbac.authorization.k8s.io/v1/roles",
    "rbac.authorization.k8s.io/v1/rolebindings",
    "scheduling.volcano.sh/v1beta1/podgroups",
)


@dataclass(frozen=True, slots=True)
class Helm:
    """A helm at work in one namespace, with our post-renderer where it looks for it.

    Attributes:
        path: the binary.
        major: 3 or 4.
        cluster: where it installs.
        namespace: where, in it.
        home: its settings and plugins.
    """

    path: Path
    major: int
    cluster: Cluster
    namespace: str
    home: Path

    @property
    def post_rendered(self) -> tuple[str, str]:
        """The options that name our post-renderer."""
        program = Path(sysconfig.get_path("scripts")) / names.POSTRENDER
        return "--post-renderer", str(program) if self.major == _HELM_3 else names.POSTRENDER

    def run(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """What helm prints; fails the test, with helm's own words, where helm fails."""
        flags = () if values is None else ("--values", "-")
        process = subprocess.run(
            (self.path, *words, *flags),
            input="" if values is None else json.dumps(values),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "HELM_PLUGINS": str(self.home / "plugins"),
                "HELM_NAMESPACE": self.namespace,
                "KUBECONFIG": str(self.cluster.kubeconfig),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            pytest.fail(f"helm {' '.join(words)} failed:\n{process.stderr}", pytrace=False)
        return process.stdout

    def objects(self, release: str) -> set[str]:
        """The objects of a release: `jobs/demo`."""
        result = set()
        for kind in _KINDS:
            group, _, plural = kind.rpartition("/")
            root = f"/apis/{group}" if "/" in group else f"/api/{group}"
            query = f"labelSelector={names.APP_INSTANCE.replace('/', '%2F')}%3D{release}"
            path = f"{root}/namespaces/{self.namespace}/{plural}?{query}"
            result |= {f"{plural}/{item['metadata']['name']}" for item in self.cluster.items(path)}
        return result

    def secret(self, name: str) -> dict[str, str]:
        """The data of a Secret of the namespace."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{name}"
        data: dict[str, str] = self.cluster.api("GET", path)["data"]
        return data

    def job(self, name: str) -> dict[str, Any]:
        """A Job of the namespace."""
        return self.cluster.api("GET", f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")


@pytest.fixture
def at_work(helm: Any, cluster: Cluster, namespace: str, repo: Path, tmp_path: Path) -> Helm:
    """Each helm in turn, in a namespace of the test's own."""
    plugin = tmp_path / "plugins" / names.POSTRENDER
    shutil.copytree(repo / "plugins/helm4" / names.POSTRENDER, plugin)
    (plugin / "python").write_text(f"{sys.executable}\n")
    return Helm(helm.path, helm.major, cluster, namespace, tmp_path)


def values(selector: Mapping[str, str], *, ends: str = "", **fields: Any) -> dict[str, Any]:
    """A job of two fake pods; `ends` is when they end."""
    annotations = {kwok.ENDS_AFTER: ends} if ends else {}
    scheduling = {"tolerations": [kwok.TOLERATION], "nodeSelector": selector}
    return {
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "gpusPerNode": 8,
        "podTemplate": {"metadata": {"annotations": annotations}},
        **fields,
        "scheduling": {**scheduling, **fields.get("scheduling", {})},
    }


def test_a_release_is_installed_upgraded_and_removed(
    at_work: Helm, make_nodes: MakeNodes, repo: Path
) -> None:
    """A plain release: its pods run, an upgrade changes what may change, nothing is left."""
    chart, selector = str(repo / "charts/torchrun"), make_nodes(2)
    at_work.run("install", "demo", chart, values=values(selector, ends="100ms"))
    before = at_work.job("demo")
    assert {"jobs/demo", "services/demo", "configmaps/demo"} == at_work.objects("demo")
    until(lambda: at_work.job("demo")["status"].get("succeeded") == 2, "the end of both pods")

    policy = {"runPolicy": {"ttlSecondsAfterFinished": 3600}}
    at_work.run("upgrade", "demo", chart, values=values(selector, ends="100ms", **policy))
    after = at_work.job("demo")
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert 3600 == after["spec"]["ttlSecondsAfterFinished"]

    at_work.run("uninstall", "demo", "--wait")
    until(lambda: not at_work.objects("demo"), "the removal of every object")


def test_helm_waits_for_the_job(at_work: Helm, make_nodes: MakeNodes, repo: Path) -> None:
    """`--wait --wait-for-jobs` comes back when the job has ended."""
    chart = str(repo / "charts/torchrun")
    wait = ("--wait", "--wait-for-jobs", "--timeout", "60s")
    at_work.run("install", "demo", chart, *wait, values=values(make_nodes(2), ends="300ms"))
    assert 2 == at_work.job("demo")["status"]["succeeded"]


def test_a_release_goes_through_the_post_renderer(
    at_work: Helm, make_nodes: MakeNodes, repo: Path
) -> None:
    """The gang's object is there beside the Job, and goes with the release."""
    chart = str(repo / "charts/torchrun")
    gang = {"scheduling": {"dialect": "volcano"}, "queue": "research"}
    chart_values = values(make_nodes(2), **gang)
    at_work.run("install", "demo", chart, *at_work.post_rendered, values=chart_values)
    assert "podgroups/demo" in at_work.objects("demo")
    assert "volcano" == at_work.job("demo")["spec"]["template"]["spec"]["schedulerName"]

    chart_values["runPolicy"] = {"activeDeadlineSeconds": 600}
    at_work.run("upgrade", "demo", chart, *at_work.post_rendered, values=chart_values)
    assert 600 == at_work.job("demo")["spec"]["activeDeadlineSeconds"]
    at_work.run("uninstall", "demo", "--wait")
    until(lambda: not at_work.objects("demo"), "the removal of every object")


def test_a_stateful_set_rolls(at_work: Helm, make_nodes: MakeNodes, repo: Path) -> None:
    """StatefulSet pods become ready, and a changed environment replaces them."""
    chart, selector = str(repo / "charts/torchrun"), make_nodes(2)
    wait = ("--wait", "--timeout", "60s")
    sets = {"torchrun": {"controller": "StatefulSet"}}
    at_work.run("install", "demo", chart, *wait, values=values(selector, **sets))
    query = f"/api/v1/namespaces/{at_work.namespace}/pods"
    before = {pod["metadata"]["uid"] for pod in at_work.cluster.items(query)}
    assert 2 == len(before)
    at_work.run("upgrade", "demo", chart, values=values(selector, env={"A": "2"}, **sets))

    def replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in at_work.cluster.items(query)}
        return len(now) == 2 and not now & before

    until(replaced, "two new pods")


def test_an_mpi_release_keeps_its_key(at_work: Helm, make_nodes: MakeNodes, repo: Path) -> None:
    """Launcher and workers run, an upgrade keeps the SSH key of the pods, nothing is left."""
    chart, selector = str(repo / "charts/mpi"), make_nodes(3)
    at_work.run("install", "demo", chart, values=values(selector))
    expected = {
        *("jobs/demo-launcher", "jobs/demo-worker", "services/demo", "configmaps/demo"),
        "secrets/demo-ssh",
    }
    assert expected == at_work.objects("demo")
    until(lambda: at_work.job("demo-worker")["status"].get("ready") == 2, "two ready workers")
    until(lambda: at_work.job("demo-launcher")["status"].get("ready") == 1, "a ready launcher")
    before = at_work.secret("demo-ssh")

    later = {"runPolicy": {"ttlSecondsAfterFinished": 3600}}
    at_work.run("upgrade", "demo", chart, values=values(selector, **later))
    assert before == at_work.secret("demo-ssh")
    assert 3600 == at_work.job("demo-launcher")["spec"]["ttlSecondsAfterFinished"]
    at_work.run("uninstall", "demo", "--wait")
    until(lambda: not at_work.objects("demo"), "the removal of every object")


def test_an_mpi_release_through_the_api_has_rights_on_its_own_pods(
    at_work: Helm, make_nodes: MakeNodes, repo: Path
) -> None:
    """The launcher's account may exec into the workers by name, and into nothing else."""
    chart = str(repo / "charts/mpi")
    chart_values = values(make_nodes(3), mpi={"transport": "exec"})
    at_work.run("install", "demo", chart, values=chart_values)
    account = f"system:serviceaccount:{at_work.namespace}:demo-launcher"

    def may(verb: str, resource: str, name: str, subresource: str = "") -> bool:
        about = {
            "namespace": at_work.namespace,
            "verb": verb,
            "resource": resource,
            "subresource": subresource,
            "name": name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": account, "resourceAttributes": about},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(at_work.cluster.api("POST", path, review)["status"]["allowed"])

    assert may("create", "pods", "demo-worker-0", "exec")
    assert may("get", "pods", "demo-worker-1")
    assert not may("create", "pods", "demo-worker-2", "exec")
    assert not may("create", "pods", "other-worker-0", "exec")
    assert not may("list", "pods", "")
    assert not may("get", "secrets", "demo-ssh")
    at_work.run("uninstall", "demo", "--wait")
    until(lambda: not at_work.objects("demo"), "the removal of every object")

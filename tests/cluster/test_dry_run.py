"""The API server's own verdict on all that the charts render: every ci/ file of every chart.

Each file is rendered as a person would (through the post-renderer where the chart asks for it) and
sent to the server as a dry run, with unknown fields refused, into a namespace under the strictest
Pod Security that its values allow. A warning counts as a failure. Pod Security itself judges pods,
so a pod of each template is sent as well.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.convert.pods.pod_template import templates_of
from allranks.yamlio.load import load_all
from tests.kube.api import ApiError
from tests.kube.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.k8s.manifest import Manifest
    from tests.kube.cluster import Cluster

CHARTS = Path(__file__).parents[2] / "charts"
CASES = sorted(CHARTS.glob("*/ci/*-values.yaml"))
POST_RENDERER = Path(sysconfig.get_path("scripts")) / names.POSTRENDER
LEVELS = ("restricted", "baseline", "privileged")
# What Pod Security's "baseline" lets a container add.
BASELINE_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
ACCOUNT = "default"


def level_of(values: Mapping[str, Any]) -> str:
    """The strictest Pod Security level that the values themselves allow."""
    security = values.get("security", {})
    network = values.get("network", {})
    specs = [template.get("spec", {}) for template in templates_of(values)]
    containers = (
        container
        for spec in specs
        for kind in ("initContainers", "containers")
        for container in spec.get(kind, ())
    )
    contexts = [container.get("securityContext", {}) for container in containers]
    contexts.append(security.get("containerSecurityContext", {}))
    added = {name for own in contexts for name in own.get("capabilities", {}).get("add", ())}
    beyond = (
        network.get("hostNetwork"),
        network.get("rdma", {}).get("enabled"),  # pins memory: the capability IPC_LOCK
        any(spec.get("hostIPC") or spec.get("hostPID") for spec in specs),
        any(own.get("privileged") for own in contexts),
        any("hostPath" in volume for spec in specs for volume in spec.get("volumes", ())),
        added - BASELINE_CAPABILITIES,
    )
    if any(beyond):
        return "privileged"
    return "restricted" if security.get("restricted", True) else "baseline"


def rendered(helm: Any, path: Path, namespace: str, chart: Path | None = None) -> list[Manifest]:
    """What would be installed: post-rendered where the chart says that it must be.

    Args:
        helm: renders it.
        path: a values file.
        namespace: the release's.
        chart: its chart; None for the one that has the file in its ci/.
    """
    text = helm.render(chart or path.parents[1], "--namespace", namespace, "--values", path)
    if f"kind: {names.SENTINEL_KIND}" in text:
        process = subprocess.run(
            [POST_RENDERER], input=text, capture_output=True, text=True, check=False
        )
        assert 0 == process.returncode, process.stderr
        text = process.stdout
    return [manifest for manifest in load_all(text) if manifest]


def pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    """A pod of each pod template.

    Of an ElasticJob's but the master's, which the operator completes.
    """
    for manifest in manifests:
        spec = manifest.get("spec", {})
        by_role = spec.get("replicaSpecs", {}).items()
        templates = [spec["template"] for role, spec in by_role if role != names.EDL_MASTER]
        for template in [*templates, *([spec["template"]] if "template" in spec else [])]:
            metadata = template.get("metadata", {})
            metadata_of_pod = {
                key: metadata[key] for key in ("labels", "annotations") if key in metadata
            }
            # Its own account is only rendered, not there; Pod Security does not look at it.
            spec = {**template["spec"], "serviceAccountName": ACCOUNT}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{manifest['metadata']['name']}-pod", **metadata_of_pod},
                "spec": {"restartPolicy": "Always", **spec},
            }


@pytest.fixture(scope="session")
def objects(elastic_cluster: Cluster) -> Objects:
    """What the server serves, with what a pod may name besides: a priority and a runtime class."""
    client = Objects(elastic_cluster.admin)
    for api_version, kind, body in (
        ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1000}),
        ("node.k8s.io/v1", "RuntimeClass", {"handler": "nvidia"}),
    ):
        metadata = {"name": "high" if kind == "PriorityClass" else "nvidia"}
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
        client.apply(manifest, "")
    return client


@pytest.fixture(scope="session")
def namespaces(elastic_cluster: Cluster, testrun_uid: str) -> dict[str, str]:
    """Pod Security level -> a namespace under it; nothing is kept in them, so they are shared."""
    names_by_level = {}
    for level in LEVELS:
        name = f"dry-{level}-{testrun_uid[:8]}"
        modes = ("enforce", "warn")
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in modes}
        metadata = {"name": name, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        Objects(elastic_cluster.admin).apply(manifest, "")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        Objects(elastic_cluster.admin).apply(account, name)
        names_by_level[level] = name
    return names_by_level


def complaints(objects: Objects, manifests: list[Manifest], namespace: str) -> list[str]:
    """Every refusal and every warning of the server."""
    result = []
    for manifest in [*manifests, *pods(manifests)]:
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        # Rendered for a namespace of the file's own; judged in this one, where it has one.
        inside = {} if manifest["kind"].startswith("Cluster") else {"namespace": namespace}
        moved = {**manifest, "metadata": {**manifest["metadata"], **inside}}
        try:
            answer = objects.judge(moved, namespace)
        except ApiError as error:
            result.append(f"{name}: {error}")
        else:
            result += [f"{name}: warning: {warning}" for warning in answer.warnings]
    return result


@pytest.mark.parametrize(
    "path",
    CASES,
    ids=[f"{path.parents[1].name}-{path.name[: -len('-values.yaml')]}" for path in CASES],
)
def test_the_api_server_takes_it_without_a_warning(
    helm4: Any, objects: Objects, namespaces: dict[str, str], path: Path
) -> None:
    """Every object is valid, without a warning, under the strictest level its values allow."""
    (values,) = load_all(path.read_text(encoding="utf-8"))
    level = level_of(values)
    manifests = rendered(helm4, path, namespaces[level])
    assert [] == complaints(objects, manifests, namespaces[level])

    stricter = LEVELS[: LEVELS.index(level)]
    for other in stricter:
        # Else the rule above would hide that the chart asks for more than it must.
        assert [] != complaints(objects, manifests, namespaces[other]), f"{other} would do"


def test_every_chart_has_files(repo: Path) -> None:
    """No chart is left out: each workload's chart has values to judge."""
    charts = {path.parent.name for path in repo.glob("charts/*/Chart.yaml")} - {"library"}
    assert charts == {path.parents[1].name for path in CASES}


def test_the_server_judges(objects: Objects, namespaces: dict[str, str]) -> None:
    """A typo, a wrong type and a bad name are refused: the verdicts above mean something."""
    metadata = {"name": "judged"}
    base = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    for broken in (
        {"spec": {"clusterIPP": "None"}},
        {"spec": {"ports": "many"}},
        {"metadata": {"name": "Not_A_Name"}, "spec": {"clusterIP": "None"}},
    ):
        assert 1 == len(complaints(objects, [{**base, **broken}], namespaces["restricted"]))

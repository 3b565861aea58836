"""A render that is applied again changes nothing: what the charts write is what the server stores.

Client-side and server-side apply, and `kubectl diff`, of the renders that have every kind of field:
a second apply that says "configured" hides the one that really is.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

from .test_dry_run import rendered

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

ROOT = Path(__file__).parents[2]
# Every chart; each with empty variables, amounts as numbers, or resources of the post-renderer.
CASES = (
    "elastic/ci/full",
    "elastic/ci/tensorflow",
    "elastic/ci/auto",
    "mpi/ci/full",
    "mpi/ci/minimal",
    "operator/ci/minimal",
    "sweep/ci/full",
    "sweep-runner/ci/full",
    "torchrun/ci/full",
)


@pytest.mark.parametrize("way", ["client", "server"])
@pytest.mark.parametrize("case", CASES)
def test_a_second_apply_changes_nothing(
    case: str, way: str, elastic_cluster: Cluster, helm4: Any, tmp_path: Path
) -> None:
    """Nothing is configured again, and there is no difference; by both ways of applying."""
    kubectl = elastic_cluster.kubectl
    namespace = f"twice-{secrets.token_hex(4)}"
    manifests = rendered(helm4, ROOT / "charts" / f"{case}-values.yaml", namespace)
    file = tmp_path / "render.yaml"
    file.write_text("---\n".join(dump(manifest) for manifest in manifests), encoding="utf-8")
    flags = ("--server-side", "--filename") if way == "server" else ("--filename",)
    kubectl("create", "namespace", namespace)
    try:
        kubectl("apply", *flags, file, namespace=namespace)
        # It fails where there is a difference, and shows it.
        assert "" == kubectl("diff", *flags, file, namespace=namespace)
        again = kubectl("apply", *flags, file, namespace=namespace).splitlines()
        assert [] == [line for line in again if line.endswith(" configured")]
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")


# Amounts that the server writes in another way: 1, 1Ti, 1Gi and 1536Mi.
_OWN_AMOUNTS = """
image: {repository: my/trainer, tag: "1"}
command: [python, train.py]
security: {podSecurityContext: {runAsUser: 1000}}
gpus: 2
gpusPerNode: 2
resources:
  perGpu: {cpu: 500m, memory: 512Gi, ephemeral-storage: 512Mi}
shm: {size: 1.5Gi}
storage: {workspace: {size: 1024Gi}}
"""


@pytest.mark.parametrize("way", ["client", "server"])
def test_amounts_stay_as_they_were_written(
    way: str, elastic_cluster: Cluster, helm4: Any, repo: Path, tmp_path: Path
) -> None:
    """There is no difference, and a second apply changes nothing, whatever it says."""
    kubectl = elastic_cluster.kubectl
    namespace = f"amounts-{secrets.token_hex(4)}"
    values = tmp_path / "values.yaml"
    values.write_text(_OWN_AMOUNTS, encoding="utf-8")
    where = ("--namespace", namespace, "--values", values)
    text = helm4.render(repo / "charts/torchrun", *where)
    manifests = [manifest for manifest in load_all(text) if manifest]
    (limits,) = [
        container["resources"]["limits"]
        for manifest in manifests
        if manifest["kind"] == "Job"
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]
    assert ("1000m", "1024Gi", "1024Mi") == tuple(
        limits[name] for name in ("cpu", "memory", "ephemeral-storage")
    )
    file = tmp_path / "render.yaml"
    file.write_text("---\n".join(dump(manifest) for manifest in manifests), encoding="utf-8")
    flags = ("--server-side", "--filename") if way == "server" else ("--filename",)
    specs = ("get", "--output", "jsonpath={.items[*].spec}", "--filename")
    kubectl("create", "namespace", namespace)
    try:
        kubectl("apply", *flags, file, namespace=namespace)
        assert "" == kubectl("diff", *flags, file, namespace=namespace)
        amounts = kubectl(*specs, file, namespace=namespace)
        again = kubectl("apply", *flags, file, namespace=namespace).splitlines()
        assert amounts == kubectl(*specs, file, namespace=namespace)
        # Only the client compares texts; it is why the guide says `--server-side`.
        configured = [line.split()[0] for line in again if line.endswith(" configured")]
        clients = ["job.batch/demo", "persistentvolumeclaim/demo-workspace"]
        assert (clients if way == "client" else []) == sorted(configured)
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")

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

"""Volumes on Azure: what exists and what is new, as the drivers of Azure read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.schema import bundle
from tests.charts.shared.rendered import by_name, minimal

if TYPE_CHECKING:
    from collections.abc import Callable

CHARTS = Path(__file__).parents[2] / "charts"
WORKLOADS = ("torchrun", "mpi", "elastic", "sweep")
SHARE: dict[str, Any] = {"shareName": "mnist", "storageAccount": "training"}
CONTAINER: dict[str, Any] = {"containerName": "mnist", "storageAccount": "training"}


@pytest.fixture(scope="session")
def render(template: Any) -> Callable[..., dict[str, Any]]:
    """Render a volume of a chart; manifests by ``Kind/name``."""

    def evaluate(chart: str = "torchrun", name: str = "datasets", **volume: Any) -> dict[str, Any]:
        base = {} if chart == "queue" else minimal(chart)
        return by_name(template(CHARTS / chart, values=base | {"storage": {name: volume}}))

    return evaluate


@pytest.mark.parametrize("chart", [*WORKLOADS, "queue"])
def test_what_exists_is_a_volume_for_one_claim(chart: str, render: Any) -> None:
    """It is bound to the claim by name from both sides, and its data is never reclaimed."""
    manifests = render(chart, azureFile=SHARE)
    volume = manifests["PersistentVolume/default.demo-datasets"]
    claim = manifests["PersistentVolumeClaim/demo-datasets"]
    assert "namespace" not in volume["metadata"]
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "demo-datasets",
    }
    assert claim["spec"]["volumeName"] == "default.demo-datasets"
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["csi"] == {
        "driver": "file.csi.azure.com",
        "volumeHandle": "default.demo-datasets",
        "volumeAttributes": SHARE,
    }


@pytest.mark.parametrize("chart", [*WORKLOADS, "queue"])
def test_what_is_new_has_a_class_that_keeps_its_data(chart: str, render: Any) -> None:
    """The claim names a class of the release, whose volumes stay when they are released."""
    manifests = render(chart, size="10Gi", azureBlob={"protocol": "nfs", "skuName": "Premium_LRS"})
    storage_class = manifests["StorageClass/default.demo-datasets"]
    claim = manifests["PersistentVolumeClaim/demo-datasets"]
    assert "namespace" not in storage_class["metadata"]
    assert claim["spec"]["storageClassName"] == "default.demo-datasets"
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert storage_class["reclaimPolicy"] == "Retain"
    assert storage_class["provisioner"] == "blob.csi.azure.com"
    assert storage_class["parameters"] == {"protocol": "nfs", "skuName": "Premium_LRS"}
    for manifest in (storage_class, claim):
        assert manifest["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_volume_that_exists_goes_with_its_release(render: Any) -> None:
    """Its share stays anyway; a volume that had lost its claim would take no other."""
    manifests = render(azureFile=SHARE)
    for manifest in (
        "PersistentVolume/default.demo-datasets",
        "PersistentVolumeClaim/demo-datasets",
    ):
        assert "annotations" not in manifests[manifest]["metadata"]


def test_pods_leave_the_owner_of_a_share_that_exists_alone(render: Any) -> None:
    """No kubelet walks through a data set of others to give it another group."""
    context = render(azureFile=SHARE)["Job/demo"]["spec"]["template"]["spec"]["securityContext"]
    own = render(size="1Gi", azureFile={"protocol": "nfs"})["Job/demo"]["spec"]["template"]["spec"]
    assert "fsGroup" not in context
    assert own["securityContext"]["fsGroup"] == 1000


def test_a_key_is_in_a_secret_alone(render: Any) -> None:
    """Its name, and the release's namespace, are what a volume and a class say of it."""
    volume = render(azureFile={**SHARE, "secretName": "azure"})
    csi = volume["PersistentVolume/default.demo-datasets"]["spec"]["csi"]
    manifests = render(size="1Gi", azureFile={"secretName": "azure"})
    parameters = manifests["StorageClass/default.demo-datasets"]["parameters"]
    assert csi["nodeStageSecretRef"] == {"name": "azure", "namespace": "default"}
    assert parameters == {
        f"csi.storage.k8s.io/{use}-secret-{part}": value
        for use in ("controller-expand", "node-stage", "provisioner")
        for part, value in (("name", "azure"), ("namespace", "default"))
    }


def test_a_container_is_mounted_for_who_is_not_root(render: Any) -> None:
    """Blobfuse lets its own user in alone, unless it is told; NFS knows no such option."""

    def options(**settings: Any) -> Any:
        manifests = render(azureBlob={**CONTAINER, **settings})
        return manifests["PersistentVolume/default.demo-datasets"]["spec"].get("mountOptions")

    assert options() == ["-o allow_other"]
    assert options(mountOptions=["-o allow_other", "--use-attr-cache=true"]) == [
        "-o allow_other",
        "--use-attr-cache=true",
    ]
    assert options(protocol="nfs", mountOptions=["nconnect=4"]) == ["nconnect=4"]


_OTHER: dict[str, Any] = {
    "resourceGroup": "data",
    "protocol": "nfs",
    "secretName": "azure",
    "clientID": "01234567-89ab-cdef-0123-456789abcdef",
    "mountOptions": ["noatime"],
    "storageAccount": "other",
    "shareName": "other",
    "containerName": "other",
}


@pytest.mark.parametrize("key", ["azureFile", "azureBlob"])
def test_every_setting_changes_the_render(key: str, render: Any) -> None:
    """There is no setting of a volume on Azure that the chart reads past."""
    definitions = bundle.bundle("torchrun")["$defs"]
    settings = definitions["azure-file" if key == "azureFile" else "azure-blob"]["properties"]
    base = SHARE if key == "azureFile" else CONTAINER
    plain = render(**{key: base})
    for name in settings.keys() - {"skuName"}:
        assert plain != render(**{key: base | {name: _OTHER[name]}}), name
    new = render(size="1Gi", **{key: {"protocol": "nfs"}})
    assert new != render(size="1Gi", **{key: {"protocol": "nfs", "skuName": "Premium_LRS"}})

"""Volumes on Azure, and `allranks azure deploy`: what a real API server makes of them."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.azure.sdk import login
from tests.azure_fake.arm import SUBSCRIPTION, TOKEN, FakeArm
from tests.azure_fake.files import ACCOUNT, KEY
from tests.waiting import until

from .program import SCRIPTS, Program, job, program
from .test_cli_refusals import documented, grant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

_VOLUMES = "/api/v1/persistentvolumes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_AZURE = f"""\
name: demo
subscription: {SUBSCRIPTION}
storage: {{account: {ACCOUNT}, shares: [{{name: datasets, quotaGiB: 10}}], containers: []}}
"""
_NEW = {"size": "10Gi", "keep": False, "azureBlob": {"protocol": "fuse2", "secretName": "azure"}}


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, as the administrator."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture
def arm() -> Iterator[FakeArm]:
    """A fake of Resource Manager that knows the account of azure.yaml."""
    with FakeArm() as fake:
        fake.keys[ACCOUNT] = KEY
        yield fake


def deploy(
    allranks: Program, arm: FakeArm, values: dict[str, Any], *words: str | Path, code: int = 0
) -> tuple[dict[str, Any], str]:
    """Deploy the run demo; what the program prints, and what it says of it."""
    azure, file = allranks.home / "azure.yaml", allranks.home / "values.yaml"
    azure.write_text(_AZURE)
    file.write_text(json.dumps(values))
    kubeconfig = json.loads(allranks.cluster.kubeconfig.read_text(encoding="utf-8"))
    process = subprocess.run(
        [
            *(SCRIPTS / names.CLI, "azure", "deploy", "demo", "-f", file, "--azure-file", azure),
            *("-n", allranks.namespace, "--context", kubeconfig["current-context"]),
            *("--detach", "-o", "json", *words),
        ],
        env=allranks.environment() | {login.ENV_ENDPOINT: arm.url, login.ENV_TOKEN: TOKEN},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    output = process.stdout + process.stderr
    assert process.returncode == code, output
    assert KEY not in output
    return json.loads(process.stdout), process.stderr


def test_shares_are_volumes_of_a_run_and_outlive_it(
    allranks: Program, arm: FakeArm, cluster: Cluster, make_nodes: MakeNodes, repo: Path
) -> None:
    """A share is bound to the claim of the run, and a class is made for a new volume.

    The queue of --queue-values is installed first, and its revision is the run's.
    The key is in the Secret alone. With the run its objects of the whole cluster go, and who may
    not make such is told before anything is sent.
    """
    make_nodes(2)
    space = allranks.namespace
    values = job(storage={"checkpoints": _NEW})
    queue = allranks.home / "queue.yaml"
    queue.write_text(json.dumps({"rules": {"maxNodesPerJob": 2}, "policy": {"enabled": False}}))
    _, output = deploy(allranks, arm, values, "-q", "h100", "--queue-values", queue)
    assert "installed queue h100" in output
    annotations = allranks.get("batch/v1/jobs", "demo")["metadata"]["annotations"]
    assert annotations[names.QUEUE_REVISION] in output
    assert f"storage.datasets is share datasets of account {ACCOUNT}" in output
    secret = allranks.get("v1/secrets", f"allranks-azure-{ACCOUNT}")
    assert base64.b64decode(secret["data"]["azurestorageaccountkey"]).decode() == KEY
    claims = "v1/persistentvolumeclaims"
    until(
        lambda: allranks.get(claims, "demo-datasets")["status"]["phase"] == "Bound",
        "the claim to be bound to the share",
    )
    volume = cluster.api("GET", f"{_VOLUMES}/{space}.demo-datasets")
    assert volume["spec"]["csi"]["volumeAttributes"] == {
        "resourceGroup": "allranks-demo",
        "shareName": "datasets",
        "storageAccount": ACCOUNT,
    }
    assert volume["spec"]["csi"]["nodeStageSecretRef"]["name"] == f"allranks-azure-{ACCOUNT}"
    storage_class = cluster.api("GET", f"{_CLASSES}/{space}.demo-checkpoints")
    assert storage_class["provisioner"] == "blob.csi.azure.com"
    assert storage_class["reclaimPolicy"] == "Retain"
    kinds = ("v1/configmaps", "batch/v1/jobs", "v1/pods", claims)
    assert KEY not in json.dumps([allranks.items(kind) for kind in kinds])
    # A share that is another one later is named, and nothing is changed.
    other = {"shareName": "other", "storageAccount": ACCOUNT, "secretName": "azure"}
    changed = job(storage={"checkpoints": _NEW, "datasets": {"azureFile": other}})
    message = allranks("upgrade", "demo", "-q", "h100", values=changed, code=2)
    assert f"PersistentVolume/{space}.demo-datasets" in message
    allranks("delete", "demo")
    until(
        lambda: (
            not [
                item["metadata"]["name"]
                for path in (_VOLUMES, _CLASSES)
                for item in cluster.items(path)
                if item["metadata"]["name"].startswith(f"{space}.")
            ]
        ),
        "the volume and the class to go with the run",
    )
    researcher = Program(cluster, space, allranks.helm, allranks.home, cluster.guest_kubeconfig)
    role = documented(repo)
    grant(allranks, role)
    refusal = researcher("run", "demo", "--detach", values=values, code=1)
    assert "does not let you get storageclasses.storage.k8s.io" in refusal
    assert "belong to the whole cluster" in refusal
    assert [] == allranks.objects_of("demo")

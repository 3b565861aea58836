"""The kinds that a control plane is taught, by the definitions that their owners ship."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.kube.api import ApiError
from tests.waiting import until

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

SCHEDULERS = Path(__file__).parents[1] / "data/crds"
ELASTIC = Path(__file__).parents[2] / "charts/operator/crds"


def add(cluster: Cluster, folder: Path) -> None:
    """Define the kinds of a folder's files; they are served when this returns."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path in sorted(folder.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            try:
                cluster.api("POST", root, crd)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:  # another worker was first
                    raise

    until(lambda: all(_served(cluster, crd) for crd in cluster.items(root)), "every kind's service")


def _served(cluster: Cluster, crd: dict[str, Any]) -> bool:
    """Whether objects of a kind can be listed; its storage comes a moment after its definition.

    No object is fetched: another worker's test may have sent some that no parser takes.
    """
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    try:
        for version in crd["spec"]["versions"]:
            path = f"/apis/{group}/{version['name']}/{plural}"
            cluster.api("GET", f"{path}?fieldSelector=metadata.name%3Dnobody-has-this-name")
    except ApiError:
        return False
    return True

"""Which torchrun pods can take newer code while they run, as the chart renders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.yamlio.load import load_all
from tests import workspaces

if TYPE_CHECKING:
    from pathlib import Path

_SENT = workspaces.Sent(workspaces.pack({"train.py": ""}), parts=1)
_JOB = {"image": {"repository": "any"}, "command": ["python", "train.py"], "nodes": 2}
_FOLDER = "/etc/allranks-workspace-sync"


def _pod(helm: Any, chart: Path, **values: Any) -> dict[str, Any]:
    text = helm.render(chart, values={**_JOB, **values}, name="big")
    kinds = {"Job", "StatefulSet"}
    (controller,) = (doc for doc in load_all(text) if doc and doc["kind"] in kinds)
    pod: dict[str, Any] = controller["spec"]["template"]["spec"]
    return pod


def _taken(pod: dict[str, Any]) -> tuple[list[Any], list[str], list[str]]:
    """The volume that newer code appears in, where it is mounted, and what the launcher is told."""
    (trainer,) = pod["containers"]
    mounts = [mount["mountPath"] for mount in trainer["volumeMounts"]]
    return (
        [volume for volume in pod["volumes"] if volume["name"] == "workspace-sync"],
        [path for path in mounts if path == _FOLDER],
        [item["value"] for item in trainer["env"] if item["name"] == "ALLRANKS_WORKSPACE_SYNC"],
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"nodes": 1},
        {"torchrun": {"controller": "StatefulSet"}},
        {"torchrun": {"elastic": {"minNodes": 1, "maxNodes": 2}}},
        {"torchrun": {"rdzvBackend": "etcd", "rdzvEndpoint": "etcd:2379"}},
    ],
    ids=["c10d", "one-node", "statefulset", "elastic", "etcd"],
)
def test_pods_with_a_workspace_can_take_newer_code(
    helm: Any, torchrun: Path, values: dict[str, Any]
) -> None:
    """They mount a ConfigMap that need not be there, and the launcher is told where."""
    volume = {"name": "workspace-sync", "configMap": {"name": "big-sync", "optional": True}}
    pod = _pod(helm, torchrun, **_SENT.values(), **values)
    assert ([volume], [_FOLDER], [_FOLDER]) == _taken(pod)


@pytest.mark.parametrize(
    "values",
    [{}, {**_SENT.values(), "torchrun": {"rdzvBackend": "static"}}],
    ids=["no-workspace", "static"],
)
def test_other_pods_take_none(helm: Any, torchrun: Path, values: dict[str, Any]) -> None:
    """Without a workspace there is nothing to renew; a static rendezvous keeps no codes apart."""
    assert ([], [], []) == _taken(_pod(helm, torchrun, **values))

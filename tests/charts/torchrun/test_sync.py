"""Which torchrun pods can take newer code while they run, as the chart renders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError
from allranks.workspace.sync import Published, check_takes_code
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


def _sync_parts(pod: dict[str, Any]) -> tuple[list[Any], list[str], list[str]]:
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
    assert ([volume], [_FOLDER], [_FOLDER]) == _sync_parts(pod)


@pytest.mark.parametrize(
    "values",
    [{}, {**_SENT.values(), "torchrun": {"rdzvBackend": "static"}}],
    ids=["no-workspace", "static"],
)
def test_other_pods_take_none(helm: Any, torchrun: Path, values: dict[str, Any]) -> None:
    """Without a workspace there is nothing to renew; a static rendezvous keeps no codes apart."""
    assert ([], [], []) == _sync_parts(_pod(helm, torchrun, **values))


@pytest.mark.parametrize("controller", ["Job", "StatefulSet"])
def test_a_run_says_which_code_it_was_started_with(
    helm4: Any, torchrun: Path, controller: str
) -> None:
    """A sync compares what it would bring with both digests: of the folder, and of the archive."""
    values = {**_JOB, **_SENT.values(), "torchrun": {"controller": controller}}
    objects = load_all(helm4.render(torchrun, values=values, name="big"))
    code = Published(0, _SENT.values()["workspace"]["snapshot"]["digest"], _SENT.digest)
    assert code == check_takes_code("big", [manifest for manifest in objects if manifest])


@pytest.mark.parametrize(
    ("chart", "values", "reason"),
    [
        ("torchrun", {}, "was started without a workspace: its code is in its image"),
        (
            "torchrun",
            {**_SENT.values(), "torchrun": {"rdzvBackend": "static"}},
            "takes no newer code: a static rendezvous cannot keep nodes with different code apart",
        ),
        (
            "mpi",
            _SENT.values(),
            "takes no newer code: only torchrun runs take code while they run, and this is mpi",
        ),
        (
            "elastic",
            {**_SENT.values(), "elastic": {"roles": {"worker": {"replicas": 2}}}},
            "takes no newer code: only torchrun runs take code while they run, and this is elastic",
        ),
    ],
    ids=["image", "static", "mpi", "elastic"],
)
def test_a_run_that_takes_none_is_refused_with_what_does_it(
    helm4: Any, repo: Path, chart: str, values: dict[str, Any], reason: str
) -> None:
    """The refusal says why, and names the command that runs the folder in its place."""
    job = {key: value for key, value in _JOB.items() if chart != "elastic" or key != "nodes"}
    text = helm4.render(repo / "charts" / chart, values={**job, **values}, name="big")
    with pytest.raises(InputError) as error:
        check_takes_code("big", [manifest for manifest in load_all(text) if manifest])
    assert f"run 'big' {reason}" == error.value.problem.message
    assert error.value.problem.hint.startswith("`allranks submit big --replace` removes it, and ")

"""Rules about the folder of code that is sent with a job."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from allranks.values.merge import merge
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, most_nodes, size
from allranks.values.rules.storage import ONE_NODE, clash, is_on, taken_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What every snapshot says, and what it says besides by the way it was sent.
_NEEDED = ("archiveDigest", "compression", "digest", "via")
_NEEDED_VIA = {"configMap": ("configMaps",), "image": ("image",), "pvc": ("claim",)}
_OPTIONAL_VIA = {"pvc": ("path",)}
_RECORDED = ("branch", "commit", "dirty")


def _transport(view: View) -> Iterator[Finding]:
    via = view["workspace.via"]
    if view["workspace.snapshot"]:
        return
    if via == "image" and not view["workspace.registry"]:
        yield Finding(
            path("workspace.registry"),
            "is empty, and workspace.via is image",
            "name the repository that nodes pull from, or leave via empty",
        )
    elif via == "pvc" and not view["workspace.claim"]:
        yield Finding(
            path("workspace.claim"),
            "is empty, and workspace.via is pvc",
            "name a ReadWriteMany claim, or leave via empty",
        )


def _snapshot(view: View) -> Iterator[Finding]:
    snapshot = view["workspace.snapshot"]
    if not snapshot:
        return
    via = snapshot.get("via", "")
    needed = _NEEDED + _NEEDED_VIA.get(via, ())
    for key in needed:
        if not snapshot.get(key):
            yield Finding(
                path("workspace.snapshot", key),
                "is missing",
                "take the whole snapshot as the command line writes it, or leave it empty",
            )
    for key in snapshot:
        if via and key not in needed + _RECORDED + _OPTIONAL_VIA.get(via, ()):
            yield Finding(
                path("workspace.snapshot", key),
                f"the snapshot was sent via {via}, which has none",
                "remove it",
            )


def _mount_path(view: View) -> Iterator[Finding]:
    if not view["workspace.snapshot"]:
        return
    location, mount = path("workspace.mountPath"), view["workspace.mountPath"]
    folder = posixpath.normpath("/" + mount.lstrip("/"))
    if folder == "/":
        root = f"{mount} is the root of the image, all of which would be hidden"
        yield Finding(location, root, "use /app")
        return
    hidden = next((fixed for fixed in taken_paths(view.workload) if clash(folder, fixed)), "")
    if hidden:
        yield Finding(location, f"{mount} would hide {hidden}, which the pod needs", "use /app")
        return
    for name, volume in view["storage"].items():
        same = posixpath.normpath("/" + volume["mountPath"].lstrip("/")) == folder
        if same and is_on(volume):
            yield Finding(
                location,
                f"{mount} is also where storage.{name} is mounted",
                "use /app, or mount the volume elsewhere",
            )


def _shared(view: View) -> Iterator[Finding]:
    requested = size(view)
    if requested is None or max(requested.nodes, most_nodes(view)) < 2:  # noqa: PLR2004
        return
    claims = {
        ("workspace", "claim"): view["workspace.claim"],
        ("workspace", "snapshot", "claim"): view["workspace.snapshot"].get("claim", ""),
    }
    for location, claim in claims.items():
        for name, volume in view["storage"].items():
            if claim and claim == volume["existingClaim"] and _for_one_node(volume):
                yield Finding(
                    location,
                    f"storage.{name}.accessModes says that one node mounts {claim}, and the job "
                    "has more",
                    "name a ReadWriteMany claim",
                )


def _for_one_node(volume: dict[str, Any]) -> bool:
    return ONE_NODE.issuperset(volume["accessModes"])


def with_code(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a job that gets a folder of code, before anybody knows what is in it."""
    return merge(values, {"workspace": {"snapshot": {"digest": "sha256:"}}})


PATH = "workspace-path"
RULES = (
    ValuesRule(
        "workspace-transport",
        "`workspace.via: image` comes with `workspace.registry`, and `pvc` with `workspace.claim`.",
        ("workspace",),
        _transport,
    ),
    ValuesRule(
        "workspace-snapshot",
        "`workspace.snapshot` is empty, or says all that the way it was sent needs, and no more.",
        ("workspace",),
        _snapshot,
    ),
    ValuesRule(
        PATH,
        "`workspace.mountPath` hides nothing that the pod needs, and no volume is mounted there.",
        ("workspace", "storage"),
        _mount_path,
    ),
    ValuesRule(
        "workspace-shared",
        "A claim with the workspace of a job with several nodes can be mounted by several, as far "
        "as `accessModes` of a volume on the same claim says.",
        (*SIZE, "workspace", "storage"),
        _shared,
    ),
)

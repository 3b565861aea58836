"""The pods that TorchX's scheduler for Kubernetes makes of an AppDef: one for each replica.

Source: pytorch/torchx, torchx/schedulers/kubernetes_scheduler.py, role_to_pod and app_to_resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values.trials import number
from allranks.convert.documents import appdef_names
from allranks.convert.kinds import appdef
from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import pod_count
from allranks.k8s.fields import items, mapping, text, texts

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of an AppDef.

    Args:
        manifest: the object.
    """
    roles = (
        (role, pod_count(role.get("num_replicas", 1)), _template(role, manifest))
        for role in items(manifest, "roles")
    )
    return [
        OriginalPod(
            f"{text(role, 'name')}-{index}",
            names.ROLE_NODE,
            index,
            template,
            text(role, "name"),
            env={"JOB_COMPLETION_INDEX": str(index)},
            world=number_of_pods,
        )
        for role, number_of_pods, template in roles
        for index in range(number_of_pods)
    ]


def _template(role: Manifest, manifest: Manifest) -> Manifest:
    return {"spec": _spec(role, appdef_names.name_of(manifest))}


def _spec(role: Manifest, name: str) -> Manifest:
    """The PodSpec of a replica, with its macros filled in: its number is a variable, as here."""
    words = (role.get("entrypoint"), *texts(role.get("args")))
    container: dict[str, Any] = {
        "name": text(role, "name"),
        "image": text(role, "image"),
        "command": [appdef.filled(word, name) for word in words],
        "env": [
            {"name": key, "value": appdef.filled(value, name)}
            for key, value in mapping(role, "env").items()
        ],
        "resources": {kind: _amounts(role) for kind in ("requests", "limits")},
    }
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    for index, mount in enumerate(items(role, "mounts")):
        volume = {"name": f"mount-{index}", **_source(mount)}
        place = {"name": volume["name"], "mountPath": text(mount, "dst_path")}
        is_read_only = {"readOnly": True} if mount.get("read_only") is True else {}
        spec.setdefault("volumes", []).append(volume)
        container.setdefault("volumeMounts", []).append({**place, **is_read_only})
    if instance_type := text(role, "resource", "capabilities", _INSTANCE_TYPE):
        spec["nodeSelector"] = {_INSTANCE_TYPE: instance_type}
    return spec


def _source(mount: Manifest) -> dict[str, Any]:
    """Where the files of a mount are: in a claim, or in a folder or device of the node."""
    if text(mount, "type") == "volume":
        return {"persistentVolumeClaim": {"claimName": text(mount, "src")}}
    return {"hostPath": {"path": text(mount, "src_path")}}


def _amounts(role: Manifest) -> dict[str, str]:
    """What a replica asks for; nothing, or less, is no word about it."""
    resource = mapping(role, "resource")
    amounts = {str(key): str(amount) for key, amount in mapping(resource, "devices").items()}
    for key, (name, unit) in appdef.AMOUNTS.items():
        amount = number(resource.get(key))
        if amount is not None and amount > 0:
            amounts[name] = f"{amount}{unit}"
    return amounts

"""Volumes that an old controller makes for a job, as those of a run.

A run has three volumes of its own: workspace, datasets and checkpoints. A claim is the one that its
name or its place suggests, else the next that is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.convert.pods.pod_template import volume_name
from allranks.convert.verdicts import Named, Rule, carried, changed, dotted, lost
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.verdicts import FieldPath, Fields

_VOLUMES = ("workspace", "datasets", "checkpoints")
_SIGNS = {"checkpoints": ("checkpoint", "ckpt"), "datasets": ("data",)}
_CLAIM_OF_POD = (
    "each pod has such a volume, which goes with the pod, and the claim stayed: mount one that all "
    "share, by storage"
)
_LABELS = "a claim of the chart has the chart's own labels and annotations alone"
_BY_OTHERS = "a container besides the one that trains mounts it, or a mount has options"
_FULL = "a run has three volumes of its own: make this claim yourself, and mount it by podTemplate"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that the old controller makes.

    Attributes:
        name: the volume's name in the pods.
        path: the PersistentVolumeClaimSpec in the source.
        mounts: the mounts of it in the source.
        existing: the name of a claim that is there already; "" for none.
        keep: whether it stays when the job goes.
        mount_path: where it is mounted.
    """

    name: str
    path: FieldPath
    mounts: tuple[FieldPath, ...] = ()
    existing: str = ""
    keep: bool = False
    mount_path: str = ""


def rules(template: str) -> tuple[Rule, ...]:
    """What becomes of a claim's template at a path."""
    return (
        *(lost(f"{template}.metadata.{key}.*", _LABELS) for key in ("labels", "annotations")),
        changed(f"{template}.metadata.**", "storage", "the chart names its claims itself"),
        changed(f"{template}.apiVersion", "storage", "the chart makes the claim"),
        changed(f"{template}.kind", "storage", "the chart makes the claim"),
        changed(f"{template}.status.**", "", "the cluster writes it itself"),
        *(rule.below(f"{template}.spec") for rule in SPEC),
    )


def rules_of_pod_claims(prefix: str) -> tuple[Rule, ...]:
    """What becomes of claims that each pod has one of, in the object at a path."""
    return (
        *(
            lost(f"{prefix}.volumeClaimTemplates[].{key}", _CLAIM_OF_POD)
            for key in ("apiVersion", "kind", "metadata.**", "spec.**", "status.**")
        ),
        changed(
            f"{prefix}.persistentVolumeClaimRetentionPolicy.**",
            "storage.*.keep",
            "it is the volume's own",
        ),
    )


# Of a PersistentVolumeClaimSpec.
SPEC = (
    carried("accessModes[]", "storage.*.accessModes"),
    carried("resources.requests.storage", "storage.*.size"),
    lost("resources.**", "a volume has a size alone"),
    carried("storageClassName", "storage.*.storageClassName"),
    carried("volumeMode", "storage.*"),
    lost("selector.**", "the class of a volume decides which it is"),
    lost("volumeName", "name a claim that exists in existingClaim"),
    lost("dataSource.**", "a run's volume begins empty"),
    lost("dataSourceRef.**", "a run's volume begins empty"),
    lost("volumeAttributesClassName", "the class of a volume decides it"),
)


def mounts(fields: Fields, templates: Sequence[FieldPath], name: str) -> tuple[FieldPath, ...]:
    """Where the containers of some pod templates mount a volume."""
    return tuple(
        (*template, "spec", kind, container, "volumeMounts", mount)
        for template in templates
        for kind in ("containers", "initContainers")
        for container, _ in fields.items(*template, "spec", kind)
        for mount, item in fields.items(*template, "spec", kind, container, "volumeMounts")
        if item.get("name") == name
    )


def movable(fields: Fields, claims: Collection[Claim]) -> list[Claim]:
    """The claims that become volumes of the run: each mounted at one place, three at most."""
    result: list[Claim] = []
    for claim in claims:
        places = {fields.text(*mount, "mountPath") for mount in claim.mounts} or {claim.mount_path}
        # A volume of the run is mounted by the container that trains alone.
        simple = all("containers" in mount for mount in claim.mounts) and all(
            set(fields.mapping(*mount)) <= {"name", "mountPath", "readOnly", "subPath"}
            for mount in claim.mounts
        )
        variants = {
            (fields.text(*mount, "subPath"), bool(fields.get(*mount, "readOnly")))
            for mount in claim.mounts
        }
        size = fields.get(*claim.path, "resources", "requests", "storage")
        single = len({mount[:-4] for mount in claim.mounts}) == len(claim.mounts)
        if (
            len(places) == 1
            and all(places)
            and simple
            and single
            and len(variants) <= 1
            and (size or claim.existing)
        ):
            if len(result) < len(_VOLUMES):
                result.append(claim)
                continue
            fields.leave(claim.path, _FULL)
        elif not claim.mounts and not claim.mount_path:
            fields.change(claim.path, "no container mounts it")
        else:
            alone = "it is mounted at several places" if simple else _BY_OTHERS
            fields.leave(claim.path, f"{alone}: make it yourself, and mount it by podTemplate")
    return result


def put(fields: Fields, claims: Collection[Claim]) -> None:
    """Put claims among the values, as volumes of the run."""
    free = list(_VOLUMES)
    for claim in claims:
        place = next((fields.text(*mount, "mountPath") for mount in claim.mounts), claim.mount_path)
        volume = _volume(f"{claim.name} {place}".lower(), free)
        free.remove(volume)
        to: FieldPath = ("storage", volume)
        own: dict[str, Any] = {"mountPath": place}
        if claim.existing:
            own["existingClaim"] = claim.existing
        else:
            spec = fields.mapping(*claim.path)
            own["size"] = str(k8s.at(spec, "resources", "requests", "storage"))
            own["keep"] = claim.keep
            modes = fields.words(*claim.path, "accessModes")
            own.update({"accessModes": modes} if modes else {})
            if spec.get("storageClassName"):
                own["storageClassName"] = str(spec["storageClassName"])
        for mount in claim.mounts:
            own.update(
                {
                    key: fields.get(*mount, key)
                    for key in ("subPath", "readOnly")
                    if fields.has(*mount, key)
                }
            )
        fields.put(to, own, claim.path)
        _keep(fields, claim, dotted(to))
        for mount in claim.mounts:
            for key in ("name", "mountPath", "subPath", "readOnly"):
                fields.carry((*mount, key), (*to, key)) if key != "name" else fields.change(
                    (*mount, key), f"the volume is called {volume} here", dotted(to)
                )


def _keep(fields: Fields, claim: Claim, to: str) -> None:
    """Say that what a claim has is that of a volume of the run."""
    if claim.existing:
        for key in ("mountPath", "volumeClaimName"):
            fields.keep((*claim.path, key), to)
        return
    fields.keep((*claim.path[:-1], "mountPath"), to)
    for path in (("accessModes",), ("storageClassName",), ("resources", "requests", "storage")):
        fields.keep((*claim.path, *path), to)
    if fields.text(*claim.path, "volumeMode") == "Filesystem":
        fields.keep((*claim.path, "volumeMode"), to)


def _volume(text: str, free: Sequence[str]) -> str:
    for volume, signs in _SIGNS.items():
        if volume in free and any(sign in text for sign in signs):
            return volume
    return free[0]


def note_pod_claims(fields: Fields, path: FieldPath) -> None:
    """Give each pod a volume of its own for a claim that each pod had.

    Such a volume goes with its pod, and the claim stayed: that is said of the template's fields by
    the kind's rules.

    Args:
        fields: the object, converted.
        path: the list of templates.
    """
    for index, template in fields.items(*path):
        name, spec = k8s.text(template, "metadata", "name"), k8s.mapping(template, "spec")
        if name and k8s.at(spec, "resources", "requests", "storage"):
            volume = {"ephemeral": {"volumeClaimTemplate": {"spec": dict(spec)}}}
            new = volume_name(name)
            to: FieldPath = ("podTemplate", "spec", "volumes", Named(new))
            fields.put(to, volume, (*path, index))
            if name != new:
                fields.note(f"the chart has a volume {name} of its own: that of the claim is {new}")

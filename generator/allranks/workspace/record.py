"""What a run's own objects record of the code that it runs; pure.

The controllers have the digest and the commit as annotations, and their pods' volumes say where the
snapshot is. So a run can be asked whoever started it, on a cluster, on this machine, or from the
record that Helm keeps of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.k8s.fields import at, items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.k8s.manifest import Manifest

# The volume with the archive, in the pods of every workload.
VOLUME = "workspace-archive"
_ARCHIVE_DIGEST = "ALLRANKS_WORKSPACE_ARCHIVE_DIGEST"  # what its containers check
CONTROLLERS = ("Job", "StatefulSet", names.ELASTIC_JOB)


@dataclass(frozen=True, slots=True)
class CodeRecord:
    """The code of a run, as its objects record it.

    Attributes:
        workload: torchrun, mpi, elastic or sweep; "" where nothing says it.
        command: the words of the command; () where a script of the values is run.
        image: the image of the first role.
        digest: of the workspace; "" where the image has the code.
        archive_digest: of what was sent; "" for none.
        commit: the commit that the workspace stood on; "" outside of git.
        branch: its branch.
        is_dirty: whether the workspace differed from the commit.
        via: how it was sent: configMap, image or pvc; "" for none.
        parts: where it is: the ConfigMaps, the image, or the claim.
        path: the folder of the claim; "" by another way.
        compression: how that is compressed: gzip or xz; "" for none.
        queue: the team's queue; "" for none.
        queue_revision: which revision of it the job was made with.
    """

    workload: str = ""
    command: tuple[str, ...] = ()
    image: str = ""
    digest: str = ""
    archive_digest: str = ""
    commit: str = ""
    branch: str = ""
    is_dirty: bool = False
    via: str = ""
    parts: tuple[str, ...] = ()
    path: str = ""
    compression: str = ""
    queue: str = ""
    queue_revision: str = ""


def of_objects(objects: Iterable[Manifest]) -> CodeRecord:
    """The record in the objects of a run.

    Args:
        objects: its controllers, and maybe others, as they were rendered or as a cluster has them.
    """
    controllers = [manifest for manifest in objects if manifest.get("kind") in CONTROLLERS]
    metadata = [mapping(manifest.get("metadata")) for manifest in controllers]
    annotations: dict[str, str] = {}
    for head in reversed(metadata):
        annotations |= {key: str(value) for key, value in mapping(head, "annotations").items()}
    labels = mapping(metadata[0], "labels") if metadata else {}
    pods = [pod for manifest in controllers for pod in _pods(manifest)]
    holder = pod_of(controllers)
    via, parts = _place(holder)
    return CodeRecord(
        workload=str(labels.get(names.WORKLOAD) or ""),
        command=next((words for pod in pods if (words := _command(pod))), ()),
        image=next((image for pod in pods if (image := _image(pod))), ""),
        digest=annotations.get(names.WORKSPACE_DIGEST, ""),
        archive_digest=next(
            (digest for pod in pods if (digest := _variable(pod, _ARCHIVE_DIGEST))), ""
        ),
        commit=annotations.get(names.WORKSPACE_COMMIT, ""),
        branch=annotations.get(names.WORKSPACE_BRANCH, ""),
        is_dirty=annotations.get(names.WORKSPACE_DIRTY) == "true",
        via=via,
        parts=parts,
        path=_path(holder),
        compression=_variable(holder, "ALLRANKS_WORKSPACE_COMPRESSION"),
        queue=str(labels.get(names.QUEUE) or ""),
        queue_revision=annotations.get(names.QUEUE_REVISION, ""),
    )


def pod_of(objects: Iterable[Manifest]) -> Mapping[str, Any]:
    """The pod spec of a run whose code was sent; {} where there is none.

    Args:
        objects: as of `of_objects`.
    """
    controllers = (manifest for manifest in objects if manifest.get("kind") in CONTROLLERS)
    pods = (pod for manifest in controllers for pod in _pods(manifest))
    return next((pod for pod in pods if _place(pod)[0]), {})


def _pods(manifest: Manifest) -> Iterator[Any]:
    """The pod specs of a controller, of each role."""
    spec = mapping(manifest, "spec")
    for holder in (spec, *mapping(spec, "replicaSpecs").values()):
        pod = mapping(holder, "template", "spec")
        if pod:
            yield pod


def _trainer(pod: Any) -> Any:
    return next(iter(items(pod, "containers")), {})


def _command(pod: Any) -> tuple[str, ...]:
    """The user's words, which the entry of each workload gets as its arguments."""
    # Kubernetes' own doubling, so that `$(NAME)` arrives as typed.
    return tuple(str(word).replace("$$", "$") for word in at(_trainer(pod), "args") or ())


def _image(pod: Any) -> str:
    return text(_trainer(pod), "image")


def _path(pod: Any) -> str:
    """The folder of the volume that a pod mounts for its workspace; "" for the whole of it."""
    mounts = items(_trainer(pod), "volumeMounts")
    return next((text(mount, "subPath") for mount in mounts if text(mount, "name") == VOLUME), "")


def _variable(pod: Any, name: str) -> str:
    """An environment variable that the chart has set; "" where it has not."""
    variables = items(_trainer(pod), "env")
    return next((text(item, "value") for item in variables if text(item, "name") == name), "")


def _place(pod: Any) -> tuple[str, tuple[str, ...]]:
    """The way and the place of a pod's workspace; "" for none."""
    for volume in items(pod, "volumes"):
        if text(volume, "name") != VOLUME:
            continue
        if reference := text(volume, "image", "reference"):
            return "image", (reference,)
        if claim := text(volume, "persistentVolumeClaim", "claimName"):
            return "pvc", (claim,)
        sources = items(volume, "projected", "sources")
        parts = tuple(text(source, "configMap", "name") for source in sources)
        single = text(volume, "configMap", "name")
        return "configMap", parts or ((single,) if single else ())
    return "", ()

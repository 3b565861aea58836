"""A pod template to a `PodPlan`: completed as its controller and the API server complete it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError
from allranks.local import safepaths
from allranks.local.plan import ContainerPlan, Kind, PodPlan, Restart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a controller adds to the template of its pods.

    Attributes:
        path: the controller, for messages: ``Job/train``.
        namespace: the namespace of its pods.
        restart: the restart policy of a template that names none.
        subdomain: the Service that the pods' names belong to, unless the template names one.
        env: a variable that each container gets unless it has one of that name; None for none.
    """

    path: str
    namespace: str
    restart: Restart
    subdomain: str = ""
    env: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one pod of a controller from another."""

    name: str
    index: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def pod_plan(template: Manifest, owner: Ownership, identity: Identity) -> PodPlan:
    """The pod that a controller makes from its template.

    Raises:
        InputError: a container cannot run here.
    """
    safepaths.segment(identity.name, "pod", owner.path)
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **identity.labels}
    annotations = {**(metadata.get("annotations") or {}), **identity.annotations}
    spec = deepcopy(template.get("spec") or {})
    if owner.env is not None:
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            _append_env(container, owner.env)
    rank = str(labels.get(names.RANK, ""))
    grace = spec.get("terminationGracePeriodSeconds")
    deadline = spec.get("activeDeadlineSeconds")
    return PodPlan(
        name=identity.name,
        index=identity.index,
        rank=int(rank) if rank.isdigit() else identity.index,
        role=str(labels.get(names.ROLE, "node")),
        hostname=str(spec.get("hostname") or identity.name),
        subdomain=str(spec.get("subdomain") or owner.subdomain),
        manifest={
            "metadata": {
                "name": identity.name,
                "namespace": owner.namespace,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": spec,
        },
        containers=_containers(spec, owner),
        grace=30.0 if grace is None else float(grace),
        deadline=None if deadline is None else float(deadline),
    )


def _append_env(container: Manifest, variable: Mapping[str, Any]) -> None:
    env = container.get("env") or []
    if all(one.get("name") != variable["name"] for one in env):
        container["env"] = [*env, dict(variable)]


def _containers(spec: Mapping[str, Any], owner: Ownership) -> tuple[ContainerPlan, ...]:
    restart = Restart(spec.get("restartPolicy") or owner.restart)
    # An init container that fails is tried again unless the pod never restarts.
    retry = Restart.NEVER if restart is Restart.NEVER else Restart.ON_FAILURE
    init = [
        _container(one, owner.path, Kind.SIDECAR, Restart.ALWAYS)
        if one.get("restartPolicy") == Restart.ALWAYS
        else _container(one, owner.path, Kind.INIT, retry)
        for one in spec.get("initContainers") or ()
    ]
    main = [_container(one, owner.path, Kind.MAIN, restart) for one in spec.get("containers") or ()]
    if not main:
        raise InputError("its pods have no containers", path=owner.path)
    return (*init, *main)


def _container(manifest: Manifest, path: str, kind: Kind, restart: Restart) -> ContainerPlan:
    name = safepaths.segment(str(manifest.get("name", "")), "container", path)
    if not manifest.get("command"):
        raise InputError(
            f"container {name!r} has no command, and an image's entrypoint cannot run "
            "on this machine",
            path=path,
            hint="give the container a command",
        )
    return ContainerPlan(name=name, kind=kind, restart=restart, manifest=manifest)

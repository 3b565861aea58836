"""A new size for an elastic job, as `allranks scale` asks for it.

What the job allows is looked at before a plan is made of it; whoever carries plans out has the last
word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.api.job import PS_STRATEGY
from allranks.errors import InputError
from allranks.status.replica_specs import replica_specs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest

_GPU = "nvidia.com/gpu"
# Roles that a training which has them cannot be without.
_NEEDED = {
    names.ROLE_CHIEF: "the chief leads the training, which would end without it",
    names.ROLE_PS: "the parameters are on the servers, and would be lost with the last of them",
}


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """The number and size of pods that a person asks for.

    Attributes:
        replicas: pods by role; a role that is absent keeps its number.
        resource: what each pod of these roles asks for, where it is to change: cpu, memory, gpu.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    resource: Mapping[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that change; resources alone are for the workers."""
        return tuple(self.replicas) or (names.ROLE_WORKER,)


def check(job: Manifest, request: ScaleRequest) -> None:
    """Check a request against what the job allows.

    Args:
        job: the ElasticJob.
        request: the new size.

    Raises:
        InputError: the job has ended, has no such role, allows another number of pods, or has no
            GPUs that there could be more of.
    """
    name = str(job["metadata"]["name"])
    if (job.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        raise InputError(f"elastic job {name} has ended", hint="run it again to give it a size")
    specs = _specs(job)
    if _leads(job, specs):
        specs[names.ROLE_CHIEF] = {"template": specs[names.ROLE_WORKER].get("template")}
        if request.replicas.get(names.ROLE_CHIEF, 1) > 1:
            raise InputError(
                f"elastic job {name} has one chief, which is one of its workers",
                path=f"--{names.ROLE_CHIEF}",
                hint="--worker sets how many others it has",
            )
    for role, replicas in request.replicas.items():
        spec = specs.get(role)
        # A job may have no specs at all: its master's first plan makes the roles.
        if specs and spec is None:
            roles = ", ".join(sorted(specs))
            raise InputError(
                f"elastic job {name} has no role {role}",
                path=f"--{role}",
                hint=f"its roles are {roles}",
            )
        if not replicas and role in _NEEDED:
            raise InputError(
                f"0 would end elastic job {name}: {_NEEDED[role]}",
                path=f"--{role}",
                hint=f"to stop its pods for a while: `{names.CLI} suspend {name}`",
            )
        least, most = _bound(spec, "minReplicas"), _bound(spec, "maxReplicas")
        if replicas < least or (most and replicas > most):
            allowed = f"{least} to {most}" if most else f"{least} and more"
            raise InputError(
                f"{replicas} is outside of {allowed}",
                path=f"--{role}",
                hint="the values say how many pods the job may have",
            )
    for role in request.roles if "gpu" in request.resource else ():
        spec = specs.get(role) or {}
        if spec.get("template") and not _gpu_keys(spec):
            raise InputError(
                f"the {role} pods of elastic job {name} have no GPUs, and run as programs for CPUs",
                path="--gpus",
                hint="set gpusPerNode in its values and run it again",
            )


def replica_resource_specs(job: Manifest, request: ScaleRequest) -> dict[str, Manifest]:
    """Return the request as a plan's `replicaResourceSpecs`."""
    return {role: _replica_resource_spec(job, role, request) for role in request.roles}


def _replica_resource_spec(job: Manifest, role: str, request: ScaleRequest) -> Manifest:
    form: Manifest = {}
    if role in request.replicas:
        form["replicas"] = request.replicas[role]
    if request.resource:
        spec = _specs(job).get(role) or _specs(job).get(names.ROLE_WORKER)
        gpu = next(iter(_gpu_keys(spec)), _GPU)
        form["resource"] = {gpu if key == "gpu" else key: v for key, v in request.resource.items()}
    return form


def _specs(job: Manifest) -> dict[str, Manifest]:
    specs = replica_specs((job.get("spec") or {}).get("replicaSpecs"))
    return {role: spec.spec or {} for role, spec in specs.items() if role != names.EDL_MASTER}


def _leads(job: Manifest, specs: Mapping[str, Manifest]) -> bool:
    """Whether one of the workers is the chief, as in a job with servers and no chief of its own."""
    strategy = (job.get("spec") or {}).get("distributionStrategy")
    return strategy == PS_STRATEGY and names.ROLE_WORKER in specs and names.ROLE_CHIEF not in specs


def _bound(spec: Manifest | None, key: str) -> int:
    value = (spec or {}).get(key)
    return value if isinstance(value, int) else 0


def _gpu_keys(spec: Any) -> list[str]:
    """Return the resource names that a role's pods use for GPUs."""
    containers = (((spec or {}).get("template") or {}).get("spec") or {}).get("containers") or ()
    resources = [container.get("resources") or {} for container in containers]
    keys = [
        key
        for amounts in resources
        for kind in ("limits", "requests")
        for key in amounts.get(kind) or {}
    ]
    return [str(key) for key in keys if str(key).endswith("/gpu")]

"""The local runtime's model of a release; plain data.

`plan.expand` makes these from manifests. A pod keeps its manifest (`PodPlan.manifest`,
labels and annotations completed as the controllers complete them), because downward API fields may
name any of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest


_GRACE = 30.0  # seconds, of a pod that says none


class ContainerKind(StrEnum):
    """The kind of a container: init, main or sidecar."""

    INIT = "init"  # runs to its end before the next one starts
    SIDECAR = "sidecar"  # an init container that keeps running beside the main ones
    MAIN = "main"


class Restart(StrEnum):
    """The restart policy of a container."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """A container and its manifest.

    Attributes:
        name: its name.
        kind: its part in the pod.
        restart: whether it starts again, by its pod's policy.
        manifest: as the kubelet would see it.
        restarts_on: the exit codes after which it starts again all the same, at once.
    """

    name: str
    kind: ContainerKind
    restart: Restart
    manifest: Manifest = field(repr=False)
    restarts_on: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod to run, for all its attempts.

    Attributes:
        name: ``<job>-<index>``; stable over attempts, other than in a cluster.
        index: completion index or ordinal in its controller.
        rank: the rank people call it by: its rank label, else the index.
        role: its role label, else ``node``.
        hostname: its name in DNS.
        subdomain: the Service its name belongs to; "" for none.
        manifest: ``{metadata, spec}`` as the kubelet would see it.
        containers: init containers first, in order.
        grace: seconds between SIGTERM and SIGKILL.
        deadline: seconds the pod may be active; None for ever.
    """

    name: str
    index: int
    rank: int
    role: str
    hostname: str
    subdomain: str
    manifest: Manifest = field(repr=False)
    containers: tuple[ContainerPlan, ...] = field(repr=False)
    grace: float = 30.0
    deadline: float | None = None

    def with_annotations(self, annotations: Mapping[str, str]) -> PodPlan:
        """The same pod with further annotations."""
        metadata = self.manifest["metadata"]
        changed = {**metadata, "annotations": {**metadata["annotations"], **annotations}}
        return replace(self, manifest={**self.manifest, "metadata": changed})

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        labels: Mapping[str, str] = self.manifest["metadata"]["labels"]
        return labels

    @property
    def spec(self) -> Manifest:
        """The pod's spec."""
        spec: Manifest = self.manifest["spec"]
        return spec


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A rule of a Job's podFailurePolicy; conditions do not arise here, exit codes do.

    Attributes:
        action: FailJob, Ignore, Count or FailIndex.
        operator: In or NotIn; "" for a rule on pod conditions.
        values: the exit codes.
        container: the container it looks at; "" for any.
    """

    action: str
    operator: str = ""
    values: frozenset[int] = frozenset()
    container: str = ""


@dataclass(frozen=True, slots=True)
class SuccessRule:
    """A rule of a Job's successPolicy.

    Attributes:
        indexes: the indexes that count; None for all.
        count: how many of them must succeed; None for each.
    """

    indexes: frozenset[int] | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A Job."""

    name: str
    pods: tuple[PodPlan, ...]
    parallelism: int
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    failure_rules: tuple[FailureRule, ...] = ()
    success_rules: tuple[SuccessRule, ...] = ()
    deadline: float | None = None
    suspend: bool = False
    ttl: float | None = None
    lead: bool = False


@dataclass(frozen=True, slots=True)
class SetPlan:
    """A StatefulSet."""

    name: str
    pods: tuple[PodPlan, ...]
    ordered: bool = True
    lead: bool = False


@dataclass(frozen=True, slots=True)
class BarePlan:
    """A pod without a controller."""

    name: str
    pods: tuple[PodPlan, ...]
    lead: bool = False


# `lead` of each: its manifest says that its end is the end of the run.
Controller = JobPlan | SetPlan | BarePlan


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A Service: a name that stands for the first pod it selects."""

    name: str
    headless: bool
    selector: Mapping[str, str]
    ports: tuple[tuple[str, int], ...]  # (name, port)

    def selects(self, pod: PodPlan) -> bool:
        """Whether a pod is among those behind it; one without a selector has none."""
        return bool(self.selector) and self.selector.items() <= pod.labels.items()


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A claim that the release makes; `keep` when deleting the release leaves it."""

    name: str
    keep: bool


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A release as it runs here: its pods, and the objects they refer to."""

    name: str
    namespace: str
    workload: str
    controllers: tuple[Controller, ...]
    services: tuple[ServicePlan, ...] = ()
    configmaps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    binary: Mapping[str, frozenset[str]] = field(default_factory=dict)  # their keys, by ConfigMap
    claims: tuple[VolumeClaim, ...] = ()
    objects: tuple[str, ...] = ()  # Kind/name of each manifest, in order
    elastic: Manifest | None = field(default=None, repr=False)  # the ElasticJob, where it has one

    @property
    def pods(self) -> tuple[PodPlan, ...]:
        """All pods, controller by controller."""
        return tuple(pod for controller in self.controllers for pod in controller.pods)

    @property
    def launcher(self) -> Controller | None:
        """The controller of an MPI job's launcher; None where there is none."""
        for controller in self.controllers:
            if any(pod.role == names.ROLE_LAUNCHER for pod in controller.pods):
                return controller
        return None

    @property
    def leads(self) -> tuple[Controller, ...]:
        """The controllers whose end ends the run; () where all are awaited."""
        launcher = self.launcher
        if launcher is not None:
            return (launcher,)
        return tuple(controller for controller in self.controllers if controller.lead)

    @property
    def grace(self) -> float:
        """The seconds that the pods may take to end: first the leads', then the others'."""
        lead = [pod for controller in self.leads for pod in controller.pods]
        groups = (lead, [pod for pod in self.pods if pod not in lead])
        graces = [max((pod.grace for pod in pods), default=0.0) for pods in groups]
        return max(sum(graces), *(_grace(template) for template in _templates(self.elastic)), 0.0)

    @property
    def size_max(self) -> int:
        """The most pods at a time, including replacements; None where unknown."""
        sizes = [
            max(int(spec.get("replicas") or 0), int(spec.get("maxReplicas") or 0))
            for spec in _specs(self.elastic)
        ]
        return len(self.pods) + 2 * sum(sizes)

    @property
    def ttl(self) -> float | None:
        """The seconds after which the finished run is deleted; None for never."""
        ttls = [
            controller.ttl for controller in self.controllers if isinstance(controller, JobPlan)
        ]
        limits = [ttl for ttl in ttls if ttl is not None]
        return max(limits) if limits and len(limits) == len(ttls) else None


def _specs(job: Manifest | None) -> list[Manifest]:
    """The specs of an ElasticJob's replica types."""
    return list((((job or {}).get("spec") or {}).get("replicaSpecs") or {}).values())


def _templates(job: Manifest | None) -> list[Manifest]:
    return [spec["template"] for spec in _specs(job) if spec.get("template")]


def _grace(template: Manifest) -> float:
    grace = (template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return _GRACE if grace is None else float(grace)


def gpu_request(pod: PodPlan) -> int:
    """The GPUs that a pod requests in its main containers, whatever their resource name.

    Shares of a GPU (MIG profiles) count as one each.
    """
    return sum(_gpus(container.manifest.get("resources") or {}) for container in pod.containers)


def _gpus(resources: Mapping[str, Any]) -> int:
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(
        int(amount)
        for resource, amount in amounts.items()
        if resource.endswith(("/gpu", "/gpu.shared")) or "/mig-" in resource
    )

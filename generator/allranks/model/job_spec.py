"""The specification of a job, read from its values: what the layout needs to know.

The charts render the values themselves; a `JobSpec` is only the part of them that decides where
pods can run. `READ` and `CHART_ONLY` name every top-level key, so that a new key is put in one of
the two on purpose. Zero and empty mean "not set", as in the values file, and a key that a user
removed with `null` counts as not set too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allranks import names
from allranks.k8s import pod_requests, quantity
from allranks.model.elastic_size import Numbers, rings
from allranks.model.layout import Share
from allranks.names import ROLE_MASTER, ROLE_WORKER

TRAINER = "trainer"

# The key of the workload's own name is read as well.
READ = frozenset(
    {"workload", "gpus", "nodes", "gpusPerNode", "procsPerNode", "nodeShape", "gpuResource"}
    | {"gpuType", "resources", "shm", "scheduling", "network", "podTemplate"}
)
CHART_ONLY = frozenset(
    {"preset", "image", "imagePullSecrets", "command", "args", "script", "setup", "workingDir"}
    | {"env", "envFrom", "storage", "queue", "queueRef", "runPolicy", "security", "serviceAccount"}
    | {"status", "labels", "annotations", "layout", "networkPolicy", "workspace", "compat"}
    | {"trackers", "slurm"}
)

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The size of a cluster's node, as far as the user knows it; a bound, not a demand."""

    gpus: int = 0
    cpu: str = ""
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """How strictly pods are kept together, and the node label of each level."""

    mode: str = "none"
    level: str = "rack"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_set(self) -> bool:
        """Whether anything is asked at all."""
        return self.mode in ("preferred", "required")

    @property
    def required(self) -> bool:
        """Whether the job must stay in one domain."""
        return self.mode == "required"

    @property
    def key(self) -> str:
        """The node label of the level."""
        return self.labels.get(self.level, "")


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """The requests of one pod of the job, besides its GPUs.

    Attributes:
        requests: requests of the trainer, whatever its GPUs.
        limits: limits of the trainer; a limit without a request is a request.
        per_gpu: requests of the trainer for each of its GPUs.
        override: resources the pod template sets on the trainer, which win.
        devices: further devices of the trainer, such as RDMA adapters.
        companions: the pod template's other containers, init containers and overhead.
    """

    requests: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    per_gpu: Mapping[str, Any] = field(default_factory=dict)
    override: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[str, Any] = field(default_factory=dict)
    companions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The size of a job and the requests of its pods.

    Attributes:
        workload: the chart's name.
        gpus: GPUs in all; 0 where the size is nodes times GPUs per node, or there are none.
        nodes: nodes asked; 0 where they follow from the GPUs.
        gpus_per_node: GPUs of each node, exactly; 0 leaves the split free.
        procs_per_node: processes of each node; 0 is one per GPU, and 1 on CPUs.
        min_nodes: the fewest nodes of an elastic job; 0 otherwise.
        max_nodes: the most nodes of an elastic job; 0 otherwise.
        spares: pods like those of the nodes that stand by for one that is lost.
        node_shape: what one node has, where the user knows it.
        gpu_resource: the extended resource of a GPU.
        gpu_type: (label, value) the nodes must have; value "" is any.
        pod: what each pod asks besides GPUs.
        shm_size: shared memory of each pod.
        shm_per_gpu: shared memory for each GPU of a pod.
        topology: whether and how the pods are kept together.
        node_selector: labels the nodes must have.
        node_terms: required node affinity: a node must match one of the terms; () is any node.
        tolerations: the pods' tolerations.
        unplanned: settings that steer the scheduler and that no plan takes into account.
        started: how many processes mpirun starts, where the values say it; 0 is one per slot.
        launcher_first: whether the first node is an MPI launcher that has ranks.
        launcher: the pod of an MPI launcher without ranks, as a job of its own; None elsewhere.
        beside: the pods that an elastic job has besides its workers, each role as a job of its own.
        role: what the pods of an elastic job are called; "" elsewhere.
    """

    workload: str = ""
    gpus: int = 0
    nodes: int = 0
    gpus_per_node: int = 0
    procs_per_node: int = 0
    min_nodes: int = 0
    max_nodes: int = 0
    spares: int = 0
    node_shape: NodeShape = NodeShape()
    gpu_resource: str = ""
    gpu_type: tuple[str, str] = ("", "")
    pod: PodAmounts = field(default_factory=PodAmounts)
    shm_size: str = ""
    shm_per_gpu: str = ""
    topology: Topology = field(default_factory=Topology)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    unplanned: tuple[str, ...] = ()
    started: int = 0
    launcher_first: bool = False
    launcher: JobSpec | None = None
    beside: tuple[JobSpec, ...] = ()
    role: str = ""

    @property
    def elastic(self) -> bool:
        """Whether the job may run with a range of numbers of nodes."""
        return self.max_nodes > 0

    @property
    def uneven(self) -> bool:
        """Whether the last node may have fewer GPUs: MPI's host list counts slots per host."""
        return self.workload == "mpi" and not self.elastic

    @property
    def gpus_for_ranks(self) -> int:
        """The fewest GPUs of a node with GPUs: one for each process, but MPI's ranks may share."""
        return 0 if self.workload == "mpi" else self.procs_per_node

    @classmethod
    def from_values(cls, values: Values, fewest: Mapping[str, int] | None = None) -> JobSpec:
        """Return the specification in merged, schema-valid values.

        Args:
            values: the chart's defaults with the user's values over them.
            fewest: of an elastic job's roles, the pods that there are whatever the values say.
        """
        workload = str(values.get("workload") or "")
        own = _map(values, workload)
        if workload == "elastic":
            return cls._of_roles(values, own, fewest or {})
        template = _template(values, own, ROLE_WORKER)
        elastic = _map(own, "elastic")
        return cls(
            workload=workload,
            gpus=_count(values, "gpus"),
            nodes=_count(values, "nodes") or _hosts(own),
            gpus_per_node=_count(values, "gpusPerNode"),
            procs_per_node=_count(values, "procsPerNode") or _count(own, "slotsPerWorker"),
            min_nodes=_count(elastic, "minNodes"),
            max_nodes=_count(elastic, "maxNodes"),
            spares=_count(own, "spares"),
            pod=_pod(values, template),
            started=_count(own, "np"),
            launcher_first=bool(own.get("runLauncherAsWorker")),
            launcher=cls._of_launcher(values, own),
            **_of_all(values),
            **_where(values, template),
        )

    @classmethod
    def _of_roles(cls, values: Values, own: Values, fewest: Mapping[str, int]) -> JobSpec:
        """Return an elastic job's specification: its workers, with the other roles beside them."""
        roles, numbers = _map(own, "roles"), Numbers.of(values, own)
        counts = {
            role: max(_count(_map(roles, role), "replicas"), fewest.get(role, 0)) for role in roles
        }
        least, most = numbers.bounds
        template = _template(values, roles, ROLE_WORKER)
        return cls(
            workload="elastic",
            gpus=numbers.gpus,
            nodes=numbers.nodes,
            gpus_per_node=numbers.gpus_per_worker,
            procs_per_node=_count(values, "procsPerNode") if rings(own) else 1,
            min_nodes=least,
            max_nodes=most,
            pod=_pod(values, template, _map(roles, ROLE_WORKER, "resources")),
            beside=(
                *(
                    cls._of_role(values, roles, role, count)
                    for role, count in counts.items()
                    if role != ROLE_WORKER and count
                ),
                *(cls._of_master(values, own) for _ in range(fewest.get(ROLE_MASTER, 0))),
            ),
            role=ROLE_WORKER,
            **_of_all(values),
            **_where(values, template),
        )

    @classmethod
    def _of_role(cls, values: Values, roles: Values, role: str, count: int) -> JobSpec:
        """Return the pods of a role; without GPUs they have none of the workers' settings."""
        own, template = _map(roles, role), _template(values, roles, role)
        gpus = _count(own, "gpusPerPod")
        return cls(
            workload="elastic",
            nodes=count,
            gpus_per_node=gpus,
            pod=_pod(values if gpus else {}, template, _map(own, "resources")),
            role=role,
            **(_of_all(values) if gpus else {"gpu_resource": _text(values, "gpuResource")}),
            **_where(values, template),
        )

    @classmethod
    def _of_master(cls, values: Values, own: Values) -> JobSpec:
        """Return the master's pod, which has a template of its own."""
        pod = _pod({}, {}, _map(own, "auto", "master", "resources"))
        gpu = _text(values, "gpuResource")
        return cls("elastic", nodes=1, gpu_resource=gpu, pod=pod, role=ROLE_MASTER)

    @classmethod
    def _of_launcher(cls, values: Values, own: Values) -> JobSpec | None:
        if "launcher" not in own or own.get("runLauncherAsWorker"):
            return None
        template = _template(values, own, "launcher")
        pod_values = {"resources": {"perPod": _map(own, "launcher", "resources")}}
        return cls(
            workload=str(values.get("workload") or ""),
            nodes=1,
            gpu_resource=_text(values, "gpuResource"),
            pod=_pod(pod_values, template),
            **_where(values, template),
        )

    def requests(self, gpus: int) -> dict[str, int]:
        """Return what a pod with this many GPUs requests, besides the GPUs themselves.

        Args:
            gpus: GPUs of the pod.

        Returns:
            Resource names with amounts in the units of `quantity.request_units`.
        """
        trainer = {"name": TRAINER, "resources": self._trainer(gpus)}
        companions = self.pod.companions
        spec = dict(companions) | {"containers": [trainer, *companions.get("containers", ())]}
        requests = pod_requests.effective(spec)
        requests.pop(self.gpu_resource, None)
        return {name: units for name, units in requests.items() if units}

    def share(self, gpus: int) -> Share:
        """Return CPU, memory and shared memory of a pod, in the user's own units."""
        resources = self._trainer(gpus)
        amounts = resources["limits"] | resources["requests"]
        shm = self.shm_size
        if not shm and self.shm_per_gpu and gpus:
            shm = quantity.multiply(self.shm_per_gpu, gpus)
        return Share(str(amounts.get("cpu", "")), str(amounts.get("memory", "")), shm)

    def _trainer(self, gpus: int) -> dict[str, dict[str, Any]]:
        requests = dict(self.pod.requests) | dict(self.pod.devices)
        if gpus:
            for name, text in self.pod.per_gpu.items():
                requests.setdefault(name, quantity.multiply(text, gpus))
        return {
            "requests": requests | _map(self.pod.override, "requests"),
            "limits": dict(self.pod.limits) | _map(self.pod.override, "limits"),
        }


def _hosts(own: Values) -> int:
    """Return the nodes for a number of workers: a launcher with ranks is one more."""
    workers = _count(own, "numWorkers")
    return workers + 1 if workers and own.get("runLauncherAsWorker") else workers


def _template(values: Values, own: Values, role: str) -> dict[str, Any]:
    """Return the spec of a role's pods: the shared pod template with the role's merged over it."""
    shared = _map(values, "podTemplate", "spec")
    of_role = _map(own, role, "podTemplate", "spec")
    template = _merged(shared, of_role)
    for key in ("containers", "initContainers"):
        over = {container.get("name"): container for container in of_role.get(key) or ()}
        both = [
            _merged(container, over.pop(container.get("name"), {}))
            for container in shared.get(key) or ()
        ]
        template[key] = [*both, *over.values()]
    return template


def _of_all(values: Values) -> dict[str, Any]:
    """Return the fields that all workloads share."""
    gpu_type, shape = _map(values, "gpuType"), _map(values, "nodeShape")
    return {
        "node_shape": NodeShape(_count(shape, "gpus"), _text(shape, "cpu"), _text(shape, "memory")),
        "gpu_resource": _text(values, "gpuResource"),
        "gpu_type": (_text(gpu_type, "label"), _text(gpu_type, "value")),
        "shm_size": _text(_map(values, "shm"), "size"),
        "shm_per_gpu": _text(_map(values, "shm"), "sizePerGpu"),
        "topology": _topology(_map(values, "scheduling", "topology")),
    }


def _where(values: Values, template: Values) -> dict[str, Any]:
    """Return the fields that say which nodes the pods may run on."""
    scheduling = _map(values, "scheduling")
    affinity = _merged(_map(scheduling, "affinity"), _map(template, "affinity"))
    return {
        "node_selector": _merged(_map(scheduling, "nodeSelector"), _map(template, "nodeSelector")),
        "node_terms": _node_terms(affinity, scheduling.get("avoidNodes") or ()),
        "tolerations": tuple(template.get("tolerations") or scheduling.get("tolerations") or ()),
        "unplanned": _unplanned(scheduling, template, affinity),
    }


def _pod(values: Values, template: Values, of_role: Values | None = None) -> PodAmounts:
    """Return a pod's requests: a role's own amounts replace the shared ones, a template's both."""
    resources = _map(values, "resources")
    rdma = _map(values, "network", "rdma")
    containers = list(template.get("containers") or ())
    trainer: Values = next(
        (container for container in containers if container.get("name") == TRAINER), {}
    )
    companions = {
        "containers": [container for container in containers if container.get("name") != TRAINER],
        "initContainers": list(template.get("initContainers") or ()),
        "overhead": _map(template, "overhead"),
        "resources": _map(template, "resources"),
    }
    return PodAmounts(
        requests=_map(resources, "perPod", "requests"),
        limits=_map(resources, "perPod", "limits"),
        per_gpu=_map(resources, "perGpu"),
        override=_merged(of_role or {}, _map(trainer, "resources")),
        devices=_map(rdma, "resources") if rdma.get("enabled") else {},
        companions={name: value for name, value in companions.items() if value},
    )


def _topology(topology: Values) -> Topology:
    return Topology(
        mode=_text(topology, "mode") or "none",
        level=_text(topology, "level") or "rack",
        labels={str(level): str(key) for level, key in _map(topology, "labels").items() if key},
    )


def _node_terms(affinity: Values, avoided: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    node = _map(affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = tuple(node.get("nodeSelectorTerms") or ())
    if not avoided:
        return terms
    off = {"key": names.HOSTNAME, "operator": "NotIn", "values": list(avoided)}
    return tuple(
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), off]} if term else term
        for term in terms or ({"matchFields": []},)
    )


def _unplanned(scheduling: Values, template: Values, affinity: Values) -> tuple[str, ...]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    paths = [
        f"scheduling.affinity.{name}"
        for name in ("podAffinity", "podAntiAffinity")
        if _map(affinity, name).get(required)
    ]
    if scheduling.get("topologySpreadConstraints") or template.get("topologySpreadConstraints"):
        paths.append("scheduling.topologySpreadConstraints")
    return tuple(paths)


def _map(values: Values, *path: str) -> dict[str, Any]:
    """Return the mapping at a path; an empty one where a key is missing or not set."""
    value: Any = values
    for key in path:
        value = value.get(key) or {}
    return dict(value)


def _count(values: Values, key: str) -> int:
    return int(values.get(key) or 0)


def _text(values: Values, key: str) -> str:
    value = values.get(key)
    return "" if value is None else str(value)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return two maps merged key by key, as the charts merge the pod template last."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[key] = _merged(below, value)
        else:
            result[key] = value
    return result

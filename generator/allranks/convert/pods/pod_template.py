"""Taking a PodTemplateSpec apart: `pods.pod_values` says what becomes of the pieces.

It is longer than most: a pod has as many fields as it has, and each is read here once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from allranks import names
from allranks.convert.pods import container_names, in_cluster_access
from allranks.convert.pods.image_names import PULLED_ALWAYS, image_parts, pull_policy
from allranks.convert.programs import references
from allranks.convert.verdicts import FieldPath, Fields, Named, Outcome, dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s
from allranks.values.rules.names import is_reserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TRAINER = "trainer"
TEMPLATE: FieldPath = ("podTemplate",)
SPEC: FieldPath = ("podTemplate", "spec")
OF_TRAINER: FieldPath = (*SPEC, "containers", Named(TRAINER))

# Extended resources that are accelerators with a rank each, as whole devices.
_GPUS = (
    *("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
    *("habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice"),
    *("aws.amazon.com/neuroncore", "google.com/tpu", "cambricon.com/mlu", "cambricon.com/vmlu"),
    *("metax-tech.com/gpu", "mthreads.com/gpu", "iluvatar.ai/gpu", "enflame.com/gcu"),
    *("hygon.com/dcu", "nvidia.com/pgpu", "nvidia.com/gpu.shared", "volcano.sh/vgpu-number"),
    *("alpha.kubernetes.io/nvidia-gpu", "aliyun.com/gpu", "tencent.com/vcuda-core"),
)
_GPU_PREFIXES = ("nvidia.com/mig-", "huawei.com/ascend", "huawei.com/npu", "nvidia.com/gpu-")
_OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"
_NVIDIA = "nvidia.com/gpu"

# The dialect of each scheduler; "" is the cluster's own.
SCHEDULERS = {
    "default-scheduler": "",
    "volcano": "volcano",
    "kai-scheduler": "kai",
    "runai-scheduler": "kai",
    "scheduler-plugins-scheduler": "coscheduling",
    "coscheduling": "coscheduling",
}
_OWN_SCHEDULER = ("volcano", "kai-scheduler")
# Labels and annotations that name a queue, and the dialect that they are of.
QUEUES = {
    "kueue.x-k8s.io/queue-name": "kueue",
    "kai.scheduler/queue": "kai",
    "runai/queue": "kai",
    "scheduling.volcano.sh/queue-name": "volcano",
    "volcano.sh/queue-name": "volcano",
}
# What controllers and kubectl write on objects and pods.
_WRITTEN = (
    *(
        f"{names.DOMAIN}/",
        "batch.kubernetes.io/",
        "meta.helm.sh/",
        "helm.sh/",
        "training.kubeflow.org/",
    ),
    *("kubectl.kubernetes.io/", "jobset.sigs.k8s.io/", "elasticjob.dlrover/", "torchrun.ai/"),
    *("trainer.kubeflow.org/", "volcano.sh/job", "volcano.sh/task", "apps.kubernetes.io/"),
    *("deployment.kubernetes.io/", "leaderworkerset.sigs.k8s.io/", "argocd.argoproj.io/"),
)
_OF_HELM = ("helm.sh/", "meta.helm.sh/")
# Of operators whose keys are few, all of them: what else has their domain, a person has written.
_OPERATORS_OWN = {
    "training.kubeflow.org": ("operator-name", "job-name", "job-role", "replica-"),
    "volcano.sh": ("job-name", "job-version", "job-retry-count", "task-index", "task-spec"),
}
# What a person writes among them, and why it is not carried.
_REQUESTS = {
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "scheduling.topology keeps all pods "
    "together, and no groups of them apart",
    "volcano.sh/task-topology": "tasks are not kept together or apart; scheduling.affinity is for "
    "all pods",
    "helm.sh/hook": "a run is a release of its own, and no hook of another",
}
# Those among them that Kubernetes' own controllers write.
_KUBERNETES_KEYS = ("controller-uid", "job-name", "controller-revision-hash", "pod-template-hash")
WRITTEN_KEYS = (
    *_KUBERNETES_KEYS,
    *("pytorch-job-name", "pytorch-replica-type", "pytorch-replica-index", "mpi-job-name"),
    *("mpi_job_name", "mpi_role_type", "tf-job-name", "tf-replica-type", "tf-replica-index"),
    *("replica-type", "replica-index", "group-name", "job-role", "mxnet-job-name"),
    *("group_name", "tf_job_name", "pytorch_job_name", "mxnet_job_name"),
)
# Names of volumes that the charts have.
_OUR_VOLUMES = frozenset(
    (
        *("entry", "state", "shm", "mpi", "ssh", "tmp", "trials", "key", "token"),
        *("workspace", "datasets", "checkpoints", "workspace-archive", "workspace-code"),
        "workspace-sync",
    )
)
# The fields of a container that are its probes.
PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_OPERATORS_KEY = (
    "a key of the old operator, which none writes here: select app.kubernetes.io/instance, the "
    "release"
)
_DIGITS_MAX = 6  # of a number of devices
_SHM = "/dev/shm"  # noqa: S108 - the place that shared memory has in a container
# What a PodSpec has that stands elsewhere in the values.
MOVED: dict[str, FieldPath] = {
    "affinity": ("scheduling", "affinity"),
    "tolerations": ("scheduling", "tolerations"),
    "topologySpreadConstraints": ("scheduling", "topologySpreadConstraints"),
    "priorityClassName": ("scheduling", "priorityClassName"),
    "runtimeClassName": ("scheduling", "runtimeClassName"),
    "securityContext": ("security", "podSecurityContext"),
}
# What it has besides that any pod may have.
POD_FIELDS = (
    *("hostAliases", "dnsConfig", "hostIPC", "hostPID", "shareProcessNamespace"),
    *("enableServiceLinks", "preemptionPolicy", "readinessGates", "overhead", "os", "hostUsers"),
    *("setHostnameAsFQDN", "resourceClaims", "schedulingGates", "nodeName", "resources"),
    *("activeDeadlineSeconds", "schedulingGroup", "hostnameOverride", "evictionResponders"),
)
_SIDE = f"{TRAINER}-side"
NAMED_BY_RANK = "each pod is named by the release and its rank"
WHO_FAILS = "runPolicy.backoffLimit says how often a pod that failed is replaced"
_ASKED_BY_NAME = ": a container beside it that asks the cluster for the old name does not find it"
# Policies of a pod by which its containers are started again where they are.
_RESTARTED = (None, "OnFailure", "Always")
_NO_RESTART = f"{WHO_FAILS}, and no container is started again, also none beside the program"
# What a container has that is kept at its own name.
CONTAINER_FIELDS = (
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "stdin", "stdinOnce", "tty"),
    *("terminationMessagePath", "terminationMessagePolicy", "volumeDevices", "resizePolicy"),
    *("restartPolicy", "restartPolicyRules"),
)


def volume_name(name: str) -> str:
    """What a volume is called beside those of the charts: another name where one of them has it."""
    return f"{name}-volume" if name in _OUR_VOLUMES else name


def templates_of(node: Any) -> Iterator[Mapping[str, Any]]:
    """Each pod template among values: the job's, and those of its roles."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == TEMPLATE[0]:
            yield value if isinstance(value, dict) else {}
        elif key != "env":
            yield from templates_of(value)


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that a field of a template is.

    Attributes:
        source: the field.
        to: the value's path, for a job whose pods are all alike.
        value: the value.
        why: what is changed about it; "" where it is carried as it is.
        names: the fields below it that name a container which has another name here.
    """

    source: FieldPath
    to: FieldPath
    value: Any
    why: str = ""
    names: tuple[FieldPath, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod template, taken apart.

    Attributes:
        path: the template, in its object.
        container: the container that trains; () where there is none.
        name: that container's name.
        command: its command.
        args: its args.
        gpus: the GPUs that it asks for; 0 for none.
        gpu_resource: the extended resource that they are asked by; "" for none.
        gpu_source: the field that says so; () for none.
        variables: its variables whose text is known.
        pieces: all else, as values; without the command and the number of GPUs.
        is_restricted: whether it says itself what Pod Security "restricted" asks.
    """

    path: FieldPath
    container: FieldPath
    name: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    gpus: int
    gpu_resource: str
    gpu_source: FieldPath
    variables: Mapping[str, str]
    pieces: tuple[Piece, ...]
    is_restricted: bool

    @property
    def words(self) -> tuple[str, ...]:
        """Its command and args."""
        return (*self.command, *self.args)

    def piece(self, to: FieldPath) -> Piece | None:
        """The piece that is the value at a path."""
        return next((piece for piece in self.pieces if piece.to == to), None)


def read(fields: Fields, path: FieldPath, main: Sequence[str] = ()) -> PodTemplate:
    """Take a pod template apart.

    What is no value, such as the name of the container, gets its verdict here; the pieces get
    theirs when they are put.

    Args:
        fields: the object.
        path: the template in it.
        main: names of the container that trains, the likeliest first; where there is none of them,
            it is the first container.

    Raises:
        InputError: its containers are a mapping, which no API server takes.
    """
    containers: FieldPath = (*path, "spec", "containers")
    if isinstance(fields.get(*containers), dict):
        raise InputError(
            "a pod takes a list of containers, and this is a mapping",
            path=dotted(containers),
            hint='begin the container with a dash: "- name: trainer"',
        )
    reader = _TemplateReader(fields, path, tuple(main))
    return reader.pod()


def labels(fields: Fields, path: FieldPath, to: FieldPath) -> None:
    """Carry an object's labels and annotations, and the queue that they name.

    Args:
        fields: the object.
        path: its metadata.
        to: where labels and annotations are among the values; () is the root.
    """
    for piece in _labels(fields, path, to):
        fields.put(piece.to, piece.value, piece.source)
        fields.say(piece.source, Outcome.CARRIED, dotted(piece.to))
        if str(piece.source[-1]).startswith(_READ_ON_PODS):
            fields.change(piece.source, "the pods have it, too", dotted(piece.to))


# Keys that are read on pods: of meshes, networks, autoscalers, secret and storage injectors.
_READ_ON_PODS = (
    *("sidecar.istio.io/", "traffic.sidecar.istio.io/", "linkerd.io/", "config.linkerd.io/"),
    *("k8s.v1.cni.cncf.io/", "cluster-autoscaler.kubernetes.io/", "karpenter.sh/"),
    *("vault.hashicorp.com/", "gke-gcsfuse/", "prometheus.io/", "descheduler.alpha.kubernetes.io/"),
)


def is_own(key: str) -> bool:
    """Whether a label or annotation of an operator's domain is none that the operator writes."""
    domain, _, name = key.partition("/")
    return domain in _OPERATORS_OWN and not name.startswith(_OPERATORS_OWN[domain])


def is_of_person(key: str) -> bool:
    """Whether a label or annotation is none that Kubernetes, a chart or a controller writes."""
    return not (key in QUEUES or is_reserved(key) or _is_written(key))


def _is_written(key: str) -> bool:
    return (key.startswith(_WRITTEN) and not is_own(key)) or key in _KUBERNETES_KEYS


def _labels(fields: Fields, path: FieldPath, to: FieldPath) -> Iterator[Piece]:
    for kind in ("labels", "annotations"):
        for key, value in fields.mapping(*path, kind).items():
            here: FieldPath = (*path, kind, key)
            if value is None:
                continue
            if key in QUEUES and isinstance(value, str) and value:
                yield Piece(here, ("queue",), value)
                fields.put(("scheduling", "dialect"), QUEUES[key])
            elif key.startswith(tuple(_REQUESTS)):
                fields.leave(
                    here, next(why for name, why in _REQUESTS.items() if key.startswith(name))
                )
            elif key in WRITTEN_KEYS and key not in _KUBERNETES_KEYS:
                # An operator writes it on pods, and not here: a person has.
                fields.leave(here, _OPERATORS_KEY)
            elif _is_written(key) and not key.startswith(_OF_HELM):
                fields.change(here, "a controller or kubectl writes it")
            elif is_reserved(key):
                fields.change(here, "the chart or Helm sets it itself")
            elif key.startswith(_OF_HELM):
                fields.change(here, "it is for Helm, of the release that made the object")
            elif isinstance(value, str | int | float | bool):
                yield Piece(here, (*to, kind, key), k8s.as_text(value))


class _TemplateReader:
    """Takes a template apart, once."""

    def __init__(self, fields: Fields, path: FieldPath, main: tuple[str, ...]) -> None:
        self._fields = fields
        self._path = path
        self._spec: FieldPath = (*path, "spec")
        self._pieces: list[Piece] = []
        self._container = self._main(main)
        self._renamed: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    def pod(self) -> PodTemplate:
        fields = self._fields
        self._pieces += _labels(fields, (*self._path, "metadata"), (*TEMPLATE, "metadata"))
        self._of_spec()
        gpus, resource = 0, ""
        gpu_source: FieldPath = ()
        name = ""
        if self._container:
            name = fields.text(*self._container, "name")
            gpus, resource, gpu_source = self._of_trainer()
        self._others()
        shared_memory = self._shared_memory()
        self._volumes(shared_memory)
        self._mounts(shared_memory)
        self._rename(name)
        return PodTemplate(
            self._path,
            self._container,
            name,
            self._words("command"),
            self._words("args"),
            gpus,
            resource,
            gpu_source,
            self._variables,
            tuple(self._pieces),
            self._is_restricted(),
        )

    def _rename(self, name: str) -> None:
        """Name containers as they are called here, where other fields name them."""
        new_names = {name: TRAINER} if name not in ("", TRAINER) else {}
        kinds = (("containers",), ("initContainers",))
        side = [item.to[-1] for item in self._pieces if item.to[-2:-1] in kinds]
        if _SIDE in side:
            new_names[TRAINER] = _SIDE
        for index, piece in enumerate(self._pieces if new_names else ()):
            key = piece.to[-1]
            value = container_names.renamed(piece.value, new_names)
            new_key = container_names.renamed_key(str(key), new_names)
            is_key = piece.to[-2:-1] == ("annotations",) and new_key != key
            if is_key:
                to = (*piece.to[:-1], new_key)
                self._pieces[index] = replace(piece, to=to, why=container_names.REASON)
            elif value != piece.value:
                own = self._fields.get(*piece.source)
                places = tuple(container_names.places(own, new_names, piece.source))
                self._pieces[index] = replace(piece, value=value, names=places)

    def _add(self, source: FieldPath, to: FieldPath, value: Any = None, why: str = "") -> None:
        own = self._fields.get(*source)
        if own is None:
            return
        self._pieces.append(Piece(source, to, _clean(own) if value is None else value, why))

    def _main(self, main: tuple[str, ...]) -> FieldPath:
        containers = self._fields.items(*self._spec, "containers")
        for name in main:
            for index, container in containers:
                if container.get("name") == name:
                    return (*self._spec, "containers", index)
        return (*self._spec, "containers", containers[0][0]) if containers else ()

    def _words(self, key: str) -> tuple[str, ...]:
        return tuple(self._fields.words(*self._container, key)) if self._container else ()

    # --- the pod ---

    def _of_spec(self) -> None:
        fields, spec = self._fields, self._spec
        for key in fields.mapping(*spec, "nodeSelector"):
            here: FieldPath = (*spec, "nodeSelector", key)
            self._add(here, ("scheduling", "nodeSelector", key), k8s.as_text(fields.get(*here)))
        for key, to in MOVED.items():
            self._add((*spec, key), to)
        for key in POD_FIELDS:
            self._add((*spec, key), (*SPEC, key))
        self._scheduler((*spec, "schedulerName"))
        self._account()
        for index, secret in fields.items(*spec, "imagePullSecrets"):
            name = secret.get("name")
            if isinstance(name, str) and name:
                self._pull_secret((*spec, "imagePullSecrets", index), name)
        host = fields.get(*spec, "hostNetwork")
        policy = fields.get(*spec, "dnsPolicy")
        asks_node = host is True and policy is None
        why = "the pods ask the cluster's DNS, and not the node's: they find each other by it"
        network: FieldPath = ("network", "hostNetwork")
        self._add((*spec, "hostNetwork"), network, why=why if asks_node else "")
        if policy in ("ClusterFirst", "ClusterFirstWithHostNet") or (policy == "Default" and host):
            why = "the pods must find each other by their names, which the cluster's DNS knows"
            if (policy == "ClusterFirst") == bool(host) or policy == "Default":
                fields.change((*spec, "dnsPolicy"), why, "network.dnsPolicy")
            else:
                fields.say((*spec, "dnsPolicy"), Outcome.CARRIED, "network.dnsPolicy")
        else:
            self._add((*spec, "dnsPolicy"), ("network", "dnsPolicy"))
        grace = fields.get(*spec, "terminationGracePeriodSeconds")
        self._add(
            (*spec, "terminationGracePeriodSeconds"),
            ("runPolicy", "terminationGracePeriodSeconds"),
            1 if grace == 0 else None,
            "0 is Kubernetes' default here; a second is the least" if grace == 0 else "",
        )

    def _pull_secret(self, here: FieldPath, name: str) -> None:
        secrets = [piece for piece in self._pieces if piece.to == ("imagePullSecrets",)]
        if not secrets:
            self._pieces.append(Piece(here, ("imagePullSecrets",), [name]))
            return
        first = secrets[0]
        every = list(dict.fromkeys((*first.value, name)))
        self._pieces[self._pieces.index(first)] = replace(first, value=every)
        self._pieces.append(Piece(here, ("imagePullSecrets",), every))

    def _scheduler(self, here: FieldPath) -> None:
        name = self._fields.get(*here)
        if not isinstance(name, str) or not name:
            return
        dialect = SCHEDULERS.get(name)
        if dialect is None:
            self._add(here, ("scheduling", "schedulerName"))
        elif not dialect:
            self._fields.say(here, Outcome.CARRIED, "the cluster's own scheduler")
        else:
            self._add(here, ("scheduling", "dialect"), dialect)
            if name not in _OWN_SCHEDULER:
                self._add(here, ("scheduling", "schedulerName"))

    def _account(self) -> None:
        fields, spec = self._fields, self._spec
        mount = fields.get(*spec, "automountServiceAccountToken")
        in_cluster_access.put(fields, spec)
        for key in ("serviceAccount", "serviceAccountName"):
            name = fields.get(*spec, key)
            if name == "default":
                fields.say((*spec, key), Outcome.CARRIED, "serviceAccount.name")
            elif isinstance(name, str) and name:
                self._add((*spec, key), ("serviceAccount", "name"))
                if mount is None:
                    # An account is named because its rights are used.
                    self._add((*spec, key), ("serviceAccount", "automountToken"), value=True)
        self._add((*spec, "automountServiceAccountToken"), ("serviceAccount", "automountToken"))

    def _is_restricted(self) -> bool:
        fields = self._fields
        pod = fields.mapping(*self._spec, "securityContext")
        own = fields.mapping(*self._container, "securityContext") if self._container else {}
        capabilities = own.get("capabilities")
        drop = capabilities.get("drop") if isinstance(capabilities, dict) else None
        return (
            (own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True)
            and own.get("allowPrivilegeEscalation") is False
            and isinstance(drop, list)
            and "ALL" in drop
            and isinstance(own.get("seccompProfile", pod.get("seccompProfile")), dict)
        )

    # --- the container that trains ---

    def _of_trainer(self) -> tuple[int, str, FieldPath]:
        here, fields = self._container, self._fields
        self._image((*here, "image"), (*here, "imagePullPolicy"))
        self._add((*here, "workingDir"), ("workingDir",))
        self._add((*here, "securityContext"), ("security", "containerSecurityContext"))
        for key in CONTAINER_FIELDS:
            self._add((*here, key), (*OF_TRAINER, key))
        self._env((*here, "env"))
        self._env_from((*here, "envFrom"))
        self._ports((*here, "ports"))
        self._add((*here, "resources", "claims"), (*OF_TRAINER, "resources", "claims"))
        has_others = len(fields.items(*self._spec, "containers")) > 1
        why = "it is called trainer here"
        has_other_name = fields.text(*here, "name") != TRAINER
        fields.change((*here, "name"), why + _ASKED_BY_NAME * (has_others and has_other_name))
        if has_others and fields.get(*self._spec, "restartPolicy") in _RESTARTED:
            fields.change((*self._spec, "restartPolicy"), _NO_RESTART, "runPolicy.backoffLimit")
        return self._resources((*here, "resources"))

    def _image(self, here: FieldPath, policy: FieldPath) -> None:
        image = self._fields.get(*here)
        if not isinstance(image, str) or not image:
            return
        for key, value in image_parts(image).items():
            self._add(here, ("image", key), value)
        self._add(policy, ("image", "pullPolicy"))
        if self._fields.get(*policy) is None and pull_policy(image) == PULLED_ALWAYS:
            self._add(here, ("image", "pullPolicy"), PULLED_ALWAYS)

    def _env(self, path: FieldPath) -> None:
        entries = self._fields.items(*path)
        last = {entry.get("name"): at for at, entry in entries if _is_name(entry.get("name"))}
        above: set[str] = set()
        for index, entry in entries:
            name, here = entry.get("name"), (*path, index)
            if not _is_name(name):
                continue
            above.add(name)
            if last[name] != index:
                self._fields.change(here, f"a later entry sets {name} again")
                continue
            source, value = entry.get("valueFrom"), entry.get("value")
            if isinstance(source, dict) and source:
                if {"fileKeyRef"} & set(source):
                    self._add(
                        here, (*OF_TRAINER, "env", Named(name)), {"valueFrom": _clean(source)}
                    )
                else:
                    self._add(here, ("env", name), {"valueFrom": _clean(source)})
                continue
            # A variable that comes below is none to Kubernetes, and the chart's order is another.
            below = {str(other) for other, at in last.items() if at > index} - above
            text = references.without("" if value is None else k8s.as_text(value), below)
            self._variables[name] = text
            if references.has_reference(text):
                # Kubernetes puts other variables in there, and `env` arrives as typed.
                self._add(here, (*OF_TRAINER, "env", Named(name)), {"value": text})
            else:
                self._add(here, ("env", name), text.replace("$$", "$"))

    def _env_from(self, path: FieldPath) -> None:
        sources = [
            (index, _clean({key: entry[key] for key in entry if key in _ENV_FROM}))
            for index, entry in self._fields.items(*path)
        ]
        if sources:
            self._list(path, sources, ("envFrom",))

    def _list(
        self, path: FieldPath, items: list[tuple[int, Any]], to: FieldPath, why: str = ""
    ) -> None:
        """A list that is one value, whose items get a verdict each."""
        whole = [item for _, item in items]
        for index, _ in items:
            self._pieces.append(Piece((*path, index), to, whole, why))

    def _ports(self, path: FieldPath) -> None:
        entries: list[tuple[int, Any]] = []
        for index, port in self._fields.items(*path):
            name = str(port.get("name") or "")
            if name.endswith(("job-port", "tfjob-port", "mpijob-port")) or port.get(
                "containerPort"
            ) in (23456, 29500, 2222):
                self._fields.change(
                    (*path, index), "the chart opens the ports by which its pods meet"
                )
            else:
                entries.append((index, _clean(port)))
        if entries:
            self._list(path, entries, (*OF_TRAINER, "ports"))

    def _resources(self, path: FieldPath) -> tuple[int, str, FieldPath]:
        fields = self._fields
        amounts = {kind: fields.mapping(*path, kind) for kind in ("requests", "limits")}
        gpus, resource = 0, ""
        source: FieldPath = ()
        for kind in ("limits", "requests"):
            for name, amount in amounts[kind].items():
                if not resource and is_gpu(name) and _count(amount):
                    gpus, resource, source = _count(amount), name, (*path, kind, name)
        for kind in ("requests", "limits"):
            for name, amount in amounts[kind].items():
                here: FieldPath = (*path, kind, name)
                if amount is None:
                    continue
                if name == resource and _count(amount) == gpus:
                    why = f"it is {_NVIDIA} since Kubernetes 1.8" if name == _OLD_GPU else ""
                    why = why or ("" if amounts["limits"].get(name) is not None else _AS_LIMIT)
                    outcome = Outcome.CHANGED if why else Outcome.CARRIED
                    fields.say(here, outcome, "gpusPerNode", why)
                elif name == resource:
                    fields.leave(here, "Kubernetes wants a device's request to be its limit")
                elif is_gpu(name) and k8s.as_text(amount).strip("0") == "":
                    fields.say(here, Outcome.CARRIED, "no GPU")
                else:
                    self._amount(here, kind, name, amount, amounts)
        if resource and resource != _NVIDIA:
            new = _NVIDIA if resource == _OLD_GPU else resource
            if new != _NVIDIA:
                self._pieces.append(Piece(source, ("gpuResource",), new))
            resource = new
        self._note_empty(path, {**amounts["requests"], **amounts["limits"]})
        return gpus, resource, source

    def _note_empty(self, path: FieldPath, amounts: Mapping[str, Any]) -> None:
        """Note numbers of GPUs that are empty, which a program for templates may have left."""
        for name, amount in amounts.items():
            if amount is None and is_gpu(name):
                here = dotted((*path, "limits", name))
                self._fields.note(f"{here} is empty, which to Kubernetes is no GPU")

    def _amount(
        self,
        here: FieldPath,
        kind: str,
        name: str,
        amount: Any,
        amounts: Mapping[str, Mapping[str, Any]],
    ) -> None:
        is_device = "/" in name
        text = _devices(amount) if is_device else _quantity(amount)
        if is_device and kind == "requests":
            if name in amounts["limits"]:
                self._fields.say(here, Outcome.CARRIED, f"resources.perPod.limits.{name}")
            else:
                why = "a device is asked for by its limit"
                self._add(here, ("resources", "perPod", "limits", name), text, why)
        else:
            self._add(here, ("resources", "perPod", kind, name), text)

    # --- other containers, and volumes ---

    def _others(self) -> None:
        for kind in ("initContainers", "containers"):
            for index, container in self._fields.items(*self._spec, kind):
                here: FieldPath = (*self._spec, kind, index)
                if here == self._container:
                    continue
                name = container.get("name")
                if not _is_name(name):
                    continue
                if name == TRAINER:
                    name = _SIDE
                value = _clean({key: item for key, item in container.items() if key != "name"})
                if isinstance(value.get("volumeMounts"), list):
                    value["volumeMounts"] = [self._mount(item) for item in value["volumeMounts"]]
                self._add(here, (*SPEC, kind, Named(name)), value)

    def _shared_memory(self) -> str:
        """The volume that is all the trainer's /dev/shm, and that `shm.size` says; "" for none."""
        fields = self._fields
        mounts = [mount for _, mount in self._trainer_mounts()]
        at_shm = [mount for mount in mounts if str(mount.get("mountPath")).rstrip("/") == _SHM]
        if len(at_shm) != 1 or set(at_shm[0]) - {"name", "mountPath", "readOnly"}:
            return ""
        name = at_shm[0].get("name")
        users = sum(
            mount.get("name") == name
            for kind in ("initContainers", "containers")
            for _, container in fields.items(*self._spec, kind)
            for mount in k8s.items(container, "volumeMounts")
        )
        for _, volume in fields.items(*self._spec, "volumes"):
            empty = volume.get("emptyDir")
            if volume.get("name") == name and isinstance(empty, dict) and users == 1:
                size = empty.get("sizeLimit")
                if empty.get("medium") == "Memory" and isinstance(size, str) and size:
                    return str(name)
        return ""

    def _trainer_mounts(self) -> list[tuple[int, dict[str, Any]]]:
        return self._fields.items(*self._container, "volumeMounts") if self._container else []

    def _volumes(self, shared_memory: str) -> None:
        path: FieldPath = (*self._spec, "volumes")
        for index, volume in self._fields.items(*path):
            name, here = volume.get("name"), (*path, index)
            if not _is_name(name):
                continue
            if name == shared_memory:
                if size := k8s.text(volume, "emptyDir", "sizeLimit"):
                    self._add(here, ("shm", "size"), size)
                else:
                    self._fields.leave(here, f"another volume of the pod is {name}")
                continue
            new = volume_name(name)
            why = f"the chart has a volume {name} of its own" if new != name else ""
            value = _clean({key: item for key, item in volume.items() if key != "name"})
            self._add(here, (*SPEC, "volumes", Named(new)), value or {"emptyDir": {}}, why)

    def _mount(self, mount: Any) -> Any:
        if isinstance(mount, dict) and isinstance(mount.get("name"), str):
            return {**mount, "name": volume_name(mount["name"])}
        return mount

    def _mounts(self, shared_memory: str) -> None:
        if not self._container:
            return
        path: FieldPath = (*self._container, "volumeMounts")
        entries: list[tuple[int, Any]] = []
        for index, mount in self._trainer_mounts():
            if shared_memory and mount.get("name") == shared_memory:
                self._fields.say((*path, index), Outcome.CARRIED, "shm.size")
            elif not (_is_name(mount.get("name")) and _is_name(mount.get("mountPath"))):
                why = "a mount has the name of a volume, and a path"
                self._fields.leave((*path, index), why)
            else:
                entries.append((index, _clean(self._mount(mount))))
        if entries:
            self._list(path, entries, (*OF_TRAINER, "volumeMounts"))


_ENV_FROM = ("prefix", "secretRef", "configMapRef")


_AS_LIMIT = "Kubernetes takes a request of GPUs with its limit alone, which the pods have"


def is_gpu(name: str) -> bool:
    """Whether an extended resource is an accelerator of which a rank has its own."""
    return name in _GPUS or name.lower().startswith(_GPU_PREFIXES)


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _count(amount: Any) -> int:
    text = k8s.as_text(amount)
    is_count = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_count else 0


def _quantity(amount: Any) -> str:
    """An amount as text, without an exponent: 0.5 and 1e-3 are numbers in YAML."""
    if isinstance(amount, float):
        text = f"{amount:.9f}".rstrip("0").rstrip(".")
        return text or "0"
    return k8s.as_text(amount).strip()


def _devices(amount: Any) -> str:
    """A number of devices in digits: to Kubernetes, 1k are a thousand."""
    text = _quantity(amount)
    match = _THOUSANDS.fullmatch(text)
    return match[1] + "0" * _ZEROS[match[2]] if match else text


# So many zeros stand in for the end of a quantity.
_ZEROS = {"k": 3, "e3": 3, "E3": 3, "M": 6, "e6": 6, "E6": 6, "G": 9, "e9": 9, "E9": 9}
_THOUSANDS = re.compile(r"([0-9]{1,9})(k|M|G|[eE][369])")


def _clean(value: Any) -> Any:
    """A copy without nulls: nothing to Kubernetes, and here they would remove a default."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_clean(item) for item in value if item is not None]
    return value

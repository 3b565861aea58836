"""What a pod has, by what it is for: the settings in which two kinds of pods are compared.

A setting's name is what a person reads of it: ``image``, ``env EPOCHS``, ``mount /data``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert.pods.image_names import pull_policy
from allranks.convert.pods.pod_values import TRAINER, is_gpu
from allranks.errors import InputError
from allranks.k8s import quantity
from allranks.k8s.fields import as_text, items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the pods of ours have for themselves.
OUR_FOLDERS = ("/etc/allranks", "/var/run/allranks", "/etc/mpi", "/etc/ssh/allranks", "/run/sshd")
_OUR_ENV = re.compile(
    r"ALLRANKS_.*|PET_.*|OMPI_.*|I_MPI_.*|HYDRA_.*|PRTE_.*|PMIX_.*|UCX_.*|TORCH_.*|PYTHONUNBUFFERED"
    r"|WANDB_(?:RUN_ID|RESUME|RUN_GROUP|NAME)|MLFLOW_RUN_NAME"
    r"|K_MPI_JOB_ROLE|TF_CONFIG|DMLC_.*|MASTER_.*|RANK|WORLD_SIZE|NVIDIA_VISIBLE_DEVICES"
    r"|NVIDIA_DRIVER_CAPABILITIES|JOB_COMPLETION_INDEX|LOCAL_RANK|MPI_.*"
)
_GRACE = 30  # seconds; Kubernetes' own
_SCHEDULER = "default-scheduler"
_DNS = "dnsPolicy"
_OF_CLUSTER, _OF_NODE = "ClusterFirst", "Default"
_OF_POD = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "hostIPC", "hostPID"),
    *("priorityClassName", "runtimeClassName", "hostNetwork", "imagePullSecrets", "hostAliases"),
    *("dnsConfig", "shareProcessNamespace", "nodeName", "resourceClaims", "preemptionPolicy"),
    *("setHostnameAsFQDN", "hostnameOverride", "overhead", "os", "readinessGates", "resources"),
    *("schedulingGates", "schedulingGroup", "activeDeadlineSeconds", "evictionResponders"),
)
_OF_CONTAINER = (
    *("livenessProbe", "startupProbe", "lifecycle", "workingDir", "envFrom", "volumeDevices"),
    *("stdin", "stdinOnce", "tty", "resizePolicy", "restartPolicyRules"),
)
# Of these the charts have defaults of their own: they are compared where the original says them.
_SAID_OF_POD = ("enableServiceLinks", "automountServiceAccountToken", "hostUsers")
_READINESS = "readinessProbe"
_SAID_OF_CONTAINER = (_READINESS, "terminationMessagePath", "terminationMessagePolicy")


def of_both(
    theirs: Mapping[str, Any], main: str, ours: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an original pod has, and what one of the release has, each by its setting.

    Args:
        theirs: the original's PodSpec.
        main: the name of the container that trains in it.
        ours: the release's PodSpec.
    """
    result = of_pod(theirs, main), of_pod(ours, TRAINER)
    containers = container_of(theirs, main), container_of(ours, TRAINER)
    for keys, pair in (
        (_SAID_OF_POD, (theirs, ours)),
        (_SAID_OF_CONTAINER, containers),
    ):
        for key in keys:
            if pair[0].get(key) is not None:
                for own, source in zip(result, pair, strict=True):
                    own[key] = source.get(key)
    probes = [mapping(own, _READINESS) for own in containers]
    if _READINESS in result[0] and {**probes[1], **probes[0]} == probes[1]:
        result[1][_READINESS] = result[0][_READINESS]  # the rest of it is the chart's own
    if theirs.get("hostNetwork") and result[1][_DNS] == _OF_CLUSTER:
        # By which the pods of the charts find each other, whatever the network is.
        result[0][_DNS] = _OF_CLUSTER
    return result


def of_pod(spec: Mapping[str, Any], main: str) -> dict[str, Any]:
    """What a pod has, by its setting.

    Args:
        spec: its PodSpec.
        main: the name of the container that trains.
    """
    own = container_of(spec, main)
    return {**_pod_facets(spec), **_facets(spec, own), **_others(spec, main)}


def container_of(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The container of a name; an empty one where there is none."""
    result = [item for item in items(spec, "containers") if text(item, "name") == name]
    return result[0] if result else {}


def gpus(own: Mapping[str, Any]) -> int:
    """How many GPUs a container asks for."""
    limits = mapping(own, "resources", "limits")
    return sum(
        int(str(amount))
        for name, amount in limits.items()
        if is_gpu(name) and str(amount).isdigit()
    )


@dataclass(frozen=True, slots=True)
class _Amount:
    """An amount, which is the same however it is written: ``1Gi``, ``1024Mi``."""

    number: float
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


def _pod_facets(spec: Mapping[str, Any]) -> dict[str, Any]:
    facets: dict[str, Any] = _stored({key: spec[key] for key in _OF_POD if spec.get(key)})
    grace = spec.get("terminationGracePeriodSeconds")
    facets["grace"] = _GRACE if grace is None else grace
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    facets["service account"] = account
    facets["scheduler"] = spec.get("schedulerName") or _SCHEDULER
    facets[_DNS] = _dns(spec)
    return facets


def _dns(spec: Mapping[str, Any]) -> str:
    """Whom a pod asks for names: the cluster's DNS or the node's, however its policy is called."""
    policy = str(spec.get(_DNS) or _OF_CLUSTER)
    if policy == _OF_CLUSTER and spec.get("hostNetwork"):
        return _OF_NODE
    return _OF_CLUSTER if policy == "ClusterFirstWithHostNet" else policy


def _facets(spec: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    facets: dict[str, Any] = {key: own[key] for key in _OF_CONTAINER if own.get(key)}
    image = str(own.get("image") or "")
    facets["image"] = _image(image)
    facets["image pulled"] = own.get("imagePullPolicy") or pull_policy(image)
    for entry in items(own, "env"):
        name = str(entry.get("name"))
        if not _OUR_ENV.fullmatch(name):
            value = entry.get("valueFrom") or as_text(entry.get("value"))
            facets[f"env {name}"] = value.replace("$$", "$") if isinstance(value, str) else value
    facets |= _amounts(own)
    facets |= _mounts(spec, own)
    context = {**mapping(spec, "securityContext"), **mapping(own, "securityContext")}
    for key, value in context.items():
        facets[f"security {key}"] = value
    return facets


def _image(image: str) -> str:
    """An image's name as it is pulled: what has a digest is not asked for by its tag."""
    rest, at, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}{at}{digest}" if at else image


def _amounts(container: Mapping[str, Any]) -> dict[str, Any]:
    requests = dict(mapping(container, "resources", "requests"))
    # A request of GPUs is taken with its limit alone, so that it is one.
    limits = {name: own for name, own in requests.items() if is_gpu(str(name))}
    limits |= mapping(container, "resources", "limits")
    facets: dict[str, Any] = {}
    for kind, amounts in (("request", {**limits, **requests}), ("limit", limits)):
        for name, amount in amounts.items():
            if amount is None:  # as if it were not there, to Kubernetes
                continue
            try:
                number = float(quantity.parse(amount))
            except (InputError, TypeError):
                facets[f"{kind} {name}"] = str(amount)
                continue
            if number or "/" not in str(name):  # no device is as none
                facets[f"{kind} {name}"] = _Amount(number, str(amount))
    return facets


def _mounts(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    volumes = {
        str(volume.get("name")): {key: value for key, value in volume.items() if key != "name"}
        for volume in items(spec, "volumes")
    }
    facets: dict[str, Any] = {}
    for mount in items(container, "volumeMounts"):
        path = str(mount.get("mountPath")).rstrip("/") or "/"
        if path.startswith(OUR_FOLDERS):
            continue
        rest = {key: value for key, value in mount.items() if key not in ("name", "mountPath")}
        facets[f"mount {path}"] = (volumes.get(str(mount.get("name"))), rest)
    return facets


def _others(spec: Mapping[str, Any], main: str) -> dict[str, Any]:
    """Init containers and sidecars, by name, with the volumes that they mount."""
    facets: dict[str, Any] = {}
    for key, word in (("initContainers", "init container"), ("containers", "container")):
        for container in items(spec, key):
            name = text(container, "name")
            if key == "initContainers" or name != main:
                rest = {
                    part: value
                    for part, value in container.items()
                    if part not in ("name", "volumeMounts")
                }
                facets[f"{word} {name}"] = (_stored(rest), _mounts(spec, container))
    return facets


def _stored(value: Any) -> Any:
    """Plain data as Kubernetes stores it: amounts are text."""
    if isinstance(value, dict):
        return {
            key: {name: str(amount) for name, amount in item.items()}
            if key in ("limits", "requests", "overhead") and isinstance(item, dict)
            else _stored(item)
            for key, item in value.items()
        }
    return [_stored(item) for item in value] if isinstance(value, list) else value

"""Turn manifests into a plan: the pods of a release, as the controllers would create them.

The Job controller labels and annotates its pods, gives them a hostname and JOB_COMPLETION_INDEX;
the StatefulSet controller labels them and adds their claims. What has no meaning on one machine
(RBAC, quotas, pod groups) is passed over. What would have to run and cannot is refused, all of it
at once, before anything starts.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError, InvalidValues, Problem
from allranks.local import safe_paths
from allranks.local.plan.model import (
    BarePlan,
    ContainerKind,
    ContainerPlan,
    Controller,
    FailureRule,
    JobPlan,
    PodPlan,
    ReleasePlan,
    Restart,
    ServicePlan,
    SetPlan,
    SuccessRule,
    VolumeClaim,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from allranks.k8s.manifest import Manifest


_IGNORED_KINDS = frozenset(
    {
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("Namespace", "NetworkPolicy", "PodDisruptionBudget", "PriorityClass", "LimitRange"),
        *("ResourceQuota", "PodGroup", "LocalQueue", "ClusterQueue", "Queue", "Workload"),
        *("ResourceClaim", "ResourceClaimTemplate", "ServiceMonitor", "PodMonitor", "Ingress"),
        *("Event", "Lease", "EndpointSlice", "Endpoints", "StorageClass", "PersistentVolume"),
        names.TRAINING_RUN,
    }
)
_DATA_KINDS = frozenset({"Service", "ConfigMap", "Secret", "PersistentVolumeClaim"})
_RUN_KINDS = frozenset({"Job", "StatefulSet", "Pod"})
_KNOWN_KINDS = _IGNORED_KINDS | _DATA_KINDS | _RUN_KINDS | {names.ELASTIC_JOB}
_NO_INDEX_LIMIT = 2**31 - 1


def expand(manifests: Iterable[Manifest], *, name: str, namespace: str) -> ReleasePlan:
    """The release that a stream of manifests describes.

    Args:
        manifests: rendered (and post-rendered) documents; ``List`` objects are opened.
        name: the release's name.
        namespace: the namespace of what names none.

    Raises:
        InvalidValues: something in them cannot run here; every such thing is named.
    """
    documents = [manifest for manifest in _flatten(manifests) if not _is_hook(manifest)]
    problems = [*_refusals(documents)]
    controllers: list[Controller] = []
    for document in documents:
        kind = document.get("kind")
        if kind not in _RUN_KINDS:
            continue
        try:
            with refuse_malformed(f"{kind}/{_name(document)}"):
                controllers.append(_CONTROLLERS[kind](document, namespace))
        except InputError as error:
            problems.extend(error.problems)
    elastic = list(_of(names.ELASTIC_JOB, documents))
    problems += [
        Problem(f"{names.ELASTIC_JOB}/{_name(job)}", "a local run has one of its kind at most")
        for job in elastic[1:]
    ]
    if not (controllers or elastic or problems):
        problems.append(
            Problem("", "the manifests hold nothing to run", "render a chart with a Job in it")
        )
    if problems:
        raise InvalidValues(problems)
    objects = tuple(f"{manifest.get('kind')}/{_name(manifest)}" for manifest in documents)
    with refuse_malformed("Service"):
        services = tuple(service(manifest) for manifest in _of("Service", documents))
    return ReleasePlan(
        name=name,
        namespace=namespace,
        workload=_workload(documents),
        controllers=_with_ranks(controllers),
        services=services,
        configmaps={
            _name(manifest): configmap(manifest) for manifest in _of("ConfigMap", documents)
        },
        secrets={_name(manifest): secret(manifest) for manifest in _of("Secret", documents)},
        binary={
            _name(manifest): frozenset(manifest.get("binaryData") or ())
            for manifest in _of("ConfigMap", documents)
        },
        claims=tuple(claim(manifest) for manifest in _of("PersistentVolumeClaim", documents)),
        objects=objects,
        elastic=elastic[0] if elastic else None,
    )


def _with_ranks(controllers: Sequence[Controller]) -> tuple[Controller, ...]:
    """The controllers with ranks that continue across the controllers of a role, by name.

    A pod whose label says its rank keeps it.
    """
    ranked = list(controllers)
    offsets: dict[str, int] = {}
    for position in sorted(range(len(ranked)), key=lambda index: ranked[index].name):
        controller = ranked[position]
        role = controller.pods[0].role if controller.pods else ""
        offset = offsets.get(role, 0)
        offsets[role] = offset + len(controller.pods)
        pods = tuple(
            pod if names.RANK in pod.labels else replace(pod, rank=offset + pod.rank)
            for pod in controller.pods
        )
        ranked[position] = replace(controller, pods=pods)
    return tuple(ranked)


@contextmanager
def refuse_malformed(path: str) -> Iterator[None]:
    """Refuse a manifest that the API server would refuse, too.

    Args:
        path: the object, for the message.

    Raises:
        InputError: reading it failed on its shape.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"it is not a manifest that a cluster would take ({type(error).__name__}: {error})",
            path=path,
            hint="look at its YAML: a field is missing or has the wrong type",
        ) from error


def _flatten(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    for manifest in manifests:
        if not manifest:
            continue
        if manifest.get("kind") == "List":
            yield from _flatten(manifest.get("items") or ())
        else:
            yield manifest


def _is_hook(manifest: Manifest) -> bool:
    """Whether a manifest is a Helm hook, which checks a cluster's installation."""
    return names.HELM_HOOK in (_metadata(manifest).get("annotations") or {})


def _metadata(manifest: Manifest) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = manifest.get("metadata") or {}
    return metadata


def _name(manifest: Manifest) -> str:
    return str(_metadata(manifest).get("name", ""))


def _of(kind: str, documents: Iterable[Manifest]) -> Iterator[Manifest]:
    return (manifest for manifest in documents if manifest.get("kind") == kind)


def _refusals(documents: Iterable[Manifest]) -> Iterator[Problem]:
    for document in documents:
        kind = str(document.get("kind", ""))
        if kind == names.SENTINEL_KIND:
            yield Problem(
                "",
                "these manifests were not post-rendered",
                f"render them with `{names.CLI} render`",
            )
        elif kind not in _KNOWN_KINDS:
            yield Problem(
                f"{kind}/{_name(document)}",
                f"{kind or 'a document without a kind'} cannot run on this machine",
                "it runs Job, StatefulSet, Pod and ElasticJob; use a cluster for the rest",
            )


def _workload(documents: Iterable[Manifest]) -> str:
    labels = (_metadata(manifest).get("labels") or {} for manifest in documents)
    return next(
        (str(metadata[names.WORKLOAD]) for metadata in labels if names.WORKLOAD in metadata), ""
    )


# ---------------------------------------------------------------- Job


def _job(document: Manifest, namespace: str) -> JobPlan:
    spec = document.get("spec") or {}
    name = _name(document)
    path = f"Job/{name}"
    indexed = spec.get("completionMode") == "Indexed"
    parallelism = _count(spec, "parallelism", 1)
    if spec.get("completions") is None and parallelism > 1:
        raise InputError(
            "a work queue (parallelism without completions) cannot run on this machine",
            path=path,
            hint="set completions",
        )
    completions = _count(spec, "completions", 1)
    owner = Ownership(
        path=path,
        namespace=_metadata(document).get("namespace") or namespace,
        restart=Restart.NEVER,
        env=_COMPLETION_INDEX_ENV if indexed else None,
    )
    pods = tuple(
        pod_plan(
            spec.get("template") or {},
            owner,
            PodIdentity(
                name=f"{name}-{index}",
                index=index,
                labels=_job_labels(name, owner.namespace, index if indexed else None),
                annotations={names.JOB_COMPLETION_INDEX: str(index)} if indexed else {},
            ),
        )
        for index in range(completions)
    )
    per_index = spec.get("backoffLimitPerIndex")
    default_limit = 6 if per_index is None else _NO_INDEX_LIMIT
    return JobPlan(
        name=name,
        pods=pods,
        parallelism=parallelism,
        backoff_limit=_count(spec, "backoffLimit", default_limit),
        backoff_limit_per_index=per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        failure_rules=_failure_rules(spec),
        success_rules=_success_rules(spec),
        deadline=_seconds(spec, "activeDeadlineSeconds"),
        suspend=bool(spec.get("suspend")) and not _is_queued(document),
        ttl=_seconds(spec, "ttlSecondsAfterFinished"),
        lead=_leads(document),
    )


_COMPLETION_INDEX_ENV = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {
        "fieldRef": {"fieldPath": f"metadata.annotations['{names.JOB_COMPLETION_INDEX}']"}
    },
}


def _leads(document: Manifest) -> bool:
    """Whether the end of a controller is the end of the run."""
    return (_metadata(document).get("annotations") or {}).get(names.LEAD) == "true"


def _is_queued(document: Manifest) -> bool:
    """Whether Kueue suspends a Job; on this machine there is no queue to wait in."""
    return names.KUEUE_QUEUE in (_metadata(document).get("labels") or {})


def _job_labels(name: str, namespace: str, index: int | None) -> dict[str, str]:
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}"))
    labels = dict.fromkeys((names.JOB_NAME, names.JOB_NAME_LEGACY), name)
    labels |= dict.fromkeys((names.JOB_CONTROLLER_UID, names.JOB_CONTROLLER_UID_LEGACY), uid)
    if index is not None:
        labels[names.JOB_COMPLETION_INDEX] = str(index)
    return labels


def _failure_rules(spec: Mapping[str, Any]) -> tuple[FailureRule, ...]:
    rules = []
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        codes = rule.get("onExitCodes") or {}
        rules.append(
            FailureRule(
                action=rule.get("action", ""),
                operator=codes.get("operator", ""),
                values=frozenset(codes.get("values") or ()),
                container=codes.get("containerName") or "",
            )
        )
    return tuple(rules)


def _success_rules(spec: Mapping[str, Any]) -> tuple[SuccessRule, ...]:
    return tuple(
        SuccessRule(
            indexes=parse_indexes(rule["succeededIndexes"])
            if rule.get("succeededIndexes")
            else None,
            count=rule.get("succeededCount"),
        )
        for rule in (spec.get("successPolicy") or {}).get("rules") or ()
    )


def parse_indexes(text: str) -> frozenset[int]:
    """The indexes in a Job's notation: ``0,3-5`` is 0, 3, 4 and 5.

    Raises:
        InputError: it is not such a list.
    """
    indexes: set[int] = set()
    try:
        for part in str(text).split(","):
            first, _, last = part.partition("-")
            indexes.update(range(int(first), int(last or first) + 1))
    except ValueError as error:
        raise InputError(
            f"{text!r} is not a list of indexes", hint="write it like 0,3-5"
        ) from error
    return frozenset(indexes)


def _count(spec: Mapping[str, Any], key: str, default: int) -> int:
    value = spec.get(key)
    return default if value is None else int(value)


def _seconds(spec: Mapping[str, Any], key: str) -> float | None:
    value = spec.get(key)
    return None if value is None else float(value)


# ---------------------------------------------------------------- StatefulSet and Pod


def _stateful_set(document: Manifest, namespace: str) -> SetPlan:
    spec = document.get("spec") or {}
    name = _name(document)
    first = int((spec.get("ordinals") or {}).get("start") or 0)
    templates = [str(_name(claim)) for claim in spec.get("volumeClaimTemplates") or ()]
    owner = Ownership(
        path=f"StatefulSet/{name}",
        namespace=_metadata(document).get("namespace") or namespace,
        restart=Restart.ALWAYS,
        subdomain=str(spec.get("serviceName") or ""),
    )
    pods = tuple(
        pod_plan(
            _with_claims(spec.get("template") or {}, templates, f"{name}-{ordinal}"),
            owner,
            PodIdentity(
                name=f"{name}-{ordinal}",
                index=ordinal,
                labels={
                    names.STATEFULSET_POD_NAME: f"{name}-{ordinal}",
                    names.POD_INDEX: str(ordinal),
                },
            ),
        )
        for ordinal in range(first, first + _count(spec, "replicas", 1))
    )
    ordered = spec.get("podManagementPolicy") != "Parallel"
    return SetPlan(name=name, pods=pods, ordered=ordered, lead=_leads(document))


def _with_claims(template: Manifest, claims: Sequence[str], pod: str) -> Manifest:
    """The template with a volume for each claim template, which wins over one of its name."""
    completed = deepcopy(template)
    spec = completed.setdefault("spec", {})
    volumes = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
    spec["volumes"] = volumes + [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{pod}"}}
        for claim in claims
    ]
    return completed


def _bare(document: Manifest, namespace: str) -> BarePlan:
    name = _name(document)
    owner = Ownership(
        path=f"Pod/{name}",
        namespace=_metadata(document).get("namespace") or namespace,
        restart=Restart.ALWAYS,
    )
    pod = pod_plan(document, owner, PodIdentity(name=name, index=0))
    return BarePlan(name=name, pods=(pod,), lead=_leads(document))


_CONTROLLERS: dict[str, Callable[[Manifest, str], Controller]] = {
    "Job": _job,
    "StatefulSet": _stateful_set,
    "Pod": _bare,
}


@dataclass(frozen=True, slots=True)
class Ownership:
    """The fields that a controller adds to its pod template.

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
class PodIdentity:
    """The identity of a pod among those of its controller."""

    name: str
    index: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def pod_plan(template: Manifest, owner: Ownership, identity: PodIdentity) -> PodPlan:
    """The pod that a controller creates from its template.

    Raises:
        InputError: a container cannot run here.
    """
    safe_paths.segment(identity.name, "pod", owner.path)
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
    if all(entry.get("name") != variable["name"] for entry in env):
        container["env"] = [*env, dict(variable)]


def _containers(spec: Mapping[str, Any], owner: Ownership) -> tuple[ContainerPlan, ...]:
    restart = Restart(spec.get("restartPolicy") or owner.restart)
    # An init container that fails is tried again unless the pod never restarts.
    retry = Restart.NEVER if restart is Restart.NEVER else Restart.ON_FAILURE
    init = [
        _container(container, owner.path, ContainerKind.SIDECAR, Restart.ALWAYS)
        if container.get("restartPolicy") == Restart.ALWAYS
        else _container(container, owner.path, ContainerKind.INIT, retry)
        for container in spec.get("initContainers") or ()
    ]
    main = [
        _container(container, owner.path, ContainerKind.MAIN, restart)
        for container in spec.get("containers") or ()
    ]
    if not main:
        raise InputError("its pods have no containers", path=owner.path)
    return (*init, *main)


def _container(
    manifest: Manifest, path: str, kind: ContainerKind, restart: Restart
) -> ContainerPlan:
    name = safe_paths.segment(str(manifest.get("name", "")), "container", path)
    if not manifest.get("command"):
        raise InputError(
            f"container {name!r} has no command, and an image's entrypoint cannot run "
            "on this machine",
            path=path,
            hint="give the container a command",
        )
    return ContainerPlan(
        name=name,
        kind=kind,
        restart=restart,
        manifest=manifest,
        restarts_on=_restart_codes(manifest),
    )


def _restart_codes(manifest: Manifest) -> frozenset[int]:
    """The exit codes after which a container starts again in its pod, by its own rules."""
    return frozenset(
        int(code)
        for rule in manifest.get("restartPolicyRules") or ()
        for code in (rule.get("exitCodes") or {}).get("values") or ()
        if rule["exitCodes"].get("operator") == "In"
    )


def service(document: Manifest) -> ServicePlan:
    """A Service with the ports that its pods listen on."""
    spec = document.get("spec") or {}
    ports = []
    for port in spec.get("ports") or ():
        target = port.get("targetPort")
        number = target if isinstance(target, int) else port["port"]
        ports.append((str(port.get("name") or ""), int(number)))
    return ServicePlan(
        name=_referent_name(document),
        headless=spec.get("clusterIP") == "None",
        selector=dict(spec.get("selector") or {}),
        ports=tuple(ports),
    )


def configmap(document: Manifest) -> dict[str, bytes]:
    """The files of a ConfigMap.

    Raises:
        InputError: its ``binaryData`` is not base64.
    """
    data = {key: str(text).encode() for key, text in (document.get("data") or {}).items()}
    return {**data, **_decode(document, "binaryData")}


def secret(document: Manifest) -> dict[str, bytes]:
    """The files of a Secret; ``stringData`` takes precedence over ``data``.

    Raises:
        InputError: its ``data`` is not base64.
    """
    strings = {key: str(text).encode() for key, text in (document.get("stringData") or {}).items()}
    return {**_decode(document, "data"), **strings}


def claim(document: Manifest) -> VolumeClaim:
    """A PersistentVolumeClaim."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    stays = annotations.get(names.HELM_RESOURCE_POLICY) == "keep"
    # What a volume that exists has in it is not the release's to remove.
    exists = bool((document.get("spec") or {}).get("volumeName"))
    return VolumeClaim(_referent_name(document), keep=stays or exists)


def _referent_name(document: Manifest) -> str:
    return str((document.get("metadata") or {}).get("name", ""))


def _decode(document: Manifest, field: str) -> dict[str, bytes]:
    decoded = {}
    for key, text in (document.get(field) or {}).items():
        try:
            # Line breaks are allowed inside, as the API server allows them.
            decoded[key] = base64.b64decode("".join(str(text).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(
                f"{key!r} is not base64",
                path=f"{document.get('kind')}/{_referent_name(document)}.{field}",
                hint="encode it, or put it under stringData",
            ) from error
    return decoded

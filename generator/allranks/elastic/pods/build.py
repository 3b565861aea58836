"""Building a trainer's pod: the template of its type, filled in for one member of a job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.api.job import main_index
from allranks.elastic.pods import env, resources
from allranks.elastic.pods import metadata as pod_metadata
from allranks.errors import InputError
from allranks.k8s.fields import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member
    from allranks.elastic.resources import ResourceAmounts
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest


def build_pod(job: ElasticJob, group_type: str, member: Member, target: DesiredState) -> Manifest:
    """Return the pod of a member.

    Args:
        job: the job.
        group_type: its replica type.
        member: the member.
        target: the desired state, for the addresses of the other pods.

    Raises:
        InputError: the job has no template for it; `template_of` says so beforehand.
    """
    template = template_of(job, group_type)
    if template is None:
        raise InputError(
            f"no pod of type {group_type!r} can be made: it has no template",
            path=f"spec.replicaSpecs.{group_type}.template.spec.containers",
            hint="give it a template with a container",
        )
    pod_spec = mapping(template, "spec")
    pod_containers = items(pod_spec, "containers")
    group = target.groups.get(group_type)
    resource = group.resource_of(member) if group is not None else member.resource
    main = env.per_gpu(pod_containers[main_index(pod_containers)], resource)
    env_of_trainer = env.of_trainer(job, group_type, member, target, main)
    spec = with_defaults(pod_spec)
    spec["containers"] = containers(pod_containers, env_of_trainer, resource, resources.SMALL)
    spec = with_scheduling(spec, job, group_type, member.rank)
    own = pod_metadata.of_pod(
        job, group_type, number=member.id, rank=member.rank, relaunches=member.relaunches
    )
    name = pod_metadata.pod_name(job.name, group_type, member.id)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata.metadata(job, name, own, mapping(template, "metadata")),
        "spec": avoiding(spec, member.avoid),
    }


_OWN_SMALL = {"cpu": "50m", "memory": "96Mi"}
_TERMINATION_LOG = "/dev/termination-log"  # where a container has none of its own
_GIVEN_SMALL = {"cpu": "1", "memory": "2Gi"}
_WHERE = (
    "schedulerName",
    "priorityClassName",
    "nodeSelector",
    "tolerations",
    "imagePullSecrets",
)
# Annotations of a job that are options of DLRover's master.
_OPTIONS = (
    "pending_timeout",
    "pending_fail_strategy",
    "service_type",
    "pre_check_ops",
    "pre_check_bypass",
    "training_elastic_mode",
    "enable_dashboard",
    "dashboard_port",
)
_LOCKED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}


def master(
    job: ElasticJob, attempt: int, image: str = "", account: str = names.MASTER_ACCOUNT
) -> Manifest:
    """Return the pod of a job's master.

    Args:
        job: the job.
        attempt: how many masters it has had.
        image: of our master, where the job's template names none.
        account: of our master, where the job's template names none.
    """
    spec = job.replicas.get(names.EDL_MASTER)
    template = mapping(spec.template if spec is not None else None)
    pod_spec = mapping(template, "spec") or _scheduling_of_trainers(job)
    build_spec = _own_master if job.master == "own" else _job_master
    own = pod_metadata.of_pod(job, names.EDL_MASTER, number=attempt, rank=0, relaunches=attempt)
    name = pod_metadata.master_name(job.name, attempt)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata.metadata(job, name, own, mapping(template, "metadata")),
        "spec": build_spec(job, pod_spec, image, account),
    }


def token(job: ElasticJob) -> Manifest:
    """Return the Secret for the token that pods show to their master, without the token itself."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": pod_metadata.metadata(
            job, pod_metadata.token_name(job), pod_metadata.common(job)
        ),
        "type": "Opaque",
        "immutable": True,
    }


def _scheduling_of_trainers(job: ElasticJob) -> Manifest:
    """Return the scheduling fields of a trainer's template, for the master's pod."""
    templates = (template_of(job, kind) for kind in job.trainers)
    trainer = next(
        (mapping(template, "spec") for template in templates if template is not None), {}
    )
    where = {key: trainer[key] for key in _WHERE if trainer.get(key)}
    near = mapping(trainer, "affinity", "nodeAffinity")
    return {**where, "affinity": {"nodeAffinity": near}} if near else where


def _own_master(job: ElasticJob, pod_spec: Mapping[str, Any], image: str, account: str) -> Manifest:
    spec = with_defaults({"serviceAccountName": account, **pod_spec})
    spec.setdefault("automountServiceAccountToken", True)
    spec["securityContext"] = {"runAsNonRoot": True, **spec["securityContext"]}
    container = _master_container(pod_spec)
    container = {
        "image": image,
        "command": [names.MASTER_PROGRAM],
        "ports": [{"name": "master", "containerPort": pod_metadata.MASTER_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": pod_metadata.MASTER_PORT},
            "periodSeconds": 2,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
        "securityContext": {**_LOCKED, **mapping(container, "securityContext")},
    }
    variables = (
        (names.ENV_NAMESPACE, job.namespace),
        (names.ENV_JOB, job.name),
        (names.ENV_MASTER_PORT, str(pod_metadata.MASTER_PORT)),
        (names.ENV_TERMINATION_LOG, text(container, "terminationMessagePath") or _TERMINATION_LOG),
    )
    return _with_container(
        job, spec, container, [*env.token(job), *env.plain(variables)], _OWN_SMALL
    )


def _job_master(job: ElasticJob, pod_spec: Mapping[str, Any], *_: str) -> Manifest:
    # Its rights are those of the account that its template names.
    spec = with_defaults({"automountServiceAccountToken": True, **pod_spec})
    container = _master_container(pod_spec)
    if not (container.get("command") or container.get("args")):
        container["command"] = ["/bin/bash", "-c", _command(job)]
    return _with_container(job, spec, container, [], _GIVEN_SMALL)


def _command(job: ElasticJob) -> str:
    words = ["python", "-m", "dlrover.python.master.main", "--platform", "k8s"]
    words += ["--namespace", job.namespace, "--job_name", job.name]
    words += ["--port", str(pod_metadata.MASTER_PORT)]
    for option in _OPTIONS:
        value = job.annotations.get(option)
        if value:
            words += [f"--{option}", value]
    return env.literal(shlex.join(words))


def _master_container(pod_spec: Mapping[str, Any]) -> Manifest:
    """Return the master's container, as its template has it."""
    containers_of_pod = items(pod_spec, "containers")
    container = dict(containers_of_pod[main_index(containers_of_pod)]) if containers_of_pod else {}
    if not text(container, "image"):
        container.pop("image", None)
    return {"name": "main", **container}


def _with_container(
    job: ElasticJob,
    spec: Manifest,
    container: Manifest,
    variables: list[Manifest],
    small: Mapping[str, str],
) -> Manifest:
    """Return a PodSpec with the master's container in its place among the others."""
    pod_containers = items(spec, "containers") or [container]
    main = main_index(pod_containers)
    pod_containers = [
        container if index == main else entry for index, entry in enumerate(pod_containers)
    ]
    own_env = items(container, "env")
    variables = env.merge([*env.addresses(), *variables], env.job_variables(job), own_env)
    return {**spec, "containers": containers(pod_containers, variables, None, small)}


# A chief without a template is a worker that leads, and an evaluator one that looks on.
_LIKE_WORKERS = (names.ROLE_CHIEF, names.ROLE_EVALUATOR)
# By what name the container goes that trains, where there are several.
_VOLCANO = "volcano"
# What names the account of a pod: the second is its older name, and counts where the first is not
# set.
ACCOUNT_FIELDS = ("serviceAccountName", "serviceAccount")
_DEFAULT_ACCOUNT = "default"  # what the API server gives a pod that names none


def template_of(job: ElasticJob, group_type: str) -> Manifest | None:
    """Return the pod template of a replica type; None where it has no container.

    Args:
        job: the job.
        group_type: the replica type. A chief or evaluator without a template has the workers'.
    """
    source = source_of(job, group_type)
    return job.replicas[source].template if source else None


def source_of(job: ElasticJob, group_type: str) -> str:
    """Return the replica type whose template is used for a type; "" for none."""
    for kind in (group_type, *([names.ROLE_WORKER] if group_type in _LIKE_WORKERS else [])):
        spec = job.replicas.get(kind)
        template = spec.template if spec is not None else None
        if template is not None and items(template, "spec", "containers"):
            return kind
    return ""


def account_of(spec: Mapping[str, Any]) -> str:
    """Return the service account that a pod of a PodSpec runs as."""
    return next((name for key in ACCOUNT_FIELDS if (name := text(spec, key))), _DEFAULT_ACCOUNT)


def containers(
    pod_containers: Sequence[Manifest],
    env: Sequence[Manifest],
    resource: ResourceAmounts | None,
    small: Mapping[str, str],
) -> list[Manifest]:
    """Return the containers of a pod: the main one with its environment and resources.

    Args:
        pod_containers: the template's.
        env: the whole environment of the main container.
        resource: what a plan asks for; None for nothing.
        small: the requests of a container that has none.
    """
    main = main_index(pod_containers)
    return [
        _container_security(_with_requests(container, resource, small) | {"env": list(env)})
        if index == main
        else _container_security(_with_requests(container, None, resources.SMALL))
        for index, container in enumerate(pod_containers)
    ]


def _with_requests(
    container: Manifest, resource: ResourceAmounts | None, small: Mapping[str, str]
) -> Manifest:
    requested = mapping(container, "resources")
    return {
        **container,
        "resources": resources.container_resources(requested, resource, small=small),
    }


def _container_security(container: Manifest) -> Manifest:
    """No privilege escalation, where nothing is said; as whom it runs is the image's own choice."""
    context = mapping(container, "securityContext")
    capabilities = mapping(context, "capabilities").get("add") or ()
    if context.get("privileged") or "SYS_ADMIN" in capabilities or "CAP_SYS_ADMIN" in capabilities:
        return container  # the API server refuses both together
    return {**container, "securityContext": {"allowPrivilegeEscalation": False, **context}}


def with_defaults(spec: Mapping[str, Any]) -> Manifest:
    """Return a PodSpec with our defaults in place of Kubernetes' own."""
    pod_spec: Manifest = {"enableServiceLinks": False, **spec, "restartPolicy": "Never"}
    if not any(spec.get(field) for field in ACCOUNT_FIELDS):
        pod_spec.setdefault("automountServiceAccountToken", False)
    context = mapping(spec, "securityContext")
    if text(spec, "os", "name") != "windows":
        pod_spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}, **context}
    return pod_spec


def with_scheduling(spec: Manifest, job: ElasticJob, group_type: str, rank: int) -> Manifest:
    """Return a PodSpec with scheduler and priority of its replica type, where it names none."""
    replica_spec = job.replicas.get(group_type)
    if replica_spec is None:
        return spec
    pod_spec = dict(spec)
    if replica_spec.batch_scheduler == _VOLCANO:
        pod_spec.setdefault("schedulerName", _VOLCANO)
    priority = _priority(replica_spec.priority, rank, replica_spec.replicas or 0)
    if priority:
        pod_spec.setdefault("priorityClassName", priority)
    return pod_spec


def _priority(priority: str, rank: int, replicas: int) -> str:
    """Return the priority class: ``high``, ``low``, or by rank where a share is given."""
    if priority in {"high", "low"}:
        return priority
    try:
        share = float(priority)
    except ValueError:
        return ""
    return "high" if rank < share * replicas else "low"


def avoiding(spec: Manifest, nodes: Sequence[str]) -> Manifest:
    """Return a PodSpec that keeps off some nodes, besides what its affinity asks.

    Args:
        spec: the PodSpec.
        nodes: their names.
    """
    if not nodes:
        return spec
    # A field selector takes one value; by name, because a label may say something else.
    off = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    affinity, near = mapping(spec, "affinity"), mapping(spec, "affinity", "nodeAffinity")
    needed = mapping(near, "requiredDuringSchedulingIgnoredDuringExecution")
    # Of several terms one must hold, so that each of them has to keep off.
    terms = items(needed, "nodeSelectorTerms") or [{}]
    terms_off_nodes = [
        {**term, "matchFields": [*items(term, "matchFields"), *off]} for term in terms
    ]
    required = {**needed, "nodeSelectorTerms": terms_off_nodes}
    node_affinity = {**near, "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}

"""The pods of kinds that know nothing of training: sets of pods of one template each.

What is relied on, each read in its project's repository on GitHub:

- kubernetes-sigs/jobset, pkg/util/placement/placement.go: the names of a JobSet's pods;
  pkg/controllers/volume_claim_policy.go: the claims that it makes, and their volumes
- volcano-sh/volcano, pkg/controllers/job/job_controller_util.go (createJobPod),
  pkg/controllers/job/plugins/env/env.go and
  pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go: a Volcano Job's variables
- kubernetes-sigs/lws, pkg/utils/pod/pod_utils.go: a LeaderWorkerSet's variables
- the documentation of Kubernetes (kubernetes.io/docs/concepts/workloads/controllers/job and
  .../statefulset): the names of pods, and JOB_COMPLETION_INDEX
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.kinds import jobset as jobset_kind
from allranks.convert.kinds import leaderworkerset, volcano_flags
from allranks.convert.original import OriginalPod, exclusive_topology
from allranks.convert.original.templates import (
    check_count,
    main,
    name_of,
    namespace_of,
    pod_count,
    pod_spec,
    pod_template,
)
from allranks.convert.pods import first_pods, podsets
from allranks.convert.programs import commands
from allranks.k8s.fields import at, items, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.document import Manifest

_JOB_KEY = "jobset.sigs.k8s.io/job-key"
_LABELLED_NODES = "alpha.jobset.sigs.k8s.io/node-selector"
_GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
_INDEX = "JOB_COMPLETION_INDEX"
_ROLES = ("chief", "ps", "worker", "evaluator", "scheduler", "server")
_PYTORCH_PORT = "23456"


def pods_of_jobset(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a JobSet that run from its start to its end.

    Args:
        manifest: the object.
    """
    name = name_of(manifest)
    jobs = items(manifest, "spec", "replicatedJobs")
    before = {
        text(entry, "name")
        for job in jobs
        for entry in items(job, "dependsOn")
        if entry.get("status") == "Complete"
    }
    claims = {
        text(template, "metadata", "name"): f"{text(template, 'metadata', 'name')}-{name}"
        for policy in items(manifest, "spec", "volumeClaimPolicies")
        for template in items(policy, "templates")
    }
    result: list[OriginalPod] = []
    for job in jobs:
        if text(job, "name") in before:
            continue
        spec = _with_claims(mapping(job, "template", "spec"), claims)
        for replica in range(_number(job, 1, "replicas")):
            check_count(len(result))
            stem = f"{name}-{text(job, 'name')}-{replica}"
            # Its webhook has its Jobs be Indexed where they say no mode.
            own = _of_job({"completionMode": "Indexed", **spec}, stem, text(job, "name"))
            domain = _own_domain(manifest, job)
            result += (
                exclusive_topology.placed(own, domain, _JOB_KEY, {"namespaceSelector": {}})
                if domain
                else own
            )
    return [replace(pod, claims=tuple(claims.values())) for pod in _ranked(result)]


def _own_domain(jobset: Manifest, job: Manifest) -> str:
    """The label of the domains of which each Job has one for itself; "" for none.

    Its webhook leaves the pods alone where nodes are labelled for its Jobs beforehand.
    """
    owners = (mapping(job, "template"), jobset)
    annotations = [mapping(owner, "metadata", "annotations") for owner in owners]
    if any(_LABELLED_NODES in own for own in annotations):
        return ""
    return next((domain for own in annotations if (domain := text(own, jobset_kind.EXCLUSIVE))), "")


def _with_claims(spec: Mapping[str, Any], claims: Mapping[str, str]) -> dict[str, Any]:
    """A JobSpec whose pods have the volumes of the claims that their containers mount."""
    pod = pod_spec(spec)
    claim_names = {
        text(mount, "name")
        for kind in ("containers", "initContainers")
        for container in items(pod, kind)
        for mount in items(container, "volumeMounts")
    }
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in claims.items()
        if volume in claim_names
    ]
    pod |= {"volumes": [*items(pod, "volumes"), *volumes]} if volumes else {}
    return {**spec, "template": {**mapping(spec, "template"), "spec": pod}}


def pods_of_job(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a Job.

    Args:
        manifest: the object.
    """
    return _ranked(_of_job(mapping(manifest, "spec"), name_of(manifest), ""))


def pods_of_statefulset(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a StatefulSet; each has a volume of each claim's name.

    Args:
        manifest: the object.
    """
    name, template = name_of(manifest), pod_template(mapping(manifest, "spec"))
    _claim(template["spec"], items(manifest, "spec", "volumeClaimTemplates"), name)
    replicas = _number(manifest, 1, "spec", "replicas")
    trainer = _trainer(template)
    return _ranked(
        [OriginalPod(f"{name}-{index}", "", index, template, trainer) for index in range(replicas)]
    )


def _claim(spec: dict[str, Any], templates: list[Manifest], name: str) -> None:
    """Have a pod mount the claims that each pod of a StatefulSet has, and keeps when it is gone."""
    for claim in templates:
        volume = text(claim, "metadata", "name")
        # N is the number of the pod: so the pods are alike.
        reference = {"claimName": f"{volume}-{name}-N"}
        spec["volumes"] = [
            *(own for own in items(spec, "volumes") if text(own, "name") != volume),
            {"name": volume, "persistentVolumeClaim": reference},
        ]


def pods_of_leaderworkerset(manifest: Manifest) -> list[OriginalPod]:
    """The pods of the first group of a LeaderWorkerSet.

    Args:
        manifest: the object.
    """
    name, namespace = name_of(manifest), namespace_of(manifest)
    group = mapping(manifest, "spec", "leaderWorkerTemplate")
    size = _number(group, 1, "size")
    worker = pod_template(group, "workerTemplate")
    leader = pod_template(group, "leaderTemplate") if "leaderTemplate" in group else worker
    own_claims = items(group, "volumeClaimTemplates")
    _claim(leader["spec"], own_claims, name)
    if worker is not leader:
        _claim(worker["spec"], own_claims, f"{name}-0")
    leads, works = _trainer(leader), _trainer(worker)
    result = []
    for index in range(size):
        env = {
            "LWS_LEADER_ADDRESS": f"{name}-0.{name}.{namespace}",
            "LWS_GROUP_SIZE": str(size),
            "LWS_WORKER_INDEX": str(index),
        }
        stem = f"{name}-0-{index}" if index else f"{name}-0"
        template, trainer = (worker, works) if index else (leader, leads)
        result.append(OriginalPod(stem, "", index, template, trainer, env=env))
    if domain := text(manifest, "metadata", "annotations", leaderworkerset.EXCLUSIVE):
        result = list(exclusive_topology.placed(result, domain, _GROUP_KEY, {}))
    return _ranked(result)


def pods_of_volcano(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a Volcano Job.

    Args:
        manifest: the object.
    """
    name, plugins = name_of(manifest), mapping(manifest, "spec", "plugins")
    scheduler = text(manifest, "spec", "schedulerName") or "volcano"
    tasks = items(manifest, "spec", "tasks")
    volumes = items(manifest, "spec", "volumes")
    own_claims = {
        number: f"{name}-volume-{number}"
        for number, volume in enumerate(volumes)
        if isinstance(volume.get("volumeClaim"), dict)
    }
    claims = [
        (text(volume, "mountPath"), own_claims.get(number) or text(volume, "volumeClaimName"))
        for number, volume in enumerate(volumes)
        if number in own_claims or volume.get("volumeClaimName")
    ]
    tensorflow = volcano_flags.read("tensorflow", texts(plugins.get("tensorflow"))).values
    role_of_task = {task: role for role, task in tensorflow.items() if role != "port"}
    result: list[OriginalPod] = []
    for task in tasks:
        template = pod_template(task)
        template["spec"].setdefault("schedulerName", scheduler)
        _mount(template["spec"], claims)
        own, trainer = _of_pytorch(manifest, text(task, "name")), _trainer(template)
        for index in range(_number(task, 1, "replicas")):
            env: dict[str, str] = {}
            if "env" in plugins:
                env |= {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)}
            rank = {} if own.first is None else {"RANK": str(own.first and own.first + index)}
            env |= {**own.variables, **rank}
            task_name = role_of_task.get(text(task, "name"), text(task, "name"))
            result.append(
                OriginalPod(
                    f"{name}-{task_name}-{index}",
                    task_name,
                    index,
                    template,
                    trainer,
                    env=env,
                    claims=tuple(own_claims.values()),
                )
            )
    return _ranked(result)


@dataclass(frozen=True, slots=True)
class _Plugin:
    """What the plugin pytorch of a Volcano Job sets in the pods of a task.

    Attributes:
        variables: those of all of its pods.
        first: the rank of its first pod; None where they have none.
    """

    variables: Mapping[str, str]
    first: int | None = None


def _of_pytorch(manifest: Manifest, task: str) -> _Plugin:
    """What the plugin pytorch sets in a task's pods; nothing where the job does not have it."""
    if "pytorch" not in mapping(manifest, "spec", "plugins"):
        return _Plugin({})
    words = texts(mapping(manifest, "spec", "plugins").get("pytorch"))
    flags = volcano_flags.read("pytorch", words).values
    master, worker = flags.get("master", "master"), flags.get("worker", "worker")
    replicas = {
        text(other, "name"): _number(other, 1, "replicas")
        for other in items(manifest, "spec", "tasks")
    }
    if master not in replicas:
        return _Plugin({})
    name = name_of(manifest)
    variables = {
        "MASTER_ADDR": f"{name}-{master}-0.{name}",
        "MASTER_PORT": flags.get("port", _PYTORCH_PORT),
        "WORLD_SIZE": str(sum(replicas.get(role, 0) for role in {master, worker})),
    }
    return _Plugin(variables, 1 if task == worker else 0 if task == master else None)


def pods_of_hyperpod(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a HyperPodPyTorchJob.

    Args:
        manifest: the object.
    """
    result: list[OriginalPod] = []
    for replica in items(manifest, "spec", "replicaSpecs"):
        template = pod_template(replica)
        trainer = _trainer(template)
        for index in range(_number(replica, 1, "replicas")):
            stem = f"{name_of(manifest)}-{text(replica, 'name')}-{index}"
            result.append(OriginalPod(stem, "", index, template, trainer))
    return _ranked(result)


def _of_job(spec: Mapping[str, Any], stem: str, role: str) -> list[OriginalPod]:
    """The pods of a Job: as many as have to be complete."""
    count = _number(spec, _number(spec, 1, "parallelism"), "completions")
    indexed = spec.get("completionMode") == "Indexed"
    template = pod_template(spec)
    trainer = _trainer(template)
    return [
        OriginalPod(
            f"{stem}-{index}",
            role,
            index,
            template,
            trainer,
            env={_INDEX: str(index)} if indexed else {},
        )
        for index in range(count)
    ]


def _trainer(template: Mapping[str, Any]) -> str:
    """The name of the container of a template that trains."""
    containers = items(template, "spec", "containers")
    own = containers[podsets.main_container(template)] if containers else {}
    return main(template, text(own, "name"))


def _ranked(pods: list[OriginalPod]) -> list[OriginalPod]:
    """Pods with the role that each has here: by what runs, or by what their set is called."""
    by_template: dict[tuple[int, str], bool] = {}  # the pods of a set share theirs
    for pod in pods:
        key = (id(pod.template), pod.container)
        if key not in by_template:
            by_template[key] = _runs_mpi(pod)
    starts = [by_template[id(pod.template), pod.container] for pod in pods]
    if len(pods) > 1 and all(starts) and (split_pods := _by_part(pods)):
        return _ranked(split_pods)
    result = []
    for pod, starts_others in zip(pods, starts, strict=True):
        role_by_name = next((role for role in _ROLES if pod.role.endswith(role)), names.ROLE_NODE)
        role = "launcher" if starts_others else "worker" if any(starts) else role_by_name
        result.append(replace(pod, role=role, world=len(pods)))
    return result


def _by_part(pods: list[OriginalPod]) -> list[OriginalPod]:
    """Pods of one template with the part of its script that each runs; [] where it has no parts."""
    own = pods[0].main
    parts = first_pods.split(_words(pods[0]), first_pods.index_variables(own))
    if parts is None:
        return []
    launcher, worker = map(list, parts)
    return [
        pods[0].with_main(command=launcher, args=[]),
        *(pod.with_main(command=worker, args=[]) for pod in pods[1:]),
    ]


def _runs_mpi(pod: OriginalPod) -> bool:
    return commands.read(_words(pod)).workload == "mpi"


def _words(pod: OriginalPod) -> list[str]:
    return [word for key in ("command", "args") for word in texts(pod.main.get(key))]


def _mount(spec: dict[str, Any], claims: list[tuple[str, str]]) -> None:
    """Have every container mount some claims, as Volcano does for a job's volumes."""
    for number_of_claim, (path, claim) in enumerate(claims):
        name = f"claim-{number_of_claim}"
        volume = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        spec["volumes"] = [*items(spec, "volumes"), volume]
        for container in items(spec, "containers"):
            mounts = [*items(container, "volumeMounts"), {"name": name, "mountPath": path}]
            container["volumeMounts"] = mounts


def _number(value: Any, default: int, *path: str) -> int:
    amount = at(value, *path)
    return default if amount is None else pod_count(amount)

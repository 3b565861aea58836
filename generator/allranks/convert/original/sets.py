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

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.kinds import volcano_flags
from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import (
    main,
    name_of,
    namespace_of,
    pod_spec,
    pod_template,
    replica_count,
)
from allranks.convert.pods import first_pods, podsets
from allranks.convert.programs import commands
from allranks.k8s.fields import at, items, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.document import Manifest

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
            stem = f"{name}-{text(job, 'name')}-{replica}"
            # Its webhook has its Jobs be Indexed where they say no mode.
            result += _of_job({"completionMode": "Indexed", **spec}, stem, text(job, "name"))
    return [replace(pod, claims=tuple(claims.values())) for pod in _ranked(result)]


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
    template = pod_template(mapping(manifest, "spec"))
    spec = template["spec"]
    for claim in items(manifest, "spec", "volumeClaimTemplates"):
        volume = {
            "name": text(claim, "metadata", "name"),
            "ephemeral": {"volumeClaimTemplate": {"spec": mapping(claim, "spec")}},
        }
        spec["volumes"] = [*items(spec, "volumes"), volume]
    replicas = _number(manifest, 1, "spec", "replicas")
    name = name_of(manifest)
    return _ranked([_pod(f"{name}-{index}", "", index, template, {}) for index in range(replicas)])


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
    result = []
    for index in range(size):
        env = {
            "LWS_LEADER_ADDRESS": f"{name}-0.{name}.{namespace}",
            "LWS_GROUP_SIZE": str(size),
            "LWS_WORKER_INDEX": str(index),
        }
        stem = f"{name}-0-{index}" if index else f"{name}-0"
        result.append(_pod(stem, "", index, worker if index else leader, env))
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
        for index in range(_number(task, 1, "replicas")):
            env: dict[str, str] = {}
            if "env" in plugins:
                env |= {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)}
            if "pytorch" in plugins:
                env |= _of_pytorch(manifest, text(task, "name"), index)
            task_name = role_of_task.get(text(task, "name"), text(task, "name"))
            pod = _pod(f"{name}-{task_name}-{index}", task_name, index, template, env)
            result.append(replace(pod, claims=tuple(own_claims.values())))
    return _ranked(result)


def _of_pytorch(manifest: Manifest, task: str, index: int) -> dict[str, str]:
    """The variables of a pod that the plugin pytorch of a Volcano Job sets."""
    words = texts(mapping(manifest, "spec", "plugins").get("pytorch"))
    flags = volcano_flags.read("pytorch", words).values
    master, worker = flags.get("master", "master"), flags.get("worker", "worker")
    replicas = {
        text(other, "name"): _number(other, 1, "replicas")
        for other in items(manifest, "spec", "tasks")
    }
    if master not in replicas:
        return {}
    name = name_of(manifest)
    rank = str(index + 1) if task == worker else "0" if task == master else ""
    return {
        "MASTER_ADDR": f"{name}-{master}-0.{name}",
        "MASTER_PORT": flags.get("port", _PYTORCH_PORT),
        "WORLD_SIZE": str(sum(replicas.get(role, 0) for role in {master, worker})),
        **({"RANK": rank} if rank else {}),
    }


def pods_of_hyperpod(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a HyperPodPyTorchJob.

    Args:
        manifest: the object.
    """
    result: list[OriginalPod] = []
    for replica in items(manifest, "spec", "replicaSpecs"):
        template = pod_template(replica)
        for index in range(_number(replica, 1, "replicas")):
            stem = f"{name_of(manifest)}-{text(replica, 'name')}-{index}"
            result.append(_pod(stem, "", index, template, {}))
    return _ranked(result)


def _of_job(spec: Mapping[str, Any], stem: str, role: str) -> list[OriginalPod]:
    """The pods of a Job: as many as have to be complete."""
    count = _number(spec, _number(spec, 1, "parallelism"), "completions")
    indexed = spec.get("completionMode") == "Indexed"
    template = pod_template(spec)
    return [
        _pod(f"{stem}-{index}", role, index, template, {_INDEX: str(index)} if indexed else {})
        for index in range(count)
    ]


def _pod(
    name: str, role: str, index: int, template: Mapping[str, Any], env: dict[str, str]
) -> OriginalPod:
    containers = items(template, "spec", "containers")
    own = containers[podsets.main_container(template)] if containers else {}
    container = main(template, text(own, "name"))
    return OriginalPod(name, role, index, template, container, env=env)


def _ranked(pods: list[OriginalPod]) -> list[OriginalPod]:
    """Pods with the role that each has here: by what runs, or by what their set is called."""
    starts = [_runs_mpi(pod) for pod in pods]
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
    return default if amount is None else replica_count(amount)

"""The number of pods that a workload starts together, and their PodGroup.

Shared by the dialects, which differ only in where they write it.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.edit import clone, get
from allranks.postrender.workloads import GANGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

_LABEL_MAX = names.DNS_LABEL_MAX


def gang_size(workload: Workload, ask: Scheduling) -> int:
    """The number of pods that must start together; 0 for no gang.

    A Deployment, a ReplicaSet or a bare Pod is none: its pods are of use one by one. Neither is a
    workload whose pods are not all made at once: a gang that waits for a pod which is made only
    when another one is ready, or has ended, never starts. A gang that other objects share is judged
    when all are known, by `check_shared`. Our own charts write `gang.minMember` from the layout
    (`allranks.annotations` of charts/library), which is `ask.gang_min` here.

    Raises:
        InputError: more are asked for than there are, or their number is not known.
    """
    if workload.kind not in GANGS or not ask.gang:
        return 0
    pods = workload.pods
    check_size(workload, ask)
    if (ask.gang_min or pods) != 1 and (reason := _one_after_another(workload)):
        workload.edit.note(f"no gang is written, because {reason[0]}", reason[1])
        return 0
    if ask.gang_min:
        return ask.gang_min
    if pods is None:
        workload.edit.refuse(
            ("gang", "minMember"),
            "the number of pods cannot be read from the manifest",
            "give it: --gang-min N",
        )
    return pods


def check_size(workload: Workload, ask: Scheduling) -> None:
    """Check that a gang is not larger than its workload.

    Raises:
        InputError: more are asked for than there are.
    """
    if ask.gang_min and workload.pods and not ask.gang_name:
        _check(workload, ask.gang_min, workload.pods)


def _one_after_another(workload: Workload) -> tuple[str, str] | None:
    """The reason that pods are not created at once, and a fix; None where they are."""
    if workload.kind == "StatefulSet":
        policy = workload.edit.get(("spec", "podManagementPolicy"))
        if policy == "Parallel" or workload.pods in (0, 1):
            return None
        cause = f"podManagementPolicy is {policy or 'OrderedReady, the default'}"
        return (
            f"{cause}: each pod is made when the one before it is ready",
            "set podManagementPolicy: Parallel for a gang",
        )
    if workload.kind != "JobSet":
        return _in_waves(workload.edit.get(workload.job))
    jobs = [job for job in workload.edit.items(("spec", "replicatedJobs")) if isinstance(job, dict)]
    waiting = next((job.get("name") for job in jobs if job.get("dependsOn")), None)
    if waiting is not None:
        return f"the job {waiting} waits for others (dependsOn)", "remove dependsOn for a gang"
    order = workload.edit.get(("spec", "startupPolicy", "startupPolicyOrder"))
    if order == "InOrder" and len(jobs) > 1:
        return (
            "startupPolicyOrder is InOrder: each job is made when the one before it is ready",
            "set startupPolicyOrder: AnyOrder for a gang",
        )
    reasons = (_in_waves(job.get("template")) for job in jobs)
    return next((reason for reason in reasons if reason), None)


def _in_waves(job: Any) -> tuple[str, str] | None:
    """The reason that a Job creates pods only after others; None where it does not."""
    completions, parallelism = get(job, ("spec", "completions")), get(job, ("spec", "parallelism"))
    parallelism = 1 if parallelism is None else parallelism
    if not isinstance(completions, int) or not isinstance(parallelism, int):
        return None
    if not 0 < parallelism < completions:
        return None
    reason = f"completions are {completions} and parallelism is {parallelism}"
    return (
        f"{reason}: some pods are made only when others have ended",
        "set parallelism to completions for a gang",
    )


def refuse_other_group(workload: Workload, ask: Scheduling, group: str) -> None:
    """Refuse gang options where the chart has put the pods into a group of its own.

    Args:
        workload: the object.
        ask: what it asks.
        group: the group that the pods name.

    Raises:
        InputError: the queue, the gang or the topology is asked for; they are that group's.
    """
    if ask.queue or ask.gang_min or ask.gang_timeout or ask.topology.is_set:
        workload.edit.refuse(
            ("metadata", "name"),
            f"the pods are members of the PodGroup {group!r}, which is not ours to change: "
            "queue, gang and topology are said there",
            "say them in the chart's own values, or choose other objects: --kind, --name",
        )


def check_existing(
    workload: Workload, ask: Scheduling, ours: dict[str, Any], existing: Any
) -> None:
    """Check that an existing PodGroup agrees with the request.

    Args:
        workload: the object whose gang it is.
        ask: what it asks.
        ours: the spec of the PodGroup that would have been added.
        existing: the spec of the one that is there.

    Raises:
        InputError: it says something else.
    """
    requested = {
        "minMember": ask.gang_min,
        "queue": ask.queue,
        "priorityClassName": ask.priority_class,
        "scheduleTimeoutSeconds": ask.gang_timeout,
        "networkTopology": ask.topology.is_set,
        "topologyConstraint": ask.topology.is_set,
    }
    for key, value in ours.items():
        there = get(existing, (key,))
        if requested.get(key) and there != value:
            workload.edit.refuse(
                ("metadata", "name"),
                f"{key} of its PodGroup is {there!r} in the stream, and {value!r} is asked for",
                "say it in one place: in that PodGroup, or by the options",
            )


def check_shared(members: Iterable[tuple[Workload, Scheduling]]) -> None:
    """Check the gangs that several objects share.

    Args:
        members: each object of each such gang, with what it asks.

    Raises:
        InputError: more pods must start together than the objects make.
    """
    pod_totals: dict[tuple[str, str], int | None] = {}
    requested = {}
    for workload, ask in members:
        key = (str(workload.edit.get(("metadata", "namespace"))), ask.gang_name)
        before, pods = pod_totals.get(key, 0), workload.pods
        # What has no pods is suspended, and has them later.
        pod_totals[key] = before + pods if pods and before is not None else None
        requested[key] = workload, ask
    for key, (workload, ask) in requested.items():
        pods = pod_totals[key]
        if pods is not None:
            _check(workload, ask.gang_min, pods)


def _check(workload: Workload, least: int, pods: int) -> None:
    if least > pods:
        workload.edit.refuse(
            ("gang", "minMember"),
            f"{least} pods must start together, but only {pods} are made; "
            "the job would wait for ever",
            f"ask for {pods} at most",
        )


def name(workload: Workload, ask: Scheduling) -> str:
    """The name of the workload's gang, checked to be a label's value; "" where it has none."""
    own = ask.gang_name or workload.name
    return own and label_value(workload, own, "the PodGroup's name")


def group(
    workload: Workload, ask: Scheduling, api_version: str, spec: dict[str, Any]
) -> dict[str, Any]:
    """The workload's PodGroup: its name, its namespace and its release's labels."""
    metadata: dict[str, Any] = {"name": name(workload, ask)}
    for key in ("namespace", "labels"):
        value = workload.edit.get(("metadata", key))
        if value:
            metadata[key] = clone(value)
    if ask.gang_name:
        # It is of all objects that share it.
        metadata.get("labels", {}).pop(names.GROUP, None)
    annotations = {
        key: value
        for key in (names.HELM_POSTRENDER_FILENAME, names.VALUES_DIGEST)
        if (value := workload.edit.get(("metadata", "annotations", key))) is not None
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def label_value(workload: Workload, text: str, noun: str) -> str:
    """The text, if Kubernetes accepts it as a label's value.

    Raises:
        InputError: the API server would refuse it.
    """
    inner = text.replace("-", "").replace("_", "").replace(".", "")
    plain = inner.isascii() and inner.isalnum() and text[0].isalnum() and text[-1].isalnum()
    if not plain or len(text) > _LABEL_MAX:
        workload.edit.refuse(
            ("metadata", "labels"),
            f"{noun} is written as a label, and {text!r} cannot be one",
            f"use letters, digits and - _ . inside, at most {_LABEL_MAX}",
        )
    return text

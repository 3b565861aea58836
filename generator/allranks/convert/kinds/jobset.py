"""JobSets as values.

A JobSet is Jobs of several templates that start, fail and end together. It is a job of ours where
its pods are ranks of one torchrun, a launcher with workers of MPI, or roles of one framework. What
runs to its end before them (``dependsOn: Complete``) is no part of a run here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import configmap_scripts, pod_jobs, pod_names
from allranks.convert.kinds import job
from allranks.convert.pods import claims, pod_values, podsets
from allranks.convert.pods.claims import Claim
from allranks.convert.verdicts import (
    MANAGED_BY,
    METADATA,
    Fields,
    Rule,
    Rules,
    carried,
    changed,
    lost,
)
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.pods.podsets import PodSet
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "JobSet"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_OWN = ("jobset.sigs.k8s.io/", "alpha.jobset.sigs.k8s.io/")
_JOBS: FieldPath = ("spec", "replicatedJobs")
_CLAIMS: FieldPath = ("spec", "volumeClaimPolicies")
_DONE = "the job is done when its launcher, its lead or its first rank is"
_J = "spec.replicatedJobs[]"

FIELDS: tuple[Rule, ...] = (
    *METADATA,
    changed(f"{_J}.name", "", "a job's pods have the roles of their workload"),
    changed(f"{_J}.groupName", "", "it is a label, and nothing waits for it"),
    carried(f"{_J}.replicas", "nodes"),
    changed(
        f"{_J}.dependsOn[].**",
        "",
        "the pods of a run wait for those that they need, and a launcher for its workers",
    ),
    changed(f"{_J}.template.metadata.**", "", "the chart names and labels its Jobs itself"),
    *(rule.below(f"{_J}.template.spec") for rule in job.SPEC),
    *pod_values.fields_at(f"{_J}.template.spec.template"),
    changed("spec.network.**", "", "the chart makes the names by which the pods find each other"),
    changed("spec.successPolicy.**", "", _DONE),
    changed(
        "spec.failurePolicy.maxRestarts",
        "runPolicy.backoffLimit",
        "a pod that fails is replaced so often; ranks of the others start anew in their pods, and "
        "the trials of a sweep go on",
    ),
    changed("spec.failurePolicy.restartStrategy", "", "a pod that fails is replaced"),
    lost(
        "spec.failurePolicy.rules[].**",
        "failures count alike in all pods; runPolicy.fatalExitCodes has those that fail the job",
    ),
    changed("spec.startupPolicy.**", "", "each pod waits for the names that it must know"),
    carried("spec.suspend", "runPolicy.suspend"),
    changed("spec.coordinator.**", "", "rank 0 is found by the chart's own Service"),
    MANAGED_BY.below("spec"),
    carried("spec.ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished"),
    *claims.rules("spec.volumeClaimPolicies[].templates[]"),
    carried("spec.volumeClaimPolicies[].retentionPolicy.whenDeleted", "storage.*.keep"),
)
_RULES = Rules(FIELDS)


@dataclass(frozen=True, slots=True)
class _ReplicatedJob:
    """A replicated job.

    Attributes:
        podset: its pods.
        path: where it stands.
        after: names of the jobs that have to be complete before it.
    """

    podset: PodSet
    path: FieldPath
    after: tuple[str, ...]


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A JobSet as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: its pods are no job that has a form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    jobs = _main(fields, _replicated_jobs(fields))
    sets = [item.podset for item in jobs]
    shape = configmap_scripts.shape(fields, sets, KIND, context)
    spec: FieldPath = (*jobs[0].path, "template", "spec")
    policy: dict[str, FieldPath] = job.policy_of(spec)
    policy |= {key: ("spec", key) for key in policy if fields.has("spec", key)}
    queue = pod_jobs.convert(fields, context, shape, policy, _claims(fields, sets))
    for item in jobs:
        own: FieldPath = (*item.path, "template", "metadata")
        _labels(fields, own)
        job.failure_policy(fields, (*item.path, "template", "spec"), item.podset)
    _retries(fields, jobs)
    _success(fields, sets, shape)
    _exclusive(fields, jobs)
    if fields.text("spec", "failurePolicy", "restartStrategy") == "InPlaceRestart":
        why = "the agent in its pods asks JobSet, which is not there: leave it out"
        fields.leave(("spec", "failurePolicy", "restartStrategy"), why)
    name = fields.text("metadata", "name")
    pod_names.put_right(
        fields, sets, [f"{name}-{podset.name}" for podset in sets], f"{name}-{sets[0].name}-0-0"
    )
    pod_names.note_service(fields, fields.text("spec", "network", "subdomain") or name)
    return finish.conversion(fields, queue=queue)


def _replicated_jobs(fields: Fields) -> list[_ReplicatedJob]:
    jobs = []
    for index, item in fields.items(*_JOBS):
        here: FieldPath = (*_JOBS, index)
        name = fields.text(*here, "name") or f"number {index + 1}"
        own = job.pods_of(fields, (*here, "template", "spec"), name)
        replicas = fields.number(*here, "replicas")
        total = own.replicas * (1 if replicas is None else replicas)
        podset = podsets.resized(own, total, (*here, "replicas"))
        after = tuple(
            str(entry.get("name"))
            for entry in k8s.items(item, "dependsOn")
            if entry.get("status") == "Complete"
        )
        jobs.append(_ReplicatedJob(podset, here, after))
    if not jobs:
        raise InputError(
            "there are no replicated jobs",
            path="spec.replicatedJobs",
            hint="write the whole object",
        )
    return jobs


def _main(fields: Fields, jobs: Sequence[_ReplicatedJob]) -> list[_ReplicatedJob]:
    """The jobs that run from start to end; the others are over before these begin."""
    before = {name for item in jobs for name in item.after}
    main = [item for item in jobs if item.podset.name not in before and item.podset.replicas]
    if not main:
        raise InputError(
            "it has no pods that run to its end", path="spec.replicatedJobs", hint="set replicas"
        )
    for item in jobs:
        if item.podset.name in before:
            fields.leave(
                item.path,
                f"{item.podset.name} is over before the training starts: run it first, as a Job of "
                "its own, or do the same in setup",
            )
        elif not item.podset.replicas:
            fields.change(item.path, "it has no pods")
    job_names = {item.podset.name for item in jobs}
    for item in main:
        for number, entry in fields.items(*item.path, "dependsOn"):
            why = ""
            if entry.get("name") not in job_names:
                why = f"there is no replicated job {entry.get('name')}, and the API refuses it"
            elif entry.get("status") == "Complete":
                why = f"start the job when {entry.get('name')} is done"
            if why:
                fields.leave((*item.path, "dependsOn", number), why)
    return main


def _claims(fields: Fields, sets: Sequence[PodSet]) -> list[Claim]:
    result = []
    for number, _ in fields.items(*_CLAIMS):
        here: FieldPath = (*_CLAIMS, number)
        keep = fields.text(*here, "retentionPolicy", "whenDeleted") == "Retain"
        for index, template in fields.items(*here, "templates"):
            name = k8s.text(template, "metadata", "name")
            mounts = claims.mounts(fields, [podset.path for podset in sets], name)
            result.append(Claim(name, (*here, "templates", index, "spec"), mounts, keep=keep))
        fields.keep((*here, "retentionPolicy"), "storage.*.keep")
    return claims.movable(fields, result)


def _labels(fields: Fields, path: FieldPath) -> None:
    """Labels and annotations of the Jobs: those that a queue or a scheduler reads."""
    for kind in ("labels", "annotations"):
        for key, value in fields.mapping(*path, kind).items():
            if not str(key).startswith(_OWN) and isinstance(value, str):
                fields.carry((*path, kind, key), (kind, str(key)), value)


def _retries(fields: Fields, jobs: Sequence[_ReplicatedJob]) -> None:
    """How often a pod may fail: a JobSet starts anew when a Job of it has failed."""
    restarts: FieldPath = ("spec", "failurePolicy", "maxRestarts")
    times = fields.number(*restarts) or 0
    limits = [
        limit
        for item in jobs
        if (limit := fields.number(*item.path, "template", "spec", "backoffLimit")) is not None
    ]
    limit = max(limits, default=job.BACKOFF_LIMIT)
    own = "" if limits else ", which is Kubernetes' own number"
    failures = (times + 1) * (limit + 1) - 1
    job.retry(fields, failures, restarts)
    fields.change(
        restarts,
        f"the set starts anew {plural(times, 'time')}, each when a Job of it has had "
        f"{limit} retries{own}: {failures} in all, and a pod that fails is replaced alone",
        "runPolicy.backoffLimit",
    )


def _success(fields: Fields, sets: Sequence[PodSet], shape: podsets.Shape) -> None:
    """Say of a success policy where the job is done at another time here."""
    policy: FieldPath = ("spec", "successPolicy")
    targets = set(fields.words(*policy, "targetReplicatedJobs"))
    names = {podset.name for podset in sets}
    leads = {podset.name for role in ("Launcher", "Chief") for podset in shape.roles.get(role, ())}
    is_any = fields.text(*policy, "operator") == "Any" and len(sets) > 1 and targets != leads
    if is_any or (targets and targets not in (names, leads)):
        fields.leave(policy, _DONE)
    elif targets in (set(), names):
        end_of_run.note(fields, "a JobSet is done when all of its Jobs are")


def _exclusive(fields: Fields, jobs: Sequence[_ReplicatedJob]) -> None:
    """The domain that the JobSet, or one of its jobs, has for itself."""
    is_alone = len(jobs) == 1 and fields.number(*jobs[0].path, "replicas") in (None, 1)
    below: FieldPath = ("metadata", "annotations", EXCLUSIVE)
    for above in ((), *((*item.path, "template") for item in jobs)):
        pod_jobs.exclusive_topology(fields, (*above, *below), is_alone=is_alone)

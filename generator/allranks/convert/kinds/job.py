"""Jobs of batch/v1 as values.

An Indexed Job that runs torchrun or mpirun is the job that those start. Pods that are told nothing
of each other are the trials of a sweep: the same program, once for each completion.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import configmap_scripts, pod_jobs, pod_names
from allranks.convert.pods import pod_values, podsets
from allranks.convert.pods.podsets import PodSet
from allranks.convert.verdicts import (
    MANAGED_BY,
    METADATA,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

# What Kubernetes takes where a Job does not say.
BACKOFF_LIMIT = 6
# What is said of a set, whose pods no number of failures ends.
FOR_EVER = (
    "its controller starts pods anew for ever; here a pod that fails is replaced as often as "
    "runPolicy.backoffLimit says"
)
# The most retries of a pod that any job needs.
_RETRIES_MAX = 2**31 - 1
EXIT_CODES = range(1, 256)
_SELECTS = "the chart's own labels select the pods"

# Of a JobSpec, without its template.
SPEC = (
    changed("parallelism", "nodes, or sweep.parallel", "all ranks of a job run at the same time"),
    carried("completions", "nodes, or the trials of a sweep"),
    changed("completionMode", "nodes, or the trials of a sweep", "each pod has an index, always"),
    changed(
        "backoffLimit", "runPolicy.backoffLimit", "it counts for each pod, and no disruption does"
    ),
    carried("activeDeadlineSeconds", "runPolicy.activeDeadlineSeconds"),
    carried("ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished"),
    carried("suspend", "runPolicy.suspend"),
    changed("selector.**", "", _SELECTS),
    changed("manualSelector", "", _SELECTS),
    changed("podReplacementPolicy", "", "a pod is replaced when it has failed"),
    lost("backoffLimitPerIndex", "in a set of jobs runPolicy.backoffLimit follows backoffLimit"),
    lost("maxFailedIndexes", "a job fails with the first pod that has no retry left"),
    lost(
        "successPolicy.**",
        "when a run is done is the chart's to say: with the first pod that is, where they meet by "
        "its c10d, and else with all of them",
    ),
    MANAGED_BY,
    changed("podFailurePolicy.rules[].onPodConditions[].**", "", "disruptions do not count here"),
    lost(
        "podFailurePolicy.rules[].**",
        "runPolicy.fatalExitCodes has the exit codes that fail the job",
    ),
    lost("scheduling.**", "scheduling.dialect makes a gang of a job"),
)
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.backoffLimitPerIndex", "runPolicy.backoffLimit"),
    *(rule.below("spec") for rule in SPEC),
    *pod_values.fields_at("spec.template"),
)
_RULES = Rules(FIELDS)


def _note_ranks(fields: Fields, podset: PodSet) -> None:
    """Say of pods without an index that nothing told them their rank, where nothing else did."""
    if fields.text("spec", "completionMode") == "Indexed" or fields.values.get("nodes", 1) == 1:
        return
    text = "\n".join(podset.words)
    has_ranks = {"RANK", "WORLD_SIZE"} & podset.variables or _RANK.search(text)
    if fields.values.get("workload") == "torchrun" and not has_ranks:
        address = podset.env.get("MASTER_ADDR", "")
        there = f", and MASTER_ADDR was {address}" if address else ""
        fields.note(
            f"nothing set RANK or WORLD_SIZE in its pods, which have no index{there}: unless its "
            "program found the others otherwise, they did not meet; here they are told, and train "
            "together"
        )


# A rank, or a number of ranks, that the words of a pod say.
_RANK = re.compile(r"--(?:node[-_]rank|nnodes|rdzv)|\b(?:RANK|WORLD_SIZE)=")


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A Job as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has no pods, or they are of no form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown="a Job has no such field")
    spec: FieldPath = ("spec",)
    podset = pods_of(fields, spec, "its pods")
    shape = podsets.shape([podset], "Job", context.entrypoint)
    shape = configmap_scripts.shape_of_script(fields, podset, shape, context)
    queue = pod_jobs.convert(fields, context, shape, policy_of(spec))
    _note_ranks(fields, podset)
    limit = fields.number("spec", "backoffLimit")
    retry(fields, BACKOFF_LIMIT if limit is None else limit, ("spec", "backoffLimit"))
    is_sweep = shape.key is None and podset.replicas > 1
    if is_sweep and limit is None and not fields.has("spec", "backoffLimitPerIndex"):
        fields.note(_DEFAULT_OF_EACH)
    failure_policy(fields, spec, podset)
    _of_indices(fields, is_sweep=shape.key is None)
    if not fields.has("spec", "successPolicy"):
        end_of_run.note(fields, end_of_run.OF_JOB)
    name = fields.text("metadata", "name")
    pod_names.put_right(fields, [podset], [name], f"{name}-0")
    service = fields.text(*podset.path, "spec", "subdomain")
    if context.find("Service", service) is None:  # else it is said of that
        pod_names.note_service(fields, service)
    return finish.conversion(fields, queue=queue)


_DEFAULT_OF_EACH = (
    f"a Job without a backoffLimit gives up after {BACKOFF_LIMIT} failures of all its pods; here "
    "each trial may fail as often: set runPolicy.backoffLimit, and sweep.maxFailedTrials"
)


def policy_of(spec: FieldPath) -> dict[str, FieldPath]:
    """Where a JobSpec has what a run's policy says."""
    keys = ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
    return {key: (*spec, key) for key in keys}


def pods_of(fields: Fields, spec: FieldPath, name: str) -> PodSet:
    """The pods of a JobSpec.

    Args:
        fields: the object.
        spec: where the JobSpec stands in it.
        name: what the pods are called.

    Raises:
        InputError: it has no template with a container.
    """
    path: FieldPath = (*spec, "template")
    check_containers(fields, path)
    parallelism, completions = (fields.number(*spec, key) for key in ("parallelism", "completions"))
    parallel = 1 if parallelism is None else parallelism
    replicas = parallel if completions is None else completions
    return PodSet(
        name=name,
        replicas=replicas,
        path=path,
        template=fields.mapping(*path),
        parallel=min(replicas, parallel),
        sizes=((*spec, "parallelism" if completions is None else "completions"),),
        parallelism=(*spec, "parallelism"),
    )


def replicas_of(fields: Fields, here: FieldPath, name: str) -> PodSet:
    """The pods of what has replicas of one template: a StatefulSet, a task, a replica spec.

    Args:
        fields: the object.
        here: where its `replicas` and its `template` stand.
        name: what the pods are called.

    Raises:
        InputError: it has no template with a container.
    """
    path: FieldPath = (*here, "template")
    check_containers(fields, path)
    replicas = fields.number(*here, "replicas")
    return PodSet(
        name=name,
        replicas=1 if replicas is None else replicas,
        path=path,
        template=fields.mapping(*path),
        sizes=((*here, "replicas"),),
    )


def check_containers(fields: Fields, path: FieldPath) -> None:
    """Refuse a pod template without a container.

    Args:
        fields: the object.
        path: the template in it.

    Raises:
        InputError: it has none.
    """
    if not k8s.items(fields.mapping(*path), "spec", "containers"):
        raise InputError(
            "there is no container in it",
            path=dotted((*path, "spec", "containers")),
            hint="write the whole object",
        )


def retry(fields: Fields, times: int, *sources: FieldPath) -> None:
    """Put how often a pod may fail.

    Args:
        fields: the object.
        times: how often.
        sources: the fields that say so.
    """
    times = min(max(times, 0), _RETRIES_MAX)
    fields.put(("runPolicy", "backoffLimit"), times, sources[0] if sources else ())


def failure_policy(fields: Fields, spec: FieldPath, podset: PodSet) -> None:
    """Carry the exit codes that fail a Job at once."""
    fatal: list[int] = []
    for index, rule in fields.items(*spec, "podFailurePolicy", "rules"):
        here: FieldPath = (*spec, "podFailurePolicy", "rules", index)
        codes = k8s.at(rule, "onExitCodes", "values")
        own = k8s.text(rule, "onExitCodes", "containerName") in ("", podset.main.get("name"))
        is_list = k8s.text(rule, "onExitCodes", "operator") == "In" and isinstance(codes, list)
        if rule.get("action") in ("FailJob", "FailIndex") and is_list and own and codes:
            fatal += [code for code in codes if isinstance(code, int) and code in EXIT_CODES]
            fields.say(here, Outcome.CARRIED, "runPolicy.fatalExitCodes")
        elif rule.get("action") == "Ignore" and not rule.get("onExitCodes"):
            fields.change(here, "disruptions do not count here")
    if fatal:
        fields.put(("runPolicy", "fatalExitCodes"), sorted(set(fatal)))


def _of_indices(fields: Fields, *, is_sweep: bool) -> None:
    """What an Indexed Job says of single indices, which are ranks here, or trials."""
    per_index = fields.number("spec", "backoffLimitPerIndex")
    if per_index is None:
        return
    retry(fields, per_index, ("spec", "backoffLimitPerIndex"))
    fields.say(("spec", "backoffLimitPerIndex"), Outcome.CARRIED, "runPolicy.backoffLimit")
    if not is_sweep:
        return
    most = fields.number("spec", "maxFailedIndexes")
    fields.put(("sweep", "maxFailedTrials"), "" if most is None else most)
    fields.say(("spec", "maxFailedIndexes"), Outcome.CARRIED, "sweep.maxFailedTrials")


def templates(sets: Sequence[PodSet]) -> list[FieldPath]:
    """Where the templates of some sets stand."""
    return [podset.path for podset in sets]

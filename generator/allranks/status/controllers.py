"""One controller of pods: how many pods it is made of, what became of them, and how it ended.

The sentences are those of the local runtime, so that a run is told in the same words wherever it
runs; a reason that we do not know keeps Kubernetes' own sentence.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.k8s.fields import (
    clause,
    condition,
    count,
    digits,
    holds,
    items,
    mapping,
    number,
    numbers,
    text,
    when,
)
from allranks.k8s.ranges import Indexes, read_pairs
from allranks.model.status import Phase
from allranks.status import processes
from allranks.status.cause import Cause, Priority
from allranks.status.controller_facts import (
    ELASTIC_JOB,
    JOB,
    STATEFUL_SET,
    ControllerFacts,
    ControllerOutcome,
    ControllerVerdict,
    Members,
)
from allranks.status.replica_specs import replica_specs
from allranks.status.retries import Retries, fails_at_once, out_of_retries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks.model.processes import Processes


__all__ = ["KINDS", "ControllerFacts", "ControllerOutcome", "ControllerVerdict", "owners", "read"]

KINDS = (JOB, STATEFUL_SET)
_BACKOFF_LIMIT = 6  # Kubernetes' own default
_EXIT_CODE = re.compile(
    r"Container (?P<container>\S+) for pod [^/\s]+/(?P<pod>\S+) failed with exit code (?P<code>\d+)"
)


def read(manifest: Manifest) -> ControllerFacts:
    """Return the facts about a Job or a StatefulSet."""
    return _job(manifest) if text(manifest, "kind") == JOB else _set(manifest)


def _common(manifest: Manifest) -> dict[str, Any]:
    metadata, template = mapping(manifest, "metadata"), mapping(manifest, "spec", "template")
    labels = {**mapping(template, "metadata", "labels"), **mapping(metadata, "labels")}
    annotations = mapping(metadata, "annotations")
    return {
        "kind": text(manifest, "kind"),
        "name": text(metadata, "name"),
        "uid": text(metadata, "uid"),
        "role": text(labels, names.ROLE) or names.ROLE_NODE,
        "workload": text(labels, names.WORKLOAD),
        "queue": text(labels, names.KUEUE_QUEUE),
        "created_at": when(metadata, "creationTimestamp"),
        "deleting": bool(text(metadata, "deletionTimestamp")),
        "least": _least(manifest),
        "leads": text(labels, names.ROLE) == names.ROLE_LAUNCHER
        or annotations.get(names.LEAD) == "true",
    }


# ---------------------------------------------------------------- Job


def _job(manifest: Manifest) -> ControllerFacts:
    spec, status = mapping(manifest, "spec"), mapping(manifest, "status")
    parallelism = number(spec, "parallelism")
    completions = number(spec, "completions")
    expected = max(0, completions if completions is not None else _or(parallelism, 1))
    conditions = items(status, "conditions")
    indexed = text(spec, "completionMode") == "Indexed"
    index_fields = status if indexed else {}
    completed = Indexes.parse(text(index_fields, "completedIndexes")).below(expected)
    failed_indexes = Indexes.parse(text(index_fields, "failedIndexes")).below(expected)
    verdict = _verdict_of(conditions, spec, status)
    suspended = spec.get("suspend") is True and verdict is None
    if suspended:
        since = when(condition(conditions, "Suspended"), "lastTransitionTime")
        verdict = ControllerVerdict(
            ControllerOutcome.SUSPENDED, "JobSuspended", "the job is suspended", since
        )
    return ControllerFacts(
        **_common(manifest),
        expected=expected,
        parallelism=max(0, _or(parallelism, 1)),
        indexed=indexed,
        completed=completed,
        failed_indexes=failed_indexes.without(completed),
        succeeded=count(status, "succeeded"),
        failed=count(status, "failed"),
        suspended=suspended,
        ignored=_exit_codes(spec, "Ignore"),
        fatal=_exit_codes(spec, "FailJob"),
        retries=_retries(spec),
        verdict=verdict,
        ending=None if verdict is not None else _ending(conditions, spec, status),
        processes=_processes(manifest, expected),
        started_at=when(status, "startTime"),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _verdict_of(
    conditions: list[Manifest], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> ControllerVerdict | None:
    if holds(conditions, "Failed"):
        return _failure(condition(conditions, "Failed"), spec, status)
    if holds(conditions, "Complete"):
        entry = condition(conditions, "Complete")
        at = when(status, "completionTime") or when(entry, "lastTransitionTime")
        return _completion(entry, at)
    return None


def _ending(
    conditions: list[Manifest], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> ControllerVerdict | None:
    """The verdict that stands while the last pods are being ended."""
    if holds(conditions, "FailureTarget"):
        return _failure(condition(conditions, "FailureTarget"), spec, status)
    if holds(conditions, "SuccessCriteriaMet"):
        return _completion(condition(conditions, "SuccessCriteriaMet"), None)
    return None


def _completion(entry: Mapping[str, Any], at: float | None) -> ControllerVerdict:
    reason = text(entry, "reason") or "CompletionsReached"
    messages = {
        "CompletionsReached": "all pods succeeded",
        "SuccessPolicy": "the success policy is met",
    }
    message = messages.get(reason) or clause(text(entry, "message")) or "all pods succeeded"
    return ControllerVerdict(ControllerOutcome.COMPLETE, reason, message, at)


def _failure(
    entry: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> ControllerVerdict:
    reason = text(entry, "reason") or "Failed"
    at = when(entry, "lastTransitionTime")
    message = clause(text(entry, "message"))
    fatal = _EXIT_CODE.search(message) if reason == "PodFailurePolicy" else None
    if fatal:
        code = digits(fatal["code"])
        sentence = fails_at_once(fatal["container"], fatal["pod"], code)
        return ControllerVerdict(ControllerOutcome.FAILED, reason, sentence, at, fatal["pod"], code)
    return ControllerVerdict(
        ControllerOutcome.FAILED, reason, _sentence(reason, spec, status) or message, at
    )


def _sentence(reason: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """The local runtime's sentence for a reason; "" where it has none."""
    deadline = number(spec, "activeDeadlineSeconds")
    if reason == "DeadlineExceeded":
        return f"the job ran longer than {deadline} s" if deadline is not None else ""
    failed = len(Indexes.parse(text(status, "failedIndexes")))
    return out_of_retries(reason, _retries(spec), failed)


def _retries(spec: Mapping[str, Any]) -> Retries:
    rules = items(spec, "podFailurePolicy", "rules")
    return Retries(
        limit=_or(number(spec, "backoffLimit"), _BACKOFF_LIMIT),
        per_index=number(spec, "backoffLimitPerIndex"),
        max_failed=number(spec, "maxFailedIndexes"),
        pods=_or(number(spec, "completions"), 0),
        without_retry=any(rule.get("action") == "FailIndex" for rule in rules),
    )


def _exit_codes(spec: Mapping[str, Any], action: str) -> frozenset[int]:
    """Exit codes that a Job answers with an action of its podFailurePolicy."""
    return frozenset(
        code
        for rule in items(spec, "podFailurePolicy", "rules")
        if rule.get("action") == action and text(rule, "onExitCodes", "operator") == "In"
        for code in numbers(rule, "onExitCodes", "values")
    )


def _least(manifest: Manifest) -> int | None:
    """Return the smallest size of an elastic torchrun job, from its pods' environment.

    That of replica groups is how many have to succeed: torchrun in each knows of no other.
    """
    groups, rules = digits(_variable(manifest, names.ENV_REPLICA_GROUPS)), _success_rules(manifest)
    if groups and rules:
        return min(groups, rules[0])
    least, between, _ = _variable(manifest, names.ENV_NODES).partition(":")
    return digits(least) if between else None


def _success_rules(manifest: Manifest) -> list[int]:
    """Return how many indexes each rule of a Job's success policy asks for, where it says so."""
    rules = items(manifest, "spec", "successPolicy", "rules")
    return [enough for rule in rules if (enough := number(rule, "succeededCount"))]


def _variable(manifest: Manifest, name: str) -> str:
    """Return a variable of a controller's pods; "" where it has none of that name."""
    for container in items(manifest, "spec", "template", "spec", "containers"):
        for variable in items(container, "env"):
            if variable.get("name") == name:
                return text(variable, "value")
    return ""


# ---------------------------------------------------------------- StatefulSet


def _set(manifest: Manifest) -> ControllerFacts:
    replicas = max(0, _or(number(manifest, "spec", "replicas"), 1))
    annotations = mapping(manifest, "metadata", "annotations")
    verdict = None
    if not replicas:
        verdict = ControllerVerdict(ControllerOutcome.SUSPENDED, "NoReplicas", "it has no replicas")
    return ControllerFacts(
        **_common(manifest),
        expected=replicas or digits(annotations.get(names.SUSPENDED_REPLICAS)) or 0,
        parallelism=replicas,
        suspended=not replicas,
        verdict=verdict,
        started_at=when(manifest, "metadata", "creationTimestamp") if replicas else None,
        processes=_processes(manifest, replicas),
    )


def _processes(manifest: Manifest, nodes: int) -> Processes | None:
    spec = mapping(manifest, "spec", "template", "spec")
    role = text(manifest, "spec", "template", "metadata", "labels", names.ROLE)
    return processes.torchrun(spec, nodes) if role in {"", names.ROLE_NODE} else None


def ranks_done(at: float | None) -> ControllerVerdict:
    """Return the verdict of a StatefulSet whose pods have all succeeded at their last end."""
    return ControllerVerdict(ControllerOutcome.COMPLETE, "RanksDone", "all pods succeeded", at)


def owners(manifests: tuple[Manifest, ...]) -> tuple[ControllerFacts, ...]:
    """Return the controllers among a release's objects: those that lead first, then by name.

    Controllers of one role stand in the order of their ranks: `demo-worker` before
    `demo-worker-last`. Each role of an ElasticJob is one.
    """
    controller_manifests = [manifest for manifest in manifests if text(manifest, "kind") in KINDS]
    controllers = [read(controller) for controller in controller_manifests]
    for manifest in manifests:
        if text(manifest, "kind") == ELASTIC_JOB:
            controllers += read_elastic_job(manifest)
    controllers.sort(key=_order)
    hosts = [
        digits(_variable(workload, names.ENV_MPI_MIN_HOSTS)) for workload in controller_manifests
    ]
    least = next((size for size in hosts if size is not None), None)
    return tuple(controllers if least is None else _elastic(controllers, least))


# Roles whose pods lead the others, in the order in which they are listed.
_FIRST = (names.ROLE_LAUNCHER, names.ROLE_MASTER)


def _order(controller: ControllerFacts) -> tuple[int, bool, str, str, str]:
    place = _FIRST.index(controller.role) if controller.role in _FIRST else len(_FIRST)
    return place, not controller.leads, controller.name, controller.kind, controller.role


def _elastic(controllers: list[ControllerFacts], hosts: int) -> Iterator[ControllerFacts]:
    """Yield an MPI job's controllers, with the smallest size that its launcher allows."""
    workers = [controller for controller in controllers if controller.role != names.ROLE_LAUNCHER]
    for controller in controllers:
        others = sum(other.expected for other in workers if other is not controller)
        yield (
            replace(controller, least=max(0, hosts - others))
            if controller in workers
            else controller
        )


_WORKLOAD = "elastic"
NO_OPERATOR = Cause(
    Priority.CREATION,
    "NoWatcher",
    "the operator to make its master",
    ": is one installed?",
    alone=True,
)
_NO_PLAN = Cause(Priority.READINESS, "NoPlan", "the first plan of its master", alone=True)
NO_PODS_ASKED = "NoPodsAsked"
_NO_PODS = Cause(Priority.READINESS, NO_PODS_ASKED, "a plan that asks for pods", alone=True)
# Reasons of the job's own for having no plan, which it says more of.
_NO_TEMPLATE = "NoTemplate"
_STUCK = frozenset({_NO_TEMPLATE, "NoMasterImage", "MasterSilent"})
_EXTERNAL = "external"  # its master is no pod


def read_elastic_job(manifest: Manifest) -> list[ControllerFacts]:
    """Return the facts about an ElasticJob, by role; the master's first."""
    verdict = _verdict(manifest)
    counts = mapping(manifest, "status", "status", "replicaStatuses")
    groups = mapping(manifest, "status", "target", "groups")
    specs_by_kind = replica_specs(mapping(manifest, "spec").get("replicaSpecs"))
    specs = {kind: mapping(spec.spec) for kind, spec in specs_by_kind.items()}
    # A role that is in the spec and that no plan names has no pods.
    kinds = _kinds(counts, groups) or _kinds(specs)
    controllers = [
        replace(
            _trainers(manifest, kind, specs, counts, verdict),
            members=_members(manifest, kind, mapping(groups.get(kind))),
        )
        for kind in kinds
    ]
    if text(manifest, "metadata", "annotations", names.MASTER) == _EXTERNAL:
        return controllers
    return [_master(manifest, counts, verdict), *controllers]


def _kinds(*groups: Iterable[str]) -> list[str]:
    kinds = {kind for group in groups for kind in group}
    return sorted(kinds - {names.EDL_MASTER, names.ROLE_MASTER})


def _common_facts(manifest: Manifest, verdict: ControllerVerdict | None) -> dict[str, Any]:
    metadata = mapping(manifest, "metadata")
    return {
        "kind": ELASTIC_JOB,
        "name": text(metadata, "name"),
        "uid": text(metadata, "uid"),
        "workload": text(metadata, "labels", names.WORKLOAD) or _WORKLOAD,
        "suspended": verdict is not None and verdict.outcome is ControllerOutcome.SUSPENDED,
        "verdict": verdict,
        "created_at": when(metadata, "creationTimestamp"),
        "deleting": bool(text(metadata, "deletionTimestamp")),
        "started_at": when(manifest, "status", "status", "startTime"),
    }


def _master(
    manifest: Manifest, counts: Mapping[str, Any], verdict: ControllerVerdict | None
) -> ControllerFacts:
    reconciled = bool(text(manifest, "status", "phase"))
    waits = None
    if verdict is None and not counts:
        waits = _no_plan(manifest) if reconciled else NO_OPERATOR
    elif verdict is None and text(_ready(manifest), "reason") == NO_PODS_ASKED:
        waits = _NO_PODS
    state = mapping(manifest, "status", "target", "master")
    members = Members(
        prefix=f"elasticjob-{text(manifest, 'metadata', 'name')}-{names.EDL_MASTER}-",
        ids={0: count(state, "attempt")} if reconciled else {},
        observed=frozenset({0} if state.get("seen") is True else ()),
        failures=count(state, "failures"),
        disruptions=count(state, "disruptions"),
    )
    return ControllerFacts(
        **_common_facts(manifest, verdict),
        role=names.ROLE_MASTER,
        expected=1,
        parallelism=int(reconciled),
        waits=waits,
        members=members,
    )


def _members(manifest: Manifest, kind: str, group: Mapping[str, Any]) -> Members:
    """Return the pods of a role, from the status that the operator has written."""
    keys = ("members", "leaving", "succeeded", "failed", "seen")
    prefix = f"{text(manifest, 'metadata', 'name')}-edljob-{kind}-"
    pods = _read_members(prefix, *(text(group, key) for key in keys))
    return pods._replace(failures=count(group, "failures"), disruptions=count(group, "disruptions"))


@lru_cache(maxsize=256)
def _read_members(  # noqa: PLR0917 - what is remembered is known by all of it
    prefix: str, members: str, leaving: str, succeeded: str, failed: str, observed: str
) -> Members:
    """Return the members in a status; cached, for it is read more often than it changes."""
    leaving_ids = Indexes.parse(leaving)
    # The newest id of a rank stands last.
    ids = {rank: ident for ident, rank in read_pairs(members) if ident not in leaving_ids}

    def ranks(text_of_ids: str) -> frozenset[int]:
        idents = Indexes.parse(text_of_ids)
        return frozenset(rank for rank, ident in ids.items() if ident in idents)

    return Members(prefix, MappingProxyType(ids), ranks(succeeded), ranks(failed), ranks(observed))


def _no_plan(manifest: Manifest) -> Cause:
    """Return the cause for which a job without a plan waits; a stuck job tells its own."""
    ready = _ready(manifest)
    reason = text(ready, "reason")
    if reason not in _STUCK:
        return _NO_PLAN
    subject = "a pod template" if reason == _NO_TEMPLATE else _NO_PLAN.need
    return replace(
        _NO_PLAN, reason=reason, need=subject, detail=f": {clause(text(ready, 'message'))}"
    )


def _ready(manifest: Manifest) -> Mapping[str, Any]:
    return condition(items(manifest, "status", "conditions"), "Ready")


def _trainers(
    manifest: Manifest,
    kind: str,
    specs: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, Any],
    verdict: ControllerVerdict | None,
) -> ControllerFacts:
    counts_of_kind, spec = mapping(counts.get(kind)), specs.get(kind, {})
    initial = number(counts_of_kind, "initial")
    expected = count(spec, "replicas") if initial is None else max(0, initial)
    least = max(1, count(spec, "minReplicas")) if kind == names.ROLE_WORKER else None
    return ControllerFacts(
        **_common_facts(manifest, verdict),
        role=kind,
        expected=expected,
        # Before the first plan none of them is due.
        parallelism=expected if initial is not None else 0,
        succeeded=count(counts_of_kind, "succeeded"),
        failed=count(counts_of_kind, "failed"),
        least=least,
    )


def _verdict(manifest: Manifest) -> ControllerVerdict | None:
    """Return the verdict in a job's status, or in a spec that asks for no pods."""
    phase = text(manifest, "status", "phase")
    at = when(manifest, "status", "status", "completionTime")
    if phase in (Phase.SUCCEEDED, Phase.FAILED):
        outcome = (
            ControllerOutcome.COMPLETE if phase == Phase.SUCCEEDED else ControllerOutcome.FAILED
        )
        entry = condition(items(manifest, "status", "conditions"), phase)
        if not entry:
            entry = condition(items(manifest, "status", "status", "conditions"), phase)
        reason = text(entry, "reason") or f"Job{phase}"
        message = clause(text(entry, "message")) or f"the job {phase.lower()}"
        return ControllerVerdict(outcome, reason, message, at or when(entry, "lastTransitionTime"))
    if mapping(manifest, "spec").get("suspend") is True:
        return ControllerVerdict(
            ControllerOutcome.SUSPENDED, "JobSuspended", "the job is suspended"
        )
    return None

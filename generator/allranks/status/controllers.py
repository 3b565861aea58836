"""One controller of pods: how many pods it is made of, what became of them, and how it ended.

The sentences are those of the local runtime, so that a run is told in the same words wherever it
runs; a reason that we do not know keeps Kubernetes' own sentence.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.status import elasticjobs, indexes, processes
from allranks.status.facts import (
    ELASTIC_JOB,
    JOB,
    STATEFUL_SET,
    ControllerFacts,
    Outcome,
    Verdict,
)
from allranks.status.fields import (
    condition,
    count,
    digits,
    holds,
    items,
    mapping,
    number,
    numbers,
    said,
    text,
    when,
)
from allranks.status.retries import Retries, out_of_retries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.model.manifest import Manifest
    from allranks.model.processes import Processes

__all__ = ["KINDS", "ControllerFacts", "Outcome", "Verdict", "owners", "read"]

KINDS = (JOB, STATEFUL_SET)
_BACKOFF_LIMIT = 6  # Kubernetes' own default
_EXIT_CODE = re.compile(
    r"Container (?P<container>\S+) for pod [^/\s]+/(?P<pod>\S+) failed with exit code (?P<code>\d+)"
)


def read(manifest: Manifest) -> ControllerFacts:
    """What is known of a Job or a StatefulSet."""
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
    written = status if indexed else {}
    completed = indexes.parse(text(written, "completedIndexes")).below(expected)
    given_up = indexes.parse(text(written, "failedIndexes")).below(expected)
    verdict = _finished(conditions, spec, status)
    suspended = spec.get("suspend") is True and verdict is None
    if suspended:
        since = when(condition(conditions, "Suspended"), "lastTransitionTime")
        verdict = Verdict(Outcome.SUSPENDED, "JobSuspended", "the job is suspended", since)
    return ControllerFacts(
        **_common(manifest),
        expected=expected,
        parallelism=max(0, _or(parallelism, 1)),
        indexed=indexed,
        completed=completed,
        given_up=given_up.without(completed),
        succeeded=count(status, "succeeded"),
        failed=count(status, "failed"),
        suspended=suspended,
        ignored=_ignored(spec),
        verdict=verdict,
        ending=None if verdict is not None else _ending(conditions, spec, status),
        processes=_processes(manifest, expected),
        started_at=when(status, "startTime"),
    )


def _or(found: int | None, default: int) -> int:
    return default if found is None else found


def _finished(
    conditions: list[Manifest], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Verdict | None:
    if holds(conditions, "Failed"):
        return _failed(condition(conditions, "Failed"), spec, status)
    if holds(conditions, "Complete"):
        found = condition(conditions, "Complete")
        at = when(status, "completionTime") or when(found, "lastTransitionTime")
        return _complete(found, at)
    return None


def _ending(
    conditions: list[Manifest], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Verdict | None:
    """The verdict that stands while the last pods are being ended."""
    if holds(conditions, "FailureTarget"):
        return _failed(condition(conditions, "FailureTarget"), spec, status)
    if holds(conditions, "SuccessCriteriaMet"):
        return _complete(condition(conditions, "SuccessCriteriaMet"), None)
    return None


def _complete(found: Mapping[str, Any], at: float | None) -> Verdict:
    reason = text(found, "reason") or "CompletionsReached"
    known = {
        "CompletionsReached": "all pods succeeded",
        "SuccessPolicy": "the success policy is met",
    }
    message = known.get(reason) or said(text(found, "message")) or "all pods succeeded"
    return Verdict(Outcome.COMPLETE, reason, message, at)


def _failed(
    found: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Verdict:
    reason = text(found, "reason") or "Failed"
    at = when(found, "lastTransitionTime")
    message = said(text(found, "message"))
    fatal = _EXIT_CODE.search(message) if reason == "PodFailurePolicy" else None
    if fatal:
        code = digits(fatal["code"])
        sentence = (
            f"container {fatal['container']} of {fatal['pod']} ended with exit code "
            f"{fatal['code']}, which fails the job at once"
        )
        return Verdict(Outcome.FAILED, reason, sentence, at, fatal["pod"], code)
    return Verdict(Outcome.FAILED, reason, _sentence(reason, spec, status) or message, at)


def _sentence(reason: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """The local runtime's sentence for a reason; "" where it has none."""
    deadline = number(spec, "activeDeadlineSeconds")
    if reason == "DeadlineExceeded":
        return f"the job ran longer than {deadline} s" if deadline is not None else ""
    per_index = number(spec, "backoffLimitPerIndex")
    rules = items(spec, "podFailurePolicy", "rules")
    return out_of_retries(
        reason,
        Retries(
            limit=_or(number(spec, "backoffLimit"), _BACKOFF_LIMIT),
            per_index=per_index,
            max_failed=number(spec, "maxFailedIndexes"),
            pods=_or(number(spec, "completions"), 0),
            without_retry=any(rule.get("action") == "FailIndex" for rule in rules),
        ),
        failed=len(indexes.parse(text(status, "failedIndexes"))),
    )


def _ignored(spec: Mapping[str, Any]) -> frozenset[int]:
    """Exit codes that the Job takes for a disruption."""
    return frozenset(
        code
        for rule in items(spec, "podFailurePolicy", "rules")
        if rule.get("action") == "Ignore" and text(rule, "onExitCodes", "operator") == "In"
        for code in numbers(rule, "onExitCodes", "values")
    )


def _least(manifest: Manifest) -> int | None:
    """The smallest size of an elastic torchrun job, as its pods are told."""
    least, between, _ = _variable(manifest, names.ENV_NODES).partition(":")
    return digits(least) if between else None


def _variable(manifest: Manifest, name: str) -> str:
    """A variable of a controller's pods; "" where it has none of that name."""
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
        verdict = Verdict(Outcome.SUSPENDED, "NoReplicas", "it has no replicas")
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


def ranks_done(at: float | None) -> Verdict:
    """The end of a StatefulSet, which has none of its own: each pod's last end was a good one."""
    return Verdict(Outcome.COMPLETE, "RanksDone", "all pods succeeded", at)


def owners(manifests: tuple[Manifest, ...]) -> tuple[ControllerFacts, ...]:
    """The controllers among a release's objects: those that lead first, then by name.

    Controllers of one role stand in the order of their ranks: `demo-worker` before
    `demo-worker-last`. Each role of an ElasticJob is one.
    """
    chosen = [one for one in manifests if text(one, "kind") in KINDS]
    found = [read(one) for one in chosen]
    for one in manifests:
        if text(one, "kind") == ELASTIC_JOB:
            found += elasticjobs.read(one)
    found.sort(key=_order)
    hosts = [digits(_variable(one, names.ENV_MPI_MIN_HOSTS)) for one in chosen]
    least = next((one for one in hosts if one is not None), None)
    return tuple(found if least is None else _elastic(found, least))


# Roles whose pods lead the others, in the order in which they are told.
_FIRST = (names.ROLE_LAUNCHER, names.ROLE_MASTER)


def _order(one: ControllerFacts) -> tuple[int, bool, str, str, str]:
    place = _FIRST.index(one.role) if one.role in _FIRST else len(_FIRST)
    return place, not one.leads, one.name, one.kind, one.role


def _elastic(found: list[ControllerFacts], hosts: int) -> Iterator[ControllerFacts]:
    """An MPI job's workers, with the smallest number of them: its launcher is told the hosts'."""
    workers = [one for one in found if one.role != names.ROLE_LAUNCHER]
    for one in found:
        others = sum(other.expected for other in workers if other is not one)
        yield replace(one, least=max(0, hosts - others)) if one in workers else one

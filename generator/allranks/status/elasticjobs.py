"""An ElasticJob, taken for one controller per role: its trainers', and its master's.

How many pods it is made of is not for its spec to say but for its master; what stands in its status
is what the watcher last read out of the master's plans, and which pods these are. Until then the
spec is the best there is. Its end stands in the status too, for all roles at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from allranks import names
from allranks.model import ranges
from allranks.model.status import Phase
from allranks.status.cause import Cause, Order
from allranks.status.facts import ELASTIC_JOB, ControllerFacts, Members, Outcome, Verdict
from allranks.status.fields import condition, count, items, mapping, number, said, text, when
from allranks.status.spellings import replica_specs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from allranks.model.manifest import Manifest

_WORKLOAD = "elastic"
NO_WATCHER = Cause(
    Order.CREATION, "NoWatcher", "the watcher to make its master", ": is one installed?", alone=True
)
_NO_PLAN = Cause(Order.READINESS, "NoPlan", "the first plan of its master", alone=True)
NO_PODS_ASKED = "NoPodsAsked"
_NO_PODS = Cause(Order.READINESS, NO_PODS_ASKED, "a plan that asks for pods", alone=True)
# Reasons of the job's own for having no plan, which it says more of.
_NO_TEMPLATE = "NoTemplate"
_STUCK = frozenset({_NO_TEMPLATE, "NoMasterImage", "MasterSilent"})
_EXTERNAL = "external"  # its master is no pod


def read(manifest: Manifest) -> list[ControllerFacts]:
    """What is known of an ElasticJob, by role; the master's stands first."""
    verdict = _verdict(manifest)
    counts = mapping(manifest, "status", "status", "replicaStatuses")
    groups = mapping(manifest, "status", "target", "groups")
    written = replica_specs(mapping(manifest, "spec").get("replicaSpecs"))
    specs = {kind: mapping(one.said) for kind, one in written.items()}
    # A role that is in the spec and that no plan names has no pods.
    kinds = _kinds(counts, groups) or _kinds(specs)
    found = [
        replace(
            _trainers(manifest, kind, specs, counts, verdict),
            members=_members(manifest, kind, mapping(groups.get(kind))),
        )
        for kind in kinds
    ]
    if text(manifest, "metadata", "annotations", names.MASTER) == _EXTERNAL:
        return found
    return [_master(manifest, counts, verdict), *found]


def _kinds(*named: Iterable[str]) -> list[str]:
    kinds = {kind for one in named for kind in one}
    return sorted(kinds - {names.EDL_MASTER, names.ROLE_MASTER})


def _common(manifest: Manifest, verdict: Verdict | None) -> dict[str, Any]:
    metadata = mapping(manifest, "metadata")
    return {
        "kind": ELASTIC_JOB,
        "name": text(metadata, "name"),
        "uid": text(metadata, "uid"),
        "workload": text(metadata, "labels", names.WORKLOAD) or _WORKLOAD,
        "suspended": verdict is not None and verdict.outcome is Outcome.SUSPENDED,
        "verdict": verdict,
        "created_at": when(metadata, "creationTimestamp"),
        "started_at": when(manifest, "status", "status", "startTime"),
    }


def _master(
    manifest: Manifest, counts: Mapping[str, Any], verdict: Verdict | None
) -> ControllerFacts:
    known = bool(text(manifest, "status", "phase"))
    waits = None
    if verdict is None and not counts:
        waits = _no_plan(manifest) if known else NO_WATCHER
    elif verdict is None and text(_ready(manifest), "reason") == NO_PODS_ASKED:
        waits = _NO_PODS
    kept = mapping(manifest, "status", "target", "master")
    members = Members(
        prefix=f"elasticjob-{text(manifest, 'metadata', 'name')}-{names.EDL_MASTER}-",
        ids={0: count(kept, "attempt")} if known else {},
        seen=frozenset({0} if kept.get("seen") is True else ()),
        failures=count(kept, "failures"),
        disruptions=count(kept, "disruptions"),
    )
    return ControllerFacts(
        **_common(manifest, verdict),
        role=names.ROLE_MASTER,
        expected=1,
        parallelism=int(known),
        waits=waits,
        members=members,
    )


def _members(manifest: Manifest, kind: str, group: Mapping[str, Any]) -> Members:
    """The pods of a role, as the watcher has written them down."""
    keys = ("members", "leaving", "succeeded", "failed", "seen")
    prefix = f"{text(manifest, 'metadata', 'name')}-edljob-{kind}-"
    found = _read_members(prefix, *(text(group, key) for key in keys))
    return found._replace(
        failures=count(group, "failures"), disruptions=count(group, "disruptions")
    )


@lru_cache(maxsize=256)
def _read_members(  # noqa: PLR0917 - what is remembered is known by all of it
    prefix: str, members: str, leaving: str, succeeded: str, failed: str, seen: str
) -> Members:
    """Read what was written; a status is looked at far more often than it changes."""
    gone = frozenset(ranges.read(leaving))
    # The newest id of a rank stands last.
    ids = {rank: ident for ident, rank in ranges.read_pairs(members) if ident not in gone}

    def ranks(written: str) -> frozenset[int]:
        found = frozenset(ranges.read(written))
        return frozenset(rank for rank, ident in ids.items() if ident in found)

    return Members(prefix, MappingProxyType(ids), ranks(succeeded), ranks(failed), ranks(seen))


def _no_plan(manifest: Manifest) -> Cause:
    """What a job waits for that nobody has planned; with its own sentence where it is stuck."""
    found = _ready(manifest)
    reason = text(found, "reason")
    if reason not in _STUCK:
        return _NO_PLAN
    what = "a pod template" if reason == _NO_TEMPLATE else _NO_PLAN.what
    return replace(_NO_PLAN, reason=reason, what=what, why=f": {said(text(found, 'message'))}")


def _ready(manifest: Manifest) -> Mapping[str, Any]:
    return condition(items(manifest, "status", "conditions"), "Ready")


def _trainers(
    manifest: Manifest,
    kind: str,
    specs: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, Any],
    verdict: Verdict | None,
) -> ControllerFacts:
    written, spec = mapping(counts.get(kind)), specs.get(kind, {})
    initial = number(written, "initial")
    expected = count(spec, "replicas") if initial is None else max(0, initial)
    least = max(1, count(spec, "minReplicas")) if kind == names.ROLE_WORKER else None
    return ControllerFacts(
        **_common(manifest, verdict),
        role=kind,
        expected=expected,
        # Before the first plan none of them is due.
        parallelism=expected if initial is not None else 0,
        succeeded=count(written, "succeeded"),
        failed=count(written, "failed"),
        least=least,
    )


def _verdict(manifest: Manifest) -> Verdict | None:
    """How it ended, as its status says; or that it is to have no pods, as its spec does."""
    phase = text(manifest, "status", "phase")
    at = when(manifest, "status", "status", "completionTime")
    if phase in (Phase.SUCCEEDED, Phase.FAILED):
        outcome = Outcome.COMPLETE if phase == Phase.SUCCEEDED else Outcome.FAILED
        found = condition(items(manifest, "status", "conditions"), phase)
        if not found:
            found = condition(items(manifest, "status", "status", "conditions"), phase)
        reason = text(found, "reason") or f"Job{phase}"
        message = said(text(found, "message")) or f"the job {phase.lower()}"
        return Verdict(outcome, reason, message, at or when(found, "lastTransitionTime"))
    if mapping(manifest, "spec").get("suspend") is True:
        return Verdict(Outcome.SUSPENDED, "JobSuspended", "the job is suspended")
    return None

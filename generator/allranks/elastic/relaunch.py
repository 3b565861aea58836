"""Whether a pod that failed is made again, and how.

The exit code says what happened, not the phase: a pod that ran out of memory needs more of it, one
whose GPU broke needs another node, one that was taken away failed at nothing. What its own program
did wrong it will do wrong again, and is tried only as often as `restartCount` says.

=========================================  ==========================================
the end                                    what follows
=========================================  ==========================================
drained, preempted, evicted, node lost     again, at no cost
OOMKilled, or 247                          again, with more memory
201, 202, 14                               again, on another node
134, 137, 143, and others from 128 on      again
1 to 127                                   again; with `ExitCode` never
=========================================  ==========================================

Pods are never restarted in place, so that `Never`, `OnFailure` and `Always` say the same as saying
nothing: `restartCount` bounds how often a pod is replaced, and 0 is never. `ExitCode` takes codes
below 128 for final. A pod that ended well has done its work with each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic.pods import resources, templates
from allranks.elastic.resource import Resource
from allranks.model import quantity
from allranks.model.status import PodPhase
from allranks.status import endings, failures, raw
from allranks.status.fields import items, mapping, string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.job import ReplicaSpec
    from allranks.elastic.members import Member
    from allranks.model.manifest import Manifest
    from allranks.status.endings import End
    from allranks.status.raw import RawPod

Kind = Literal["again", "give up", "fatal", "none"]

_EXIT_CODE = "ExitCode"
_OOM_REASON, _OOM = "OOMKilled", 247
_HARDWARE = frozenset({201, 202, 14})
_SIGNALLED = 128
# How much more memory a pod gets that had too little, in whole MiB.
_MORE_NUMERATOR, _MORE_DENOMINATOR = 3, 2
_MIB = 1024**2
# A job that fails on this many nodes is not the nodes' fault; and a pod must run somewhere.
_AVOIDED_MAX = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from the end of a pod.

    Attributes:
        kind: ``again``: another pod takes its place; ``give up``: no try is left, and the job goes
            on without it where it can; ``fatal``: another try would end alike, so that the job
            has failed; ``none``: it has not failed.
        why: a clause about the pod: ``exit code 1``, ``it was evicted``.
        resource: what the next pod gets; None for the same as this one.
        avoid_node: the node that the next pod must not run on; "" for none.
        counts: whether it costs one of the `restartCount` tries.
    """

    kind: Kind
    why: str = ""
    resource: Resource | None = None
    avoid_node: str = ""
    counts: bool = True


_NOTHING = Verdict("none", counts=False)


def judge(pod: Manifest, spec: ReplicaSpec, member: Member) -> Verdict:
    """What follows from the end of a pod.

    Args:
        pod: the pod.
        spec: of its replica type.
        member: whose pod it is; its `resource` is what the pod was given.
    """
    parts = raw.read(pod)
    disruption = endings.disruption(parts)
    if disruption:
        return Verdict("again", f"it was no failure ({disruption})", counts=False)
    if parts.phase is not PodPhase.FAILED:
        return _NOTHING
    end = _decisive(parts)
    why = _why(end)
    if _final(end, spec):
        return Verdict("fatal", f"{why}, which is final with restartPolicy {spec.restart_policy}")
    if member.relaunches >= spec.restart_count:
        return Verdict("give up", f"{why}, and no try is left (restartCount {spec.restart_count})")
    return _again(end, why, parts, spec, member)


def verdict_of_master(pod: Manifest) -> str:
    """Why the whole job has failed, as its master told a pod that ended with it; else ""."""
    parts = raw.read(pod)
    if parts.phase is not PodPhase.FAILED or endings.disruption(parts):
        return ""
    told = [one.message for one in endings.ends(parts) if not one.previous]
    found = next((one for one in told if one.startswith(names.JOB_HAS_FAILED)), "")
    return found.removeprefix(names.JOB_HAS_FAILED)


def _again(end: End, why: str, pod: RawPod, spec: ReplicaSpec, member: Member) -> Verdict:
    """Another try, with what the last one lacked."""
    if _is_out_of_memory(end):
        more = _more(pod, spec, member)
        amount = quantity.format_bytes(more.memory_bytes or 0)
        return Verdict("again", f"it ran out of memory; it gets {amount}", resource=more)
    node = string(pod.spec.get("nodeName"))
    if end.code in _HARDWARE and node and len(member.avoid) < _AVOIDED_MAX:
        return Verdict("again", f"{why} tells of broken hardware on {node}", avoid_node=node)
    return Verdict("again", why)


def _decisive(pod: RawPod) -> End:
    """The end that a pod is judged by: of the first main container that failed."""
    found = list(endings.ends(pod))
    last = [one for one in found if not one.previous] or found
    oom = [one for one in last if _is_out_of_memory(one)]
    return min(oom or last, key=lambda one: one.at or 0.0)


def _is_out_of_memory(end: End) -> bool:
    return end.reason == _OOM_REASON or end.code == _OOM


def _why(end: End) -> str:
    if not end.started:
        return f"it was refused ({end.reason})"
    word = "" if end.reason == endings.ERROR else end.reason
    meaning = word or failures.meaning(end.reason, end.code)
    return f"exit code {end.code} ({meaning})" if meaning else f"exit code {end.code}"


def _final(end: End, spec: ReplicaSpec) -> bool:
    """Whether another try would end alike."""
    special = _is_out_of_memory(end) or end.code in _HARDWARE or not end.started
    return spec.restart_policy == _EXIT_CODE and end.code < _SIGNALLED and not special


def _more(pod: RawPod, spec: ReplicaSpec, member: Member) -> Resource:
    """Half as much memory again, for the container that trains."""
    # What is kept of a pod may leave out what it asked for; its template says it as well.
    had = max(
        resources.memory(_main_resources(pod.spec), None),
        resources.memory(_main_resources(mapping(spec.template, "spec")), member.resource),
    )
    size = -(-had * _MORE_NUMERATOR // (_MORE_DENOMINATOR * _MIB)) * _MIB
    return replace(member.resource or Resource(), memory_bytes=size)


def _main_resources(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found = items(spec, "containers")
    return mapping(found[templates.main_index(found)], "resources") if found else {}

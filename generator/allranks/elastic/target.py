"""The desired state of a job's pods, and the only state there is.

Plans and edits change the desired state; it stands in `ElasticJob.status.target`; pods follow it.
A plan counts from the one write of that status on, which the API server refuses where somebody else
wrote first. An operator that is killed before that write has changed nothing, and one that is
killed after it finds in the status what is left to do.

A pod's name follows from its member's id, and an id is never used twice, so that creating a pod
that exists already collides and changes nothing.

`DesiredState.as_status` is compact: members are ranges, and what only few members have stands
beside them, by value (see `members.write`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.elastic import members
from allranks.elastic.members import FAILED, SUCCEEDED, MemberGroup
from allranks.k8s.fields import count, mapping, number, string, text

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class MasterState:
    """The state of a job's master.

    Attributes:
        attempt: the number of its present pod; the last part of the pod's name.
        failures: how many of its pods failed.
        observed: whether the present pod has existed.
        disruptions: how many of them ended by no failure of their own.
    """

    attempt: int = 0
    failures: int = 0
    observed: bool = False
    disruptions: int = 0


@dataclass(frozen=True, slots=True)
class PlanNotes:
    """The remarks on an applied plan.

    Attributes:
        clamped: what the job did not allow, in sentences.
        odd: what could not be done as written, in sentences.
    """

    clamped: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job.

    Attributes:
        phase: ``Succeeded`` or ``Failed``.
        reason: one word.
        message: a sentence; "" where the word says it all.
        at: when it was observed, in seconds since the epoch.
    """

    phase: str
    reason: str = ""
    message: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of a job's pods.

    Attributes:
        groups: by replica type.
        ps_hosts: the parameter servers that the job's workers know.
        plan: the plan that was applied last; "" for none.
        applied: keys of the plans (uids, except for edited plans) that have been applied and whose
            own status does not report yet that they are done.
        notes: remarks on some of these plans, by key.
        master: the job's master.
        end: how the job ended; None while it goes on.
    """

    groups: Mapping[str, MemberGroup] = field(default_factory=dict)
    ps_hosts: tuple[str, ...] = ()
    plan: str = ""
    applied: tuple[str, ...] = ()
    notes: Mapping[str, PlanNotes] = field(default_factory=dict)
    master: MasterState = MasterState()
    end: JobEnd | None = None

    def as_status(self) -> dict[str, Any]:
        """Return the value of `ElasticJob.status.target`."""
        form: dict[str, Any] = {
            "groups": {kind: members.write(group) for kind, group in sorted(self.groups.items())},
            "psHosts": list(self.ps_hosts),
            "plan": self.plan,
            "applied": list(self.applied),
            "notes": {
                uid: {
                    key: list(sentences)
                    for key, sentences in (("clamped", notes.clamped), ("odd", notes.odd))
                    if sentences
                }
                for uid, notes in self.notes.items()
            },
        }
        form = {key: value for key, value in form.items() if value}
        if self.master != MasterState():
            form["master"] = {
                "attempt": self.master.attempt,
                "failures": self.master.failures,
                "seen": self.master.observed,
            }
            if self.master.disruptions:
                form["master"]["disruptions"] = self.master.disruptions
        if self.end is not None:
            end = self.end
            form["end"] = {
                "phase": end.phase,
                "reason": end.reason,
                "message": end.message,
                "at": end.at,
            }
        return form

    @property
    def size(self) -> int:
        """The number of characters it takes in the status."""
        return len(json.dumps(self.as_status(), separators=(",", ":"), ensure_ascii=False))

    @classmethod
    def read(cls, status: Any) -> DesiredState:
        """Read what `as_status` wrote.

        Args:
            status: the value of `ElasticJob.status.target`; unreadable parts are left out.
        """
        master, end = mapping(status, "master"), mapping(status, "end")
        return cls(
            groups={
                kind: members.read(kind, group)
                for kind, group in mapping(status, "groups").items()
                if isinstance(group, dict)
            },
            ps_hosts=_strings(mapping(status).get("psHosts")),
            plan=text(status, "plan"),
            applied=_strings(mapping(status).get("applied")),
            notes={
                uid: PlanNotes(
                    _strings(mapping(notes).get("clamped")), _strings(mapping(notes).get("odd"))
                )
                for uid, notes in mapping(status, "notes").items()
            },
            master=MasterState(
                count(master, "attempt"),
                count(master, "failures"),
                master.get("seen") is True,
                count(master, "disruptions"),
            ),
            end=_end(end),
        )


def _end(form: Mapping[str, Any]) -> JobEnd | None:
    phase = string(form.get("phase"))
    if phase not in (SUCCEEDED, FAILED):
        return None
    return JobEnd(phase, text(form, "reason"), text(form, "message"), number(form, "at") or 0)


def _strings(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else ()
    return tuple([item for item in items if isinstance(item, str)])

"""The state that the policy keeps from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.elastic.policy.settings import PolicySettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.observation import Worker


_DEFAULTS = PolicySettings()


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement that has begun.

    Attributes:
        generation: the generation that is measured.
        started: when it began, in seconds.
        first: the workers' counts at that time, by pod.
    """

    generation: int
    started: float
    first: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The state of the policy. Times are seconds of one clock.

    Attributes:
        settings: how it decides.
        minimum: the fewest workers allowed.
        maximum: the most workers allowed.
        fixed: why the policy may not change the size; "" where it may.
        desired: the number of workers it asks for now.
        good: the largest size that was worth its workers.
        bad: the smallest size that was not; one more than `maximum` where none is known.
        changed: when the size was changed last.
        agreed: whether the operator has made the desired size its target since.
        window: the measurement that is going on.
        generation: the generation that the windows below were measured in.
        windows: measurements in this generation.
        speeds: samples per second of the whole job by size, the last known.
        slow: in how many measurements in a row a worker was slow, by pod.
        short_since: since when fewer workers run than desired; None where all do.
        room: workers that the cluster had room for when it refused more; None where it did not.
        probing: whether the size is one that was refused before.
        retry_at: when one more worker is tried again; None where nothing was refused.
        refusals: how often more workers were refused.
        unmeasured_since: since when workers train without a report; None where they report.
        memory: what pods of a type are asked to have, in bytes.
        handled: pods whose running out of memory was dealt with.
        replaced: lost workers whose pods are to be replaced, and when that was asked for last.
        reported: the remarks that were made already, each of which is made once.
    """

    settings: PolicySettings = _DEFAULTS
    minimum: int = 1
    maximum: int = 1
    fixed: str = ""
    desired: int = 1
    good: int = 1
    bad: int = 2
    changed: float = 0.0
    agreed: bool = False
    window: Window | None = None
    generation: int = 0
    windows: int = 0
    speeds: Mapping[int, float] = field(default_factory=dict)
    slow: Mapping[str, int] = field(default_factory=dict)
    short_since: float | None = None
    room: int | None = None
    probing: bool = False
    retry_at: float | None = None
    refusals: int = 0
    unmeasured_since: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    handled: frozenset[str] = frozenset()
    replaced: Mapping[str, float] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()

    @property
    def ceiling(self) -> int:
        """The largest number of workers that is worth asking for now."""
        return (
            self.maximum if self.room is None else min(self.maximum, max(self.room, self.minimum))
        )


def begin(
    settings: PolicySettings,
    *,
    desired: int,
    minimum: int,
    maximum: int,
    now: float,
    fixed: str = "",
) -> PolicyState:
    """Return the state of a job that has, or starts with, `desired` workers.

    Args:
        settings: how it decides.
        desired: the workers of its first plan.
        minimum: the fewest workers allowed.
        maximum: the most workers allowed.
        now: the time in seconds.
        fixed: why the policy may not change the size; "" where it may.
    """
    maximum = max(maximum, minimum, desired)
    return PolicyState(
        settings=settings,
        minimum=minimum,
        maximum=maximum,
        fixed=fixed,
        desired=desired,
        good=desired,
        bad=maximum + 1,
        changed=now,
    )

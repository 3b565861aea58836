"""What the policy remembers from one look to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.elastic.policy.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.seen import Worker


_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement that is going on.

    Attributes:
        generation: the generation that is measured.
        started: when it began, in seconds.
        first: the workers' counts at that time, by pod.
    """

    generation: int
    started: float
    first: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class State:
    """What the policy remembers. Times are seconds of one clock.

    Attributes:
        settings: how it decides.
        least: the fewest workers allowed.
        most: the most workers allowed.
        fixed: why the size is not the policy's to choose; "" where it is.
        wish: how many workers it wants now.
        good: the largest size that was worth its workers.
        bad: the smallest size that was not; one more than `most` where none is known.
        changed: when the size was changed last.
        agreed: whether the watcher has made the wish its target since.
        window: the measurement that is going on.
        generation: the generation that the windows below were measured in.
        windows: measurements in this generation.
        speeds: samples per second of the whole job by size, the last known.
        slow: in how many measurements in a row a worker was slow, by pod.
        short_since: since when fewer workers run than are wished; None where all do.
        room: workers that the cluster had room for when it refused more; None where it did not.
        probing: whether the size is one that was refused before.
        retry_at: when one more worker is tried again; None where nothing was refused.
        refusals: how often more workers were refused.
        unmeasured_since: since when workers train without a report; None where they report.
        memory: what pods of a type are asked to have, in bytes.
        handled: pods whose running out of memory was dealt with.
        replaced: lost workers whose pods are to be replaced, and when that was asked for last.
        told: words that are said once.
    """

    settings: Settings = _DEFAULTS
    least: int = 1
    most: int = 1
    fixed: str = ""
    wish: int = 1
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
    told: frozenset[str] = frozenset()

    @property
    def ceiling(self) -> int:
        """The most workers that make sense to ask for now."""
        return self.most if self.room is None else min(self.most, max(self.room, self.least))


def begin(
    settings: Settings, *, wish: int, least: int, most: int, now: float, fixed: str = ""
) -> State:
    """The state of a job that starts with `wish` workers, or is found with them.

    Args:
        settings: how it decides.
        wish: the workers of its first plan.
        least: the fewest workers allowed.
        most: the most workers allowed.
        now: the time in seconds.
        fixed: why the size is not the policy's to choose; "" where it is.
    """
    most = max(most, least, wish)
    return State(
        settings=settings,
        least=least,
        most=most,
        fixed=fixed,
        wish=wish,
        good=wish,
        bad=most + 1,
        changed=now,
    )

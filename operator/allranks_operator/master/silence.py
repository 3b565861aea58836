"""For how long a training that reports its steps has reported none; pure.

One frozen rank stops all of them, and nothing but the silence tells it. To start the training anew
is dear, so that `stallSeconds` is long; that is no reason to say nothing before.
"""

from __future__ import annotations

from dataclasses import dataclass

from allranks.elastic.policy.seen import Decision

QUIET_SECONDS = 300.0
# A training that evaluates for ten minutes is not said to be silent each time it does.
_PAUSES = 2.0
_MINUTE = 60.0


@dataclass(slots=True)
class Silence:
    """The time without a step. Times are seconds of the master's clock.

    Attributes:
        since: when anybody reported a step last.
        longest: the longest pause within a generation that ended by itself.
        told: whether it was said of this one.
    """

    since: float = float("-inf")
    longest: float = 0.0
    told: bool = False

    def end(self, now: float, *, first: bool) -> None:
        """A step was reported.

        Args:
            now: the time.
            first: it is the first one of its generation: what was before it is no pause.
        """
        if not first:
            self.longest = max(self.longest, now - self.since)
        self.since, self.told = now, False

    def over(self, now: float, stall: float | None) -> bool:
        """Whether the training hangs.

        Args:
            now: the time.
            stall: how long it may be silent, in seconds; 0 is for ever, and None is a training
                that nobody starts anew.
        """
        return stall is not None and 0 < stall < now - self.since

    def word(self, now: float, stall: float | None) -> Decision | None:
        """What is to be said of it, once; None for nothing.

        Args:
            now: the time.
            stall: how long it may be silent, in seconds; 0 is for ever, and None is a training
                that nobody starts anew.
        """
        silent = now - self.since
        if self.told or silent < max(QUIET_SECONDS, _PAUSES * self.longest):
            return None
        self.told = True
        message = (
            f"no step was reported for {silent / _MINUTE:.0f} minutes: a long checkpoint or "
            f"evaluation, or a rank that hangs; {_then(stall)}"
        )
        return Decision("NoSteps", message, warning=True)


def _then(stall: float | None) -> str:
    if stall is None:
        return "nothing is done about it (no generations of workers, which could be started anew)"
    if not stall:
        return "nothing is done about it (stallSeconds is 0)"
    return f"the training is started anew after {stall:g} s without one (stallSeconds)"

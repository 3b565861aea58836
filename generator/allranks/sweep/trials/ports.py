"""What runs the trials of a sweep, as its runner sees it: releases that come, speak, end and go.

`localtrials` and `clustertrials` stand behind it. No method waits for a trial: work that takes time
is done beside the runner, and is seen in what `observe` tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.sweep.actions import Observed
    from allranks.sweep.model import Trial


@dataclass(frozen=True, slots=True)
class Said:
    """What a trial has said since it was last asked.

    Attributes:
        lines: what it printed, in its order.
        message: its termination message, once it has ended; None before.
    """

    lines: Sequence[str] = ()
    message: str | None = None


class Trials(Protocol):
    """The releases of one sweep."""

    def observe(self) -> Mapping[str, Observed]:
        """Every release of the sweep by its name, this runner's own work under way included.

        Of one that is said to have ended, `read` gives all that it said.

        Raises:
            AllranksError: the list may not be complete.
        """

    def others(self) -> Mapping[str, str]:
        """Releases of another sweep of the same name, with whose they are, for a person.

        Raises:
            AllranksError: they cannot be seen.
        """

    def claims(self, trials: Collection[str], /) -> Mapping[str, str]:
        """Volumes of trials that were asked to stay, and do.

        Args:
            trials: their names.

        Returns:
            By what a person calls each, what a command to remove it needs.

        Raises:
            AllranksError: they cannot be seen.
        """

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to make a trial's release; nothing to do where it is there.

        Args:
            trial: which one.
            values: for its chart; the layout is among them.
        """

    def remove(self, name: str) -> None:
        """Begin to take a release away, whatever it does; nothing to do where there is none.

        One that runs may only be ended by it, and is seen as failed then, until it is removed once
        more.
        """

    def read(self, trial: Trial) -> Said:
        """What a trial has said since the last call; the first gives all from its beginning."""

    def wait(self, seconds: float) -> None:
        """Return when something may have changed, or after some seconds."""

    def wake(self) -> None:
        """Let `wait` return; also out of a signal's handler."""

    def close(self, *, at_once: bool = False) -> None:
        """Give up what is under way.

        Args:
            at_once: without letting it come to its end.
        """

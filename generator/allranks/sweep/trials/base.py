"""The interface between the runner of a sweep and the releases of its trials.

`trials.local` and `trials.cluster` implement it. No method waits for a trial: installs and removals
run in the background, and `observe` reports their progress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from allranks.sweep.actions import ObservedRelease
    from allranks.sweep.model import Trial


# What the charts' launchers say of what they do. Their other lines say why a trial failed.
_PROGRESS = re.compile(
    r"allranks: ("
    r"trial \S+: |running setup$|waiting for |generation \d+: |cannot write |the lines of rank "
    r"|rank 0 at \S+ is gone; |this rank has finished |the master is away |the master was not told "
    r")"
)


def last_line(lines: Iterable[str]) -> str:
    """Return the last line that can say why a trial failed; "" if there is none.

    Args:
        lines: the end of its output. What the launchers say of their progress is not the trial's.
    """
    stripped = (line.strip() for line in lines)
    own_lines = [line for line in stripped if line and not _PROGRESS.match(line)]
    return own_lines[-1] if own_lines else ""


@dataclass(frozen=True, slots=True)
class TrialOutput:
    """The output of a trial since the last read.

    Attributes:
        lines: the lines that it printed, in order.
        message: its termination message, once it has ended; None before.
    """

    lines: Sequence[str] = ()
    message: str | None = None


class TrialReleases(Protocol):
    """The releases of one sweep."""

    def observe(self) -> Mapping[str, ObservedRelease]:
        """Return every release of the sweep by name, with installs and removals under way.

        For a release that has ended, `read` returns all of its output.

        Raises:
            AllranksError: the list may not be complete.
        """

    def foreign_releases(self) -> Mapping[str, str]:
        """Return the releases of another sweep of the same name, with their owners in words.

        Raises:
            AllranksError: they cannot be listed.
        """

    def claims(self, trials: Collection[str], /) -> Mapping[str, str]:
        """Return the volumes of trials that stay after their releases are removed.

        Args:
            trials: the names of the trials.

        Returns:
            By a readable name of each, the argument of the command that removes it.

        Raises:
            AllranksError: they cannot be listed.
        """

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to install a trial's release, unless it is there.

        Args:
            trial: the trial.
            values: the values of its chart, with the layout.
        """

    def remove(self, name: str) -> None:
        """Begin to remove a release in any state; nothing to do if there is none.

        A running release may only be stopped by the first call, and is then observed as failed
        until it is removed by another.
        """

    def read(self, trial: Trial) -> TrialOutput:
        """Return the output of a trial since the last call; on the first call, all of it."""

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, for some seconds at most."""

    def wake(self) -> None:
        """Let `wait` return; also from a signal handler."""

    def close(self, *, at_once: bool = False) -> None:
        """Finish the background work.

        Args:
            at_once: abandon work under way, instead of waiting for it.
        """

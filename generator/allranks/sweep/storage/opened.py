"""What all journals that are open for writing do alike, wherever they are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.sweep import records

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from allranks.sweep.storage.journals import Journal, Keeper


class Closing(ABC):
    """Something that is closed at the end of its ``with``."""

    @abstractmethod
    def close(self) -> None:
        """Let the next writer in."""

    def __enter__(self) -> Self:
        """The thing itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def stop_unless_run(keeper: Keeper, why: str, at: float) -> bool:
    """Record a stop where nobody runs the sweep; who does run it sees the request that was left.

    Args:
        keeper: the sweep's; a request has been left with it.
        why: the reason, for a person.
        at: now, in seconds since the epoch.

    Returns:
        Whether somebody runs it.

    Raises:
        RunError: it cannot be written.
    """
    if keeper.is_run():
        return True
    with suppress(InputError), keeper.open() as opened:  # else it was started just now
        record_stop(opened, why, at)
        return False
    return True


def record_stop(journal: Journal, why: str, at: float) -> None:
    """Record that a sweep is to end which nobody runs; a request that was left for it is taken.

    Args:
        journal: the sweep's.
        why: the reason, for a person.
        at: now, in seconds since the epoch.

    Raises:
        RunError: it cannot be written.
    """
    journal.take_request()
    if not journal.state.outcome and not journal.state.requested:
        journal.append(records.request_stop(why, at))

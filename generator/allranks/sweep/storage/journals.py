"""What a sweep's journal is to whoever runs, reads or ends the sweep, wherever it is kept.

A sweep is kept in a file (`filekeeper`), and may be kept elsewhere: what ``--journal`` is given
says where. All that the rest of a sweep needs is here, so that nothing else has to know. Whatever
is behind it holds to three things: a record counts once `append` has returned, and not before;
there is one writer at a time, and a writer that was killed does not keep the next one out for long;
and whoever reads or asks for a stop needs not be the writer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from allranks import trust
from allranks.errors import InputError
from allranks.sweep.storage import databaseurl
from allranks.sweep.storage.filekeeper import FileKeeper
from allranks.sweep.storage.secretkeeper import PREFIX, Address, SecretKeeper
from allranks.sweep.storage.studykeeper import StudyKeeper

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState


# What looks like a kind of place; a file may be called so as well, and is written ./x:y then.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Those that are as good as right.
_SECRETS, _SQLITE = ("secret", "secrets"), ("sqlite", "sqlite3")


class Journal(Protocol):
    """A journal that is open for writing, and the sweep as it tells it.

    Nobody else can write it until it is closed, or its process has ended.
    """

    @property
    def where(self) -> str:
        """Where it is, as `Keeper.where`."""

    @property
    def state(self) -> SweepState:
        """The sweep, with all records that were written."""

    def append(self, *written: Record) -> None:
        """Take records into the state, and write them for good: all of them, or a first part.

        After an error nothing more can be written.

        Raises:
            RunError: they cannot be written.
            ValueError: a record does not follow from the state; none of them was written.
        """

    def take_request(self) -> str:
        """Why the sweep was asked to end since the last call; "" where it was not.

        Raises:
            RunError: that cannot be seen.
        """

    def close(self) -> None:
        """Let the next writer in."""

    def __enter__(self) -> Self:
        """The journal itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""


class Keeper(Protocol):
    """The place of one sweep's journal. To have one costs nothing: nothing is looked at before."""

    @property
    def name(self) -> str:
        """The sweep's name; "" where only the journal was named."""

    @property
    def where(self) -> str:
        """The place, as ``--journal`` takes it, from whatever folder, and without any password."""

    def create(self, head: Record) -> Journal:
        """Begin a journal with its head.

        Args:
            head: of `records.head`.

        Raises:
            InputError: there is one already, or the place cannot be used.
            RunError: it cannot be written.
        """

    def open(self) -> Journal:
        """Go on with a journal.

        Raises:
            InputError: there is none, another process writes it, it is of a newer version, or it
                was changed by other hands.
            RunError: it cannot be read or written.
        """

    def read(self) -> SweepState:
        """The sweep, which somebody may be running.

        Raises:
            InputError: there is none, it is of a newer version, or it was changed by other hands.
            RunError: it cannot be read.
        """

    def exists(self) -> bool:
        """Whether there is a journal.

        Raises:
            AllranksError: that cannot be seen.
        """

    def is_run(self) -> bool:
        """Whether a process runs the sweep now.

        Raises:
            AllranksError: that cannot be seen.
        """

    def request_stop(self, why: str, at: float) -> bool:
        """Ask the sweep to end, from any process; who runs it sees it within some seconds.

        Args:
            why: the reason, for a person.
            at: now, in seconds since 1970.

        Returns:
            Whether a process runs it now. Where none does, it is recorded, and `runner.run` carries
            it out.

        Raises:
            InputError: there is no such sweep.
            RunError: the request cannot be written.
        """

    def forget(self) -> None:
        """Remove the journal and what belongs to it; nothing to do where there is none."""


def keeper(where: str, name: str = "") -> Keeper:
    """Who keeps the sweep of a name.

    Args:
        where: what ``--journal`` was given.
        name: the sweep's name; "" where only the journal is known.

    Raises:
        InputError: no journal can be there.
    """
    if where.startswith(PREFIX):
        address = Address.parse(where)
        return SecretKeeper(address, name or address.sweep)
    if databaseurl.is_one(where):
        return StudyKeeper(databaseurl.settle(where), name)
    scheme = _SCHEME.match(where)
    if scheme is not None:
        raise _unknown(scheme[1], where.removeprefix(scheme[0]))
    return FileKeeper(Path(where).absolute(), name)


def is_own(where: str) -> bool:
    """Whether nobody but this user can have written a journal: it is a file of theirs alone.

    Args:
        where: of `Keeper.where`; "" is none.
    """
    if not where or where.startswith(PREFIX) or databaseurl.is_one(where):
        return False
    return _SCHEME.match(where) is None and trust.is_own_file(Path(where))


def _unknown(scheme: str, rest: str) -> InputError:
    """Nothing of that kind keeps sweeps; the rest may be a password, and is not repeated."""
    near = ""
    if rest and scheme.lower() in _SECRETS:
        near = f"{PREFIX}{rest.lstrip('/')}"
    elif rest and scheme.lower() in _SQLITE:
        near = f"sqlite:///{rest}"
    known = f"{PREFIX}NAMESPACE/NAME, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    hint = f"did you mean {near}?" if near else f"write {known}"
    return InputError(
        f"no sweep can be kept in {scheme}:…",
        path="--journal",
        hint=f"{hint}; a file of that name is ./{scheme}:…",
    )

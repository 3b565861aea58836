"""A sweep that is kept in a file.

::

    journal.jsonl      the sweep; see `journal`
    journal.jsonl.stop who runs it is asked to end it, and why

A sweep is asked to stop by a file, so that any process of the user's can ask, whatever machine or
container the one that runs the sweep is in, as long as both see the journal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError, RunError
from allranks.local import store
from allranks.sweep.storage import journal
from allranks.sweep.storage.journal import Journal
from allranks.sweep.storage.opened import stop_unless_run

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState


@dataclass(frozen=True, slots=True)
class FileKeeper:
    """The place of a journal that is a file; see `journals.Keeper`.

    Attributes:
        path: the file; absolute.
        name: the sweep's name; "" where only the file was named.
    """

    path: Path
    name: str = ""

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self.path)

    def create(self, head: Record) -> Journal:
        """Begin the file, and its folder."""
        try:
            # One that a person has named is theirs to keep from others.
            own = store.root() in self.path.parents
            if own:
                store.make_root()
            self.path.parent.mkdir(0o700 if own else 0o777, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the folder {self.path.parent} cannot be made: {error.strerror}",
                hint=f"name another with --journal, or set {names.ENV_STATE}",
            ) from error
        made = Journal.create(self.path, head)
        made.take_request()
        return made

    def open(self) -> Journal:
        """Go on with the file."""
        return Journal.open(self.path)

    def read(self) -> SweepState:
        """Read the file."""
        return journal.read(self.path)

    def exists(self) -> bool:
        """Whether there is such a file."""
        return self.path.is_file()

    def is_run(self) -> bool:
        """Whether somebody has locked the file."""
        return store.is_locked(self.path)

    def request_stop(self, why: str, at: float) -> bool:
        """Leave a request beside the file; who runs the sweep sees it within a second."""
        if not self.exists():
            raise InputError(f"there is no journal {self.path}", hint="check the sweep's name")
        file = journal.stop_file(self.path)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            # In a folder that others write a name may be theirs already, such as a link's.
            partial.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(partial, flags, 0o666), "w", encoding="utf-8") as stream:
                stream.write(why)
            partial.replace(file)
        except OSError as error:
            raise RunError(f"{file} cannot be written: {error.strerror}") from error
        return stop_unless_run(self, why, at)

    def forget(self) -> None:
        """Remove the file and a request."""
        for file in (self.path, journal.stop_file(self.path)):
            file.unlink(missing_ok=True)

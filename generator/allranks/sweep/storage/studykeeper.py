"""Where a sweep is that is kept in a database; `study` does what is to be done there.

Optuna and its database library take half a second to be there, and need not be installed. So they
are looked for when a journal is used, and not when it is only mentioned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import MissingToolError

if TYPE_CHECKING:
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.journals import Journal, Keeper


@dataclass(frozen=True, slots=True)
class StudyKeeper:
    """The place of one sweep in a database; see `journals.Keeper`.

    Attributes:
        where: the URL, of `databaseurl.settle`.
        name: the sweep's name, which is the study's; "" for the only one that there is.
    """

    where: str
    name: str = ""

    def create(self, head: Record) -> Journal:
        """Begin a study, with its head, in one transaction."""
        return self._study().create(head)

    def open(self) -> Journal:
        """Take the lease, and go on with the study; the lease of one that was killed runs out."""
        return self._study().open()

    def read(self) -> SweepState:
        """Read the study; no lease is needed."""
        return self._study().read()

    def exists(self) -> bool:
        """Whether there is a study of the name with records of ours."""
        return self._study().exists()

    def is_run(self) -> bool:
        """Whether somebody holds the lease."""
        return self._study().is_run()

    def request_stop(self, why: str, at: float) -> bool:
        """Leave a request in the study; who runs the sweep sees it within a second."""
        return self._study().request_stop(why, at)

    def forget(self) -> None:
        """Remove the study; the database stays."""
        self._study().forget()

    def _study(self) -> Keeper:
        try:
            from allranks.sweep.storage.study import Study  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            if error.name not in ("optuna", "sqlalchemy"):
                raise
            raise MissingToolError(
                "a sweep in a database needs Optuna, which is not installed",
                path="--journal",
                hint="pip install 'allranks[search]', or name a file",
            ) from error
        return Study(self.where, self.name)

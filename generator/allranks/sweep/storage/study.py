"""A sweep in a database: a study of Optuna's with the sweep's name, and its records in it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optuna.storages._rdb import models

from allranks.errors import InputError
from allranks.sweep.state import begin
from allranks.sweep.storage import databaseurl, lines, rows
from allranks.sweep.storage.database import Database, TakenError
from allranks.sweep.storage.lease import Lease
from allranks.sweep.storage.opened import stop_unless_run
from allranks.sweep.storage.studyjournal import PAUSE, StudyJournal

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState


@dataclass(frozen=True, slots=True)
class Study:
    """One sweep in a database; see `journals.Keeper`.

    Attributes:
        where: the URL, of `databaseurl.settle`.
        name: the sweep's name, which is the study's; "" for the only one that there is.
    """

    where: str
    name: str = ""

    def create(self, head: Record) -> StudyJournal:
        """Begin a study, with its head, in one transaction."""
        database = Database(self.where)
        try:
            database.make()
            state = begin(head)
            text = rows.cut(lines.line(head).decode("ascii"))
            held = Lease.mine()
            while True:
                # Two may begin a sweep at the same time: the later one finds the other's.
                with suppress(TakenError), database.session() as session:
                    self._check_new(session, state.spec.name)
                    study = rows.new_study(session, state)
                    lease = held.renewed(database.now(session))
                    rows.put(session, study, rows.LEASE, lease.text())
                    rows.add_pieces(session, study, 0, text)
                    break
            return StudyJournal(database, study, state, len(text), held).begun()
        except BaseException:
            database.close()
            raise

    def open(self) -> StudyJournal:
        """Take the lease, and go on with the study; one that was killed is waited for."""
        database = Database(self.where)
        try:
            study = self._require(database)
            held = _take(database, study)
            try:
                with database.session() as session:
                    reader, pieces = rows.read(session, study, database.shown)
                return StudyJournal(database, study, reader.begun(), pieces, held).begun()
            except BaseException:
                with database.session() as session:
                    rows.put(session, study, rows.LEASE, Lease().text())
                raise
        except BaseException:
            database.close()
            raise

    def read(self) -> SweepState:
        """Read the study; no lease is needed."""
        database = Database(self.where)
        try:
            study = self._require(database)
            with database.session() as session:
                return rows.read(session, study, database.shown)[0].begun()
        finally:
            database.close()

    def exists(self) -> bool:
        """Whether there is a study of the name with records of ours."""
        database = Database(self.where)
        try:
            return self._study(database) is not None
        finally:
            database.close()

    def is_run(self) -> bool:
        """Whether somebody holds the lease."""
        database = Database(self.where)
        try:
            study = self._study(database)
            if study is None:
                return False
            with database.session() as session:
                return rows.lease_of(session, study).is_held(database.now(session))
        finally:
            database.close()

    def request_stop(self, why: str, at: float) -> bool:
        """Leave a request in the study; who runs the sweep sees it within a second."""
        database = Database(self.where)
        try:
            study = self._require(database)
            with database.session() as session:
                rows.put(session, study, rows.REQUEST, json.dumps(why))
        finally:
            database.close()
        return stop_unless_run(self, why, at)

    def forget(self) -> None:
        """Remove the study; the database stays."""
        database = Database(self.where)
        try:
            if self._study(database) is not None:
                database.delete_study(self.name)
        finally:
            database.close()

    def _study(self, database: Database) -> int | None:
        """Optuna's number of the study; None where there is none that is a sweep.

        Raises:
            InputError: no name was given, and there is not exactly one.
        """
        if not database.is_there():
            return None
        with database.session() as session:
            found = dict(
                session.query(models.StudyModel.study_name, models.StudyModel.study_id)
                .join(rows.Attribute, rows.Attribute.study_id == models.StudyModel.study_id)
                .filter(rows.Attribute.key == rows.key_of(0))
                .order_by(models.StudyModel.study_name)
                .all()
            )
        if self.name or len(found) == 1:
            return found.get(self.name or next(iter(found)))
        if not found:
            return None
        raise InputError(
            f"the database {database.shown} keeps {len(found)} sweeps: {', '.join(found)}",
            hint="give the name of one of them before --journal",
        )

    def _require(self, database: Database) -> int:
        study = self._study(database)
        if study is None:
            what = f"no sweep {self.name!r}" if self.name else "no sweep"
            raise InputError(f"there is {what} in {database.shown}", hint="check the sweep's name")
        return study

    def _check_new(self, session: Session, name: str) -> None:
        study = models.StudyModel.find_by_name(name, session)
        if study is None:
            return
        shown = databaseurl.shown(self.where)
        if rows.find(session, int(study.study_id), rows.key_of(0)) is None:
            raise InputError(
                f"there is a study {name!r} in {shown} already that is not a sweep's",
                hint="give the sweep another name, or another database",
            )
        lines.check_new(rows.read(session, int(study.study_id), shown)[0].state, shown)


def _take(database: Database, study: int) -> Lease:
    """Take a study's lease, once nobody has it any more.

    Raises:
        InputError: another process holds it, and goes on doing so.
    """
    mine = Lease.mine()
    first: Lease | None = None
    while True:
        with database.session() as session:
            row = rows.find(session, study, rows.LEASE, lock=True)
            now = database.now(session)
            held = Lease.parse(None if row is None else row.value_json)
            if not held.is_held(now):
                rows.put(session, study, rows.LEASE, mine.renewed(now).text())
                return mine
        first = first or held
        if held != first or held.is_near():
            raise InputError(
                f"another process runs this sweep: {held} writes it",
                hint="watch it with `allranks sweep status`, or end that process first",
            )
        time.sleep(PAUSE)

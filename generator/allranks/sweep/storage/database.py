"""A sweep in a database: its records and its lease are rows of two tables of ours (`sql`).

Each `append` is one transaction, in which the writer also shows that the lease is still its own.
So there is no moment at which a writer could be killed and leave half of it behind; and of one that
was thought dead and is not, nothing is taken any more.

A sweep that an older allranks has kept in Optuna's tables is read where it is, and moved into ours
by the first one who writes it, within one transaction (`older_database`).

SQLAlchemy takes a third of a second to import, and need not be installed.
"""

from __future__ import annotations

import shlex
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import AllranksError, InputError, MissingToolError
from allranks.sweep.storage import base, exposure
from allranks.sweep.storage import lease as leases
from allranks.sweep.storage.base import Backend, BegunError, LostError
from allranks.sweep.storage.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sqlalchemy import Connection

    from allranks.sweep.records import Record
    from allranks.sweep.storage.sql import Database

# So long a database may be away before a runner gives up, in seconds, and the pause between tries.
PATIENCE = 60.0
PAUSE = 0.25


@dataclass
class DatabaseBackend(Backend):
    """A journal in a database; see `Backend`. A position is a number of records.

    Attributes:
        where: the URL, of `database_url.settle`.
        name: the sweep's name; "" for the only one that there is.
    """

    where: str
    name: str = ""
    # While this process holds the lease.
    _writer: _DatabaseWriter | None = field(default=None, init=False, repr=False, compare=False)

    def exists(self) -> bool:
        """Whether the database has records of the sweep."""
        with self._connect() as database:
            return self._find(database) is not None

    def read_from(self, position: int) -> Generator[tuple[bytes, int]]:
        """Yield the records from a number on."""
        with self._connect() as database:
            from allranks.sweep.storage import older_database, sql

            sweep, is_older = self._require(database)
            with database.transaction() as connection:
                if not is_older:
                    yield from sql.read_lines(connection, sweep, position, database.shown)
                    return
                lines = older_database.read_lines(connection, sweep, database.shown)
                number = 0
                for number, line in enumerate(lines, start=1):
                    if number > position:
                        yield line, number
                if not number:  # another process has moved it just now
                    yield from sql.read_lines(connection, sweep, position, database.shown)

    def create(self, head: Record) -> int:
        """Write the head and the lease, in one transaction."""
        exposure.check_database(self.where)
        database = self._database()
        sweep = str(head["spec"]["name"])
        try:
            database.make()
            lease = self._begin(database, sweep, head)
        except BaseException:
            database.close()
            raise
        self._writer = _DatabaseWriter(database, sweep, lease)
        return 1

    def _begin(self, database: Database, sweep: str, head: Record) -> Lease:
        from allranks.sweep.storage import sql

        if sweep in self._sweeps(database):
            raise BegunError(sweep, database.shown)
        own_lease = Lease.mine()
        try:
            with database.transaction() as connection:
                sql.insert(connection, sweep, [base.line(head).rstrip(b"\n")], 0)
                sql.put_lease(connection, sweep, own_lease.renew(sql.now(connection)))
                sql.put_request(connection, sweep, None)
        except sql.TakenError as error:  # another process has begun it just now
            raise BegunError(sweep, database.shown) from error
        return own_lease

    def append(self, data: bytes, position: int) -> int:
        """Write records, in one transaction."""
        lines = data.splitlines()
        self._lease_writer().append(lines, position)
        return position + len(lines)

    def acquire(self) -> None:
        """Acquire the lease, once it is free; that of a killed writer expires first."""
        exposure.check_database(self.where)
        database = self._database()
        try:
            self._require(database)
            database.make()
            sweep, is_older = self._require(database)
            lease = _take(database, sweep, is_older=is_older)
        except BaseException:
            database.close()
            raise
        self._writer = _DatabaseWriter(database, sweep, lease)

    def release(self) -> None:
        """Give the lease back."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def is_held(self) -> bool:
        """Whether a process holds the lease."""
        with self._connect() as database:
            from allranks.sweep.storage import sql

            location = self._find(database)
            if location is None:
                return False
            with database.transaction() as connection:
                lease = _lease(connection, *location)
                return lease is not None and lease.is_held(sql.now(connection))

    def request(self, reason: str) -> None:
        """Write a request beside the lease; the runner sees it within a second."""
        with self._connect() as database:
            from allranks.sweep.storage import older_database, sql

            sweep, is_older = self._require(database)
            with database.transaction() as connection:
                if _lock(connection, sweep, is_older):
                    older_database.put_request(connection, sweep, reason)
                elif not sql.put_request(connection, sweep, reason):
                    sql.put_lease(connection, sweep, Lease())
                    sql.put_request(connection, sweep, reason)

    def take_request(self) -> str:
        """Return the request beside the lease, and remove it; "" while the database is away."""
        return self._lease_writer().take_request()

    def delete(self) -> None:
        """Remove the sweep; the database stays, and so does a study of Optuna's."""
        with self._connect() as database:
            from allranks.sweep.storage import older_database, sql

            location = self._find(database)
            if location is None:
                return
            with database.transaction() as connection:
                is_older = _lock(connection, *location)
                (older_database if is_older else sql).delete(connection, location[0])

    # --- which sweep ------------------------------------------------------------------------------

    def _lease_writer(self) -> _DatabaseWriter:
        if self._writer is None:
            raise ValueError("the lease is not held")
        return self._writer

    def _database(self) -> Database:
        """Return the database; nothing is connected yet.

        Raises:
            MissingToolError: SQLAlchemy or a driver is not installed.
            InputError: there is no such kind of database.
        """
        try:
            from allranks.sweep.storage.sql import Database
        except ModuleNotFoundError as error:
            if error.name != "sqlalchemy":
                raise
            raise MissingToolError(
                "a sweep in a database needs SQLAlchemy, which is not installed",
                path="--journal",
                hint="pip install 'allranks[search]', or name a file",
            ) from error
        return Database(self.where)

    @contextmanager
    def _connect(self) -> Iterator[Database]:
        """Use the writer's connections, or others that are closed at the end."""
        if self._writer is not None:
            yield self._writer.database
            return
        database = self._database()
        try:
            yield database
        finally:
            database.close()

    def _sweeps(self, database: Database) -> dict[str, bool]:
        """Return the sweeps in a database by name, with whether each is in Optuna's tables."""
        from allranks.sweep.storage import older_database, sql

        tables = database.tables()
        sweeps: dict[str, bool] = {}
        if older_database.is_there(database, tables):
            with database.transaction() as connection:
                sweeps = dict.fromkeys(older_database.sweeps(connection), True)
            # Ours only now: who moves a sweep meanwhile makes them, and it is in both.
            tables = database.tables()
        if sql.RECORDS.name in tables and sql.LEASES.name in tables:
            with database.transaction() as connection:
                sweeps |= dict.fromkeys(sql.sweeps(connection), False)
        return sweeps

    def _find(self, database: Database) -> tuple[str, bool] | None:
        """Return the sweep's name, and whether it is in Optuna's tables; None if there is none.

        Raises:
            InputError: no name was given, and there is not exactly one.
        """
        sweeps = self._sweeps(database)
        if self.name:
            return (self.name, sweeps[self.name]) if self.name in sweeps else None
        if len(sweeps) > 1:
            raise InputError(
                f"the database {database.shown} keeps {len(sweeps)} sweeps: "
                f"{', '.join(sorted(sweeps))}",
                hint="give the name of one of them before --journal",
            )
        return next(iter(sweeps.items()), None)

    def _require(self, database: Database) -> tuple[str, bool]:
        location = self._find(database)
        if location is None:
            subject = f"no sweep {self.name!r}" if self.name else "no sweep"
            raise InputError(
                f"there is {subject} in {database.shown}", hint="check the sweep's name"
            )
        return location


def _lease(connection: Connection, sweep: str, is_older: bool) -> Lease | None:  # noqa: FBT001 - of `_find`
    from allranks.sweep.storage import older_database, sql

    if is_older:
        return older_database.lease_of(connection, sweep)
    return sql.lease_of(connection, sweep)


def _lock(connection: Connection, sweep: str, is_older: bool) -> bool:  # noqa: FBT001 - of `_find`
    """Have everybody else who would write the sweep wait for the end of the transaction.

    Returns:
        Whether it is in Optuna's tables: another process may have moved it just now.
    """
    from allranks.sweep.storage import older_database, sql

    if is_older:
        older_database.lock_lease(connection, sweep)
        if older_database.has_journal(connection, sweep):
            return True
    sql.lock_lease(connection, sweep)
    return False


def _take(database: Database, sweep: str, *, is_older: bool) -> Lease:
    """Acquire a sweep's lease, once it is free, and move the sweep if it is in Optuna's tables.

    Raises:
        InputError: another process holds it, and goes on doing so.
    """
    from allranks.sweep.storage import older_database, sql

    own_lease = Lease.mine()
    first: Lease | None = None
    # Who lives renews it within that time, whatever its end says: another clock may have set it.
    give_up = time.monotonic() + leases.SECONDS
    while True:
        with suppress(sql.TakenError), database.transaction() as connection:
            is_older = _lock(connection, sweep, is_older)
            lease = _lease(connection, sweep, is_older) or Lease()
            now = sql.now(connection)
            is_stale = lease == first and time.monotonic() > give_up
            if is_stale or not lease.is_held(now):
                if is_older:
                    older_database.move(connection, sweep, database.shown)
                sql.put_lease(connection, sweep, own_lease.renew(now))
                return own_lease
            first = first or lease
            if lease != first or lease.is_near():
                raise InputError(
                    f"another process runs this sweep: {lease} writes it",
                    hint="watch it with `allranks sweep status`, or `allranks sweep stop` it",
                )
        time.sleep(PAUSE)


class _DatabaseWriter:
    """Holds a sweep's lease, renews it in the background, and appends.

    Attributes:
        database: its connections.
    """

    def __init__(self, database: Database, sweep: str, lease: Lease) -> None:
        """Begin to renew a lease that this process has acquired."""
        self.database = database
        self._sweep = sweep
        self._lease = lease
        # Why no more is written, where another process has the sweep.
        self._lost: LostError | None = None
        self._closed = threading.Event()
        # One at a time: the runner, and the thread that renews the lease.
        self._turn = threading.Lock()
        self._renewer = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._renewer.start()

    def append(self, lines: list[bytes], position: int) -> None:
        """Write, and wait for a database that does not answer.

        Raises:
            LostError: another process has taken the sweep over.
            RunError: the database stays away, or refuses.
        """
        if self._lost is not None:
            raise self._lost
        from allranks.sweep.storage import sql

        give_up = time.monotonic() + PATIENCE
        is_first = True
        while True:
            try:
                with self._turn, self.database.transaction() as connection:
                    self._prove(connection)
                    # Its answer to the last try may have been lost on the way.
                    if is_first or not sql.has_record(connection, self._sweep, position):
                        sql.insert(connection, self._sweep, lines, position)
            except sql.AwayError:
                is_first = False
                if time.monotonic() > give_up:
                    raise
                time.sleep(PAUSE)
            else:
                return

    def take_request(self) -> str:
        """Return the reason of a stop request, and remove it; "" for none."""
        from allranks.sweep.storage import sql

        try:
            with self._turn, self.database.transaction() as connection:
                reason = sql.request_of(connection, self._sweep, self.database.shown)
                if reason is None:
                    return ""
                self._prove(connection)  # else it is for another process
                sql.put_request(connection, self._sweep, None)
        except sql.AwayError:
            return ""  # It is still there when the database is.
        return reason.strip() or "it was asked to end"

    def close(self) -> None:
        """Give the lease back, and end all connections."""
        from allranks.sweep.storage import sql

        self._closed.set()
        self._renewer.join()
        # Where the database is away, the lease ends by itself.
        with suppress(AllranksError), self._turn, self.database.transaction() as connection:
            sql.renew_lease(connection, self._sweep, self._lease.holder, Lease())
        self.database.close()

    def _prove(self, connection: Connection) -> None:
        """Renew the lease within a transaction, which has everybody else wait for its end.

        Raises:
            LostError: it is another one's by now.
        """
        from allranks.sweep.storage import sql

        lease = self._lease.renew(sql.now(connection))
        if not sql.renew_lease(connection, self._sweep, self._lease.holder, lease):
            self._lost = self._lost_to(sql.lease_of(connection, self._sweep))
            raise self._lost

    def _lost_to(self, lease: Lease | None) -> LostError:
        """Return the error for a lease that another process took, or a sweep that was removed."""
        name = self._sweep
        if lease is None:
            return LostError(
                f"the sweep {name} was removed from {self.database.shown} while it was run",
                hint="trials that run still have their releases: `helm list -l "
                f"{names.SWEEP}={name}`",
            )
        of = shlex.join((name, "--journal", self.database.shown))
        if not lease.holder:
            return LostError(
                f"another process had taken the sweep {name} over meanwhile, and has ended; this "
                "one writes nothing more",
                hint=f"see how far it is with `{names.CLI} sweep status {of}`, and go on with "
                f"`{names.CLI} sweep resume {of}`",
            )
        return LostError(
            f"{lease} has taken the sweep {name} over, as this process was silent for more than "
            f"{leases.SECONDS:.0f} s; this one writes nothing more",
            hint=f"that one goes on with it, and no trial is lost: watch it with `{names.CLI} "
            f"sweep status {of}`; to run it here again, end that one and then `{names.CLI} sweep "
            f"resume {of}`",
        )

    def _renew(self) -> None:
        while self._lost is None and not self._closed.wait(leases.RENEWED_EVERY):
            # Whoever writes next says so where it is lost.
            with suppress(AllranksError), self._turn, self.database.transaction() as connection:
                self._prove(connection)

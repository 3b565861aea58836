"""The two tables of sweeps in a database: open it, check its tables, and translate its errors.

::

    allranks_records    sweep, seq, line              each record of a sweep, by its number
    allranks_leases     sweep, holder, lease, request who writes it, and that it is asked to end

Only this module and `older_database` use a database. Of a driver's error only the first line is
shown, without the statement and its parameters.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text, exc, func

from allranks.errors import AllranksError, InputError, MissingToolError, RunError
from allranks.sweep.storage import database_url
from allranks.sweep.storage.base import LINE_MAX
from allranks.sweep.storage.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_METADATA = MetaData()
# MySQL has room for more than 64 KiB only in a text that says how long it may be.
_LINE = Text().with_variant(Text(LINE_MAX + 1), "mysql", "mariadb")
RECORDS = Table(
    "allranks_records",
    _METADATA,
    Column("sweep", String(255), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("line", _LINE, nullable=False),
)
LEASES = Table(
    "allranks_leases",
    _METADATA,
    Column("sweep", String(255), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("lease", Text, nullable=False),
    Column("request", Text),
)

# The timeout of the first connection, in seconds.
_CONNECT = 10
# How long another program may lock a SQLite file, in seconds.
_BUSY = 30
# Bytes of lines that are in memory, and characters of a lease or a request that are read.
_AT_ONCE = 16 << 20
_TEXT_MAX = 4096
_CLOCKS = {
    database_url.POSTGRESQL: "SELECT extract(epoch FROM clock_timestamp())",
    database_url.MYSQL: "SELECT unix_timestamp(now(6))",
}
# What the library raises for a row that we did not write, such as a number in place of a text.
_OTHERWISE = (LookupError, TypeError, ValueError)
_PACKAGES = {"psycopg": "'allranks[postgres]'", "pymysql": "pymysql", "MySQLdb": "mysqlclient"}
# What databases say where what was asked for is wrong, and where something stands in the way.
_WRONG = (
    ("password authentication failed", "set PGPASSWORD, or write the password into ~/.pgpass"),
    ("no password supplied", "set PGPASSWORD, or write the password into ~/.pgpass"),
    ("does not exist", "make it first, with `createdb` or `createuser`, or correct the URL"),
    ("no schema has been selected", "let the user of the URL make and write tables there"),
    ("permission denied", "let the user of the URL make and write tables there"),
    ("readonly database", "make the file and its folder writable, or name another"),
    ("unable to open database file", "make its folder, or name another file"),
    ("not a database", "name another file"),
)
_IN_THE_WAY = (
    ("is locked", "another program keeps it to itself; end that one"),
    ("disk is full", "make room on the disk, then resume the sweep"),
)


class Database:
    """One database.

    Attributes:
        url: as `database_url.settle` made it; it has no password.
        shown: the same for messages.
    """

    def __init__(self, url: str) -> None:
        """Create the engine; nothing is connected yet.

        Raises:
            InputError: there is no such kind of database.
            MissingToolError: its driver is not installed.
        """
        self.url, self.shown = url, database_url.show(url)
        self._driver_url = database_url.for_driver(url)
        self._options = _options(self._driver_url)
        try:
            self._engine = sqlalchemy.create_engine(self._driver_url, **self._options)
        except exc.NoSuchModuleError as error:
            raise InputError(
                f"there is no database of the kind {database_url.backend(url)}",
                path="--journal",
                hint="give sqlite:///sweeps.db or postgresql://user@host/database",
            ) from error
        except ImportError as error:
            # One that is there without what it stands on names nothing.
            driver = error.name or self._driver_url.partition("://")[0].rpartition("+")[2]
            raise MissingToolError(
                f"{database_url.backend(url)} needs {driver}, which is not installed",
                path="--journal",
                hint=f"pip install {_PACKAGES.get(driver, driver)}",
            ) from error
        except (exc.ArgumentError, ValueError) as error:
            raise InputError(
                f"{self.shown} is no URL of a database",
                path="--journal",
                hint="give sqlite:///sweeps.db or postgresql://user@host/database",
            ) from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run a transaction: committed if the block succeeds, else rolled back.

        Raises:
            AwayError: the database does not answer, or not now.
            TakenError: another process has written the same.
            RunError: it refuses, or a row is not as we write it.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except (exc.SQLAlchemyError, *_OTHERWISE) as error:
            raise self.refused(error) from error

    def tables(self) -> frozenset[str]:
        """Return the names of all tables; ours are checked.

        Raises:
            InputError: one of our names is somebody else's table.
            RunError: the database does not answer, or refuses.
        """
        path = database_url.file(self.url)
        if path is not None and not path.exists():
            return frozenset()
        try:
            inspector = sqlalchemy.inspect(self._engine)
            names = frozenset(inspector.get_table_names())
            for table in (LEASES, RECORDS):
                if table.name not in names:
                    continue
                columns = {column["name"] for column in inspector.get_columns(table.name)}
                if not columns >= set(table.columns.keys()):
                    raise InputError(
                        f"the database {self.shown} has a table {table.name!r} that is not ours",
                        path="--journal",
                        hint="give the sweeps a database of their own",
                    )
        except exc.SQLAlchemyError as error:
            refusal = self.refused(error)
            if any(word in refusal.problem.message for word, _ in _WRONG):
                # Whoever looks at a database first looks here: nothing was done yet.
                raise InputError(refusal.problem.message, hint=refusal.problem.hint) from error
            raise refusal from error
        return names

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns.

        Raises:
            RunError: the database does not answer, or refuses.
        """
        try:
            inspector = sqlalchemy.inspect(self._engine)
            return frozenset(column["name"] for column in inspector.get_columns(table))
        except exc.SQLAlchemyError as error:
            raise self.refused(error) from error

    def make(self) -> None:
        """Create our tables unless they exist.

        Raises:
            InputError: somebody else's have their names.
            RunError: the database does not answer, or refuses.
        """
        if self.tables() >= set(_METADATA.tables):
            return
        path = database_url.file(self.url)
        if path is not None:
            with suppress(OSError):  # what is wrong with it is told by who opens it
                path.touch(0o600, exist_ok=False)  # as of a journal in a file
        try:
            _METADATA.create_all(self._engine)
        except exc.SQLAlchemyError as error:
            # Another process may have made them just now.
            if not self.tables() >= set(_METADATA.tables):
                raise self.refused(error) from error

    def refused(self, error: Exception) -> AllranksError:
        """Return the error for an exception of the database, in our words."""
        message = _first(getattr(error, "orig", None) or error)
        hint = next((fix for word, fix in (*_WRONG, *_IN_THE_WAY) if word in message), "")
        away = isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError)
        wrong = isinstance(error, (exc.ProgrammingError, exc.NoSuchTableError, *_OTHERWISE))
        kind: type[RunError] = AwayError if away and not hint else RunError
        if isinstance(error, exc.IntegrityError):
            kind = TakenError
        if wrong and not hint:
            hint = "its tables are not as allranks makes them; name another database"
        trouble = "reached" if away else "used"
        return kind(
            f"the database {self.shown} cannot be {trouble}: {message}",
            hint=hint or "see that it runs and that its address is right, then try again",
        )


class AwayError(RunError):
    """The database does not answer for now."""


class TakenError(RunError):
    """Another process has written the same at the same time."""


def now(connection: Connection) -> float:
    """Return the database's clock, in seconds since 1970."""
    query = _CLOCKS.get(connection.dialect.name)
    if query is None:
        return time.time()
    return float(connection.execute(sqlalchemy.text(query)).scalar_one())


# --- records --------------------------------------------------------------------------------------


def sweeps(connection: Connection) -> list[str]:
    """Return the names of all sweeps in our tables."""
    query = sqlalchemy.select(RECORDS.c.sweep).where(RECORDS.c.seq == 0)
    return [str(name) for name in connection.scalars(query)]


def has_record(connection: Connection, sweep: str, seq: int = 0) -> bool:
    """Whether a sweep has a record of a number."""
    query = sqlalchemy.select(RECORDS.c.seq).where(RECORDS.c.sweep == sweep, RECORDS.c.seq == seq)
    return connection.execute(query).first() is not None


def insert(connection: Connection, sweep: str, lines: list[bytes], first: int) -> None:
    """Write records, from an unused number on."""
    rows = [
        {"sweep": sweep, "seq": seq, "line": line.decode("ascii")}
        for seq, line in enumerate(lines, start=first)
    ]
    connection.execute(sqlalchemy.insert(RECORDS), rows)


def read_lines(
    connection: Connection, sweep: str, position: int, where: str
) -> Iterator[tuple[bytes, int]]:
    """Yield the records of a sweep from a number on, each with the number of the next.

    Raises:
        InputError: they are not as we write them.
    """
    ours = (RECORDS.c.sweep == sweep, RECORDS.c.seq >= position)
    # Whoever writes a row may fill it with all that the database takes, which can be 1 GiB.
    longest = connection.scalar(
        sqlalchemy.select(func.max(func.length(RECORDS.c.line))).where(*ours)
    )
    if longest is None:
        return
    if int(longest) > LINE_MAX:
        raise changed_error(where)
    query = sqlalchemy.select(RECORDS.c.seq, RECORDS.c.line).where(*ours).order_by(RECORDS.c.seq)
    rows_at_once = min(1000, 1 + _AT_ONCE // (1 + int(longest)))
    for seq, line in connection.execute(query.execution_options(yield_per=rows_at_once)):
        if seq != position or not isinstance(line, str):
            raise changed_error(where)
        position += 1
        yield line.encode("utf-8", "surrogatepass"), position


def changed_error(where: str) -> InputError:
    """Return the error for rows that are not as we write them."""
    return InputError(
        f"the journal in {where} was changed by other hands",
        hint="bring the database back from a copy, or delete the sweep",
    )


def delete(connection: Connection, sweep: str) -> None:
    """Remove a sweep."""
    for table in (RECORDS, LEASES):
        connection.execute(sqlalchemy.delete(table).where(table.c.sweep == sweep))


# --- leases ---------------------------------------------------------------------------------------


def lock_lease(connection: Connection, sweep: str) -> None:
    """Have everybody else who would write the sweep wait for the end of the transaction."""
    update = sqlalchemy.update(LEASES).where(LEASES.c.sweep == sweep)
    connection.execute(update.values(holder=LEASES.c.holder))


def lease_of(connection: Connection, sweep: str) -> Lease | None:
    """Return the lease of a sweep, as far as it is one; None if there is none."""
    query = sqlalchemy.select(func.substr(LEASES.c.lease, 1, _TEXT_MAX))
    row = connection.execute(query.where(LEASES.c.sweep == sweep)).first()
    return None if row is None else Lease.parse(row[0])


def put_lease(connection: Connection, sweep: str, lease: Lease) -> None:
    """Set the lease of a sweep, whoever has it."""
    values = {"holder": lease.holder, "lease": lease.text()}
    result = connection.execute(
        sqlalchemy.update(LEASES).where(LEASES.c.sweep == sweep).values(**values)
    )
    if not result.rowcount:
        connection.execute(sqlalchemy.insert(LEASES).values(sweep=sweep, **values))


def renew_lease(connection: Connection, sweep: str, holder: str, lease: Lease) -> bool:
    """Replace a holder's lease; return False if somebody else has it.

    Everybody else who would write the sweep waits for the end of the transaction.
    """
    update = sqlalchemy.update(LEASES).where(LEASES.c.sweep == sweep, LEASES.c.holder == holder)
    result = connection.execute(update.values(holder=lease.holder, lease=lease.text()))
    return bool(result.rowcount)


def request_of(connection: Connection, sweep: str, where: str) -> str | None:
    """Return the beginning of a stop request; None for none.

    Raises:
        InputError: it is no text.
    """
    query = sqlalchemy.select(func.substr(LEASES.c.request, 1, _TEXT_MAX))
    reason = connection.scalar(query.where(LEASES.c.sweep == sweep))
    if reason is not None and not isinstance(reason, str):
        raise changed_error(where)
    return reason


def put_request(connection: Connection, sweep: str, reason: str | None) -> bool:
    """Set or remove a stop request; return False if there is no such sweep."""
    update = sqlalchemy.update(LEASES).where(LEASES.c.sweep == sweep)
    return bool(connection.execute(update.values(request=reason)).rowcount)


def _options(url: str) -> dict[str, Any]:
    backend = database_url.backend(url)
    if backend == database_url.SQLITE:
        has_timeout = f"?{database_url.TIMEOUT}=" in url
        return {} if has_timeout else {"connect_args": {database_url.TIMEOUT: _BUSY}}
    if backend == database_url.POSTGRESQL:
        quiet = {"connect_timeout": _CONNECT, "application_name": "allranks"}
        # A database without an encoding (SQL_ASCII), as of a server that was made in the locale C,
        # sends bytes, and psycopg leaves them such where the client names no encoding of its own.
        arguments = {**quiet, "client_encoding": "utf8"}
        return {"connect_args": arguments, "pool_pre_ping": True, "pool_size": 2}
    return {"pool_pre_ping": True}


def _first(error: BaseException) -> str:
    """Return the first line of an error's message."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].strip()

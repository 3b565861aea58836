"""A database with Optuna's tables in it: opened with care, and its errors in our words.

Here and in `study` alone a database is spoken to. Nothing that a driver says is passed on but its
first line: the statement and its parameters are not for people.
"""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from sqlalchemy import exc
from sqlalchemy.orm import Session

from allranks.errors import AllranksError, InputError, MissingToolError, RunError
from allranks.sweep.storage import databaseurl

if TYPE_CHECKING:
    from collections.abc import Iterator

optuna.logging.set_verbosity(optuna.logging.ERROR)

# How long a database may take until it answers the first time, in seconds.
_CONNECT = 10
# How long another program may keep a SQLite file to itself, in seconds.
_BUSY = 30
# The one arrangement of tables that `study` writes; Optuna has had it since 3.2.
_REVISION = "v3.2.0.a"
# All that the Optuna that is installed knows, the newest first; found out when it is needed.
_VERSIONS: list[str] = []
_CLOCKS = {
    databaseurl.POSTGRESQL: "SELECT extract(epoch FROM clock_timestamp())",
    databaseurl.MYSQL: "SELECT unix_timestamp(now(6))",
}
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
        url: as `databaseurl.settle` made it; it has no password.
        shown: the same for messages.
    """

    def __init__(self, url: str) -> None:
        """Get ready; nothing is looked at yet.

        Raises:
            InputError: no such database is known.
            MissingToolError: its driver is not installed.
        """
        self.url, self.shown = url, databaseurl.shown(url)
        self._given = databaseurl.for_driver(url)
        self._options = _options(self._given)
        try:
            self._engine = sqlalchemy.create_engine(self._given, **self._options)
        except exc.NoSuchModuleError as error:
            raise InputError(
                f"there is no database of the kind {databaseurl.backend(url)}",
                path="--journal",
                hint="give sqlite:///sweeps.db or postgresql://user@host/database",
            ) from error
        except ImportError as error:
            # One that is there without what it stands on names nothing.
            driver = error.name or self._given.partition("://")[0].rpartition("+")[2]
            raise MissingToolError(
                f"{databaseurl.backend(url)} needs {driver}, which is not installed",
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
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One transaction: kept where the block ends well, else as if it had not been.

        Raises:
            AwayError: the database does not answer, or not now.
            RunError: it refuses.
        """
        try:
            with Session(self._engine) as session, session.begin():
                yield session
        except (exc.SQLAlchemyError, KeyError) as error:
            raise self.refused(error) from error

    def now(self, session: Session) -> float:
        """The database's clock, in seconds since 1970."""
        query = _CLOCKS.get(session.get_bind().dialect.name)
        return (
            time.time()
            if query is None
            else float(session.execute(sqlalchemy.text(query)).scalar_one())
        )

    def is_there(self) -> bool:
        """Whether it has Optuna's tables; checked, where it has.

        Raises:
            InputError: they are somebody else's, or of another version.
            RunError: it does not answer, or refuses.
        """
        path = databaseurl.file(self.url)
        if path is not None and not path.exists():
            return False
        try:
            inspector = sqlalchemy.inspect(self._engine)
            found = set(inspector.get_table_names())
            ours = found & set(models.BaseModel.metadata.tables)
            if not ours:
                if "alembic_version" in found:
                    raise self._foreign("alembic_version")
                return False
            for name in sorted(ours):
                wanted = {column.name for column in models.BaseModel.metadata.tables[name].columns}
                if (
                    not wanted
                    & {column["name"] for column in inspector.get_columns(name)} - _COMMON
                ):
                    raise self._foreign(name)
            if "version_info" not in found or "alembic_version" not in found:
                raise self._foreign(min(ours))
            self._check_version()
        except exc.SQLAlchemyError as error:
            refused = self.refused(error)
            if any(word in refused.problem.message for word, _ in _WRONG):
                # Whoever looks at a database first looks here: nothing was done yet.
                raise InputError(refused.problem.message, hint=refused.problem.hint) from error
            raise refused from error
        return True

    def make(self) -> None:
        """Make Optuna's tables where there are none.

        Raises:
            InputError: there are somebody else's, or some of another version.
            RunError: it does not answer, or refuses.
        """
        if self.is_there():
            return
        path = databaseurl.file(self.url)
        if path is not None:
            with suppress(OSError):  # what is wrong with it is told by who opens it
                path.touch(0o600, exist_ok=False)  # as of a journal in a file
        try:
            self._storage(skip_table_creation=False)
        except (exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if not self.is_there():  # another process may have made them just now
                raise self.refused(error) from error
        self._check_version()

    def delete_study(self, name: str) -> None:
        """Remove a study and all that belongs to it.

        Raises:
            RunError: the database refuses.
        """
        try:
            storage = self._storage(skip_table_creation=True)
            storage.delete_study(storage.get_study_id_from_name(name))
        except KeyError:
            return
        except (exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> AllranksError:
        """An error of the database's in our words."""
        if isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__:
            return self.refused(error.__cause__)  # type: ignore[arg-type]
        said = _first(getattr(error, "orig", None) or error)
        hint = next((fix for word, fix in (*_WRONG, *_IN_THE_WAY) if word in said), "")
        away = isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError)
        wrong = isinstance(error, exc.ProgrammingError | exc.NoSuchTableError | KeyError)
        kind: type[RunError] = AwayError if away and not hint else RunError
        if isinstance(error, exc.IntegrityError):
            kind = TakenError
        if wrong and not hint:
            hint = "its tables are not as Optuna makes them; name another database"
        trouble = "reached" if away else "used"
        return kind(
            f"the database {self.shown} cannot be {trouble}: {said}",
            hint=hint or "see that it runs and that its address is right, then try again",
        )

    def _storage(self, *, skip_table_creation: bool) -> RDBStorage:
        """Optuna's own view of the database, over our connections."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            storage = RDBStorage(
                # Optuna fills its version into braces.
                self._given.replace("{", "{{").replace("}", "}}"),
                engine_kwargs=dict(self._options),
                skip_compatibility_check=True,
                skip_table_creation=skip_table_creation,
            )
        storage.engine.dispose()
        return storage

    def _check_version(self) -> None:
        with self._engine.connect() as connection:
            found = connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version"))
            revision = str(found.scalar())
        if not _VERSIONS:
            # Reading Optuna's own history takes 0.1 s.
            _VERSIONS.extend(self._storage(skip_table_creation=True).get_all_versions())
        newest = _VERSIONS[0]
        if revision not in _VERSIONS:
            raise InputError(
                f"the database {self.shown} was made by a newer Optuna than {optuna.__version__} "
                f"(its tables are of {revision})",
                hint="pip install -U optuna",
            )
        if revision != newest:
            raise InputError(
                f"the database {self.shown} was made by an older Optuna "
                f"(its tables are of {revision})",
                hint=f"bring it up to date: optuna storage upgrade --storage {self.shown}",
            )
        if revision != _REVISION:
            raise InputError(
                f"Optuna {optuna.__version__} keeps its tables in a way that this allranks does "
                f"not know: {revision} and not {_REVISION}",
                hint="use a newer allranks, or keep the sweep in a file",
            )

    def _foreign(self, table: str) -> InputError:
        return InputError(
            f"the database {self.shown} has a table {table!r} that is not Optuna's",
            path="--journal",
            hint="give the sweeps a database of their own",
        )


class AwayError(RunError):
    """The database does not answer; it may again."""


class TakenError(RunError):
    """Another process has written the same at the same time."""


# Columns that many tables have.
_COMMON = frozenset({"id", "key", "value", "name", "number", "state", "value_json"})


def _options(url: str) -> dict[str, Any]:
    found = databaseurl.backend(url)
    if found == databaseurl.SQLITE:
        given = f"?{databaseurl.TIMEOUT}=" in url
        return {} if given else {"connect_args": {databaseurl.TIMEOUT: _BUSY}}
    if found == databaseurl.POSTGRESQL:
        quiet = {"connect_timeout": _CONNECT, "application_name": "allranks"}
        return {"connect_args": quiet, "pool_pre_ping": True, "pool_size": 2}
    return {"pool_pre_ping": True}


def _first(error: BaseException) -> str:
    """The first line of what an error says, which names what is wrong."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].strip()

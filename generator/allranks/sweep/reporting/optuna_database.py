"""A database for a study of Optuna's: what is checked before it opens, and what its errors mean.

Optuna makes its tables in whatever it is given, and finds out as it writes that some of these names
are somebody else's. So what is there is read first, and one that is not Optuna's stays as it is.
Of every error the cause decides the fix; what was asked for wrongly is wrong input.
"""

from __future__ import annotations

import fcntl
import hashlib
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from sqlalchemy import exc

from allranks.errors import AllranksError, InputError, MissingToolError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAG = "--optuna"
_LIBPQ = ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")
_FORMS = "give sqlite:///optuna.db or postgresql://user@host/database"
_PACKAGES = {"psycopg": "'allranks[postgres]'", "pymysql": "pymysql", "MySQLdb": "mysqlclient"}
# What each of Optuna's tables has had since it is there.
TABLES = {
    "studies": {"study_id", "study_name"},
    "study_directions": {"study_id", "direction"},
    "study_user_attributes": {"study_id", "key", "value_json"},
    "study_system_attributes": {"study_id", "key", "value_json"},
    "trials": {"trial_id", "study_id", "state"},
    "trial_user_attributes": {"trial_id", "key", "value_json"},
    "trial_system_attributes": {"trial_id", "key", "value_json"},
    "trial_params": {"trial_id", "param_name", "param_value", "distribution_json"},
    "trial_values": {"trial_id", "value"},
    "trial_intermediate_values": {"trial_id", "step", "intermediate_value"},
    "trial_heartbeats": {"trial_id", "heartbeat"},
    "version_info": {"version_info_id", "schema_version", "library_version"},
    "alembic_version": {"version_num"},
}
# So often tables are made, which another program may make at the same time.
_TRIES = 5
# How long another program may lock a SQLite file, in seconds.
_BUSY = 30
# What databases and drivers say of what was asked for wrongly, and the fix.
_WRONG = (
    ("password authentication failed", "set PGPASSWORD, or write the password into ~/.pgpass"),
    ("no password supplied", "set PGPASSWORD, or write the password into ~/.pgpass"),
    ("does not exist", "make it first, with `createdb` or `createuser`, or correct the URL"),
    ("no schema has been selected", "let the user of the URL make and write tables there"),
    ("permission denied", "let the user of the URL make and write tables there"),
    ("readonly database", "make the file and its folder writable, or name another file"),
    ("unable to open database file", "make the file and its folder writable, or name another file"),
    ("not a database", "name another file; a new one is made"),
    ("invalid connection option", "leave that option out of the URL"),
    ("unexpected keyword argument", "leave that option out of the URL"),
    ("invalid integer value", "correct that option of the URL"),
    ("bad value for", "correct that option of the URL"),
    ("Invalid argument(s)", "leave that option out of the URL"),
    (
        "optuna storage upgrade",
        "`optuna storage upgrade --storage URL` makes it one for this Optuna",
    ),
    ("no longer compatible", "use the Optuna that made it, or name another database"),
)
_FAILED = (
    ("is locked", "another program keeps it to itself; end that one, then try again"),
    ("disk is full", "make room on the disk, then try again"),
    ("resolve host", "correct the host in the URL, or see that its name is known here"),
    ("translate host name", "correct the host in the URL, or see that its name is known here"),
    (
        "Unknown MySQL server host",
        "correct the host in the URL, or see that its name is known here",
    ),
    ("Connection refused", "see that the database runs, and at this port of the URL's host"),
)
_OTHERWISE = "see that the database runs and that its address is right, then try again"


class Storage(RDBStorage):
    """Optuna's storage of a database, with connections that can be closed."""

    def __init__(self, url: str) -> None:
        """Make Optuna's tables unless they exist.

        Args:
            url: the database, as SQLAlchemy takes it.
        """
        # Optuna fills its version into braces.
        super().__init__(url.replace("{", "{{").replace("}", "}}"), _options(url))

    def close(self) -> None:
        """End all connections."""
        self.engine.dispose()


@contextmanager
def open_storage(url: str) -> Iterator[Storage]:
    """Open a database for studies; its connections are closed at the end.

    Args:
        url: the database, as SQLAlchemy takes it.

    Raises:
        InputError: the URL names no database that Optuna can use; what is there stays as it is.
        MissingToolError: the database's driver is not installed.
        RunError: the database does not answer, or refuses.
    """
    try:
        _look_at(url)
    except (exc.SQLAlchemyError, ImportError, TypeError, ValueError) as error:
        raise refusal(error, url) from error
    for retries in reversed(range(_TRIES)):
        try:
            storage = Storage(url)
            break
        except ERRORS as error:
            # Another program makes the same tables just now.
            is_raced = "already exists" in _first(error) or "UNIQUE" in _first(error)
            if not (retries and is_raced):
                raise refusal(error, url) from error
    with closing(storage):
        yield storage


# What Optuna and SQLAlchemy raise for a database.
ERRORS = (
    optuna.exceptions.OptunaError,
    exc.SQLAlchemyError,
    ImportError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextmanager
def alone(storage: Storage, study_name: str) -> Iterator[None]:
    """Be the only export that replaces a study; the database ends it with this program.

    Args:
        storage: the database.
        study_name: the study.

    Raises:
        RunError: another export replaces it now.
    """
    engine, name = storage.engine, f"allranks-export-{study_name}"
    with ExitStack() as stack:
        if engine.dialect.name == "sqlite":
            file = stack.enter_context(Path(str(engine.url.database)).open("rb"))
            try:
                # Not the lock that SQLite takes: reading and writing go on.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_free = False
            else:
                is_free = True
        elif engine.dialect.name == "postgresql":
            key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
            connection = stack.enter_context(engine.connect())
            lock = sqlalchemy.select(sqlalchemy.func.pg_try_advisory_lock(key))
            is_free = bool(connection.scalar(lock))
            stack.callback(
                connection.execute, sqlalchemy.select(sqlalchemy.func.pg_advisory_unlock(key))
            )
        else:
            is_free = True  # nothing that all the others have
        if not is_free:
            raise RunError(
                f"another export replaces the study {study_name!r} now",
                path=_FLAG,
                hint="try again when that one has ended",
            )
        yield


def refusal(error: Exception, url: str) -> AllranksError:
    """Return the error for an exception of a database, in our words.

    Args:
        error: one of `ERRORS`.
        url: the database.
    """
    if isinstance(error, AllranksError):
        return error
    kind = url.partition("://")[0].partition("+")[0]
    if isinstance(error, exc.NoSuchModuleError):
        return InputError(
            f"there is no database of the kind {url.partition('://')[0]}", path=_FLAG, hint=_FORMS
        )
    if isinstance(error, ImportError):
        cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        driver = cause.name or url.partition("://")[0].rpartition("+")[2]
        return MissingToolError(
            f"{kind} needs {driver}, which is not installed",
            path=_FLAG,
            hint=f"pip install {_PACKAGES.get(driver, driver)}",
        )
    message = _first(error)
    for words, hint in _WRONG:
        if words in message:
            return InputError(f"the database cannot be used: {message}", path=_FLAG, hint=hint)
    hint = next((hint for words, hint in _FAILED if words in message), _OTHERWISE)
    return RunError(f"the study cannot be written: {message}", path=_FLAG, hint=hint)


def _options(url: str) -> dict[str, Any]:
    if url.startswith("sqlite") and "timeout=" not in url:
        return {"connect_args": {"timeout": _BUSY}}
    if sqlalchemy.make_url(url).drivername in _LIBPQ:
        # Else psycopg leaves bytes as they are where the database has no encoding (SQL_ASCII).
        return {"connect_args": {"client_encoding": "utf8"}}
    return {}


def _look_at(url: str) -> None:
    """Refuse a database that is none, or has tables of Optuna's names that are not Optuna's.

    Raises:
        InputError: it is such a one.
        SQLAlchemyError: it does not answer, or refuses.
    """
    parsed = sqlalchemy.make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        path = Path(parsed.database)
        if path.is_dir():
            raise InputError(f"{path} is a folder", path=_FLAG, hint="name a file")
        if not path.parent.is_dir():
            raise InputError(
                f"there is no folder {path.parent}", path=_FLAG, hint="make it, or name another"
            )
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a pipe or a device", path=_FLAG, hint="name a file")
        if not path.exists():
            sqlalchemy.create_engine(url)  # whose options are wrong, if they are
            return
    engine = sqlalchemy.create_engine(url, **_options(url))
    try:
        inspector = sqlalchemy.inspect(engine)
        for table in sorted(TABLES.keys() & set(inspector.get_table_names())):
            columns = {column["name"] for column in inspector.get_columns(table)}
            if not columns >= TABLES[table]:
                raise InputError(
                    f"the database has a table {table!r} that is not Optuna's",
                    path=_FLAG,
                    hint="name another database; nothing was changed in this one",
                )
    finally:
        engine.dispose()


def _first(error: BaseException) -> str:
    """Return the first line of the cause of an error."""
    cause: BaseException = error
    while cause.__cause__ is not None and not getattr(cause, "orig", None):
        cause = cause.__cause__
    text = str(getattr(cause, "orig", None) or cause).strip() or type(cause).__name__
    return text.splitlines()[0].strip()

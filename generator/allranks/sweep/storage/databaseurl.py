"""The URL of a database: which it is, made whole, and without any password.

A password in a URL is seen by everyone who lists processes, and would be written wherever the URL
is: beside the other sweeps, into hints. So one that has a password is refused, and what is said of
it does not repeat it. Drivers find passwords where their databases' own programs do.

What a password in a URL is says the parser that connects, SQLAlchemy's: to it `me:a/b@host` is a
user with the password `a/b`, while most others end the address at the first slash. A plain look
finds what was meant as one besides, and does without the library, which need not be installed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from allranks.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

MARK = "://"
SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
# What the URL of a file may say besides.
TIMEOUT = "timeout"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+_]*")
_SECRET = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)
# `:` and, later, `@`, where a user and a host are: as SQLAlchemy finds them, and also behind a
# slash, where a file may have such a name, but no database of a server.
_READ, _MEANT = (re.compile(f"{start}:.*@", re.DOTALL) for start in ("[^:/]*", "[^?]*"))
# Written with a slash too few, it would become a file of that name.
_ALMOST = re.compile(r"(postgres(ql)?|mysql|mariadb)(\+\w+)?:", re.IGNORECASE)
_FORMS = "sqlite:///sweeps.db or postgresql://user@host/database"
_ELSEWHERE = {
    POSTGRESQL: "set PGPASSWORD or write it into ~/.pgpass, and leave it out of the URL",
    MYSQL: "write it into a file, and name that: mysql+pymysql://user@host/database?"
    "read_default_file=/home/me/.my.cnf",
}
# Where drivers look for what a URL may not have: not for programs that the sweep runs.
_PRIVATE = {
    POSTGRESQL: (
        "PGPASSWORD",
        "PGPASSFILE",
        "PGSERVICE",
        "PGSERVICEFILE",
        "PGSSLCERT",
        "PGSSLKEY",
    ),
    MYSQL: ("MYSQL_PWD",),
}
# Drivers' names differ where SQLAlchemy has changed its mind; ours is the one that extras install.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
}


def is_one(where: str) -> bool:
    """Whether what ``--journal`` was given is a URL, or was meant as one."""
    return MARK in where or _ALMOST.match(where) is not None


def backend(url: str) -> str:
    """The kind of database that a URL is of, such as ``sqlite``."""
    found = url.partition(MARK)[0].partition("+")[0].lower()
    return POSTGRESQL if found == "postgres" else found


def settle(url: str) -> str:
    """A URL that means the same from any folder.

    Raises:
        InputError: it has a password, names no database, or none that outlives its process. None of
            what it says has a password in it.
    """
    scheme, _, rest = url.partition(MARK)
    if not _SCHEME.fullmatch(scheme):
        raise InputError("is neither a file nor a URL", path="--journal", hint=f"give {_FORMS}")
    if _has_password(url):
        raise InputError(
            f"the URL of the {scheme} database has a password in it, which others could read",
            path="--journal",
            hint=_ELSEWHERE.get(backend(url), "leave it out; the driver's own settings have it"),
        )
    try:
        _parsed(url)
    except ValueError:
        # What it says of the URL may be a part of a password.
        raise InputError(
            f"the URL of the {scheme} database is not one", path="--journal", hint=f"give {_FORMS}"
        ) from None
    if backend(url) == SQLITE:
        return _file(scheme, rest)
    if not rest.partition("?")[0].partition("/")[2]:
        raise InputError(
            f"{shown(url)} names no database", path="--journal", hint="add its name: …/database"
        )
    return url


def shown(url: str) -> str:
    """What ``--journal`` was given, for a message.

    Returns:
        Of a URL all of it where nothing in it can be a password, else its scheme; anything else
        as it is.
    """
    if not is_one(url):
        return url
    scheme = url.partition(MARK)[0]
    if not _SCHEME.fullmatch(scheme):
        return "…"
    with suppress(ValueError):
        _parsed(url)
        if not _has_password(url):
            return url
    return f"{scheme}{MARK}…"


def _has_password(url: str) -> bool:
    """Whether a password is in a URL, as the library that connects reads it or as a person does."""
    rest = url.partition(MARK)[2]
    looks = (_READ,) if backend(url) == SQLITE else (_READ, _MEANT)
    keys = [key for key, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)]
    try:
        parsed = _parsed(url)
    except ValueError:
        parsed = None  # then the plain look alone says it
    if parsed is not None:
        keys += parsed.query
        if parsed.password is not None:
            return True
    return any(one.match(rest) for one in looks) or any(_SECRET.search(key) for key in keys)


def _parsed(url: str) -> URL | None:
    """The URL as it is read when it is connected to; None where the library is not installed.

    Raises:
        ValueError: it cannot be read.
    """
    if "\0" in url:
        raise ValueError("a zero byte ends what a driver reads")
    try:
        from sqlalchemy import exc, make_url  # noqa: PLC0415 - only where a URL is given
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        return None
    try:
        return make_url(for_driver(url))
    except exc.ArgumentError as error:
        raise ValueError("no URL of a database") from error


def for_driver(url: str) -> str:
    """The URL with the driver that is meant where none is named."""
    scheme, _, rest = url.partition(MARK)
    return f"{_DRIVERS.get(scheme.lower(), scheme)}{MARK}{rest}"


def file(url: str) -> Path | None:
    """The file of a SQLite database; None of any other."""
    if backend(url) != SQLITE:
        return None
    return Path(url.partition(MARK)[2].partition("?")[0][1:])


def private(where: str) -> tuple[str, ...]:
    """The variables that give access to where a sweep is kept, and are nothing to its trials.

    Args:
        where: as ``--journal`` takes it.
    """
    return _PRIVATE.get(backend(where), ()) if is_one(where) else ()


def _file(scheme: str, rest: str) -> str:
    name, mark, query = rest.partition("?")
    if name in ("", "/", "/:memory:") or not name.startswith("/") or name.startswith("/file:"):
        raise InputError(
            f"{shown(f'{scheme}{MARK}{rest}')} names no file, and a sweep outlives its process",
            path="--journal",
            hint="give three slashes and a file: sqlite:///sweeps.db",
        )
    keys = {key for key, _ in parse_qsl(query, keep_blank_values=True)} - {TIMEOUT}
    if keys:
        # The library would leave out what it does not know, and go on with a warning of its own.
        raise InputError(
            f"a sweep cannot be kept in a file with {', '.join(sorted(keys))} in its URL",
            path="--journal",
            hint=f"write sqlite:///sweeps.db, perhaps with ?{TIMEOUT}=60, how many seconds another "
            "program may keep the file to itself",
        )
    return f"{scheme}{MARK}/{Path(name[1:]).absolute()}{mark}{query}"

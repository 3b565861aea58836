"""The URL of a database: recognized, made absolute, and without any password.

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
from urllib.parse import parse_qsl, urlencode

from allranks.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

MARK = "://"
SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
# What the URL of a file may say besides.
TIMEOUT = "timeout"
# That several people write the file, on purpose.
_SHARED = "shared"
SHARED_QUERY = f"?{_SHARED}=true"

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


def is_url(where: str) -> bool:
    """Whether the value of ``--journal`` is a URL, or was meant as one."""
    return MARK in where or _ALMOST.match(where) is not None


def backend(url: str) -> str:
    """Return the kind of database of a URL, such as ``sqlite``."""
    scheme = url.partition(MARK)[0].partition("+")[0].lower()
    return POSTGRESQL if scheme == "postgres" else scheme


def settle(url: str, flag: str = "--journal") -> str:
    """Return a URL that means the same from any folder.

    Args:
        url: as it was typed.
        flag: where it was typed, for messages.

    Raises:
        InputError: it has a password, names no database, or none that outlives its process. None of
            what it says has a password in it.
    """
    scheme, _, rest = url.partition(MARK)
    if not _SCHEME.fullmatch(scheme):
        raise InputError("is neither a file nor a URL", path=flag, hint=f"give {_FORMS}")
    if _has_password(url):
        raise InputError(
            f"the URL of the {scheme} database has a password in it, which others could read",
            path=flag,
            hint=_ELSEWHERE.get(backend(url), "leave it out; the driver's own settings have it"),
        )
    try:
        _parse(url)
    except ValueError:
        # What it says of the URL may be a part of a password.
        raise InputError(
            f"the URL of the {scheme} database is not one", path=flag, hint=f"give {_FORMS}"
        ) from None
    if backend(url) == SQLITE:
        return _file(scheme, rest, flag)
    if not rest.partition("?")[0].partition("/")[2]:
        raise InputError(
            f"{show(url)} names no database", path=flag, hint="add its name: …/database"
        )
    return url


def show(url: str) -> str:
    """Return the value of ``--journal`` for a message.

    Returns:
        A URL in full if nothing in it can be a password, else its scheme; any other value as it is.
    """
    if not is_url(url):
        return url
    scheme = url.partition(MARK)[0]
    if not _SCHEME.fullmatch(scheme):
        return "…"
    with suppress(ValueError):
        _parse(url)
        if not _has_password(url):
            return url
    return f"{scheme}{MARK}…"


def _has_password(url: str) -> bool:
    """Whether a password is in a URL, as the library that connects reads it or as a person does."""
    rest = url.partition(MARK)[2]
    patterns = (_READ,) if backend(url) == SQLITE else (_READ, _MEANT)
    keys = [key for key, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)]
    try:
        parsed = _parse(url)
    except ValueError:
        parsed = None  # then the plain look alone says it
    if parsed is not None:
        keys += parsed.query
        if parsed.password is not None:
            return True
    return any(pattern.match(rest) for pattern in patterns) or any(
        _SECRET.search(key) for key in keys
    )


def _parse(url: str) -> URL | None:
    """Parse a URL as SQLAlchemy does when it connects; None if it is not installed.

    Raises:
        ValueError: it cannot be read.
    """
    if "\0" in url:
        raise ValueError("a zero byte ends what a driver reads")
    try:
        from sqlalchemy import exc, make_url
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        return None
    try:
        return make_url(for_driver(url))
    except exc.ArgumentError as error:
        raise ValueError("no URL of a database") from error


def for_driver(url: str) -> str:
    """Return the URL with our default driver unless it names one."""
    scheme, _, rest = url.partition(MARK)
    if is_shared(url):  # which is ours, and nothing to the library
        name, _, query = rest.partition("?")
        own_query = urlencode([(key, text) for key, text in parse_qsl(query) if key != _SHARED])
        rest = f"{name}?{own_query}" if own_query else name
    return f"{_DRIVERS.get(scheme.lower(), scheme)}{MARK}{rest}"


def is_shared(url: str) -> bool:
    """Whether the URL of a file says that several people write it on purpose."""
    query = url.partition(MARK)[2].partition("?")[2]
    return backend(url) == SQLITE and dict(parse_qsl(query)).get(_SHARED) == "true"


def file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for any other."""
    if backend(url) != SQLITE:
        return None
    return Path(url.partition(MARK)[2].partition("?")[0][1:])


def private(where: str) -> tuple[str, ...]:
    """Return the variables with credentials of a journal, to withhold from its trials.

    Args:
        where: the journal, as ``--journal`` takes it.
    """
    return _PRIVATE.get(backend(where), ()) if is_url(where) else ()


def _file(scheme: str, rest: str, flag: str) -> str:
    name, mark, query = rest.partition("?")
    if name in ("", "/", "/:memory:") or not name.startswith("/") or name.startswith("/file:"):
        raise InputError(
            f"{show(f'{scheme}{MARK}{rest}')} names no file, and a sweep outlives its process",
            path=flag,
            hint="give three slashes and a file: sqlite:///sweeps.db",
        )
    keys = {
        key
        for key, text in parse_qsl(query, keep_blank_values=True)
        if key != TIMEOUT and (key, text) != (_SHARED, "true")
    }
    if keys:
        # The library would leave out what it does not know, and go on with a warning of its own.
        raise InputError(
            f"the URL of a file cannot have {', '.join(sorted(keys))} in it",
            path=flag,
            hint=f"write sqlite:///sweeps.db, perhaps with ?{TIMEOUT}=60, how many seconds another "
            f"program may keep the file to itself, or with {SHARED_QUERY}, where several people "
            "write it on purpose",
        )
    for text in (text for key, text in parse_qsl(query) if key == TIMEOUT):
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text, re.ASCII):
            raise InputError(
                f"the {TIMEOUT} of the URL, {text!r}, is no number of seconds",
                path=flag,
                hint=f"write ?{TIMEOUT}=60, how many seconds another program may keep the file",
            )
    return f"{scheme}{MARK}/{Path(name[1:]).absolute()}{mark}{query}"

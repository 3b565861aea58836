"""The URL of a database: which it is, made whole, and without any password.

A password in a URL is seen by everyone who lists processes, and would be written wherever the URL
is: beside the other sweeps, into hints. So one that has a password is refused, and what is said of
it does not repeat it. Drivers find passwords where their databases' own programs do.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from allranks.errors import InputError

MARK = "://"
SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"

_SECRET = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)
_FORMS = "sqlite:///sweeps.db or postgresql://user@host/database"
_ELSEWHERE = {
    POSTGRESQL: "set PGPASSWORD or write it into ~/.pgpass, and leave it out of the URL",
    MYSQL: "write it into a file, and name that: mysql+pymysql://user@host/database?"
    "read_default_file=/home/me/.my.cnf",
}
# Drivers' names differ where SQLAlchemy has changed its mind; ours is the one that extras install.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
}


def is_one(where: str) -> bool:
    """Whether what ``--journal`` was given is a URL."""
    return MARK in where


def backend(url: str) -> str:
    """The kind of database that a URL is of, such as ``sqlite``."""
    found = url.partition(MARK)[0].partition("+")[0].lower()
    return POSTGRESQL if found == "postgres" else found


def settle(url: str) -> str:
    """A URL that means the same from any folder.

    Raises:
        InputError: it has a password, names no database, or none that outlives its process.
    """
    scheme, _, rest = url.partition(MARK)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+_]*", scheme) or "\0" in url:
        raise InputError("is neither a file nor a URL", path="--journal", hint=f"give {_FORMS}")
    if backend(url) == SQLITE:
        return _file(scheme, rest)
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        # What it says of the URL may have the password in it.
        raise InputError(
            f"the URL of the {scheme} database is not one", path="--journal", hint=f"give {_FORMS}"
        ) from None
    secrets = [key for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if password is not None or any(_SECRET.search(key) for key in secrets):
        raise InputError(
            f"the URL of the {scheme} database has a password in it, which others could read",
            path="--journal",
            hint=_ELSEWHERE.get(backend(url), "leave it out; the driver's own settings have it"),
        )
    if parts.path in ("", "/"):
        raise InputError(
            f"{url} names no database", path="--journal", hint="add its name: …/database"
        )
    return url


def for_driver(url: str) -> str:
    """The URL with the driver that is meant where none is named."""
    scheme, _, rest = url.partition(MARK)
    return f"{_DRIVERS.get(scheme.lower(), scheme)}{MARK}{rest}"


def file(url: str) -> Path | None:
    """The file of a SQLite database; None of any other."""
    if backend(url) != SQLITE:
        return None
    return Path(url.partition(MARK)[2].partition("?")[0][1:])


def _file(scheme: str, rest: str) -> str:
    name, mark, query = rest.partition("?")
    if name in ("", "/", "/:memory:") or not name.startswith("/") or name.startswith("/file:"):
        raise InputError(
            f"{scheme}{MARK}{rest} names no file, and a sweep outlives its process",
            path="--journal",
            hint="give three slashes and a file: sqlite:///sweeps.db",
        )
    return f"{scheme}{MARK}/{Path(name[1:]).absolute()}{mark}{query}"

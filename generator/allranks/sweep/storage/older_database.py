"""Journals in Optuna's tables, as allranks 0.1.0 wrote them: read, and moved into our own.

::

    system attribute of the study   what it holds
    allranks:journal:00000000       the journal's text, piece by piece: the same lines as in a file
    allranks:lease                  who writes it; see `lease`
    allranks:request                it is asked to end, and why

The study stays, with its trials as they were; nothing of ours reads it any more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import column, func, table

from allranks.sweep.storage import sql
from allranks.sweep.storage.base import LINE_MAX
from allranks.sweep.storage.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Connection

    from allranks.sweep.storage.sql import Database

_JOURNAL, _LEASE, _REQUEST = "allranks:journal:", "allranks:lease", "allranks:request"
_FIRST = f"{_JOURNAL}{0:08d}"
# Characters of a piece, as JSON, that are read: far more than any that was written.
_PIECE_MAX = 1 << 20
_AT_ONCE = 16  # pieces, or lines as they are written, that are in memory

_STUDIES = table("studies", column("study_id"), column("study_name"))
_ROWS = table("study_system_attributes", column("study_id"), column("key"), column("value_json"))


def is_there(database: Database, names: frozenset[str]) -> bool:
    """Whether a database has Optuna's tables.

    Args:
        database: which.
        names: those of its tables.
    """
    return all(
        own.name in names and database.columns(own.name) >= set(own.columns.keys())
        for own in (_STUDIES, _ROWS)
    )


def sweeps(connection: Connection) -> list[str]:
    """Return the names of the sweeps there."""
    query = (
        sqlalchemy.select(_STUDIES.c.study_name)
        .join(_ROWS, _ROWS.c.study_id == _STUDIES.c.study_id)
        .where(_ROWS.c.key == _FIRST)
    )
    return [str(name) for name in connection.scalars(query)]


def has_journal(connection: Connection, sweep: str) -> bool:
    """Whether a sweep is here still, and was not moved."""
    query = sqlalchemy.select(_ROWS.c.key).where(*_select_rows(sweep), _ROWS.c.key == _FIRST)
    return connection.execute(query).first() is not None


def lock_lease(connection: Connection, sweep: str) -> None:
    """Have everybody else who would write the sweep wait for the end of the transaction."""
    update = sqlalchemy.update(_ROWS).where(*_select_rows(sweep), _ROWS.c.key == _LEASE)
    connection.execute(update.values(value_json=_ROWS.c.value_json))


def lease_of(connection: Connection, sweep: str) -> Lease:
    """Return who writes a sweep; nobody if that is unknown."""
    return Lease.parse(_value(connection, sweep, _LEASE))


def put_request(connection: Connection, sweep: str, reason: str) -> None:
    """Leave a stop request for a process of an older version that runs the sweep."""
    value = json.dumps(reason)
    ours = (*_select_rows(sweep), _ROWS.c.key == _REQUEST)
    if not connection.execute(
        sqlalchemy.update(_ROWS).where(*ours).values(value_json=value)
    ).rowcount:
        study = sqlalchemy.select(_STUDIES.c.study_id).where(_STUDIES.c.study_name == sweep)
        connection.execute(
            sqlalchemy.insert(_ROWS).values(
                study_id=study.scalar_subquery(), key=_REQUEST, value_json=value
            )
        )


def read_lines(connection: Connection, sweep: str, where: str) -> Iterator[bytes]:
    """Yield all lines of a sweep's journal.

    Raises:
        InputError: they are not as we wrote them.
    """
    ours = (*_select_rows(sweep), _ROWS.c.key.like(f"{_JOURNAL}%"))
    # Whoever writes a row may fill it with all that the database takes, which can be 1 GiB.
    longest = connection.scalar(
        sqlalchemy.select(func.max(func.length(_ROWS.c.value_json))).where(*ours)
    )
    if longest is not None and int(longest) > _PIECE_MAX:
        raise sql.changed_error(where)
    query = sqlalchemy.select(_ROWS.c.value_json).where(*ours).order_by(_ROWS.c.key)
    rest, size = list[str](), 0  # of a line whose end has not come
    for piece in connection.scalars(query.execution_options(yield_per=_AT_ONCE)):
        *whole, last = _text(piece, where).split("\n")
        for line in whole:
            yield "".join((*rest, line)).encode("utf-8", "surrogatepass")
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > LINE_MAX:
            raise sql.changed_error(where)


def move(connection: Connection, sweep: str, where: str) -> None:
    """Move a sweep's records and its stop request into our tables, within one transaction.

    Whoever holds its older lease would be kept from writing; it is to be locked, and free.

    Args:
        connection: of the transaction.
        sweep: its name.
        where: the database, for messages.

    Raises:
        InputError: they are not as we wrote them.
    """
    reason = _value(connection, sweep, _REQUEST)
    batch: list[bytes] = []
    count = 0
    for line in read_lines(connection, sweep, where):
        batch.append(line)
        if len(batch) == _AT_ONCE:
            sql.insert(connection, sweep, batch, count)
            count, batch = count + len(batch), []
    if batch:
        sql.insert(connection, sweep, batch, count)
    sql.put_lease(connection, sweep, Lease())
    if reason is not None:
        sql.put_request(connection, sweep, _text(reason, where))
    delete(connection, sweep)


def delete(connection: Connection, sweep: str) -> None:
    """Remove what is ours of a sweep."""
    keys = (_ROWS.c.key.like(f"{_JOURNAL}%"), _ROWS.c.key.in_((_LEASE, _REQUEST)))
    connection.execute(sqlalchemy.delete(_ROWS).where(*_select_rows(sweep), sqlalchemy.or_(*keys)))


def _select_rows(sweep: str) -> tuple[ColumnElement[bool]]:
    study = sqlalchemy.select(_STUDIES.c.study_id).where(_STUDIES.c.study_name == sweep)
    return (_ROWS.c.study_id.in_(study),)


def _value(connection: Connection, sweep: str, key: str) -> str | None:
    query = sqlalchemy.select(func.substr(_ROWS.c.value_json, 1, _PIECE_MAX))
    value: str | None = connection.scalar(query.where(*_select_rows(sweep), _ROWS.c.key == key))
    return value


def _text(piece: object, where: str) -> str:
    """Return the text of a row.

    Raises:
        InputError: it holds none, or what nobody of ours has written.
    """
    try:
        text = json.loads(piece)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise sql.changed_error(where)
    return text

"""What a sweep writes into its study: the rows of its attributes.

::

    system attribute of the study   what it holds
    allranks:journal:00000000       the journal's text, piece by piece: the same lines as in a file
    allranks:lease                  who writes it; see `lease`
    allranks:request                it is asked to end, and why
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optuna.storages._rdb import models
from optuna.study import StudyDirection

from allranks.errors import InputError
from allranks.sweep.model import MAXIMIZE
from allranks.sweep.storage.lease import Lease
from allranks.sweep.storage.lines import LINE_MAX, Reader

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from allranks.sweep.state import SweepState

JOURNAL, LEASE, REQUEST = "allranks:journal:", "allranks:lease", "allranks:request"
# What Optuna's programs call the values by.
_METRICS = "study:metric_names"
# Some databases have no room for more in one attribute.
_PIECE = 16_000

Attribute = models.StudySystemAttributeModel


def cut(text: str) -> list[str]:
    """A journal's text in pieces that every database has room for, each one as JSON."""
    return [json.dumps(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)]


def key_of(number: int) -> str:
    """Where a piece of the journal stands; in the order of the keys they are in theirs."""
    return f"{JOURNAL}{number:08d}"


def add_pieces(session: Session, study: int, first: int, pieces: list[str]) -> None:
    """Write pieces of the journal, of which the first has a number that nobody has used."""
    for number, piece in enumerate(pieces, start=first):
        session.add(Attribute(study_id=study, key=key_of(number), value_json=piece))
    session.flush()


def find(session: Session, study: int, key: str, *, lock: bool = False) -> Any:
    """The row of an attribute, or None; Optuna declares its rows in a way that has no types."""
    query = session.query(Attribute).filter(Attribute.study_id == study, Attribute.key == key)
    return (query.with_for_update() if lock else query).one_or_none()


def put(session: Session, study: int, key: str, value: str) -> None:
    """Give an attribute a value, of JSON."""
    found = find(session, study, key)
    if found is None:
        session.add(Attribute(study_id=study, key=key, value_json=value))
    else:
        found.value_json = value
    session.flush()


def read(session: Session, study: int, where: str) -> tuple[Reader, int]:
    """What all records tell, and how many pieces they are in."""
    query = (
        session.query(Attribute.value_json)
        .filter(Attribute.study_id == study, Attribute.key.startswith(JOURNAL, autoescape=True))
        .order_by(Attribute.key)
    )
    reader, rest, count = Reader(where), "", 0
    for (piece,) in query:
        count += 1
        rest += text_of(piece, where)
        *whole, rest = rest.split("\n")
        for line in whole:
            reader.take(line.encode("utf-8", "surrogatepass"))
        if len(rest) > LINE_MAX:
            raise _changed(where)
    return reader, count


def text_of(piece: str, where: str) -> str:
    """The text that a row holds.

    Raises:
        InputError: it holds none, or what nobody of ours has written.
    """
    try:
        text = json.loads(piece)
    except (ValueError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise _changed(where)
    return text


def _changed(where: str) -> InputError:
    return InputError(
        f"the journal in {where} was changed by other hands",
        hint="bring the database back from a copy, or delete the sweep",
    )


def lease_of(session: Session, study: int) -> Lease:
    """The lease as it is."""
    row = find(session, study, LEASE)
    return Lease.parse(None if row is None else row.value_json)


def new_study(session: Session, state: SweepState) -> int:
    """Begin the study of a sweep; Optuna's number of it."""
    objective = state.spec.objective
    direction = (
        StudyDirection.MAXIMIZE if objective.direction == MAXIMIZE else StudyDirection.MINIMIZE
    )
    study = models.StudyModel(
        study_name=state.spec.name,
        directions=[models.StudyDirectionModel(objective=0, direction=direction)],
    )
    session.add(study)
    session.flush()
    identifier = int(study.study_id)
    if objective.metric:
        put(session, identifier, _METRICS, json.dumps([objective.metric]))
    return identifier

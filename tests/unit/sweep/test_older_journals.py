"""Journals that an older version has written: each is read, and gone on with."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster import client
from allranks.errors import AllranksError, InputError
from allranks.sweep import records, runner
from allranks.sweep.model import CANCELLED, FAILED, PENDING, RUNNING, STOPPED, SUCCEEDED
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.database import DatabaseBackend
from allranks.sweep.storage.journal import Journal, read_state, request_stop
from allranks.sweep.storage.lease import Lease
from allranks.sweep.storage.sql import Database
from tests.unit.sweep.secrets_cluster import SecretsCluster
from tests.unit.sweep.simulation import spec

if TYPE_CHECKING:
    from allranks.sweep.state import SweepState

DATA = Path(__file__).parents[2] / "data" / "journals"


def database(folder: Path) -> str:
    """The URL of a database as it was left."""
    with closing(sqlite3.connect(folder / "sweeps.db")) as connection, connection:
        connection.executescript((DATA / "sweeps.sql").read_text())
    return f"sqlite:///{folder}/sweeps.db"


@pytest.fixture(params=["file", "secrets", "database"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a journal as it was left."""
    if request.param == "file":
        return str(shutil.copy(DATA / "journal.jsonl", tmp_path))
    if request.param == "secrets":
        cluster = SecretsCluster(*json.loads((DATA / "secrets.json").read_text()))
        monkeypatch.setattr(client, "KubeCluster", lambda *_: cluster)
        return "secret:lab/s"
    return database(tmp_path)


def check(state: SweepState) -> None:
    """What every one of them tells."""
    assert [SUCCEEDED, STOPPED, FAILED, PENDING, RUNNING] == [
        trial.state for trial in state.trials.values()
    ]
    assert [0.5, 0.6, None, None, None] == [trial.value for trial in state.trials.values()]
    assert [3, 3, 3, 0, 3] == [len(trial.measures) for trial in state.trials.values()]
    assert "exit code 1 \N{SNOWMAN}" == state.trials[2].reason
    assert {"text": "wide \N{SNOWMAN} " * 3000, "lr": 0.5} == state.defaults
    assert {"on": "local", "namespace": "default", "workdir": "/srv/jobs"} == state.place
    assert ("0011223344556677", "jo.laptop") == (state.owner.identity, state.owner.created_by)


def test_it_is_read(where: str) -> None:
    """Nobody runs it any more."""
    backend = backend_of(where, "s")
    assert backend.exists()
    assert not backend.is_run()
    check(read_state(backend))


def test_it_is_resumed(where: str) -> None:
    """No record is lost, and what comes after is read behind them, also by the next writer."""
    backend = backend_of(where, "s")
    _, journal = runner.open_sweep(backend)
    with journal:
        check(journal.state)
        end = {"t": "end", "n": 4, "state": CANCELLED, "v": None, "why": "", "cpu": 1, "at": 2e9}
        journal.append(end, records.request_stop("enough", 2e9))
        finish = {"t": "finish", "outcome": "stopped", "why": "enough", "at": 2e9}
        journal.append({**end, "n": 3}, finish)
    with Journal.open(backend) as journal:
        assert "stopped" == journal.state.outcome
        runner.resume(journal)
        assert not journal.state.outcome
        assert (5, 12) == (len(journal.state.trials), journal.state.spec.trials)
    state = read_state(backend)
    assert {"text": "wide \N{SNOWMAN} " * 3000, "lr": 0.5} == state.defaults
    assert [3, 3, 3, 0, 0] == [len(trial.measures) for trial in state.trials.values()]


def test_it_is_asked_to_end(where: str) -> None:
    """As nobody runs it, that is recorded."""
    backend = backend_of(where, "s")
    assert not request_stop(backend, "enough", 2e9)
    assert "enough" == read_state(backend).requested


def test_it_is_deleted(where: str) -> None:
    """And only it."""
    backend = backend_of(where, "s")
    backend.delete()
    assert not backend.exists()


def test_the_others_in_its_database_stay(tmp_path: Path) -> None:
    """Without a name none of them is meant."""
    url = database(tmp_path)
    backend_of(url, "s").delete()
    other = backend_of(url)
    assert ("other", "stopped") == (read_state(other).spec.name, read_state(other).outcome)


# --- Optuna's tables ------------------------------------------------------------------------------


def rows(url: str, statement: str) -> list[Any]:
    """What a statement finds in a database of SQLite, or changes there."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        return connection.execute(statement).fetchall()


_OLDER = """SELECT key FROM study_system_attributes JOIN studies USING (study_id)
WHERE study_name = 's' AND key LIKE 'allranks:%'"""


def test_whoever_reads_moves_nothing(tmp_path: Path) -> None:
    """An older version can go on with it."""
    url = database(tmp_path)
    before = (tmp_path / "sweeps.db").read_bytes()
    backend = backend_of(url, "s")
    check(read_state(backend))
    assert backend.exists()
    assert not backend.is_run()
    assert before == (tmp_path / "sweeps.db").read_bytes()


def test_the_next_writer_moves_it(tmp_path: Path) -> None:
    """No older version writes it any more, and what Optuna shows of it stays."""
    url = database(tmp_path)
    tables = "SELECT count(*) FROM trials"
    trials = rows(url, tables)
    Journal.open(backend_of(url, "s")).close()
    assert [] == rows(url, _OLDER)
    assert [("other",), ("s",), ("somebody's",)] == sorted(
        rows(url, "SELECT study_name FROM studies")
    )
    assert trials == rows(url, tables)
    lines = (DATA / "journal.jsonl").read_text().splitlines()[:-1]  # the last one is torn
    query = "SELECT line FROM allranks_records WHERE sweep = 's' ORDER BY seq"
    assert lines == [line for (line,) in rows(url, query)]
    check(read_state(backend_of(url, "s")))


_KILLED = """
import os
import signal
import sys
from allranks.sweep.storage import older_database, sql
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal
module, function = {"insert": sql, "lease": sql, "delete": older_database}[sys.argv[2]], sys.argv[2]
function = {"lease": "put_lease"}.get(function, function)
real = getattr(module, function)
def die(*arguments):
    real(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(module, function, die)
Journal.open(backend_of(sys.argv[1], "s"))
"""


@pytest.mark.parametrize("moment", ["insert", "lease", "delete"])
def test_who_moves_it_may_be_killed(tmp_path: Path, moment: str) -> None:
    """Then nothing was moved, and the next one does it."""
    url = database(tmp_path)
    before = rows(url, _OLDER)
    process = subprocess.run([sys.executable, "-c", _KILLED, url, moment], check=False)
    assert -signal.SIGKILL == process.returncode
    assert before == rows(url, _OLDER)
    assert [] == rows(url, "SELECT * FROM allranks_records")
    check(read_state(backend_of(url, "s")))
    with Journal.open(backend_of(url, "s")) as journal:
        check(journal.state)


def open_at_once(url: str) -> None:
    """Open a sweep four times at once: who may not write is told that another does."""
    errors: list[InputError] = []

    def take() -> None:
        try:
            Journal.open(backend_of(url, "s")).close()
        except InputError as error:
            errors.append(error)

    takers = [threading.Thread(target=take) for _ in range(4)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert all("another process runs this sweep" in str(error) for error in errors)


def test_two_who_move_it_at_once(tmp_path: Path) -> None:
    """One does, and the other is told so; or it comes when that one has gone."""
    url = database(tmp_path)
    open_at_once(url)
    check(read_state(backend_of(url, "s")))


@pytest.mark.parametrize("step", [(Database, "tables"), (DatabaseBackend, "_find")])
@pytest.mark.parametrize("use", ["read", "take", "request", "delete"])
def test_who_uses_it_while_another_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, step: tuple[type, str]
) -> None:
    """It finds the sweep where it is by then: nothing is lost between the two places."""
    url = database(tmp_path)
    backend = backend_of(url, "s")
    cls, name = step
    real = getattr(cls, name)

    def look(instance: object, *arguments: object) -> object:
        result = real(instance, *arguments)
        monkeypatch.setattr(cls, name, real)
        Journal.open(backend_of(url, "s")).close()
        return result

    monkeypatch.setattr(cls, name, look)
    if use == "read":
        check(read_state(backend))
    elif use == "take":
        with Journal.open(backend) as journal:
            check(journal.state)
    elif use == "request":
        backend.request("enough")
        with Journal.open(backend) as journal:
            assert "enough" == journal.take_request()
    else:
        backend.delete()
        assert not backend_of(url, "s").exists()


def test_an_older_version_that_runs_it_is_left_alone(tmp_path: Path) -> None:
    """It sees a stop request where it looks for one, and nobody takes its lease."""
    url = database(tmp_path)
    mine = Lease.mine()
    lease = replace(mine, until=time.time() + 60, kernel="another", host="far")

    def renew(until: float) -> None:
        renewed = replace(lease, until=until)
        rows(
            url,
            f"UPDATE study_system_attributes SET value_json = '{renewed.text()}' "  # noqa: S608
            "WHERE key = 'allranks:lease' AND study_id = 1",
        )

    renew(lease.until)
    backend = backend_of(url, "s")
    assert backend.is_run()
    renewer = threading.Timer(0.4, renew, (lease.until + 1,))
    renewer.start()
    with pytest.raises(InputError, match=r"another process runs this sweep: process \d+ on far"):
        Journal.open(backend)
    renewer.join()
    assert request_stop(backend, "enough", 2e9)
    assert request_stop(backend, "at once", 2e9)
    query = "SELECT value_json FROM study_system_attributes WHERE key = 'allranks:request'"
    assert [('"at once"',)] == rows(url, query)


def test_a_request_that_was_left_is_moved_too(tmp_path: Path) -> None:
    """Whoever goes on sees it."""
    url = database(tmp_path)
    rows(
        url,
        "INSERT INTO study_system_attributes (study_id, key, value_json) "
        "VALUES (1, 'allranks:request', '\"enough\"')",
    )
    with Journal.open(backend_of(url, "s")) as journal:
        assert "enough" == journal.take_request()


def test_a_new_sweep_has_no_older_one_s_name(tmp_path: Path) -> None:
    """Also where that one was not moved yet."""
    url = database(tmp_path)
    with pytest.raises(InputError, match="the sweep s was begun already"):
        Journal.create(backend_of(url, "s"), records.head(spec(), 1.0))
    with pytest.raises(InputError, match="keeps 2 sweeps: other, s"):
        read_state(backend_of(url))


@pytest.mark.attack
@pytest.mark.parametrize(
    "value",
    [
        "'null'",
        "5",
        "x'ff'",
        "'not JSON'",
        "json_quote(hex(zeroblob(600000)))",
        "'\"\\u0000\\ud800\"'",
        "replace(hex(zeroblob(50000)), '0', '[')",
        "NULL",
    ],
)
@pytest.mark.parametrize("key", ["allranks:journal:00000000", "allranks:lease", "allranks:request"])
def test_older_rows_are_believed_no_more_than_a_file(tmp_path: Path, key: str, value: str) -> None:
    """Whatever they hold, it is read, or refused in words and left where it is."""
    url = database(tmp_path)
    rows(
        url,
        "INSERT OR REPLACE INTO study_system_attributes (study_id, key, value_json) "  # noqa: S608
        f"VALUES (1, '{key}', {value})",
    )
    count = len(rows(url, _OLDER))
    backend = backend_of(url, "s")
    if key.startswith("allranks:journal"):
        with pytest.raises(InputError):
            read_state(backend)
    else:
        check(read_state(backend))
    try:
        Journal.open(backend).close()
    except AllranksError:
        assert count == len(rows(url, _OLDER))
    assert not backend.is_run()

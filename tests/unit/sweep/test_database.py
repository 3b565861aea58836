"""A sweep in a database: what is kept, what Optuna sees of it, and who may write it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from allranks.errors import InputError, MissingToolError, RunError
from allranks.sweep import records
from allranks.sweep.model import (
    FAILED,
    HALVING,
    EarlyStopping,
)
from allranks.sweep.search import space
from allranks.sweep.storage import lease as leases
from allranks.sweep.storage import sql
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state, request_stop
from allranks.sweep.storage.lease import Lease
from tests.unit.sweep.simulation import Memory, World, finish, spec
from tests.unit.sweep.studies import Database, kill_writers
from tests.unit.sweep.test_interruptions import check

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with nothing but our tables."""
    path = tmp_path_factory.mktemp("made") / "s.db"
    url = f"sqlite:///{path}"
    begin(url).close()
    backend_of(url, "s").delete()
    return path


@pytest.fixture
def url(empty_database: Path, tmp_path: Path) -> str:
    """A database that keeps no sweep yet."""
    shutil.copy(empty_database, tmp_path / "s.db")
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def empty(tmp_path: Path) -> str:
    """A database that is not there yet."""
    return f"sqlite:///{tmp_path}/empty.db"


def begin(url: str, trials: int = 2, **changes: Any) -> Journal:
    """A sweep with some trials that run."""
    sweep_spec = spec(**changes)
    journal = Journal.create(backend_of(url, sweep_spec.name), records.head(sweep_spec, 1.0))
    for number in range(trials):
        assignment = space.assignment(sweep_spec.parameters, number)
        journal.append(records.trial(number, f"{sweep_spec.name}-{number}", assignment, 2.0))
        journal.append({"t": "start", "n": number, "attempt": 1, "at": 3.0})
    return journal


def end_record(number: int, state: str, value: float | None = None) -> dict[str, Any]:
    """The record of a trial's end."""
    return {"t": "end", "n": number, "state": state, "v": value, "why": "", "cpu": 1.5, "at": 9.0}


def change(url: str, *statements: str) -> list[Any]:
    """Let other hands change a database; what the last one found."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def test_runners_that_die_within_a_transaction_leave_a_sweep_to_go_on_with(url: str) -> None:
    """What is in the database is what was acknowledged."""
    backend = backend_of(url, "s")
    journal = Database(
        backend, records.head(spec(retries=1, early=EarlyStopping(HALVING, 1, 2)), 0.0)
    )
    world = World(seed=5, failing=20, unmeasured=10, slow=True)
    state = finish(world, journal, list(range(1, 12)))
    journal.journal.close()
    check(state, world)
    stored_state = read_state(backend)
    assert (state.trials, state.outcome) == (stored_state.trials, stored_state.outcome)


def test_no_record_that_was_acknowledged_is_lost_by_kill_minus_9(url: str) -> None:
    """Whenever the writer dies; who goes on need not wait for its lease to run out."""
    kill_writers(url, 3)


def test_a_search_proposes_the_same_as_with_a_file(url: str) -> None:
    """It reads the records, and not the study."""
    names_by_run = []
    sweep_spec = spec(search="tpe", trials=8)
    for journal in (
        Memory(records.head(sweep_spec, 0.0)),
        Database(backend_of(url, "s"), records.head(sweep_spec, 0.0)),
    ):
        state = finish(World(seed=3), journal, [9])
        names_by_run.append([trial.name for trial in state.trials.values()])
    assert names_by_run[0] == names_by_run[1]
    journal.journal.close()


def test_a_file_that_is_made_is_its_owner_s_alone(empty_database: Path) -> None:
    """Values stand in it, and passwords may stand in them."""
    assert 0o600 == stat.S_IMODE(empty_database.stat().st_mode)


def test_one_writer_at_a_time(url: str) -> None:
    """Readers are not kept out, and who writes is named."""
    backend = backend_of(url, "s")
    assert not backend.exists()
    with begin(url):
        assert backend.exists()
        assert backend.is_run()
        assert 2 == len(read_state(backend).trials)
        with pytest.raises(InputError, match=rf"runs this sweep: process {os.getpid()} on "):
            Journal.open(backend)
        with pytest.raises(InputError, match="the sweep s was begun already"):
            begin(url)
        assert request_stop(backend, "enough", 5.0)
    assert not backend.is_run()
    with Journal.open(backend) as journal:
        assert "enough" == journal.take_request()
        assert "" == journal.take_request()
    assert not request_stop(backend, "now", 6.0)
    assert "now" == read_state(backend).requested
    backend.delete()
    assert not backend.exists()
    backend.delete()
    for access in (
        partial(read_state, backend),
        partial(Journal.open, backend),
        lambda: request_stop(backend, "x", 1.0),
    ):
        with pytest.raises(InputError, match=r"there is no sweep 's' in "):
            access()


def test_the_lease_of_a_machine_that_died_is_waited_for(url: str) -> None:
    """It cannot be asked whether the process is still there; but it renews no lease."""
    begin(url).close()
    _lease(url, seconds=0.7)
    assert backend_of(url, "s").is_run()
    with Journal.open(backend_of(url, "s")) as journal:
        assert 2 == len(journal.state.trials)


def test_a_lease_that_is_renewed_far_away_is_respected(url: str) -> None:
    """As soon as that is seen."""
    begin(url).close()
    _lease(url, seconds=60)
    renewer = threading.Timer(0.4, _lease, (url, 61))
    renewer.start()
    with pytest.raises(InputError, match="another process runs this sweep: process 7 on far"):
        Journal.open(backend_of(url, "s"))
    renewer.join()


def _lease(url: str, seconds: float, holder: str = "somebody") -> None:
    (((text,),)) = change(url, "SELECT strftime('%s','now') + 0.0")
    lease = Lease(holder, float(text) + 1 + seconds, "far", 7, "another kernel", "1")
    change(
        url,
        f"UPDATE allranks_leases SET lease = '{lease.text()}', holder = '{holder}'",  # noqa: S608
    )


def test_a_writer_that_was_thought_dead_writes_nothing_more(url: str) -> None:
    """Another one has the sweep; neither records nor trials of the first are taken."""
    with begin(url) as journal:
        _lease(url, seconds=60)
        for _ in range(2):
            with pytest.raises(
                RunError, match="process 7 on far has taken the sweep s over"
            ) as excinfo:
                journal.append(end_record(0, FAILED))
            assert f"`allranks sweep status s --journal {url}`" in excinfo.value.problem.hint
    assert 2 == len(read_state(backend_of(url, "s")).running())


@pytest.mark.parametrize(
    ("holder", "message"), [("x", "7 on far has taken"), ("", "and has ended")]
)
def test_who_was_asleep_while_another_took_over_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch, holder: str, message: str
) -> None:
    """Also where the thread that renews the lease saw it first; a request is left to the other."""
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.01)
    with begin(url) as journal:
        renewer: threading.Thread = journal._backend._writer._renewer  # type: ignore[attr-defined]
        while renewer.is_alive():  # it may renew what it has read a moment before
            _lease(url, seconds=60, holder=holder)
            renewer.join(0.2)
        with pytest.raises(RunError, match=message) as excinfo:
            journal.append(end_record(0, FAILED))
        assert "`allranks sweep resume s --journal sqlite:" in excinfo.value.problem.hint
        assert "" == journal.take_request()
        change(url, _REQUESTED)
        with pytest.raises(RunError, match=message):
            journal.take_request()
    assert [("enough",)] == change(url, _REQUESTS)


def test_a_sweep_that_was_removed_while_it_was_run(url: str) -> None:
    """It is said, with how to find what runs on."""
    with begin(url) as journal:
        backend_of(url, "s").delete()
        with pytest.raises(RunError, match="s was removed from sqlite:") as excinfo:
            journal.append(end_record(0, FAILED))
    assert "`helm list -l allranks.dev/sweep=s`" in excinfo.value.problem.hint


_REQUESTED = "UPDATE allranks_leases SET request = 'enough'"
_REQUESTS = "SELECT request FROM allranks_leases"


def test_a_lease_is_renewed_while_nothing_is_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial may take hours."""
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.05)
    query = "SELECT lease FROM allranks_leases"
    with begin(url) as journal:
        first = Lease.parse(change(url, query)[0][0])
        while Lease.parse(change(url, query)[0][0]).until <= first.until + 0.1:
            journal.take_request()


def test_a_process_that_has_ended_holds_nothing() -> None:
    """Whoever has its number by now."""
    mine = Lease.mine().renew(100.0)
    assert mine == Lease.parse(mine.text())
    assert mine.is_held(100.0)
    assert not mine.is_held(200.0)
    assert not replace(mine, begun="1").is_held(100.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not replace(mine, pid=process.pid).is_held(100.0)
    assert replace(mine, kernel="another", pid=process.pid).is_held(100.0)
    for spoilt in ("", "[1]", "{", '{"until": "soon"}'):
        assert not Lease.parse(spoilt).is_held(0.0)


def test_a_database_keeps_many_sweeps(url: str) -> None:
    """Without a name the only one is meant."""
    begin(url).close()
    only = backend_of(url)
    assert only.exists()
    assert "s" == read_state(only).spec.name
    optuna.create_study(storage=url, study_name="somebody's")
    assert "s" == read_state(only).spec.name
    begin(url, name="other").close()
    with pytest.raises(InputError, match="keeps 2 sweeps: other, s"):
        read_state(only)
    backend_of(url, "other").delete()
    assert "s" == read_state(only).spec.name


def test_a_long_record_is_kept(url: str) -> None:
    """There are databases in which a text without a length has 64 KiB."""
    defaults = {"text": "wide \N{SNOWMAN}" * 9000}
    with Journal.create(backend_of(url, "s"), records.head(spec(), 1.0, defaults)) as journal:
        journal.append(records.request_stop("why " * 9000, 2.0))
    state = read_state(backend_of(url, "s"))
    assert (defaults, "why " * 9000) == (state.defaults, state.requested)
    assert "line TEXT(8388609)" in str(CreateTable(sql.RECORDS).compile(dialect=mysql.dialect()))


TABLE = "CREATE TABLE {} (wheels INTEGER)"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ((TABLE.format("allranks_records"),), "has a table 'allranks_records' that is not ours"),
        ((TABLE.format("allranks_leases"),), "has a table 'allranks_leases' that is not ours"),
        (("CREATE TABLE allranks_records (sweep TEXT, seq INTEGER)",), "that is not ours"),
    ],
)
def test_a_database_of_another_program_is_left_alone(
    empty: str, statements: tuple[str, ...], message: str
) -> None:
    """Nothing is made in it."""
    change(empty, *statements)
    with pytest.raises(InputError) as excinfo:
        begin(empty)
    assert message in str(excinfo.value)
    assert "a database of their own" in excinfo.value.problem.hint
    assert 1 == change(empty, "SELECT count(*) FROM sqlite_master")[0][0]


def test_other_tables_do_no_harm(empty: str) -> None:
    """Only those with our names count."""
    tables = ("cars", "trials", "studies", "study_system_attributes", "alembic_version")
    change(empty, *map(TABLE.format, tables))
    begin(empty).close()
    assert backend_of(empty, "s").exists()


def test_a_study_that_is_no_sweep_is_left_alone(url: str) -> None:
    """It may hold months of work."""
    optuna.create_study(storage=url, study_name="s")
    assert not backend_of(url, "s").exists()
    begin(url).close()
    backend_of(url, "s").delete()
    assert ["s"] == optuna.get_all_study_names(url)


def test_records_that_were_changed_by_hand_are_refused(url: str) -> None:
    """With the place."""
    begin(url).close()
    for text, message in (("line = x'ff'", "was changed by other hands"), ("line = '{'", ":2")):
        change(url, f"UPDATE allranks_records SET {text} WHERE seq = 1")  # noqa: S608
        with pytest.raises(InputError) as excinfo:
            Journal.open(backend_of(url, "s"))
        assert message in str(excinfo.value)
    assert not backend_of(url, "s").is_run()


@pytest.mark.parametrize(
    ("library", "where", "message", "fix"),
    [
        (
            "sqlalchemy",
            "sqlite:///s.db",
            "a database needs SQLAlchemy",
            "pip install 'allranks[search]'",
        ),
        ("psycopg", "postgresql://h/d", "needs psycopg", "pip install 'allranks[postgres]'"),
    ],
)
def test_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, library: str, where: str, message: str, fix: str
) -> None:
    """Is named with the command that installs it, and not before it is needed."""
    monkeypatch.setitem(sys.modules, library, None)
    if library == "sqlalchemy":
        for name in ("sql", "older_database"):
            monkeypatch.delitem(sys.modules, f"allranks.sweep.storage.{name}", raising=False)
    backend = backend_of(where, "s")
    accesses = (
        read_state,
        Journal.open,
        lambda backend: backend.exists(),
        lambda backend: request_stop(backend, "", 1.0),
    )
    for access in accesses:
        with pytest.raises(MissingToolError, match=message) as excinfo:
            access(backend)
        assert fix in excinfo.value.problem.hint
        assert 2 == excinfo.value.exit_code


def test_what_is_no_database(tmp_path: Path) -> None:
    """Each says what it is, and what to do."""
    (tmp_path / "text").write_text("no database, and long enough to be seen as none" * 9)
    with pytest.raises(InputError, match="is not a database") as excinfo:
        read_state(backend_of(f"sqlite:///{tmp_path}/text", "s"))
    assert "name another file" == excinfo.value.problem.hint
    with pytest.raises(RunError, match="unable to open database file") as excinfo:
        begin(f"sqlite:///{tmp_path}/none/s.db")
    assert "make its folder" in excinfo.value.problem.hint
    with pytest.raises(InputError, match="no database of the kind parchment"):
        backend_of("parchment://host/db", "s").exists()
    with pytest.raises(MissingToolError, match="mysql needs pymysql") as missing:
        backend_of("mysql://me@host/db", "s").exists()
    assert "pip install pymysql" == missing.value.problem.hint
    assert not backend_of(f"sqlite:///{tmp_path}/none.db", "s").exists()
    assert not (tmp_path / "none.db").exists()

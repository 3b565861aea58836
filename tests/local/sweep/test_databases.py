"""Sweeps that are kept in databases: SQLite, and a real PostgreSQL."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import sqlalchemy

from allranks import names
from allranks.errors import AllranksError, InputError, RunError
from allranks.sweep import records
from allranks.sweep.storage import database_url
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state
from tests.local.conftest import until
from tests.local.sweep.postgres import PASSWORD, USER, Server
from tests.local.sweep.test_cli import Laptop, held_runner, laptop
from tests.unit.sweep.simulation import spec
from tests.unit.sweep.studies import kill_writers, same, study
from tests.unit.sweep.test_older_journals import check, database, open_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["laptop"]

# One server is enough.
pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL."""
    database_server = Server()
    try:
        database_server.start()
        yield database_server
    finally:
        database_server.remove()


@pytest.fixture
def password(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password, where PostgreSQL's own programs look for it."""
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)


def test_a_sweep_in_sqlite(laptop: Laptop) -> None:
    """Its name alone finds it from any folder, and the commands that are recommended name it."""
    output = laptop.run("--journal", "sqlite:///sweeps.db", "--trials", "1").stdout
    url = f"sqlite:///{laptop.folder}/sweeps.db"
    assert "`allranks sweep results s --best -o yaml`" in output
    assert "s  Completed, 1 of 1 trial ended" in laptop("status", "s").stdout
    assert 1 == len(read_state(backend_of(url, "s")).trials)


@pytest.mark.usefixtures("password")
def test_a_sweep_in_postgresql(laptop: Laptop, server: Server) -> None:
    """A kill costs no trial and repeats none; and the password is nowhere that the sweep is."""
    url = server.make("sweeps")
    laptop.env.update(server.env)
    runner = held_runner(laptop, "--journal", url, "--trials", "3")
    stderr = laptop("resume", "s", code=2).stderr
    assert f"another process runs this sweep: process {runner.pid} on " in stderr
    until(lambda: set(laptop.runs) == _trials(laptop).keys(), "both programs to run")
    assert not any("PGPASSWORD" in env for env in _trials(laptop).values())
    runner.kill()
    runner.communicate()
    for file in laptop.folder.rglob("*"):
        if file.is_file():
            assert PASSWORD.encode() not in file.read_bytes(), file
    interrupted = laptop("status", "s").stdout
    assert "`allranks sweep resume s` goes on" in interrupted
    (laptop.folder / "go").touch()
    results = json.loads(laptop("resume", "s", "-o", "json").stdout)
    assert {"succeeded": 3} == results["counts"]
    assert {1} == {trial["attempts"] for trial in results["trials"]}
    backend = backend_of(url, "s")
    laptop("export", "s", "--optuna", url)
    same(read_state(backend), study(url))
    assert results["best"] == study(url).best_trial.number
    laptop("delete", "s")
    assert not backend.exists()
    assert not list(laptop.state.glob("sweeps/*"))
    assert "0" == server.sql("sweeps", "SELECT count(*) FROM allranks_records").strip()


def _trials(laptop: Laptop) -> dict[str, dict[str, str]]:
    """By the name of a trial that runs, the environment of a program of it."""
    environments = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            env = process.environ()
            if names.ENV_TRIAL_NAME in env and process.cwd() == str(laptop.folder):
                environments[env[names.ENV_TRIAL_NAME]] = env
    return environments


@pytest.mark.usefixtures("password")
def test_a_database_without_an_encoding(laptop: Laptop, server: Server) -> None:
    """A server that was made in the locale C has such ones: texts are as in any other."""
    create = "CREATE DATABASE bytes TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C'"
    server.sql("postgres", create)
    url = server.url("bytes")
    laptop.env.update(server.env)
    (laptop.folder / "go").touch()
    laptop.run("--journal", url, "--trials", "1")
    laptop("export", "s", "--optuna", url)
    same(read_state(backend_of(url, "s")), study(f"{url}?client_encoding=utf8"))


@pytest.mark.usefixtures("password")
def test_postgresql_keeps_what_was_acknowledged(server: Server) -> None:
    """Whenever the writer is killed; who goes on need not wait for its lease to run out."""
    kill_writers(server.make("killed"), 2)


@pytest.mark.usefixtures("password")
def test_a_server_that_is_restarted_is_waited_for(server: Server) -> None:
    """No record is lost or written twice."""
    url = server.make("restarted")
    with Journal.create(backend_of(url, "s"), records.head(spec(), 1.0)) as journal:
        server.stop()
        assert "" == journal.take_request()
        writer = threading.Thread(
            target=journal.append, args=(records.request_stop("enough", 2.0),)
        )
        writer.start()
        server.start()
        writer.join()
    assert "enough" == read_state(backend_of(url, "s")).requested
    query = "SELECT count(*) FROM allranks_records"
    assert "2" == server.sql("restarted", query).strip()


def test_what_a_server_refuses(
    laptop: Laptop, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says what it is and what to do, and no password is shown."""
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    others = server.make("others", "CREATE TABLE allranks_leases (wheels integer)")
    cases: list[tuple[str, str, int, tuple[str, ...]]] = [
        (others, "wr0ng", 2, ("password authentication failed", "set PGPASSWORD")),
        (others, "", 2, ("no password supplied", "~/.pgpass")),
        (server.url("nowhere"), PASSWORD, 2, ('"nowhere" does not exist', "createdb")),
        (others, PASSWORD, 2, ("a table 'allranks_leases' that is not ours", "of their own")),
        ("postgresql://x@127.0.0.1:9/d", PASSWORD, 1, ("cannot be reached", "see that it runs")),
    ]
    for url, password, code, texts in cases:
        monkeypatch.setenv("PGPASSWORD", password)
        with pytest.raises(AllranksError) as excinfo:
            Journal.create(backend_of(url, "s"), records.head(spec(), 1.0))
        assert code == excinfo.value.exit_code
        for text in texts:
            assert text in str(excinfo.value)
        assert "wr0ng" not in str(excinfo.value)
        assert PASSWORD not in str(excinfo.value)
    laptop.env["PGPASSWORD"] = "wr0ng"
    process = laptop.run("--journal", others, code=2)
    assert process.stderr.startswith(f"error: the database {others} cannot be reached: ")
    assert "wr0ng" not in process.stdout + process.stderr
    assert not list(laptop.state.glob("sweeps/*"))


@pytest.mark.usefixtures("password")
def test_a_user_without_rights(server: Server) -> None:
    """It is said which right is missing."""
    url = server.make("closed")
    server.sql("closed", "REVOKE ALL ON SCHEMA public FROM public")
    server.sql("closed", f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    guest: Any = backend_of(url.replace(USER, "guest"), "s")
    with pytest.raises(RunError, match="no schema has been selected to create in") as excinfo:
        guest.create(records.head(spec(), 1.0))
    assert "let the user of the URL" in str(excinfo.value)


@pytest.mark.attack
@pytest.mark.usefixtures("password")
def test_rows_that_somebody_else_has_written_are_refused(server: Server) -> None:
    """As in SQLite: in words, and none is fetched that is longer than ours are."""
    url = server.make("hostile")
    Journal.create(backend_of(url, "s"), records.head(spec(), 1.0, {})).close()
    backend = backend_of(url, "s")
    texts = (
        "'null'",
        "'not JSON'",
        "repeat('[', 100000)",
        "repeat('x', 9000000)",
        "'\"\\u0000\\ud800\"'",
    )
    change = "UPDATE allranks_records SET line ="
    for text in texts:
        server.sql("hostile", f"{change} {text}")
        for access in (partial(read_state, backend), partial(Journal.open, backend)):
            with pytest.raises(InputError):
                access()
    server.sql("hostile", "UPDATE allranks_leases SET lease = repeat('[', 100000)")
    with pytest.raises(InputError):
        read_state(backend)


@pytest.mark.usefixtures("password")
def test_a_sweep_that_an_older_version_kept_in_postgresql(server: Server, tmp_path: Path) -> None:
    """It is read where it is, and the next writer moves it; Optuna's tables stay."""
    url = server.make("older")
    older = sqlalchemy.create_engine(database(tmp_path))
    newer = sqlalchemy.create_engine(database_url.for_driver(url))
    tables = sqlalchemy.MetaData()
    tables.reflect(older, only=["studies", "study_system_attributes"])
    tables.create_all(newer)
    for table in tables.sorted_tables:
        with older.connect() as source, newer.begin() as target:
            lines = source.execute(table.select()).mappings().all()
            target.execute(table.insert(), [dict(line) for line in lines])
    backend = backend_of(url, "s")
    check(read_state(backend))
    assert not backend.is_run()
    open_at_once(url)
    with Journal.open(backend) as journal:
        check(journal.state)
        journal.append(records.request_stop("enough", 2e9))
    assert "enough" == read_state(backend).requested
    query = "SELECT count(*) FROM study_system_attributes WHERE key LIKE 'allranks:%'"
    assert "3" == server.sql("older", query).strip()  # those of the other sweep
    newer.dispose()
    older.dispose()

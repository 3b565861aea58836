"""Sweeps that are kept in databases: SQLite, and a real PostgreSQL."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks import names
from allranks.errors import AllranksError, RunError
from allranks.sweep import records
from allranks.sweep.storage import journals
from tests.local.conftest import until
from tests.local.sweep.postgres import PASSWORD, USER, Server
from tests.local.sweep.test_cli import Laptop, held, laptop
from tests.unit.sweep.simulation import spec
from tests.unit.sweep.studies import kill_writers, same, study

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["laptop"]

# One server is enough.
pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL."""
    made = Server()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture
def password(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password, where PostgreSQL's own programs look for it."""
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)


def test_a_sweep_in_sqlite(laptop: Laptop) -> None:
    """Its name alone finds it from any folder, and the commands that are recommended name it."""
    shown = laptop.run("--journal", "sqlite:///sweeps.db", "--trials", "1").stdout
    url = f"sqlite:///{laptop.folder}/sweeps.db"
    assert "`allranks sweep results s --best -o yaml`" in shown
    assert "s  Completed, 1 of 1 trial ended" in laptop("status", "s").stdout
    same(journals.keeper(url, "s").read(), study(url))


@pytest.mark.usefixtures("password")
def test_a_sweep_in_postgresql(laptop: Laptop, server: Server) -> None:
    """A kill costs no trial and repeats none; and the password is nowhere that the sweep is."""
    url = server.make("sweeps")
    laptop.env.update(server.env)
    runner = held(laptop, "--journal", url, "--trials", "3")
    refused = laptop("resume", "s", code=2).stderr
    assert f"another process runs this sweep: process {runner.pid} on " in refused
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
    told = json.loads(laptop("resume", "s", "-o", "json").stdout)
    assert {"succeeded": 3} == told["counts"]
    assert {1} == {trial["attempts"] for trial in told["trials"]}
    kept = journals.keeper(url, "s")
    same(kept.read(), study(url))
    assert told["best"] == study(url).best_trial.number
    laptop("delete", "s")
    assert not kept.exists()
    assert not list(laptop.state.glob("sweeps/*"))
    assert "0" == server.sql("sweeps", "SELECT count(*) FROM study_system_attributes").strip()


def _trials(laptop: Laptop) -> dict[str, dict[str, str]]:
    """By the name of a trial that runs, the environment of a program of it."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            env = process.environ()
            if names.ENV_TRIAL_NAME in env and process.cwd() == str(laptop.folder):
                found[env[names.ENV_TRIAL_NAME]] = env
    return found


@pytest.mark.usefixtures("password")
def test_postgresql_keeps_what_was_acknowledged(server: Server) -> None:
    """Whenever the writer is killed; who goes on need not wait for its lease to run out."""
    kill_writers(server.make("killed"), 2)


@pytest.mark.usefixtures("password")
def test_a_server_that_is_restarted_is_waited_for(server: Server) -> None:
    """No record is lost or written twice."""
    url = server.make("restarted")
    with journals.keeper(url, "s").create(records.head(spec(), 1.0)) as journal:
        server.stop()
        assert "" == journal.take_request()
        writer = threading.Thread(
            target=journal.append, args=(records.request_stop("enough", 2.0),)
        )
        writer.start()
        server.start()
        writer.join()
    assert "enough" == journals.keeper(url, "s").read().requested
    query = "SELECT count(*) FROM study_system_attributes WHERE key LIKE 'allranks:journal:%'"
    assert "2" == server.sql("restarted", query).strip()


def test_what_a_server_refuses(
    laptop: Laptop, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says what it is and what to do, and no password is shown."""
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    others = server.make("others", "CREATE TABLE trials (wheels integer)")
    cases: list[tuple[str, str, int, tuple[str, ...]]] = [
        (others, "wr0ng", 2, ("password authentication failed", "set PGPASSWORD")),
        (others, "", 2, ("no password supplied", "~/.pgpass")),
        (server.url("nowhere"), PASSWORD, 2, ('"nowhere" does not exist', "createdb")),
        (others, PASSWORD, 2, ("a table 'trials' that is not Optuna's", "of their own")),
        ("postgresql://x@127.0.0.1:9/d", PASSWORD, 1, ("cannot be reached", "see that it runs")),
    ]
    for url, password, code, said in cases:
        monkeypatch.setenv("PGPASSWORD", password)
        with pytest.raises(AllranksError) as caught:
            journals.keeper(url, "s").create(records.head(spec(), 1.0))
        assert code == caught.value.exit_code
        for text in said:
            assert text in str(caught.value)
        assert "wr0ng" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
    laptop.env["PGPASSWORD"] = "wr0ng"
    done = laptop.run("--journal", others, code=2)
    assert done.stderr.startswith(f"error: the database {others} cannot be reached: ")
    assert "wr0ng" not in done.stdout + done.stderr
    assert not list(laptop.state.glob("sweeps/*"))


@pytest.mark.usefixtures("password")
def test_a_user_without_rights(server: Server) -> None:
    """It is said which right is missing."""
    url = server.make("closed")
    server.sql("closed", "REVOKE ALL ON SCHEMA public FROM public")
    server.sql("closed", f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    guest: Any = journals.keeper(url.replace(USER, "guest"), "s")
    with pytest.raises(RunError, match="no schema has been selected to create in") as caught:
        guest.create(records.head(spec(), 1.0))
    assert "let the user of the URL" in str(caught.value)

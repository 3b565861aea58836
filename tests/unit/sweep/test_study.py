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
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.trial import TrialState

from allranks.errors import InputError, MissingToolError, RunError
from allranks.sweep import records, space
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    HALVING,
    STOPPED,
    SUCCEEDED,
    EarlyStopping,
    IntUniform,
    LogUniform,
    Measure,
    Objective,
    Parameter,
    Uniform,
)
from allranks.sweep.storage import journals
from allranks.sweep.storage import lease as leases
from allranks.sweep.storage.lease import Lease
from tests.unit.sweep.simulation import Memory, World, finish, spec
from tests.unit.sweep.studies import Kept, kill_writers, same, study
from tests.unit.sweep.test_interruptions import check

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.storage.journals import Journal


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with nothing but Optuna's tables, which take a while to make."""
    path = tmp_path_factory.mktemp("made") / "s.db"
    url = f"sqlite:///{path}"
    begun(url).close()
    journals.keeper(url, "s").forget()
    return path


@pytest.fixture
def url(made: Path, tmp_path: Path) -> str:
    """A database that keeps no sweep yet."""
    shutil.copy(made, tmp_path / "s.db")
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def empty(tmp_path: Path) -> str:
    """A database that is not there yet."""
    return f"sqlite:///{tmp_path}/empty.db"


def begun(url: str, trials: int = 2, **changes: Any) -> Journal:
    """A sweep with some trials that run."""
    of = spec(**changes)
    journal = journals.keeper(url, of.name).create(records.head(of, 1.0))
    for number in range(trials):
        chosen = space.assignment(of.parameters, number)
        journal.append(records.trial(number, f"{of.name}-{number}", chosen, 2.0))
        journal.append({"t": "start", "n": number, "attempt": 1, "at": 3.0})
    return journal


def ended(number: int, state: str, value: float | None = None) -> dict[str, Any]:
    """The record of a trial's end."""
    return {"t": "end", "n": number, "state": state, "v": value, "why": "", "cpu": 1.5, "at": 9.0}


def change(url: str, *statements: str) -> list[Any]:
    """Let other hands change a database; what the last one found."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        for statement in statements:
            found = connection.execute(statement).fetchall()
    return found


def test_runners_that_die_within_a_transaction_leave_a_sweep_to_go_on_with(url: str) -> None:
    """What is in the database is what was acknowledged, and Optuna sees the same."""
    kept = journals.keeper(url, "s")
    journal = Kept(kept, records.head(spec(retries=1, early=EarlyStopping(HALVING, 1, 2)), 0.0))
    world = World(seed=5, failing=20, unmeasured=10, slow=True)
    state = finish(world, journal, list(range(1, 12)))
    journal.journal.close()
    check(state, world)
    found = kept.read()
    assert (state.trials, state.outcome) == (found.trials, found.outcome)
    same(found, study(url))
    assert study(url).best_trial.user_attrs["release"] == state.trials[state.best or 0].name


def test_no_record_that_was_acknowledged_is_lost_by_kill_minus_9(url: str) -> None:
    """Whenever the writer dies; who goes on need not wait for its lease to run out."""
    kill_writers(url, 3)


def test_a_search_proposes_the_same_as_with_a_file(url: str) -> None:
    """It reads the records, and not the study."""
    found = []
    of = spec(search="tpe", trials=8)
    for journal in (
        Memory(records.head(of, 0.0)),
        Kept(journals.keeper(url, "s"), records.head(of, 0.0)),
    ):
        state = finish(World(seed=3), journal, [9])
        found.append([trial.name for trial in state.trials.values()])
    assert found[0] == found[1]
    journal.journal.close()


def test_optuna_sees_the_sweep(url: str) -> None:
    """With its own values, whatever becomes of a trial, also where one is begun again."""
    with begun(url, 5, retries=1) as journal:
        nan, far = Measure("accuracy", float("nan"), 1, 4.0), Measure("accuracy", 0.5, 2**40, 4.0)
        journal.append(*records.measures(0, [(0, nan), (1, far)]))
        journal.append(*records.measures(0, [(2, Measure("accuracy", 0.25, 2, 4.0))]))
        journal.append(ended(0, SUCCEEDED, 0.25), ended(1, FAILED), ended(2, STOPPED, 0.125))
        journal.append(*records.measures(3, [(0, Measure("accuracy", 0.5, 3, 4.0))]))
        journal.append({"t": "retry", "n": 3, "why": "exit code 1", "at": 8.0})
        journal.append(ended(4, CANCELLED))
        found = study(url)
        assert ["accuracy"] == found.metric_names
        assert optuna.study.StudyDirection.MAXIMIZE == found.direction
        states = [
            TrialState.COMPLETE,
            TrialState.FAIL,
            TrialState.PRUNED,
            TrialState.WAITING,
            TrialState.FAIL,
        ]
        assert states == [one.state for one in found.trials]
        assert ["succeeded", "failed", "stopped", "pending", "cancelled"] == [
            one.user_attrs["state"] for one in found.trials
        ]
        best = found.best_trial
        assert {"lr": 1e-5, "seed": 1} == best.params
        assert [1, 2] == sorted(best.intermediate_values)
        assert ({}, "exit code 1") == (
            found.trials[3].intermediate_values,
            found.trials[3].user_attrs["reason"],
        )
        assert 1.5 == best.user_attrs["cpu_seconds"]
        assert best.datetime_start.timestamp() == 3.0
        journal.append(records.resume(replace(spec(), retries=1), 10.0))
        assert TrialState.WAITING == study(url).trials[4].state


def test_optuna_sees_what_a_search_draws_from(url: str) -> None:
    """Distributions, and parameters that lie in them."""
    parameters = (
        Parameter("x", Uniform(0.0, 0.5)),
        Parameter("y", LogUniform(1e-5, 1e-1)),
        Parameter("z", IntUniform(2, 8)),
    )
    of = spec(parameters=parameters)
    with journals.keeper(url, "s").create(records.head(of, 1.0)) as journal:
        drawn = {item.name: space.at(item.space, 0.5) for item in parameters}
        journal.append(records.trial(0, "s-0", drawn, 2.0))
    (one,) = study(url).trials
    assert {name: choice.data for name, choice in drawn.items()} == one.params
    assert optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True) == one.distributions["y"]
    assert optuna.distributions.IntDistribution(2, 8) == one.distributions["z"]


def test_a_sweep_without_a_metric_is_shown_too(url: str) -> None:
    """Its trials are complete, and have no value."""
    with begun(url, 1, objective=Objective("")) as journal:
        journal.append(ended(0, SUCCEEDED))
    (one,) = study(url).trials
    assert (TrialState.COMPLETE, None) == (one.state, one.value)


def test_trials_that_were_changed_or_lost_are_made_again_from_the_records(url: str) -> None:
    """As soon as a writer begins; nothing of ours reads them."""
    with begun(url, 3) as journal:
        journal.append(ended(0, SUCCEEDED, 0.5))
    change(
        url,
        "UPDATE trials SET state = 'RUNNING' WHERE number = 0",
        "DELETE FROM trial_values",
        "DELETE FROM trial_system_attributes WHERE trial_id = 3",
        "DELETE FROM trial_user_attributes WHERE trial_id = 3",
        "DELETE FROM trial_params WHERE trial_id = 3",
        "DELETE FROM trials WHERE trial_id = 3",
    )
    with journals.keeper(url, "s").open() as journal:
        same(journal.state, study(url))
        assert 0.5 == study(url).best_value


def test_a_file_that_is_made_is_its_owner_s_alone(made: Path) -> None:
    """Values stand in it, and passwords may stand in them."""
    assert 0o600 == stat.S_IMODE(made.stat().st_mode)


def test_one_writer_at_a_time(url: str) -> None:
    """Readers are not kept out, and who writes is named."""
    kept = journals.keeper(url, "s")
    assert not kept.exists()
    with begun(url):
        assert kept.exists()
        assert kept.is_run()
        assert 2 == len(kept.read().trials)
        with pytest.raises(InputError, match=rf"runs this sweep: process {os.getpid()} on "):
            kept.open()
        with pytest.raises(InputError, match="the sweep s was begun already"):
            begun(url)
        assert kept.request_stop("enough", 5.0)
    assert not kept.is_run()
    with kept.open() as journal:
        assert "enough" == journal.take_request()
        assert "" == journal.take_request()
    assert not kept.request_stop("now", 6.0)
    assert "now" == kept.read().requested
    kept.forget()
    assert not kept.exists()
    kept.forget()
    for refused in (kept.read, kept.open, lambda: kept.request_stop("x", 1.0)):
        with pytest.raises(InputError, match=r"there is no sweep 's' in "):
            refused()


def test_the_lease_of_a_machine_that_died_is_waited_for(url: str) -> None:
    """It cannot be asked whether the process is still there; but it renews no lease."""
    begun(url).close()
    _lease(url, seconds=0.7)
    assert journals.keeper(url, "s").is_run()
    with journals.keeper(url, "s").open() as journal:
        assert 2 == len(journal.state.trials)


def test_a_lease_that_is_renewed_far_away_is_respected(url: str) -> None:
    """As soon as that is seen."""
    begun(url).close()
    _lease(url, seconds=60)
    renewer = threading.Timer(0.4, _lease, (url, 61))
    renewer.start()
    with pytest.raises(InputError, match="another process runs this sweep: process 7 on far"):
        journals.keeper(url, "s").open()
    renewer.join()


def _lease(url: str, seconds: float, holder: str = "somebody") -> None:
    (((text,),)) = change(url, "SELECT strftime('%s','now') + 0.0")
    lease = Lease(holder, float(text) + 1 + seconds, "far", 7, "another kernel", "1")
    change(
        url,
        f"UPDATE study_system_attributes SET value_json = '{lease.text()}' "  # noqa: S608
        "WHERE key = 'allranks:lease'",
    )


def test_a_writer_that_was_thought_dead_writes_nothing_more(url: str) -> None:
    """Another one has the sweep; neither records nor trials of the first are taken."""
    with begun(url) as journal:
        _lease(url, seconds=60)
        for _ in range(2):
            with pytest.raises(
                RunError, match="process 7 on far has taken the sweep s over"
            ) as told:
                journal.append(ended(0, FAILED))
            assert f"`allranks sweep status s --journal {url}`" in told.value.problem.hint
    assert 2 == len(journals.keeper(url, "s").read().running())
    assert TrialState.RUNNING == study(url).trials[0].state


@pytest.mark.parametrize(("holder", "said"), [("x", "7 on far has taken"), ("", "and has ended")])
def test_who_was_asleep_while_another_took_over_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch, holder: str, said: str
) -> None:
    """Also where the thread that renews the lease saw it first; a request is left to the other."""
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.01)
    with begun(url) as journal:
        renewer: threading.Thread = journal._renewer  # type: ignore[attr-defined]
        while renewer.is_alive():  # it may renew what it has read a moment before
            _lease(url, seconds=60, holder=holder)
            renewer.join(0.2)
        with pytest.raises(RunError, match=said) as told:
            journal.append(ended(0, FAILED))
        assert "`allranks sweep resume s --journal sqlite:" in told.value.problem.hint
        assert "" == journal.take_request()
        change(url, _REQUESTED)
        with pytest.raises(RunError, match=said):
            journal.take_request()
    assert [("allranks:request",)] == change(url, _REQUESTS)


def test_a_sweep_that_was_removed_while_it_was_run(url: str) -> None:
    """It is said, with how to find what runs on."""
    with begun(url) as journal:
        journals.keeper(url, "s").forget()
        with pytest.raises(RunError, match="s was removed from sqlite:") as told:
            journal.append(ended(0, FAILED))
    assert "`helm list -l allranks.dev/sweep=s`" in told.value.problem.hint


_REQUESTED = """INSERT INTO study_system_attributes (study_id, key, value_json)
SELECT study_id, 'allranks:request', '"enough"' FROM studies"""
_REQUESTS = "SELECT key FROM study_system_attributes WHERE key = 'allranks:request'"


def test_a_lease_is_renewed_while_nothing_is_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial may take hours."""
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.05)
    query = "SELECT value_json FROM study_system_attributes WHERE key = 'allranks:lease'"
    with begun(url) as journal:
        first = Lease.parse(change(url, query)[0][0])
        while Lease.parse(change(url, query)[0][0]).until <= first.until + 0.1:
            journal.take_request()


def test_a_process_that_has_ended_holds_nothing() -> None:
    """Whoever has its number by now."""
    mine = Lease.mine().renewed(100.0)
    assert mine == Lease.parse(mine.text())
    assert mine.is_held(100.0)
    assert not mine.is_held(200.0)
    assert not replace(mine, begun="1").is_held(100.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert not replace(mine, pid=gone.pid).is_held(100.0)
    assert replace(mine, kernel="another", pid=gone.pid).is_held(100.0)
    for spoilt in ("", "[1]", "{", '{"until": "soon"}'):
        assert not Lease.parse(spoilt).is_held(0.0)


def test_a_database_keeps_many_sweeps(url: str) -> None:
    """Without a name the only one is meant."""
    begun(url).close()
    only = journals.keeper(url)
    assert only.exists()
    assert "s" == only.read().spec.name
    optuna.create_study(storage=url, study_name="somebody's")
    assert "s" == only.read().spec.name
    begun(url, name="other").close()
    with pytest.raises(InputError, match="keeps 2 sweeps: other, s"):
        only.read()
    journals.keeper(url, "other").forget()
    assert "s" == only.read().spec.name


def test_a_long_record_is_kept_in_pieces(url: str) -> None:
    """There are databases in which an attribute has 64 KiB."""
    defaults = {"text": "wide \N{SNOWMAN}" * 9000}
    with journals.keeper(url, "s").create(records.head(spec(), 1.0, defaults)) as journal:
        journal.append(records.request_stop("why " * 9000, 2.0))
    state = journals.keeper(url, "s").read()
    assert (defaults, "why " * 9000) == (state.defaults, state.requested)
    assert 30_000 > max(
        length
        for (length,) in change(url, "SELECT length(value_json) FROM study_system_attributes")
    )


TABLE = "CREATE TABLE {} (wheels INTEGER)"


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ((TABLE.format("trials"),), "has a table 'trials' that is not Optuna's"),
        ((TABLE.format("studies"),), "has a table 'studies' that is not Optuna's"),
        ((TABLE.format("alembic_version"),), "has a table 'alembic_version' that is not Optuna's"),
        (("CREATE TABLE trials (number INTEGER, name TEXT)",), "'trials' that is not Optuna's"),
    ],
)
def test_a_database_of_another_program_is_left_alone(
    empty: str, statements: tuple[str, ...], said: str
) -> None:
    """Nothing is made in it."""
    change(empty, *statements)
    with pytest.raises(InputError) as caught:
        begun(empty)
    assert said in str(caught.value)
    assert "a database of their own" in caught.value.problem.hint
    assert 1 == change(empty, "SELECT count(*) FROM sqlite_master")[0][0]


def test_other_tables_do_no_harm(empty: str) -> None:
    """Only those that Optuna would use count."""
    change(empty, TABLE.format("cars"))
    begun(empty).close()
    assert journals.keeper(empty, "s").exists()


@pytest.mark.parametrize(
    ("revision", "said", "fix"),
    [
        ("v99.0.0.a", "by a newer Optuna than ", "pip install -U optuna"),
        ("v2.6.0.a", "by an older Optuna ", "optuna storage upgrade --storage sqlite:///"),
    ],
)
def test_a_database_of_another_optuna(url: str, revision: str, said: str, fix: str) -> None:
    """Is not written, and the way out is named."""
    begun(url).close()
    change(url, f"UPDATE alembic_version SET version_num = '{revision}'")  # noqa: S608
    kept = journals.keeper(url, "s")
    for refused in (kept.exists, kept.read, kept.open, lambda: begun(url)):
        with pytest.raises(InputError) as caught:
            refused()
        assert said in str(caught.value)
        assert fix in caught.value.problem.hint


def test_a_study_that_is_no_sweep_is_left_alone(url: str) -> None:
    """It may hold months of work."""
    optuna.create_study(storage=url, study_name="s")
    assert not journals.keeper(url, "s").exists()
    with pytest.raises(InputError, match=r"a study 's' in .* that is not a sweep's"):
        begun(url)
    journals.keeper(url, "s").forget()
    assert 1 == len(optuna.get_all_study_names(url))


def test_records_that_were_changed_by_hand_are_refused(url: str) -> None:
    """With the place."""
    begun(url).close()
    for value, said in (("'7'", "was changed by other hands"), ("'\"{\\n\"'", ":2")):
        change(
            url,
            f"UPDATE study_system_attributes SET value_json = {value} "  # noqa: S608
            "WHERE key = 'allranks:journal:00000001'",
        )
        with pytest.raises(InputError) as caught:
            journals.keeper(url, "s").open()
        assert said in str(caught.value)
    assert not journals.keeper(url, "s").is_run()


@pytest.mark.parametrize(
    ("library", "where", "said", "fix"),
    [
        ("optuna", "sqlite:///s.db", "a database needs Optuna", "pip install 'allranks[search]'"),
        ("psycopg", "postgresql://h/d", "needs psycopg", "pip install 'allranks[postgres]'"),
    ],
)
def test_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, library: str, where: str, said: str, fix: str
) -> None:
    """Is named with the command that installs it, and not before it is needed."""
    monkeypatch.setitem(sys.modules, library, None)
    if library == "optuna":
        for name in ("study", "studyjournal", "database", "rows", "mirror"):
            monkeypatch.delitem(sys.modules, f"allranks.sweep.storage.{name}", raising=False)
    kept = journals.keeper(where, "s")
    with pytest.raises(MissingToolError, match=said) as caught:
        kept.exists()
    assert fix in caught.value.problem.hint
    assert 2 == caught.value.exit_code


def test_what_is_no_database(tmp_path: Path) -> None:
    """Each says what it is, and what to do."""
    (tmp_path / "text").write_text("no database, and long enough to be seen as none" * 9)
    with pytest.raises(InputError, match="is not a database") as caught:
        journals.keeper(f"sqlite:///{tmp_path}/text", "s").read()
    assert "name another file" == caught.value.problem.hint
    with pytest.raises(RunError, match="unable to open database file") as caught:
        begun(f"sqlite:///{tmp_path}/none/s.db")
    assert "make its folder" in caught.value.problem.hint
    with pytest.raises(InputError, match="no database of the kind parchment"):
        journals.keeper("parchment://host/db", "s").exists()
    with pytest.raises(MissingToolError, match="mysql needs pymysql") as missing:
        journals.keeper("mysql://me@host/db", "s").exists()
    assert "pip install pymysql" == missing.value.problem.hint
    assert not journals.keeper(f"sqlite:///{tmp_path}/none.db", "s").exists()
    assert not (tmp_path / "none.db").exists()

"""A sweep as a study of Optuna's: what Optuna's own programs see of it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from allranks.errors import InputError, RunError
from allranks.sweep import records
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    STOPPED,
    SUCCEEDED,
    IntUniform,
    LogUniform,
    Measure,
    Objective,
    Parameter,
    Uniform,
)
from allranks.sweep.reporting import optuna_database, optuna_study
from allranks.sweep.search import space
from allranks.sweep.state import SweepState, fold
from tests.unit.sweep.simulation import Memory, World, finish, spec
from tests.unit.sweep.studies import same, study

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with nothing but Optuna's tables, which take a while to make."""
    path = tmp_path_factory.mktemp("made") / "optuna.db"
    optuna.storages.RDBStorage(f"sqlite:///{path}").engine.dispose()
    return path


@pytest.fixture
def url(empty_database: Path, tmp_path: Path) -> str:
    """A database without a study."""
    return f"sqlite:///{shutil.copy(empty_database, tmp_path)}"


def sweep_records(trials: int, **changes: Any) -> list[records.Record]:
    """The records of a sweep with some trials that run."""
    sweep_spec = spec(**changes)
    journal = [records.head(sweep_spec, 1.0)]
    for number in range(trials):
        assignment = space.assignment(sweep_spec.parameters, number % 12)
        journal.append(records.trial(number, f"s-{number}", assignment, 2.0))
        journal.append({"t": "start", "n": number, "attempt": 1, "at": 3.0})
    return journal


def end_record(number: int, state: str, value: float | None = None) -> dict[str, Any]:
    """The record of a trial's end."""
    return {"t": "end", "n": number, "state": state, "v": value, "why": "", "cpu": 1.5, "at": 9.0}


def exported(state: SweepState, url: str, **options: Any) -> optuna.Study:
    """The study that a sweep becomes."""
    optuna_study.export(state, url, "s", **options)
    return study(url)


def test_optuna_sees_the_sweep(url: str) -> None:
    """With its own values, whatever becomes of a trial, also where one is begun again."""
    journal = sweep_records(5, retries=1)
    nan, far = Measure("accuracy", float("nan"), 1, 4.0), Measure("accuracy", 0.5, 2**40, 4.0)
    journal += records.measures(0, [(0, nan), (1, far)])
    journal += records.measures(0, [(2, Measure("accuracy", 0.25, 2, 4.0))])
    journal += [
        end_record(0, SUCCEEDED, 0.25),
        end_record(1, FAILED),
        end_record(2, STOPPED, 0.125),
    ]
    journal += records.measures(3, [(0, Measure("accuracy", 0.5, 3, 4.0))])
    journal.append({"t": "retry", "n": 3, "why": "exit code 1", "at": 8.0})
    journal.append(end_record(4, CANCELLED))
    exported_study = exported(fold(journal), url)
    assert ["accuracy"] == exported_study.metric_names
    assert optuna.study.StudyDirection.MAXIMIZE == exported_study.direction
    states = [
        TrialState.COMPLETE,
        TrialState.FAIL,
        TrialState.PRUNED,
        TrialState.WAITING,
        TrialState.FAIL,
    ]
    assert states == [trial.state for trial in exported_study.trials]
    assert ["succeeded", "failed", "stopped", "pending", "cancelled"] == [
        trial.user_attrs["state"] for trial in exported_study.trials
    ]
    best = exported_study.best_trial
    assert {"lr": 1e-5, "seed": 1} == best.params
    assert [1, 2] == sorted(best.intermediate_values)
    assert ({}, "exit code 1") == (
        exported_study.trials[3].intermediate_values,
        exported_study.trials[3].user_attrs["reason"],
    )
    assert 1.5 == best.user_attrs["cpu_seconds"]
    assert best.datetime_start is not None
    assert best.datetime_start.timestamp() == 3.0
    journal.append(records.resume(replace(spec(), retries=1), 10.0))
    overwritten_study = exported(fold(journal), url, overwrite=True)
    assert TrialState.WAITING == overwritten_study.trials[4].state


def test_a_sweep_that_ran_to_its_end(url: str) -> None:
    """Trial by trial, with the same best one; what is written is told on the way."""
    journal = Memory(records.head(spec(retries=1), 0.0))
    state = finish(World(seed=5, failing=20, slow=True), journal)
    counts: list[int] = []
    exported_study = exported(state, url, on_written=counts.append)
    same(state, exported_study)
    assert exported_study.best_trial.user_attrs["release"] == state.trials[state.best or 0].name
    assert len(state.trials) == counts[-1]


def test_a_sweep_that_runs_is_written_as_it_is(url: str) -> None:
    """Its trials run there, too."""
    exported_study = exported(fold(sweep_records(2)), url)
    assert [TrialState.RUNNING] * 2 == [trial.state for trial in exported_study.trials]


def test_optuna_sees_what_a_search_draws_from(url: str) -> None:
    """Distributions, and parameters that lie in them."""
    parameters = (
        Parameter("x", Uniform(0.0, 0.5)),
        Parameter("y", LogUniform(1e-5, 1e-1)),
        Parameter("z", IntUniform(2, 8)),
    )
    sweep_spec = spec(parameters=parameters)
    assignment = {item.name: space.choice_at(item.space, 0.5) for item in parameters}
    state = fold([records.head(sweep_spec, 1.0), records.trial(0, "s-0", assignment, 2.0)])
    (trial,) = exported(state, url).trials
    assert {name: choice.data for name, choice in assignment.items()} == trial.params
    assert optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True) == trial.distributions["y"]
    assert optuna.distributions.IntDistribution(2, 8) == trial.distributions["z"]


def test_a_sweep_without_a_metric_is_no_study(tmp_path: Path) -> None:
    """Optuna knows no complete trial without a value; nothing is written."""
    state = fold([*sweep_records(1, objective=Objective("")), end_record(0, SUCCEEDED)])
    with pytest.raises(InputError, match="the sweep s has no metric") as excinfo:
        exported(state, f"sqlite:///{tmp_path}/optuna.db")
    assert "`-o csv` of `sweep results`" in excinfo.value.problem.hint
    assert [] == list(tmp_path.iterdir())


def test_a_study_of_that_name_is_left_alone(url: str) -> None:
    """Unless it is to be replaced; another one stays in any case."""
    for name in ("s", "other"):
        optuna.create_study(storage=url, study_name=name)
    with pytest.raises(InputError, match="there is a study 's' already") as excinfo:
        exported(fold(sweep_records(2)), url)
    assert "--overwrite" in excinfo.value.problem.hint
    assert [] == study(url).trials
    assert 2 == len(exported(fold(sweep_records(2)), url, overwrite=True).trials)
    assert {"other", "s"} == set(optuna.get_all_study_names(url))


def test_the_tables_are_optunas(empty_database: Path) -> None:
    """What a database is judged by is what Optuna makes."""
    engine = sqlalchemy.create_engine(f"sqlite:///{empty_database}")
    inspector = sqlalchemy.inspect(engine)
    columns_by_table = {
        name: {column["name"] for column in inspector.get_columns(name)}
        for name in inspector.get_table_names()
    }
    engine.dispose()
    assert set(columns_by_table) == set(optuna_database.TABLES)
    assert all(
        columns_by_table[name] >= columns for name, columns in optuna_database.TABLES.items()
    )


@pytest.mark.parametrize("table", sorted(optuna_database.TABLES))
def test_a_table_of_somebody_else_is_not_touched(table: str, tmp_path: Path) -> None:
    """Where it has a name of Optuna's, the database stays as it is, to the byte."""
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} (id INTEGER, title TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"a table '{table}' that is not Optuna's") as excinfo:
        exported(fold(sweep_records(1)), f"sqlite:///{path}", overwrite=True)
    assert "name another database" in excinfo.value.problem.hint
    assert (before, [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


def test_other_tables_beside_a_study_stay(tmp_path: Path) -> None:
    """A database of somebody's may have studies, too."""
    path = tmp_path / "shared.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kittens (name TEXT)")
        connection.execute("INSERT INTO kittens VALUES ('Tom')")
        connection.commit()
    assert 1 == len(exported(fold(sweep_records(1)), f"sqlite:///{path}").trials)
    with closing(sqlite3.connect(path)) as connection:
        assert [("Tom",)] == connection.execute("SELECT name FROM kittens").fetchall()


def test_pruned_trials_have_what_they_reported(url: str) -> None:
    """Nothing, a few values, or values that are none: each is pruned, and has no value."""
    journal = sweep_records(3)
    numbers = (float("nan"), float("inf"), float("-inf"), 0.5)
    measures = [(step, Measure("accuracy", value, step, 4.0)) for step, value in enumerate(numbers)]
    journal += records.measures(1, measures)
    journal += records.measures(2, [(0, Measure("accuracy", 0.25, None, 4.0))])
    journal += [end_record(0, STOPPED), end_record(1, STOPPED, 0.5), end_record(2, STOPPED, 0.25)]
    trials = exported(fold(journal), url).trials
    assert [TrialState.PRUNED] * 3 == [trial.state for trial in trials]
    counts = [len(trial.intermediate_values) for trial in trials]
    assert [0, 4, 1] == counts
    assert repr(list(numbers)) == repr(list(trials[1].intermediate_values.values()))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_locked_database_is_told(url: str, overwrite: bool) -> None:
    """Who keeps it is to be ended; a study that is there stays."""
    exported(fold(sweep_records(1)), url)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunError, match="database is locked") as excinfo:
            optuna_study.export(
                fold(sweep_records(2)), f"{url}?timeout=0.1", "s", overwrite=overwrite
            )
    assert "another program keeps it to itself; end that one, then try again" == (
        excinfo.value.problem.hint
    )
    assert 1 == len(study(url).trials)


def test_a_lock_in_the_middle_leaves_words(url: str) -> None:
    """What is written and lacks trials cannot be removed while another program keeps the file."""
    holders: list[sqlite3.Connection] = []

    def lock(_count: int) -> None:
        if not holders:
            holders.append(sqlite3.connect(url.removeprefix("sqlite:///")))
            holders[0].execute("BEGIN EXCLUSIVE")

    with pytest.raises(RunError) as excinfo:
        optuna_study.export(fold(sweep_records(30)), f"{url}?timeout=0.1", "s", on_written=lock)
    holders[0].close()
    assert excinfo.value.problem.message == (
        "the study cannot be written: database is locked; the study 's' is there and lacks trials: "
        "replace it with --overwrite"
    )
    assert 20 == len(study(url).trials)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_nothing_half_written(url: str, stop: type[BaseException]) -> None:
    """The study is removed again, and the others stay; that an older one is gone is said."""
    optuna.create_study(storage=url, study_name="other")
    exported(fold(sweep_records(1)), url)

    def interrupt(_count: int) -> None:
        raise stop

    with pytest.raises(stop) as excinfo:
        exported(fold(sweep_records(30)), url, overwrite=True, on_written=interrupt)
    assert [
        "the study 's' was removed again, as it lacked trials, and the one before it is gone"
    ] == excinfo.value.__notes__
    assert ["other"] == optuna.get_all_study_names(url)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_study_that_another_program_replaces_is_left_to_it(url: str, is_new: bool) -> None:
    """Two exports with --overwrite: it is said, and no trial is taken for one of the other's."""

    def replace_it(count: int) -> None:
        if count == 20:
            optuna.delete_study(study_name="s", storage=url)
            if is_new:
                optuna.create_study(study_name="s", storage=url)

    with pytest.raises(RunError, match="removed or replaced the study 's'") as excinfo:
        exported(fold(sweep_records(60)), url, on_written=replace_it)
    assert "see that nobody else writes it, then try again with --overwrite" == (
        excinfo.value.problem.hint
    )
    assert (["s"] if is_new else []) == optuna.get_all_study_names(url)
    assert not (is_new and study(url).trials)


_EXPORT = """
import sys
from allranks.sweep.reporting import optuna_database, optuna_study
from allranks.sweep.state import fold
from tests.unit.sweep.test_optuna_study import sweep_records
state = fold(sweep_records(3))
print("ready", flush=True)
sys.stdin.read(1)
optuna_study.export(state, sys.argv[1], sys.argv[2])
"""


def test_one_export_at_a_time_replaces_a_study(url: str) -> None:
    """Two that remove and make it in turn would write into one; the later is refused."""
    optuna.create_study(storage=url, study_name="s")
    messages = []

    def begin_another(_count: int) -> None:
        with pytest.raises(RunError) as excinfo:
            exported(fold(sweep_records(3)), url, overwrite=True)
        messages.append(excinfo.value.problem.message)

    exported(fold(sweep_records(3)), url, overwrite=True, on_written=begin_another)
    assert ["another export replaces the study 's' now"] == messages
    assert 3 == len(study(url).trials)
    exported(fold(sweep_records(2)), url, overwrite=True)
    assert 2 == len(study(url).trials)


def test_exports_at_once_into_a_new_file(tmp_path: Path) -> None:
    """Each makes the tables unless another one does; all of them are there at the end."""
    url, names = f"sqlite:///{tmp_path}/new.db", ["a", "b"]
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _EXPORT, url, name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for name in names
        ]
        for program in programs:
            assert program.stdout is not None
            assert "ready\n" == program.stdout.readline()
        for program in programs:
            assert program.stdin is not None
            program.stdin.write("x")
            program.stdin.flush()
        results = [program.communicate(timeout=100)[1] for program in programs]
    assert [("", 0)] * 2 == [
        (text, program.returncode) for text, program in zip(results, programs, strict=True)
    ]
    assert [3, 3] == [len(study(url, name).trials) for name in names]

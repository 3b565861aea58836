"""`allranks sweep export`: what it says, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import optuna
import pytest

from allranks.cli import main
from tests.unit.sweep.simulation import write_ended_sweep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep s with one trial that has ended."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    write_ended_sweep()


def export(*words: str) -> int:
    """The exit code of `allranks sweep export s`."""
    return main.main(["sweep", "export", "s", *words])


def test_a_sweep_becomes_a_study(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With its own name or another; one that is there is replaced only where that is asked for."""
    url = f"sqlite:///{tmp_path}/optuna.db"
    assert 0 == export("--optuna", "sqlite:///optuna.db")
    assert f"1 trial of s is in the study s: {url}\n" == capfd.readouterr().out
    assert 0.5 == optuna.load_study(study_name="s", storage=url).best_value
    assert 2 == export("--optuna", url)
    assert "there is a study 's' already" in capfd.readouterr().err
    assert 0 == export("--optuna", url, "--overwrite", "-o", "json")
    expected = {"name": "s", "study": "s", "optuna": url, "trials": 1}
    assert expected == json.loads(capfd.readouterr().out)
    assert 0 == export("--optuna", url, "--study", "digits")
    assert {"s", "digits"} == set(optuna.get_all_study_names(url))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optuna", "optuna.db"], "--optuna: 'optuna.db' is no URL of a database"),
        (["--optuna", "sqlite://"], "--optuna: sqlite:// names no file"),
        (["--optuna", "postgresql://me:hush@h/d"], "--optuna: the URL of the postgresql database"),
        ([], "--optuna"),
    ],
)
def test_what_is_no_database_is_refused(
    capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """Before anything is written, and without its password."""
    assert 2 == export(*words)
    output = capfd.readouterr()
    assert message in output.err
    assert "hush" not in output.err + output.out


@pytest.mark.parametrize(
    ("url", "code", "message", "hint"),
    [
        ("sqlite:///no/x.db", 2, "there is no folder ", "make it, or name another"),
        ("sqlite:///text.db", 2, "file is not a database", "name another file"),
        ("sqlite:///folder", 2, "/folder is a folder", "name a file"),
        ("sqlite:////dev/null", 2, "/dev/null is a pipe or a device", "name a file"),
        (
            "sqlite:///theirs.db",
            2,
            "a table 'studies' that is not Optuna's",
            "name another database",
        ),
        ("sqlite:///x.db?nonsense=1", 2, "cannot have nonsense in it", "write sqlite:///"),
        ("sqlite:///x.db?timeout=long", 2, "'long', is no number of seconds", "write ?timeout=60"),
        ("parchment://h/d", 2, "there is no database of the kind parchment", "give sqlite:///"),
        ("sqlite+foo:///x.db", 2, "no database of the kind sqlite+foo", "give sqlite:///"),
        ("postgresql+psycopg2://h/d", 2, "postgresql needs psycopg2", "pip install psycopg2"),
        ("mysql://h/d", 2, "mysql needs pymysql, which is not", "pip install pymysql"),
        (
            "postgresql://127.0.0.1:1/d?nonsense=1",
            2,
            'invalid connection option "nonsense"',
            "leave that",
        ),
        (
            "postgresql://127.0.0.1:1/d?connect_timeout=x",
            2,
            "bad value for connect_timeout",
            "correct that",
        ),
        ("postgresql://no.invalid/d", 1, "failed to resolve host", "correct the host in the URL"),
        ("postgresql://127.0.0.1:1/d", 1, "Connection refused", "see that the database runs"),
    ],
)
def test_each_cause_has_its_own_fix(  # noqa: PLR0917 - a table and its fixtures
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    url: str,
    code: int,
    message: str,
    hint: str,
) -> None:
    """None of them is to replace a study, which would remove it; and no file changes."""
    (tmp_path / "text.db").write_text("some words\n" * 99)
    (tmp_path / "folder").mkdir()
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        connection.execute("CREATE TABLE studies (title TEXT)")
        connection.commit()
    before = {path: path.read_bytes() for path in tmp_path.glob("*.db")}
    assert code == export("--optuna", url)
    errors = capfd.readouterr().err
    assert message in errors
    assert f"\n  fix: {hint}" in errors
    assert "--overwrite" not in errors
    assert before == {path: path.read_bytes() for path in tmp_path.glob("*.db")}


def test_ctrl_c_is_answered_with_what_is_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study that lacks trials is removed, and that is said."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(optuna.Study, "add_trials", interrupt)
    assert 130 == export("--optuna", "sqlite:///optuna.db")
    errors = capfd.readouterr().err
    assert "note: the study 's' was removed again, as it lacked trials" == errors.strip()
    assert [] == optuna.get_all_study_names("sqlite:///optuna.db")


def test_optuna_need_not_be_installed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is said how it is."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "allranks.sweep.reporting.optuna_study", raising=False)
    monkeypatch.delattr("allranks.sweep.reporting.optuna_study", raising=False)
    assert 2 == export("--optuna", "sqlite:///optuna.db")
    assert "pip install 'allranks[search]'" in capfd.readouterr().err

"""URLs of databases: made whole, and never with a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from allranks.errors import InputError
from allranks.sweep.storage import databaseurl, journals


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("sqlite:////a/b c%20{d}.db?timeout=3", "sqlite:////a/b c%20{d}.db?timeout=3"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (
            "postgres://me@host:5433/db?sslmode=require",
            "postgres://me@host:5433/db?sslmode=require",
        ),
        ("mysql+pymysql://me@host/db", "mysql+pymysql://me@host/db"),
    ],
)
def test_a_url_stays_as_it_was_typed(given: str, where: str) -> None:
    """It is shown, and kept in the note that finds the sweep by its name."""
    assert where == databaseurl.settle(given) == journals.keeper(given, "s").where


def test_a_file_is_named_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a journal in a file is."""
    monkeypatch.chdir(tmp_path)
    assert f"sqlite:///{tmp_path}/s.db" == databaseurl.settle("sqlite:///s.db")
    assert tmp_path / "s.db" == databaseurl.file(databaseurl.settle("sqlite:///s.db"))
    assert str(tmp_path / "sqlite:") == str(Path(journals.keeper("sqlite:").where))


def test_the_driver_that_extras_install_is_meant() -> None:
    """Whatever the library would choose; one that is named is taken."""
    assert "postgresql+psycopg://h/d" == databaseurl.for_driver("postgresql://h/d")
    assert "postgresql+pg8000://h/d" == databaseurl.for_driver("postgresql+pg8000://h/d")


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("postgresql://me:s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://me:@host/db", "PGPASSWORD"),
        ("postgresql://host/db?user=me&password=s3cr3t", "pgpass"),
        ("postgresql://host/db?sslpassword=s3cr3t", "pgpass"),
        ("mysql+pymysql://me:s3cr3t@host/db", "read_default_file"),
        ("oracle://me:s3cr3t@host/db", "driver"),
        ("postgresql://me:s3cr3t@[host/db", "give sqlite"),
    ],
)
def test_a_password_is_refused_and_not_repeated(url: str, fix: str) -> None:
    """Neither in the message nor in the error that caused it."""
    with pytest.raises(InputError) as caught:
        databaseurl.settle(url)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert fix in caught.value.problem.hint
    assert 2 == caught.value.exit_code


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://s.db",
        "sqlite:///file:x?mode=memory&uri=true",
        "postgresql://host",
        "postgresql://host/",
        "://x",
        "a b://x/y",
    ],
)
def test_a_url_that_keeps_nothing_is_refused(url: str) -> None:
    """Before anything is looked at."""
    with pytest.raises(InputError) as caught:
        databaseurl.settle(url)
    assert "--journal" == caught.value.problem.path
    assert caught.value.problem.hint

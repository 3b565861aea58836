"""URLs of databases: made whole, and never with a password."""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.errors import InputError
from allranks.sweep.storage import catalog, database_url
from allranks.sweep.storage.catalog import backend_of


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("sqlite:////a/b c%20{d}.db?timeout=3", "sqlite:////a/b c%20{d}.db?timeout=3"),
        ("sqlite:////s.db?shared=true&timeout=3", "sqlite:////s.db?shared=true&timeout=3"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (
            "postgres://me@host:5433/db?sslmode=require",
            "postgres://me@host:5433/db?sslmode=require",
        ),
        ("mysql+pymysql://me@host/db", "mysql+pymysql://me@host/db"),
    ],
)
def test_a_url_stays_as_it_was_typed(url: str, where: str) -> None:
    """It is shown, and kept in the note that finds the sweep by its name."""
    assert where == database_url.settle(url) == backend_of(url, "s").where


def test_a_file_is_named_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a journal in a file is."""
    monkeypatch.chdir(tmp_path)
    assert f"sqlite:///{tmp_path}/s.db" == database_url.settle("sqlite:///s.db")
    assert tmp_path / "s.db" == database_url.file(database_url.settle("sqlite:///s.db"))
    assert str(tmp_path / "sqlite:") == str(Path(backend_of("./sqlite:").where))


def test_the_driver_that_extras_install_is_meant() -> None:
    """Whatever the library would choose; one that is named is taken."""
    assert "postgresql+psycopg://h/d" == database_url.for_driver("postgresql://h/d")
    assert "postgresql+pg8000://h/d" == database_url.for_driver("postgresql+pg8000://h/d")


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("postgresql://me:s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://me:@host/db", "PGPASSWORD"),
        ("postgresql://host/db?user=me&password=s3cr3t", "pgpass"),
        ("postgresql://host/db?sslpassword=s3cr3t", "pgpass"),
        ("mysql+pymysql://me:s3cr3t@host/db", "read_default_file"),
        ("oracle://me:s3cr3t@host/db", "driver"),
        ("postgresql://me:s3cr3t@[host/db", "PGPASSWORD"),
        ("postgresql://me:hunter2/s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://me:hunter2#s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://me@corp:s3cr3t/x@host/db", "PGPASSWORD"),
        ("postgresql:///me:s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://a/b:hunter2?s3cr3t@host/db", "PGPASSWORD"),
        ("postgresql://host/db#?password=s3cr3t", "pgpass"),
        ("postgresql:me:s3cr3t@host/db", "give sqlite"),
        ("postgres:/me:s3cr3t@host/db", "give sqlite"),
        ("postgresql://me:s3cr3t/db", "give sqlite"),
        ("sqlite+pysqlcipher://:s3cr3t@/s.db", "leave it out"),
        ("sqlite+pysqlcipher://:a/s3cr3t@/s.db", "leave it out"),
    ],
)
def test_a_password_is_refused_and_not_repeated(url: str, fix: str) -> None:
    """Neither in the message nor in the error that caused it."""
    with pytest.raises(InputError) as excinfo:
        backend_of(url, "s")
    assert "s3cr3t" not in str(excinfo.value)
    assert "s3cr3t" not in database_url.show(url)
    assert excinfo.value.__cause__ is None
    assert fix in excinfo.value.problem.hint
    assert 2 == excinfo.value.exit_code


@given(st.text(alphabet=st.sampled_from("aé:/?#@%& =[]\n\\") | st.characters(codec="utf-8")))
@pytest.mark.parametrize("installed", [True, False])
def test_no_password_that_would_connect_is_let_pass(installed: bool, text: str) -> None:
    """Whatever is in it, and whether or not the library is there; all are told of in one way."""
    url = f"postgresql://me:{text}@host/db"
    with suppress(ValueError):  # it finds some of them to be no URL
        assert sqlalchemy.make_url(url).password is not None
    assert _messages(url, installed=installed) == _messages("postgresql://me:x@host/db")


@given(st.text(alphabet="aé:/?#@%&=[]\n"))
def test_what_is_let_pass_has_no_password(text: str) -> None:
    """The library that connects finds none in any URL that is kept, and messages may show it."""
    url = f"postgresql://{text}"
    with suppress(InputError):
        where = backend_of(url, "s").where
        assert sqlalchemy.make_url(database_url.for_driver(where)).password is None
        assert url == where == database_url.show(url)


def _messages(url: str, *, installed: bool = True) -> set[str]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as state:
        patch.setenv(names.ENV_STATE, state)
        if not installed:
            patch.setitem(sys.modules, "sqlalchemy", None)
        with pytest.raises(InputError) as excinfo:
            catalog.begin("s", url)
        assert not any(Path(state).iterdir())
        return {str(excinfo.value), database_url.show(url)}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://s.db",
        "sqlite:///file:x?mode=memory&uri=true",
        "sqlite:///s.db?mode=ro",
        "sqlite:///s.db?timeout=3&cache=shared",
        "sqlite:///s.db?shared=yes",
        "sqlite:///s.db?uri=true",
        "postgresql://host",
        "postgresql://host/",
        "://x",
        "a b://x/y",
    ],
)
def test_a_url_that_keeps_nothing_is_refused(url: str) -> None:
    """Before anything is looked at."""
    with pytest.raises(InputError) as excinfo:
        database_url.settle(url)
    assert "--journal" == excinfo.value.problem.path
    assert excinfo.value.problem.hint


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("secrets:k1/jf3", "did you mean secret:k1/jf3?; a file of that name is ./secrets:…"),
        ("Secret:a/b", "did you mean secret:a/b?"),
        ("sqlite:sweeps.db", "did you mean sqlite:///sweeps.db?"),
        ("configmap:k1/x", "write secret:NAMESPACE/NAME, sqlite:///FILE or postgresql://"),
    ],
)
def test_a_place_that_there_is_not_becomes_no_file(where: str, hint: str) -> None:
    """A file's name that looks like one is written with its folder."""
    with pytest.raises(InputError) as excinfo:
        backend_of(where, "s")
    assert f"--journal: no sweep can be kept in {where.partition(':')[0]}:…" in str(excinfo.value)
    assert f"fix: {hint}" in str(excinfo.value)


def test_what_follows_an_unknown_place_is_not_repeated() -> None:
    """It may be a password."""
    with pytest.raises(InputError) as excinfo:
        backend_of("psql:me:hush@host/database", "s")
    assert "hush" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("url", "shared", "driver"),
    [
        ("sqlite:////s.db?shared=true", True, "sqlite:////s.db"),
        ("sqlite:////s.db?timeout=3&shared=true", True, "sqlite:////s.db?timeout=3"),
        ("sqlite:////s{d}.db?timeout=3", False, "sqlite:////s{d}.db?timeout=3"),
        ("postgresql://h/d?shared=true", False, "postgresql+psycopg://h/d?shared=true"),
    ],
)
def test_a_file_may_be_shared_on_purpose(url: str, shared: bool, driver: str) -> None:
    """That is said to us, and not to the library that opens it."""
    assert shared == database_url.is_shared(url)
    assert driver == database_url.for_driver(url)

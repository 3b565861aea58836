"""A sweep's journal that somebody else has written: what it may do to whoever looks at it."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import sqlite3
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli import main
from allranks.cli.console import Console
from allranks.errors import AllranksError, InputError
from allranks.sweep.storage import journal, journals, segments
from allranks.sweep.storage.journal import Journal
from tests.unit.sweep.test_journal import begun, some

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.attack

# One of each kind that JSON can hold, and what harms those that take it for what it is called.
_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    "",
    "1e999",
    "nan",
    "../../x",
    "/etc/passwd",
    "${HOME}",
    "${sweep.lr}",
    "$(id)",
    "a\nb",
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J\u202e",
    "\ud800",
    "x" * 10_000,
    [],
    [[]],
    {},
    {"a": 1},
    ["a", "b"],
]
_COMMANDS = (
    ("status",),
    ("status", "s"),
    ("status", "s", "-o", "json"),
    ("results", "s"),
    ("results", "s", "-o", "csv"),
    ("results", "s", "--trial", "0"),
    ("results", "s", "--trial", "0", "-o", "yaml"),
    ("results", "s", "--report", "report.html"),
)
# What a terminal obeys, or reads in another order.
_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_TAKEN = 150  # of the odd journals, in one run of the test


def _records() -> list[dict[str, Any]]:
    """A sweep with a record of each kind."""
    made = some()
    made[0] |= {"place": {"on": "local"}, "owner": {"id": "a", "by": "b"}, "defaults": {"a": 1}}
    ends: list[dict[str, Any]] = [
        {"t": "runner"},
        {"t": "wait", "n": 0, "why": "no room"},
        {"t": "seen", "n": 0, "began": 8.0},
        {"t": "stop", "n": 0, "to": "stopped", "why": "others did better"},
        {"t": "retry", "n": 0, "why": "it failed"},
        {"t": "request", "why": "enough"},
        {"t": "exhausted", "why": "no more"},
        {"t": "finish", "outcome": "completed", "why": "done"},
        {"t": "resume", "spec": made[0]["spec"]},
    ]
    return made + [{**record, "at": 9.0 + place} for place, record in enumerate(ends)]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything within JSON, the whole included."""
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            yield from _places(item, (*path, key))


def _with(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return made


def _odd_journals() -> list[str]:
    """Journals in each of which one thing is not what it has to be."""
    records = _records()
    found = []
    for place, record in enumerate(records):
        for path in _places(record):
            for odd in _ODD:
                changed = [*records[:place], _with(record, path, odd), *records[place + 1 :]]
                found.append("".join(f"{json.dumps(each)}\n" for each in changed))
    return found


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the sweep s in a state folder of its own; commands are called beside it."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "state" / "sweeps" / "s" / "journal.jsonl"
    file.parent.mkdir(parents=True)
    return file


@pytest.mark.parametrize("part", range(4))
def test_no_journal_breaks_what_shows_it(
    own: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Each command shows it or refuses it, and no terminal gets an order."""
    crashes: list[Exception] = []
    monkeypatch.setattr(Console, "crash", lambda _, error: crashes.append(error))
    journals_ = _odd_journals()
    random.Random(part).shuffle(journals_)  # noqa: S311 - a choice of what is tried
    for text in journals_[: _TAKEN // 4]:
        own.write_text(text)
        for words in _COMMANDS:
            main.main(["sweep", *words])
            shown = capfd.readouterr()
            assert [] == crashes, f"{words}: {text}"
            is_data = words[-1] in ("csv", "json", "yaml")
            assert not _ORDERS.search(shown.err + ("" if is_data else shown.out)), f"{words} {text}"


def test_one_bad_journal_hides_no_other(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The list of all sweeps names it, and goes on."""
    begun(own)
    bad = own.parents[1] / "bad" / "journal.jsonl"
    bad.parent.mkdir()
    head = json.dumps({**some()[0], "at": "soon"})
    bad.write_text(f"{head}\n")
    assert 0 == main.main(["sweep", "status"])
    shown = capfd.readouterr()
    assert "s " in shown.out
    assert "bad: the journal cannot be read: at is a text, not a number" in shown.err


@pytest.mark.parametrize(
    "name", ["../../etc", "/abs", "s-../x", "other-1", "S-1", "s-" + "x" * 60, "s-a\n", "-rf"]
)
def test_a_trial_is_called_as_trials_of_its_sweep_are(tmp_path: Path, name: str) -> None:
    """Its name is that of a release that is removed, and of a folder."""
    path = begun(tmp_path / "j")
    record = {"t": "trial", "n": 2, "name": name, "p": {}, "at": 9}
    with path.open("a") as file:
        file.write(f"{json.dumps(record)}\n")
    with pytest.raises(InputError, match="is no name of a trial of s"):
        journal.read(path)


@pytest.mark.parametrize("name", ["..", "a/b", "../x", "A", "s" * 60, ""])
def test_a_sweep_is_called_as_sweeps_are(tmp_path: Path, name: str) -> None:
    """Also in its journal."""
    head = some()[0]
    head["spec"]["name"] = name
    (tmp_path / "j").write_text(f"{json.dumps(head)}\n")
    with pytest.raises(InputError, match="no name of a sweep"):
        journal.read(tmp_path / "j")


@pytest.mark.parametrize("workload", ["../../x", "/tmp/x", "sweep-runner", "operator", "sweep"])
def test_a_trial_s_workload_is_one_of_ours(tmp_path: Path, workload: str) -> None:
    """It is the name of a chart's folder."""
    head = some()[0]
    head["spec"]["trial"]["workload"] = workload
    (tmp_path / "j").write_text(f"{json.dumps(head)}\n")
    with pytest.raises(InputError, match=r"trial\.workload"):
        journal.read(tmp_path / "j")


_HEAD = json.dumps(some()[0]).encode()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"t":' * 100_000, "nested deeper"),
        (b"[" * 5_000 + b"]" * 5_000, "nested deeper"),
        (b'{"t":"m","n":0,"i":9,"v":NaN,"s":1,"at":9}', "no number of JSON"),
        (b'{"t":"m","n":0,"i":9,"v":1e999,"s":1,"at":9}', "not a number"),
        (b'{"t":"request","why":"\xff\xfe","at":9}', "is not JSON"),
        (b"\x80\x04\x95cposix\nsystem\n(S'id'\ntR.", "is not JSON"),
        (b"!!python/object/apply:os.system ['id']", "is not JSON"),
        (_HEAD, "there is no record 'sweep'"),
        (b'{"t":"start","n":0,"attempt":1,"at":9}', "trial 0 is running"),
        (b'{"t":"end","n":0,"state":"pending","v":1,"why":"","cpu":1,"at":9}', "no end of a trial"),
        (b'{"t":"request","why":"x","at":1e300}', "not a time"),
        (b'{"t":"wait","n":' + b"9" * 5_000 + b',"why":"","at":9}', "is not JSON"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_number(
    tmp_path: Path, line: bytes, said: str
) -> None:
    """Deep, huge, of other formats, or out of its order; a text is never more than a text."""
    path = begun(tmp_path / "j")
    count = path.read_bytes().count(b"\n")
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError, match=said) as caught:
        journal.read(path)
    assert f"{path}:{count + 1}" == caught.value.problem.source


def test_a_journal_that_never_ends_is_not_read_for_ever(tmp_path: Path) -> None:
    """Neither a pipe nor a device is one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        kept = journals.keeper(str(tmp_path / name), "s")
        for act in (kept.read, kept.open):
            with pytest.raises(AllranksError, match=r"is no file|cannot be opened"):
                act()
        assert not kept.is_run()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge"])
def test_a_request_to_stop_is_a_file_or_nothing(tmp_path: Path, kind: str) -> None:
    """Beside a journal in a folder that others write, nothing else is read, or waited for."""
    path = begun(tmp_path / "j")
    secret = tmp_path / "secret"
    secret.write_text("do-not-tell")
    file = journal.stop_file(path)
    make = {
        "link": lambda: file.symlink_to(secret),
        "pipe": lambda: os.mkfifo(file),
        "folder": file.mkdir,
        "huge": lambda: file.write_text("x" * 10_000_000),
    }
    make[kind]()
    with Journal.open(path) as opened:
        if kind == "folder":
            with pytest.raises(OSError, match=r"[Dd]irectory"):
                opened.take_request()
        else:
            why = opened.take_request()
            assert "do-not-tell" not in why
            assert len(why) < 5_000
    assert "do-not-tell" == secret.read_text()


def test_asking_for_a_stop_writes_over_no_file_of_mine(tmp_path: Path) -> None:
    """The name that it is written under may be there already, as another user's link."""
    path = begun(tmp_path / "j")
    mine = tmp_path / "mine"
    mine.write_text("precious")
    file = journal.stop_file(path)
    file.with_name(f".{file.name}.{os.getpid()}").symlink_to(mine)
    journals.keeper(str(path)).request_stop("enough", 9.0)
    assert "precious" == mine.read_text()


def test_what_a_secret_unpacks_to_is_bounded() -> None:
    """A Secret of 1 MiB could hold 1 GiB, for whoever looks at the sweep."""
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = bomb.compress(bytes(segments.UNPACKED_MAX + 1)) + bomb.flush(zlib.Z_SYNC_FLUSH)
    secret = {"data": {"0000-000000": b64encode(piece).decode()}}
    with pytest.raises(ValueError, match="64 MiB"):
        list(segments.Unpacker().take(secret))
    head = zlib.compress(bytes(segments.UNPACKED_MAX + 1), 9)
    with pytest.raises(ValueError, match="64 MiB"):
        segments.unpack_head({"data": {"head": b64encode(head).decode()}})


_SPOILT = [
    "null",
    "{}",
    "not JSON",
    '"\\u0000\\ud800"',
    json.dumps(json.dumps({**some()[0], "at": []}) + "\n"),
    json.dumps('{"t":' * 100_000 + "\n"),
    "[" * 100_000,
]


def _spoilt(folder: Path, key: str, value: str) -> str:
    """The URL of a database with a sweep, one of whose rows somebody has written anew."""
    url = f"sqlite:///{folder}/sweeps.db"
    head, *rest = some()
    with journals.keeper(url, "s").create(head) as made:
        made.append(*rest)
    with sqlite3.connect(folder / "sweeps.db") as database:
        database.execute(
            "UPDATE study_system_attributes SET value_json = ? WHERE key LIKE ?", (value, key)
        )
        assert 1 == database.total_changes
    return url


@pytest.mark.parametrize("value", _SPOILT)
def test_a_database_is_believed_no_more_than_a_file(tmp_path: Path, value: str) -> None:
    """Whatever its rows hold, it is refused in words."""
    url = _spoilt(tmp_path, "%journal%0", value)
    with pytest.raises(InputError):
        journals.keeper(url, "s").read()


def test_a_lease_of_any_depth_is_none(tmp_path: Path) -> None:
    """Who holds a sweep cannot hide it by what the lease says."""
    url = _spoilt(tmp_path, "%lease%", "[" * 100_000)
    assert journals.keeper(url, "s").read().trials

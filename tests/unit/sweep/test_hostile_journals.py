"""A sweep's journal that somebody else has written: what it may do to whoever looks at it."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import zlib
from base64 import b64encode
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli import main
from allranks.cli.console import Console
from allranks.errors import AllranksError, InputError
from allranks.sweep.storage import base, segments
from allranks.sweep.storage import lease as leases
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.file import stop_file
from allranks.sweep.storage.journal import Journal, JournalReader, read_state, request_stop
from allranks.sweep.storage.lease import Lease
from allranks.sweep.storage.secrets import Address, SecretsBackend
from tests.unit.cluster.fake_cluster import FakeCluster
from tests.unit.sweep.test_journal import sample_records, write_journal

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
_JOURNALS_MAX = 150  # of the odd journals, in one run of the test


def _records() -> list[dict[str, Any]]:
    """A sweep with a record of each kind."""
    entries = sample_records()
    entries[0] |= {"place": {"on": "local"}, "owner": {"id": "a", "by": "b"}, "defaults": {"a": 1}}
    ends: list[dict[str, Any]] = [
        {"t": "runner"},
        {"t": "wait", "n": 0, "why": "no room"},
        {"t": "seen", "n": 0, "began": 8.0},
        {"t": "stop", "n": 0, "to": "stopped", "why": "others did better"},
        {"t": "retry", "n": 0, "why": "it failed"},
        {"t": "request", "why": "enough"},
        {"t": "exhausted", "why": "no more"},
        {"t": "finish", "outcome": "completed", "why": "done"},
        {"t": "resume", "spec": entries[0]["spec"]},
    ]
    return entries + [{**record, "at": 9.0 + place} for place, record in enumerate(ends)]


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
    document = copy.deepcopy(value)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return document


def _odd_journals() -> list[str]:
    """Journals in each of which one thing is not what it has to be."""
    records = _records()
    journals = []
    for place, record in enumerate(records):
        for path in _places(record):
            for odd in _ODD:
                changed = [*records[:place], _with(record, path, odd), *records[place + 1 :]]
                journals.append("".join(f"{json.dumps(entry)}\n" for entry in changed))
    return journals


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
    for text in journals_[: _JOURNALS_MAX // 4]:
        own.write_text(text)
        for words in _COMMANDS:
            main.main(["sweep", *words])
            output = capfd.readouterr()
            assert [] == crashes, f"{words}: {text}"
            is_data = words[-1] in ("csv", "json", "yaml")
            assert not _ORDERS.search(output.err + ("" if is_data else output.out)), (
                f"{words} {text}"
            )


def test_one_bad_journal_hides_no_other(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The list of all sweeps names it, and goes on."""
    write_journal(own)
    bad = own.parents[1] / "bad" / "journal.jsonl"
    bad.parent.mkdir()
    head = json.dumps({**sample_records()[0], "at": "soon"})
    bad.write_text(f"{head}\n")
    assert 0 == main.main(["sweep", "status"])
    output = capfd.readouterr()
    assert "s " in output.out
    assert "bad: the journal cannot be read: at is a text, not a number" in output.err


@pytest.mark.parametrize(
    "name", ["../../etc", "/abs", "s-../x", "other-1", "S-1", "s-" + "x" * 60, "s-a\n", "-rf"]
)
def test_a_trial_is_called_as_trials_of_its_sweep_are(tmp_path: Path, name: str) -> None:
    """Its name is that of a release that is removed, and of a folder."""
    path = write_journal(tmp_path / "j")
    record = {"t": "trial", "n": 2, "name": name, "p": {}, "at": 9}
    with path.open("a") as file:
        file.write(f"{json.dumps(record)}\n")
    with pytest.raises(InputError, match="is no name of a trial of s"):
        read_state(backend_of(str(path)))


@pytest.mark.parametrize("name", ["..", "a/b", "../x", "A", "s" * 60, ""])
def test_a_sweep_is_called_as_sweeps_are(tmp_path: Path, name: str) -> None:
    """Also in its journal."""
    head = sample_records()[0]
    head["spec"]["name"] = name
    (tmp_path / "j").write_text(f"{json.dumps(head)}\n")
    with pytest.raises(InputError, match="no name of a sweep"):
        read_state(backend_of(str(tmp_path / "j")))


@pytest.mark.parametrize("workload", ["../../x", "/tmp/x", "sweep-runner", "operator", "sweep"])
def test_a_trial_s_workload_is_one_of_ours(tmp_path: Path, workload: str) -> None:
    """It is the name of a chart's folder."""
    head = sample_records()[0]
    head["spec"]["trial"]["workload"] = workload
    (tmp_path / "j").write_text(f"{json.dumps(head)}\n")
    with pytest.raises(InputError, match=r"trial\.workload"):
        read_state(backend_of(str(tmp_path / "j")))


_HEAD = json.dumps(sample_records()[0]).encode()


@pytest.mark.parametrize(
    ("line", "message"),
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
    tmp_path: Path, line: bytes, message: str
) -> None:
    """Deep, huge, of other formats, or out of its order; a text is never more than a text."""
    path = write_journal(tmp_path / "j")
    count = path.read_bytes().count(b"\n")
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError, match=message) as excinfo:
        read_state(backend_of(str(path)))
    assert f"{path}:{count + 1}" == excinfo.value.problem.source


def test_a_journal_that_never_ends_is_not_read_for_ever(tmp_path: Path) -> None:
    """Neither a pipe nor a device is one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        backend = backend_of(str(tmp_path / name), "s")
        for access in (partial(read_state, backend), partial(Journal.open, backend)):
            with pytest.raises(AllranksError, match=r"is no file|cannot be opened"):
                access()
        assert not backend.is_run()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge"])
def test_a_request_to_stop_is_a_file_or_nothing(tmp_path: Path, kind: str) -> None:
    """Beside a journal in a folder that others write, nothing else is read, or waited for."""
    path = write_journal(tmp_path / "j")
    secret = tmp_path / "secret"
    secret.write_text("do-not-tell")
    file = stop_file(path)
    make = {
        "link": lambda: file.symlink_to(secret),
        "pipe": lambda: os.mkfifo(file),
        "folder": file.mkdir,
        "huge": lambda: file.write_text("x" * 10_000_000),
    }
    make[kind]()
    with Journal.open(backend_of(str(path))) as journal:
        if kind == "folder":
            with pytest.raises(OSError, match=r"[Dd]irectory"):
                journal.take_request()
        else:
            reason = journal.take_request()
            assert "do-not-tell" not in reason
            assert len(reason) < 5_000
    assert "do-not-tell" == secret.read_text()


def test_asking_for_a_stop_writes_over_no_file_of_mine(tmp_path: Path) -> None:
    """The name that it is written under may be there already, as another user's link."""
    path = write_journal(tmp_path / "j")
    mine = tmp_path / "mine"
    mine.write_text("precious")
    file = stop_file(path)
    file.with_name(f".{file.name}.{os.getpid()}").symlink_to(mine)
    request_stop(backend_of(str(path)), "enough", 9.0)
    assert "precious" == mine.read_text()


def _bomb(text: bytes) -> str:
    """A piece of a journal in Secrets, as it stands in one."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b64encode(packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)).decode()


def test_what_a_secret_unpacks_to_is_bounded() -> None:
    """A Secret of 1 MiB could hold 1 GiB, for whoever looks at the sweep."""
    text = bytes(segments.UNPACKED_MAX + 1)
    with pytest.raises(ValueError, match="8 MiB"):
        list(segments.Unpacker().take({"data": {"0000-000000": _bomb(text)}}))
    with pytest.raises(ValueError, match="8 MiB"):
        segments.unpack_head({"data": {"head": b64encode(zlib.compress(text, 9)).decode()}})


def _in_secrets(parts: int, piece: bytes) -> FakeCluster:
    """A journal in so many Secrets that hold a piece each; each says that another one follows."""
    head = segments.head_manifest("s", sample_records()[0])
    head["metadata"]["uid"] = "u"
    manifests = [head]
    for index in range(parts):
        part = segments.manifest("s", index, head, "w")
        part["metadata"]["annotations"][names.SWEEP_SEALED] = "true"
        part["data"] = {"0000-000000": _bomb(piece)}
        manifests.append(part)
    return FakeCluster(*manifests)


def _backend(cluster: FakeCluster) -> SecretsBackend:
    """The journal on it."""
    backend = SecretsBackend(Address("s", "lab"), "s")
    backend.__dict__["cluster"] = cluster
    return backend


def test_what_a_journal_in_secrets_unpacks_to_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that are small enough can be as many as Secrets have room for; the one is named."""
    piece = base.line({"t": "m", "n": 0, "i": 0, "v": 0.5, "s": 0, "at": 9.0}) * 1000
    monkeypatch.setattr(segments, "TOTAL_MAX", 3 * len(piece))
    lines: list[bytes] = []
    monkeypatch.setattr(base.RecordReader, "take", lambda _, text: lines.append(text))
    monkeypatch.setattr(base.RecordReader, "begun", lambda _: None)
    with pytest.raises(InputError, match="when it is unpacked") as excinfo:
        JournalReader(_backend(_in_secrets(10, piece)))
    assert "secret:lab/s, s-journal-3" == excinfo.value.problem.source
    assert 3001 == len(lines)


def test_no_more_secrets_are_read_than_are_written() -> None:
    """Whoever makes Secrets could have a reader ask for one after the other for ever."""
    cluster = _in_secrets(segments.MOST + 5, b"")
    reader = JournalReader(_backend(cluster))
    for _ in range(2):
        assert not reader.refresh()
    assert segments.MOST + 1 == len(cluster.requests)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[" * 201 + b'\\"' * 2_000_000, id="quotes that end no text"),
        pytest.param(b"[" + b"1," * (base.LINE_MAX // 2) + b"1]", id="too long"),
    ],
)
def test_a_line_costs_no_more_than_its_length(line: bytes) -> None:
    """It is refused within seconds, however its quotes stand."""
    with pytest.raises(InputError, match="no sweep's journal"):
        base.RecordReader("j").take(line)


_SPOILT = [
    "",
    "null",
    "5",
    "{}",
    "not JSON",
    "\x00\x7f",
    '"\\u0000\\ud800"',
    json.dumps({**sample_records()[0], "at": []}),
    '{"t":' * 100_000,
    "[" * 100_000,
]


def _spoilt(folder: Path, column: str, value: str) -> str:
    """The URL of a database with a sweep, one of whose rows somebody has written anew."""
    url = f"sqlite:///{folder}/sweeps.db"
    head, *rest = sample_records()
    with Journal.create(backend_of(url, "s"), head) as journal:
        journal.append(*rest)
    with sqlite3.connect(folder / "sweeps.db") as database:
        update = {
            "line": "UPDATE allranks_records SET line = ? WHERE seq = 0",
            "lease": "UPDATE allranks_leases SET lease = ?",
        }[column]
        database.execute(update, (value,))
        assert 1 == database.total_changes
    return url


@pytest.mark.parametrize("value", _SPOILT)
def test_a_database_is_believed_no_more_than_a_file(tmp_path: Path, value: str) -> None:
    """Whatever its rows hold, it is refused in words."""
    url = _spoilt(tmp_path, "line", value)
    with pytest.raises(InputError):
        read_state(backend_of(url, "s"))


def test_a_lease_of_any_depth_is_none(tmp_path: Path) -> None:
    """Who holds a sweep cannot hide it by what the lease says."""
    url = _spoilt(tmp_path, "lease", "[" * 100_000)
    assert read_state(backend_of(url, "s")).trials


@pytest.mark.parametrize("sql", ["hex(zeroblob(5000000))", "x'ff'"])
def test_a_row_is_no_longer_than_ours_are(tmp_path: Path, sql: str) -> None:
    """It is not fetched, as a row may have all the memory that there is; nor is it no text."""
    url = _spoilt(tmp_path, "line", "{}")
    with sqlite3.connect(tmp_path / "sweeps.db") as database:
        row = f"UPDATE allranks_records SET line = {sql} WHERE seq = 0"  # noqa: S608
        database.execute(row)
    with pytest.raises(InputError, match="was changed by other hands"):
        read_state(backend_of(url, "s"))


def _columns(file: Path) -> list[tuple[str, str]]:
    """Each column of each table that has rows."""
    with sqlite3.connect(file) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [
            (table, column)
            for (table,) in tables
            if database.execute(f"SELECT 1 FROM {table}").fetchone()  # noqa: S608
            for (_, column, *_) in database.execute(f"PRAGMA table_info({table})")
        ]


def test_no_row_of_a_database_breaks_what_reads_it(tmp_path: Path) -> None:
    """Whatever stands in a column, each use of the sweep works or is refused."""
    odd: list[Any] = [None, "x", -5, 2**62, 1.5, b"\xff\x00", '{"a":', "null", "5", '"a"', "[1]"]
    folder = tmp_path / "made"
    folder.mkdir()
    head, *rest = sample_records()
    with Journal.create(backend_of(f"sqlite:///{folder}/sweeps.db", "s"), head) as journal:
        journal.append(*rest)
    backend = backend_of(f"sqlite:///{tmp_path}/sweeps.db", "s")

    def resume() -> None:
        with Journal.open(backend) as journal_:
            journal_.append({"t": "request", "why": "enough", "at": 99.0})
            journal_.take_request()

    accesses = (
        partial(read_state, backend),
        backend.is_run,
        lambda: request_stop(backend, "enough", 99.0),
        resume,
        backend.delete,
    )
    chance = random.Random(7)  # noqa: S311 - a choice of what is tried
    attempts = 0
    for table, column in _columns(folder / "sweeps.db"):
        for access, value in itertools.product(accesses, chance.sample(odd, 5)):
            shutil.copy(folder / "sweeps.db", tmp_path / "sweeps.db")
            with suppress(sqlite3.Error), sqlite3.connect(tmp_path / "sweeps.db") as database:
                database.execute("PRAGMA ignore_check_constraints = 1")
                database.execute(f"UPDATE {table} SET {column} = ?", (value,))  # noqa: S608
            with suppress(AllranksError):
                access()
            attempts += 1
    assert attempts > 150


def test_a_lease_that_nobody_renews_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that says that it never ends, as of another clock."""
    monkeypatch.setattr(leases, "SECONDS", 0.5)
    lease = {"holder": "x", "until": 1e300, "host": "far", "pid": 7}
    url = _spoilt(tmp_path, "lease", json.dumps(lease))
    backend = backend_of(url, "s")
    assert backend.is_run()
    Journal.open(backend).close()
    assert not backend.is_run()


@pytest.mark.parametrize("pid", ["../tmp/x", "x", [], 1e999, {"a": 1}])
def test_a_lease_names_no_file(pid: object) -> None:
    """Its process is a number, whose folder of the system's is looked into."""
    text = json.dumps({"holder": "x", "until": 1e300, "pid": pid, "kernel": leases.kernel()})
    assert Lease() == Lease.parse(text)

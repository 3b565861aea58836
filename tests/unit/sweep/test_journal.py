"""A journal that is cut off at any byte, killed, shared and spoilt."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError, RunError
from allranks.sweep import records
from allranks.sweep.model import SUCCEEDED, Choice, Measure, Parameter, Values
from allranks.sweep.search import space
from allranks.sweep.spec.apply import bind, trial_values
from allranks.sweep.storage import file
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state
from tests.unit.sweep.simulation import spec

if TYPE_CHECKING:
    from pathlib import Path


def sample_records() -> list[dict[str, Any]]:
    """The records of a short sweep."""
    entries = [records.head(spec(), 1.0)]
    for number in range(2):
        assignment = space.assignment(spec().parameters, number)
        entries.append(records.trial(number, f"s-{number}", assignment, 2.0))
        entries.append({"t": "start", "n": number, "attempt": 1, "at": 3.0})
        entries += records.measures(number, [(0, Measure("accuracy", float("nan"), 1, 4.0))])
    end = {"t": "end", "n": 1, "state": SUCCEEDED, "v": 0.5, "why": "", "cpu": 1.5, "at": 5.0}
    return [*entries, end]


def write_journal(path: Path) -> Path:
    """A journal with some records."""
    head, *rest = sample_records()
    with Journal.create(backend_of(str(path)), head) as journal:
        journal.append(*rest)
    return path


def test_a_trial_s_values_are_made_again_without_its_chart(tmp_path: Path) -> None:
    """The journal has what the chart had when the sweep began."""
    lr = Parameter("lr", Values((Choice("0.10", 0.1), Choice("1e-5", 1e-5))))
    chart = {"lr": 0.5, "args": ["-v"]}
    sweep_spec = bind(spec(parameters=(lr,), trials=2), chart).spec
    assignment = space.assignment(sweep_spec.parameters, 1)
    with Journal.create(
        backend_of(str(tmp_path / "j")), records.head(sweep_spec, 1.0, chart)
    ) as journal:
        journal.append(records.trial(0, "s-0", assignment, 2.0))
    state = read_state(backend_of(str(tmp_path / "j")))
    assert {"lr": 1e-5} == trial_values(state.spec, state.trials[0].assignment, state.defaults)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """By a reader, and by the next writer."""
    path = write_journal(tmp_path / "j")
    with Journal.open(backend_of(str(path))) as journal:
        for state in (read_state(backend_of(str(path))), journal.state):
            assert spec() == state.spec
            assert [0, 1] == list(state.trials)
            assert (SUCCEEDED, 0.5, 1.5) == (
                state.trials[1].state,
                state.trials[1].value,
                state.trials[1].cpu_seconds,
            )
            assert repr(Measure("accuracy", float("nan"), 1, 4.0)) == repr(
                state.trials[0].measures[0]
            )


def test_a_journal_that_is_cut_off_at_any_byte_has_all_whole_records(tmp_path: Path) -> None:
    """A half one was never acted on."""
    path = write_journal(tmp_path / "j")
    data = path.read_bytes()
    head = data.index(b"\n") + 1
    for end in range(len(data)):
        path.write_bytes(data[:end])
        if end < head:
            with pytest.raises(InputError, match="is empty"):
                read_state(backend_of(str(path)))
            continue
        whole = data[:end].count(b"\n")
        assert whole == 1 + _count(read_state(backend_of(str(path))))


def _count(state: Any) -> int:
    """How many records behind the head a state has taken, of those that `some` makes."""
    trials = state.trials.values()
    starts = sum(trial.attempts for trial in trials)
    measured = sum(len(trial.measures) for trial in trials)
    return len(trials) + starts + measured + state.counts[SUCCEEDED]


@pytest.mark.parametrize("torn", [b"{", b'{"t":"trial"', b"\0\0\0", b"\xff", b'{"t":"x","at":1}'])
def test_the_next_writer_cuts_off_what_is_torn(tmp_path: Path, torn: bytes) -> None:
    """And goes on behind the last whole record."""
    path = write_journal(tmp_path / "j")
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with Journal.open(backend_of(str(path))) as journal:
        journal.append(records.request_stop("enough", 9.0))
    assert path.read_bytes().startswith(whole + b'{"t":"request"')
    assert "enough" == read_state(backend_of(str(path))).requested


def test_a_sweep_whose_head_was_torn_is_begun_again(tmp_path: Path) -> None:
    """Nothing was started before it was whole."""
    path = tmp_path / "j"
    path.write_bytes(b'{"t":"sweep","sch')
    write_journal(path)
    assert 2 == len(read_state(backend_of(str(path))).trials)


def test_a_sweep_is_not_begun_over_another(tmp_path: Path) -> None:
    """Its journal is all there is of it."""
    path = write_journal(tmp_path / "j")
    before = path.read_bytes()
    with pytest.raises(InputError, match="the sweep s was begun already"):
        Journal.create(backend_of(str(path)), sample_records()[0])
    assert before == path.read_bytes()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """Readers are not kept out, and the lock goes with the writer."""
    path = write_journal(tmp_path / "j")
    with Journal.open(backend_of(str(path))):
        assert read_state(backend_of(str(path)))
        with pytest.raises(InputError, match=r"(?s)another process runs this sweep.*sweep stop"):
            Journal.open(backend_of(str(path)))
        with pytest.raises(InputError, match="another process runs this sweep"):
            Journal.create(backend_of(str(path)), sample_records()[0])
    Journal.open(backend_of(str(path))).close()


def test_a_lock_that_is_about_to_go_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed writer's last child holds it until it becomes helm, and `status` while it looks."""
    monkeypatch.setattr(file, "_LOCK_SECONDS", 60.0)  # the timer may be late
    path = write_journal(tmp_path / "j")
    look = os.open(path, os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    let_go = threading.Timer(0.2, os.close, (look,))
    let_go.start()
    Journal.open(backend_of(str(path))).close()
    let_go.join()


def test_a_record_that_does_not_follow_is_not_written(tmp_path: Path) -> None:
    """And nothing is written after it: the state cannot be trusted any more."""
    path = write_journal(tmp_path / "j")
    before = path.read_bytes()
    with Journal.open(backend_of(str(path))) as journal:
        with pytest.raises(ValueError, match="7"):
            journal.append({"t": "start", "n": 7, "attempt": 1, "at": 1.0})
        with pytest.raises(RunError, match="cannot be written any more"):
            journal.append(records.request_stop("x", 1.0))
    assert before == path.read_bytes()


def test_a_full_disk_ends_the_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line may be there, and the next writer cuts it off."""
    path = write_journal(tmp_path / "j")
    real = os.write

    def full(handle: int, data: Any) -> int:
        if len(data) > 5:
            return real(handle, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal.open(backend_of(str(path))) as journal:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(RunError, match="No space left on device"):
            journal.append(records.request_stop("x", 1.0))
        monkeypatch.undo()
        with pytest.raises(RunError, match="any more"):
            journal.append(records.request_stop("x", 1.0))
    with Journal.open(backend_of(str(path))) as last:
        assert "" == last.state.requested
        last.append(records.request_stop("y", 1.0))
    assert "y" == read_state(backend_of(str(path))).requested


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "it is not JSON"),
        ("[1]", "it is no JSON object"),
        ('{"at": 1}', "not a record of a sweep"),
        ('{"t": "wish", "at": 1}', "there is no record 'wish'"),
        ('{"t": "start", "n": 9, "attempt": 1, "at": 1}', "not a record of a sweep"),
        ('{"t": "start", "n": 1, "attempt": 1, "at": 1}', "trial 1 is running"),
        ('{"t": "trial", "n": 7, "name": "s-x", "p": {}, "at": 1}', "is not the next one"),
        ('{"t": "end", "n": 1, "state": "won", "v": 1, "why": "", "cpu": 1, "at": 1}', "no end"),
    ],
)
def test_a_journal_changed_by_hand_is_refused_with_its_line(
    tmp_path: Path, line: str, message: str
) -> None:
    """Nothing is guessed."""
    path = write_journal(tmp_path / "j")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:6], line, *lines[6:]]) + "\n")
    with pytest.raises(InputError) as excinfo:
        read_state(backend_of(str(path)))
    assert message in str(excinfo.value)
    assert f"{path}:7" in str(excinfo.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ('{"t":"sweep","schema":99}\n', "was written by a newer allranks"),
        ('{"t":"sweep","schema":1}\n', "not the head of a sweep"),
        ('{"t":"trial"}\n', "is no sweep's journal\n  fix: name another with --journal"),
        ("workload: sweep\n", "is no sweep's journal"),
        ("[1]\n", "is no sweep's journal"),
        ("no line end", "is no sweep's journal"),
        ('{"t":"sweep","schema":1,"at":1,"spec":{"parameters":[]}}\n', "not the head of a sweep"),
    ],
)
def test_a_file_that_is_no_journal(tmp_path: Path, content: str, message: str) -> None:
    """Says so, and how it came to be seen."""
    path = tmp_path / "j"
    path.write_text(content)
    for look in (read_state, Journal.open):
        with pytest.raises(InputError) as excinfo:
            look(backend_of(str(path)))
        assert message in str(excinfo.value)
        assert "cut the file off" not in str(excinfo.value)


@pytest.mark.parametrize("content", ["workload: sweep\n", "no line end", '{"t":"trial"}'])
def test_a_sweep_begins_in_no_file_of_other_contents(tmp_path: Path, content: str) -> None:
    """Such as a values file that was named by mistake: it stays as it is."""
    path = tmp_path / "mine.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=r"mine\.txt is no sweep's journal"):
        Journal.create(backend_of(str(path)), records.head(spec(), 1.0))
    assert content == path.read_text()


@pytest.mark.parametrize("content", ["", '{"t":"sw', '{"t":"sweep","schema":1,"spec":{'])
def test_a_sweep_begins_where_one_was_killed_at_its_first_line(
    tmp_path: Path, content: str
) -> None:
    """That one never was; nor was anything in an empty file."""
    path = tmp_path / "j"
    path.write_text(content)
    Journal.create(backend_of(str(path)), records.head(spec(), 1.0)).close()
    assert "s" == read_state(backend_of(str(path))).spec.name


def test_a_journal_that_is_not_there(tmp_path: Path) -> None:
    """Nor is a folder one."""
    with pytest.raises(InputError, match="there is no journal"):
        read_state(backend_of(str(tmp_path / "none")))
    backend = backend_of(str(tmp_path), "s")
    for access in (
        partial(read_state, backend),
        partial(Journal.open, backend),
        lambda: Journal.create(backend, records.head(spec(), 1.0)),
    ):
        with pytest.raises(InputError, match="is no file") as excinfo:
            access()
        assert f"name a file in it: {tmp_path}/sweep.jsonl" == excinfo.value.problem.hint


WRITER = """
import sys
import threading
from pathlib import Path
from allranks.sweep import records
from allranks.sweep.search import space
from allranks.sweep.storage import file
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal
path = Path(sys.argv[1])
with Journal.open(backend_of(str(path))) as journal:
    spec = journal.state.spec
    while True:
        number = len(journal.state.trials)
        assignment = space.assignment(spec.parameters, number % 12)
        journal.append(records.trial(number, f"s-{number}", assignment, 1.0))
        print(number, flush=True)
"""


def test_no_record_that_was_acknowledged_is_lost_by_kill_minus_9(tmp_path: Path) -> None:
    """Whenever the writer dies, and the next one goes on at once."""
    path = tmp_path / "j"
    Journal.create(backend_of(str(path)), sample_records()[0]).close()
    for lives in range(1, 7):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            numbers = [int(writer.stdout.readline()) for _ in range(lives * 3)]
            writer.send_signal(signal.SIGKILL)
            numbers += [int(line) for line in writer.stdout.read().splitlines()]
        state = read_state(backend_of(str(path)))
        assert numbers[-1] < len(state.trials)
        assert list(range(len(state.trials))) == list(state.trials)
        # One more may have been written whose number was not printed any more.
        assert len(state.trials) <= numbers[-1] + 2

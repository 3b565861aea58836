"""What all backends of a journal have in common, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.cluster import client
from allranks.errors import InputError
from allranks.sweep import records
from allranks.sweep.storage import base
from allranks.sweep.storage.base import BegunError, EmptyError
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, JournalReader, read_state, request_stop
from tests.unit.sweep.secrets_cluster import SecretsCluster
from tests.unit.sweep.simulation import spec
from tests.unit.sweep.test_journal import sample_records

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.storage.base import Backend


@pytest.fixture(params=["file", "secrets", "database"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where nothing is kept yet."""
    if request.param == "file":
        return str(tmp_path / "s.jsonl")
    if request.param == "secrets":
        cluster = SecretsCluster()
        monkeypatch.setattr(client, "KubeCluster", lambda *_: cluster)
        return "secret:lab/s"
    return f"sqlite:///{tmp_path}/s.db"


def lines(backend: Backend, position: int = 0) -> list[tuple[bytes, int]]:
    """All lines from a position on."""
    return list(backend.read_from(position))


def test_lines_are_kept_at_positions(where: str) -> None:
    """Each is yielded once, with where the next one is; a reader goes on where it was."""
    backend, journal_records = backend_of(where, "s"), sample_records()
    assert not backend.exists()
    head = backend.create(journal_records[0])
    middle = backend.append(b"".join(map(base.line, journal_records[1:4])), head)
    assert 3 == len(lines(backend_of(where, "s"), head))
    end = backend.append(base.line(journal_records[4]), middle)
    assert [base.line(journal_records[4]).rstrip(b"\n")] == [
        line for line, _ in lines(backend, middle)
    ]
    backend.release()
    expected = [base.line(record).rstrip(b"\n") for record in journal_records[:5]]
    numbered_lines = lines(backend_of(where, "s"))
    assert expected == [line for line, _ in numbered_lines]
    assert (head, end) == (numbered_lines[0][1], numbered_lines[-1][1])
    assert [] == lines(backend_of(where, "s"), end)


def test_a_reader_follows_a_writer(where: str) -> None:
    """What is deferred comes with the next record, or when the writer looks for a request."""
    head, *rest = sample_records()
    with Journal.create(backend_of(where, "s"), head) as journal:
        reader = JournalReader(backend_of(where, "s"))
        assert not reader.refresh()
        journal.append(rest[0])
        journal.append(rest[1])
        assert reader.refresh()
        assert not reader.refresh()
        assert 1 == len(reader.state.running())
        journal.append(rest[2])
        journal.take_request()
        assert reader.refresh()
        assert 1 == len(reader.state.trials[0].measures)
        journal.append(rest[3])
    assert reader.refresh()
    assert 2 == len(reader.state.trials)


def test_one_writer_at_a_time(where: str) -> None:
    """A lease that was given back is free; who asks for a stop needs none."""
    backend = backend_of(where, "s")
    with Journal.create(backend_of(where, "s"), sample_records()[0]) as journal:
        assert backend.is_held()
        assert request_stop(backend, "enough", 9.0)
    assert not backend.is_held()
    assert not request_stop(backend, "now", 9.0)
    assert "now" == read_state(backend).requested
    with Journal.open(backend) as journal:
        assert "" == journal.take_request()


def test_a_sweep_begins_once(where: str) -> None:
    """And again where the first one was deleted."""
    backend = backend_of(where, "s")
    Journal.create(backend, sample_records()[0]).close()
    with pytest.raises(BegunError, match="the sweep s was begun already"):
        Journal.create(backend_of(where, "s"), sample_records()[0])
    backend.delete()
    assert not backend.exists()
    backend.delete()
    for access in (read_state, Journal.open, lambda backend: request_stop(backend, "why", 9.0)):
        with pytest.raises(InputError, match="there is no "):
            access(backend_of(where, "s"))
    Journal.create(backend, records.head(spec(), 2.0)).close()
    assert 2.0 == read_state(backend).at


def test_a_journal_that_cannot_be_read_is_not_held(where: str, tmp_path: Path) -> None:
    """Whoever opens it gives the lease back, and a stop request says why it came to nothing."""
    backend = backend_of(where, "s")
    head = backend.create(sample_records()[0])
    backend.append(b'{"t":"nonsense","at":9}\n', head)
    backend.release()
    for access in (Journal.open, lambda storage: request_stop(storage, "why", 9.0)):
        with pytest.raises(InputError, match="the journal cannot be read"):
            access(backend_of(where, "s"))
        assert not backend.is_held()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(EmptyError):
        Journal.open(backend_of(str(tmp_path / "empty.jsonl")))

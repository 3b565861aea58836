"""How a journal lies in Secrets: what is packed comes back, and ten thousand trials fit."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from allranks.errors import InputError
from allranks.sweep import naming, records
from allranks.sweep.model import SUCCEEDED, Choice, Measure, Parameter, Values
from allranks.sweep.search import space
from allranks.sweep.storage import base, segments
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.secrets import Address
from tests.unit.sweep.simulation import spec

_LINES = [b'{"t":"a"}', b'{"t":"b","v":"\xc3\xa9"}', b'{"t":"c"}']


def _secret(*pieces: tuple[str, bytes]) -> dict[str, Any]:
    return {"data": {key: b64encode(data).decode() for key, data in pieces}}


def test_what_is_packed_comes_back_piece_by_piece() -> None:
    """A reader that comes again and again has each line once; a second writer's follow."""
    first, second = segments.Packer(0), segments.Packer(1)
    pieces = [first.pack(_LINES[0] + b"\n"), first.pack(_LINES[1] + b"\n")]
    reader = segments.Unpacker()
    assert _LINES[:1] == list(reader.take(_secret(pieces[0])))
    assert _LINES[1:2] == list(reader.take(_secret(*pieces)))
    assert [] == list(reader.take(_secret(*pieces)))
    assert 1 == reader.streams
    pieces.append(second.pack(_LINES[2] + b"\n"))
    assert _LINES[2:] == list(reader.take(_secret(*pieces)))
    assert _LINES == list(segments.Unpacker().take(_secret(*pieces)))
    assert sum(len(data) for _, data in pieces) == reader.size


@pytest.mark.parametrize(
    "content", [("note", b"x"), ("0000-000000", b"no stream"), ("0000-000000\n", b"")]
)
def test_what_others_wrote_is_no_journal(content: tuple[str, bytes]) -> None:
    """It is said, and nothing is made of it."""
    with pytest.raises(ValueError, match=r"."):
        list(segments.Unpacker().take(_secret(content)))


def test_a_head_comes_back() -> None:
    """As the line that it was; what is none is refused."""
    head = records.head(spec(), 1.0)
    manifest = segments.head_manifest("s", head)
    assert base.line(head) == segments.unpack_head(manifest)
    for wrong in ({}, {"data": {"head": "aGVsbG8="}}, {"data": {"head": "!"}}):
        with pytest.raises(ValueError, match=r"."):
            segments.unpack_head(wrong)


def test_ten_thousand_trials_fit() -> None:
    """With ten measures each, written as a runner of fifty at a time writes them."""
    choices = tuple(Choice(f"{n / 7919:.6g}", n / 7919) for n in range(100))
    both = (Parameter("lr", Values(choices)), Parameter("momentum", Values(choices)))
    sweep_spec = spec(parameters=both, trials=10_000)
    size = 0
    packer = segments.Packer(0)
    # A tenth of them; each fifty pack as the others do, and less well at the start of a stream.
    for start in range(0, 1_000, 50):
        entries: list[records.Record] = []
        for number in range(start, start + 50):
            assignment = space.assignment(sweep_spec.parameters, number)
            at = 1_700_000_000.123 + number
            entries.append(
                records.trial(number, naming.trial_name("digits", assignment), assignment, at)
            )
            entries.append({"t": "start", "n": number, "attempt": 1, "at": at})
            entries.append({"t": "seen", "n": number, "at": at + 1})
            measures = [
                (i, Measure("acc", number % 97 / 97 + i / 1e4, i, at + i)) for i in range(10)
            ]
            entries += records.measures(number, measures)
            end = {"t": "end", "n": number, "state": SUCCEEDED, "v": number / 1e4, "why": ""}
            entries.append({**end, "cpu": None, "at": at + 20})
        size += len(packer.pack(b"".join(map(base.line, entries)))[1])
    assert 10 * size < segments.MOST * segments.FULL / 2
    assert 10 * size / 10_000 < 300  # bytes for a trial


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("secret:research/s", Address("s", "research")),
        ("secret:r/s?context=a%2Fb", Address("s", "r", "a/b")),
        ("secret:r/s?context=c&kubeconfig=%2Fk", Address("s", "r", "c", "/k")),
    ],
)
def test_an_address_is_read(where: str, expected: Address) -> None:
    """And written as it is read."""
    address = Address.parse(where)
    assert expected == address
    assert address == Address.parse(str(address))


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("secret:", "it needs a namespace and a name"),
        ("secret:research", "it needs a namespace and a name"),
        ("secret:/s", "'' is no name there"),
        ("secret:a/b/c", "'b/c' is no name there"),
        ("secret:research/A_b", "'A_b' is no name there: lower-case letters, digits and -, 63 at "),
        ("secret:a/b?x=1", r"only \?context=NAME and kubeconfig=FILE may follow the name"),
    ],
)
def test_what_is_no_address_is_refused(where: str, reason: str) -> None:
    """With what is wrong and how one is written; nothing is asked of a cluster for it."""
    with pytest.raises(InputError, match=f"is no journal in Secrets: {reason}") as excinfo:
        backend_of(where, "digits")
    assert ("--journal", "write secret:NAMESPACE/NAME, such as secret:research/digits") == (
        excinfo.value.problem.path,
        excinfo.value.problem.hint,
    )

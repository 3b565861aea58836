"""What anyone who reaches the port of a real master's process can do to it.

The job has no token here: every call is read, and only bounds protect its master.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from ..conftest import until  # noqa: TID252
from .stage import Stage, terminate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_DEEP = (
    b"[" * 2_500 + b"]" * 2_500,
    b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
    b"[" * 60_000,
    b'"' + b"\\" * 4_999,
)
_LENGTHS = ("²", "-1", "1e3", "+5", "9" * 5_000, "16777216", "1, 1", "")
_POSTED = 16 << 20
_GROWTH_MAX = 100 << 20


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A job of one worker that only waits, and its master."""
    master_stage = Stage(tmp_path, workers={"replicas": 1}, types={"worker": ["/bin/sleep", "600"]})
    master_stage.start_master()
    until(master_stage.status, "the master")
    yield master_stage
    master_stage.close()


def _post(port: int, length: str, body: bytes = b"", path: str = "/v1/join") -> socket.socket:
    """A connection on which a POST was sent, as far as the master takes it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: m\r\nConnection: close\r\n"
    with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
    return connection


def _first(connection: socket.socket) -> bytes:
    """The status of the answer; nothing where the connection was closed without one."""
    with connection:
        try:
            return connection.recv(12)[9:]
        except ConnectionResetError:
            return b""


def test_no_call_ends_a_master(stage: Stage) -> None:
    """Deep bodies, odd lengths, unknown words: each has an answer, and the log has no traceback."""
    assert stage.master is not None
    for path in ("/v1/join", "/v1/report", "/v1/done"):
        for body in _DEEP:
            for _ in range(4):  # four of them ended a job, by its retries
                assert b"400" == _first(_post(stage.port, str(len(body)), body, path))
        for length in _LENGTHS:
            assert b"400" == _first(_post(stage.port, length, b"{}", path))
    with socket.create_connection(("127.0.0.1", stage.port), timeout=60) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00 no HTTP at all\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            continue
    assert None is stage.master.poll()
    assert 0 == stage.status()["generation"]
    text = stage.logs()
    assert "Traceback" not in text, text
    terminate(stage.master)


def test_what_many_send_is_not_kept(stage: Stage) -> None:
    """Forty connections of 16 MiB cost a master next to nothing: no such body is read."""
    assert stage.master is not None
    process = psutil.Process(stage.master.pid)
    before = process.memory_info().rss
    body = b'"' + b"a" * _POSTED
    connections = [_post(stage.port, str(len(body)), body) for _ in range(40)]
    after = process.memory_info().rss
    assert {_first(connection) for connection in connections} <= {b"400", b""}
    assert after - before < _GROWTH_MAX
    assert stage.status()["wanted"]


def test_a_world_of_a_strangers_is_not_believed(stage: Stage) -> None:
    """Nor a number of a generation that nobody formed: the master's own goes on."""
    until(lambda: stage.status().get("wanted"), "the first plan")
    nodes = [{"pod": "demo-edljob-worker-9", "address": "10.6.6.6", "port": 1, "procs": 1}]
    for pod in ("demo-edljob-worker-9", "x", "../x", "a" * 5_000, 7, None):
        for generation in (10**6, 2**52, -1, "9" * 400):
            call = {"pod": pod, "address": "10.6.6.6", "procs": 1}
            call["world"] = {"generation": generation, "nodes": nodes}
            body = json.dumps(call).encode()
            assert _first(_post(stage.port, str(len(body)), body)) in {b"400", b"404", b"409"}
    status = stage.status()
    assert (0, False) == (status["generation"], "worker-9" in json.dumps(status))

"""What probes and Prometheus are answered."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

from allranks_operator.bounded_http import BoundedListener
from allranks_operator.health_server import HealthServer
from allranks_operator.metrics import TABLE, Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def served(health: str = "", ready: str = "") -> Iterator[int]:
    """A server on a free port."""
    metrics = Metrics()
    server = HealthServer(
        ("127.0.0.1", 0), health=lambda: health, ready=lambda: ready, metrics=metrics.text
    )
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def ask(port: int, path: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:  # it holds the connection
            return error.code, error.read().decode()


def test_probes_say_what_is_wrong() -> None:
    """In words, for who reads the pod's events; a query makes no difference."""
    with served() as port:
        assert (200, "ok\n") == ask(port, "/healthz")
        assert (200, "ok\n") == ask(port, "/readyz?verbose")
    with served(health="it hangs", ready="no list of pods") as port:
        assert (503, "it hangs\n") == ask(port, "/livez")
        assert (503, "no list of pods\n") == ask(port, "/readyz")
        assert 404 == ask(port, "/elsewhere")[0]


def test_every_metric_is_there_from_the_start() -> None:
    """With its help; those of the process are the library's."""
    with served() as port:
        status, text = ask(port, "/metrics")
    assert 200 == status
    for name, (_, text_of_help) in TABLE.items():
        assert f"# HELP {name} {text_of_help}" in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.attack
def test_strangers_keep_no_probe_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    """Twice as many connections as there may be, and odd requests: the kubelet is heard."""
    requests = (
        *(b"POST /healthz HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n", b"\x16\x03\x01\r\n\r\n"),
        *(
            b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200,
        ),
        *(b"GET //[ HTTP/1.1\r\n\r\n", b"GET /healthz?" + b"a&" * 9_000 + b" HTTP/1.0\r\n\r\n"),
    )
    with served() as port, ExitStack() as stack:
        for number in range(2 * BoundedListener.connections_max):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=60)
            stack.enter_context(stranger)
            with suppress(OSError):  # it had to make room already
                stranger.sendall(requests[number % len(requests)] if number % 2 else b"GET /")
        assert (200, "ok\n") == ask(port, "/healthz")
        assert (200, "ok\n") == ask(port, "/readyz")
    assert "" == capsys.readouterr().err

"""Spans go to a collector over HTTP, and what it answers is told."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli import otlp_sender
from allranks.errors import InputError, RunError
from allranks.timeline import otlp
from tests.unit.timeline.stories import trained

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Collector(ThreadingHTTPServer):
    """Keeps what it is sent.

    Attributes:
        answer: the code of its answers.
        received: path, headers and body of each request.
    """

    daemon_threads = True
    answer = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, Any, Any]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Collector

    def do_POST(self) -> None:
        """Take the spans."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, self.headers, json.loads(body)))
        self.send_response(self.server.answer)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[_Collector]:
    """A collector on loopback."""
    with _Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_all_spans_are_sent_with_the_headers_of_the_environment(
    collector: _Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTLP's own path is added; a key stands in no argument."""
    monkeypatch.setenv(otlp_sender.ENV_HEADERS, "x-key=a%20b, other=c")
    url = otlp_sender.endpoint(collector.url)
    assert 13 == otlp_sender.send(url, otlp.requests(trained(), "1"))
    ((path, headers, body),) = collector.received
    assert ("/v1/traces", "a b", "application/json") == (
        path,
        headers["x-key"],
        headers["Content-Type"],
    )
    assert otlp.document(trained(), "1") == body


@pytest.mark.parametrize("code", [302, 401, 503])
def test_a_collector_that_does_not_take_them_is_named(collector: _Collector, code: int) -> None:
    """Its answer is told, and no redirect is followed with a key."""
    collector.answer = code
    with pytest.raises(RunError, match=f"answers {code}"):
        otlp_sender.send(otlp_sender.endpoint(collector.url), otlp.requests(trained(), "1"))
    assert 1 == len(collector.received)


@pytest.mark.parametrize("url", ["", "collector:4318", "file:///etc/passwd", "http://"])
def test_only_an_http_address_is_taken(url: str) -> None:
    """Before anything is asked of a cluster."""
    with pytest.raises(InputError, match="no http or https address"):
        otlp_sender.endpoint(url)

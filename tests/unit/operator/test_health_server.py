"""What probes and Prometheus are answered."""

from __future__ import annotations

import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.error import HTTPError

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

"""What anyone who reaches a port can cost: connections, time and threads of a small HTTP server.

Each connection is a thread. There are so many at once, and from one address so many; one that has
not asked its question in time is closed, however slowly it goes on sending. Where all places are
taken, the oldest connection of a stranger makes room for the next one: strangers push out each
other, and nobody whom the server believes. What is read of a question is for who answers it.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv6Address, ip_address
from typing import Any

# A question of some kilobytes comes in well under a second.
ASK_SECONDS = 10.0
_FAR_SHARE = 2
_FIGURES_MAX = 9


class Listener(ThreadingHTTPServer):
    """A bounded one.

    Attributes:
        most: connections at once; an address that is not this machine's own has half of them.
    """

    daemon_threads = True
    request_queue_size = 1024  # a generation's workers all call at once
    most = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        self._lock = threading.Lock()
        self._from: Counter[str] = Counter()
        self._open: dict[socket.socket, str] = {}
        self._due: dict[socket.socket, float] = {}
        self._believed: set[socket.socket] = set()
        super().__init__(address, handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for another connection; `shutdown_request` closes it where not."""
        source = str(client_address[0])
        most = self.most
        stranger = None
        with self._lock:
            few = self._from[source] < most // _FAR_SHARE or _is_near(source)
            if not few:
                return False
            if len(self._open) >= most:
                # In the order in which they came.
                strangers = (each for each in self._open if each not in self._believed)
                stranger = next(strangers, None)
                if stranger is None:
                    return False
                self._free(stranger)
            self._open[request] = source
            self._from[source] += 1
            self._due[request] = time.monotonic() + ASK_SECONDS
        if stranger is not None:
            _end(stranger)
        return True

    def believe(self, request: Any) -> None:
        """Keep a connection that has shown whose it is, whoever else comes."""
        with self._lock:
            if request in self._open:
                self._believed.add(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; its place is free."""
        with self._lock:
            self._free(request)
        super().shutdown_request(request)

    def _free(self, request: socket.socket) -> None:
        source = self._open.pop(request, None)
        self._due.pop(request, None)
        self._believed.discard(request)
        if source is not None:
            self._from[source] -= 1
            if not self._from[source]:
                del self._from[source]

    def expect(self, request: Any, seconds: float | None) -> None:
        """Close a connection that has not asked in time; None: it has, and is being answered."""
        with self._lock:
            if seconds is None:
                self._due.pop(request, None)
            elif request in self._open:
                self._due[request] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """Called some times a second."""
        now = time.monotonic()
        with self._lock:
            late = [one for one, due in self._due.items() if due < now]
            for one in late:
                del self._due[one]
        for one in late:
            _end(one)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave an error to `threading`'s report, but for a caller that is gone: pods die."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection, whose questions have to come in time."""

    protocol_version = "HTTP/1.1"
    timeout = 30.0
    server: Listener

    def handle_one_request(self) -> None:
        """Ask for the next question in time."""
        self.server.expect(self.connection, self.timeout)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """The first line is here: the rest has less time."""
        self.server.expect(self.connection, ASK_SECONDS)
        return super().parse_request()

    def asked(self) -> None:
        """The whole question is here, and an answer may take its time."""
        self.server.expect(self.connection, None)

    def length(self, most: int) -> int | None:
        """The length of the question's body; None where it says none, or more than is read."""
        given = self.headers.get_all("Content-Length") or []
        text = given[0].strip() if len(given) == 1 else ""
        if not (text.isascii() and text.isdigit() and len(text) <= _FIGURES_MAX):
            return None
        return int(text) if int(text) <= most else None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no question: another method, a line that is no HTTP."""
        self.close_connection = True
        self.refuse(HTTPStatus(code), message or explain or HTTPStatus(code).phrase)

    def refuse(self, status: HTTPStatus, why: str) -> None:
        """Say no, in words of the protocol that is spoken here."""
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        """Say nothing of each call."""


def _end(connection: socket.socket) -> None:
    """Let the thread of a connection see its end."""
    with suppress(OSError):  # it is gone already
        connection.shutdown(socket.SHUT_RDWR)


def _is_near(source: str) -> bool:
    """Whether an address is this machine's own: all pods of a local run have one like that."""
    address = ip_address(source.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

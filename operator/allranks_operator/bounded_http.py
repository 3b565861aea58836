"""A small HTTP server with limits on connections, time and threads.

Each connection is a thread. Their number is limited, in all and per address; a connection whose
request is not complete in time is closed, however slowly it goes on sending. Where all places are
taken, the oldest unauthenticated connection makes room for the next one: strangers push out each
other, and never an authenticated client. The handler limits how much of a request is read.
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


class BoundedListener(ThreadingHTTPServer):
    """An HTTP server with a limit on its connections.

    Attributes:
        connections_max: the most connections at once; half of them for one address of another
            machine.
    """

    daemon_threads = True
    request_queue_size = 1024  # a generation's workers all call at once
    connections_max = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """Bind the port.

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
        limit = self.connections_max
        stranger = None
        with self._lock:
            few = self._from[source] < limit // _FAR_SHARE or _is_near(source)
            if not few:
                return False
            if len(self._open) >= limit:
                # In the order in which they came.
                strangers = (
                    connection for connection in self._open if connection not in self._believed
                )
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
        """Keep a connection that has authenticated, whoever else connects."""
        with self._lock:
            if request in self._open:
                self._believed.add(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and free its place."""
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
        """Set the deadline of a connection's request; None while it is being answered."""
        with self._lock:
            if seconds is None:
                self._due.pop(request, None)
            elif request in self._open:
                self._due[request] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """Close late connections; the server calls this some times a second."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, due in self._due.items() if due < now]
            for connection in late:
                del self._due[connection]
        for connection in late:
            _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have gone, for pods die; leave other errors to `threading`."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection, whose requests must arrive in time."""

    protocol_version = "HTTP/1.1"
    timeout = 30.0
    server: BoundedListener

    def handle_one_request(self) -> None:
        """Set a deadline for the next request, and handle it."""
        self.server.expect(self.connection, self.timeout)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Shorten the deadline: the first line is here, and the rest follows."""
        self.server.expect(self.connection, ASK_SECONDS)
        return super().parse_request()

    def lift_deadline(self) -> None:
        """Lift the deadline: the whole request is here, and the answer may take its time."""
        self.server.expect(self.connection, None)

    def length(self, limit: int) -> int | None:
        """The length of the request's body; None where it is not given, or too long."""
        lengths = self.headers.get_all("Content-Length") or []
        text = lengths[0].strip() if len(lengths) == 1 else ""
        if not (text.isascii() and text.isdigit() and len(text) <= _FIGURES_MAX):
            return None
        return int(text) if int(text) <= limit else None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request: another method, or a line that is no HTTP."""
        self.close_connection = True
        self.refuse(HTTPStatus(code), message or explain or HTTPStatus(code).phrase)

    def refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer with an error, in the format of this server."""
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        """Do not log each request."""


def _end(connection: socket.socket) -> None:
    """Shut a connection down, so that its thread ends."""
    with suppress(OSError):  # it is gone already
        connection.shutdown(socket.SHUT_RDWR)


def _is_near(source: str) -> bool:
    """Whether an address belongs to this machine, as those of a local run's pods do."""
    address = ip_address(source.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

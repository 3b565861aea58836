"""The HTTP server that workers call: JSON in, JSON out, on the standard library alone.

A question for the next generation is held open until there is one, up to `POLL_SECONDS`: a worker
learns of it at once, and a silent worker is noticed. Each open question is a thread with a small
stack, which a thousand workers do not exhaust.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from allranks.errors import InputError, RunError
from allranks_operator.master import requests
from allranks_operator.master.leading import NotKnown

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks_operator.master.leading import Answer, Master

POLL_SECONDS = 20.0
STALE_SECONDS = 60.0
_STACK_BYTES = 512 * 1024
# A call that tells a generation of a thousand workers has 100 KiB.
_BODY_MAX = 16 * 1024**2
_IDLE_SECONDS = 30.0


class Server:
    """Listens, and answers for a master."""

    def __init__(self, master: Master, address: str, port: int, clock: Callable[[], float]) -> None:
        """Listen.

        Args:
            master: who answers.
            address: of this machine; "" is every one.
            port: 0 is any free one.
            clock: of the master.

        Raises:
            RunError: the port cannot be listened on.
        """
        handler = type("Handler", (_Handler,), {"master": master, "clock": staticmethod(clock)})
        kind = _Listener
        if not address and socket.has_dualstack_ipv6():
            kind, address = _DualListener, "::"
        elif ":" in address:
            kind = _DualListener
        threading.stack_size(_STACK_BYTES)
        try:
            self._server = kind((address, port), handler)
        except OSError as error:
            raise RunError(
                f"cannot listen on port {port} of {address or 'this machine'}: {error}",
                hint="another process may have it; name another one in ALLRANKS_MASTER_PORT",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._server.server_address[1]
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # a generation's workers all call at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave an error to `threading`'s report, but for a caller that is gone: pods die."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _DualListener(_Listener):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        if self.server_address[0] == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    master: Master
    clock: Callable[[], float]

    def do_GET(self) -> None:
        """Questions."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/v1/world":
            self._answer(lambda: self._world(query))
        elif url.path == "/v1/status":
            self._answer(self.master.status)
        elif url.path == "/healthz":
            stale = self.clock() - self.master.beat > STALE_SECONDS
            status = HTTPStatus.SERVICE_UNAVAILABLE if stale else HTTPStatus.OK
            self._send(status, {"ok": not stale})
        else:
            self._missing()

    def do_POST(self) -> None:
        """What workers tell."""
        calls: dict[str, Callable[[Any], Answer]] = {
            "/v1/join": lambda body: self.master.join(requests.join(body)),
            "/v1/report": lambda body: self.master.report(requests.report(body)),
            "/v1/done": lambda body: self.master.done(requests.done(body)),
        }
        call = calls.get(urlsplit(self.path).path)
        if call is None:
            self._missing()
            return
        self._answer(lambda: call(self._body()))

    def _world(self, query: dict[str, str]) -> Answer:
        pod, after = requests.pod(query.get("pod")), requests.number(query.get("after"))
        return self.master.world(pod, after, POLL_SECONDS)

    def _body(self) -> Any:
        length = self.headers.get("Content-Length") or ""
        if not length.isdigit() or int(length) > _BODY_MAX:
            self.close_connection = True
            raise InputError(
                f"a body of {length or 'unknown'} bytes is not read",
                hint=f"send Content-Length, of at most {_BODY_MAX}",
            )
        try:
            return json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError as error:
            raise InputError(f"the body is no JSON: {error}", hint="send a JSON object") from error

    def _answer(self, call: Callable[[], Answer]) -> None:
        try:
            self._send(HTTPStatus.OK, call())
        except InputError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except NotKnown as error:
            status = HTTPStatus.CONFLICT if error.later else HTTPStatus.NOT_FOUND
            self._send(status, {"error": str(error)})

    def _missing(self) -> None:
        self.close_connection = True  # a body may follow that nobody reads
        self._send(HTTPStatus.NOT_FOUND, {"error": f"there is no {urlsplit(self.path).path}"})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no call at all in JSON, too: another method, a line that is no HTTP."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, {"error": message or explain or status.phrase})

    def _send(self, status: HTTPStatus, data: Answer) -> None:
        content = json.dumps(data).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # who asked is gone

    def log_message(self, *_: object) -> None:
        """Say nothing of each call."""

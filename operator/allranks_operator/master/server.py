"""The HTTP server that workers call; JSON, with the standard library only.

A question for the next generation is held open until there is one, up to `POLL_SECONDS`: a worker
learns of it at once, and a silent worker is noticed. Each open question is a thread with a small
stack, which a thousand workers do not exhaust.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from allranks.errors import InputError, RunError
from allranks_operator.bounded_http import BoundedListener, Handler
from allranks_operator.master import protocol
from allranks_operator.master.master import NotKnown

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks_operator.master.master import Answer, Master

POLL_SECONDS = 20.0
STALE_SECONDS = 60.0
_STACK_BYTES = 512 * 1024
# What a call has at most, besides what a worker tells of each pod of its generation.
_BODY_BYTES, _POD_BYTES = 64 * 1024, 512
# Connections at once, besides those of each pod: its question, what its ranks report, its end.
_CALLS, _POD_CALLS = 128, 8
_HEALTH = "/healthz"


class MasterServer:
    """Serves a master's calls."""

    def __init__(
        self, master: Master, address: str, port: int, clock: Callable[[], float], token: str = ""
    ) -> None:
        """Bind the port.

        Args:
            master: who answers.
            address: of this machine; "" is every one.
            port: 0 is any free one.
            clock: of the master.
            token: what the pods of the job show; "" where they have none.

        Raises:
            RunError: the port cannot be listened on.
        """
        about = {"master": master, "clock": staticmethod(clock), "token": token}
        handler = type("Calls", (_Handler,), about)
        kind = _Listener
        if not address and socket.has_dualstack_ipv6():
            kind, address = _DualListener, "::"
        elif ":" in address:
            kind = _DualListener
        threading.stack_size(_STACK_BYTES)
        try:
            self._server = kind((address, port), handler)
            self._server.master = master
        except OSError as error:
            raise RunError(
                f"cannot listen on port {port} of {address or 'this machine'}: {error}",
                hint="another process may have it; name another one in ALLRANKS_MASTER_PORT",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        port: int = self._server.server_address[1]
        return port

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Listener(BoundedListener):
    master: Master | None = None

    @property
    def connections_max(self) -> int:  # type: ignore[override]
        """The most connections at once: enough for all pods."""
        return _CALLS + _POD_CALLS * (self.master.pods if self.master is not None else 0)


class _DualListener(_Listener):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        if self.server_address[0] == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(Handler):
    master: Master
    clock: Callable[[], float]
    token: str

    def do_GET(self) -> None:  # noqa: N802 - the library calls it so
        """Answer a worker's question."""
        self.lift_deadline()
        path, _, query = self.path.partition("?")
        if path == _HEALTH:
            self.close_connection = True  # anybody may ask, and nobody needs to stay for it
            stale = self.clock() - self.master.beat > STALE_SECONDS
            status = HTTPStatus.SERVICE_UNAVAILABLE if stale else HTTPStatus.OK
            self._send(status, {"ok": not stale})
        elif not self._is_authenticated():
            self._unknown()
        elif path == "/v1/world":
            self._answer(lambda: self._world(query))
        elif path == "/v1/status":
            self._answer(self.master.status)
        else:
            self._missing(path)

    def do_POST(self) -> None:  # noqa: N802 - as above
        """Take a worker's message."""
        calls: dict[str, Callable[[Any], Answer]] = {
            "/v1/join": lambda body: self.master.join(protocol.join(body)),
            "/v1/report": lambda body: self.master.report(protocol.report(body)),
            "/v1/done": lambda body: self.master.done(protocol.done(body)),
        }
        path = self.path.partition("?")[0]
        call = calls.get(path)
        # The caller is authenticated before any of the body is read.
        if not self._is_authenticated():
            self._unknown()
        elif call is None:
            self._missing(path)
        else:
            self._answer(lambda: call(self._body()))

    def _is_authenticated(self) -> bool:
        """Whether the caller shows the job's token."""
        token = (self.headers.get("Authorization") or "").encode("utf-8", "replace")
        expected = f"Bearer {self.token}".encode()
        if not self.token or hmac.compare_digest(token, expected):
            self.server.believe(self.connection)
            return True
        return self.master.open

    def _unknown(self) -> None:
        self.close_connection = True  # a body may follow that nobody reads
        self._send(
            HTTPStatus.UNAUTHORIZED,
            {"error": "the call shows no token of this job's: send Authorization: Bearer TOKEN"},
        )

    def _world(self, text: str) -> Answer:
        try:
            query = {name: values[0] for name, values in parse_qs(text, max_num_fields=8).items()}
        except ValueError as error:
            raise InputError(f"the query is none: {error}", hint="ask pod=NAME&after=3") from error
        pod, after = protocol.pod(query.get("pod")), protocol.number(query.get("after"))
        return self.master.world(pod, after, POLL_SECONDS)

    def _body(self) -> Any:
        length_max = _BODY_BYTES + _POD_BYTES * self.master.pods
        length = self.length(length_max)
        if length is None:
            self.close_connection = True
            raise InputError(
                "a body of this length is not read",
                hint=f"send Content-Length, of at most {length_max}",
            )
        data = self.rfile.read(length)
        self.lift_deadline()
        return protocol.body(data)

    def _answer(self, call: Callable[[], Answer]) -> None:
        try:
            self._send(HTTPStatus.OK, call())
        except InputError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except NotKnown as error:
            status = HTTPStatus.CONFLICT if error.later else HTTPStatus.NOT_FOUND
            self._send(status, {"error": str(error)})

    def _missing(self, path: str) -> None:
        self.close_connection = True  # a body may follow that nobody reads
        self._send(HTTPStatus.NOT_FOUND, {"error": f"there is no {path}"})

    def refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer a malformed request in JSON, too."""
        self._send(status, {"error": reason})

    def _send(self, status: HTTPStatus, data: Answer) -> None:
        content = json.dumps(data).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client is gone

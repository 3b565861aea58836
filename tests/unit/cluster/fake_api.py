"""An API server that only pretends.

No cluster runs in this tier, so the client is tested over real HTTP against a server in this
process that answers what a real one was seen to answer. What a real API server thinks of our
requests is shown in the tier that has one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Request:
    """What the client sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answers; `text` in place of `data` where it is not JSON."""

    status: int = 200
    data: Any = None
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]


class FakeApiServer:
    """Answers on a loopback port by routes; an unknown path is a 404 as Kubernetes words it."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.requests: list[Request] = []
        self.closing = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.serve(self)

            def do_POST(self) -> None:
                fake.serve(self)

            def do_PATCH(self) -> None:
                fake.serve(self)

            def do_DELETE(self) -> None:
                fake.serve(self)

            def log_message(self, *_: object) -> None:
                """Keep the tests' output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of whoever hangs, and stop."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        url = urlsplit(handler.path)
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length)
        request = Request(
            handler.command,
            url.path,
            dict(parse_qsl(url.query)),
            {
                name.lower(): ", ".join(handler.headers.get_all(name) or ())
                for name in handler.headers
            },
            _body(handler.headers.get("Content-Type", ""), raw),
        )
        self.requests.append(request)
        answer = self.routes.get(url.path, _unknown)(request)
        content = (answer.text or json.dumps(answer.data)).encode()
        try:
            handler.send_response(answer.status)
            kind = "text/html" if answer.text else "application/json"
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(content)))
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(content)
        except OSError:
            handler.close_connection = True  # the client gave up first

    def hang(self, _: Request) -> Answer:
        """Answer only when the test is over."""
        self.closing.wait(60)
        return Answer()


def paged(items: list[dict[str, Any]], kind: str) -> Route:
    """A list route that honours limit and continue."""

    def route(request: Request) -> Answer:
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query.get("limit", len(items)))
        token = str(end) if end < len(items) else ""
        metadata = {"resourceVersion": "1", "continue": token}
        page = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata}
        return Answer(data=page | {"items": items[start:end]})

    return route


def error_route(status: int, reason: str, message: str) -> Route:
    """A route that answers with a Status object."""
    data = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    return lambda _: Answer(status, data)


def write_kubeconfig(
    path: Path, url: str, *, context: str = "lab", login: dict[str, Any] | None = None
) -> Path:
    """A kubeconfig for the server, as providers write it; `login` has further keys of the user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"} | (login or {})}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    return path


def _body(content_type: str, raw: bytes) -> Any:
    """What was sent: a form's fields, or JSON."""
    if content_type == "application/x-www-form-urlencoded":
        return dict(parse_qsl(raw.decode()))
    return json.loads(raw) if raw else None


def _unknown(_: Request) -> Answer:
    return error_route(404, "NotFound", "the server could not find the requested resource")(_)

"""An API server that only pretends: a list, and watches that a test writes line by line."""

from __future__ import annotations

import json
import queue
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests import waiting

until = partial(waiting.until, poll=0.005)


class Line:
    """One open watch: what is put in is sent; None ends it, "cut" breaks the connection."""

    def __init__(self, query: dict[str, str]) -> None:
        self.query = query
        self._sent: queue.Queue[Any] = queue.Queue()
        self.over = threading.Event()

    def send(self, kind: str, manifest: dict[str, Any]) -> None:
        """One change."""
        self._sent.put({"type": kind, "object": manifest})

    def end(self) -> None:
        """End it as the server does after some minutes."""
        self._sent.put(None)

    def cut(self) -> None:
        """Break the connection."""
        self._sent.put("cut")

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Send what is put in, until the end."""
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.flush()
        while (event := self._sent.get()) not in (None, "cut"):
            data = json.dumps(event).encode() + b"\n"
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()
        if event is None:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True
        self.over.set()


class FakeServer:
    """Answers on a loopback port.

    Attributes:
        pages: what the next lists answer: an object, or (status, Status object).
        refusals: what the next watches answer in place of a watch.
        routes: answers of other requests, by method and path.
        requests: method, path, query and body of each.
        lines: every watch that was opened.
    """

    def __init__(self) -> None:
        self.pages: list[Any] = []
        self.refusals: list[Any] = []
        self.routes: dict[tuple[str, str], Any] = {}
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.lines: list[Line] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                fake.serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Keep the tests' output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """End every watch, and stop."""
        for line in self.lines:
            line.end()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        url = urlsplit(handler.path)
        query = dict(parse_qsl(url.query))
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        self.requests.append((handler.command, url.path, query, body))
        if query.get("watch") and not self.refusals:
            line = Line(query)
            self.lines.append(line)
            line.serve(handler)
            return
        answer = self.routes.get((handler.command, url.path))
        if query.get("watch"):
            answer = self.refusals.pop(0)
        elif answer is None:
            answer = self.pages.pop(0) if self.pages else pod_list()
        if callable(answer):
            answer = answer(query, body)
        status, data, *headers = answer if isinstance(answer, tuple) else (200, answer)
        content = json.dumps(data).encode()
        handler.send_response(status)
        for name, value in (headers[0] if headers else {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def pod_list(*items: dict[str, Any], version: str = "1", next_page: str = "") -> dict[str, Any]:
    """A page of a list of pods."""
    metadata = {"resourceVersion": version, "continue": next_page}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def status_answer(status: int, reason: str, message: str = "no") -> tuple[int, dict[str, Any]]:
    """An answer that is a Status object."""
    return status, {"kind": "Status", "code": status, "reason": reason, "message": message}


def pod(name: str, version: str = "1", **fields: Any) -> dict[str, Any]:
    """A pod as a list has it."""
    metadata = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": version}
    return {"metadata": metadata | fields.pop("metadata", {}), **fields}

"""A server in front of an API server, that counts the requests of a program and calls at each.

It has the API server's own certificate, so a program that has the kubeconfig of `Front.kubeconfig`
speaks to it as to the server itself; so do the helm and the kubectl that the program starts.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

_SECONDS = 120.0
# Of one connection, and not of the request.
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "host"})


@dataclass(slots=True)
class Front:
    """What stands in front of an API server.

    Attributes:
        cluster: whose server it is.
        kubeconfig: names this one in its place.
        requests: method and path of each request, in their order.
        before: called with the number of each request before it is sent on, from 1; where it gives
            False the connection ends without an answer.
    """

    cluster: Cluster
    kubeconfig: Path
    requests: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[int], bool] = lambda _: True
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, method: str, path: str) -> bool:
        """Count a request, and say whether it is sent on."""
        with self.lock:
            self.requests.append((method, path))
            return self.before(len(self.requests))


@contextmanager
def stand(cluster: Cluster, folder: Path) -> Iterator[Front]:
    """A front of a cluster, for the time of the block.

    Args:
        cluster: whose API server it is.
        folder: for its kubeconfig.
    """
    front = Front(cluster, folder / "front.kubeconfig")
    certs = cluster.data / "certs"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "apiserver.crt", certs / "apiserver.key")
    upstream = ssl.create_default_context(cafile=str(certs / "apiserver.crt"))
    upstream.check_hostname = False
    handler = type("Handler", (_Handler,), {"front": front, "upstream": upstream})
    server = _Server(("127.0.0.1", 0), handler)
    server.context = context
    config = json.loads(cluster.kubeconfig.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.server_port}"
    front.kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    context: ssl.SSLContext
    daemon_threads = True
    block_on_close = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS in the connection's own thread: a client that is killed holds up no other."""
        with suppress(OSError):
            super().finish_request(
                self.context.wrap_socket(request, server_side=True), client_address
            )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a killed client leaves is no error."""


class _Handler(BaseHTTPRequestHandler):
    front: Front
    upstream: ssl.SSLContext
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.front.admit(self.command, self.path):
            self.close_connection = True
            return
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            self.front.cluster.run.port("api"),
            timeout=_SECONDS,
            context=self.upstream,
        )
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            connection.request(self.command, self.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.send_response_only(answer.status, answer.reason)
        for key, value in answer.getheaders():
            if key.lower() not in _HOP:
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - http.server's own

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

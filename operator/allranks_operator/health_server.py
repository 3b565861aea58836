"""The HTTP endpoints /healthz, /readyz and /metrics, for kubelet and Prometheus.

`/healthz` fails only where a restart would help: when the loop hangs. A cluster that does not
answer makes the operator unready, but is no reason to restart it.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

from allranks_operator.bounded_http import BoundedListener, Handler

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = 10.0


class HealthServer:
    """Serves the endpoints on one port."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        health: Callable[[], str],
        ready: Callable[[], str],
        metrics: Callable[[], bytes],
    ) -> None:
        """Bind the port; nothing is served before `start`.

        Args:
            address: host and port; port 0 takes a free one.
            health: returns why the process should be restarted; "" where it should not.
            ready: returns why it is not ready; "" where it is.
            metrics: the metrics.

        Raises:
            OSError: the port is taken.
        """

        class Probes(Handler):
            timeout = _SECONDS

            def do_GET(self) -> None:  # noqa: N802 - the library calls it so
                self.lift_deadline()
                checks = {"/healthz": health, "/livez": health, "/readyz": ready}
                path = self.path.partition("?")[0]
                if path in checks:
                    wrong = checks[path]()
                    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
                    self._answer(status, _TEXT, f"{wrong or 'ok'}\n".encode())
                elif path == "/metrics":
                    self._answer(HTTPStatus.OK, _METRICS, metrics())
                else:
                    self.refuse(HTTPStatus.NOT_FOUND, "/healthz, /readyz or /metrics")

            def refuse(self, status: HTTPStatus, reason: str) -> None:
                # A body may follow that nobody reads.
                self.close_connection = True
                self._answer(status, _TEXT, f"{reason}\n".encode())

            def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = BoundedListener(address, Probes)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="serve", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_port)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, and release the port."""
        self._server.shutdown()
        self._server.server_close()

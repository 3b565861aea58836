"""Plain requests to an API server: JSON in, JSON out, and the warnings beside it."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AGENT = "bench"  # what our own requests are called in the audit log
_SECONDS = 180.0
_BAD = 400


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        status: its HTTP status, as 404.
        reason: the machine's word for it, as NotFound.
        message: the server's own sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said.

    Attributes:
        body: the object.
        warnings: what it warned of, as kubectl would print it.
    """

    body: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Api:
    """An API server, as one user; each thread keeps its connection, as programs of Kubernetes do.

    Attributes:
        port: its port on this machine.
        token: the user's.
        authority: the certificate that its own is checked against.
    """

    port: int
    token: str
    authority: Path
    _context: list[ssl.SSLContext] = field(default_factory=list, repr=False)
    _own: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        *,
        content_type: str = "application/json",
    ) -> Answer:
        """Ask once.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: with the query, as `/api/v1/pods?limit=1`.
            body: an object, or text that is sent as it is.
            content_type: of the body; a PATCH of `application/json` is sent as a merge patch.

        Raises:
            ApiError: it refused.
            OSError: it does not answer.
        """
        if method == "PATCH" and content_type == "application/json":
            content_type = "application/merge-patch+json"
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": content_type,
            "User-Agent": AGENT,
        }
        connection = self._connection()
        try:
            connection.request(method, path, body=content and content.encode(), headers=headers)
            response = connection.getresponse()
            text = response.read().decode()
        except BaseException as error:
            connection.close()  # the next request opens it anew
            if isinstance(error, http.client.HTTPException):
                raise ConnectionError(f"the API server answered {error!r}") from error
            raise
        if response.status >= _BAD:
            raise _api_error(response.status, text)
        warnings = tuple(
            json.loads(f'"{line.split(chr(34), 1)[1].rsplit(chr(34), 1)[0]}"')
            for line in response.headers.get_all("Warning") or ()
        )
        answer = json.loads(text) if text.startswith("{") else {"text": text}
        return Answer(answer, warnings)

    def _connection(self) -> http.client.HTTPSConnection:
        """This thread's connection; one that the server has closed meanwhile is opened anew."""
        connection: http.client.HTTPSConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=_SECONDS, context=self._tls()
            )
        # Nothing is to be read between two requests but the end of the connection.
        if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()
        return connection

    def _tls(self) -> ssl.SSLContext:
        """Trust this server alone; its name is not checked, as it is reached by address."""
        if not self._context:
            context = ssl.create_default_context(cafile=str(self.authority))
            context.check_hostname = False
            self._context.append(context)
        return self._context[0]


def _api_error(status: int, text: str) -> ApiError:
    try:
        status_object = json.loads(text)
    except ValueError:
        status_object = {"reason": "", "message": text.strip()}
    return ApiError(
        status, str(status_object.get("reason") or ""), str(status_object.get("message") or "")
    )

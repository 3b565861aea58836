"""Plain requests to an API server: JSON in, JSON out, and the warnings beside it."""

from __future__ import annotations

import http.client
import json
import ssl
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
    """An API server, as one user.

    Attributes:
        port: its port on this machine.
        token: the user's.
        authority: the certificate that its own is checked against.
    """

    port: int
    token: str
    authority: Path
    _context: list[ssl.SSLContext] = field(default_factory=list, repr=False)

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
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": content_type,
            "User-Agent": AGENT,
        }
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_SECONDS, context=self._tls()
        )
        try:
            connection.request(method, path, body=sent and sent.encode(), headers=headers)
            response = connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"the API server answered {error!r}") from error
        finally:
            connection.close()
        if response.status >= _BAD:
            raise _refused(response.status, text)
        warnings = tuple(
            json.loads(f'"{line.split(chr(34), 1)[1].rsplit(chr(34), 1)[0]}"')
            for line in response.headers.get_all("Warning") or ()
        )
        found = json.loads(text) if text.startswith("{") else {"text": text}
        return Answer(found, warnings)

    def _tls(self) -> ssl.SSLContext:
        """Trust this server alone; its name is not checked, as it is reached by address."""
        if not self._context:
            context = ssl.create_default_context(cafile=str(self.authority))
            context.check_hostname = False
            self._context.append(context)
        return self._context[0]


def _refused(status: int, text: str) -> ApiError:
    try:
        said = json.loads(text)
    except ValueError:
        said = {"reason": "", "message": text.strip()}
    return ApiError(status, str(said.get("reason") or ""), str(said.get("message") or ""))

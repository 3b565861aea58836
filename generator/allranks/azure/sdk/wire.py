"""Requests to a store of Azure's, over connections that stay open.

The SDKs of blobs and files spend 3 ms of processor time on each request, which is all that a data
set of small files consists of. Here it is a tenth of that. What is asked, and how somebody is let
in, is the same: the REST API of Azure Storage, with a token of azure-identity, or a signature that
the SDKs make.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from xml.etree import ElementTree as ET

from allranks import retry
from allranks.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Mapping

# As `az storage` reads it.
ENV_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
VERSION = "2024-11-04"
_TRIES = 6
_FIRST_DELAY, _MOST_DELAY = 0.5, 20.0
_TIMEOUT = 60.0
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_UNAUTHORIZED = 401
_BASIC_PORTS = {"https": 443, "http": 80}


class Access(Protocol):
    """How requests are authorized."""

    def query(self) -> str:
        """A signature for the query; "" for none."""

    def headers(self) -> Mapping[str, str]:
        """Headers with a token; none with a signature."""

    def renew(self) -> None:
        """Forget a token that was not taken."""

    @property
    def origin(self) -> str:
        """The source of a key or signature; "" for a login."""


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The answer of a store.

    Attributes:
        status: HTTP's.
        headers: by their names in small letters.
        body: all of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Azure's own word for an error; "" for none."""
        return self.headers.get("x-ms-error-code", "") or self._body_text("Code")

    @property
    def detail(self) -> str:
        """Azure's sentence about an error."""
        lines = self._body_text("Message").splitlines()
        return lines[0].rstrip(".") if lines else self.code or f"status {self.status}"

    @property
    def clock_ahead(self) -> float:
        """By how many seconds the store's clock is ahead of this machine's."""
        moment = email.utils.parsedate_tz(self.headers.get("date", ""))
        return email.utils.mktime_tz(moment) - time.time() if moment is not None else 0.0

    def _body_text(self, tag: str) -> str:
        try:
            return ET.fromstring(self.body).findtext(tag) or ""  # noqa: S314 - of Azure
        except ET.ParseError:
            return ""


class Wire:
    """Requests to one endpoint; each thread has a connection of its own, until `close`.

    Args:
        endpoint: such as https://account.blob.core.windows.net.
        access: how a request is let in.
        stop: when it is set, nothing is waited for.
    """

    def __init__(self, endpoint: str, access: Access, stop: threading.Event) -> None:
        parts = urllib.parse.urlsplit(endpoint.rstrip("/"))
        self._scheme, self._root, self._access, self._stop = (
            parts.scheme,
            parts.path,
            access,
            stop,
        )
        self._host = parts.hostname or ""
        self._port = parts.port or _BASIC_PORTS[parts.scheme]
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.endpoint = endpoint

    @property
    def origin(self) -> str:
        """The source of the requests' key or signature; "" for a login."""
        return self._access.origin

    def close(self) -> None:
        """Close the connections of all threads, none of which asks any more."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.close()

    def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> StoreAnswer:
        """Send a request that may be sent twice, and again where Azure puts it off.

        Args:
            method: HTTP's.
            path: below the endpoint, quoted.
            query: without the signature.
            headers: further ones.
            body: what is sent.

        Raises:
            BusyError: there was no other answer in any of the tries.
        """
        failures = 0
        while True:
            reason = ""
            least = 0.0
            try:
                answer = self._once(method, path, query, headers or {}, body)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if isinstance(error, socket.gaierror) and failures:
                    raise BusyError(
                        f"there is no host {self._host}: {error.strerror}",
                        hint="check the name of the storage account, and the network",
                    ) from error
                reason = str(error) or type(error).__name__
            else:
                if answer.status == _UNAUTHORIZED and not failures:
                    self._access.renew()
                elif answer.status not in _BUSY:
                    return answer
                reason = answer.detail
                least = _retry_after(answer)
            failures += 1
            if failures >= _TRIES or self._stop.wait(
                retry.pause(failures, _FIRST_DELAY, _MOST_DELAY, least)
            ):
                raise BusyError(
                    f"{self._host} does not take the request: {reason}",
                    hint="give the same command again later: what is there is not sent again",
                )

    def _once(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> StoreAnswer:
        connection = self._connection()
        queries = "&".join(filter(None, (query, self._access.query())))
        all_headers = {
            "x-ms-version": VERSION,
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "Content-Length": str(len(body)),
            **headers,
            **self._access.headers(),
        }
        connection.request(
            method, f"{self._root}{path}{'?' if queries else ''}{queries}", body, all_headers
        )
        response = connection.getresponse()
        data = response.read()
        if response.will_close:
            self._drop()
        pairs = {name.lower(): value for name, value in response.getheaders()}
        return StoreAnswer(response.status, pairs, data)

    def _connection(self) -> http.client.HTTPConnection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            with self._lock:
                self._open.add(connection)
        return connection

    def _connect(self) -> http.client.HTTPConnection:
        proxy = "" if urllib.request.proxy_bypass(self._host) else _proxy(self._scheme)
        parts = urllib.parse.urlsplit(proxy)
        host, port = (parts.hostname or "", parts.port) if proxy else (self._host, self._port)
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        if proxy:
            connection.set_tunnel(self._host, self._port, _proxy_headers(parts))
        connection.connect()
        if connection.sock is not None:
            # Head and body of a request are two writes; the second must wait for no answer.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            with self._lock:
                self._open.discard(connection)
            with contextlib.suppress(OSError):
                connection.close()


def _proxy(scheme: str) -> str:
    proxy = urllib.request.getproxies().get(scheme, "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _proxy_headers(parts: urllib.parse.SplitResult) -> dict[str, str]:
    if not parts.username:
        return {}
    import base64

    pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _retry_after(answer: StoreAnswer) -> float:
    millis = answer.headers.get("retry-after-ms", "")
    if millis.isdigit():
        return min(_TIMEOUT, int(millis) / 1000)
    text = answer.headers.get("retry-after", "")
    return min(_TIMEOUT, float(text)) if text.isdigit() else 0.0


def quote(path: str) -> str:
    """A path for a URL."""
    return urllib.parse.quote(path, safe="/")

"""A connection to an API server, for the requests of the command line and of the operator.

Of the kubernetes library only kubeconfigs, credentials and sockets are used: no discovery (four
more requests, and a cache file in the shared temporary folder), no wrapper objects (they cost ten
times the parsing of a page). These parts (`kube_library`) are imported when a cluster is first
asked, because they take 0.1 s that no other command should pay.

Every answer is bounded in time, and a failed request is not sent again: the caller knows best
whether it still makes sense. One that the server has put off, unread and with a time to come back
(429 with Retry-After), is sent again, as client-go does, where a person waits for it. A stream (a
watch, a log) of the command line has no such bound: the system's own keep-alive notices a peer that
is gone within a minute.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from urllib.parse import urlencode

from allranks.cluster import errors, kubeconfig
from allranks.errors import BusyError, ExpiredError, InputError, ToolError, TooLongError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubernetes.client import Configuration
    from urllib3 import PoolManager

    from allranks.cluster.errors import ApiRequest
    from allranks.errors import ApiError
    from allranks.k8s.manifest import Manifest

CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
JSON = "application/json"
# The library's own name, of which the API server makes the manager of the fields that we write.
_AGENT = "OpenAPI-Generator/python"
_CREDENTIALS_SECONDS = 5.0
_SOCKETS_KEPT = 128  # as many logs may be followed at once
_CHUNK = 1 << 16
_GONE = 410
# A program that never ends its line must not fill our memory.
_LONGEST_LINE = 1 << 20
# What a kubelet answers, with 200, in place of the log of a container that was removed, as that of
# an evicted pod (kuberuntime's GetContainerLogs). A program's own line of these words has an end.
_LOG_IS_GONE = b"unable to retrieve container logs for "


class JsonCodec(NamedTuple):
    """A JSON library.

    Attributes:
        loads: parses; raises ValueError or RecursionError.
        dumps: writes.
    """

    loads: Callable[[bytes], Any]
    dumps: Callable[[Any], bytes]


STANDARD_JSON = JsonCodec(json.loads, lambda value: json.dumps(value).encode())


class Connection:
    """Sends requests; turns each failure into an ApiError."""

    def __init__(
        self,
        file: str | None,
        context: str | None,
        timeout: float,
        *,
        codec: JsonCodec = STANDARD_JSON,
        agent: str = "",
        server: str = "",
        patience: float = 0.0,
    ) -> None:
        """Create it; nothing is read or sent before the first request.

        Args:
            file: a kubeconfig; None finds it as kubectl does.
            context: a context of it; None is the current one.
            timeout: seconds that one answer may take.
            codec: what reads and writes JSON.
            agent: what the program is called in the server's logs; "" is the library's name.
            server: what the server is called in messages; "" is `where`.
            patience: seconds for which a request that the server puts off is sent again.
        """
        self._file = file
        self._context = context
        self._timeout = timeout
        self.codec = codec
        self._agent = agent
        self._server = server
        self._patience = patience
        # Until when (time.monotonic) these headers are taken for good.
        self._authorization: tuple[float, dict[str, str]] = (0.0, {})

    @cached_property
    def config(self) -> kubeconfig.Kubeconfig:
        """The kubeconfig in use."""
        return kubeconfig.find(self._file, self._context)

    @property
    def where(self) -> str:
        """The context and the server's address, for messages."""
        name = self.config.context
        host = self.settings.host
        return f"context {name} at {host}" if name else f"this pod's cluster at {host}"

    @property
    def server(self) -> str:
        """The server's name in messages."""
        return self._server or self.where

    @cached_property
    def settings(self) -> Configuration:
        """The address of the server and how to log in, as the library reads them.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
        """
        from allranks.cluster import kube_library as library

        settings = library.Configuration()
        resolved = self.config
        try:
            if resolved.in_cluster:
                library.load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=settings
                )
            else:
                library.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=os.pathsep.join(resolved.files),
                    context=resolved.context,
                    client_configuration=settings,
                )
        except (library.ConfigException, OSError, ValueError) as error:
            raise InputError(
                f"the kubeconfig cannot be used: {error}",
                hint="fetch it again from your cluster's provider",
                source=", ".join(resolved.files),
            ) from error
        settings.retries = False
        settings.keep_alive = True
        settings.connection_pool_maxsize = _SOCKETS_KEPT
        if not settings.verify_ssl:
            # The kubeconfig says so; kubectl does not repeat it at each request either.
            warnings.filterwarnings("ignore", "Unverified HTTPS request", module="urllib3")
        return settings

    @cached_property
    def _pool(self) -> PoolManager:
        """The sockets."""
        from allranks.cluster.kube_library import RESTClientObject

        return RESTClientObject(self.settings).pool_manager

    def request(
        self,
        request: ApiRequest,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        """Send a request; return the object that the server answers with.

        Args:
            request: what is asked of which resource.
            query: the query's parameters.
            body: what is sent, as JSON; None is nothing.
            content_type: of the body.
            accept: the form of the answer.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ApiError: the server refuses, or does not answer.
        """
        data = self._send(
            request,
            query,
            read_seconds=self._timeout,
            body=None if body is None else self.codec.dumps(body),
            content_type=content_type,
            accept=accept,
        ).data
        return self.decode(request, data)

    def decode(self, request: ApiRequest, data: bytes) -> Manifest:
        """The object of an answer.

        Raises:
            TooDeepError: it is nested too deep to be read.
            BusyError: it is none.
        """
        try:
            answer = self.codec.loads(data)
        except RecursionError:
            raise errors.too_deep(self.server, request) from None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise errors.not_kubernetes(self.server)
        return answer

    def read(
        self,
        request: ApiRequest,
        *,
        query: Sequence[tuple[str, str]] = (),
        accept: str = JSON,
        seconds: float | None = None,
        most: int | None = None,
    ) -> bytes:
        """Send a request; return the answer as it came.

        Args:
            request: what is asked of which resource.
            query: the query's parameters.
            accept: the form of the answer.
            seconds: how long the server may be silent; None is as for every other request.
            most: how many bytes are read; None is all.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            TooLongError: there are more than `most`.
            ApiError: the server refuses, or does not answer.
        """
        from urllib3.exceptions import HTTPError

        silence = self._timeout if seconds is None else seconds
        if most is None:
            data: bytes = self._send(request, query, read_seconds=silence, accept=accept).data
            return data
        response = self._send(request, query, read_seconds=silence, accept=accept, streamed=True)
        parts: list[bytes] = []
        length = 0
        try:
            for chunk in response.stream(_CHUNK, decode_content=True):
                parts.append(chunk)
                length += len(chunk)
                if length > most:
                    response.close()
                    raise TooLongError(f"cannot {request}: the answer has more than {most} bytes")
        except (HTTPError, OSError, ValueError) as error:
            response.close()
            raise BusyError(f"cannot {request}: the connection broke: {error}") from error
        response.release_conn()
        return b"".join(parts)

    def stream(
        self,
        request: ApiRequest,
        query: Sequence[tuple[str, str]] = (),
        *,
        silence: float | None = None,
    ) -> Any:
        """Open a stream; return urllib3's response, whose body is read as it arrives.

        Args:
            request: what is asked of which resource.
            query: the query's parameters.
            silence: seconds without a byte after which the connection is broken; None is never.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ApiError: the server refuses, or does not answer.
        """
        return self._send(request, query, read_seconds=silence, accept="*/*", streamed=True)

    def _send(
        self,
        request: ApiRequest,
        query: Sequence[tuple[str, str]],
        *,
        read_seconds: float | None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        streamed: bool = False,
    ) -> Any:
        """Send a request, again while the server puts it off; return urllib3's response.

        Thousands of these are sent: nothing is read into or out of objects of the library's.
        """
        pool = self._pool
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError, SSLError

        headers: Any = {"Accept": accept, "User-Agent": self._agent or _AGENT}
        if not streamed:
            # As client-go does: a long list is a fifteenth of its size on the way.
            headers["Accept-Encoding"] = "gzip"
        if body is not None:
            headers["Content-Type"] = content_type
        headers |= self.credentials()
        if self.config.impersonation:
            headers = self._impersonating(headers)
        marks = f"?{urlencode(query)}" if query else ""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                answer = pool.request(
                    request.method,
                    f"{self.settings.host}{request.url}{marks}",
                    body=body,
                    headers=headers,
                    timeout=Timeout(connect=min(CONNECT_SECONDS, self._timeout), read=read_seconds),
                    retries=False,
                    preload_content=not streamed,
                )
                if answer.status < HTTPStatus.BAD_REQUEST:
                    return answer
                refusal = answer.data  # of a stream it is read now
            except SSLError as error:
                raise errors.untrusted_server(self.server, error) from error
            except HTTPError as error:
                raise errors.unreachable(self.server, error) from error
            if answer.status == HTTPStatus.UNAUTHORIZED:
                self._authorization = (0.0, {})
            failure = errors.refusal(
                self.server,
                request,
                answer.status,
                refusal,
                reason=str(answer.reason or ""),
                retry_after=answer.headers.get("Retry-After", ""),
            )
            if not _is_put_off(failure, deadline):
                raise failure
            time.sleep(failure.retry_after)

    def _impersonating(self, headers: Mapping[str, str]) -> Any:
        """Headers with those of the one who is impersonated: a header for each group."""
        from urllib3 import HTTPHeaderDict

        out = HTTPHeaderDict(headers)
        for name, value in self.config.impersonation:
            # As the library writes a header: each of these characters is a byte.
            out.add(name, value.encode().decode("latin-1"))
        return out

    def credentials(self) -> dict[str, str]:
        """The headers that authenticate the user.

        The library builds a whole configuration, proxies and all, to say whether a token is still
        good: a fifth of a request's cost. It renews one minutes before its end, so seconds make no
        difference.
        """
        until, headers = self._authorization
        if time.monotonic() >= until:
            entries: Any = self.settings.auth_settings().values()
            headers = {entry["key"]: entry["value"] for entry in entries}
            self._authorization = (time.monotonic() + _CREDENTIALS_SECONDS, headers)
        return headers


def _is_put_off(error: ApiError, deadline: float) -> TypeGuard[BusyError]:
    """Whether the server has only put the request off, and its time to come back is in reach."""
    return (
        isinstance(error, BusyError)
        and error.status == HTTPStatus.TOO_MANY_REQUESTS
        and 0 < error.retry_after < deadline - time.monotonic()
    )


class Lines:
    """The lines of a stream, without their ends; another thread may close it."""

    def __init__(self, response: Any) -> None:
        """Wrap a response of `Connection.stream`."""
        self._response = response

    def __iter__(self) -> Iterator[str]:
        """Each line as it arrives, until the stream or the connection ends."""
        from urllib3.exceptions import HTTPError

        rest = b""
        try:
            for chunk in self._response.stream(_CHUNK, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
                if len(rest) > _LONGEST_LINE:
                    yield rest.decode("utf-8", "replace")
                    rest = b""
        except (HTTPError, OSError, ValueError):
            # The connection ended, or was closed here (urllib3 then reads from no file).
            pass
        finally:
            self._response.close()
        if rest and not rest.startswith(_LOG_IS_GONE):
            yield rest.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the stream; the thread that reads it sees its end."""
        try:
            self._response.shutdown()
        except (OSError, ValueError):
            self._response.close()


class Watch:
    """The changes of a list, as ``(kind, object)``: ADDED, MODIFIED, DELETED, BOOKMARK."""

    def __init__(self, response: Any) -> None:
        """Wrap a response of `Connection.stream`."""
        self._lines = Lines(response)

    def __iter__(self) -> Iterator[tuple[str, Manifest]]:
        """Each change as it arrives, until the server ends the watch.

        Raises:
            ExpiredError: the server has forgotten where the watch was.
            ToolError: the server ends it with another error.
        """
        for line in self._lines:
            event = _event(line)
            if event is None:
                return  # half a line: the connection ended in it
            kind, item = event
            if kind == "ERROR":
                if item.get("code") == _GONE:
                    raise ExpiredError("the cluster has forgotten where a watch was")
                raise ToolError(f"the cluster ended a watch: {item.get('message')}")
            yield kind, item

    def close(self) -> None:
        """Close the watch; the thread that reads it sees its end."""
        self._lines.close()


def _event(line: str) -> tuple[str, Manifest] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):  # no event, or one of an object that nobody can read
        return None
    return str(data.get("type") or ""), data.get("object") or {}

"""One connection to an API server, through the kubernetes library's dynamic client.

Only its request layer is used: no discovery (four more requests, and a cache file in the shared
temporary folder), no wrapper objects (they cost ten times the parsing of a page). The library is
imported when a cluster is first asked, because it takes 0.2 s that no other command should pay.

Every answer is bounded in time and never retried: a person waits for it. A stream (a watch, a log)
has no such bound: the system's own keep-alive notices a peer that is gone within a minute.
"""

from __future__ import annotations

import os
import time
import warnings
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from allranks.cluster import kubeconfig, refusals
from allranks.errors import InputError, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.dynamic import DynamicClient

    from allranks.cluster.refusals import Asked

CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
_CREDENTIALS_SECONDS = 5.0
_SOCKETS_KEPT = 128  # as many logs may be followed at once


class _NoDiscovery:
    """Stands in for the library's discovery: paths are known here, nothing is to be found out."""

    def __init__(self, client: object, cache_file: str | None) -> None:
        del client, cache_file


class Connection:
    """Sends requests; turns every failure into an error of ours."""

    def __init__(self, file: str | None, context: str | None, timeout: float) -> None:
        """Nothing is read or sent before the first request.

        Args:
            file: a kubeconfig; None finds it as kubectl does.
            context: a context of it; None is the current one.
            timeout: seconds that one answer may take.
        """
        self._file = file
        self._context = context
        self._timeout = (min(CONNECT_SECONDS, timeout), timeout)
        # Until when (time.monotonic) these headers are taken for good.
        self._known: tuple[float, dict[str, str]] = (0.0, {})

    @cached_property
    def config(self) -> kubeconfig.Kubeconfig:
        """The kubeconfig that is used."""
        return kubeconfig.find(self._file, self._context)

    @property
    def where(self) -> str:
        """The context and the server's address, for messages."""
        name = self.config.context
        host = self.client.configuration.host
        return f"context {name} at {host}" if name else f"this pod's cluster at {host}"

    @cached_property
    def client(self) -> DynamicClient:
        """The library's client.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
        """
        from kubernetes import client, config, dynamic  # noqa: PLC0415 - see the module's docstring

        settings = client.Configuration()
        found = self.config
        try:
            if found.in_cluster:
                config.load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=settings
                )
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=os.pathsep.join(found.files),
                    context=found.context,
                    client_configuration=settings,
                )
        except (config.ConfigException, OSError, ValueError) as error:
            raise InputError(
                f"the kubeconfig cannot be used: {error}",
                hint="fetch it again from your cluster's provider",
                source=", ".join(found.files),
            ) from error
        settings.retries = False
        settings.keep_alive = True
        settings.connection_pool_maxsize = _SOCKETS_KEPT
        if not settings.verify_ssl:
            # The kubeconfig says so; kubectl does not repeat it at each request either.
            warnings.filterwarnings("ignore", "Unverified HTTPS request", module="urllib3")
        return dynamic.DynamicClient(  # type: ignore[no-untyped-call]
            client.ApiClient(settings), discoverer=_NoDiscovery
        )

    def request(
        self,
        asked: Asked,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        content_type: str = "",
        accept: str = "",
    ) -> dict[str, Any]:
        """Send one request; return the object that the server answers with.

        Args:
            asked: the request in words, for a refusal.
            method: get, post, patch or delete.
            path: the path, without a query.
            query: the query's parameters.
            body: what is sent, as JSON.
            content_type: of the body, where it is not plain JSON.
            accept: the form of the answer, where it is not plain JSON.

        Raises:
            AllranksError: the server refuses, or does not answer.
            ExpiredError: the server has forgotten where a list was.
        """
        answer = self._send(
            asked,
            method,
            path,
            serializer=_as_is,
            query_params=list(query),
            body=body,
            content_type=content_type or None,
            header_params={"Accept": accept} if accept else {},
            _request_timeout=self._timeout,
        )
        if not isinstance(answer, dict):
            raise ToolError(
                f"{self.where} answered with something that is not Kubernetes",
                hint="check the server's address in the kubeconfig; a login page may be in between",
            )
        return answer

    def stream(self, asked: Asked, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """Open a stream; return urllib3's response, whose body comes as the server sends it.

        Raises:
            AllranksError: the server refuses, or does not answer.
            ExpiredError: the server has forgotten where a watch was.
        """
        return self._send(
            asked,
            "get",
            path,
            serialize=False,
            query_params=list(query),
            header_params={"Accept": "*/*"},
            _request_timeout=(self._timeout[0], None),
        )

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        agent: str = "",
        seconds: float | None = None,
        streamed: bool = False,
    ) -> Any:
        """Send one request; return urllib3's answer, whatever its status.

        For a program that goes by the status and sends thousands: nothing is read into or out of
        objects of the library's.

        Args:
            method: GET, POST, PATCH or DELETE.
            path: the path, without a query.
            query: the query's parameters.
            body: what is sent.
            content_type: of the body.
            accept: the form of the answer.
            agent: what the program is called in the server's logs.
            seconds: how long it may be silent; None is as for every other request.
            streamed: its body is read by the caller, as it comes.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the server does not answer.
        """
        library = self.client.client
        settings = library.configuration
        from urllib3 import Timeout  # noqa: PLC0415 - with the library, lazily
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

        headers = {"Accept": accept, "User-Agent": agent or library.user_agent}
        if body is not None:
            headers["Content-Type"] = content_type
        headers |= self._credentials()
        marks = f"?{urlencode(query)}" if query else ""
        connect, read = self._timeout
        try:
            answer = library.rest_client.pool_manager.request(
                method,
                f"{settings.host}{path}{marks}",
                body=body,
                headers=headers,
                timeout=Timeout(connect=connect, read=seconds or read),
                retries=False,
                preload_content=not streamed,
            )
        except HTTPError as error:
            raise refusals.unreachable(self.where, error) from error
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._known = (0.0, {})
        return answer

    def _credentials(self) -> dict[str, str]:
        """The headers that say who asks.

        The library builds a whole configuration, proxies and all, to say whether a token is still
        good: a fifth of a request's cost. It renews one minutes before its end, so seconds make no
        difference.
        """
        until, headers = self._known
        if time.monotonic() >= until:
            settings = self.client.client.configuration
            found = settings.auth_settings().values()
            headers = {one["key"]: one["value"] for one in found}
            self._known = (time.monotonic() + _CREDENTIALS_SECONDS, headers)
        return headers

    def _send(self, asked: Asked, method: str, path: str, **params: Any) -> Any:
        client = self.client
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - lazily, as above
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - lazily, as above

        try:
            return client.request(method, path, **params)
        except ApiException as error:
            if error.status == refusals.GONE:
                raise refusals.ExpiredError from error
            said = (error.status or 0, str(error.body or ""), str(error.reason or ""))
            raise refusals.refusal(self.where, asked, *said) from error
        except HTTPError as error:
            raise refusals.unreachable(self.where, error) from error
        except RecursionError:
            raise ToolError(
                f"cannot {asked}: {self.where} has an object that is nested too deep to be read",
                hint="somebody has made it so: find it with kubectl, and delete it",
            ) from None


def _as_is(_client: object, data: Any) -> Any:
    """Keep the answer as plain data."""
    return data

"""The live cluster through the kubernetes library's dynamic client.

Only its request layer is used: no discovery (four more requests, and a cache file in the shared
temporary folder), no wrapper objects (they cost ten times the parsing of a page). The library is
imported when a cluster is first asked, because it takes 0.2 s that no other command should pay.

Every answer is bounded in time and never retried: a person waits for it. Lists come in pages, so
that a cluster of any size is asked gently.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from allranks.cluster import kubeconfig
from allranks.cluster.inventory import from_objects
from allranks.errors import InputError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.dynamic import DynamicClient

    from allranks.model.inventory import Inventory
    from allranks.model.manifest import Manifest

_PAGE = 500
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 20.0
# A continue token lives about five minutes; a list that outlives two of them will not end well.
_LIST_ATTEMPTS = 2
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_UNAUTHORIZED, _FORBIDDEN, _GONE = 401, 403, 410


class _NoDiscovery:
    """Stands in for the library's discovery: paths are known here, nothing is to be found out."""

    def __init__(self, client: object, cache_file: str | None) -> None:
        del client, cache_file


class KubeCluster:
    """A cluster of a kubeconfig; see `allranks.cluster.port.Cluster`."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        timeout: float = _READ_SECONDS,
    ) -> None:
        """Nothing is read or sent before the first question.

        Args:
            kubeconfig: a file; None finds it as kubectl does.
            context: a context of it; None is the current one.
            timeout: seconds that one answer may take.
        """
        self._file = kubeconfig
        self._context = context
        self._timeout = (min(_CONNECT_SECONDS, timeout), timeout)

    @property
    def where(self) -> str:
        """The context and the server's address, for messages."""
        name = self._config.context
        host = self._client.configuration.host
        return f"context {name} at {host}" if name else f"this pod's cluster at {host}"

    def inventory(self, gpu_resource: str) -> Inventory:
        """All nodes with what is free on them now.

        Args:
            gpu_resource: the extended resource that counts as a GPU.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer, or forbids listing nodes or pods.
        """
        nodes = self._list("nodes", "/api/v1/nodes")
        pods = self._list("pods", "/api/v1/pods", field_selector=_LIVE_PODS)
        return from_objects(nodes, pods, gpu_resource, source=self.where)

    def version(self) -> str:
        """The API server's version.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer.
        """
        answer = self._request("get", "version", "get", "/version")
        return str(answer.get("gitVersion") or "unknown")

    def may(self, verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
        """Whether the user may do this, asked of the server itself.

        Args:
            verb: the verb, such as create.
            resource: the resource, in the plural.
            group: its API group; "" is the core group.
            namespace: the namespace; "" is the whole cluster.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer.
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": verb,
                    "resource": resource,
                    "group": group,
                    "namespace": namespace,
                }
            },
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self._request("create", "selfsubjectaccessreviews", "post", path, body=review)
        return bool((answer.get("status") or {}).get("allowed"))

    @cached_property
    def _config(self) -> kubeconfig.Kubeconfig:
        return kubeconfig.find(self._file, self._context)

    @cached_property
    def _client(self) -> DynamicClient:
        from kubernetes import client, config, dynamic  # noqa: PLC0415 - see the module's docstring

        settings = client.Configuration()
        found = self._config
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
        if not settings.verify_ssl:
            # The kubeconfig says so; kubectl does not repeat it at each request either.
            warnings.filterwarnings("ignore", "Unverified HTTPS request", module="urllib3")
        return dynamic.DynamicClient(  # type: ignore[no-untyped-call]
            client.ApiClient(settings), discoverer=_NoDiscovery
        )

    def _list(self, resource: str, path: str, **query: str) -> list[Manifest]:
        """All objects of a list, page by page; begun again where the server forgot its place."""
        for _ in range(_LIST_ATTEMPTS):
            try:
                return list(self._pages(resource, path, **query))
            except _ExpiredError:
                continue
        raise ToolError(
            f"{self.where}: the list of {resource} expired twice while it was read",
            hint="try again; the API server is very busy",
        )

    def _pages(self, resource: str, path: str, **query: str) -> Iterator[Manifest]:
        token: str | None = None
        while True:
            page = self._request(
                "list", resource, "get", path, limit=_PAGE, _continue=token, **query
            )
            yield from page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return

    def _request(
        self, verb: str, resource: str, method: str, path: str, **params: Any
    ) -> dict[str, Any]:
        client = self._client
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - lazily, as above
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - lazily, as above

        try:
            answer = client.request(
                method, path, serializer=_as_is, _request_timeout=self._timeout, **params
            )
        except ApiException as error:
            self._refuse(error, verb, resource)
        except HTTPError as error:
            raise ToolError(
                f"{self.where} does not answer: {_cause(error)}",
                hint="check the address, the network and the VPN",
            ) from error
        if not isinstance(answer, dict):
            raise ToolError(
                f"{self.where} answered with something that is not Kubernetes",
                hint="check the server's address in the kubeconfig; a login page may be in between",
            )
        return answer

    def _refuse(self, error: Any, verb: str, resource: str) -> NoReturn:
        """Turn a refusal of the API server into an error of ours."""
        said = _said(error)
        if error.status == _GONE:
            raise _ExpiredError from error
        if error.status == _UNAUTHORIZED:
            raise ToolError(
                f"{self.where} does not accept the credentials: {said}",
                hint="log in to the cluster again",
            ) from error
        if error.status == _FORBIDDEN:
            raise ToolError(
                f"{self.where} forbids to {verb} {resource}: {said}",
                hint=f"ask for a ClusterRole with {verb} on {resource}, or have somebody who may "
                "make the file for --inventory",
            ) from error
        if not error.status:
            raise ToolError(
                f"the connection to {self.where} is not trusted: {said}",
                hint="check certificate-authority in the kubeconfig",
            ) from error
        raise ToolError(
            f"{self.where} failed to {verb} {resource} with status {error.status}: {said}",
            hint="try again; if it stays, ask who runs the cluster",
        ) from error


class _ExpiredError(Exception):
    """The server has forgotten where a list was."""


def _as_is(_client: object, data: Any) -> Any:
    """Keep the answer as plain data."""
    return data


def _said(error: Any) -> str:
    """The message of the Status object in the answer, or the best there is."""
    try:
        message = json.loads(error.body or "").get("message")
    except (ValueError, AttributeError):
        message = None
    lines = str(message or error.reason or "no reason given").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def _cause(error: Exception) -> str:
    """The last clause of the library's message: the others are its own objects."""
    text = str(error)
    if "timed out" in text.lower():
        return "it timed out"
    return re.sub(r"^\[Errno -?\d+\] ", "", text.rsplit(": ", maxsplit=1)[-1].strip(" )'\""))

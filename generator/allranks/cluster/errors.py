"""Turn the API server's refusals into our errors; pure.

Each says in one sentence what was asked, what the server said, and the next step: a missing right
names the verb and the resource, a missing object its namespace, a rejected object its fields. Its
class says how a program goes on; they stand in `allranks.errors`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from allranks.cluster import paths
from allranks.errors import (
    ApiError,
    BusyError,
    ConflictError,
    ExistsError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    QuotaError,
    RefusedError,
    RejectedError,
    TerminatingError,
    TooDeepError,
)
from allranks.k8s import grants, namespaces

_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _GONE = 400, 401, 403, 404, 409, 410
_INVALID, _TOO_MANY, _FAULT = 422, 429, 500
_EXISTS = "AlreadyExists"
_QUOTA = "exceeded quota"
_POLICY = "ValidatingAdmissionPolicy '"
# What commands list in one namespace, or with -A in all of them.
_IN_NAMESPACES = frozenset(
    {
        paths.CONFIG_MAPS,
        paths.ELASTIC_JOBS,
        paths.JOBS,
        paths.PODS,
        paths.SECRETS,
        paths.STATEFUL_SETS,
    }
)
_TERMINATING = "because it is being terminated"
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
    "update": "PUT",
    "delete": "DELETE",
}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request's verb, resource, namespace and name.

    Attributes:
        verb: as rights name it: ``list``, ``create``, ``get``.
        resource_path: see `allranks.cluster.paths`; a subresource follows the plural.
        namespace: "" is the whole cluster.
        name: of the one object; "" is all.
    """

    verb: str
    resource_path: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """The request as a person reads it: ``list pods in namespace research``."""
        name = f" {self.name}" if self.name else ""
        inside = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {paths.kubectl_name(self.resource_path)}{name}{inside}"

    @property
    def method(self) -> str:
        """The HTTP method of its verb."""
        return _METHODS[self.verb]

    @property
    def url(self) -> str:
        """The path on the server, without a query."""
        return paths.url(self.resource_path, self.namespace, self.name)


def refusal(
    server: str,
    request: ApiRequest,
    status: int,
    body: bytes | str,
    *,
    reason: str = "",
    retry_after: str = "",
) -> ApiError:
    """The error for an answer that is no success.

    Args:
        server: the cluster, for the message.
        request: the request.
        status: the HTTP status.
        body: the answer.
        reason: the best that is known where the answer says nothing.
        retry_after: the header of that name.
    """
    data = _status(body)
    text = str(data.get("message") or reason or "no reason given").strip()
    granting = grants.missing_rights(text)
    # A message of several lines ends with its verdict.
    message = granting or short(text.splitlines()[-1] if text else "no reason given")
    about: dict[str, Any] = {
        "status": status,
        "reason": str(data.get("reason") or ""),
        "detail": granting or short(text),
    }
    if status == _FORBIDDEN:
        return _forbidden(server, request, message, about)
    if status == _NOT_FOUND:
        return _not_found(server, request, data, message, about)
    if status in {_INVALID, _BAD_REQUEST}:
        return RejectedError(
            f"{server} does not {request}: {message}",
            causes=_causes(data),
            hint="correct what is named; `allranks render` shows the whole object",
            **about,
        )
    return _request_error(server, request, message, retry_after, about)


def _request_error(
    server: str, request: ApiRequest, message: str, retry_after: str, about: dict[str, Any]
) -> ApiError:
    """The error for a request that says nothing wrong of itself."""
    status: int = about["status"]
    # A token may be about to be renewed: that is no verdict on the request.
    if status == _UNAUTHORIZED:
        return BusyError(
            f"cannot {request}: {server} does not accept the credentials: {message}",
            hint="log in to the cluster again",
            **about,
        )
    sentence = f"{server} failed to {request} with status {status}: {message}"
    about["hint"] = "try again; if it stays, ask who runs the cluster"
    if status == _TOO_MANY or status >= _FAULT:
        return BusyError(sentence, retry_after=_seconds(retry_after), **about)
    if status == _CONFLICT and about["reason"] == _EXISTS:
        return ExistsError(sentence, **about)
    kinds: dict[int, type[ApiError]] = {_CONFLICT: ConflictError, _GONE: ExpiredError}
    return kinds.get(status, RefusedError)(sentence, **about)


def _forbidden(server: str, request: ApiRequest, message: str, about: dict[str, Any]) -> ApiError:
    if _QUOTA in message:
        return QuotaError(
            f"cannot {request}: the quota of namespace {request.namespace} forbids it: {message}",
            hint="ask for less, end another run, or have the quota raised",
            **about,
        )
    sentence = f"{server} forbids to {request}: {_remove_request(message, request)}"
    if _TERMINATING in message:
        return TerminatingError(
            sentence, hint="wait until the namespace is gone, or pass another with -n", **about
        )
    if _POLICY in message:
        return ForbiddenError(
            sentence,
            hint="change what the message names, or ask who keeps this policy; no Role allows it",
            **about,
        )
    return ForbiddenError(sentence, hint=right(request), **about)


# What the server's authorizer says, which repeats the request.
_LACKING = re.compile(
    r"\S+(?: \S+)? is forbidden: User (?P<user>\"[^\"]*\") cannot (?P<verb>\S+) resource \S+"
    r" in API group \"[^\"]*\""
    r"(?: in the namespace \"[^\"]*\"| at the cluster scope)(?P<why>: .+)?"
)


def _remove_request(message: str, request: ApiRequest) -> str:
    match = _LACKING.search(message)
    if match is None or match["verb"] != request.verb:  # the connection of `exec` is a get as well
        return message
    lacking = f"user {match['user']} has no such right{match['why'] or ''}"
    return message[: match.start()] + lacking + message[match.end() :]


def right(request: ApiRequest) -> str:
    """The right that is missing, as a sentence to pass on."""
    permission = f"{request.verb} on {paths.kubectl_name(request.resource_path)}"
    if request.namespace:
        return (
            f"ask for a Role with {permission} in namespace {request.namespace}; "
            "docs/guides/cluster.md has a whole one"
        )
    if paths.plural(request.resource_path) == "nodes":
        other = ", or have somebody who may make the file for --inventory"
    elif request.resource_path in _IN_NAMESPACES:
        other = ", or name a namespace with -n"
    else:
        other = ""
    return f"ask for a ClusterRole with {permission}{other}"


def _not_found(
    server: str, request: ApiRequest, data: dict[str, Any], message: str, about: dict[str, Any]
) -> ApiError:
    details = data.get("details") or {}
    if details.get("kind") == "namespaces":
        return namespace_missing(str(details.get("name") or request.namespace), **about)
    if not details.get("name"):
        # The server does not know the resource itself.
        return NotFoundError(
            f"cannot {request}: {server} has no "
            f"{paths.kubectl_name(request.resource_path)}: {message}",
            hint="it is an extension: ask who runs the cluster to install it",
            **about,
        )
    inside = f" in namespace {request.namespace}" if request.namespace else ""
    kind = ".".join(str(details[key]) for key in ("kind", "group") if details.get(key))
    return NotFoundError(f"there is no {kind} {details['name']}{inside}", **about)


def namespace_missing(name: str, **about: Any) -> NotFoundError:
    """The error for a namespace that is not there.

    Args:
        name: the namespace.
        about: of the server's answer, where it gave one; see `ApiError`.
    """
    return NotFoundError(
        f"there is no namespace {name!r}",
        hint=namespaces.hint(name),
        **about,
    )


def _status(body: bytes | str) -> dict[str, Any]:
    """The Status object of an answer; {} where it is none."""
    try:
        data = json.loads(body or "{}")
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _causes(data: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    causes = (data.get("details") or {}).get("causes") or ()
    return tuple(
        (str(cause.get("field") or ""), short(str(cause.get("message") or ""))) for cause in causes
    )


def short(message: str) -> str:
    """A message without the whole objects that Kubernetes quotes in it."""
    if (start := message.find("{")) >= 0 and (end := message.rfind("}")) > start:
        message = f"{message[:start]}…{message[end + 1 :]}"
    return message


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0


def too_deep(server: str, request: ApiRequest) -> TooDeepError:
    """The error for an answer that no parser reads."""
    return TooDeepError(
        f"cannot {request}: {server} has an object that is nested too deep to be read",
        hint="somebody has made it so: find it with kubectl, and delete it",
    )


def not_kubernetes(server: str) -> BusyError:
    """The error for an answer that is no object, as a login page is."""
    return BusyError(
        f"{server} answered with something that is not Kubernetes",
        hint="check the server's address in the kubeconfig; a login page may be in between",
    )


def untrusted_server(server: str, error: Exception) -> BusyError:
    """The error for a server whose certificate is not trusted."""
    return BusyError(
        f"the connection to {server} is not trusted: {_cause(error)}",
        hint="check certificate-authority in the kubeconfig",
    )


def unreachable(server: str, error: Exception) -> BusyError:
    """The error for a server that does not answer."""
    return BusyError(
        f"{server} does not answer: {_cause(error)}",
        hint="check the address, the network and the VPN",
    )


def _cause(error: Exception) -> str:
    """The last clause of the library's message: the others are its own objects."""
    text = str(error)
    if "timed out" in text.lower():
        return "it timed out"
    return re.sub(r"^\[Errno -?\d+\] ", "", text.rsplit(": ", maxsplit=1)[-1].strip(" )'\""))

"""What the API server's refusals mean, as our own errors; pure.

Each says in one sentence what was asked, what the server said, and the next step: a missing right
names the verb and the resource, a missing object its namespace, a rejected object its fields.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from allranks.cluster import paths
from allranks.errors import (
    AllranksError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    RunError,
    ToolError,
)
from allranks.model import grants

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE, INVALID = 401, 403, 404, 409, 410, 422
_BAD_REQUEST = 400
_QUOTA = "exceeded quota"


class ExpiredError(Exception):
    """The server has forgotten where a list or a watch was; not for a person."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of the server.

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
        one = f" {self.name}" if self.name else ""
        inside = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {paths.spoken(self.resource_path)}{one}{inside}"


def refusal(where: str, asked: Asked, status: int, body: str, reason: str) -> AllranksError:
    """The error for an answer that is none.

    Args:
        where: the cluster, for the message.
        asked: the request.
        status: the HTTP status; 0 where no answer came.
        body: the answer's text.
        reason: the best there is beside it.
    """
    data = _status(body)
    said = _said(data, reason)
    if not status:
        return ToolError(
            f"the connection to {where} is not trusted: {said}",
            hint="check certificate-authority in the kubeconfig",
        )
    if status in {UNAUTHORIZED, FORBIDDEN}:
        return _not_allowed(where, asked, status, said)
    if status == NOT_FOUND:
        return _not_found(where, asked, data, said)
    if status in {INVALID, _BAD_REQUEST}:
        return RejectedError(
            f"{where} does not {asked}: {said}",
            causes=_causes(data),
            hint="correct what is named; `allranks render` shows the whole object",
        )
    kind = ConflictError if status == CONFLICT else ToolError
    return kind(
        f"{where} failed to {asked} with status {status}: {said}",
        hint="try again; if it stays, ask who runs the cluster",
    )


def _not_allowed(where: str, asked: Asked, status: int, said: str) -> AllranksError:
    if status == UNAUTHORIZED:
        return ToolError(
            f"{where} does not accept the credentials: {said}",
            hint="log in to the cluster again",
        )
    if _QUOTA in said:
        return RunError(
            f"the quota of namespace {asked.namespace} forbids it: {said}",
            hint="ask for less, end another run, or have the quota raised",
        )
    return ForbiddenError(f"{where} forbids to {asked}: {said}", hint=right(asked))


def right(asked: Asked) -> str:
    """The right that is missing, as a sentence to pass on."""
    what = f"{asked.verb} on {paths.spoken(asked.resource_path)}"
    if asked.namespace:
        return (
            f"ask for a Role with {what} in namespace {asked.namespace}; "
            "docs/guides/cluster.md has a whole one"
        )
    return (
        f"ask for a ClusterRole with {what}, or have somebody who may make the file for --inventory"
    )


def _not_found(where: str, asked: Asked, data: dict[str, Any], said: str) -> AllranksError:
    details = data.get("details") or {}
    if details.get("kind") == "namespaces":
        return namespace_missing(str(details.get("name") or asked.namespace))
    if not details.get("name"):
        # The server does not know the resource itself.
        return NotFoundError(
            f"{where} has no {paths.spoken(asked.resource_path)}: {said}",
            hint="it is an extension: ask who runs the cluster to install it",
        )
    inside = f" in namespace {asked.namespace}" if asked.namespace else ""
    kind = ".".join(str(details[key]) for key in ("kind", "group") if details.get(key))
    return NotFoundError(f"there is no {kind} {details['name']}{inside}")


def namespace_missing(name: str) -> NotFoundError:
    """The error for a namespace that is not there."""
    return NotFoundError(
        f"there is no namespace {name!r}",
        hint=f"kubectl create namespace {name}, or pass another with -n",
    )


def _status(body: str) -> dict[str, Any]:
    """The Status object of an answer; {} where it is none."""
    try:
        data = json.loads(body or "")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _said(data: dict[str, Any], reason: str) -> str:
    message = str(data.get("message") or reason or "no reason given")
    if (granting := grants.refused(message)) is not None:
        return granting
    lines = message.strip().splitlines()
    return short(lines[-1]) if lines else "no reason given"


def _causes(data: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    causes = (data.get("details") or {}).get("causes") or ()
    return tuple(
        (str(one.get("field") or ""), short(str(one.get("message") or ""))) for one in causes
    )


def short(message: str) -> str:
    """A message without the whole objects that Kubernetes quotes in it."""
    if (start := message.find("{")) >= 0 and (end := message.rfind("}")) > start:
        message = f"{message[:start]}…{message[end + 1 :]}"
    return message


def unreachable(where: str, error: Exception) -> ToolError:
    """The error for a server that does not answer."""
    return ToolError(
        f"{where} does not answer: {_cause(error)}",
        hint="check the address, the network and the VPN",
    )


def _cause(error: Exception) -> str:
    """The last clause of the library's message: the others are its own objects."""
    text = str(error)
    if "timed out" in text.lower():
        return "it timed out"
    return re.sub(r"^\[Errno -?\d+\] ", "", text.rsplit(": ", maxsplit=1)[-1].strip(" )'\""))

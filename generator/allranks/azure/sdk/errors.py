"""What Azure answers, as errors of ours with the way out."""

from __future__ import annotations

import email.utils
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from allranks.errors import (
    AllranksError,
    BusyError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    QuotaError,
    RefusedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_TIMEOUT, _CONFLICT, _PRECONDITION, _BUSY, _SERVER = 408, 409, 412, 429, 500
_QUOTA = ("quota", "QuotaExceeded", "Insufficient", "SkuNotAvailable", "ZonalAllocationFailed")
_MEND = "mend azure.yaml, and ask again"
# What asking again does not mend, whatever its status, and what does.
_PERMANENT = {
    "StorageAccountAlreadyTaken": _MEND,
    "AccountNameInvalid": _MEND,
    "InvalidResourceGroupLocation": "write the region of the group that is there, or name another",
    "ScopeLocked": (
        "somebody has locked it: `az lock list` shows the locks and `az lock delete` removes one; "
        "then give the same command again"
    ),
    "ReadOnlyDisabledSubscription": (
        "have the subscription enabled by its owner, in the portal under Subscriptions; or name "
        "another"
    ),
    "RequestDisallowedByPolicy": (
        "ask who owns the policy for an exemption, or write what it asks for into azure.yaml"
    ),
}
# The role for a provider's own things, where it is less than Contributor.
_ROLES = {
    "Microsoft.ContainerService": "Azure Kubernetes Service Contributor Role",
    "Microsoft.Storage": "Storage Account Contributor",
}
_ACTION = re.compile(r"perform action '([^']+)'")
_OBJECT = re.compile(r"object id '([^']+)'")
_SCOPE = re.compile(r"over scope '([^']+)'")
_GROUP = re.compile(r"/subscriptions/[^/']+/resourceGroups/[^/']+", re.IGNORECASE)
_WRONG_TENANT = "InvalidAuthenticationTokenTenant"
_TENANT = re.compile(r"match the tenant '[^']*?([0-9a-f-]{36})")
_LOGIN = "log in with `az login`, or write login: deviceCode, which needs no other program"
_NO_LOGIN = (
    "no variables of a service principal are set, there is no workload or managed identity, and "
    "nobody has logged in with `az login`"
)
# A line of azure-identity's about a way to log in, and those that are merely not there.
_WAY = re.compile(r"(?m)^\s*(\w+)Credential: (.+)$")
_ABSENT = re.compile(
    r"unavailable|not (fully )?configured|not installed|not found|could not be found|requires the",
    re.IGNORECASE,
)
_DETAIL_MAX = 600


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Within the block, an error of an SDK is raised as one of ours.

    Args:
        action: what is asked, as the end of the sentence "Azure …": ``make cluster demo``.
    """
    try:
        yield
    except HttpResponseError as error:
        raise response_error(action, error) from error
    except (ServiceRequestError, ServiceResponseError) as error:
        raise BusyError(
            f"Azure does not answer when asked to {action}: {_line(error.message)}",
            hint="check the network, a proxy, and https://status.azure.com",
        ) from error
    except AzureError as error:
        raise RefusedError(f"Azure's SDK cannot {action}: {_line(error.message)}") from error


def response_error(action: str, error: HttpResponseError) -> AllranksError:  # noqa: PLR0911 - a class each
    """The error of an answer.

    Args:
        action: what was asked.
        error: the SDK's own.
    """
    status = error.status_code or 0
    code, detail = parts(error)
    about: dict[str, Any] = {"status": status, "reason": code, "detail": detail}
    if isinstance(error, ClientAuthenticationError) and status != _UNAUTHORIZED:
        return login_error(str(error.message))
    if code == _WRONG_TENANT or code in _PERMANENT:
        hint = _PERMANENT.get(code) or _other_tenant(detail)
        return RefusedError(f"Azure does not {action}: {detail}", hint=hint, **about)
    if status == _UNAUTHORIZED:
        return BusyError(
            f"Azure does not take the login when asked to {action}: {detail}", hint=_LOGIN, **about
        )
    if status == _FORBIDDEN and not _is_quota(code, detail):
        return ForbiddenError(f"you may not {action}: {detail}", hint=_role(detail), **about)
    if status == _NOT_FOUND:
        return NotFoundError(f"Azure cannot {action}: {detail}", hint=_missing(code), **about)
    if status in (_TIMEOUT, _BUSY) or status >= _SERVER:
        return BusyError(
            f"Azure puts off the request to {action} ({status}): {detail}",
            retry_after=_retry_after(error),
            hint="ask again later",
            **about,
        )
    if _is_quota(code, detail):
        return QuotaError(
            f"Azure does not {action}: {detail}",
            hint="ask for more in the portal under Quotas, or choose another size or region",
            **about,
        )
    if status in (_CONFLICT, _PRECONDITION):
        return ConflictError(
            f"Azure does not {action} now: {detail}",
            hint="something else goes on with it; ask again when that is over",
            **about,
        )
    return RefusedError(f"Azure does not {action}: {detail}", hint=_MEND, **about)


def login_error(detail: str) -> InputError:
    """The error of somebody who is not logged in.

    Args:
        detail: why, as azure-identity says it: a line for each way that it has tried.
    """
    ways = _WAY.findall(detail)
    if ways:
        tried = [f"{name}: {_line(why)}" for name, why in ways if not _ABSENT.search(why)]
        reason = "; ".join(tried) or _NO_LOGIN
    else:
        reason = _line(detail.partition("Visit https://")[0])
    return InputError(f"there is no login to Azure: {reason}", hint=_LOGIN)


def _other_tenant(detail: str) -> str:
    tenant = _TENANT.search(detail)
    return f"`az login --tenant {tenant[1] if tenant else 'ID'}`: the subscription is of that one"


def parts(error: HttpResponseError) -> tuple[str, str]:
    """The code and the sentence of an answer, of the innermost error that says something."""
    node: Any = error.error
    code = detail = ""
    while node is not None:
        code = getattr(node, "code", None) or code
        detail = getattr(node, "message", None) or detail
        details = getattr(node, "details", None) or [None]
        node = details[0]
    return str(code), _line(detail or error.message or error.reason or "no reason given")


def _line(text: object) -> str:
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= _DETAIL_MAX else f"{line[: _DETAIL_MAX - 1]}…"


def _is_quota(code: str, detail: str) -> bool:
    return any(word.lower() in f"{code} {detail}".lower() for word in _QUOTA)


def _role(detail: str) -> str:
    """Which role is missing and where, from the action and the scope that the sentence names."""
    action, scope = (
        match[1] if (match := pattern.search(detail)) else "" for pattern in (_ACTION, _SCOPE)
    )
    group = _GROUP.match(scope)
    provider, _, rest = action.partition("/")
    makes_group = rest == "subscriptions/resourceGroups/write"  # so there may be none yet
    role = "Contributor"
    if rest.endswith("/read"):
        role = "Reader"
    elif group and not makes_group:
        role = _ROLES.get(provider, role)
    roles = role if role == "Contributor" else f"{role}, or Contributor,"
    place = "/".join(scope.split("/")[:3]) or "/subscriptions/ID"
    words = "the subscription"
    if group and not makes_group:
        place, words = group[0], f"resource group {group[0].rpartition('/')[2]}"
    who = match[1] if (match := _OBJECT.search(detail)) else "WHO"
    return (
        f"ask an owner of the subscription for the role {roles} on {words}: "
        f"`az role assignment create --role '{role}' --assignee {who} --scope {place}`"
    )


def _missing(code: str) -> str:
    if code == "SubscriptionNotFound":
        return "mend `subscription`: `az account list` shows those that you may use"
    return "check the name, or ask again in a minute"


def _retry_after(error: HttpResponseError) -> float:
    headers: Mapping[str, str] = getattr(error.response, "headers", None) or {}
    millis = headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms")
    if millis and millis.isdigit():
        return int(millis) / 1000
    text = headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    moment = email.utils.parsedate_tz(text) if text else None
    if moment is None:
        return 0.0
    base = email.utils.parsedate_tz(headers.get("Date", ""))
    start = email.utils.mktime_tz(base) if base is not None else time.time()
    return max(0.0, email.utils.mktime_tz(moment) - start)

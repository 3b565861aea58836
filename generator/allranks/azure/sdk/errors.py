"""What Azure answers, as errors of ours with the way out."""

from __future__ import annotations

import email.utils
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
# Conflicts that asking again does not mend.
_TAKEN = ("StorageAccountAlreadyTaken", "AccountNameInvalid")
_SCOPES = {
    "Microsoft.ContainerService": "Azure Kubernetes Service Contributor Role",
    "Microsoft.Storage": "Storage Account Contributor",
    "Microsoft.Resources": "Contributor",
    "Microsoft.Compute": "Reader",
}
_LOGIN = "log in with `az login`, or write login: deviceCode, which needs no other program"
_DETAIL_MAX = 600


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Within the block, an error of an SDK is raised as one of ours.

    Args:
        what: what is asked, as the end of the sentence "Azure …": ``make cluster demo``.
    """
    try:
        yield
    except HttpResponseError as error:
        raise of_response(what, error) from error
    except (ServiceRequestError, ServiceResponseError) as error:
        raise BusyError(
            f"Azure does not answer when asked to {what}: {_line(error.message)}",
            hint="check the network, a proxy, and https://status.azure.com",
        ) from error
    except AzureError as error:
        raise RefusedError(f"Azure's SDK cannot {what}: {_line(error.message)}") from error


def of_response(what: str, error: HttpResponseError) -> AllranksError:  # noqa: PLR0911 - a class each
    """The error of an answer.

    Args:
        what: what was asked.
        error: the SDK's own.
    """
    status = error.status_code or 0
    code, detail = parts(error)
    about: dict[str, Any] = {"status": status, "reason": code, "detail": detail}
    if isinstance(error, ClientAuthenticationError) and status != _UNAUTHORIZED:
        return login_error(_line(error.message))
    if status == _UNAUTHORIZED:
        return BusyError(
            f"Azure does not take the login when asked to {what}: {detail}", hint=_LOGIN, **about
        )
    if status == _FORBIDDEN and not _is_quota(code, detail):
        return ForbiddenError(f"you may not {what}: {detail}", hint=_role(detail), **about)
    if status == _NOT_FOUND:
        return NotFoundError(f"Azure cannot {what}: {detail}", hint=_missing(code), **about)
    if status in (_TIMEOUT, _BUSY) or status >= _SERVER:
        return BusyError(
            f"Azure puts off the request to {what} ({status}): {detail}",
            retry_after=_retry_after(error),
            hint="ask again later",
            **about,
        )
    if _is_quota(code, detail):
        return QuotaError(
            f"Azure does not {what}: {detail}",
            hint="ask for more in the portal under Quotas, or choose another size or region",
            **about,
        )
    if status in (_CONFLICT, _PRECONDITION) and code not in _TAKEN:
        return ConflictError(
            f"Azure does not {what} now: {detail}",
            hint="something else goes on with it; ask again when that is over",
            **about,
        )
    return RefusedError(
        f"Azure does not {what}: {detail}", hint="mend azure.yaml, and ask again", **about
    )


def login_error(detail: str) -> InputError:
    """The error of somebody who is not logged in.

    Args:
        detail: why.
    """
    return InputError(f"there is no login to Azure: {detail}", hint=_LOGIN)


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
    """Which role is missing, from the action that the sentence names."""
    role = next((name for scope, name in _SCOPES.items() if scope.lower() in detail.lower()), "")
    wanted = f"{role}, or Contributor," if role and role != "Contributor" else "Contributor"
    return (
        f"ask an owner of the subscription for the role {wanted} on the resource group, or on the "
        "subscription where the group is not made yet"
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

"""What a refusal of the API server means for a program that will ask again; pure.

A person wants a sentence (`allranks.cluster.refusals`); the watcher wants to know what to do next.
So each class here is a way to go on:

    GoneError        the object is not there (404): look again, the world has moved on
    ExistsError      something of this name is there already (409 on create)
    ConflictError    it was changed by somebody else meanwhile (409): read it and look again at once
    ExpiredError     the server forgot where a list or a watch was (410): list anew
    TooLongError     an answer is longer than is read: ask for less at once
    QuotaError       a quota forbids it (403): say so, and try later
    BusyError        too many requests, a fault of the server, or no answer: later, and calmly
    RefusedError     it will not be taken as it is (400, 403, 422): say so, and try rarely
"""

from __future__ import annotations

import json
from typing import Any

from allranks.cluster.refusals import (
    CONFLICT,
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    UNAUTHORIZED,
    short,
)
from allranks.errors import RunError
from allranks.model import grants

_QUOTA = "exceeded quota"
_EXISTS = "AlreadyExists"
_TOO_MANY, _FAULT = 429, 500
# A namespace that is being removed takes nothing new; the objects go with it.
_ENDING = "because it is being terminated"


class ApiError(RunError):
    """The API server did not do what was asked.

    Attributes:
        status: the HTTP status; 0 where no answer came.
        reason: the server's word for it, as `AlreadyExists`.
        said: the server's own sentence.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.said = said


class GoneError(ApiError):
    """What was named is not there."""


class ExistsError(ApiError):
    """Something of that name is there already."""


class ConflictError(ApiError):
    """Somebody else has changed it, or it is another object of the same name."""


class ExpiredError(ApiError):
    """The server has forgotten where a list or a watch was."""


class BusyError(ApiError):
    """The server cannot now; the same request may succeed later.

    Attributes:
        after: seconds that the server wants to be left alone; 0 where it does not say.
    """

    def __init__(self, message: str, *, after: float = 0.0, **about: Any) -> None:
        super().__init__(message, **about)
        self.after = after


class TooLongError(ApiError):
    """A page of a list is longer than is read: the same in smaller pages."""


class QuotaError(ApiError):
    """A quota of the namespace is used up."""


class RefusedError(ApiError):
    """The server does not take it as it is, or does not let us."""


_CLASSES: dict[int, type[ApiError]] = {
    NOT_FOUND: GoneError,
    CONFLICT: ConflictError,
    GONE: ExpiredError,
}


def of_answer(asked: str, status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error for an answer that is none.

    Args:
        asked: the request in words, as `create pods in namespace research`.
        status: the HTTP status.
        body: the answer.
        retry_after: the header of that name.
    """
    data = _object(body)
    told = str(data.get("message") or "").strip()
    said = grants.refused(told) or short(told) or f"status {status}"
    reason = str(data.get("reason") or "")
    about: dict[str, Any] = {"status": status, "reason": reason, "said": said}
    message = f"the API server refused to {asked}: {said}"
    if status == CONFLICT and reason == _EXISTS:
        return ExistsError(message, **about)
    if status == FORBIDDEN and _QUOTA in said:
        return QuotaError(message, **about)
    if status == FORBIDDEN and _ENDING in said:
        return GoneError(message, **about)
    if status in _CLASSES:
        return _CLASSES[status](message, **about)
    # A token may be about to be renewed: that is no verdict on the request.
    if status in {UNAUTHORIZED, _TOO_MANY} or status >= _FAULT:
        return BusyError(message, after=_seconds(retry_after), **about)
    return RefusedError(message, **about)


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body or b"{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0

"""Why a controller cannot create its pods: the API server's refusal in plain words.

A Job or a StatefulSet that is refused a pod records an event ``FailedCreate`` and tries again; its
status says nothing. The event is the only place where a quota that is used up is told.
"""

from __future__ import annotations

import re
from functools import lru_cache

from allranks import names
from allranks.errors import InputError
from allranks.model import quantity
from allranks.status.cause import Cause, Order
from allranks.status.fields import said

FAILED_CREATE = "FailedCreate"

_EXCEEDED = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?), "
    r"limited: (?P<limit>.+)",
    re.DOTALL,
)
_UNNAMED = re.compile(r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)", re.DOTALL)
_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^:"]+)[^"]*": (?P<what>.+)', re.DOTALL)
_PARENTHESIS = re.compile(r"\s*\([^()]*\)")
_ACCOUNT = re.compile(r'serviceaccount "(?P<name>[^"]+)" not found')
_POD = re.compile(r'(?:Pod|pods) "(?P<name>[^"]+)" is (?:forbidden|invalid): ')
# The account of masters whose job names none; the watcher's chart makes it.
_MASTERS = (
    ": it does not exist in this namespace: add the namespace to master.namespaces "
    "(allranks operator upgrade), or name another account in the job's master template"
)
_QUOTA = "QuotaExceeded"
_PRIORITY = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_WRAPPING = re.compile(
    r"^(?:Error creating: |create Pod \S+ in StatefulSet \S+ failed error: )"
    r'(?:Pod|pods) "[^"]*" is (?:forbidden|invalid): ',
)


@lru_cache(maxsize=256)
def refused(message: str) -> Cause:
    """Why pods were not created.

    Args:
        message: of the controller's event.
    """
    return (
        _quota(message)
        or _unnamed(message)
        or _security(message)
        or _missing(message)
        or Cause(
            Order.CREATION,
            FAILED_CREATE,
            "the API server to accept",
            f": {said(_WRAPPING.sub('', message).removeprefix('Error creating: '))}",
        )
    )


def concerns(message: str, prefix: str) -> bool:
    """Whether a refusal may hold for the pods of a name; a quota that is used up does for all.

    Args:
        message: of the controller's event.
        prefix: how the pods' names begin; "" for all.
    """
    found = _POD.search(message)
    return found is None or found["name"].startswith(prefix) or refused(message).reason == _QUOTA


def _quota(message: str) -> Cause | None:
    found = _EXCEEDED.search(message)
    if not found:
        return None
    asked, used, limit = (_amounts(found[part]) for part in ("asked", "used", "limit"))
    clauses = [_short(name, asked[name], used.get(name), limit.get(name)) for name in asked]
    return Cause(
        Order.CREATION,
        _QUOTA,
        f"quota {found['name']} to have room for",
        f": {'; '.join(clauses)}",
    )


def _short(resource: str, asked: str, used: str | None, limit: str | None) -> str:
    """One resource of a quota: what a pod asks, what is there, how much is missing."""
    if used is None or limit is None:
        return f"{resource}: a pod asks for {asked}"
    text = f"{resource}: a pod asks for {asked}, and {used} of {limit} is in use"
    name = resource.removeprefix("requests.").removeprefix("limits.")
    try:
        taken = quantity.request_units(name, asked) + quantity.request_units(name, used)
        missing = taken - quantity.capacity_units(name, limit)
    except InputError:
        return text
    return f"{text}: {quantity.show_units(name, missing)} short" if missing > 0 else text


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): said(amount) for name, _, amount in pairs if amount}


def _unnamed(message: str) -> Cause | None:
    found = _UNNAMED.search(message)
    if not found:
        return None
    return Cause(
        Order.CREATION,
        "QuotaUnnamed",
        f"quota {found['name']} to accept",
        f": it wants {said(found['what'])} to be set",
    )


def _security(message: str) -> Cause | None:
    found = _SECURITY.search(message)
    if not found:
        return None
    # Each clause has the containers and the remedy in parentheses, one level deep or two.
    what = _PARENTHESIS.sub("", _PARENTHESIS.sub("", found["what"]))
    return Cause(
        Order.CREATION,
        "PodSecurity",
        f"a Pod Security level other than {found['level']} for",
        f": {said(what)}",
    )


def _missing(message: str) -> Cause | None:
    account = _ACCOUNT.search(message)
    if account:
        what = f"ServiceAccount {account['name']} for"
        why = _MASTERS if account["name"] == names.MASTER_ACCOUNT else ": it does not exist"
        return Cause(Order.CREATION, FAILED_CREATE, what, why)
    priority = _PRIORITY.search(message)
    if priority:
        what = f"PriorityClass {priority['name']} for"
        return Cause(Order.CREATION, FAILED_CREATE, what, ": it does not exist")
    return None

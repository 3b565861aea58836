"""The API server's reasons for refusing a controller's pods, in plain words.

A Job or a StatefulSet that is refused a pod records an event ``FailedCreate`` and tries again; its
status says nothing. The event is the only place where a quota that is used up is told.
"""

from __future__ import annotations

import re
from functools import lru_cache

from allranks import names
from allranks.errors import InputError
from allranks.k8s import quantity
from allranks.k8s.fields import clause
from allranks.status.cause import Cause, Priority

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
# The account of masters whose job names none; the operator's chart makes it.
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
def create_cause(message: str) -> Cause:
    """Return the cause for which pods were not created.

    Args:
        message: of the controller's event.
    """
    return (
        _quota(message)
        or _unnamed_cause(message)
        or _security(message)
        or _missing(message)
        or Cause(
            Priority.CREATION,
            FAILED_CREATE,
            "the API server to accept",
            f": {clause(_WRAPPING.sub('', message).removeprefix('Error creating: '))}",
        )
    )


def concerns(message: str, prefix: str) -> bool:
    """Whether a refusal may concern the pods of a name; a full quota concerns all.

    Args:
        message: of the controller's event.
        prefix: how the pods' names begin; "" for all.
    """
    match = _POD.search(message)
    return (
        match is None or match["name"].startswith(prefix) or create_cause(message).reason == _QUOTA
    )


def _quota(message: str) -> Cause | None:
    match = _EXCEEDED.search(message)
    if not match:
        return None
    requested, usage, limit = (_amounts(match[part]) for part in ("asked", "used", "limit"))
    clauses = [
        _short(name, requested[name], usage.get(name), limit.get(name)) for name in requested
    ]
    return Cause(
        Priority.CREATION,
        _QUOTA,
        f"quota {match['name']} to have room for",
        f": {'; '.join(clauses)}",
    )


def _short(resource: str, requested: str, usage: str | None, limit: str | None) -> str:
    """Return one resource of a quota: what a pod asks for, what is used, and what is missing."""
    if usage is None or limit is None:
        return f"{resource}: a pod asks for {requested}"
    text = f"{resource}: a pod asks for {requested}, and {usage} of {limit} is in use"
    name = resource.removeprefix("requests.").removeprefix("limits.")
    try:
        total = quantity.request_units(name, requested) + quantity.request_units(name, usage)
        missing = total - quantity.capacity_units(name, limit)
    except InputError:
        return text
    return f"{text}: {quantity.show_units(name, missing)} short" if missing > 0 else text


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): clause(amount) for name, _, amount in pairs if amount}


def _unnamed_cause(message: str) -> Cause | None:
    match = _UNNAMED.search(message)
    if not match:
        return None
    return Cause(
        Priority.CREATION,
        "QuotaUnnamed",
        f"quota {match['name']} to accept",
        f": it wants {clause(match['what'])} to be set",
    )


def _security(message: str) -> Cause | None:
    match = _SECURITY.search(message)
    if not match:
        return None
    # Each clause has the containers and the remedy in parentheses, one level deep or two.
    subject = _PARENTHESIS.sub("", _PARENTHESIS.sub("", match["what"]))
    return Cause(
        Priority.CREATION,
        "PodSecurity",
        f"a Pod Security level other than {match['level']} for",
        f": {clause(subject)}",
    )


def _missing(message: str) -> Cause | None:
    account = _ACCOUNT.search(message)
    if account:
        subject = f"ServiceAccount {account['name']} for"
        reason = _MASTERS if account["name"] == names.MASTER_ACCOUNT else ": it does not exist"
        return Cause(Priority.CREATION, FAILED_CREATE, subject, reason)
    priority = _PRIORITY.search(message)
    if priority:
        subject = f"PriorityClass {priority['name']} for"
        return Cause(Priority.CREATION, FAILED_CREATE, subject, ": it does not exist")
    return None

"""What to do where a namespace is not there."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OTHER = re.compile(r"[^a-z0-9-]+")


def hint(name: str) -> str:
    """The fix for a namespace that is not there; for a name that none can have, the nearest one.

    Args:
        name: the namespace.
    """
    if _NAME.fullmatch(name):
        return f"kubectl create namespace {name}, or pass another with -n"
    near = _OTHER.sub("-", name.lower())[:63].strip("-")
    rule = "the name of a namespace has lower-case letters, digits and '-', at most 63"
    return f"{rule}: pass -n {near}" if near else f"{rule}: pass another with -n"

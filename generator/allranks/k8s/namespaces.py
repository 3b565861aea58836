"""What to do where a namespace is not there."""

from __future__ import annotations

import re

from allranks import names
from allranks.k8s.object_names import is_dns_1123_label

_OTHER = re.compile(r"[^a-z0-9-]+")


def hint(name: str) -> str:
    """The fix for a namespace that is not there; for a name that none can have, the nearest one.

    Args:
        name: the namespace.
    """
    if is_dns_1123_label(name):
        return f"kubectl create namespace {name}, or pass another with -n"
    near = nearest(name)
    rule = (
        "the name of a namespace has lower-case letters, digits and '-', at most "
        f"{names.DNS_LABEL_MAX}"
    )
    return f"{rule}: pass -n {near}" if near else f"{rule}: pass another with -n"


def nearest(name: str) -> str:
    """The name that a namespace can have and that is nearest to another; "" for none.

    Args:
        name: the other, which none can have.
    """
    return _OTHER.sub("-", name.lower())[: names.DNS_LABEL_MAX].strip("-")

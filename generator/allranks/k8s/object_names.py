"""The names that Kubernetes accepts: its own three forms (apimachinery, `validation.go`)."""

from __future__ import annotations

import re

from allranks import names

_SUBDOMAIN_MAX = 253
_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1123_LABEL = re.compile(_PART)
_DNS_1123_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
_DNS_1035_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


def is_dns_1123_label(name: str, *, longest: int = names.DNS_LABEL_MAX) -> bool:
    """Whether a namespace, say, may have this name: lower-case letters, digits and inner dashes.

    Args:
        name: the name.
        longest: how many characters it may have.
    """
    return len(name) <= longest and _DNS_1123_LABEL.fullmatch(name) is not None


def is_dns_1123_subdomain(name: str, *, longest: int = _SUBDOMAIN_MAX) -> bool:
    """Whether a pod or a node may have this name: one label, or several with dots between them.

    Args:
        name: the name.
        longest: how many characters it may have.
    """
    return len(name) <= longest and _DNS_1123_SUBDOMAIN.fullmatch(name) is not None


def has_dns_1035_form(name: str) -> bool:
    """Whether a Service may have this name, but for its length: a label that begins with a letter.

    Args:
        name: the name.
    """
    return _DNS_1035_LABEL.fullmatch(name) is not None

"""Kubernetes' refusal to grant rights that the user does not have, in plain words.

The server names the rights in Go's own notation, each rule on a line: ``{APIGroups:["batch"],
Resources:["jobs"], Verbs:["get" "list"]}``.
"""

from __future__ import annotations

import re

_MARK = "attempting to grant RBAC permissions not currently held:"
_RULE = re.compile(r"\{[^{}]*\}")
_FIELD = re.compile(r'(\w+):\[((?:"[^"]*"\s*)*)\]')
_WORD = re.compile(r'"([^"]*)"')


def missing_rights(message: str) -> str | None:
    """Return the rights that a Role would grant without its author having them; else None.

    Args:
        message: the server's whole message.

    Returns:
        ``it grants rights that the user does not have: create events; get jobs.batch``; where the
        server words it in another way, in the server's words.
    """
    _, mark, after = message.partition(_MARK)
    if not mark:
        return None
    rules = [_in_words(dict(_FIELD.findall(rule))) for rule in _RULE.findall(after)]
    rights = "; ".join(filter(None, rules)) or " ".join(after.split()) or "it does not say which"
    return f"it grants rights that the user does not have: {rights}"


def _in_words(fields: dict[str, str]) -> str:
    words = {key: _WORD.findall(value) for key, value in fields.items()}
    objects = [
        f"{resource}.{group}" if group else resource
        for resource in words.get("Resources", ())
        for group in words.get("APIGroups") or [""]
    ] or words.get("NonResourceURLs", [])
    verbs = ", ".join(words.get("Verbs", ()))
    return f"{verbs} {', '.join(objects)}" if verbs and objects else ""

"""Names that YAML does not read as texts: `n`, `on`, `123`.

YAML 1.1 reads y, n, yes, no, on and off as booleans. Kubernetes refuses a name that is no text, so
that nothing has ever run under it, and a converter would look for it in vain.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import dotted
from allranks.errors import InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

_KEYS = ("name", "generateName", "namespace", "reference")


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such names.

    Args:
        manifest: the object.

    Raises:
        InvalidValues: it has some; each is a problem.
    """
    if problems := [_problem(path, value) for path, value in _names(manifest, ())]:
        raise InvalidValues(problems)


def _names(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, bool | float]]:
    """The names below a node that are booleans or numbers, with their paths."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from _names(value, (*path, key))
        elif isinstance(node, dict) and key in _KEYS and isinstance(value, bool | int | float):
            yield (*path, key), value


def _problem(path: FieldPath, value: bool | float) -> Problem:  # noqa: FBT001 - a value of YAML's
    kind = "a boolean" if isinstance(value, bool) else "a number"
    hint = (
        "write it in quotes: without them YAML reads y, n, yes, no, on and off as true or false"
        if isinstance(value, bool)
        else f'write it in quotes, as in "{value}"'
    )
    text = json.dumps(value)
    return Problem(dotted(path), f"a name is a text, and YAML reads {text} here, {kind}", hint)

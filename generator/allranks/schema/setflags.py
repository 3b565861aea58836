"""A fix as a flag of the ``--set`` family, for a value that was given by such a flag.

A file's fix is of no use there: the shell takes quotes away, ``--set`` guesses types, and a comma
or a point in a key has to be escaped. So the whole flag is written out, for a shell.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.schema.paths import ValuesPath

_FLAG = re.compile(r"--(set|set-string|set-json|set-literal|set-file) ")
_SPECIAL = re.compile(r"([\\.,=\[\]{}])")
# In a value only these mean something.
_SPECIAL_VALUE = re.compile(r"([\\,]|^\{)")
_ESCAPE = r"\\\1"
# What --set takes for something else than text.
_GUESSED = re.compile(r"true|false|null|0|[-+]?[1-9][0-9]*", re.IGNORECASE)
# The fixes that say a value: as JSON, or as plain text.
_VALUE = re.compile(
    r"(?:quote it|write it as a list|remove the quotes|name the unit): (?P<a>.*)"
    r"|write (?P<flag>true|false) without quotes"
    r"|write (?P<c>-?[0-9]+), in .*"
    r'|write (?P<b>"(?:[^"\\]|\\.)*"|[A-Za-z0-9/][A-Za-z0-9/._-]*|\[.*\])',
    re.DOTALL,
)
# The fixes that say another key.
_KEY = re.compile(r"(?:write|move it to) ([A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*)")
_ORDER = ("set-json", "set", "set-string", "set-file", "set-literal")
# Words that begin a fix and are no value.
_WORDS = ("a", "an", "one", "it", "the", "each", "its")


def is_flag(source: str) -> bool:
    """Whether a value came from a flag of the family, and not from a file."""
    return _FLAG.match(source) is not None


def written(source: str, path: ValuesPath, hint: str) -> str:
    """The flag that does what a fix says; "" where the source is no flag, or the fix says no value.

    Args:
        source: where the value came from, ``--set a=1`` or ``file:line``.
        path: where it stands.
        hint: the fix.
    """
    match, value = _FLAG.match(source), _VALUE.fullmatch(hint)
    if match is None or value is None or not path:
        return ""
    text = value["a"] or value["b"] or value["c"] or value["flag"]
    if text in _WORDS:
        return ""
    try:
        data = json.loads(text)
    except ValueError:
        data = text
    return _in_place_of(match[1], path, data)


def moved(source: str, hint: str, value: Any, is_allowed: Callable[[ValuesPath, Any], bool]) -> str:
    """The flag that gives a value to the key that a fix names.

    Args:
        source: where the value came from.
        hint: the fix for a key that there is not.
        value: what was given.
        is_allowed: whether a key takes a value.

    Returns:
        "" where the source is no flag, the fix names no key, or that key does not take the value.
    """
    match, named = _FLAG.match(source), _KEY.fullmatch(hint)
    if match is None or named is None:
        return ""
    path = tuple(named[1].split("."))
    return _in_place_of(match[1], path, value) if is_allowed(path, value) else ""


def _in_place_of(given: str, path: ValuesPath, data: Any) -> str:
    """The flag for a value, and what it stands for where Helm would let the given one win."""
    if isinstance(data, str):
        text = _SPECIAL_VALUE.sub(_ESCAPE, data)
        guessed = _GUESSED.fullmatch(data) is not None
        kind = "set-string" if guessed or given == "set-string" else "set"
    else:
        kind = "set-json" if isinstance(data, dict | list | float) else "set"
        text = json.dumps(data, ensure_ascii=False)
    # Helm applies --set-json first, and --set before --set-string: a later kind wins by itself.
    later = _ORDER.index(kind) >= _ORDER.index(given)
    return f"write {flag(kind, path, text)}{'' if later else f' in place of --{given}'}"


def shown(path: ValuesPath) -> str:
    r"""A path in the syntax of ``--set``: ``args[0]``, ``labels.my\.org/team``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _SPECIAL.sub(_ESCAPE, part)
    return text


def flag(kind: str, path: ValuesPath, value: str) -> str:
    """A flag for a shell.

    Args:
        kind: of the ``--set`` family.
        path: the values path.
        value: the value in that flag's own syntax.
    """
    return f"--{kind} {shlex.quote(f'{shown(path)}={value}')}"

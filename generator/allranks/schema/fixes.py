"""The fix of a refused value: a sentence, and the same as data.

A fix that names a value, or the key that is meant, keeps it beside its sentence, so that whoever
writes the fix in another form (a flag, here; a file, in `service.fix`) has nothing to read out of
words.

For a value given by a ``--set`` flag a file's fix is of no use: the shell takes quotes away,
``--set`` guesses types, and a comma or a point in a key has to be escaped. So the whole flag is
written out, for a shell.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final, Self

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
_ORDER = ("set-json", "set", "set-string", "set-file", "set-literal")


class _Nothing:
    """The value of a fix without a value; None is a value."""


NOTHING: Final = _Nothing()


class Fix(str):
    """A fix; as text it is its sentence.

    Attributes:
        value: what to write in place of the refused value; `NOTHING` where the fix names none.
        key: the path of the key that is meant; () where the fix names none.
        in_flag: the sentence where there are no quotes to leave out, as in a flag.
        is_safe: whether it is certain that this was meant, so that it may be written unasked.
    """

    __slots__ = ("in_flag", "is_safe", "key", "value")

    value: Any
    key: ValuesPath
    in_flag: str
    is_safe: bool

    def __new__(
        cls,
        sentence: str,
        *,
        value: Any = NOTHING,
        key: ValuesPath = (),
        in_flag: str = "",
        is_safe: bool = False,
    ) -> Self:
        """A fix with a sentence of its own."""
        fix = super().__new__(cls, sentence)
        fix.value, fix.key, fix.in_flag, fix.is_safe = value, key, in_flag or sentence, is_safe
        return fix

    @property
    def is_data(self) -> bool:
        """Whether it names a value or a key, and not words alone."""
        return self.value is not NOTHING or bool(self.key)

    def worded(self, sentence: str) -> Fix:
        """The same fix in other words."""
        return Fix(sentence, value=self.value, key=self.key, is_safe=self.is_safe)


def write(value: Any, text: str, *, form: str = "write {}", is_safe: bool = False) -> Fix:
    """The fix: write a value in place of the refused one.

    Args:
        value: what to write.
        text: the value as the sentence has it.
        form: the sentence.
        is_safe: as of `Fix`.
    """
    return Fix(form.format(text), value=value, is_safe=is_safe)


def use_key(path: str, *, form: str = "write {}", is_safe: bool = False) -> Fix:
    """The fix: give the value to another key.

    Args:
        path: the key's path, as messages show it.
        form: the sentence.
        is_safe: as of `Fix`.
    """
    parts = path.split(".")
    is_plain = all(part.replace("-", "_").isidentifier() and part.isascii() for part in parts)
    return Fix(form.format(path), key=tuple(parts) if is_plain else (), is_safe=is_safe)


def is_flag(source: str) -> bool:
    """Whether a value came from a flag and not from a file."""
    return _FLAG.match(source) is not None


def fix_flag(source: str, path: ValuesPath, fix: str) -> str:
    """The flag for a fix; "" where the source is no flag, or the fix has no value.

    Args:
        source: where the value came from, ``--set a=1`` or ``file:line``.
        path: where it stands.
        fix: what to do about it.
    """
    match = _FLAG.match(source)
    if match is None or not path or not isinstance(fix, Fix) or fix.value is NOTHING:
        return ""
    return _in_place_of(match[1], path, fix.value)


def move_flag(
    source: str, fix: str, value: Any, is_allowed: Callable[[ValuesPath, Any], bool]
) -> str:
    """The flag that gives a value to the key that a fix names.

    Args:
        source: where the value came from.
        fix: what to do about a key that there is not.
        value: what was given.
        is_allowed: whether a key takes a value.

    Returns:
        "" where the source is no flag, the fix names no key, or that key does not take the value.
    """
    match = _FLAG.match(source)
    if match is None or not isinstance(fix, Fix) or not fix.key:
        return ""
    return _in_place_of(match[1], fix.key, value) if is_allowed(fix.key, value) else ""


def _in_place_of(part: str, path: ValuesPath, data: Any) -> str:
    """The flag for a value, and what it stands for where Helm would let the given one win."""
    if isinstance(data, str):
        text = _SPECIAL_VALUE.sub(_ESCAPE, data)
        guessed = _GUESSED.fullmatch(data) is not None
        kind = "set-string" if guessed or part == "set-string" else "set"
    else:
        kind = "set-json" if isinstance(data, dict | list | float) else "set"
        text = json.dumps(data, ensure_ascii=False)
    # Helm applies --set-json first, and --set before --set-string: a later kind wins by itself.
    later = _ORDER.index(kind) >= _ORDER.index(part)
    return f"write {flag(kind, path, text)}{'' if later else f' in place of --{part}'}"


def show_path(path: ValuesPath) -> str:
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
    return f"--{kind} {shlex.quote(f'{show_path(path)}={value}')}"

"""The fix of a refused value: a sentence, and the same as data.

A fix that names a value, or the key that is meant, keeps it beside its sentence, so that whoever
writes the fix in another form (a flag, in `flag_fixes`; a file, in `service.fix`) has nothing to
read out of words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from allranks.schema.paths import ValuesPath


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

"""Options as Python's argparse reads them: the beginning of a name stands for the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def whole_name(name: str, *groups: Collection[str]) -> str:
    """The name of an option that is written in part: ``rdzv-endpoin`` is ``rdzv-endpoint``.

    Args:
        name: what is written, with dashes.
        groups: the names that there are; those of an earlier group go before those of a later.

    Returns:
        The name; what is written, where it is a whole name, or begins none or several.
    """
    if not name or any(name in names for names in groups):
        return name
    for names in groups:
        beginnings = [other for other in names if other.startswith(name)]
        if beginnings:
            return beginnings[0] if len(beginnings) == 1 else name
    return name


def why_unknown(program: str, word: str, rest: Sequence[str]) -> str:
    """What is said of an option that no list here has.

    Args:
        program: whose option it is.
        word: the option as written.
        rest: the words behind it, of which the first may be its value.
    """
    text = f"{program} has no option {word} that is known here"
    if "=" in word or not rest or rest[0].startswith("-"):
        return text
    value = rest[0]
    hint = f"where that is its value, write {word}={value}"
    return f"{text}, and {value} is taken for the program: {hint}"

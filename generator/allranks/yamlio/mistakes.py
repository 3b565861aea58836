"""Say in plain words what is wrong with a YAML text, and where.

The parser speaks of tokens and of block ends; a person sees a tab, a missing quote, an indentation.
"""

from __future__ import annotations

from allranks.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What libyaml says, in the order to look for it: part of its problem, our words, the fix.
_WORDS = (
    (
        "mapping values are not allowed",
        "a second `: ` on the line, or a line indented too far",
        "quote a value that holds `: `, and align keys of one mapping",
    ),
    (
        "could not find expected ':'",
        "a key without its colon",
        "write `key: value`, with a space after the colon",
    ),
    (
        "block sequence entries are not allowed",
        "a list item on the line of its key",
        "start the list on the next line, or quote a text that starts with `- `",
    ),
    ("found unknown escape character", "an unknown escape in double quotes", "use single quotes"),
    ("hexdecimal number", "an escape without its digits in double quotes", "use single quotes"),
    ("found unexpected end of stream", "a quote that is never closed", "close the quote"),
    ("found undefined tag handle", "an unknown tag", "quote a text that starts with !"),
    (
        "did not find expected",
        "the line does not belong to what is above it",
        "check the indentation here and above, and that brackets and quotes are closed",
    ),
)


def kind(value: Any) -> str:
    """What a value is, in words for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a mapping"


def explain(error: Any, text: str, source: str) -> InputError:
    """Our error for one of the parser's.

    Args:
        error: the parser's error.
        text: what was parsed.
        source: its name.
    """
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return _unreadable(error, text, source)
    problem = error.problem or "it is not YAML"
    line = mark.line
    message, hint = f"not YAML: {problem}", "correct the line"
    if "cannot start any token" in problem:
        character = "".join(text.split("\n")[line : line + 1])[mark.column : mark.column + 1]
        if character == "\t":
            message, hint = "a tab where YAML wants spaces", "indent with spaces"
        else:
            message, hint = f"a value may not start with {character}", "put it in quotes"
    for part, words, fix in _WORDS:
        if part in problem:
            message, hint = f"not YAML: {words}", fix
            break
    if "end of stream" in problem and error.context_mark is not None:
        line = error.context_mark.line
    return InputError(message, hint=hint, source=f"{source}:{line + 1}")


def not_utf8(error: UnicodeDecodeError, source: str) -> InputError:
    """Our error for bytes that are not UTF-8."""
    data = error.object
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        line, message = 1, "the file is UTF-16, not UTF-8"
    else:
        line = data[: error.start].count(b"\n") + 1
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
    return InputError(message, hint="save the file as UTF-8", source=f"{source}:{line}")


def _unreadable(error: Any, text: str, source: str) -> InputError:
    """A character that YAML does not allow at all."""
    position = getattr(error, "position", None)
    if position is None:
        return InputError(f"not YAML: {error}", hint="correct the file", source=source)
    data = text.encode("utf-8", "surrogatepass")
    line = data[:position].count(b"\n") + 1
    character = getattr(error, "character", 0)
    code = character if isinstance(character, int) else 0
    return InputError(
        f"the character U+{code:04X} is not allowed in YAML",
        hint='remove it, or write it as an escape in double quotes: "\\x1b"',
        source=f"{source}:{line}",
    )

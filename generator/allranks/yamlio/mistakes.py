"""Explain mistakes in YAML in plain words, with their position.

The parser speaks of tokens and of block ends; a person sees a tab, a missing quote, an indentation.
"""

from __future__ import annotations

import re

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
    ("expected '>'", "a tag without its end", "quote a text that starts with !"),
    ("Unicode character escape", "an escape that is no character", "use single quotes"),
    ("unknown directive", "a line that starts with %", "quote a text that starts with %"),
    ("%YAML directive", "the line `%YAML …` twice", "remove both"),
    ("incompatible YAML", "a version that nobody reads", "remove the line `%YAML …`"),
    ("indicator equal to 0", "a text indented by 0", "write | or > without a number"),
    (
        "did not find expected",
        "the line does not belong to what is above it",
        "check the indentation here and above, and that brackets and quotes are closed",
    ),
)

_NUL = "remove it; no program can be given one"
_BYTE_MAX = 0xFF
# What ends a line for YAML 1.1, which Helm reads; and what of it does for no editor.
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_TAB = re.compile(" *\t")
_AT_A_TAB = ("tab character", "start any token", "mapping values")
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")


def kind(value: Any) -> str:
    """The type of a value, in words for a message."""
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
    """Our error for an error of the parser.

    Args:
        error: the parser's error.
        text: what was parsed.
        source: its name.
    """
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return _unreadable(error, text, source)
    problem = error.problem or "it is not YAML"
    start = _line_start(text, mark.line)
    if (place := last_odd_break(text, _line_start(text, mark.line - 1), start)) is not None:
        return odd_break(text, place, source)
    line, column = mark.line, mark.column
    message, hint = f"not YAML: {problem}", "correct the line"
    if "mapping values" in problem and (tab := _TAB.match(text, start)):
        column = tab.end() - start - 1
    character = text[start + column : start + column + 1]
    if character == "\t" and any(part in problem for part in _AT_A_TAB):
        return InputError(
            f"a tab where YAML wants spaces, in column {column + 1}",
            hint="indent with spaces",
            source=f"{source}:{_line(text, start)}",
        )
    if "cannot start any token" in problem:
        message, hint = f"a value may not start with {character}", "put it in quotes"
    for part, words, fix in _WORDS:
        if part in problem:
            message, hint = f"not YAML: {words}", fix
            break
    if "end of stream" in problem and error.context_mark is not None:
        line = error.context_mark.line
    line -= len(_ODD_BREAK.findall(text, 0, _line_start(text, line)))
    return InputError(message, hint=hint, source=f"{source}:{line + 1}")


def last_odd_break(text: str, start: int = 0, end: int | None = None) -> int | None:
    """The place of the last character that ends a line for YAML and for no editor.

    Args:
        text: the text.
        start: where to begin; a character that ends there is one.
        end: how far to look; None for all of it.
    """
    end = len(text) if end is None else end
    places = [match.start() for match in _ODD_BREAK.finditer(text, max(start - 1, 0), end)]
    return places[-1] if places else None


def odd_break(text: str, place: int, source: str) -> InputError:
    """Our error for a character that ends a line for YAML and for no editor."""
    code = f"{ord(text[place]):04x}"
    return InputError(
        f"the character U+{code.upper()}, in column {_column(text, place)}, ends a line for YAML, "
        "and for no editor",
        hint=f'end the line as others end, or write an escape in double quotes: "\\u{code}"',
        source=f"{source}:{_line(text, place)}",
    )


def _line_start(text: str, line: int) -> int:
    """Where a line starts, as YAML counts them from 0."""
    starts = [0, *(match.end() for match in _BREAK.finditer(text))]
    return starts[min(max(line, 0), len(starts) - 1)]


def _line(text: str, place: int) -> int:
    """The line of a place in the text, from 1, as editors count them."""
    return text.count("\n", 0, place) + 1


def _column(text: str, place: int) -> int:
    """The column of a place in the text, from 1."""
    return place - text.rfind("\n", 0, place)


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
    place = len(text.encode("utf-8", "surrogatepass")[:position].decode("utf-8", "ignore"))
    character = getattr(error, "character", 0)
    code = character if isinstance(character, int) else 0
    escape = f"\\x{code:02x}" if code <= _BYTE_MAX else f"\\u{code:04x}"
    return InputError(
        f"the character U+{code:04X} is not allowed in YAML, in column {_column(text, place)}",
        hint=f'remove it, or write it as an escape in double quotes: "{escape}"' if code else _NUL,
        source=f"{source}:{_line(text, place)}",
    )

r"""A person's own pattern for the lines of a trial, matched by RE2 and by nothing else.

Python's own engine may take for ever over a short line: `(a+)+b` doubles its time with each letter,
and meanwhile no signal is heard. RE2 goes through a line once, whatever the pattern is; what it
cannot do is what that would cost: looking ahead or behind, and back-references. Its syntax is also
that of Go, so Helm and Katib read the same patterns.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from allranks.errors import InputError, MissingToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EXAMPLE = r"such as 'epoch (?P<step>\d+) acc (?P<accuracy>[0-9.]+)'"

# A line's time goes with this; a pattern as people write them has some tens.
STEPS_MAX = 10_000
_PATH = "sweep.metrics.regex"
# What an error of RE2 names, what that is, and what to write instead; the first that fits.
_ALONE = "match what is around it as well: the value is what the named group holds"
_GROUPS = "write the group's own pattern once more"
_LACKING = (
    (r"\(\?<?[=!]", "lookahead or lookbehind", _ALONE),
    (r"\(\?P=|\\[1-9]", "back-references", _GROUPS),
    (r"\(\?\(", "conditions", "write both, as (?:one|other)"),
    (r"\(\?#", "comments", "leave it out"),
    (r"\(\?>", "atomic groups, nor needs them", "write (?:…)"),
    (r".*[*+?}]\+", "possessive repetitions, nor needs them", "leave out the last +"),
    (r"\\Z", r"\Z", r"write $ or \z"),
    (r"\\[uUN]", "characters by such a name", r"write the character itself, or \x{20AC}"),
    (r"\(\?[aiLmsux]+", "flags but i, m, s and U", "leave out others; (?i) ignores case"),
)
# How RE2 begins to tell of what it does not know.
_UNKNOWN = ("invalid perl operator", "invalid escape sequence", "bad repetition operator")
# The parts of a pattern that matter to what stands in it; RE2 has found that it is one.
_PARTS = re.compile(
    r"(?s:\\Q.*?(?:\\E|\Z))|(?P<byte>\\C)|(?s:\\.)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\(\?P?<(?P<name>\w+)>"
)


class Match(Protocol):
    """What is used of a match."""

    def groupdict(self) -> Mapping[str, str | None]:
        """What each named group holds; None where it is not in the match."""


class Pattern(Protocol):
    """What is used of a compiled pattern."""

    def finditer(self, text: str) -> Iterable[Match]:
        """The matches in a text, one after the other."""

    @property
    def groupindex(self) -> Mapping[str, int]:
        """The named groups."""

    @property
    def programsize(self) -> int:
        """How many steps it was compiled to."""


def find(text: str, line: str, most: int) -> list[dict[str, str | None]]:
    """The named groups of the first matches in a line.

    Args:
        text: the pattern.
        line: what is read; a character that no encoding has is as good as a question mark.
        most: how many matches.

    Raises:
        InputError: as `load`.
    """
    clean = line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")
    return [dict(match.groupdict()) for match in islice(load(text).finditer(clean), most)]


@lru_cache(maxsize=8)
def load(text: str) -> Pattern:
    """A pattern, compiled.

    Raises:
        InputError: it is none, or none that RE2 has; what is not supported is named.
        MissingToolError: RE2 is not installed.
    """
    try:
        import re2  # noqa: PLC0415 - an extra, and most sweeps do without it
    except ModuleNotFoundError as error:
        if error.name != "re2":
            raise
        raise MissingToolError(
            "a pattern of one's own needs google-re2, which is not installed",
            path=_PATH,
            hint="pip install 'allranks[regex]', or have trials print accuracy=0.93",
        ) from error
    options = re2.Options()
    options.log_errors = False  # to stderr, past us
    try:
        pattern: Pattern = re2.compile(text, options)
    except UnicodeEncodeError as error:
        raise InputError("holds what is no character", path=_PATH, hint=EXAMPLE) from error
    except re2.error as error:
        raise _refused(text, error) from None
    _check_parts(text)
    if pattern.programsize > STEPS_MAX:
        raise _too_large(f"it compiles to {pattern.programsize:,} steps, {STEPS_MAX:,} are allowed")
    return pattern


def _refused(text: str, error: Exception) -> InputError:
    """Why RE2 does not take a pattern, in words; it names the place where it stopped."""
    said = error.args[0] if error.args else ""
    why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if "too large" in why:
        return _too_large("it repeats too much")
    near = why.partition(": ")[2]
    if near == "(?P" and "(?P=" in text:
        near = "(?P="
    for form, lacking, instead in _LACKING:
        if why.startswith(_UNKNOWN) and re.fullmatch(form, near):
            return InputError(
                f"has {near}, and RE2, which reads it, knows no {lacking}", path=_PATH, hint=instead
            )
    return InputError(f"is no regular expression: {why}", path=_PATH, hint=EXAMPLE)


def _check_parts(text: str) -> None:
    """Refuse what RE2 takes and Go does not: then no group is lost, and no character is cut."""
    seen = set()
    for part in _PARTS.finditer(text):
        if part["byte"]:
            raise InputError(r"\C is half a character", path=_PATH, hint="write . for a whole one")
        name = part["name"]
        if name and name in seen:
            raise InputError(
                f"has two groups named {name}, and one would be lost",
                path=_PATH,
                hint=f"write the two as one group, (?P<{name}>one|other)",
            )
        seen.add(name)


def _too_large(why: str) -> InputError:
    return InputError(
        f"is too large: {why}", path=_PATH, hint=r"repeat less, and less of such as \pL"
    )

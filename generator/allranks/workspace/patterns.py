"""Files of rules in git's syntax, `.allranksignore` and `.gitignore`, where git is not asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.workspace.git import Pattern

if TYPE_CHECKING:
    import re
    from pathlib import Path

# A file of rules is never larger; git has no bound, but what is larger is no list of rules.
BYTES_MAX = 1 << 20
# The group of pathspec's regular expressions that matches the slash behind a folder.
_FOLDER_GROUP = "ps_d"


@dataclass(frozen=True, slots=True)
class _Line:
    pattern: Pattern
    regex: re.Pattern[str]
    is_excluding: bool


@dataclass(frozen=True, slots=True)
class PatternFile:
    """The rules of one file.

    Attributes:
        base: the folder that they are relative to, below the workspace and with a slash at its end;
            "" for the workspace itself. Above it where `lead` is not empty.
        lead: what stands before a path of the workspace, seen from a folder above it.
    """

    base: str
    lead: str
    lines: tuple[_Line, ...]

    def match(self, path: str, *, is_folder: bool) -> tuple[bool, Pattern] | None:
        """The last rule that fits a path, and whether it excludes; None where none does.

        The folders that the path lies in are not looked at: who walks the tree has done so.

        Args:
            path: below the workspace.
            is_folder: whether it is a folder; a link to one is none.
        """
        return self.match_text(self.lead + path[len(self.base) :] + ("/" if is_folder else ""))

    def match_text(self, text: str) -> tuple[bool, Pattern] | None:
        """The same of a path as this file has it: with a slash at its end where it is a folder."""
        letters = _letters(text)
        for line in reversed(self.lines):
            match = line.regex.search(letters)
            if match is None:
                continue
            # A rule for a folder fits all that is below it, too; that was decided at the folder.
            # One for what is below a folder, `a/**`, is made to fit the folder itself.
            has_group = _FOLDER_GROUP in line.regex.groupindex
            slash = match.start(_FOLDER_GROUP) if has_group else -1
            is_itself = (
                not has_group and match.group().endswith("/") and match.end() == len(letters)
            )
            if slash in {-1, len(letters) - 1} and not is_itself:
                return line.is_excluding, line.pattern
        return None


def _letters(text: str) -> str:
    """A text with a letter for each of its bytes, because git's `?` stands for a byte.

    Bytes above 127 become surrogates: none of those is a space, which pathspec would strip.
    """
    return os.fsencode(text).decode("ascii", "surrogateescape")


def _below(pattern: str) -> str:
    """A pattern for all folders below another, `a/**/`, as pathspec reads it right.

    It takes `a/**/` for `a/` itself, and `*/` for the folders at the top alone.
    """
    mark, pattern = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    text = pattern.rstrip(" ")
    if text in {"*/", "**/"}:
        return f"{mark}**/?*/"
    return f"{mark}{text[:-1]}/?*/" if text.endswith("/**/") else mark + pattern


def read(path: Path, *, name: str, base: str = "", lead: str = "") -> PatternFile:
    """Read a file of rules.

    Args:
        path: the file.
        name: what it is called in a rule.
        base: as of `PatternFile`.
        lead: see there.

    Raises:
        InputError: it cannot be read, or a line of it is no pattern.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        with path.open("rb") as stream:
            data = stream.read(BYTES_MAX + 1)
    except OSError as error:
        words = error.strerror or str(error)
        raise InputError(
            f"cannot be read: {words}", path=name, hint="make it readable, or remove it"
        ) from error
    if len(data) > BYTES_MAX:
        raise InputError(
            f"is larger than {BYTES_MAX:,} bytes", path=name, hint="write a rule for a whole folder"
        )
    lines = []
    for number, line in enumerate(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n"), 1):
        text = line.removesuffix("\r")
        try:
            pattern = GitIgnoreSpecPattern(_below(_letters(text)))
        except ValueError:
            continue  # git, too, lets such a line match nothing
        if pattern.regex is not None and pattern.include is not None:
            lines.append(_Line(Pattern(name, number, text), pattern.regex, pattern.include))
    return PatternFile(base, lead, tuple(lines))

"""Shell text as the simple commands that it is made of, with the line of each.

Only what a converter needs to know is read: where a command begins and ends, whether it stands at
the top level, and its words. What a word expands to is the shell's business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Words after which a command is no longer at the top level, and those that close them.
_OPENING = frozenset(("if", "for", "while", "until", "case", "select", "function", "{"))
_CLOSING = frozenset(("fi", "done", "esac", "}"))
_ALSO = frozenset(("then", "else", "elif", "do", "!", "time"))
_OPERATORS = ("&&", "||", ";;", "|&", "&>>", "&>", ";", "|", "&", "\n")
# What a plain word may have in it: none of these means anything to a shell.
_SPECIAL = re.compile(r"[$`*?\[\]{}~<>()&|;!#\\\"'\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HEREDOC = re.compile(r"<<-?\s*(['\"\\]?)([A-Za-z_][A-Za-z0-9_]*)\1")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command.

    Attributes:
        text: as it is written.
        value: what it is without its quotes; None where the shell must expand it.
    """

    text: str
    value: str | None

    @property
    def is_plain(self) -> bool:
        """Whether the shell takes it as it is."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command.

    Attributes:
        words: its words, without assignments and redirections.
        assignments: the variables set for it alone, as they are written.
        redirections: its redirections, as they are written.
        start: where it begins in the text.
        end: where it ends, before its operator.
        after: the operator behind it; "" at the end of the text.
        line: its line, from 1.
        depth: how many compound commands it stands in; 0 at the top level.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    redirections: tuple[str, ...]
    start: int
    end: int
    after: str
    line: int
    depth: int

    @property
    def program(self) -> str:
        """Its first word without a folder; "" where it has none, or the shell makes it."""
        value = self.words[0].value if self.words else None
        return (value or "").rpartition("/")[2]


def parse(text: str) -> list[Command] | None:
    """The simple commands of a text.

    Args:
        text: shell text.

    Returns:
        None where the text is not understood: an open quote, a bracket that is never closed.
    """
    try:
        return _Scanner(text).commands()
    except _NotUnderstoodError:
        return None


def split(text: str) -> list[str] | None:
    """The words of a text that means the same with and without a shell; None where it does not."""
    commands = parse(text)
    if commands is None or len(commands) != 1:
        return None
    command = commands[0]
    if command.assignments or command.redirections or command.depth or command.after == "&":
        return None
    values = [word.value for word in command.words]
    return None if None in values or not values else [str(value) for value in values]


def quote(text: str) -> str:
    """A text as one word of a shell, wherever it stands, in single quotes where it needs any."""
    is_syntax = text in _OPENING | _CLOSING | _ALSO or _ASSIGNMENT.match(text)
    if text and not is_syntax and not _SPECIAL.search(text) and not re.search(r"\s", text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


class _NotUnderstoodError(Exception):
    """The text is no shell text that is understood here."""


class _Scanner:
    """Reads shell text once, from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[str] = []
        self._heredocs: list[str] = []
        self._commands: list[Command] = []

    def commands(self) -> list[Command]:
        while self._at < len(self._text):
            self._command()
        if self._open:
            raise _NotUnderstoodError
        return self._commands

    def _command(self) -> None:
        """Read one command with the operator behind it."""
        self._skip_blanks()
        start = self._at
        depth = len(self._open)
        words: list[Word] = []
        assignments: list[Word] = []
        redirections: list[str] = []
        after = ""
        end = start
        while self._at < len(self._text):
            operator = self._operator()
            if operator:
                after = operator
                break
            if self._text[self._at] in "()":
                depth = max(depth, len(self._open))
                if self._bracket(words):
                    break
                depth = max(depth, len(self._open))
                self._skip_blanks()
                continue
            redirection = self._redirection()
            if redirection is not None:
                redirections.append(redirection)
                end = self._at
                self._skip_blanks()
                continue
            word = self._word()
            end = self._at
            self._skip_blanks()
            if not words and self._keyword(word.text):
                depth = max(len(self._open), 1)
                continue
            if (not words and word.is_plain is False and _ASSIGNMENT.match(word.text)) or (
                not words and _ASSIGNMENT.match(word.text)
            ):
                assignments.append(word)
            else:
                words.append(word)
        if words or assignments or redirections:
            line = self._text.count("\n", 0, start) + 1
            self._commands.append(
                Command(
                    tuple(words),
                    tuple(assignments),
                    tuple(redirections),
                    start,
                    end,
                    after,
                    line,
                    depth,
                )
            )
        if after == "\n" and self._heredocs:
            self._skip_heredocs()

    def _keyword(self, text: str) -> bool:
        if text in _OPENING:
            self._open.append(text)
            return True
        if text in _CLOSING:
            if not self._open or self._open[-1] == "(":
                raise _NotUnderstoodError
            self._open.pop()
            return True
        return text in _ALSO

    def _bracket(self, words: list[Word]) -> bool:
        """A bracket of a subshell, a function or a case; whether a command ends there."""
        bracket = self._text[self._at]
        self._at += 1
        if bracket == "(":
            if words:  # the brackets of a function
                end = self._text.find(")", self._at)
                if end < 0 or self._text[self._at : end].strip():
                    raise _NotUnderstoodError
                self._at = end + 1
                words.clear()
            else:
                self._open.append("(")
            return False
        if not self._open:
            raise _NotUnderstoodError
        if self._open[-1] == "(":
            self._open.pop()
            return True
        if "case" not in self._open[-1:]:
            raise _NotUnderstoodError
        words.clear()  # the pattern of a case
        return False

    def _operator(self) -> str:
        text = self._text
        if text[self._at] == "#" and (self._at == 0 or text[self._at - 1] in " \t\n;&|("):
            end = text.find("\n", self._at)
            self._at = len(text) if end < 0 else end
            if self._at >= len(text):
                return "\n"
        for operator in _OPERATORS:
            if text.startswith(operator, self._at):
                if operator in ("&>", "&>>"):
                    return ""
                self._at += len(operator)
                return operator
        return ""

    def _redirection(self) -> str | None:
        match = re.compile(r"(&>>?|[0-9]*(?:>>|>&|>\||<<<|<<-?|<&|<>|<|>))\s*").match(
            self._text, self._at
        )
        if match is None or (match[1] in ("<", ">") and self._text.startswith("(", match.end())):
            return None
        start = self._at
        heredoc = _HEREDOC.match(self._text, self._at)
        if heredoc is not None:
            self._heredocs.append(heredoc[2])
            self._at = heredoc.end()
            return self._text[start : self._at]
        self._at = match.end()
        if self._at < len(self._text) and self._text[self._at] not in "\n;|&":
            self._word()
        elif match[1].endswith("&") and self._text[self._at : self._at + 1] == "-":
            self._at += 1
        return self._text[start : self._at]

    def _skip_heredocs(self) -> None:
        for mark in self._heredocs:
            match = re.compile(rf"^\t*{re.escape(mark)}[ \t]*$", re.MULTILINE).search(
                self._text, self._at
            )
            if match is None:
                raise _NotUnderstoodError
            self._at = min(match.end() + 1, len(self._text))
        self._heredocs = []

    def _skip_blanks(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] in " \t\r":
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif text.startswith("\\\r\n", self._at):
                self._at += 3
            else:
                return

    def _word(self) -> Word:
        text, start = self._text, self._at
        value: list[str] = []
        plain = True
        while self._at < len(text):
            char = text[self._at]
            if char in " \t\r\n;&|<>()":
                break
            if char == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise _NotUnderstoodError
                value.append(text[self._at + 1 : end])
                self._at = end + 1
            elif char == '"':
                plain &= self._double(value)
            elif char == "\\":
                if text.startswith("\\\n", self._at):
                    self._at += 2
                    continue
                value.append(text[self._at + 1 : self._at + 2])
                self._at += 2
            elif char in "$`":
                plain = False
                self._expansion()
            else:
                if char in "*?[~" or (char in "{}" and len(text) > 1):
                    plain = plain and not _globs(text, self._at, start)
                value.append(char)
                self._at += 1
        if self._at == start:
            raise _NotUnderstoodError
        return Word(text[start : self._at], "".join(value) if plain else None)

    def _double(self, value: list[str]) -> bool:
        text = self._text
        self._at += 1
        plain = True
        while self._at < len(text) and text[self._at] != '"':
            char = text[self._at]
            if char == "\\" and text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                following = text[self._at + 1]
                value.append("" if following == "\n" else following)
                self._at += 2
            elif char in "$`":
                plain = False
                self._expansion()
            else:
                value.append(char)
                self._at += 1
        if self._at >= len(text):
            raise _NotUnderstoodError
        self._at += 1
        return plain

    def _expansion(self) -> None:
        """Skip a variable, a command or arithmetic that the shell puts its result for."""
        text = self._text
        if text[self._at] == "`":
            end = text.find("`", self._at + 1)
            if end < 0:
                raise _NotUnderstoodError
            self._at = end + 1
            return
        self._at += 1
        opening = text[self._at : self._at + 1]
        if opening not in ("(", "{"):
            if opening == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise _NotUnderstoodError
                self._at = end + 1
            return
        closing = {"(": ")", "{": "}"}[opening]
        depth = 0
        while self._at < len(text):
            char = text[self._at]
            if char == "\\":
                self._at += 1
            elif char == "'":
                end = text.find("'", self._at + 1)
                self._at = len(text) if end < 0 else end
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
            self._at += 1
            if not depth:
                return
        raise _NotUnderstoodError


def _globs(text: str, at: int, start: int) -> bool:
    """Whether a character of a word means something to the shell where it stands."""
    char = text[at]
    if char == "~":
        return at == start
    if char in "{}":
        # A brace expands where a comma or two dots stand in it.
        end = text.find("}", at)
        inner = text[at:end] if end > 0 else ""
        return char == "{" and ("," in inner or ".." in inner) and not re.search(r"\s", inner)
    return True

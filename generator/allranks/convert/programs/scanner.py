"""A shell script as statements: enough of bash's grammar to know which commands run, and where.

Nothing is expanded and nothing is run. A word keeps the text that it has in the script, with its
quotes; a statement is what ends with its line (a loop, a function and a here-document included).
What this cannot read (a quote that is not closed) is said with its line. It is longer than most: a
grammar is one thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS = (
    *("<<<", "<<-", "&>>", ";;&", "<<", ">>", "&&", "||", ";;", ";&", "|&", "&>", ">&", "<&", "<>"),
    *(">|", "&", "|", ";", "(", ")", "<", ">"),
)
_REDIRECTIONS = frozenset({"<<<", "<<-", "&>>", "<<", ">>", "&>", ">&", "<&", "<>", ">|", "<", ">"})
_BREAKS = frozenset({"\n", ";", "&", "&&", "||", "|", "|&", "(", ")", ";;", ";&", ";;&"})
_OPENING = {"if": "fi", "for": "done", "while": "done", "until": "done", "select": "done"}
_OPENING |= {"case": "esac", "{": "}", "[[": "]]"}
_MIDDLE = frozenset({"then", "else", "elif", "do", "!", "time", "coproc"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
RESERVED = frozenset({*_OPENING, *_CLOSING, *_MIDDLE, "function"})
# Words behind which a list of commands begins, and those that end it.
_BEGINS_LIST = frozenset({"if", "while", "until", "then", "else", "elif", "do", "{", "!", "("})
_ENDS_LIST = frozenset({"then", "do", "else", "elif", "fi", "done", "}", "esac"})
_LOOPS = frozenset({"for", "while", "until", "select"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_DEEPEST = 200
_LEVELS_MAX = 50  # of blocks in each other: no person writes more
# Characters that stand for themselves: in a word, in double quotes, in brackets.
_IN_WORD = re.compile(r"[A-Za-z0-9_./:=,+%@~^\[\]{}*?!#-]+")
_IN_DOUBLE = re.compile(r"[^\"\\`$\n]+")
_IN_BRACKET = re.compile(r"[A-Za-z0-9_./:=,+%@~^*?! \t|;&\[\]-]+")

# What begins a here-document in a command in brackets; that has no other signs of two characters.
_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*((['\"]?)[A-Za-z_]\w*\3|\\[A-Za-z_]\w*)")


class ScriptError(Exception):
    """A script that cannot be split into commands.

    Attributes:
        line: where, from 1.
        reason: why, as a sentence without its end.
    """

    def __init__(self, line: int, reason: str) -> None:
        """Keep both."""
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an operator or a comment.

    Attributes:
        kind: word | operator | comment.
        text: as it stands in the script.
        start: its place in the script's text.
        end: where it ends.
        line: from 1.
    """

    kind: str
    text: str
    start: int
    end: int
    line: int


# What joins commands: the second runs as the first has ended, or reads what it writes.
LISTS = ("&&", "||", "|", "|&")
PIPES = ("|", "|&")


@dataclass(slots=True)
class Command:
    """A simple command.

    Attributes:
        assignments: ``NAME=value`` before it, as typed.
        words: its words, as typed, without what is redirected.
        redirections: the operator and the word of each.
        line: of its first word.
        start: its place in the script's text.
        end: where it ends, with what is redirected.
        within: the compound commands around it, outermost first: ``for``, ``if``, ``function``.
        branches: the ``if`` and ``case`` around it, each as its number in the script and that of
            the branch in it.
        before: the operator before it: "" at the beginning of a line.
        after: the operator behind it.
    """

    assignments: list[Token] = field(default_factory=list)
    words: list[Token] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)
    line: int = 0
    start: int = 0
    end: int = 0
    within: tuple[str, ...] = ()
    branches: tuple[tuple[int, int], ...] = ()
    before: str = ""
    after: str = ""

    @property
    def name(self) -> str:
        """Its first word as typed; "" for an assignment alone."""
        return self.words[0].text if self.words else ""

    @property
    def in_loop(self) -> bool:
        """Whether it may run more than once."""
        return any(kind in _LOOPS for kind in self.within)

    def excludes(self, other: Command) -> bool:
        """Whether another command of the same script stands in another branch of one choice."""
        own, others = dict(self.branches), dict(other.branches)
        return any(own[choice] != others[choice] for choice in own.keys() & others.keys())


@dataclass(slots=True)
class Statement:
    """What ends with its line, or with a ``;`` or ``&`` at the top.

    Attributes:
        commands: the simple commands in it, in their order.
        start: its place in the script's text.
        end: where it ends, here-documents included.
        line: its first line.
        last_line: its last line.
        in_background: whether ``&`` ends it.
        function: the name of the function that it defines; "" for none.
    """

    commands: list[Command]
    start: int
    end: int
    line: int
    last_line: int
    in_background: bool = False
    function: str = ""

    @property
    def is_simple(self) -> bool:
        """Whether it is one simple command, and not what a test before it decides on."""
        return (
            len(self.commands) == 1
            and not self.commands[0].within
            and not self.function
            and self.commands[0].before not in LISTS
        )


def parse(text: str) -> list[Statement]:
    """The statements of a script, in their order.

    Raises:
        ScriptError: a quote, a bracket or a compound command is not closed.
    """
    return _Parser(text).statements()


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a script; a here-document's body is none.

    Raises:
        ScriptError: a quote or a bracket is not closed.
    """
    return _Lexer(text).tokens()


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.documents: list[tuple[str, bool]] = []

    def tokens(self) -> Iterator[Token]:
        text, size = self.text, len(self.text)
        awaits_document = ""
        while self.at < size:
            char = text[self.at]
            if char == "\n":
                start, line = self.at, self.line
                self.at += 1
                self.line += 1
                self._skip(self.documents)
                self.documents = []
                yield Token("operator", "\n", start, start + 1, line)
            elif char in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at) or (char == "\\" and self.at == size - 1):
                self.at = min(size, self.at + 2)  # at the end of a text it joins nothing
                self.line += 1
            elif char == "#":
                start = self.at
                end = text.find("\n", start)
                self.at = size if end < 0 else end
                yield Token("comment", text[start : self.at], start, self.at, self.line)
            else:
                token = self._operator() or self._word()
                if awaits_document and token.kind == "word":
                    is_dashed = awaits_document == "<<-"
                    self.documents.append((unquote(token.text), is_dashed))
                awaits_document = token.text if token.text in ("<<", "<<-") else ""
                yield token

    def _skip(self, documents: list[tuple[str, bool]]) -> None:
        """Pass the here-documents that begin with this line."""
        for end, is_dashed in documents:
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                row = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                self.line += 1
                if (row.lstrip("\t") if is_dashed else row).rstrip("\r") == end:
                    break

    def _operator(self) -> Token | None:
        text = self.text
        if text[self.at] in "<>" and text.startswith("(", self.at + 1):
            return None  # a process substitution is a word
        for operator in _OPERATORS:
            if text.startswith(operator, self.at):
                start = self.at
                self.at += len(operator)
                return Token("operator", operator, start, self.at, self.line)
        return None

    def _word(self) -> Token:
        start, line, text = self.at, self.line, self.text
        while self.at < len(text):
            plain = _IN_WORD.match(text, self.at)
            if plain is not None:
                self.at = plain.end()
                continue
            char = text[self.at]
            if char in " \t\n\r;&|" or (char in "<>" and not text.startswith("(", self.at + 1)):
                break
            if char == "(":
                if _ASSIGNMENT.fullmatch(text[start : self.at]) or text[self.at - 1] in "?*+@!":
                    self._bracket(")", 0)  # an array, or a pattern
                    continue
                break
            if char == ")":
                break
            self._piece(0)
        if self.at == start:  # nothing that begins a word: one character on its own
            self.at += 1
        return Token("word", text[start : self.at], start, self.at, line)

    def substitution(self) -> None:
        """Pass a command in ``$(…)`` or backticks, which begins here."""
        self._piece(0)

    def _piece(self, depth: int) -> None:
        """Pass a character, an escape, a quoted text or an expansion."""
        text, char = self.text, self.text[self.at]
        if depth > _DEEPEST:
            raise ScriptError(self.line, "brackets are nested too deep")
        if char == "\\":
            if text.startswith("\n", self.at + 1):
                self.line += 1
            self.at = min(self.at + 2, len(text))
        elif char == "'":
            self._until("'", escapes=False)
        elif text.startswith("$'", self.at):
            self.at += 1
            self._until("'", escapes=True)
        elif char == '"':
            self._double(depth)
        elif char == "`":
            self._until("`", escapes=True)
        elif text.startswith("$(", self.at) or text.startswith(("<(", ">("), self.at):
            self.at += 1
            self._bracket(")", depth)
        elif text.startswith("${", self.at):
            self.at += 1
            self._bracket("}", depth)
        else:
            if char == "\n":
                self.line += 1
            self.at += 1

    def _until(self, end: str, *, escapes: bool) -> None:
        line, text = self.line, self.text
        self.at += 1
        while self.at < len(text):
            char = text[self.at]
            if char == "\n":
                self.line += 1
            if char == "\\" and escapes:
                self.line += text.startswith("\n", self.at + 1)
                self.at = min(self.at + 2, len(text))
                continue
            self.at += 1
            if char == end:
                return
        raise ScriptError(line, f"the quote {end} is not closed")

    def _double(self, depth: int) -> None:
        line, text = self.line, self.text
        self.at += 1
        while self.at < len(text):
            plain = _IN_DOUBLE.match(text, self.at)
            if plain is not None:
                self.at = plain.end()
                continue
            char = text[self.at]
            if char == '"':
                self.at += 1
                return
            if char in "\\`" or text.startswith(("$(", "${"), self.at):
                self._piece(depth + 1)
            else:
                self.line += char == "\n"
                self.at += 1
        raise ScriptError(line, 'the quote " is not closed')

    def _bracket(self, end: str, depth: int) -> None:
        line, text = self.line, self.text
        opening = {")": "(", "}": "{"}[end]
        is_command = end == ")"
        is_sum = text.startswith("((", self.at)
        documents: list[tuple[str, bool]] = []
        self.at += 1
        level = 1
        while self.at < len(text):
            plain = _IN_BRACKET.match(text, self.at)
            if plain is not None:
                self.at = plain.end()
                continue
            char = text[self.at]
            if char == end:
                level -= 1
                self.at += 1
                if not level:
                    return
            elif char == opening:
                level += 1
                self.at += 1
            elif char == "#" and is_command and text[self.at - 1] in " \t\n;":
                stop = text.find("\n", self.at)
                self.at = len(text) if stop < 0 else stop
            elif is_command and not is_sum and (sign := _DOCUMENT.match(text, self.at)):
                self.at = sign.end()
                mark = unquote(sign[2])
                if re.search(rf"^\t*{mark}\r?$", text[self.at :], re.MULTILINE):
                    documents.append((mark, bool(sign[1])))
            elif char == "\n" and documents:
                self.at += 1
                self.line += 1
                self._skip(documents)
                documents = []
            else:
                self._piece(depth + 1)
        raise ScriptError(line, f"the bracket {opening} is not closed")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lexer = _Lexer(text)
        self.stack: list[tuple[str, str, int]] = []  # kind, what closes it, its line
        self.branches: list[tuple[int, int]] = []  # of the choices around: number, branch
        self.choices = 0
        self.result: list[Statement] = []
        self.commands: list[Command] = []
        self.command = Command()
        self.before = ""
        self.start = -1
        self.end = 0
        self.line = self.last_line = 0
        self.function = ""
        self.case_words = 0
        self.target = ""
        self.pattern = ""  # what stands before in the pattern of a case
        self.arithmetic = 0
        self.awaits_name = False
        self.after_coproc = False
        self.in_parameters = False
        self.wanting = ""  # what a command is wanted behind: then, &&, (
        self.is_complete = False  # whether the line has a whole command before this token
        self.has_else: list[bool] = []  # of the same: whether its else has begun
        self.conditions: list[bool] = []  # of each if and loop around: whether its body is to come

    def statements(self) -> list[Statement]:
        previous = Token("operator", "\n", 0, 0, 1)
        for token in self.lexer.tokens():
            if token.kind == "comment":
                continue
            if self.start < 0 and token.text not in ("\n", ";"):
                self.start, self.line = token.start, token.line
            if token.kind == "word":
                self._take_word(token)
            else:
                self._take_operator(token, previous)
            if len(self.stack) > _LEVELS_MAX:
                raise ScriptError(token.line, f"more than {_LEVELS_MAX} blocks stand in each other")
            previous = token
        if self.target or self.wanting in LISTS:
            raise ScriptError(self.last_line, "it ends where more is wanted")
        self._end_command("")
        if self.stack:
            kind, closing, line = self.stack[-1]
            raise ScriptError(line, f"{kind} has no {closing}")
        self._end_statement(in_background=False)
        return self.result

    def _within(self) -> tuple[str, ...]:
        return tuple(kind for kind, _, _ in self.stack)

    def _begin(self, token: Token) -> None:
        """Note where a command begins, and what is around it."""
        command = self.command
        command.line, command.start, command.before = token.line, token.start, self.before
        command.within, command.branches = self._within(), tuple(self.branches)

    def _next_branch(self) -> None:
        choice, branch = self.branches.pop()
        self.branches.append((choice, branch + 1))

    def _take_word(self, token: Token) -> None:
        self.end, self.last_line = token.end, self.lexer.line
        if self.target:
            self.command.redirections.append((self.target, token.text))
            self.command.end = token.end
            self.target = ""
            self.wanting, self.is_complete = "", True
            return
        kind = self.stack[-1][0] if self.stack else ""
        if kind in ("((", "[["):
            if kind == "[[" and token.text == "]]":
                self.stack.pop()
                self.wanting, self.is_complete = "", True
                self.before = token.text  # it is a command, which may be the last of its line
            return
        if self.in_parameters:
            raise _unexpected(token)
        is_first = self._is_first(token)
        if kind in ("for head", "case head") and is_first:
            if (kind, token.text) in (("for head", "do"), ("case head", "in")):
                _, closing, line = self.stack.pop()
                inner = "for" if kind == "for head" else "case pattern"
                self.stack.append((inner, closing, line))
                self.wanting, self.is_complete = "do" if kind == "for head" else "", False
            return
        if kind == "case pattern" and token.text != "esac":
            if self.pattern and self.pattern != "|":
                raise _unexpected(token)
            self.pattern = token.text
            return
        if is_first and self._take_reserved(token):
            return
        command = self.command
        if is_first:
            self._begin(token)
        command.end = token.end
        self.wanting, self.is_complete = "", True
        if not command.words and _ASSIGNMENT.match(token.text):
            command.assignments.append(token)
        else:
            command.words.append(token)

    def _is_first(self, token: Token) -> bool:
        """Whether a word is the first of its command, which a coprocess has a name before."""
        words, is_compound = self.command.words, token.text in _OPENING
        if self.after_coproc and is_compound and len(words) == 1:
            self.command = Command()  # coproc NAME { …; }
        return not self.command.words and not self.command.assignments

    def _take_reserved(self, token: Token) -> bool:
        text = token.text
        self.after_coproc |= text == "coproc"
        if self.awaits_name:
            self.awaits_name = False
            self.function = self.function or text
            return True
        if self.is_complete and text == "-p":
            return True  # time -p
        if text in _ENDS_LIST and self.wanting:
            raise _unexpected(token)
        if self.stack and text == self.stack[-1][1]:
            self._close(token)
            return True
        self._take_middle(token)
        if text in _OPENING:
            self._open_compound(token)
            return True
        if text == "function":
            self.awaits_name = True
            return True
        if text in _CLOSING:
            raise ScriptError(token.line, f"{text} closes nothing")
        return text in _MIDDLE

    def _close(self, token: Token) -> None:
        """End a compound command: ``fi``, ``done``, ``esac``, ``}``."""
        kind = self.stack.pop()[0]
        if kind in ("if", "while", "until"):
            self.has_else.pop()
            if self.conditions.pop():
                raise _unexpected(token)
        self.is_complete = True
        if kind == "case pattern":
            self.stack.pop()
        if kind in ("if", "case", "case pattern"):
            self.branches.pop()

    def _open_compound(self, token: Token) -> None:
        """Begin a compound command: ``if``, ``for``, ``case``, ``{``."""
        text = token.text
        if text in ("if", "case"):
            self.choices += 1
            self.branches.append((self.choices, 0))
        if text in ("if", "while", "until"):
            self.conditions.append(True)
            self.has_else.append(False)
        if text in ("for", "select"):
            self.stack.append(("for head", "done", token.line))
        elif text == "case":
            self.stack += [("case", "esac", token.line), ("case head", "esac", token.line)]
        else:
            self.stack.append((text, _OPENING[text], token.line))

    def _take_middle(self, token: Token) -> None:
        """A word between the parts of a compound command: the condition, the body, the other."""
        text, kind = token.text, self.stack[-1][0] if self.stack else ""
        if text in ("then", "do"):
            is_expected = kind == "if" if text == "then" else kind in ("while", "until")
            if not is_expected or not self.conditions[-1]:
                raise _unexpected(token)
            self.conditions[-1] = False
        elif text in ("elif", "else"):
            if kind != "if" or self.conditions[-1] or self.has_else[-1]:
                raise _unexpected(token)
            self._next_branch()
            self.conditions[-1] = text == "elif"
            self.has_else[-1] = text == "else"
        self.wanting = text if text in _BEGINS_LIST else ""
        self.is_complete = text == "time"

    def _take_operator(self, token: Token, previous: Token) -> None:
        text = token.text
        kind = self.stack[-1][0] if self.stack else ""
        if text != "\n":
            self.end, self.last_line = token.end, token.line
        elif self.lexer.at > token.end and self.start >= 0:  # a here-document follows
            self.end, self.last_line = self.lexer.at, self.lexer.line - 1
        ends_parameters = self.in_parameters and text == ")"
        if self.target or (self.in_parameters and not ends_parameters):
            raise _unexpected(token)
        self.in_parameters = False
        if kind in ("((", "[[", "for head"):
            self._take_inside(token, kind)
        elif ends_parameters:
            pass
        elif text in _REDIRECTIONS:
            self._take_redirection(token)
        elif text == "(":
            self._open(token, previous)
        elif kind == "case pattern":
            self.pattern = text if text == "|" else ""
            if text == ")":
                self.stack.pop()
        elif text in _BREAKS:
            self._break(token, kind)

    def _take_inside(self, token: Token, kind: str) -> None:
        """An operator in an expression, or in the head of a loop."""
        if kind == "((":
            self._take_arithmetic(token.text)
        elif kind == "for head" and token.text == "(":
            self.stack.append(("((", "))", token.line))
            self.arithmetic = 1

    def _take_redirection(self, token: Token) -> None:
        command = self.command
        if not (command.words or command.assignments or command.redirections):
            self._begin(token)
        number = command.words[-1] if command.words else None
        if number is not None and number.end == token.start and number.text.isdigit():
            command.words.pop()  # 2>
        self.target = token.text

    def _break(self, token: Token, kind: str) -> None:
        """End a command, and with it what it is the end of."""
        text, has_body = token.text, self.is_complete or bool(self.commands)
        self._check_break(token, kind)
        self._end_command(text)
        if kind == "case" and text in (";;", ";&", ";;&"):
            self._next_branch()
            self.stack.append(("case pattern", "esac", token.line))
        elif text == ")" and kind == "(":
            self.stack.pop()
        elif text == ")":
            raise ScriptError(token.line, "the bracket ) closes nothing")
        elif text in ("\n", ";", "&") and not self.stack:
            is_function_head = self.function and not has_body and not self.commands
            if self.before not in LISTS and not is_function_head:
                self._end_statement(in_background=text == "&")

    def _check_break(self, token: Token, kind: str) -> None:
        """Refuse an operator where a command is wanted."""
        text = token.text
        if text == "\n":
            self.is_complete = False
            return
        if text in (";;", ";&", ";;&"):
            is_wrong = kind != "case" or bool(self.wanting)
        elif text == ")":
            is_wrong = bool(self.wanting)
        else:
            is_wrong = not self.is_complete
        if is_wrong:
            raise _unexpected(token)
        self.wanting = text if text in LISTS else ""
        self.is_complete = text == ")"

    def _take_arithmetic(self, text: str) -> None:
        self.arithmetic += (text == "(") - (text == ")")
        if self.arithmetic <= 0:
            self.stack.pop()
            self.before = "))"  # as behind [[
            self.wanting, self.is_complete = "", True

    def _open(self, token: Token, previous: Token) -> None:
        command = self.command
        if command.words or command.assignments:
            # name() { …; }
            if len(command.words) != 1 or command.assignments or previous.kind != "word":
                raise _unexpected(token)
            self.function = self.function or command.words[0].text
            self.is_complete = False
            self.command = Command()
            self.in_parameters = True
            return
        kind = self.stack[-1][0] if self.stack else ""
        if kind == "case pattern":
            return
        if self.function and previous.text == self.function and not self.commands:
            self.in_parameters = True  # function name ()
            return
        if previous.text == "(" and previous.end == token.start and kind == "(":
            self.stack.pop()
            self.stack.append(("((", "))", token.line))
            self.arithmetic = 2
            return
        self.stack.append(("(", ")", token.line))
        self.wanting, self.is_complete = "(", False

    def _end_command(self, operator: str) -> None:
        command = self.command
        self.after_coproc = False
        if command.words or command.assignments or command.redirections:
            command.after = operator
            if self.function:
                command.within = ("function", *command.within)
            self.commands.append(command)
        self.command = Command()
        is_command = command.words or command.assignments or command.redirections
        if operator != "\n" or self.before not in LISTS or is_command:
            self.before = operator

    def _end_statement(self, *, in_background: bool) -> None:
        if self.start >= 0:
            end = self.end
            while end > self.start and self.text[end - 1] in ";&\n \t":
                end -= 1
            if end == self.start:  # an operator alone, which bash would refuse
                raise ScriptError(self.line, f"{self.text[end]} stands where a command is wanted")
            self.result.append(
                Statement(
                    self.commands,
                    self.start,
                    end,
                    self.line,
                    self.last_line,
                    in_background,
                    self.function,
                )
            )
        self.commands, self.function, self.start, self.before = [], "", -1, ""


def _unexpected(token: Token) -> ScriptError:
    position = "the line ends" if token.text == "\n" else f"{token.text} stands"
    return ScriptError(token.line, f"{position} where something else is wanted")


# --- words ----------------------------------------------------------------------------------------

_QUOTES = re.compile(r"[\\'\"]")


def is_static(word: str) -> bool:
    """Whether a word means the same whatever is set: nothing in it is expanded."""
    at = 0
    while at < len(word):
        char = word[at]
        if char == "'":
            at = word.find("'", at + 1) + 1
            if not at:
                return False
        elif char == "\\":
            at += 2
        elif char == '"':
            end = at + 1
            while end < len(word) and word[end] != '"':
                if word[end] in "$`":
                    return False
                end += 2 if word[end] == "\\" else 1
            at = end + 1
        elif (
            char in "$`*?[<>(" or (char == "~" and at == 0) or (char == "{" and _is_brace(word, at))
        ):
            return False
        else:
            at += 1
    return True


def _is_brace(word: str, at: int) -> bool:
    """Whether a brace is expanded: a comma or two dots stand in it, as in ``{a,b}``."""
    end = word.find("}", at)
    inner = word[at:end] if end > 0 else ""
    return "," in inner or ".." in inner


def unquote(word: str) -> str:
    """A word without its quotes; expansions stay as they are typed, with quotes of their own."""
    if _QUOTES.search(word) is None:
        return word
    text, at, in_double = "", 0, False
    while at < len(word):
        char, after = word[at], word[at + 1 : at + 2]
        end = at + 1
        if char == "`" or (char == "$" and after == "("):
            end = end_of_substitution(word, at)
            text += word[at:end]
        elif char == '"':
            in_double = not in_double
        elif char == "\\" and (not in_double or after in ("$", "`", '"', "\\", "\n")):
            text += "" if after == "\n" else after
            end = at + 2
        elif char == "'" and not in_double:
            end = word.find("'", at + 1) + 1 or len(word) + 1
            text += word[at + 1 : end - 1]
        else:
            text += char
        at = end
    return text


def end_of_substitution(word: str, start: int) -> int:
    """Where a command whose output stands in a word ends; behind its sign, where it does not."""
    lexer = _Lexer(word)
    lexer.at = start
    try:
        lexer.substitution()
    except ScriptError:
        return start + 1
    return lexer.at

"""Pieces of a shell script as text: what a word is, and texts with pieces of them replaced."""

from __future__ import annotations

import ast
import re
import warnings
from itertools import takewhile
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, scanner
from allranks.convert.slurm.batch_script.text import first_node, node_names, substitutions, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from allranks.convert.programs.scanner import Command, Statement

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_HEAD = re.compile(r"\s*(?:#|$)")  # a comment, or nothing
_SHOWN = 60  # characters of a line in a verdict
# What a script only shows, such as how to call it: ``echo "Usage: A=1 sbatch a.sh" >&2``.
_PRINTED = re.compile(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)*(?:\"(?:[^\"`$\\]|\\.|\$(?!\())*\"|'[^']*')"
    r"(?=\s*(?:[12]?>&[12]\s*)?(?:[;&)}]|$))",
    re.MULTILINE,
)
# Lines that print, and do nothing else.
_PRINTING = re.compile(
    r"^\s*(?:echo|printf(?!\s+-v))\b(?:(?:[^|>;&`\n\\]|\\.|\\\n)*"
    # A text in quotes may have the signs of a shell, and nothing in it runs.
    r"|(?:\"(?:[^\"`$\n\\]|\\.|\$(?!\())*\"|'[^'\n]*'|\\\n|[^|>;&`\n\"'])*)"
    r"(?:[12]?>&[12][ \t]*)?$",
    re.MULTILINE,
)
# Behind these a command's end is an answer.
_ASKING = re.compile(r"(?:^|[\s;&|(])(?:if|elif|while|until|!)[ \t]*\Z")


def without_printing(text: str) -> str:
    """A text without the lines that only print: `:` stands there, as a branch may have no other.

    What such a line asks a program of the project's own stays: ``echo $(python a.py $A)``.
    """
    return _PRINTING.sub(lambda match: f": {_run_inside(match[0])}".rstrip(), text)


def _run_inside(text: str) -> str:
    """The substitutions of a line that run a program of the project's own."""
    if "$(" not in text and "`" not in text:
        return ""
    own = [part for part in substitutions.texts(text) if _runs_own(part)]
    return " ".join(own)


def _runs_own(substitution: str) -> bool:
    """Whether a substitution runs Python with a file or a module, or a file of the project's."""
    for command in commands_of(substitutions.inside(substitution)[0]):
        typed = words.unwrapped([scanner.unquote(word.text) for word in command.words])
        is_python = words.is_python(typed) and not {"-c", "-V", "--version"} & {*typed[1:2]}
        if is_python or (typed and typed[0].endswith((".py", ".sh"))):
            return True
    return False


def without_shell(texts: list[str]) -> list[str]:
    """The file that a shell runs and its words, without the shell: ``bash -x run.sh a``."""
    if not texts or words.base(texts[0]) not in SHELLS:
        return texts
    return [text for text in texts[1:] if not text.startswith("-")]


def without_shown(text: str) -> str:
    """A text without the commands that print, also those behind others on their line."""
    return _PRINTED.sub("", text)


def short(text: str) -> str:
    """The first line of a statement, cut to a length that fits a report."""
    first, *rest = text.strip().split("\n")
    return first if len(first) <= _SHOWN and not rest else f"{first[: _SHOWN - 2].rstrip()} …"


def without_login(shebang: str) -> str:
    """The first line of a script whose shell is that of no login: ``#!/bin/bash -el``."""
    without_word = re.sub(r"\s+--?login\s*$", "", shebang)
    # `-noprofile` is a word, and no letters.
    without_letter = re.sub(r"(\s-(?!no)[a-z]*)l(?=[a-z]*\s*$)", r"\1", without_word)
    return re.sub(r"\s+-\s*$", "", without_letter)


def without_terminal(shebang: str) -> str:
    """The first line of a script whose shell is one without a terminal: ``#!/bin/bash -i``."""
    words_of = "no|init|login|posix|verbose|restricted"
    without_letter = re.sub(rf"(\s-(?!{words_of})[a-z]*)i(?=[a-z]*\s*$)", r"\1", shebang)
    return re.sub(r"\s+-\s*$", "", without_letter)


def of_bash(shebang: str) -> str:
    """The first line of a script with bash in place of sh, which lacks much of it in an image."""
    return re.sub(r"^(#!\s*(?:\S*/env\s+)?(?:\S*/)?)sh(?=\s|$)", r"\1bash", shebang)


def of_image(shebang: str) -> str:
    """The first line of a script with the shell of an image in place of one that a site has."""
    own = re.match(r"#!\s*(/\S+)/(bash|zsh|ksh|dash)(?=\s|$)", shebang)
    if own is None or own[1] in ("/bin", "/usr/bin"):
        return shebang
    return f"#!/bin/{own[2]}{shebang[own.end() :]}"


def first_line_of_python(text: str) -> int:
    """How many lines of a script of Python's have to stand first: its text, what is of the future.

    0 for a script that this Python cannot read.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            nodes = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return 0
    whole_rows = text.split("\n")[:-1]
    lines = sum(1 for _ in takewhile(lambda row: row.startswith("#"), whole_rows))
    for number, node in enumerate(nodes):
        is_text = (
            number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        lines = node.end_lineno or lines
    return lines


def is_about_tasks(name: str) -> bool:
    """Whether an option says how many tasks there are."""
    return name in ("ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu")


def is_condition(text: str, command: Command) -> bool:
    """Whether a command is what an `if`, a `while` or a `!` asks.

    Args:
        text: the script.
        command: a command of it.
    """
    line = text[text.rfind("\n", 0, command.start) + 1 : command.start]
    return _ASKING.search(line) is not None


def is_conditional(statement: Statement, command: Command) -> bool:
    """Whether it is known in the pod alone if a command runs: ``[ -n "$A" ] || A=4``."""
    if command.within or statement.function:
        return True
    if command.before not in ("&&", "||"):
        return False
    earlier = [other for other in statement.commands if other.start < command.start]
    return not earlier or not all(map(assigned_by, earlier))  # to set a variable succeeds


def assigned_by(command: Command) -> list[tuple[str, str]]:
    """The variables that a command sets for the shell, with their text."""
    if command.name == ":":  # : "${NAME:=text}"
        defaults = [_DEFAULT.fullmatch(word.text) for word in command.words[1:]]
        # As in `NAME="${NAME:-text}"`: who submits may have given it another.
        own = [(match[1], match[2]) for match in defaults if match is not None]
        return [(name, f'"${{{name}:-{text}}}"') for name, text in own]
    if not command.words:
        pairs = [word.text for word in command.assignments]
    elif command.name in _DECLARING:
        pairs = [words.with_bare_name(word.text) for word in command.words[1:] if "=" in word.text]
    else:
        return node_names.read_into(command)
    assignments = []
    for pair in pairs:
        name, _, value = pair.partition("=")
        assignments.append((re.sub(r"\[.*|\+$", "", name), value))
    return assignments


def assignments_of(command: Command) -> list[tuple[str, str]]:
    """The variables that a command sets for the shell, or for what it runs: ``env A=1 b``."""
    in_front = [word.text for word in command.assignments] if command.words else []
    texts = [word.text for word in command.words]
    if "env" in texts:
        in_front += takewhile(_SETS_ONE.match, texts[texts.index("env") + 1 :])
    pairs = [text.partition("=") for text in in_front]
    return [*assigned_by(command), *((name, value) for name, _, value in pairs)]


def printed_into(command: Command) -> list[str]:
    """The variable that a printf sets: ``printf -v subject "%03d" 7``."""
    texts = [word.text for word in command.words[:3]]
    return texts[2:] if texts[:2] == ["printf", "-v"] else []


def sets_unexported(command: Command) -> bool:
    """Whether a command sets a variable for its shell alone, as far as it says."""
    if command.name in ("read", "mapfile", "readarray", "let", "getopts"):
        return True
    if printed_into(command):
        return True
    return command.name != "export" and bool(assigned_by(command))


def exports(command: Command) -> bool:
    """Whether a `declare` puts a text into the environment, which outlives its shell."""
    flags = [token.text for token in command.words[1:] if token.text.startswith("-")]
    letters = "".join(flags)
    return "x" in letters and not {*letters} & {*"aAilu"}


def shows_declared(command: Command) -> bool:
    """Whether a `declare` is about functions, or shows what there is, or is global as it stands."""
    flags = "".join(token.text for token in command.words[1:] if token.text.startswith("-"))
    return bool({*flags} & {*"fFpg"})


def removed_by(command: Command) -> set[str]:
    """The variables that a command takes out of the environment: ``unset A``, ``export -n A``."""
    texts = [word.text for word in command.words]
    flags = {text for text in texts[1:] if text[:1] in "-+"}
    is_removal = texts[:1] == ["unset"] and "-f" not in flags
    is_removal |= texts[:1] == ["export"] and "-n" in flags
    is_removal |= texts[:1] in (["declare"], ["typeset"]) and "+x" in flags
    return {*texts[1:]} if is_removal else set()


def assigns(statement: Statement, name: str) -> bool:
    """Whether a statement sets a variable."""
    return any(other == name for command in statement.commands for other, _ in assigned_by(command))


def set_by(statement: Statement) -> set[str]:
    """The variables that a statement sets."""
    return {name for command in statement.commands for name, _ in assigned_by(command)}


def changes_words(command: Command) -> bool:
    """Whether a command changes the words behind the script's name, or how many are read."""
    texts = [scanner.unquote(word.text) for word in command.words]
    return texts[:1] in (["shift"], ["getopts"]) or sets_words(texts)


def sets_words(texts: Sequence[str]) -> bool:
    """Whether a command is a ``set`` with words, and not with options alone."""
    return texts[:1] == ["set"] and any(
        text == "--" or not text.startswith(("-", "+")) for text in texts[1:2]
    )


def writes(command: Command) -> bool:
    """Whether a command writes into a file."""
    return any(
        operator in (">", ">>", "&>", "&>>", ">|") and target != "/dev/null"
        for operator, target in command.redirections
    )


def is_array(command: Command, name: str) -> bool:
    """Whether a command makes a variable an array, or sets a part of it: no shell exports it."""
    return name in arrays_of(command)


def arrays_of(command: Command) -> set[str]:
    """The arrays that a command makes, or sets a part of: ``read -ra words``, ``a[1]=b``.

    A name for another variable, ``declare -n a=b``, is as little exported.
    """
    arrays = {name for name, value in assigned_by(command) if value.startswith("(")}
    texts = [word.text for word in command.words]
    assignments = [word.text for word in (*command.assignments, *command.words)]
    is_assigning = not texts or texts[0] in _DECLARING
    parts = map(_PART_OF_ARRAY.match, assignments if is_assigning else [])
    arrays.update(match[1] for match in parts if match is not None)
    if texts[:1] in (["mapfile"], ["readarray"]):
        arrays.add(texts[-1] if _IS_NAME.fullmatch(texts[-1]) else "MAPFILE")
    elif texts[:1] == ["read"] or is_assigning:
        flags = node_names.INTO_ARRAY if texts[:1] == ["read"] else _OF_ARRAYS
        at = next((n for n, text in enumerate(texts) if flags.fullmatch(text)), len(texts))
        arrays.update(filter(_IS_NAME.fullmatch, texts[at + 1 :]))
        is_reference = any(map(_OF_REFERENCES.fullmatch, texts[1:]))
        arrays.update(name for name, _ in (assigned_by(command) if is_reference else ()))
    return arrays


def splits_words(command: Command) -> bool:
    """Whether a command sets by what the shell splits words: ``IFS=,``, ``unset IFS``."""
    return "IFS" in dict(assigned_by(command)) or "IFS" in removed_by(command)


def finds_files(command: Command) -> bool:
    """Whether a command sets what a shell makes of patterns: ``shopt -s nullglob``, ``set -f``."""
    texts = [token.text for token in command.words]
    if texts[:1] == ["shopt"]:
        return any(text.endswith("glob") or text == "globstar" for text in texts[1:])
    is_set = texts[:1] == ["set"]
    return is_set and ("noglob" in texts or any(map(_NO_FILES.fullmatch, texts[1:2])))


_NO_FILES = re.compile(r"[-+][a-zA-Z]*f[a-zA-Z]*")
_DECLARING = ("export", "declare", "local", "readonly", "typeset")
_PART_OF_ARRAY = re.compile(r"([A-Za-z_]\w*)\[[^\]]*\]\+?=")
_OF_ARRAYS = re.compile(r"-[A-Za-z]*[aA][A-Za-z]*")
_OF_REFERENCES = re.compile(r"-[A-Za-z]*n[A-Za-z]*")
_IS_NAME = re.compile(r"[A-Za-z_]\w*")


def variable_alone(word: str) -> str:
    """The name of the variable that a word is, and nothing else; "" for any other word."""
    match = re.fullmatch(r"\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?\}?", word)
    return match[1] if match is not None else ""


def content_of(value: str) -> str:
    """The words of a variable's value as shell text: of a quoted text, or of an array."""
    if value.startswith("(") and value.endswith(")"):
        try:
            return " ".join(t.text for t in scanner.tokens(value[1:-1]) if t.kind == "word")
        except scanner.ScriptError:
            return ""
    if value.startswith('"') or "'" not in value:
        return _quoted_text(value).replace("\n", " ")
    # The shell that is given the text joins its lines there.
    return re.sub(r"\\\n|\n", " ", scanner.unquote(value))


def _quoted_text(value: str) -> str:
    """A quoted value as the text that a shell reads which is given it, its lines joined.

    The script puts in the variables, also between single quotes: ``CMD="a.py '$NAME'"``.
    """
    return _text_inside(re.sub(r"\\\n", " ", value))


# What a shell that reads a text makes of it besides words.
_ACTIVE = re.compile(r"[;&|<>\n]")


def is_script(value: str) -> bool:
    """Whether a variable's value is more than words to a shell that reads it: ``"cd a; ./b"``."""
    if value[:1] not in ('"', "'"):
        return False
    is_late = value.startswith("'") and "$" in value
    is_late |= value.startswith('"') and re.search(r"\\(?:\$\(|`)", value) is not None
    return is_late or _ACTIVE.search(substitutions.without(script_of(value)).strip()) is not None


def script_of(value: str) -> str:
    """The text of a variable's value with its lines."""
    return _quoted_text(value) if value.startswith('"') else scanner.unquote(value)


def lines_of(value: str) -> str:
    """The lines of a quoted text; "" where it is an array, or comes of a command."""
    is_text = value[:1] in ('"', "'") and "$(" not in value and "`" not in value
    if value.startswith('"'):
        return _quoted_text(value).strip() if is_text else ""
    return re.sub(r"\\\n", " ", scanner.unquote(value)).strip() if is_text else ""


def shell_text(texts: Sequence[str]) -> str | None:
    """The text of ``bash -c "text"``; None for anything else."""
    if len(texts) < 3 or words.base(texts[0]) not in SHELLS:  # noqa: PLR2004 - bash, -c and the text
        return None
    for place in range(1, len(texts) - 1):
        if re.fullmatch(r"-[a-z]*c", texts[place]):
            return _text_inside(texts[place + 1]) if place + 2 == len(texts) else None
        if not texts[place].startswith("-"):
            return None
    return None


def _text_inside(word: str) -> str:
    """The text that a shell gets as a word, where the variables in it mean the same.

    Who calls puts them in before that shell reads single quotes: ``"echo '$NAME'"`` has the text of
    NAME. So they are taken out of the single quotes.
    """
    if not (len(word) > 1 and word[0] == word[-1] == '"' and "'" in word):
        return scanner.unquote(word)
    out: list[str] = []
    quote, at, end = "", 1, len(word) - 1
    while at < end:
        match = _VARIABLE.match(word, at)
        if match is not None:
            out.append(f"'\"{match[0]}\"'" if quote == "'" else match[0])
            at = match.end()
            continue
        is_escape = word[at] == "\\" and word[at + 1] in '$`"\\\n'
        char = word[at + is_escape]
        at += 1 + is_escape
        if is_escape and char == "\n":
            continue
        escapes_next = char == "\\" and quote != "'" and at < end  # it escapes what stands behind
        out.append(char)
        if escapes_next:
            out.append(word[at])
            at += 1
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
    return "".join(out)


_EXEC = re.compile(r"^(?:export\s[^;]*;\s*)?exec\s+(.*)$")


def first_word(command: Sequence[str], *, is_torchruns: bool = True) -> str:
    """The program of a command, in a shell's text too.

    Args:
        command: the command.
        is_torchruns: whether ``python -u`` at its beginning may be torchrun's, and no program.
    """
    if tuple(command[1:2]) == ("-c",) and len(command) == 3:  # noqa: PLR2004 - bash, -c and the text
        last_line = command[2].replace("\\\n", "").split("\n")[-1]
        # What stands before the program may set its variables: `export A=$A; exec ./run.sh`.
        behind_exec = _EXEC.search(last_line)
        command = (behind_exec[1] if behind_exec else last_line).split()
    is_python = len(command) > 2 and words.is_python(command[:1]) and command[1] == "-u"  # noqa: PLR2004 - torchrun's python
    return command[2 if is_python and is_torchruns else 0] if command else ""


def as_text(command: Sequence[str]) -> str:
    """A command as a line of a shell."""
    if tuple(command[1:2]) == ("-c",) and len(command) == 3:  # noqa: PLR2004 - bash, -c and the text
        return command[2].removeprefix("exec ")
    return commands.as_shell(command)


_VARIABLE = re.compile(r"\$(?:\{[A-Za-z_][^}\"']*\}|[A-Za-z_]\w*)")
_SETS_ONE = re.compile(r"[A-Za-z_]\w*=")
_DEFAULT = re.compile(r'"?\$\{([A-Za-z_]\w*):?=(.*)\}"?', re.DOTALL)


def put(pattern: str, piece: str, text: str) -> str:
    """A text with a piece, as it is, in place of what a pattern finds."""
    return re.sub(pattern, lambda _: piece, text)


def commands_of(text: str) -> list[Command]:
    """The commands of a text; [] where it is no shell text."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return []
    return [command for statement in statements for command in statement.commands]


def substituted_commands(text: str) -> list[Command]:
    """The commands whose output stands in a text: ``$(date)``, `date`."""
    commands = []
    for part in (*substitutions.inside(text), *substitutions.of_files(text)):
        commands += [*commands_of(part), *substituted_commands(part)]
    return commands


def split(text: str) -> list[str]:
    """The words of a text; [] where it is no shell text."""
    try:
        return [token.text for token in scanner.tokens(text) if token.kind == "word"]
    except scanner.ScriptError:
        return []


def edited(
    text: str, edits: Iterable[tuple[int, int, str]], start: int = 0, end: int | None = None
) -> str:
    """A part of a text with pieces of it replaced."""
    end = len(text) if end is None else end
    out, at = [], start
    for first, last, replacement in sorted(edits):
        if first < at or last > end:
            continue
        out += [text[at:first], replacement]
        at = last
    return "".join([*out, text[at:end]])


def without_directives(text: str) -> str:
    """A script without its directives, which are nothing to who runs it.

    Those behind the first command are none: they may be a document that the script writes.
    """
    rows = text.split("\n")
    first = next((at for at, row in enumerate(rows) if not _HEAD.match(row)), len(rows))
    head = [row for row in rows[:first] if not row.startswith("#SBATCH")]
    return "\n".join([*head, *rows[first:]])


def looks_like_master(name: str, *, is_number: bool = False) -> bool:
    """Whether a variable is called what people call the node of rank 0, or the nodes.

    Args:
        name: what it is called.
        is_number: whether its text is one, as that of a port may be, and no list of nodes is.
    """
    lowered = name.lower()
    return lowered.startswith(("master", "head_node", "headnode", "rdzv", "main_process")) or (
        not is_number and lowered in _NODES
    )


_NODES = frozenset(
    {
        *("nodes", "nodes_array", "nodelist", "hostnames", "head", "ip", "ip_addr", "ip_address"),
        *("node_list", "nodes_list", "host_list", "hosts", "first_node", "master", "node0"),
    }
)


def differs_by_pod(text: str) -> bool:
    """Whether what a statement sets differs from pod to pod."""
    return DRAWN.search(text) is not None or first_node.is_named(text)


# What is another text each time: of the moment, by lot, or the number of a process.
DRAWN = re.compile(
    r"\$\((?:date|mktemp|shuf|uuidgen)|`(?:date|mktemp)|(?<!\\)\$\$(?![\w{(])"
    r"|\$\{?(?:S?RANDOM|BASHPID|PPID|EPOCHSECONDS|EPOCHREALTIME)\b|\(\([^()]*\bS?RANDOM\b"
)


def runs(statement: Statement, programs: Collection[str]) -> bool:
    """Whether a statement runs one of some programs."""
    return any(
        words.any_of([token.text for token in command.words], programs)
        for command in statement.commands
    )


def runs_only(statement: Statement, programs: Collection[str]) -> bool:
    """Whether all commands of a statement are among some programs."""
    return all(
        not command.words or words.any_of([token.text for token in command.words], programs)
        for command in statement.commands
    )


def reads_file(command: Command) -> bool:
    """Whether a command reads a file that may set any variable, and define functions."""
    return (
        command.name in ("source", ".")
        and len(command.words) > 1
        and not words.ACTIVATES.search(scanner.unquote(command.words[1].text))
    )


def evaluates_program(statement: Statement) -> bool:
    """Whether an `eval` of a statement runs a program that is written out there."""
    for command in statement.commands:
        texts = [scanner.unquote(token.text) for token in command.words]
        for inner in commands_of(" ".join(texts[1:])) if texts[:1] == ["eval"] else ():
            own = [token.text for token in inner.words]
            if own and own[0][0] not in "$`" and not words.any_of(own, words.IN_EACH_RANK):
                return True
    return False

"""The statements of a batch script, and what its first line says."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm import blanks
from allranks.convert.slurm.batch_script.text import assignment_lists, shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script

# What begins a here-document, with the word that ends it: `<<'__END__'`.
_DOCUMENT_SIGN = re.compile(r"<<-?[ \t]*(['\"]?)\w+\1")
# What has the signs of a template for itself.
_OF_FORMATS = re.compile(
    r"--format|\b(?:sed|awk|grep|perl|jq|echo|printf|docker|podman|envsubst)\b"
)
# A loop that runs once. Its first line is longer than an assignment of the word.
_ONE_PASS = re.compile(
    r"for[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in[ \t]+(?P<word>[\w.,:/@%+-]+)[ \t]*(?:;|\n)\s*do(?=\s)"
)
# One that counts to a variable: `for n in $(seq 1 "$N"); do`.
_COUNTED = re.compile(
    r"for[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in[ \t]+\$\(seq[ \t]+(?:1[ \t]+)?"
    r"[\"']?\$\{?(?P<most>[A-Za-z_]\w*)\}?[\"']?[ \t]*\)[ \t]*(?:;|\n)\s*do(?=\s)"
)
# What may stand before a group, and what behind it writes its lines elsewhere.
_BEFORE_GROUP = re.compile(r"(?:time[ \t]+(?:-p[ \t]+)?)?(?P<bracket>[{(])(?![(])")
_BEHIND_GROUP = re.compile(
    r"(?:[ \t]*(?:[0-9]?>>?|&>>?|>&)[ \t]*(?:&?[\w./$%@+:,={}-]+|\"[^\"\n]*\"))*"
    r"(?:[ \t]*\|&?[ \t]*(?:tee|ts|cat|grep|sed|awk)\b[^|;&\n]*)*[ \t]*$"
)
# No person writes more, and what is read of each line may depend on all others.
_COMMANDS_MAX = 10_000
# What ends a group on its line, whose last command has such an end of its own.
_END_OF_GROUP = re.compile(r"\A[ \t]*;(?!;)")
# What parts a statement from the next on its line.
_SEPARATOR = re.compile(r"[ \t]*[;&](?![;&])[ \t]*")
_NOT_CONTINUED = re.compile(r"\\[ \t]+(?:#.*)?$")


def interpreter(first_line: str) -> str:
    """The program that a script's first line names; bash where it names none."""
    shebang = first_line if first_line.startswith("#!") else ""
    program = shebang.removeprefix("#!").split() or ["/bin/bash"]
    if words.base(program[0]) == "env":
        program = [
            word for word in program[1:] if not word.startswith("-") and "=" not in word
        ] or program
    return words.base(program[0])


def parsed(script: Script) -> Script:
    """A script with its statements; groups at the top, and loops that run once, are opened.

    A line that sets several variables is a statement for each. The script keeps its lines.

    Raises:
        InvalidValues: it is no shell script, or a template of one.
    """
    _check_filled_in(script)
    try:
        statements = scanner.parse(script.text)
    except scanner.ScriptError as error:
        row = script.lines[error.line - 1] if error.line <= len(script.lines) else ""
        blank = blanks.FOR_A_PERSON.search(row)
        hint = f"fill in what stands for {blank[0]}" if blank else "mend the script"
        message = f"the script cannot be read: {error.reason}"
        raise script.refuse(error.line, message, hint) from error
    script = replace(script, statements=statements)
    if len(script.commands) > _COMMANDS_MAX:
        raise script.refuse(
            script.commands[_COMMANDS_MAX].line,
            f"the script has {len(script.commands):,} commands, and up to {_COMMANDS_MAX:,} are "
            "read",
            "put lines into a script of their own, and have this one run it",
        )
    for open_text in (_opened_group, _opened_loops, _one_assignment_each):
        text = open_text(script)
        if text != script.text:
            script = replace(script, text=text, statements=scanner.parse(text))
    return script


def _check_filled_in(script: Script) -> None:
    """Refuse a template: ``python a.py {{ path }}``; what the script writes may be one."""
    code = words.without_comments(script.text)
    for start, end in reversed(words.documents(code)):
        code = code[:start] + re.sub(r"[^\n]", "", code[start:end]) + code[end:]
    has_formats = False
    code = blanks.without_texts(code)
    # A text over several lines may say how to use the script.
    bare = blanks.QUOTED.sub(lambda match: "\n" * match[0].count("\n"), code).split("\n")
    for line, typed in enumerate(code.split("\n"), 1):
        row = _DOCUMENT_SIGN.sub("", typed)
        has_formats = has_formats or _OF_FORMATS.search(row) is not None
        match = blanks.OF_LINES.search(row) or blanks.IN_PATHS.search(blanks.QUOTED.sub("", row))
        match = match or blanks.IN_CAPITALS.search(bare[line - 1])
        blank = match[0] if match else blanks.whole_value(typed)
        is_end = blank == row.strip()  # of a here-document
        if blank and not is_end and not has_formats:
            hint = f"fill in what stands for {blank}"
            raise script.refuse(line, "the script is a template, whose blanks no shell fills", hint)
        has_formats = has_formats and row.endswith("\\")  # the command goes on


def _opened_group(script: Script) -> str:
    """The text without the braces of the first group at the top, ``{ … }``, which is its lines."""
    for statement in script.statements:
        text = script.slice(statement)
        group = _inside_group(script, statement)
        if group is not None and text.startswith("{") and group.stop == len(text) - 1:
            inner = text[group.start : group.stop]
            return f"{script.text[: statement.start]} {inner} {_behind(script, statement, inner)}"
    return script.text


def opened_around(script: Script, statement: Statement) -> tuple[str, str]:
    """A script's text without the group that a statement is: ``time { … } 2>&1 | tee log``.

    It keeps its lines. In Slurm one shell runs a group, and here each rank would.

    Returns:
        The text, and what stood behind the group; ("", "") for a statement that is none.
    """
    text = script.slice(statement)
    group = _inside_group(script, statement)
    if group is None:
        return "", ""
    before = script.text[: statement.start]
    inner = f"{' ' * group.start}{text[group.start : group.stop]}"
    return f"{before}{inner} {_behind(script, statement, inner)}", text[group.stop + 1 :].strip()


def _behind(script: Script, statement: Statement, inner: str) -> str:
    """The text behind a group, without the end that the last of its commands has as well."""
    behind = script.text[statement.end :]
    has_end = inner.rstrip(" \t").endswith((";", "\n", "&"))
    return _END_OF_GROUP.sub(lambda match: " " * len(match[0]), behind) if has_end else behind


def _inside_group(script: Script, statement: Statement) -> range | None:
    """Where in a statement that is a group the lines of that stand; None for any other."""
    text = script.slice(statement)
    head = _BEFORE_GROUP.match(text)
    if head is None or statement.function or statement.in_background:
        return None
    bracket = {"{": "}", "(": ")"}[head["bracket"]]
    for match in re.finditer(rf"\{bracket}", text):
        inner, tail = text[head.end() : match.start()], text[match.end() :]
        if _BEHIND_GROUP.match(tail) and _is_script(inner):
            return range(head.end(), match.start())
    return None


def _one_assignment_each(script: Script) -> str:
    """The text with a statement for each variable that a line sets."""
    return assignment_lists.parted(script.text, script.statements)


def _opened_loops(script: Script) -> str:
    """The text without the loops of one word: ``for lr in 0.1; do``."""
    text, statements = script.text, script.statements
    while True:
        opened = next(filter(None, (_opened_loop(text, other) for other in statements)), "")
        if not opened:
            return text
        text, statements = opened, scanner.parse(opened)


def _opened_loop(script: str, statement: Statement) -> str:
    """A script's text with a loop of one word taken off its lines; "" where it is none."""
    text = script[statement.start : statement.end]
    head, word = _ONE_PASS.match(text), ""
    if (
        head is None
        and (counted := _COUNTED.match(text))
        and _counts_to_one(script, counted["most"])
    ):
        head, word = counted, "1"
    is_alone = re.match(r"[ \t]*(?:#.*)?(?:\n|$)", script[statement.end :]) is not None
    stays_loop = statement.function or not is_alone or not text.endswith("done")
    if head is None or stays_loop or re.search(r"\b(?:break|continue)\b", text):
        return ""
    inner = text[head.end() : -4]
    if not _is_script(inner):
        return ""
    spaces = re.sub(r"\S", " ", head[0])
    own = f"{head['name']}={word or head['word']};"
    return (
        f"{script[: statement.start]}{own}{spaces[len(own) :]}{inner}    {script[statement.end :]}"
    )


def _counts_to_one(script: str, name: str) -> bool:
    """Whether a script sets a variable to 1 wherever it does, or has that for none: ``${N:=1}``."""
    own = rf"(?<![\w$]){name}=[\"']?(?:\$\{{{name}:?-(\w*)\}}|([^\s;\"']*))"
    defaults = re.findall(rf"\$\{{{name}:?=(\w*)\}}", script)
    values = {"".join(pair) for pair in re.findall(own, script)} | {*defaults}
    return values == {"1"}


def check_continued(script: Script) -> None:
    """Refuse a command whose options are none: something stands behind the backslash."""
    for statement in script.statements:
        above = script.lines[statement.line - 2] if statement.line > 1 else ""
        is_option = re.match(r"--?[A-Za-z]", script.slice(statement)) is not None
        if is_option and _NOT_CONTINUED.search(above):
            raise script.refuse(
                statement.line - 1,
                "something stands behind the backslash, so that the command ends there",
                "let the backslash be the last character of the line",
            )
    for statement in script.statements:
        for command in statement.commands:
            _check_continued_inside(script, command)


def _check_continued_inside(script: Script, command: Command) -> None:
    """Refuse the same in the text of ``bash -c "…"``."""
    for before, token in pairwise(command.words):
        if not re.fullmatch(r"-[a-z]*c", before.text):
            continue
        for number, (above, row) in enumerate(pairwise(token.text.split("\n"))):
            if _NOT_CONTINUED.search(above) and re.match(r"\s*--?[A-Za-z]", row):
                raise script.refuse(
                    token.line + number,
                    "something stands behind the backslash, so that the command ends there",
                    "let the backslash be the last character of the line",
                )


def _is_script(text: str) -> bool:
    """Whether a text is a script of its own."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return False
    texts = [token.text for st in statements for command in st.commands for token in command.words]
    return not {"{", "}"} & {*texts}


def squeezed(text: str) -> str:
    """A script with one empty line for several, but for those within its statements.

    A here-document and a text in quotes keep theirs.

    Args:
        text: the script.
    """
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text
    ends = [0, *(own.end for own in statements)]
    starts = [*(own.start for own in statements), len(text)]
    documents = words.documents(text)
    edits = []
    for floor, start in zip(ends, starts, strict=True):
        end = max([floor, *(last for first, last in documents if first >= floor and last <= start)])
        edits.append((end, start, re.sub(r"\n{3,}", "\n\n", text[end:start])))
    return shell_text.edited(text, edits)


def end_of(script: Script, statement: Statement) -> int:
    """Where a statement ends with what parts it from the next on its line: ``;`` or ``&``.

    Args:
        script: the script.
        statement: one of its statements.
    """
    match = _SEPARATOR.match(script.text, statement.end)
    return statement.end if match is None else match.end()

"""Variables that a script reads before a line sets them: ``WORK="$WORK/data"``, ``df "$TMPDIR"``.

There they have the text that who submits has given them, whatever a later line says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script

# What an environment, or a module, sets, and the programs that bring one.
_OF_ENVIRONMENT = frozenset({"CONDA_PREFIX", "CONDA_EXE", "VIRTUAL_ENV", "CUDA_HOME"})
_OF_MODULES = ("module", "ml")
_BRINGING = frozenset({*_OF_MODULES, "eval", *words.MANAGERS})
_WITH_PYTHON = re.compile(r"(?i)conda|python|mamba|forge")
# What asks whether there is a text, and goes on without one; and a sum, where none is 0.
_TESTS = ("[", "[[", "test")
_SUM = re.compile(r"\$\(\([^()]*\)\)")
# A line that puts something before or behind the text that there is, with a sign between them.
_LENGTHENED = r"[\"']?(?:\$\{{0}\}|\${0}(?!\w))[:;, ]|[:;, ][\"']?(?:\$\{{0}\}|\${0}(?!\w))[\"']?$"


def names(script: Script, *, nounset: bool) -> set[str]:
    """The variables that commands set, and that one before these reads without a text in its place.

    Those that a loop or ``read`` sets, or a function, are none of them.

    Args:
        script: the script.
        nounset: whether it ends where it reads a variable that nobody has set.
    """
    own: set[str] = set()
    early: set[str] = set()
    in_functions: set[str] = set()
    for statement in script.statements:
        for command in statement.commands:
            pairs = shell_text.assigned_by(command)
            if statement.function:
                in_functions |= {name for name, _ in pairs}
                continue
            early |= _reads(script, command, nounset=nounset) - own
            own |= {name for name, _ in pairs}
    code = words.without_comments(script.text)
    names_of = {name for name in early & own - in_functions if name.isidentifier()}
    return {name for name in names_of if not _is_set_otherwise(code, name)}


def of_programs(code: str) -> set[str]:
    """The variables that stand before a program alone, and that other commands read.

    ``A=1 python a.py`` gives its text to that program, and to nobody else.

    Args:
        code: lines of a shell, without comments and what only prints.
    """
    own: set[str] = set()
    before: set[str] = set()
    read: set[str] = set()
    for command in shell_text.commands_of(code):
        names_of = {token.text.partition("=")[0] for token in command.assignments}
        own |= {name for name, _ in shell_text.assigned_by(command)}
        before |= names_of if command.words else set()
        read |= {n for n, _ in words.variables(code[command.start : command.end])} - names_of
    return {
        name
        for name in (before & read) - own
        if name.isidentifier() and not _is_set_otherwise(code, name)
    }


def of_login(script: Script, *, nounset: bool) -> set[str]:
    """The variables of an environment, or of a module, that are read before a line brings it.

    Who submits has them, where the environment is active or the module loaded as the job is sent.

    Args:
        script: the script.
        nounset: whether it ends where it reads a variable that nobody has set.
    """
    early: set[str] = set()
    own = {name for command in script.commands for name, _ in shell_text.assigned_by(command)}
    missing = {*_OF_ENVIRONMENT} - own
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        if "function" not in command.within:
            early |= _reads(script, command, nounset=nounset) & missing
        program = words.base(command.name)
        if program in _OF_MODULES and not _WITH_PYTHON.search(" ".join(texts)):
            missing.discard("CUDA_HOME")
        elif texts[:1] in (["source"], ["."]) or words.activates(texts) or program in _BRINGING:
            break
    return early


def _reads(script: Script, command: Command, *, nounset: bool) -> set[str]:
    """The variables that a command reads and needs.

    Args:
        script: the script.
        command: a command of it.
        nounset: whether the script ends where nobody has set one.
    """
    text = words.without_comments(script.text[command.start : command.end])
    if not nounset:
        if command.name in _TESTS or (
            not shell_text.writes(command) and not shell_text.without_printing(text).strip(": \n")
        ):
            return set()
        text = _SUM.sub("", text)
    needed = {name for name, has_default in words.variables(text) if not has_default}
    if nounset:
        return needed
    lengthened = {
        name
        for name, value in shell_text.assigned_by(command)
        if name in needed and re.search(_LENGTHENED.replace("{0}", re.escape(name)), value)
    }
    return needed - lengthened


def _is_set_otherwise(code: str, name: str) -> bool:
    """Whether something besides an assignment sets a variable: ``for a in``, ``((a += 1))``."""
    pattern = (
        rf"\b(?:for|select)[ \t]+{name}\b|\b(?:read|mapfile|readarray|getopts)\b[^\n;|&]*\b{name}\b"
        rf"|\(\([^)]*\b{name}\s*(?:[-+*/]?=(?!=)|\+\+|--)|\bprintf[ \t]+-v[ \t]+{name}\b"
    )
    return re.search(pattern, code) is not None

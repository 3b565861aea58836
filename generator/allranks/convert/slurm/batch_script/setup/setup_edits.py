"""Changes within lines of setup, as edits: from where to where in the script, and the new text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement

MODULES = ("module", "ml")
WHERE_MODULES = "! command -v {} >/dev/null || "
_WHERE_FUNCTION = '[ "$(type -t {})" != function ] || '
_IN_IMAGE = "where the image has modules"
# Words of the command that load none.
_NO_LOAD = ("purge", "use", "unuse", "unload", "rm", "del", "list", "avail")
_LOADING_NOTHING = [[], *([verb] for verb in _NO_LOAD)]
_OF_IMAGE = "where the image has modules; what it loads must be in the image otherwise"
_OF_NODE = "where the image has modules; the run needs nothing of it"
# Modules with what a pod has no use for: Slurm's programs, and those that start a container.
_UNUSED = re.compile(
    r"(?i)(?:[\w.-]+/)*(?:slurm|apptainer|singularity(?:ce|pro)?|enroot|pyxis)(?:[/-].*)?"
)


def of_modules(statement: Statement) -> list[tuple[int, int, str]]:
    """Modules within a condition, a loop or a function: they are loaded where the image has any.

    A script with `set -e` would end there otherwise, and one with `module load x || exit` too.
    """
    commands_of = [] if statement.is_simple else statement.commands
    return [edit for command in commands_of for edit in of_module(command)]


def why_of_modules(text: str) -> str:
    """What the image needs where a line loads modules.

    Args:
        text: the line.
    """
    names = [word for word in text.split()[1:] if word not in ("load", "add", "restore", "--")]
    if text.split()[1:2] in _LOADING_NOTHING:
        return _IN_IMAGE
    return _OF_NODE if names and all(map(_UNUSED.fullmatch, names)) else _OF_IMAGE


def of_deactivations(statement: Statement) -> list[tuple[int, int, str]]:
    """Lines that deactivate an environment: they do where the image has what was activated.

    With Slurm such a line ends well, and a script with it. A pod whose image has the programs
    outside any environment has no ``deactivate``, so that a good run would fail by its last line.
    """
    edits = []
    for command in statement.commands:
        texts = [word.text for word in command.words]
        program = words.base(texts[0]) if texts else ""
        where = ""
        if texts in (["source", "deactivate"], [".", "deactivate"]):
            where = WHERE_MODULES.format("deactivate")
        elif texts == ["deactivate"]:
            where = _WHERE_FUNCTION.format("deactivate")
        elif program in words.MANAGERS and texts[1:] == ["deactivate"]:
            where = _WHERE_FUNCTION.format(program)
        if where:
            edits += [
                (command.start, command.start, f"{{ {where}"),
                (command.end, command.end, "; }"),
            ]
    return edits


def of_declarations(statement: Statement) -> list[tuple[int, int, str]]:
    """Declarations for the whole shell: a function of the pod's reads setup, and has its own."""
    return [
        (command.words[0].end, command.words[0].end, " -g")
        for command in statement.commands
        if command.name in ("declare", "typeset")
        and "function" not in command.within
        and not shell_text.shows_declared(command)
    ]


def of_module(command: Command) -> list[tuple[int, int, str]]:
    """What lets a command load modules only where the image has any; [] for any other command."""
    program = words.base(command.name)
    if program not in MODULES:
        return []
    before = f"{{ {WHERE_MODULES.format(program)}"
    return [(command.start, command.start, before), (command.end, command.end, "; }")]

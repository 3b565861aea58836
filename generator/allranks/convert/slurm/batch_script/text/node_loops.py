"""Loops that only print the names of the nodes: ``for n in $(scontrol show hostnames); do echo``.

No pod has what they ask for, and nothing but the log misses it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import node_names, shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script

WHY = "it only prints the nodes that Slurm names, and a pod has none of them"
_LOOP = re.compile(
    rf"\bfor[ \t]+(?P<name>\w+)[ \t]+in[ \t]+(?:\$\(|`)[ \t]*{node_names.QUESTION}[^()`\n]*[)`]"
    r"[ \t]*[;\n]\s*do\b(?P<body>.*?)[;\n]\s*done\b(?=[ \t]*(?:[;\n#)}]|\Z))",
    re.DOTALL,
)
# The same behind a pipe: ``scontrol show hostnames | while read -r n; do echo $n; done``.
_READING_LOOP = re.compile(
    rf"(?<![\w$(`-]){node_names.QUESTION}[^()`\n|]*\|[ \t]*while[ \t]+(?:IFS=\S*[ \t]+)?"
    r"read[ \t]+(?:-r[ \t]+)?(?P<name>\w+)[ \t]*[;\n]\s*do\b(?P<body>.*?)[;\n]\s*done\b"
    r"(?=[ \t]*(?:[;\n#)}]|\Z))",
    re.DOTALL,
)


def is_unneeded(script: Script, statement: Statement) -> bool:
    """Whether a statement is such a loop.

    Args:
        script: the script.
        statement: a statement of it.
    """
    text = script.slice(statement).strip()
    loop = _LOOP.fullmatch(text) or _READING_LOOP.fullmatch(text)
    return loop is not None and _is_for_the_log(script, loop)


def begins_at(script: Script, line: int) -> bool:
    """Whether a line begins such a loop, which may stand in a condition.

    Args:
        script: the script.
        line: the line.
    """
    return any(
        script.text.count("\n", 0, loop.start()) + 1 == line and _is_for_the_log(script, loop)
        for pattern in (_LOOP, _READING_LOOP)
        for loop in pattern.finditer(script.text)
    )


def _is_for_the_log(script: Script, loop: re.Match[str]) -> bool:
    """Whether a loop only prints, and no other line reads the name that it leaves."""
    code, own = words.without_comments(script.text), words.without_comments(loop[0])
    others = {name for name, _ in words.variables(code.replace(own, ""))}
    return loop["name"] not in others and _only_prints(loop["body"])


def _only_prints(body: str) -> bool:
    """Whether each command of a loop prints, and asks nothing that does more."""
    commands = shell_text.commands_of(body.strip())
    inner = shell_text.substituted_commands(words.expanded_part(body))
    is_quiet = all(words.any_of([word.text for word in own.words], words.IDLE) for own in inner)
    return is_quiet and bool(commands) and all(map(_prints, commands))


def _prints(command: scanner.Command) -> bool:
    """Whether a command writes to the log alone."""
    return (
        command.name in ("echo", "printf")
        and not shell_text.writes(command)
        and not shell_text.printed_into(command)
        and command.after not in scanner.PIPES
    )

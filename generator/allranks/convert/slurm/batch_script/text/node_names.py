"""How a batch script asks Slurm for the names of its nodes, and into what it reads them.

``read`` and ``mapfile`` set variables as an assignment does, and are read as that: a script gets
its first node by ``head=$(scontrol show hostnames | head -n1)``, or by ``read -r head _ < <(…)``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command

# The question.
QUESTION = r"\bscontrol\s+show\s+hostnames?\b"
# All the names, with nothing done to the list.
LIST = rf"(?:\$\(\s*{QUESTION}[^()`|;&]*\)|`\s*{QUESTION}[^()`|;&]*`)"
_ASKS = re.compile(rf"{QUESTION}|SLURM_(?:JOB_)?NODELIST\b")
_VARIABLE = re.compile(r"\"?\$(?:\{[A-Za-z_]\w*(?:\[[@*]\])?\}|[A-Za-z_]\w*)\"?")
_NAME = re.compile(r"[A-Za-z_]\w*")
# Options whose value is the next word.
_OF_READ = re.compile(r"-\w*[dnNptui]")
_OF_MAPFILE = re.compile(r"-\w*[dnOsuCc]")
INTO_ARRAY = re.compile(r"-\w*a")


def read_into(command: Command) -> list[tuple[str, str]]:
    """The variables into which a command reads the nodes, with their text as if assigned.

    ``mapfile h < <(scontrol show hostnames)`` gives ``h=($(scontrol show hostnames))``. What such
    commands read otherwise, no rule asks for.
    """
    if command.name not in ("read", "mapfile", "readarray"):
        return []
    sources = [target for operator, target in command.redirections if _is_source(operator, target)]
    if not sources:
        return []
    arrays, targets = _targets(command)
    text = re.sub("^<", "$", sources[-1])
    if command.name != "read" or arrays:
        return [(name, f"({text})") for name in (arrays or targets)[:1]]
    if _ASKS.search(text) is None:
        first = f"$(head -n1 <<< {text})"
    else:
        first = re.sub(r"\)\"?$", " | head -n1)", text).removeprefix('"')
    return [
        (name, text if at else first) for at, name in enumerate(targets) if not (at and name == "_")
    ]


def _is_source(operator: str, target: str) -> bool:
    """Whether a command reads what tells of the nodes, or may: a variable."""
    is_text = operator == "<<<" and _VARIABLE.fullmatch(target) is not None
    return is_text or (operator in ("<", "<<<") and _ASKS.search(target) is not None)


def _targets(command: Command) -> tuple[list[str], list[str]]:
    """The arrays and the variables that a command names."""
    arrays: list[str] = []
    targets: list[str] = []
    texts = [word.text for word in command.words[1:]]
    with_value = _OF_READ if command.name == "read" else _OF_MAPFILE
    at = 0
    while at < len(texts):
        text = texts[at]
        if command.name == "read" and INTO_ARRAY.fullmatch(text):
            arrays += texts[at + 1 : at + 2]
            at += 1
        elif with_value.fullmatch(text):
            at += 1
        elif _NAME.fullmatch(text):
            targets.append(text)
        at += 1
    return arrays, targets

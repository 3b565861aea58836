"""The name of a job's only node in conditions, loops and functions: it is the pod's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import node_names, shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_FIRST = r"(?:\|\s*(?:head\s+-(?:n\s*)?1|sed\s+-n\s+[\"']?1p[\"']?)\s*)?"
_NAMES = re.compile(
    rf"(?P<before>\b\w+=\(?\"?)(?:\$\(\s*{node_names.QUESTION}[^()`|;&]*{_FIRST}\)"
    rf"|`\s*{node_names.QUESTION}[^()`|;&]*{_FIRST}`)"
)
_WHY = "there is one node"


def edits(reading: ScriptReading, statement: Statement, to: str) -> list[tuple[int, int, str]]:
    """Edits that put the pod's own name in place of a question for the nodes, which are said.

    Args:
        reading: the script, and what comes of it.
        statement: one of its statements.
        to: what it becomes a part of.
    """
    script = reading.script
    if statement.is_simple or script.size.node_count != 1:
        return []
    own_edits = []
    text = script.slice(statement)
    written = [range(*span) for span in words.documents(text)]
    for match in _NAMES.finditer(text):
        if any(match.start() in span for span in written):
            continue  # it is a text for a file
        start = statement.start + match.end("before")
        line = script.text.count("\n", 0, start) + 1
        reading.body.say(line, shell_text.short(match[0]), Outcome.CHANGED, to, _WHY)
        own_edits.append((start, statement.start + match.end(), "localhost"))
    return own_edits

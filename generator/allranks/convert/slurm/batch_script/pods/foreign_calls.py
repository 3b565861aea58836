"""Slurm's programs and mpirun, where code of another language than a shell's starts them.

That is a whole script of Python's or Perl's, a here-document of ``python - <<EOF``, and the text of
``python -c``. It runs as it is, and what it starts is in a text of it: ``system("srun a")``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import parsing, shell_text, started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.convert.slurm.batch_script.text.script import Script

# The first word of a text, or of a command in one: "srun a", "cd b && X=1 srun a", qx(srun a).
_CALL = re.compile(
    r"(?:[\"'`]|\bqx\W|(?<=[\"'`;&|])\s+)(?:(?:exec|time|nohup|env)\s+|\w+=[^\s\"']*\s+)*"
    rf"(?:[\w.~/-]*/)?({'|'.join(sorted({'srun', *words.SLURM_TOOLS, *words.MPIRUN}, key=len))})"
    r"(?=[\"'`\s)])"
)
_PRINTS = re.compile(r"^\s*(?:print|say|warn|raise|die|\w*log\w*\.\w+|logging\.\w+)\b")
_READS_DOCUMENT = re.compile(r"(?:^|[\s/;&|(])(?:python|pypy|perl|ruby|julia)[\d.]*\s(?:[^|;&]*)<<")
_RANKS = (
    "nobody reads here which ranks it starts, and they would all be in one pod: write the step as "
    "a command of a bash script"
)


def say(
    script: Script, verdicts: Sequence[Verdict], outcomes: Mapping[str, tuple[Outcome, str]]
) -> Iterator[Verdict]:
    """Say of each line of such code what it starts that no pod has.

    Args:
        script: the script.
        verdicts: what the report has, which is not said again.
        outcomes: what becomes of srun and of programs of Slurm's by their names, and, as "", of
            its others; with the reason.
    """
    earlier = {(own.line, own.path) for own in verdicts}
    for first, code in _codes(script):
        for line, row in enumerate(words.without_comments(code).split("\n"), first):
            match = None if _PRINTS.match(row) else _CALL.search(row)
            if match is None or (line, match[1]) in earlier:
                continue
            default = (Outcome.NOT_CARRIED, _RANKS) if match[1] in words.MPIRUN else outcomes[""]
            outcome, why = outcomes.get(match[1], default)
            yield Verdict(match[1], outcome, "", why, line)


def _codes(script: Script) -> Iterator[tuple[int, str]]:
    """The parts of a script that no shell reads, and the first line of each."""
    if parsing.interpreter(script.lines[0]) not in shell_text.SHELLS:
        yield 1, script.text
        return
    text = script.text
    for start, end in words.documents(text):
        head = text[text.rfind("\n", 0, start - 1) + 1 : start - 1]
        if _READS_DOCUMENT.search(head):
            yield 1 + text.count("\n", 0, start), text[start:end]
    for command in script.commands:
        starts = any(map(words.is_python, started_words.programs(command)))
        for option, token in pairwise(command.words if starts else ()):
            if option.text == "-c":
                yield token.line, scanner.unquote(token.text)

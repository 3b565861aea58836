"""Lines that add to PYTHONPATH where nobody has set it: ``PYTHONPATH="$PYTHONPATH:/code"``.

Its empty part is the folder that Python starts in, by which ``python src/train.py`` finds the
packages beside src. In a pod the launcher has a folder of its own there, and no part is empty.
Source: "PYTHONPATH", Python's documentation of its command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body

_OWN = r"\$(?:PYTHONPATH\b|\{PYTHONPATH(?::?-)?\})"
_ADDS = re.compile(rf"{_OWN}:(?P<behind>.*)|(?P<before>.*):{_OWN}", re.DOTALL)
# The folder itself, as a part.
_HERE = re.compile(
    r"(?:^|:)(?:\.{1,2}/?|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?/?|\$\(\s*pwd\s*\)/?|`\s*pwd\s*`/?)?(?::|$)"
)
_BELOW = re.compile(r"(?!/|~|\$|\.\./|-)(?:\./)?[\w.-]+/[\w./-]+\.py")
_WHY = (
    "where nobody has set it before, it has an empty part, which is the folder that Python starts "
    "in: in a pod the launcher has set it, so write `.` among its parts where the program imports "
    "from there"
)


def say(script: Script, body: Body) -> list[Verdict]:
    """The first such line of a script that runs as it is, and a program of a folder below.

    Args:
        script: the script.
        body: what comes of it.
    """
    if "PYTHONPATH=" not in body.script or not any(map(_is_below, _programs(script))):
        return []
    for command in script.commands:
        for name, value in shell_text.assigned_by(command):
            match = _ADDS.fullmatch(scanner.unquote(value)) if name == "PYTHONPATH" else None
            parts = (match["behind"] or match["before"] or "") if match is not None else ""
            if parts and not _HERE.search(parts):
                return [Verdict("PYTHONPATH", Outcome.CHANGED, "", _WHY, command.line)]
    return []


def _programs(script: Script) -> list[list[str]]:
    """The words of the programs of a script."""
    return [own for command in script.commands for own in started_words.programs(command)]


def _is_below(texts: list[str]) -> bool:
    """Whether words run a file of Python's in a folder below: ``python -u src/train.py``."""
    file = next((text for text in texts[1:] if not text.startswith("-")), "")
    return bool(texts) and words.is_python(texts) and _BELOW.fullmatch(file) is not None

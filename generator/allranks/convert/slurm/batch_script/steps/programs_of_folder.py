"""Programs of the folder that a step stands in, which srun finds by their names: ``srun run.sh``.

srun looks for a program without a slash on PATH, and then in the folder that it stands in (Slurm's
own source, `search_path`); a shell looks on PATH alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import Body

# Names of files, and not of what an image has on PATH.
_OF_FILE = re.compile(r"[\w.+-]+\.(?:sh|bash|py|pl|rb|out|exe|x)")


def with_folder(body: Body, program: str, line: int, to: str) -> str:
    """The program of a step as a shell finds it, and say so; itself where it is no file's name.

    Args:
        body: what comes of the script.
        program: the first word of what srun starts.
        line: where it stands.
        to: the value that it becomes a part of.
    """
    if not _OF_FILE.fullmatch(program):
        return program
    path = f"./{program}"
    why = (
        "srun looks for it in the folder that it stands in, too, and a shell does not: it is "
        f"{path} here; take the ./ off where the image has it on its PATH"
    )
    body.say(line, program, Outcome.CHANGED, to, why)
    return path

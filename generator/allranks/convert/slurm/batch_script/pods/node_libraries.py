"""Files of the nodes' own system that a script copies or links: ``cp /usr/lib64/libx.so* lib/``.

A pod has those of its image in these folders, or none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_OF_IMAGE = (
    "a pod has its image's files there, and no node's: let the image have what is copied, or leave "
    "the line out"
)
_COPYING = ("cp", "ln", "rsync", "install", "tar")
_OF_SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?(?:lib(?:32|64)?|share|include)/\S*[\w*]")


def say(reading: ScriptReading, code: str) -> None:
    """Say of lines that copy files of the nodes' system that these are the image's here.

    Args:
        reading: the script, and what comes of it.
        code: what runs in a pod, without what only prints.
    """
    for command in shell_text.commands_of(code):
        texts = [scanner.unquote(token.text) for token in command.words]
        path = next((text for text in texts[1:] if _OF_SYSTEM.fullmatch(text)), "")
        if path and words.any_of(texts, _COPYING):
            line = reading.script.line_with(re.compile(re.escape(path)).search)
            reading.body.say(line, path, Outcome.CHANGED, "", _OF_IMAGE)

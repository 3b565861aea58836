"""Programs of an environment of Python's within the folder that is sent: ``.venv/bin/python a.py``.

Such an environment names the Python of the old cluster, by its path, and stays out of what is sent,
whatever it is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.pods import folders_above
from allranks.convert.slurm.batch_script.text import environments, started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_PROGRAM = re.compile(
    rf"(?:\./|{folders_above.SENT}/)?(?![/~$`])[\w.+/-]*/?\bbin/"
    r"(?:python[0-9.]*|torchrun|accelerate|deepspeed|pip[0-9.]*)"
    # Of a folder that is called so, any program.
    rf"|(?:\./|{folders_above.SENT}/)?(?:[\w.+-]+/)*\.?v(?:irtual)?env[\w.-]*/bin/[\w.+-]+"
)
_FOLDER = ".venv"
_OF_CLUSTER = "an environment in the folder is of the old cluster's Python, and {} not sent"
_WHY = f"{_OF_CLUSTER}: write the image's own program in its place"
_WHY_NOT_ACTIVATED = f"{_OF_CLUSTER}: what it activates must be in the image"
# A program in a folder that each node has for itself.
_OF_NODE = re.compile(r"/(?:var/)?tmp/(?:[\w.@%+-]+/)*bin/[\w.+-]+")
_WHY_OF_NODE = (
    "it is in a folder of one node of the old cluster's, and no line of the script makes it: write "
    "the image's own program in its place"
)


def say(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first line that runs such a program, where no line makes the environment.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    if environments.makes_any(script.commands, variables.constants):
        return []
    for command in script.commands:
        for started in started_words.programs(command):
            program = next(iter(started), "")
            text = words.resolve(program, variables.constants) or _default_of(program, variables)
            for pattern, why in ((_PROGRAM, _WHY), (_OF_NODE, _WHY_OF_NODE)):
                if pattern.fullmatch(text or program):
                    own = why.format(_named(text or program))
                    return [Verdict(program, Outcome.CHANGED, "", own, command.line)]
    return []


def why_not_activated(path: str) -> str:
    """Why a pod does not activate an environment of the folder that is sent.

    Args:
        path: the file that does: ``.venv/bin/activate``.
    """
    return _WHY_NOT_ACTIVATED.format(_named(path))


def _named(path: str) -> str:
    """What is not sent of an environment with a file, as a part of a sentence."""
    return f"`{_FOLDER}` is" if _FOLDER in path.split("/") else "is"


def _default_of(program: str, variables: ShellVariables) -> str:
    """The text that a variable has where nobody sets it; "" where it has none."""
    name = program.strip('"').removeprefix("${").removeprefix("$").removesuffix("}")
    texts = variables.contents.get(name, ())
    matches = [re.fullmatch(r"\$\{\w+:?-(.*)\}", scanner.unquote(text)) for text in texts]
    return next((match[1] for match in matches if match is not None), "")

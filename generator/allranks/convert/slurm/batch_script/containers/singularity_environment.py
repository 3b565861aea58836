"""The variables by which a script tells Singularity (Apptainer) of its container.

Outside of that program they have no effect, and a pod is the container already. So those that are
set inside of it get the name that they have there, and of the others it is said that nothing reads
them. Source: apptainer.org/docs/user/latest/environment_and_metadata.html.
"""

from __future__ import annotations

import re

from allranks.convert.verdicts import Outcome, Verdict

_STARTS = re.compile(r"\b(?:singularity|apptainer)[ \t]+(?:-\S+[ \t]+)*(?:exec|run)\b")
_INSIDE = re.compile(r"\b(?:SINGULARITY|APPTAINER)ENV_(?!(?:PREPEND|APPEND)_PATH\b)(?=[A-Za-z_])")
_OF_PROGRAM = (
    r"(?:SINGULARITY|APPTAINER)_(?:BIND|BINDPATH|HOME|MOUNT|OVERLAY\w*|PWD|SCRATCH|WORKDIR)"
    r"|(?:SINGULARITY|APPTAINER)ENV_(?:PREPEND|APPEND)_PATH"
)
_SET = re.compile(
    rf"(?:^|[\s;])(?P<inside>(?:SINGULARITY|APPTAINER)ENV_\w+|{_OF_PROGRAM})=", re.MULTILINE
)
_BINDS = (
    "a pod has the folders of a volume alone: give them to the command with --bind, or as a volume"
)
_NO_EFFECT = "nothing in a pod reads it: say it in env, workingDir or podTemplate"


def is_of_program(name: str) -> bool:
    """Whether a variable is for Singularity alone, and says nothing inside of its container."""
    return re.fullmatch(_OF_PROGRAM, name) is not None


def is_started(text: str) -> bool:
    """Whether a script starts such a container."""
    return _STARTS.search(text) is not None


def inside(name: str) -> str:
    """A variable by the name that it has in the container: ``SINGULARITYENV_A`` is ``A``."""
    return _INSIDE.sub("", name)


def why_dead(name: str) -> str:
    """Why a variable for Singularity alone has no effect in a pod."""
    return _BINDS if "_BIND" in name else _NO_EFFECT


def _is_exported(text: str, name: str) -> bool:
    """Whether a script gives a variable to what it starts, as Singularity reads no other."""
    exporting = rf"\bexport\b[^\n;#]*\b{name}\b|^\s*set\s+-\w*a"
    before = rf"\b{name}=(?:\"[^\"]*\"|'[^']*'|\S*)[ \t]+[^\s#;&|]"
    return re.search(f"{exporting}|{before}", text, re.MULTILINE) is not None


def carry(text: str) -> tuple[str, list[Verdict]]:
    """The script with its variables as they are in the container, and what became of each.

    Args:
        text: a script; one that starts no such container stays as it is.
    """
    if not is_started(text):
        return text, []
    verdicts: dict[str, Verdict] = {}
    for number, row in enumerate(text.split("\n"), 1):
        for match in () if row.lstrip().startswith("#") else _SET.finditer(row):
            name = match["inside"]
            if name in verdicts or (is_of_program(name) and not _is_exported(text, name)):
                continue
            if is_of_program(name):
                verdict = Verdict(name, Outcome.NOT_CARRIED, "", why_dead(name), line=number)
            else:
                own = name.partition("ENV_")[2]
                why = f"the pod is the container: there it is {own}"
                verdict = Verdict(name, Outcome.CHANGED, f"env.{own}", why, line=number)
            verdicts[name] = verdict
    return _INSIDE.sub("", text), list(verdicts.values())

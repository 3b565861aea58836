"""Variables that hold how a command begins: ``RUN="srun singularity exec"``, ``$RUN python a.py``.

What starts with srun or a container's program is read where a command begins, so such a variable is
replaced by its text there. So are the options of a container, ``singularity exec $FLAGS a.sif``. A
variable that is set more than once, or not by a plain text in a line of its own, stays.
"""

from __future__ import annotations

import re

_SET = re.compile(
    r"^(?P<line>[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)=(?P<quote>[\"']?)"
    r"(?P<text>(?:srun|singularity|apptainer|shifter)(?:[ \t][^\"'`\\\n]*)?)(?P=quote)[ \t]*)$",
    re.MULTILINE,
)
_SET_OPTIONS = re.compile(
    r"^(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)=(?P<quote>[\"']?)(?P<text>-[^\"'`\\\n]*)(?P=quote)"
    r"[ \t]*$",
    re.MULTILINE,
)
# What stands behind a container's program, before any text in quotes.
_OF_CONTAINER = re.compile(
    r"\b(?:singularity|apptainer)[ \t]+(?:-\S+[ \t]+)*(?:exec|run)\b(?:\\\n|[^\n\"'`;|&#])*"
)
_COMMAND_BEGINS = r"(?P<before>(?:^|[;&|(]|\b(?:then|do|else|time|exec))[ \t]*)"


def inline(text: str) -> str:
    """The script with such variables replaced, line by line as before.

    Args:
        text: a script.
    """
    return _with_options(_with_launchers(text))


def _with_launchers(text: str) -> str:
    for match in list(_SET.finditer(text)):
        name = match["name"]
        is_plain = match["quote"] or " " not in match["text"].strip()
        if not is_plain or len(re.findall(rf"\b{name}\+?=", text)) != 1:
            continue
        use = re.compile(
            rf"{_COMMAND_BEGINS}(?:\$\{{{name}\}}|\${name}\b)(?=[ \t]|$)", re.MULTILINE
        )
        value = match["text"].strip()
        result = use.sub(r"\g<before>" + value, text)  # it has no backslash
        is_read = re.search(rf"^(?![ \t]*#).*\$\{{?{name}\b", result, re.MULTILINE)
        if result != text and not is_read:
            result = result.replace(match["line"], "", 1)
        text = result
    return text


def _with_options(text: str) -> str:
    for match in list(_SET_OPTIONS.finditer(text)):
        name, options = match["name"], match["text"].strip()
        is_plain = match["quote"] == '"' or (" " not in options) or "$" not in options
        if not is_plain or len(re.findall(rf"\b{name}\+?=", text)) != 1:
            continue
        use = re.compile(rf"(?<=\s)(?:\$\{{{name}\}}|\${name})(?=\s)")

        def put(command: re.Match[str], use: re.Pattern[str] = use, options: str = options) -> str:
            return use.sub(lambda _: options, command[0])

        text = _OF_CONTAINER.sub(put, text)
    return text

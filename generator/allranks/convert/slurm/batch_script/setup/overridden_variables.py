"""Variables that who submits may have set in place of a script's own text: ``BATCH=${BATCH:-32}``.

A job had the environment of who submits, and a pod has the script's own text, or none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import (
    here_documents,
    library_variables,
    shell_text,
    words,
)
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# A text for another variable, which the script may not set: `A=${B:-1}`.
_TEXT_OF_OTHER = re.compile(
    r"\$\{(?P<name>[A-Z][A-Z0-9_]*):?-(?=[^}\"']|\"[^\"}]|'[^'}])"
    # `[ -z "$A" ] && A=text`, and an `if` for the same.
    r"|-z[ \t]+[\"']?\$\{?(?P<empty>[A-Za-z_]\w*)(?::?-)?\}?[\"']?[ \t]*\]\]?[ \t]*"
    r"(?:&&|[;\n]\s*then\b)\s*(?:export[ \t]+)?(?P=empty)="
)
# The same without a text, where a program may be given what somebody has set: `a.py ${EXTRA:-}`.
_MAY_BE_EMPTY = re.compile(r"\$\{(?P<name>[A-Z][A-Z0-9_]*):?[-=][\"']{0,2}\}")
# Those that environments, shells and logins set, and no person for a job.
_OF_SHELLS = re.compile(
    r"(?:CONDA|MAMBA|VIRTUAL_ENV|LMOD|LOADEDMODULES|MODULE|BASH|PS1|PROMPT|SSH|TMP|SCRATCH|USER|LOGNAME"
    r"|XDG|DISPLAY|EB|SPACK)\w*|\w*PATH"
)
# What goes through all variables that there are, or those of a beginning.
_OF_ALL_NAMES = re.compile(
    r"\$\{!(?P<prefix>[A-Za-z_]\w*)[@*]\}"
    r"|\bcompgen[ \t]+(?:-[ve]|-A[ \t]+(?:variable|export))(?!\w)"
    r"|(?:\$\(|`|<\()\s*(?:env|printenv)\s*\|"
)
_TEST = re.compile(r"(?<!\S)\[\[?\s[^\]\n]*\]\]?|(?<!\S)test\s[^;&|\n]*")
# A variable that keeps the text that it has.
_OWN_TEXT = re.compile(
    r"(?<![\w$])(?P<name>[A-Za-z_]\w*)=[\"']?\$\{(?P=name):?[-=](?=[^}])"
    r"|^[ \t]*:[ \t]+[\"']?\$\{(?P<kept>[A-Za-z_]\w*):?=(?=[^}])",
    re.MULTILINE,
)
_MOST_LISTED = 8
# Options of launchers that have a number of ranks or nodes behind them.
_SIZE = (
    r"(?<=\s)(?:--(?:nproc[-_]per[-_]node|nnodes|nodes|num[-_](?:processes|machines|nodes|gpus)"
    r"|n?tasks(?:[-_]per[-_]node)?)|-np?|-N)"
)


def note(reading: ScriptReading) -> None:
    """Note what who submits may set, by its name or by a part of it.

    Args:
        reading: the script, and what comes of it.
    """
    body = reading.body
    code = here_documents.without_written(words.without_comments(reading.script.text))
    # That a variable is exported here says nothing of who may set it.
    spoken = {
        verdict.path.removeprefix("$")
        for verdict in body.verdicts
        if not (verdict.path.isidentifier() and verdict.to in ("setup", "command"))
    }
    empty = {*_without_text(code)}
    own = [
        name
        for name in dict.fromkeys(_own(reading, code))
        if name not in {*body.env, *spoken, *words.RENDEZVOUS}
        and not name.startswith(("SLURM_", "SLURMD_"))
    ]
    if own:
        text = "a text of its own" + (", or none," if empty.intersection(own) else "")
        them = "them" if len(own) > 1 else "it"
        # A script that is run as it is starts its launchers with what env has.
        sizes = [name for name in own if _is_size(name, code)] if not body.script else []
        of_sizes = (
            f"; {list_some(sizes, _MOST_LISTED)} says how many ranks or nodes there are, which are "
            "nodes and procsPerNode here, whatever env has"
        )
        body.notes.append(
            f"the script has {text} for {list_some(own, _MOST_LISTED)}, where nobody has set "
            f"{them}: what who submits sets there goes into env{of_sizes if sizes else ''}"
        )
    line = _line_of_all_names(reading)
    if line:
        body.notes.append(
            f"line {line} goes through the variables that there are by their names: what who "
            "submits sets for it goes into env"
        )


def _own(reading: ScriptReading, code: str) -> Iterator[str]:
    """The variables that keep what they have, and those that no line of the script sets."""
    for match in _OWN_TEXT.finditer(code):
        name = match["name"] or match["kept"]
        if not _is_set_by_line(name, code[: match.start()]):
            yield name
    is_set = reading.variables.set_names | {*words.ALWAYS}
    for match in _TEXT_OF_OTHER.finditer(code):
        name = match["empty"] or match["name"]
        is_first = match["empty"] and _is_first_set(name, code[: match.start()])
        if is_first or (match["name"] and name not in is_set):
            yield name
    for name in _without_text(code):
        values = re.findall(rf"(?<![\w${{]){name}=[\"']?(\$\{{{name}:?-)?", code)
        keeps_own = re.search(rf"\$\{{{name}:?=", code) is not None
        if all(values) and (values or keeps_own or name not in is_set):
            yield name


def _is_set_by_line(name: str, before: str) -> bool:
    """Whether a line before, which is in no branch, sets a variable to a text of its own."""
    own = rf"^(?:export[ \t]+)?{name}=(?![\"']?\$\{{{name}\b)"
    return re.search(own, before, re.MULTILINE) is not None


def _is_first_set(name: str, before: str) -> bool:
    """Whether no line before sets a variable, so that who submits may have."""
    return re.search(rf"(?<![\w${{]){name}\+?=", before) is None and name not in words.ALWAYS


def _is_size(name: str, code: str) -> bool:
    """Whether a launcher is given a variable, or one that is made of it, as a number of ranks."""
    dependents = re.findall(rf"(?<![\w$])([A-Za-z_]\w*)=[\"']?\$\{{?{name}\b", code)
    names = "|".join(dict.fromkeys((name, *dependents)))
    code = _TEST.sub("", code)  # whose -n asks for a text
    return re.search(rf"{_SIZE}[= ]*[\"']?\$\{{?(?:{names})\b", code) is not None


def _without_text(code: str) -> Iterator[str]:
    """The variables that are nothing where nobody has set them, but for those of shells."""
    for match in _MAY_BE_EMPTY.finditer(shell_text.without_printing(code)):
        if not _OF_SHELLS.fullmatch(match["name"]) and not library_variables.is_read(match["name"]):
            yield match["name"]


def _line_of_all_names(reading: ScriptReading) -> int:
    """The first line that goes through variables of who submits by their names; 0 for none."""
    set_names = reading.variables.set_names
    return reading.script.line_with(
        lambda row: any(
            not match["prefix"] or not any(own.startswith(match["prefix"]) for own in set_names)
            for match in _OF_ALL_NAMES.finditer(row)
        )
    )

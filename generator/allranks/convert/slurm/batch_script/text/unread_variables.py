"""Variables that nothing reads: their texts matter to nobody."""

from __future__ import annotations

import re

from allranks.convert.slurm.batch_script.text import words

# A variable of the shell's alone, set by no command in a line that goes on none before it.
_ASSIGNMENT = re.compile(
    r"(?<!\\\n)^[ \t]*(?P<name>[A-Za-z_]\w*)="
    r"(?:\"(?:[^\"`$\n]|\$(?!\())*\"|'[^'\n]*'|[^\s;&|`()\"'])*[ \t]*$",
    re.MULTILINE,
)
# Variables that a program finds without an export, as who submits has them already.
_OF_PROGRAMS = frozenset({"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PYTHONPATH"})
_EXPORTED = re.compile(r"\b(?:export|declare\s+-x|typeset\s+-x)[ \t]+([A-Za-z_]\w*)")
# Files of an environment's or of a login, which read none of a script's own.
_OF_OTHERS = (
    r"\S*(?:activate|/(?:conda|mamba|micromamba|modules?|lmod)\.sh|/profile"
    r"|/\.bash(?:rc|_profile))\b"
)
# What may read any variable: files, texts that a shell evaluates, and where all are exported.
_READS_ALL = re.compile(
    rf"(?:^|[;&|({{])[ \t]*(?:(?:source|\.)[ \t](?!{_OF_OTHERS})|set[ \t]+(?:-\w*a|-o[ \t]+all))"
    r"|\$\{!|\b(?:eval|envsubst)\b",
    re.MULTILINE,
)


def names(code: str) -> set[str]:
    """The variables that a script sets, and that nothing reads but lines which set other such.

    Args:
        code: the script, without its comments.
    """
    if _READS_ALL.search(code):
        return set()
    return {match["name"] for match in _ASSIGNMENT.finditer(code)} - _read(without(code))


def without(code: str) -> str:
    """A script without the lines that set such variables; those that ask a program stay.

    Args:
        code: the script, without its comments.
    """
    shorter = "" if _READS_ALL.search(code) is None else code
    while shorter != code:
        shorter = code
        code = _without_lines(code, _read(code))
    return code


def _without_lines(code: str, read: set[str]) -> str:
    """A script without the lines that set other variables than some."""
    return _ASSIGNMENT.sub(lambda match: match[0] if match["name"] in read else "", code)


def _read(code: str) -> set[str]:
    """The variables that a script reads, or gives to its programs."""
    return {*_OF_PROGRAMS, *(name for name, _ in words.variables(code)), *_EXPORTED.findall(code)}

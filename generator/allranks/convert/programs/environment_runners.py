"""Programs that run another program in an environment: ``conda run -n torch python train.py``.

They activate nothing for the lines behind them; what they run is what the line is about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each with the options of its `run` that have a value as a word of its own.
_VALUE_OPTIONS = {
    "conda": ("-n", "--name", "-p", "--prefix", "--cwd"),
    "mamba": ("-n", "--name", "-p", "--prefix", "--cwd"),
    "micromamba": (*("-n", "--name", "-p", "--prefix", "-r", "--root-prefix", "--cwd"), "-e", "-a"),
    "pixi": ("-e", "--environment", "--manifest-path", "--frozen", "-x"),
    "poetry": (),
    "pipenv": (),
    "pdm": ("-p", "--project", "-s"),
    "hatch": ("-e", "--env"),
    "rye": ("--pyproject",),
    "uv": (
        *("--with", "--with-editable", "--with-requirements", "--extra", "--group", "--no-group"),
        *("--only-group", "--env-file", "-p", "--python", "--package", "--project", "--directory"),
        *("--index", "--default-index", "--index-url", "--extra-index-url", "--find-links"),
        *("--cache-dir", "--config-file", "--link-mode", "--no-extra", "-w", "-f", "-i"),
    ),
}
_PYTHON = re.compile(r"python[0-9.]*")
_AS_MODULE = ("python", "-m")
_VERBS = {"pyenv": "exec"}
# What makes the next word a file or a module of Python's in place of a program.
_OF_PYTHON = ("-m", "--module", "-s", "--script", "--gui-script")


def program_start(words: Sequence[str]) -> int:
    """Where the program begins that words run in an environment; 0 where they run none.

    Args:
        words: those of a command, without the folder of the first.
    """
    if len(words) > len(_AS_MODULE) and _PYTHON.fullmatch(words[0]) and words[1] == "-m":
        start = program_start(words[2:])  # python -m pipenv run
        return start + len(_AS_MODULE) if start else 0
    program = words[0] if words else ""
    verb = _VERBS.get(program, "run")
    if program not in (*_VALUE_OPTIONS, *_VERBS):
        return 0
    start = _behind_options(words, 1, ("-C", "--directory", "-P", "--project", "-e", "--env"))
    if words[start : start + 1] != [verb]:
        return 0
    start = _behind_options(words, start + 1, _VALUE_OPTIONS.get(program, ()))
    is_python = any(word in _OF_PYTHON for word in words[:start])
    return 0 if is_python or start >= len(words) else start


def _behind_options(words: Sequence[str], start: int, with_value: Sequence[str]) -> int:
    while start < len(words) and words[start].startswith("-"):
        if words[start] == "--":
            return start + 1
        start += 2 if words[start] in with_value else 1
    return start

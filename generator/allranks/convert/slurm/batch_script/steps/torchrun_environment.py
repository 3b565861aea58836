"""Torchrun's options that a script sets as variables: ``export PET_NPROC_PER_NODE=4``.

The chart's own torchrun is given all of its options, so that such a variable would have no effect
here: it becomes the option.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner, torchrun_words
from allranks.convert.slurm.batch_script.text import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FLAGS = frozenset({"standalone", "no-python", "run-path", "module"})


def is_option(name: str) -> bool:
    """Whether a variable is an option of torchrun's."""
    return torchrun_words.option_of(name) != ""


def with_options(texts: Sequence[str], contents: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of a torchrun with the options that the script sets as variables.

    Args:
        texts: as typed; the words of another program stay.
        contents: what each variable of the script is set to, as shell text.
    """
    at = _behind_torchrun(texts)
    options = [
        _option(option, values[-1])
        for name, values in contents.items()
        if (option := torchrun_words.option_of(name)) and values
    ]
    return [*texts[:at], *filter(None, options), *texts[at:]] if at else list(texts)


def _behind_torchrun(texts: Sequence[str]) -> int:
    """Where the options of a torchrun begin; 0 for another program."""
    rest = words.unwrapped(texts)
    at = len(texts) - len(rest)
    if rest and words.base(rest[0]) in words.TORCHRUN:
        return at + 1
    plain = [scanner.unquote(text) for text in rest]
    module = next((n for n, text in enumerate(plain) if text in words.TORCH_MODULES), 0)
    is_module = module > 0 and plain[module - 1] == "-m" and words.is_python(rest)
    return at + module + 1 if is_module else 0


def _option(name: str, value: str) -> str:
    if name in _FLAGS:
        return f"--{name}" if value not in ("", "0") else ""
    return f"--{name}={value}" if re.fullmatch(r"[^\s\"'`;&|<>()]+", value) else ""

"""Where a torchrun is, and its options that a script sets as variables.

The chart's own torchrun is given all of its options, so that a variable such as PET_NPROC_PER_NODE
would have no effect here: it becomes the option. A torchrun in a folder of its own has the python
there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner, torchrun_words
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.programs import commands
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, Step

# Folders of programs that an image has.
_COMMON_FOLDER = re.compile(r"(?:/usr|/usr/local|/opt/conda)?/bin$")
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


def say_folder(script: Script, body: Body, main: Step, program: commands.Program) -> None:
    """Say of a torchrun in a folder of its own that its python does not run the program.

    Args:
        script: the script.
        body: what comes of it.
        main: the step.
        program: what it starts.
    """
    own = next((text for text in main.words if words.base(text) in words.TORCHRUN), "")
    folder = scanner.unquote(own).rpartition("/")[0]
    is_common = not folder or _COMMON_FOLDER.match(folder) is not None
    if is_common or "$(" in own or program.runner is not Runner.TORCHRUN:
        return
    environment = re.escape(folder.removesuffix("/bin").removeprefix("./"))
    if re.search(rf"{environment}/bin/activate|PATH=\S*{environment}/bin", script.text):
        return
    why = (
        f"the python of {folder} ran the program, and that of the image does: put the folder "
        "first on PATH, in setup"
    )
    body.say(main.command.line, own, Outcome.NOT_CARRIED, "command", why)

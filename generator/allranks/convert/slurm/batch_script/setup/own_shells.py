"""Variables that the shell of a step's text reads, and the script not: ``bash -c 'a.out $A'``.

That shell has those alone that the script exports, and it reads no quotes in what they hold. Here
the text stands in the command, which reads the script's variables, exported or not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.setup import exports, unexported_variables
from allranks.convert.slurm.batch_script.text import shell_text, substitutions, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

_WITH_TEXT = re.compile(r"-[a-z]*c")
_SIGNS = re.compile(r"[\"';&|<>]")
_QUOTES = (
    "the step's own shell reads no quotes and no signs, as `;`, in a variable, which were parts of "
    "its words there: here they are those of a shell, as where the script puts the text in (in "
    "double quotes)"
)
# What a shell has of who started it, so that what a script sets there is exported without a word.
_OF_ENVIRONMENT = re.compile(
    r"SLURM_\w+|(?:\w*(?:LIBRARY|PYTHON|MAN|INFO|MODULE|CONFIG|PREFIX|INCLUDE|CLASS)_?|C)?PATH"
    r"|CONDA_\w+|LC_\w+|LANG|HOME|USER|LOGNAME|SHELL|TMPDIR|PWD|HOSTNAME"
    r"|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS|VIRTUAL_ENV"
)


def say(reading: ScriptReading, main: Step) -> None:
    """Say of such variables where they hold other words here.

    Args:
        reading: the script, and what comes of it.
        main: the step with the ranks.
    """
    script, body = reading.script, reading.body
    own = _read(script, [token.text for token in main.command.words])
    exported = unexported_variables.names_for_programs(script)
    for name in sorted(own & main.expansions & exported):
        contents = map(substitutions.without, reading.variables.contents.get(name, []))
        if _SIGNS.search(" ".join(contents)):
            body.say(main.command.line, f"${name}", Outcome.CHANGED, "command", _QUOTES)
    others = own - exported - reading.rendezvous.meeting - words.RENDEZVOUS
    is_unsure = unexported_variables.is_exported_by_branch(script)
    for name in () if is_unsure else sorted(others):
        line = _line_that_sets(script, name)
        if line and not _has_otherwise(script, main, name):
            reads_files = any(map(exports.sources, script.statements))
            why = unexported_variables.why_here(reads_files=reads_files)
            body.say(line, name, Outcome.CHANGED, "command", why)


def _read(script: Script, texts: Sequence[str]) -> set[str]:
    """The variables that the shell of a text reads, and the script does not put in.

    Args:
        script: the script.
        texts: the words of a step, as typed.
    """
    bases = [words.base(scanner.unquote(text)) for text in texts]
    first = next((at for at, base in enumerate(bases) if base in shell_text.SHELLS), len(bases))
    places = [at for at, base in enumerate(bases) if at > first and _WITH_TEXT.fullmatch(base)]
    text = texts[places[0] + 1] if places and places[0] + 1 < len(texts) else ""
    inner = shell_text.shell_text(["bash", "-c", text]) or ""
    names = _left_to_shell(text, inner)
    parts: set[str] = set()
    pending = [text]
    for own in pending:  # grows
        inner_names = {name for name, _ in words.variables(own)} - parts
        parts |= inner_names
        values = [value for name in inner_names for value in script.assigned_texts.get(name, ())]
        names |= {name for value in values for name in _left_to_shell(value)}
        pending += values
    return names - parts


def _left_to_shell(text: str, inner: str | None = None) -> set[str]:
    """The variables of a text that its first reader takes for none: those in single quotes.

    Args:
        text: the text, as typed.
        inner: what the next shell reads of it; None for the text without its quotes.
    """
    inner = scanner.unquote(text) if inner is None else inner
    return {name for name, _ in words.variables(inner)} - {n for n, _ in words.variables(text)}


def _line_that_sets(script: Script, name: str) -> int:
    """The first line in which a script sets a variable for itself; 0 for none."""
    return next(
        (
            command.line
            for command in script.commands
            if not command.words or command.name in ("declare", "typeset", "readonly", "local")
            for other, _ in shell_text.assigned_by(command)
            if other == name
        ),
        0,
    )


def _has_otherwise(script: Script, main: Step, name: str) -> bool:
    """Whether a step has a variable otherwise: of its own line, of its text, or of who submits."""
    line = script.text[main.command.start : main.command.end]
    own = rf"(?<![\w$]){name}\+?=|\b(?:for|read(?:[ \t]+-\w+)*)[ \t]+{name}\b"
    exported = rf"\bexport\b[^\n;&|]*\b{name}\b"
    return (
        _OF_ENVIRONMENT.fullmatch(name) is not None
        or re.search(own, line) is not None
        or re.search(exported, script.text) is not None
    )

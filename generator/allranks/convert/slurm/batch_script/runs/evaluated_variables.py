"""Variables that a step's shell evaluates with its text: ``srun bash -c "python $ARGS"``.

The script's shell puts them in, and that shell reads what they hold as it reads its text: quotes in
it hold words together. A command that has the variable itself would have those quotes in its words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, substitutions, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# What a shell gives a meaning where it reads it in a text, and none in a variable.
_MEANING = re.compile(r"['\"\\;&|<>]")
_REFERENCE = r"\$(?:\{{(?:{0})(?:\[[@*]\])?\}}|(?:{0})\b)"


def evaluated(reading: ScriptReading, line: str) -> str:
    """A command's shell that reads what its variables hold as the shell of its step read it.

    Args:
        reading: the script, and what is known of it.
        line: the shell of the ranks' command, such as ``exec python3 -u $ARGS``.

    Returns:
        ``eval "exec python3 -u $ARGS"``; the line as it is where nothing would change.
    """
    typed = _text_of_step(reading)
    names = {name for name, _ in words.variables(typed.replace("\\$", ""))}
    names = {name for name in names if _has_meaning(reading.variables.contents.get(name, ()))}
    names &= {name for name, _ in words.variables(line)}
    if not names:
        return line
    reference = re.compile(_REFERENCE.format("|".join(sorted(map(re.escape, names)))))
    matches = [*reference.finditer(line)]
    if not matches or any(line[match.start() - 1 : match.start()] == '"' for match in matches):
        return line  # the variable is a word as a whole
    out: list[str] = []
    end = 0
    for match in matches:
        out += [_escaped(line[end : match.start()]), match[0]]
        end = match.end()
    return f'eval "{"".join(out)}{_escaped(line[end:])}"'


def _text_of_step(reading: ScriptReading) -> str:
    """The text of ``bash -c "…"`` as the step has it, where the script's shell reads it first."""
    for command in reading.script.statements[reading.main_step.statement].commands:
        typed = [token.text for token in command.words]
        at = next((at for at, word in enumerate(typed) if _is_text_of_shell(typed, at, word)), None)
        if at is not None:
            return typed[at]
    return ""


def _is_text_of_shell(typed: Sequence[str], at: int, word: str) -> bool:
    """Whether a word in double quotes is the text of a shell that the words start."""
    return (
        at > 1
        and word.startswith('"')
        and re.fullmatch(r"-[a-z]*c", typed[at - 1]) is not None
        and any(words.base(other) in shell_text.SHELLS for other in typed[:at])
    )


def _has_meaning(contents: Iterable[str]) -> bool:
    """Whether a variable holds what a shell gives a meaning; an array's parts have none."""
    texts = (substitutions.without(content) for content in contents if not content.startswith("("))
    return any(map(_MEANING.search, texts))


def _escaped(text: str) -> str:
    """A text that an ``eval`` is to have as it is, as a part of its word in double quotes."""
    return re.sub(r"([\\\"`$])", r"\\\1", text)

"""The words that a script gives its functions itself: ``$1`` there is none of the script's own."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement

_NUMBERED = re.compile(r"\$\{?([1-9])")


def without_fed_functions(code: str) -> str:
    """A text without the functions whose numbered words each call of them has written out.

    ``main() { lr=$1; … }`` goes where ``main 1e-4 "$@"`` calls it, and stays for ``main "$@"``.

    Args:
        code: the text; one that is no shell's is as it is.
    """
    try:
        statements = scanner.parse(code)
    except scanner.ScriptError:
        return code
    edits = [
        (statement.start, statement.end, "")
        for statement in statements
        if statement.function and _is_fed(code, statements, statement)
    ]
    return shell_text.edited(code, edits)


def _is_fed(code: str, statements: list[Statement], function: Statement) -> bool:
    """Whether all calls of a function write out as many words as it reads by their numbers."""
    text = words.expanded_part(code[function.start : function.end])
    most = max(map(int, _NUMBERED.findall(text)), default=0)
    counts = [
        len([*takewhile(lambda word: not words.positional(word.text), command.words[1:])])
        for statement in statements
        for command in statement.commands
        if command.name == function.function
    ]
    return bool(counts) and 0 < most <= min(counts)

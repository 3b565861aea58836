"""The line that a job is about, where no line of its script runs a program that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.setup import exports
from allranks.convert.slurm.batch_script.text import environments, shell_text, words

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script

# Programs that a script needs to write another, and to submit it.
OF_SUBMITTING = (
    words.IDLE
    | words.ENDING
    | words.SLURM_TOOLS
    | {
        *("cat", "cd", "mkdir", "rm", "cp", "mv", "ln", "touch", "chmod", "sed", "awk", "grep"),
        *("export", "declare", "local", "readonly", "read", "shift", "eval", "let", "source", "."),
        *("module", "ml", "conda", "seq", "dirname", "basename", "tee", "head", "tail", "cut"),
        *("getopts", "break", "continue", "mapfile", "readarray", "expr", "wc", "tr", "sort"),
        *("find", "xargs", "pushd", "popd", "bc", "usage", "getopt", "shopt", "trap", "realpath"),
    }
)
# What makes things ready for a program, besides what activates an environment.
_OF_PREPARING = (
    OF_SUBMITTING
    | words.IN_EACH_RANK
    | words.OF_OTHER_HOSTS
    | words.OF_ROOT
    | words.OF_TERMINAL
    | {
        *("rsync", "tar", "unzip", "gunzip", "gzip", "zip", "wget", "curl", "git", "pip", "pip3"),
        *("umask", "alias", "unalias", "hash", "rmdir", "ldd", "ulimit", "make", "cmake", "false"),
    }
)


# What changes the shell alone.
_OF_SHELL = frozenset(
    {"export", "declare", "cd", "module", "ml", "set", "shopt", "ulimit", "umask", "alias", "trap"}
)


def last_lines(script: Script) -> list[int]:
    """The number of the last line that does something, where that reads a file or installs.

    Args:
        script: the script.
    """
    return [*sourced(script), *_making(script)]


def sourced(script: Script) -> list[int]:
    """The number of the last line that does something, where it is a file that is read.

    No other line runs a program: ``. commands/$SLURM_ARRAY_TASK_ID.sh`` does.
    """
    return [number for number in _last_line(script) if exports.sources(script.statements[number])]


def _making(script: Script) -> list[int]:
    """The number of the last line that does something, where it makes an environment.

    As setup its failure would be nobody's.
    """
    return [
        number
        for number in _last_line(script)
        for command in script.statements[number].commands
        if environments.makes([scanner.unquote(word.text) for word in command.words])
    ]


def _last_line(script: Script) -> list[int]:
    """The number of the last line that does something; [] where none does."""
    harmless = words.IDLE | words.ENDING | {"export", "cd", *words.SLURM_TOOLS}
    numbers = [
        number
        for number, statement in enumerate(script.statements)
        if not statement.function
        and not shell_text.runs_only(statement, harmless)
        and any(command.words for command in statement.commands)
    ]
    return numbers[-1:]


def first_unknown(script: Script) -> list[int]:
    """The number of the first line that does more than to make things ready: ``matlab -r a``.

    No line runs a program that is known, so that any other may be what the job is about. As setup
    its failure would be nobody's, where a later line activates something as well.
    """
    functions = {statement.function for statement in script.statements if statement.function}
    numbers = [
        number
        for number, statement in enumerate(script.statements)
        if not statement.function and not shell_text.runs_only(statement, _OF_PREPARING | functions)
    ]
    return numbers[:1]


def starts_nothing(script: Script) -> bool:
    """Whether no line does more than to print, to set something, or to activate an environment."""
    harmless = words.IDLE | words.ENDING | _OF_SHELL
    return all(
        words.any_of(texts, harmless) or _activates(texts)
        for texts in ([word.text for word in command.words] for command in script.commands)
        if texts
    )


def _activates(texts: list[str]) -> bool:
    """Whether words activate an environment: ``. venv/bin/activate``, ``conda activate a``."""
    if texts[0] in (".", "source"):
        return any(words.ACTIVATES.search(scanner.unquote(path)) for path in texts[1:2])
    return texts[0] != "eval" and words.activates(texts)

"""Where the lines of a script run: the folder that it goes to, and what depends on it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import sent_folder, shell_text, words
from allranks.convert.verdicts import Outcome
from allranks.workspace import ignore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Programs whose words are no paths.
_ANYWHERE = frozenset(
    {"set", "shopt", "ulimit", "umask", "unset", "export", "declare", "typeset", "readonly"}
    | {"module", "ml", "conda", "mamba", "micromamba", "pyenv", "true", ":", "[", "test", "exit"}
)
# A file below the folder that is sent, as a script names it there.
_SENT_FILE = re.compile(
    r"(?:\./)*\.?[\w-][\w.-]*(?:/[\w.-]+)*"
    r"|\$(?:\{(?:SLURM_SUBMIT_DIR|PWD)(?::?-[^{}]*)?\}|SLURM_SUBMIT_DIR|PWD)(?:/[\w.-]+)+"
)
_SUBMIT_DIR = re.compile(r'"?\$\{?SLURM_SUBMIT_DIR\}?"?/?')
# That folder as the text of a variable.
_FOLDER = re.compile(
    r"\$\{?(?:SLURM_SUBMIT_DIR|PWD)\}?|\$\(pwd\)|`pwd`"
    r"|\$\{\w+:?-\$\{?(?:SLURM_SUBMIT_DIR|PWD)(?::?-[^{}]*)?\}?\}"
)


def goes_back(statement: Statement) -> bool:
    """Whether a statement goes to the folder that the script is submitted from."""
    words_of = [token.text for token in statement.commands[0].words] if statement.commands else []
    return (
        statement.is_simple
        and words_of[:1] == ["cd"]
        and len(words_of) == 2  # noqa: PLR2004 - cd and the folder
        and _SUBMIT_DIR.fullmatch(words_of[1]) is not None
    )


def is_file_of_project(path: str) -> bool:
    """Whether a path of `sent_path` is that of a file that is sent: ``env.sh``.

    An environment is none, as its programs have the paths of the machine that made it.
    """
    is_environment = words.base(path) in ("activate", "deactivate")
    is_environment |= any(map(ignore.is_of_tools, path.split("/")[:-1]))
    return path != "" and not is_environment


def sent_path(script: Script, command: Command, earlier: Iterable[Command]) -> str:
    """The path below the folder that is sent of a file that a command reads; "" for another.

    Args:
        script: the script.
        command: the command: ``source env.sh``.
        earlier: those before it.
    """
    texts = [re.sub("//+", "/", scanner.unquote(word.text)) for word in command.words[:2]]
    if len(texts) < 2 or texts[0] not in ("source", "."):  # noqa: PLR2004 - source and the file
        return ""
    folder = re.match(r"\$\{?(\w+)\}?(?=/)", texts[1])
    if folder is not None and _is_sent_folder(script, folder[1]):
        texts[1] = f"$PWD{texts[1][folder.end() :]}"
    if ".." in texts[1] or _SENT_FILE.fullmatch(texts[1]) is None:
        return ""
    moves = (
        [scanner.unquote(word.text) for word in other.words[1:2]]
        for other in earlier
        if other.name in ("cd", "pushd")
    )
    is_moved = any(
        not (_SUBMIT_DIR.fullmatch("".join(move)) or _SENT_FILE.fullmatch("".join(move)))
        for move in moves
    )
    is_here = sent_folder.starts_here(script) and not is_moved
    is_sent = "SLURM_SUBMIT_DIR" in texts[1] or is_here
    return texts[1] if is_sent else ""


def _is_sent_folder(script: Script, name: str) -> bool:
    """Whether a variable is the folder that is sent, wherever the script sets it."""
    texts = [
        scanner.unquote(value)
        for command in script.commands
        for own, value in shell_text.assigned_by(command)
        if own == name
    ]
    return bool(texts) and all(map(_FOLDER.fullmatch, texts))


def is_new(script: Script, line: int) -> bool:
    """Whether a line runs in a folder that the script has made, and not in the one that is sent."""
    makes = [command for command in script.commands if words.base(command.name) == "mkdir"]
    folders = {scanner.unquote(word.text) for command in makes for word in command.words[1:]}
    target = ""
    for command in script.commands:
        if command.name in ("cd", "pushd") and command.line <= line and len(command.words) > 1:
            target = scanner.unquote(command.words[1].text)
    return target in folders


def to_working_dir(variables: ShellVariables, body: Body, command: Command) -> bool:
    """Carry ``cd /folder`` as the folder of the command."""
    _, *targets = command.words
    if len(targets) != 1 or command.redirections:
        return False
    target = targets[0].text
    path = words.resolve(target, variables.constants)
    if _SUBMIT_DIR.fullmatch(target):
        why = f"the command starts in the folder that `{names.CLI} sbatch` and `submit` send"
        body.say(command.line, f"cd {target}", Outcome.CHANGED, "", why)
        return True
    # Lines before it start where the script does.
    is_late = bool(body.working_dir or body.setup or body.reads_folder)
    if path is None or not path.startswith("/") or "\n" in path or is_late:
        return False
    body.working_dir = path
    body.say(command.line, f"cd {target}", Outcome.CARRIED, "workingDir")
    return True


def reads_folder(variables: ShellVariables, statement: Statement) -> bool:
    """Whether a line may do something else in another folder: ``cp a b``, ``X=$(ls)``."""
    if statement.function:
        return False  # its calls are looked at
    return any(_may_read_folder(variables, command) for command in statement.commands)


def _may_read_folder(variables: ShellVariables, command: Command) -> bool:
    words_of = [*command.assignments, *command.words]
    if any(re.search(r"[$<]\(|`", word.text) or "PWD" in word.text for word in words_of):
        return True
    program = words.base(command.name)
    is_of_shell = not program or program in words.IDLE | _ANYWHERE
    paths = [] if is_of_shell else [word.text for word in command.words[1:]]
    paths += [target for _, target in command.redirections if not target.isdigit()]
    return any(
        not (words.resolve(path, variables.constants) or path).startswith(("/", "~", "-"))
        for path in paths
    )

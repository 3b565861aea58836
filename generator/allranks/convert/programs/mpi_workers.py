"""What the workers of an MPI job run until mpirun starts ranks in them.

They make sshd ready, and wait. The mpi chart does both, so that neither is carried; whatever else
they do first is a setup of theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, shell, shell_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

_WAITING = frozenset(("sshd", "sleep", "tail"))
# What does nothing that another command would see.
_IDLE = frozenset(("true", "set", "echo", "entrypoint.sh", "ssh-keygen"))
# Folders and services of sshd's own, which the chart makes.
_FOLDER = re.compile(r"(?:/var)?/run/sshd|/etc/ssh(?:/.*)?|(?:.*/)?\.ssh(?:/.*)?")
_SERVICES = ("ssh", "sshd")
_MODE = re.compile(r"[0-7]{3,4}|[ugoa]*[-+=][rwxXst]*(?:,[ugoa]*[-+=][rwxXst]*)*")
_NO_FILE = re.compile(r"[<&]|>&|&?>[>|]?\s*/dev/(?:null|stdout|stderr)$")


@dataclass(frozen=True, slots=True)
class WorkerScript:
    """What a worker runs, as a shell reads it.

    Attributes:
        text: the shell's text.
        commands: the simple commands of it; none where it is not understood.
        has_shell: whether the worker calls a shell itself.
    """

    text: str
    commands: tuple[shell.ShellCommand, ...]
    has_shell: bool

    @property
    def waits(self) -> bool:
        """Whether its last command waits for mpirun: sshd, or what keeps the pod."""
        last = self.commands[-1] if self.commands else None
        return last is not None and _program(last) in _WAITING and not last.depth

    @property
    def prepares(self) -> bool:
        """Whether it does more than wait, and make sshd ready."""
        return not all(
            _program(command) in _WAITING or _is_idle(command) or is_for_sshd(command)
            for command in self.commands
        )


def script(words: Sequence[str]) -> WorkerScript:
    """The script of a worker.

    Args:
        words: its command and args.
    """
    own = shell_arguments.script_of(words)
    has_shell = own is not None and not own[2]
    text = words[-1] if has_shell else commands.as_shell(words)
    return WorkerScript(text, tuple(shell.parse(text) or ()), has_shell)


def _program(command: shell.ShellCommand) -> str:
    """The program of a command, also of one that takes the shell's place."""
    if command.program != "exec" or len(command.words) == 1:
        return command.program
    return (command.words[1].value or "").rpartition("/")[2]


def _is_idle(command: shell.ShellCommand) -> bool:
    return _program(command) in _IDLE and not _writes(command)


def _writes(command: shell.ShellCommand) -> bool:
    return not all(_NO_FILE.match(redirection) for redirection in command.redirections)


def is_for_sshd(command: shell.ShellCommand) -> bool:
    """Whether a command does no more than make sshd's folders, files or service ready.

    Args:
        command: a command of a worker's, or of a launcher's.
    """
    operands = [
        (word.text if word.value is None else word.value).strip("\"'").rstrip("/")
        for word in command.words[1:]
        if not word.text.startswith("-")
    ]
    if _writes(command) or not operands:
        return False
    if command.program == "service":
        return operands[0] in _SERVICES
    return command.program in ("mkdir", "chmod") and all(
        _FOLDER.fullmatch(operand) or _MODE.fullmatch(operand) for operand in operands
    )

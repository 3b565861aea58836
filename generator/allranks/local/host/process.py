"""Start a process of a container, so that it cannot be lost.

It gets a session of its own (Ctrl-C in the terminal reaches the command line, which ends the run in
order, instead of each rank at once), dies with the supervisor (``PR_SET_PDEATHSIG``), and its
output goes straight into a file: nothing stands between a training step and its log line.

`fork` and `exec` are called by hand, because `subprocess` collects its children itself, and the
supervisor must collect all of them, adopted orphans too. It has a single thread, so that is safe.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from allranks.errors import RunError
from allranks.local.host import namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_STDIO = (0, 1, 2)
# What Python ignores and a program expects to have its usual effect.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The arguments of a process to start.

    Attributes:
        argv: the program and its arguments.
        env: its whole environment.
        cwd: where it starts.
        log: the file that its output is appended to.
        host: what it sees as its host; None for this machine.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    host: namespaces.Host | None = None


class StartError(RunError):
    """A container's process could not be started."""


def spawn(command: ProcessSpec) -> int:
    """Start the process and return its pid.

    Raises:
        StartError: the program or the folder is not there, or cannot be used.
    """
    program = find_program(command.argv[0], command.env.get("PATH", ""), command.cwd)
    if program is None:
        raise StartError(f"there is no program {command.argv[0]!r} on this machine")
    log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    reader, telling = os.pipe()  # closes on exec: reading its end means that exec succeeded
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, program, log, telling, parent)
    os.close(telling)
    os.close(log)
    with os.fdopen(reader, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        raise StartError(f"cannot start {command.argv[0]!r}: {failure.decode()}")
    return pid


def _become(command: ProcessSpec, program: str, log: int, telling: int, parent: int) -> NoReturn:
    """Replace the forked child by the program, or report the error."""
    try:
        os.setsid()
        if command.host is not None:
            namespaces.become(command.host)
        # Last: a change of user namespace would undo it.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above took effect
            os._exit(1)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(os.open(os.devnull, os.O_RDONLY), _STDIO[0])
        os.dup2(log, _STDIO[1])
        os.dup2(log, _STDIO[2])
        os.chdir(command.cwd)
        os.execve(program, list(command.argv), dict(command.env))  # noqa: S606 (that is the point)
    except OSError as error:
        os.write(telling, f"{error.strerror}: {error.filename or command.cwd}".encode())
    except ValueError as error:  # a NUL byte in a word
        os.write(telling, str(error).encode())
    finally:
        os._exit(127)


def is_child(pid: int) -> bool:
    """Whether a process is a child of this one that has not been reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def find_program(name: str, path: str, cwd: Path) -> str | None:
    """The program that a name stands for; None when there is none.

    Args:
        name: the first word of a command.
        path: the PATH of the container.
        cwd: where it starts, for a name with a slash.
    """
    if "/" in name:
        program = cwd / name
        return str(program) if program.is_file() else None
    return shutil.which(name, path=path)


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent dies. Linux only; else nothing."""
    if namespaces.LINUX:
        namespaces.prctl(namespaces.PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own. Linux only; else nothing."""
    if namespaces.LINUX:
        namespaces.prctl(namespaces.PR_SET_CHILD_SUBREAPER, 1)

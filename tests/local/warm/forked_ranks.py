"""Ranks that are there before torchrun asks for them: torch is loaded once for a launcher's ranks.

In a process that will be one of our launchers this loads torch, as the launcher would, and forks as
many processes as the node has ranks; these wait. Where torchrun then starts a rank, the next of
them becomes it: a child of the launcher in a session of its own, with the arguments, the
environment, the streams and the end of a program that Python runs. A rank that is started when none
is left, after a failure for example, is started by torch itself.

What differs: /proc shows the launcher's command line and environment, and torch's rules for
tensors without data (`torch._meta_registrations`), which no rank of these tests has, are not
loaded. So this is for tests whose subject is neither how a rank starts, nor how a launcher ends
that has none yet.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any


def serve() -> None:
    """Load torch, fork the ranks, and have torchrun take them."""
    gc.disable()  # nothing of what is loaded is ever garbage
    sys.modules["torch._meta_registrations"] = types.ModuleType("torch._meta_registrations")
    import torch.distributed.run
    from torch.distributed.elastic.agent.server import local_elastic_agent
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    assert torch.distributed.run, local_elastic_agent  # what a launcher loads beside the handler

    gc.freeze()
    gc.enable()
    waiting: list[tuple[int, socket.socket]] = []
    is_due = True

    def fork() -> None:
        nonlocal is_due
        if is_due:
            is_due = False
            count = int(os.environ.get("PET_NPROC_PER_NODE") or 1)
            waiting.extend(_fork() for _ in range(count))

    if os.environ.get("ALLRANKS_WORKSPACE_SYNC"):
        # It forks a process for each generation of the code, whose children the ranks will be.
        os.register_at_fork(after_in_child=fork)
    else:
        fork()
    popen = SubprocessHandler._popen

    def take(handler: Any, args: tuple[str, ...], env: dict[str, str]) -> Any:
        words = _words(args, env)
        script = words[words[:1] == ["-u"] :]
        if not (waiting and script and Path(script[0]).is_file()):
            return popen(handler, args, env)
        pid, parent_end = waiting.pop(0)
        content = json.dumps([words, env]).encode()
        streams = (handler._stdout, handler._stderr)
        files = [
            number if file is None else file.fileno() for number, file in enumerate(streams, 1)
        ]
        with parent_end:
            socket.send_fds(parent_end, [len(content).to_bytes(4, "little")], files)
            parent_end.sendall(content)
        return _started(pid, args)

    SubprocessHandler._popen = take  # type: ignore[method-assign]


def _words(args: tuple[str, ...], env: dict[str, str]) -> list[str]:
    """What this Python is given; [] where the rank is another program."""
    python = Path(shutil.which(args[0], path=env.get("PATH")) or args[0])
    is_own = python.parent == Path(sys.executable).parent and python.name.startswith("python")
    return list(args[1:]) if is_own else []


def _started(pid: int, args: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """A child of this process, as the library shows one that it has started itself."""
    process: subprocess.Popen[bytes] = subprocess.Popen.__new__(subprocess.Popen)
    vars(process).update(args=args, pid=pid, returncode=None, stdin=None, stdout=None, stderr=None)
    vars(process).update(_child_created=True, _waitpid_lock=threading.Lock())
    return process


def _fork() -> tuple[int, socket.socket]:
    """A process that waits to be a rank: its pid, and where to tell it so."""
    parent_end, child_end = socket.socketpair()
    pid = os.fork()
    if pid:
        child_end.close()
        return pid, parent_end
    code = 70
    try:
        parent_end.detach()
        os.closerange(3, child_end.fileno())
        os.closerange(child_end.fileno() + 1, child_end.fileno() + 256)
        code = _rank(child_end)
    finally:
        # As an interpreter ends, with all that is to be done then.
        ctypes.pythonapi.Py_Exit(code)
    raise AssertionError


def _rank(order: socket.socket) -> int:
    """Wait to be told what to run, and run it; the exit code."""
    head, files, _, _ = socket.recv_fds(order, 4, 2)
    if not head:
        os._exit(0)  # the launcher has ended without this rank
    content = b""
    while len(content) < int.from_bytes(head, "little"):
        content += order.recv(1 << 16)
    order.close()
    words, env = json.loads(content)
    is_buffered = not env.get("PYTHONUNBUFFERED")
    if words[0] == "-u":
        is_buffered = False
        words.pop(0)
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # not the launcher's own, as for a new program
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.environ.clear()
    os.environ.update(env)
    # What the launcher has set since this process began.
    paths = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path += [path for path in paths if path not in sys.path]
    for name, number, file in zip(("stdout", "stderr"), (1, 2), files, strict=True):
        os.dup2(file, number)
        os.close(file)
        stream = _stream(number, is_buffered=is_buffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if threads := env.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    return _run(words[0])


def _stream(number: int, *, is_buffered: bool) -> io.TextIOWrapper:
    """Standard output (1) or the errors (2), as Python opens them where they are no terminal."""
    raw: Any = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if is_buffered else raw,
        "utf-8",
        "strict" if number == 1 else "backslashreplace",
        line_buffering=number == 2 and is_buffered,
        write_through=not is_buffered,
    )


def _run(script: str) -> int:
    """Run a script as Python does; the exit code."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
            return 1
        return end.code or 0
    except BaseException as error:  # noqa: BLE001 - as Python does
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != script:
            frames = frames.tb_next
        sys.excepthook(type(error), error, frames)
        return 1
    return 0

"""The command line in no time: a process that has loaded it, and forks for each call.

    python tests/charts/cli/zygote.py DESCRIPTOR      of a socket; see `Zygote.run`

To load Python and the libraries is most of what a call costs that refuses its input. What runs in
the child is the program itself, from its start function on, with the words, the environment, the
folder, the streams and the cores of its own call. What differs: its modules are loaded, and the
calls of one test worker order their sets alike. So this is for tests whose subject is neither.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
from pathlib import Path

import allranks
from allranks import start

# What only some calls need, and an extra may lack.
_LAZY_PACKAGES = ("allranks.sweep.search", "allranks.sweep.reporting", "allranks.sweep.storage")
_LOCALE = "LC_CTYPE"  # Python sets it for itself where the environment names no locale
_LENGTH = 4  # bytes of a number


def _load() -> None:
    """Load what is ours; each module brings its libraries."""
    for module in pkgutil.walk_packages(allranks.__path__, "allranks."):
        if not module.name.startswith(_LAZY_PACKAGES) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _become(request: bytes, descriptors: list[int]) -> None:
    """Be the process of a call, in the child."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    call = json.loads(request)
    os.sched_setaffinity(0, call["cores"])
    os.chdir(call["folder"])
    locale = os.environ.get(_LOCALE)
    os.environ.clear()
    os.environ.update(call["environment"])
    if locale is not None:
        os.environ.setdefault(_LOCALE, locale)
    sys.argv = call["words"]


def serve(connection: socket.socket) -> int:
    """Fork for each request, one after the other; in the child the exit code of its call."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH, 3)
        if not head:
            return 0
        with connection.makefile("rb") as stream:
            request = stream.read(int.from_bytes(head, "little"))
        child = os.fork()
        if not child:
            connection.close()
            _become(request, descriptors)
            return start.cli()
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(child.to_bytes(_LENGTH, "little"))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        connection.sendall(code.to_bytes(_LENGTH, "little", signed=True))


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    _load()
    gc.collect()
    gc.freeze()
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))

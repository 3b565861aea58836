"""Starts the command line in no time: a process that has loaded it, and forks.

What runs in the child is the program from its start function on, in a process group of its own, so
that it can be killed together with the helm that it has started.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Loaded for the children.
import kubernetes.dynamic  # noqa: F401

import allranks.cli.commands.submit
import allranks.helm.releases
import allranks.service.workspace
import allranks.workspace.config_maps  # noqa: F401
from allranks import start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.context import ForkServerProcess


def call(
    line: Sequence[str | Path], environment: Mapping[str, str], folder: Path, log: Path
) -> ForkServerProcess:
    """Start a command.

    Args:
        line: the command line.
        environment: all of it.
        folder: where it is called.
        log: where it writes.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload([__name__])
    words = [str(word) for word in line]
    process = forks.Process(target=_run, args=(words, dict(environment), str(folder), str(log)))
    process.start()
    return process


def _run(words: list[str], environment: dict[str, str], folder: str, log: str) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = words
    sys.exit(start.cli())

"""How the watcher and the master start: as every program of ours does."""

from __future__ import annotations

from allranks.start import program


def watcher() -> int:
    """`allranks-watcher`."""
    return program("allranks_operator.__main__")()


def master() -> int:
    """`allranks-master`."""
    return program("allranks_operator.master.__main__")()

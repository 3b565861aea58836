"""The entry points of the operator and the master."""

from __future__ import annotations

from allranks.start import program


def operator() -> int:
    """Start `allranks-operator`."""
    return program("allranks_operator.__main__")()


def master() -> int:
    """Start `allranks-master`."""
    return program("allranks_operator.master.__main__")()

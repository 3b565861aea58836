"""What a shell completes after the flags of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import AllranksError

if TYPE_CHECKING:
    import click


def search(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Our searches, and those of Optuna's that begin as typed: loading it takes a second."""
    from allranks.sweep.model import GRID, RANDOM, TPE  # noqa: PLC0415 - only while a shell does

    found = [name for name in (GRID, RANDOM, TPE) if name.startswith(start)]
    if found or not start:
        return found
    try:
        from allranks.sweep.samplers import names as usable  # noqa: PLC0415
    except ModuleNotFoundError:
        return []
    return [name for name in usable() if name.lower().startswith(start.lower())]


def metric(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """What the sweeps of this machine were measured by."""
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - only while a shell completes

    try:
        return [name for name in shelf.metrics() if name.startswith(start)]
    except AllranksError:
        return []

"""Errors and hints for a name that another sweep has, with the commands that find that sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.sweep.reporting import results
from allranks.sweep.storage import catalog
from allranks.sweep.storage.base import BegunError

if TYPE_CHECKING:
    from allranks.sweep.storage.base import Backend


def begun_already(store: Backend, sweep: str) -> BegunError:
    """Return the error for beginning a sweep where there is one already.

    Args:
        store: where the new sweep would be kept.
        sweep: the name of the existing sweep.
    """
    journal, sweep = ("", store.name) if catalog.is_registered(store) else (store.where, sweep)
    go_on, remove = (results.command(word, sweep, journal) for word in ("resume", "delete"))
    hint = f"`{go_on}` goes on with it, `{remove}` removes it; or give the new one another name"
    return BegunError(sweep, store.where, hint)


def way_out(sweep: str, journal: str) -> str:
    """Return the hint for a name under which another sweep has its releases.

    Args:
        sweep: the name.
        journal: the other sweep's journal, as ``--journal`` takes it; "" if it is unknown here.
    """
    status, remove = (results.command(word, sweep, journal) for word in ("status", "delete"))
    hint = "give this one another name; or have that one ended"
    if journal:
        return f"{hint}: `{status}` shows it, `{remove}` removes it"
    return (
        f"{hint} where it was begun: `{status}` shows it there, `{remove}` removes it (where its "
        "journal is lost, `helm uninstall` of each)"
    )

"""A name that another sweep has: what a person is told, with the commands that find that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.sweep.reporting import results
from allranks.sweep.storage import shelf
from allranks.sweep.storage.lines import BegunError

if TYPE_CHECKING:
    from allranks.sweep.storage.journals import Keeper


def begun_already(kept: Keeper, sweep: str) -> BegunError:
    """The refusal to begin a sweep where there is one.

    Args:
        kept: where it is kept.
        sweep: the name of the one that is there.
    """
    journal, sweep = ("", kept.name) if shelf.is_known(kept) else (kept.where, sweep)
    go_on, remove = (results.command(word, sweep, journal) for word in ("resume", "delete"))
    hint = f"`{go_on}` goes on with it, `{remove}` removes it; or give the new one another name"
    return BegunError(sweep, kept.where, hint)


def way_out(sweep: str, journal: str) -> str:
    """What to do where another sweep of a name has its releases.

    Args:
        sweep: the name.
        journal: that one's, as ``--journal`` takes it; "" where only those know who have begun it.
    """
    status, remove = (results.command(word, sweep, journal) for word in ("status", "delete"))
    hint = "give this one another name; or have that one ended"
    if journal:
        return f"{hint}: `{status}` shows it, `{remove}` removes it"
    return (
        f"{hint} where it was begun: `{status}` shows it there, `{remove}` removes it (where its "
        "journal is lost, `helm uninstall` of each)"
    )

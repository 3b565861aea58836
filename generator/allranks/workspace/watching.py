"""Notice that a folder has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Editors and formatters write several times; what comes within this time is one change.
_DEBOUNCE_MILLISECONDS = 300


def changes(folder: Path) -> Iterator[None]:
    """Yield after each change below a folder that may matter to a snapshot.

    What no snapshot ever has (`.git`, caches) is not looked at; whether the rest has changed its
    digest is for whoever takes the snapshot to see.

    Raises:
        MissingToolError: watchfiles is not installed.
    """
    try:
        import watchfiles
    except ImportError as error:
        raise MissingToolError(
            "--watch needs watchfiles, which is not installed",
            hint="pip install 'allranks[watch]'",
        ) from error
    for _ in watchfiles.watch(
        folder, debounce=_DEBOUNCE_MILLISECONDS, step=50, raise_interrupt=True
    ):
        yield

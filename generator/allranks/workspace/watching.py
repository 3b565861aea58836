"""Notice that a folder has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Editors and formatters write several times: a change has ended when nothing more has come for one
# step, or after the longest time.
_STEP_MILLISECONDS, _DEBOUNCE_MILLISECONDS = 100, 500
_START_MILLISECONDS = 500  # until the first word that the folder is watched


def changes(folder: Path) -> Iterator[None]:
    """Yield once a folder is watched, and after each change below it that may matter to a snapshot.

    The first is for what has changed before. What no snapshot ever has (`.git`, caches) is not
    looked at; whether the rest has changed what goes is for whoever takes the snapshot to see.

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
    is_first = True
    for changed in watchfiles.watch(
        folder,
        step=_STEP_MILLISECONDS,
        debounce=_DEBOUNCE_MILLISECONDS,
        rust_timeout=_START_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=True,
    ):
        if changed or is_first:
            yield
        is_first = False

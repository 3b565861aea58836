"""Waiting for what a control plane does in its own time, with fake nodes and with a real one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60.0
# A busy machine may take as many times as long; where nothing is late, that costs nothing.
_SLOW = 4.0
_POLL = 0.02


def until(
    check: Callable[[], Any],
    what: str | Callable[[], str],
    seconds: float = PATIENCE,
    *,
    poll: float = _POLL,
) -> Any:
    """Wait for `check` to be true and return what it gave; fail the test when it never is.

    Args:
        check: asked again and again, also where an API server without a core to run on hung up.
        what: what should happen; called for the words where it did not.
        seconds: how long it may take on a machine that has little else to do.
        poll: seconds between two looks.
    """
    seconds *= _SLOW
    deadline = time.monotonic() + seconds
    while True:
        lost = ""
        try:
            found = check()
        except OSError as error:
            found, lost = None, f"\nthe last look: {error}"
        if found:
            return found
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            pytest.fail(f"did not happen within {seconds:g} s: {said}{lost}", pytrace=False)
        time.sleep(poll)

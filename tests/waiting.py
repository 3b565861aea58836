"""Waiting for what other processes do in their own time: by looking again, never for a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60.0
# A busy machine may take as many times as long; where nothing is late, that costs nothing.
_SLOW = 4.0
# What comes soon is seen soon. Each look may be a request, and the API server shares the cores with
# what is waited for: after long waiting a look more or less is no matter.
_FIRST, _SHARE, _SLOWEST = 0.02, 0.05, 0.5


def until(
    check: Callable[[], Any],
    expectation: str | Callable[[], str],
    seconds: float = PATIENCE,
    *,
    poll: float | None = None,
    failure: type[BaseException] = pytest.fail.Exception,
) -> Any:
    """Wait for `check` to be true and return what it gave; fail the test when it never is.

    Args:
        check: asked again and again, also where an API server without a core to run on hung up.
        expectation: what should happen; called for the words where it did not.
        seconds: how long it may take on a machine that has little else to do.
        poll: seconds between two looks; None begins with few, and takes more the longer it waits.
        failure: what is raised where it never is; a bench is no test.
    """
    seconds *= _SLOW
    start = time.monotonic()
    deadline = start + seconds
    while True:
        last_error = ""
        try:
            result = check()
        except OSError as error:
            result, last_error = None, f"\nthe last look: {error}"
        if result:
            return result
        now = time.monotonic()
        if now > deadline:
            expected_text = expectation if isinstance(expectation, str) else expectation()
            raise failure(f"did not happen within {seconds:g} s: {expected_text}{last_error}")
        time.sleep(poll or min(_SLOWEST, max(_FIRST, (now - start) * _SHARE)))

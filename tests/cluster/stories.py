"""Tests that wait far more than they do, told beside each other.

DLRover's master looks at its job every half minute, and nobody can tell it to look more often. So
the first test of a module that asks for one starts all that were selected, each in a thread, and
every test then waits for the end of its own.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest


def story(test: Callable[[Any], None]) -> Callable[..., None]:
    """Make a test of a function that takes what the fixture `stories` tells it with."""

    def wrapper(stories: Stories) -> None:
        stories.hear(test)

    for name in ("__name__", "__doc__", "__module__"):
        setattr(wrapper, name, getattr(test, name))
    wrapper.story = test  # type: ignore[attr-defined]
    return wrapper


class Stories:
    """The stories of one module."""

    def __init__(self, items: Iterable[pytest.Item], module: str, stage: Any) -> None:
        """Start them.

        Args:
            items: the tests of this run.
            module: the module whose stories these are.
            stage: what each is told with.
        """
        tests = {
            function.story
            for function in (getattr(item, "function", None) for item in items)
            if hasattr(function, "story") and function.__module__ == module
        }
        self._pool = ThreadPoolExecutor(max(1, len(tests)))
        self._running: dict[Callable[[Any], None], Future[None]] = {
            test: self._pool.submit(test, stage) for test in tests
        }

    def hear(self, test: Callable[[Any], None]) -> None:
        """Wait for the end of one; raises what it raised."""
        self._running[test].result()

    def close(self) -> None:
        """Wait for those that are told still."""
        self._pool.shutdown(cancel_futures=True)

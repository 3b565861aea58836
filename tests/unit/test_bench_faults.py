"""How the bench of faults reads what rank 0 has written down: when it went on, what was lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.faults import Cell, verdict

BEGAN = 100.0


def _steps(first: int, last: int, at: float) -> list[dict[str, Any]]:
    """Ten steps a second, the first at a time."""
    return [{"step": step, "at": at + (step - first) / 10} for step in range(first, last + 1)]


BEFORE = [{"start": 0, "size": 2, "at": 90.0}, *_steps(1, 36, 96.5)]


@pytest.mark.parametrize(
    ("after", "seconds", "lost"),
    [
        ([{"start": 20, "size": 2, "at": 111.0}, *_steps(21, 25, 112.0)], 12.0, 16),
        # Steps that were made while the pod was ending count as made: what was saved is not lost.
        (
            [
                *_steps(37, 41, 100.1),
                {"start": 41, "size": 2, "at": 111.0},
                *_steps(42, 45, 112.0),
                {"start": 41, "size": 2, "at": 130.0},
            ],
            12.0,
            0,
        ),
        # Nobody started again: the longest pause was the fault's.
        ([*_steps(37, 38, 100.1), *_steps(39, 50, 124.5)], 24.5, 0),
        ([*_steps(37, 90, 100.1)], None, None),
        ([{"start": 20, "size": 2, "at": 111.0}], None, None),
    ],
)
def test_the_next_step_is_the_first_after_the_pause_or_the_restart(
    after: list[dict[str, Any]], seconds: float | None, lost: int | None
) -> None:
    """A step that the fault did not delay is no answer; without another there is none yet."""
    cell = verdict([*BEFORE, *after], BEGAN, "killed", "fixed")
    expected = None if seconds is None else Cell("killed", "fixed", seconds, lost)
    assert expected == cell

"""For how long a training has reported no step, and when that is said."""

from __future__ import annotations

import pytest

from allranks_operator.master.job_end import StallDetector


def silent(*pauses: float) -> StallDetector:
    """A training that went on after each of these pauses, and is silent since 1000 s."""
    detector = StallDetector()
    times = [1000.0]
    for pause in reversed(pauses):
        times.insert(0, times[0] - pause)
    for index, time in enumerate(times):
        detector.record_step(time, first=index == 0)
    return detector


@pytest.mark.parametrize(
    ("pauses", "event_at"),
    [((), 1300), ((2, 100), 1300), ((200,), 1400), ((2, 600, 2), 2200)],
)
def test_it_is_said_once_it_is_longer_than_pauses_are(
    pauses: tuple[float, ...], event_at: float
) -> None:
    """After five minutes, or twice the longest pause that the training went on after."""
    detector = silent(*pauses)
    assert detector.event(event_at - 1, 1800) is None
    assert detector.event(event_at, 1800) is not None
    assert detector.event(event_at + 5000, 1800) is None


def test_the_time_between_two_generations_is_no_pause() -> None:
    """Workers were waited for."""
    detector = silent()
    detector.record_step(9000, first=True)
    assert 0 == detector.longest


@pytest.mark.parametrize(
    ("stall", "words"),
    [
        (1800.0, "started anew after 1800 s without one (stallSeconds)"),
        (0.0, "nothing is done about it (stallSeconds is 0)"),
        (None, "nothing is done about it (no generations of workers"),
    ],
)
def test_what_follows_is_said(stall: float | None, words: str) -> None:
    """Whether the master does anything, and when."""
    event = silent().event(1420, stall)
    assert event is not None
    assert ("NoSteps", True) == (event.reason, event.warning)
    assert event.message.startswith("no step was reported for 7 minutes: ")
    assert words in event.message


def test_a_training_hangs_after_stall_seconds() -> None:
    """With 0, or where nobody starts it anew, never."""
    detector = silent()
    assert (False, True) == (detector.is_stalled(1060, 60), detector.is_stalled(1061, 60))
    assert [False, False] == [detector.is_stalled(9e9, stall) for stall in (0, None)]

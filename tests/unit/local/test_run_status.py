"""Which controller's end is the end of a run."""

from __future__ import annotations

import pytest

from allranks.local.controller import ControllerEnd
from allranks.local.run_status import overall
from allranks.status.controllers import ControllerOutcome

_WORKERS = ControllerEnd(
    ControllerOutcome.COMPLETE, "CompletionsReached", "", controller="j-worker"
)
_LOST = ControllerEnd(ControllerOutcome.FAILED, "BackoffLimitExceeded", "", controller="j-worker")
_LAUNCHER = ControllerEnd(
    ControllerOutcome.COMPLETE, "CompletionsReached", "", controller="j-launcher"
)
_FAILED = ControllerEnd(ControllerOutcome.FAILED, "FailedIndexes", "", controller="j-launcher")
_SUSPENDED = ControllerEnd(ControllerOutcome.SUSPENDED, "JobSuspended", "", controller="j-worker")


@pytest.mark.parametrize(
    ("verdicts", "leads", "expected"),
    [
        ([None, None], [], None),
        ([_WORKERS, None], [], None),
        ([_WORKERS, _LAUNCHER], [], _WORKERS),
        ([None, _FAILED], [], _FAILED),
        ([_WORKERS, _SUSPENDED], [], _SUSPENDED),
        # A lead's end is the end of all, and no one else's good end is.
        ([None, _LAUNCHER], ["j-launcher"], _LAUNCHER),
        ([_WORKERS, None], ["j-launcher"], None),
        ([None, _FAILED], ["j-launcher"], _FAILED),
        # What a lead waits for can fail for good; what fails when the lead is done does not count.
        ([_LOST, None], ["j-launcher"], _LOST),
        ([_LOST, _LAUNCHER], ["j-launcher"], _LAUNCHER),
        # Several leads are all waited for, and one's failure is the end.
        ([_WORKERS, None, None], ["j-launcher", "j-worker"], None),
        ([_WORKERS, _LAUNCHER, None], ["j-launcher", "j-worker"], _WORKERS),
        ([_WORKERS, _FAILED, None], ["j-launcher", "j-worker"], _FAILED),
    ],
)
def test_the_end_of_a_run(
    verdicts: list[ControllerEnd | None], leads: list[str], expected: ControllerEnd | None
) -> None:
    """The first failure, the leads' end, or the end of all."""
    assert expected == overall(verdicts, leads)

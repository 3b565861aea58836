"""The sentence on a rank's end, read as the launcher writes it."""

from __future__ import annotations

import pytest

from allranks import names
from allranks.status import rank_end
from allranks.status.rank_end import RankEnd
from tests.modules import CHARTS, load

LAUNCHER = load(CHARTS / "torchrun/files/failures.py")
LINES = "ValueError: no\nrank 9 ended with exit code 9"


@pytest.mark.parametrize("prefix", ["", names.PEER_LOST])
def test_an_end_that_a_pod_says_of_its_own_rank(prefix: str) -> None:
    """It names no pod, and what it says of its other ranks and their lines comes after it."""
    message = prefix + LAUNCHER.describe(3, 37, (3, 5), LINES)
    rest = message.partition("exit code 37")[2]
    assert RankEnd(prefix, "rank 3", "", 37, rest) == rank_end.parse(message)


def test_an_end_that_another_pod_says() -> None:
    """It names the pod whose rank failed first."""
    entry = {"rank": 40, "code": 1, "pod": "big-5", "lines": LINES, "node": 5, "follows": False}
    message = LAUNCHER.FirstFailure(entry).message()
    rest = message.partition("exit code 1")[2]
    expected = RankEnd(names.FAILED_FIRST, "rank 40", "big-5", 1, rest)
    assert expected == rank_end.parse(message)


@pytest.mark.parametrize("message", ["", "rank three", LINES, f"{names.PEER_LOST}another node"])
def test_a_message_that_begins_otherwise_tells_of_no_end(message: str) -> None:
    """A program's own message may have such a sentence further down."""
    assert rank_end.parse(message) is None

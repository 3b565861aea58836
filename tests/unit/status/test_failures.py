"""Which bad end a run failed of."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.model.status import Failure
from allranks.status.failures import (
    Part,
    Suspect,
    culprit,
    first_suspect,
    names_another,
    only_reports_another,
    unfit_nodes,
)
from allranks.status.pod_json import code_of_rank

_END = 100.0


def bad(code: int, at: float, rank: int = 0, **fields: Any) -> Suspect:
    """The bad end of a rank's container."""
    values = {"pod": f"pod-{rank}", "container": "trainer", "pod_index": rank} | fields
    return Suspect(at=at, rank=rank, code=code, **values)


@pytest.mark.parametrize(
    ("suspects", "expected"),
    [
        pytest.param([], None, id="nothing failed"),
        pytest.param([bad(1, 90.1), bad(7, 90, 1), bad(1, 91, 2)], 7, id="the first of many"),
        pytest.param([bad(9, 90, 1), bad(8, 90, 2)], 9, id="at once, the lowest rank"),
        pytest.param(
            [bad(216, 89, only_reports=True), bad(7, 90, 1)], 7, id="told of another's end"
        ),
        pytest.param([bad(143, 89), bad(7, 90, 1)], 7, id="told to stop"),
        pytest.param(
            [bad(143, 88), bad(216, 89, 1, only_reports=True)],
            216,
            id="who was told can say of whom",
        ),
        pytest.param(
            [bad(1, 88, only_reports=True), bad(37, 89, 1, only_reports=True, names_culprit=True)],
            37,
            id="who names the culprit goes before who lost a peer",
        ),
        pytest.param(
            [bad(1, 88, only_reports=True), bad(137, 92, 1)],
            137,
            id="killed as a whole, without a word",
        ),
        pytest.param(
            [
                bad(37, 88, 1, replaced=True),
                bad(37, 88.1, only_reports=True, names_culprit=True, replaced=True),
                bad(9, 90),
                bad(9, 91, 1, only_reports=True, names_culprit=True),
            ],
            9,
            id="its next try fell with another rank",
        ),
        pytest.param([bad(143, 89)], 143, id="stopped by a stranger"),
        pytest.param([bad(216, 89)], 216, id="the program's own code"),
        pytest.param([bad(4, 20, replaced=True), bad(7, 90, 1)], 7, id="recovered long ago"),
        pytest.param(
            [bad(4, 89, replaced=True), bad(1, 90, 1)], 4, id="replaced before its peers died"
        ),
        pytest.param(
            [bad(4, 89, replaced=True, successor_succeeded=True), bad(1, 90, 1)],
            1,
            id="replaced and done",
        ),
        pytest.param([bad(4, 20), bad(1, 90, 1)], 4, id="never replaced"),
        pytest.param([bad(4, 20, replaced=True)], None, id="recovered, and another reason"),
        pytest.param(
            [bad(4, 88, replaced=True), bad(6, 89), bad(1, 90, 1)], 6, id="of its tries the last"
        ),
        pytest.param(
            [bad(4, 88, replaced=True), bad(143, 89), bad(1, 90, 1, part=Part.DECIDES)],
            4,
            id="its next try was stopped with the run",
        ),
        pytest.param(
            [bad(1, 80, part=Part.DECIDES), bad(3, 90, 1)], 3, id="a master's end is the others'"
        ),
        pytest.param([bad(5, 3, part=Part.OPTIONAL), bad(7, 90, 1)], 7, id="not needed"),
        pytest.param([bad(5, 3, part=Part.OPTIONAL)], 5, id="not needed, and alone"),
    ],
)
def test_who_is_to_blame(suspects: list[Suspect], expected: int | None) -> None:
    """The first that failed by itself and had not recovered when the run failed."""
    for order in (suspects, suspects[::-1]):
        suspect = first_suspect(order, _END)
        assert expected == (suspect.code if suspect else None)


def test_a_run_that_goes_on_tells_of_ranks_that_recovered() -> None:
    """That is why it has restarted; a rank that is not back goes before them."""
    back, away = bad(4, 20, replaced=True), bad(7, 30, 1)
    assert back == first_suspect([back], None)
    assert away == first_suspect([back, away], None)


def test_a_pod_that_names_the_culprit_stands_for_it() -> None:
    """Where the pod that failed first is gone, another one's message says all that it said."""
    message = f"{names.FAILED_FIRST}rank 3 in pod ex-1 ended with exit code 37\nValueError: no"
    failure = Failure("ex-0-abcde", 0, "trainer", 37, 1.0, message=message, log=("own",))
    assert names_another(message, "ex-0-abcde")
    assert only_reports_another(37, message, "ex-0-abcde", is_fixed_size=False)
    expected = Failure(
        "ex-1", 1, "trainer", 37, 1.0, message="rank 3 ended with exit code 37\nValueError: no"
    )
    assert expected == culprit(failure)


@pytest.mark.parametrize(
    ("ended_with", "message", "code"),
    [
        (220, "rank 3 ended with exit code 37\nValueError: no", 37),
        (220, f"{names.FAILED_FIRST}rank 3 in pod ex-1 ended with exit code 37", 37),
        (220, f"{names.PEER_LOST}rank 0 ended with exit code 1 (and 1 more on this node: 1)", 1),
        (221, "rank 3 ended with exit code 137", 137),
        (221, "the container was killed (exit code 137) after its last restart in place", 221),
        (220, "torchrun failed: RuntimeError", 220),
        (220, "", 220),
        (9, "rank 3 ended with exit code 37", 9),
    ],
)
def test_the_code_of_a_rank_stands_in_the_message_of_its_launcher(
    ended_with: int, message: str, code: int
) -> None:
    """A launcher that asks for a restart in place ends with a code of its own."""
    assert code == code_of_rank(ended_with, message)


def test_a_preflight_that_failed_names_its_node() -> None:
    """The pod on the node, the number, and what to avoid, whichever pod's message says it."""
    words = "preflight: node b2 (pod big-5): matmul 41 TFLOP/s, at least 300\n"
    words += "keep the job off it: scheduling.avoidNodes: [b2]"
    message = f"{names.FAILED_FIRST}rank 40 in pod big-5 ended with exit code 219\n{words}"
    other = culprit(Failure("big-0-abcde", 0, "trainer", 219, 1.0, message=message))
    own = culprit(Failure("big-5-fghij", 5, "trainer", 219, 1.0, message=words))
    assert {("PreflightFailed", words)} == {(end.reason, end.message) for end in (own, other)}
    assert ("big-5", 5) == (other.pod, other.rank)
    assert ("b2",) == unfit_nodes(other)
    assert () == unfit_nodes(None) == unfit_nodes(Failure("p", 0, "c", 219, 1.0))
    program = Failure("p", 0, "c", 219, 1.0, reason="Error", message="ValueError: 219")
    assert "Error" == culprit(program).reason


@pytest.mark.parametrize(
    "verdict",
    [
        "job-edljob-worker-1: rank 3",
        "the training failed 2 times in a row; job-edljob-worker-1: rank 3",
        "job-edljob-worker-0: failed first: rank 3 in pod job-edljob-worker-1",
    ],
)
def test_a_master_that_names_the_culprit_is_believed(verdict: str) -> None:
    """A worker that ends with the job has its code, and says whose it is: that one may be gone."""
    message = f"{names.JOB_HAS_FAILED}{verdict} ended with exit code 37\nValueError: no"
    failure = Failure("job-edljob-worker-0", 0, "trainer", 37, 1.0, message=message, log=("own",))
    assert names_another(message, failure.pod)
    assert only_reports_another(37, message, "job-edljob-worker-2", is_fixed_size=False)
    expected = Failure(
        "job-edljob-worker-1",
        1,
        "trainer",
        37,
        1.0,
        message="rank 3 ended with exit code 37\nValueError: no",
    )
    assert expected == culprit(failure)


def test_a_pod_that_the_master_names_stands_for_itself() -> None:
    """Its own log has more than the master knows."""
    message = f"{names.JOB_HAS_FAILED}job-edljob-worker-1: rank 3 ended with exit code 37"
    failure = Failure("job-edljob-worker-1", 1, "trainer", 37, 1.0, message=message, log=("own",))
    assert not names_another(message, failure.pod)
    assert not only_reports_another(37, message, failure.pod, is_fixed_size=False)
    assert failure == culprit(failure)


def test_a_pod_that_lost_a_peer_names_nobody() -> None:
    """It only says that the cause is elsewhere."""
    message = f"{names.PEER_LOST}rank 0 ended with exit code 1"
    failure = Failure("ex-0", 0, "trainer", 1, 1.0, message=message)
    assert not names_another(message, "ex-0")
    assert only_reports_another(1, message, "ex-0", is_fixed_size=False)
    assert failure == culprit(failure)

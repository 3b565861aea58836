"""The Job and StatefulSet controllers' decisions, one row per situation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allranks.local.backoff import JobBackoff
from allranks.local.controller import (
    ControllerDecision,
    ControllerOutcome,
    decide_bare,
    decide_job,
    decide_set,
    index_annotations,
)
from allranks.local.plan.model import BarePlan, FailureRule, JobPlan, PodPlan, SetPlan, SuccessRule
from allranks.local.pod.lifecycle import PodAttempt
from allranks.model.status import PodPhase

_NOW = 1000.0
_IGNORE_214 = (FailureRule("Ignore", "In", frozenset({214})),)
_STARTED = 900.0


def _plans(count: int) -> tuple[PodPlan, ...]:
    return tuple(
        PodPlan(f"t-{i}", i, i, "node", f"t-{i}", "t", {"metadata": {}, "spec": {}}, ())
        for i in range(count)
    )


def _job(count: int = 2, **fields: object) -> JobPlan:
    return JobPlan(**{"name": "t", "pods": _plans(count), "parallelism": count, **fields})  # type: ignore[arg-type]


def _pod(index: int, phase: PodPhase, code: int | None = None, **fields: object) -> PodAttempt:
    exits = () if code is None else (("m", code),)
    values = {
        "finished_at": 0.0 if code is None else _NOW,
        "exits": exits,
        "main": ("m",),
        **fields,
    }
    return PodAttempt(name=f"t-{index}", index=index, phase=phase, **values)  # type: ignore[arg-type]


def _running(index: int, **fields: object) -> PodAttempt:
    return _pod(index, PodPhase.RUNNING, ready=True, **fields)


def _succeeded(index: int, at: float = _NOW) -> PodAttempt:
    return _pod(index, PodPhase.SUCCEEDED, 0, finished_at=at)


def _failed(index: int, code: int = 1, at: float = _NOW) -> PodAttempt:
    return _pod(index, PodPhase.FAILED, code, finished_at=at)


def _decide(job: JobPlan, *pods: PodAttempt, now: float = _NOW) -> ControllerDecision:
    return decide_job(job, pods, now, _STARTED, JobBackoff(1.0))


@pytest.mark.parametrize(
    ("job", "pods", "create"),
    [
        (_job(3), [], (0, 1, 2)),
        (_job(3, parallelism=2), [], (0, 1)),
        (_job(3, parallelism=2), [_running(0), _running(1)], ()),
        (_job(3, parallelism=2), [_succeeded(0), _running(1)], (2,)),
        (_job(3), [_running(0), _succeeded(1)], (2,)),
        (_job(3, parallelism=0), [], ()),
        # A failed index comes back when its back-off has passed, and not before.
        (_job(2), [_failed(0, at=_NOW - 10), _running(1)], (0,)),
        (_job(2), [_failed(0, at=_NOW - 9), _running(1)], ()),
        # The failures of the whole Job count together: two have 20 s to wait.
        (_job(2), [_failed(0, at=_NOW - 15), _failed(1, at=_NOW - 15)], ()),
        (_job(2), [_failed(0, at=_NOW - 20), _failed(1, at=_NOW - 20)], (0, 1)),
        # A success in between starts the count again.
        (
            _job(3),
            [_failed(0, at=_NOW - 90), _failed(0, at=_NOW - 70), _succeeded(1, at=_NOW - 50)],
            (0, 2),
        ),
        # With a limit per index each index has its own back-off.
        (
            _job(2, backoff_limit_per_index=3),
            [_failed(0, at=_NOW - 5), _failed(1, at=_NOW - 10)],
            (1,),
        ),
        # A pod that the controller itself stopped has neither failed nor succeeded.
        (_job(1), [_pod(0, PodPhase.FAILED, 143, stopped=True)], (0,)),
    ],
)
def test_which_pods_a_job_creates(
    job: JobPlan, pods: list[PodAttempt], create: tuple[int, ...]
) -> None:
    """A Job creates the missing indexes, as many as may run at once, when their time has come."""
    assert create == _decide(job, *pods).create


def test_a_job_says_when_its_back_off_ends() -> None:
    """While it waits, the decision says what for and until when."""
    decision = _decide(_job(1), _failed(0, at=_NOW - 4))
    assert ("back-off before a new pod", _NOW + 6) == (decision.waiting, decision.wake_at)


_FATAL = (FailureRule("FailJob", "In", frozenset({13})),)
_IGNORE = (FailureRule("Ignore", "In", frozenset({7})),)
_NOT_IN = (FailureRule("FailJob", "NotIn", frozenset({1, 2})),)
_OTHER = (FailureRule("FailJob", "In", frozenset({1}), container="other"),)
_CONDITION = (FailureRule("Ignore"), FailureRule("FailJob", "In", frozenset({13})))
_ZERO_WINS = (SuccessRule(indexes=frozenset({0})),)
_ANY_ONE = (SuccessRule(count=1),)
_EITHER = (SuccessRule(indexes=frozenset({1, 2}), count=1),)


@pytest.mark.parametrize(
    ("job", "pods", "reason"),
    [
        (_job(2), [_succeeded(0), _running(1)], None),
        (_job(2), [_succeeded(0), _succeeded(1)], "CompletionsReached"),
        (_job(0), [], "CompletionsReached"),
        # Retries.
        (_job(1, backoff_limit=0), [_failed(0)], "BackoffLimitExceeded"),
        (_job(1, backoff_limit=1), [_failed(0)], None),
        (_job(1, backoff_limit=1), [_failed(0), _failed(0)], "BackoffLimitExceeded"),
        (_job(2, backoff_limit=1), [_failed(0), _failed(1)], "BackoffLimitExceeded"),
        (_job(1, backoff_limit=0), [_running(0, restarts=1)], "BackoffLimitExceeded"),
        (_job(1, backoff_limit=3), [_running(0, restarts=2)], None),
        (_job(1, backoff_limit=3), [_running(0, restarts=3)], "BackoffLimitExceeded"),
        # podFailurePolicy.
        (_job(1, failure_rules=_FATAL), [_failed(0, 13)], "PodFailurePolicy"),
        (_job(1, failure_rules=_FATAL), [_failed(0, 1)], None),
        (_job(1, failure_rules=_NOT_IN), [_failed(0, 3)], "PodFailurePolicy"),
        (_job(1, failure_rules=_NOT_IN), [_failed(0, 2)], None),
        (_job(1, failure_rules=_OTHER), [_failed(0, 1)], None),
        (_job(1, failure_rules=_CONDITION), [_failed(0, 13)], "PodFailurePolicy"),
        (_job(1, failure_rules=_IGNORE, backoff_limit=0), [_failed(0, 7)], None),
        (_job(1, failure_rules=_IGNORE, backoff_limit=0), [_failed(0, 8)], "BackoffLimitExceeded"),
        # successPolicy.
        (_job(3, success_rules=_ZERO_WINS), [_succeeded(0), _running(1)], "SuccessPolicy"),
        (_job(3, success_rules=_ZERO_WINS), [_running(0), _succeeded(1)], None),
        (_job(3, success_rules=_ANY_ONE), [_running(0), _succeeded(1)], "SuccessPolicy"),
        (_job(3, success_rules=_EITHER), [_succeeded(0), _running(1)], None),
        (_job(3, success_rules=_EITHER), [_succeeded(2), _running(1)], "SuccessPolicy"),
        # Limits per index.
        (_job(2, backoff_limit_per_index=0), [_failed(0), _running(1)], None),
        (_job(2, backoff_limit_per_index=0), [_failed(0), _succeeded(1)], "FailedIndexes"),
        (
            _job(3, backoff_limit_per_index=0, max_failed_indexes=1),
            [_failed(0), _failed(1), _running(2)],
            "MaxFailedIndexesExceeded",
        ),
        # The nodes of a job that fail together have one try less each; none has lost all of them.
        (
            _job(3, backoff_limit_per_index=1, max_failed_indexes=0),
            [_failed(0), _failed(1), _failed(2)],
            None,
        ),
        (
            _job(3, backoff_limit_per_index=1, max_failed_indexes=0),
            [_failed(0), _failed(1), _failed(2), _failed(1), _running(0)],
            "MaxFailedIndexesExceeded",
        ),
        # Deadline and suspension.
        (_job(1, deadline=100.0), [_running(0)], "DeadlineExceeded"),
        (_job(1, deadline=101.0), [_running(0)], None),
        (_job(1, suspend=True), [], "JobSuspended"),
        # A fatal exit code weighs more than the limit it also exceeds.
        (
            _job(1, failure_rules=_FATAL, backoff_limit=0),
            [_failed(0, 13)],
            "PodFailurePolicy",
        ),
    ],
)
def test_how_a_job_ends(job: JobPlan, pods: list[PodAttempt], reason: str | None) -> None:
    """Each rule that ends a Job does so with Kubernetes' own reason, and no other does."""
    verdict = _decide(job, *pods).verdict
    assert reason == (verdict.reason if verdict else None)


def test_a_fatal_exit_code_names_its_pod() -> None:
    """The verdict carries the pod and the exit code that decided it."""
    verdict = _decide(_job(2, failure_rules=_FATAL), _failed(0, 1), _failed(1, 13)).verdict
    assert verdict is not None
    assert ("t-1", 13, ControllerOutcome.FAILED) == (
        verdict.pod,
        verdict.exit_code,
        verdict.outcome,
    )


def test_a_given_up_index_is_not_created_again() -> None:
    """FailIndex gives an index up at its first failure, whatever its limit."""
    rules = (FailureRule("FailIndex", "In", frozenset({5})),)
    job = _job(2, backoff_limit_per_index=9, failure_rules=rules)
    assert _decide(job, _failed(0, 5, at=0.0), _running(1)).create == ()


def test_a_deadline_wakes_the_controller() -> None:
    """A Job with a deadline asks to be looked at when it passes."""
    assert _STARTED + 300 == _decide(_job(1, deadline=300.0), _running(0)).wake_at


@pytest.mark.parametrize(
    ("ordered", "pods", "create"),
    [
        (False, [], (0, 1, 2)),
        (True, [], (0,)),
        (True, [_pod(0, PodPhase.PENDING)], ()),
        (True, [_running(0)], (1,)),
        (True, [_running(0), _running(1)], (2,)),
        (False, [_running(0), _failed(1), _running(2)], (1,)),
    ],
)
def test_which_pods_a_stateful_set_creates(
    ordered: bool, pods: list[PodAttempt], create: tuple[int, ...]
) -> None:
    """All at once where it is Parallel, else each when the one before it is ready."""
    assert create == decide_set(SetPlan("t", _plans(3), ordered=ordered), pods).create


def test_a_stateful_set_ends_when_each_last_end_was_good() -> None:
    """Containers that were started again and idle do not keep the run open; a bad end does."""
    plan = SetPlan("t", _plans(2), ordered=False)
    idle = _running(0, exits=(("m", 0),))
    assert decide_set(plan, [idle, _running(1)]).verdict is None
    assert decide_set(plan, [idle, _running(1, exits=(("m", 1),))]).verdict is None
    verdict = decide_set(plan, [idle, _running(1, exits=(("m", 0),))]).verdict
    assert verdict is not None
    assert ControllerOutcome.COMPLETE is verdict.outcome


def test_a_stateful_set_without_replicas_is_suspended() -> None:
    """That is how a suspended StatefulSet is rendered."""
    verdict = decide_set(SetPlan("t", ()), []).verdict
    assert verdict is not None
    assert ControllerOutcome.SUSPENDED is verdict.outcome


def test_a_bare_pod_runs_once() -> None:
    """It is created once and ends as it ends."""
    plan = BarePlan("t", _plans(1))
    assert decide_bare(plan, []).create == (0,)
    assert decide_bare(plan, [_running(0)]) == ControllerDecision()
    completion, failed = (
        decide_bare(plan, [_succeeded(0)]).verdict,
        decide_bare(plan, [_failed(0)]).verdict,
    )
    assert completion is not None
    assert failed is not None
    assert (ControllerOutcome.COMPLETE, ControllerOutcome.FAILED) == (
        completion.outcome,
        failed.outcome,
    )


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        (_job(1), [_failed(0)], {}),
        (SetPlan("t", _plans(1)), [_failed(0)], {}),
        (_job(2, backoff_limit_per_index=3), [], {"failure": "0"}),
        (
            _job(2, backoff_limit_per_index=3),
            [_failed(0), _failed(1), _failed(0)],
            {"failure": "2"},
        ),
        (
            _job(1, backoff_limit_per_index=3, failure_rules=_IGNORE_214),
            [_failed(0), _failed(0, 214)],
            {"failure": "1", "ignored-failure": "1"},
        ),
        (_job(1, backoff_limit_per_index=3), [replace(_failed(0), stopped=True)], {"failure": "0"}),
    ],
)
def test_a_pod_is_told_how_often_its_index_has_failed(
    job: JobPlan | SetPlan, pods: list[PodAttempt], expected: dict[str, str]
) -> None:
    """With a limit per index, failures that count and that do not are annotations of the next."""
    prefix = "batch.kubernetes.io/job-index-"
    annotations = {f"{prefix}{name}-count": count for name, count in expected.items()}
    assert annotations == index_annotations(job, pods, 0)

"""The status of a run as data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.model.status import (
    ContainerStatus,
    Failure,
    Phase,
    PodPhase,
    PodStatus,
    RoleStatus,
    RunStatus,
    count_roles,
    seconds,
    timestamp,
)

_TEXT = st.text(max_size=8)
_TIME = st.integers(0, 4_000_000_000_000).map(lambda millis: millis / 1000)
_RANK = st.none() | st.integers(0, 99)
_CONTAINER = st.builds(
    ContainerStatus, _TEXT, _TEXT, _TEXT, st.none() | st.integers(0, 255), st.integers(0, 9), _TEXT
)
_POD = st.builds(
    PodStatus,
    name=_TEXT,
    role=_TEXT,
    rank=_RANK,
    phase=st.sampled_from(PodPhase),
    started_at=st.none() | _TIME,
    finished_at=st.none() | _TIME,
    containers=st.lists(_CONTAINER, max_size=2).map(tuple),
    ready=st.booleans(),
    disruptions=st.integers(0, 9),
)
_FAILURE = st.builds(
    Failure, _TEXT, _RANK, _TEXT, st.integers(1, 255), _TIME, log=st.lists(_TEXT).map(tuple)
)


@settings(max_examples=50)
@given(
    st.builds(
        RunStatus,
        name=_TEXT,
        namespace=_TEXT,
        phase=st.sampled_from(Phase),
        started_at=st.none() | _TIME,
        finished_at=st.none() | _TIME,
        exit_code=st.none() | st.integers(0, 255),
        pods=st.lists(_POD, max_size=3).map(tuple),
        failure=st.none() | _FAILURE,
        notes=st.lists(_TEXT, max_size=2).map(tuple),
        disruptions=st.integers(0, 9),
    )
)
def test_json_form_reads_back(status: RunStatus) -> None:
    """What `as_dict` writes as JSON, `from_dict` reads back to the same status."""
    roles = count_roles(status.pods)
    whole = RunStatus.from_dict({**status.as_dict(), "roles": [role.as_dict() for role in roles]})
    assert whole == RunStatus.from_dict(json.loads(json.dumps(whole.as_dict())))
    assert status.pods == whole.pods
    assert status.failure == whole.failure


@pytest.mark.parametrize(
    ("phase", "finished"),
    [
        (Phase.PENDING, False),
        (Phase.RUNNING, False),
        (Phase.RESTARTING, False),
        (Phase.SUSPENDED, False),
        (Phase.SUCCEEDED, True),
        (Phase.FAILED, True),
        (Phase.UNKNOWN, True),
        (Phase.ADMITTED, False),
        (Phase.SCALING, False),
    ],
)
def test_only_an_end_is_final(phase: Phase, finished: bool) -> None:
    """A suspended run can go on; one that succeeded, failed or is gone cannot."""
    assert finished is RunStatus("a", "b", phase).finished


def test_roles_are_counted_in_order_of_appearance() -> None:
    """Each role counts its own pods, and roles keep the order of the pods."""
    pods = [
        PodStatus("l", "launcher", 0, PodPhase.RUNNING),
        PodStatus("w-0", "worker", 0, PodPhase.SUCCEEDED),
        PodStatus("w-1", "worker", 1, PodPhase.FAILED),
        PodStatus("w-2", "worker", 2, PodPhase.PENDING),
        PodStatus("w-3", "worker", 3, PodPhase.RUNNING, ready=True),
    ]
    expected = (
        RoleStatus("launcher", 1, running=1),
        RoleStatus("worker", 4, pending=1, running=1, succeeded=1, failed=1, ready=1),
    )
    assert expected == count_roles(pods)


def test_times_are_rfc_3339_in_utc() -> None:
    """Times are written for machines in UTC with milliseconds, and an unknown time is empty."""
    assert timestamp(1.25) == "1970-01-01T00:00:01.250Z"
    assert seconds("1970-01-01T00:00:01.250Z") == 1.25
    assert timestamp(None) == ""
    assert seconds("") is None


def test_a_status_of_an_earlier_version_reads() -> None:
    """A local run's record that was written before readiness and disruptions were told is read."""
    pods = (PodStatus("a-0", "node", 0, PodPhase.RUNNING),)
    status = RunStatus("a", "b", Phase.RUNNING, roles=count_roles(pods), pods=pods)
    old = status.as_dict()
    del old["disruptions"], old["roles"][0]["ready"]
    del old["pods"][0]["ready"], old["pods"][0]["disruptions"]
    assert status == RunStatus.from_dict(old)

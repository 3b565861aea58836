"""What holds for any mix of objects: counts add up, their order is of no account, nothing fails."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.model.status import Phase, PodPhase, RunStatus
from allranks.status.observation import Observation
from allranks.status.reduce import first_failed, reduce
from tests.unit.status.samples import (
    condition,
    container,
    deleting,
    event,
    job,
    observe,
    pod,
    stateful_set,
    terminated,
)

_REASONS = ("", "Evicted", "NodeLost", "DeadlineExceeded", "Terminated")
_WAITING = ("", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff", "Novel")
_MESSAGE = st.text(max_size=12) | st.sampled_from(
    ["0/3 nodes are available: 3 Insufficient cpu.", 'secret "a" not found', "exceeded quota: q"]
)
_CODE = st.sampled_from([0, 1, 13, 137, 143, 255])
_STATE = st.one_of(
    st.just({}),
    st.just({"running": {}}),
    st.builds(
        lambda r, m: {"waiting": {"reason": r, "message": m}}, st.sampled_from(_WAITING), _MESSAGE
    ),
    st.builds(lambda code, at: terminated(code, at=at), _CODE, st.integers(0, 60)),
)
_CONTAINER = st.builds(
    lambda state, last, restarts: container(state, last=last, restarts=restarts),
    _STATE,
    _STATE,
    st.integers(0, 3),
)
_CONDITION = st.builds(
    lambda kind, status, message: condition(kind, status=status, message=message),
    st.sampled_from(["Ready", "PodScheduled", "DisruptionTarget"]),
    st.sampled_from(["True", "False"]),
    _MESSAGE,
)


@st.composite
def _pods(draw: st.DrawFn, kind: str) -> list[dict[str, Any]]:
    """Pods of a controller of four: some replaced, some beyond it, some of nobody's."""
    return [
        pod(
            draw(st.integers(0, 5)),
            draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""])),
            *draw(st.lists(_CONTAINER, max_size=2)),
            owner=draw(st.sampled_from(["demo", "demo", "demo", "other"])),
            kind=kind,
            created=draw(st.integers(0, 50)),
            suffix=f"s{number}",
            conditions=draw(st.lists(_CONDITION, max_size=2)),
            metadata=draw(st.just({}) | st.builds(deleting, st.integers(0, 60))),
            reason=draw(st.sampled_from(_REASONS)),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


_JOB_CONDITION = st.builds(
    lambda kind, reason, status: condition(kind, reason=reason, status=status),
    st.sampled_from(["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"]),
    st.sampled_from(["", "BackoffLimitExceeded", "FailedIndexes", "PodFailurePolicy"]),
    st.sampled_from(["True", "False"]),
)
_INDEXES = st.sampled_from(["", "0", "0-1", "1,3", "2-9", "x", "3-1"])


@st.composite
def _runs(draw: st.DrawFn) -> Observation:
    """A release of one controller, in any state it may be in, and some that it may not."""
    kind = draw(st.sampled_from(["Job", "Job", "StatefulSet"]))
    if kind == "StatefulSet":
        controller = stateful_set(pods=draw(st.sampled_from([0, 1, 4])))
    else:
        status = {
            "completedIndexes": draw(_INDEXES),
            "failedIndexes": draw(_INDEXES),
            "succeeded": draw(st.integers(0, 6)),
            "failed": draw(st.integers(0, 6)),
        }
        controller = job(
            pods=4,
            status=status,
            conditions=draw(st.lists(_JOB_CONDITION, max_size=2)),
            suspend=draw(st.booleans()),
            completionMode=draw(st.sampled_from(["Indexed", "NonIndexed"])),
            parallelism=draw(st.integers(0, 5)),
        )
    events = draw(
        st.lists(st.builds(event, st.sampled_from(["FailedCreate", "Completed"]), _MESSAGE))
    )
    for number, manifest in enumerate(events):
        manifest["metadata"]["name"] = f"event-{number}"
    return observe(controller, pods=draw(_pods(kind)), events=events)


@settings(max_examples=40)
@given(_runs())
def test_counts_add_up(observation: Observation) -> None:
    """Each place is in one phase, and the list of pods says the same as the counts."""
    status = reduce(observation)
    (role,) = status.roles
    assert role.expected == role.pending + role.running + role.succeeded + role.failed
    assert min(role.pending, role.running, role.succeeded, role.failed) >= 0
    assert role.ready <= role.running
    phases = [pod.phase for pod in status.pods]
    assert role.expected == len(phases)
    assert (role.pending, role.running, role.succeeded, role.failed) == tuple(
        phases.count(phase)
        for phase in (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
    )
    assert sum(pod.restarts for pod in status.pods) == status.restarts
    assert sum(pod.disruptions for pod in status.pods) == status.disruptions <= status.restarts
    assert [pod.rank for pod in status.pods] == list(range(role.expected))


@settings(max_examples=40)
@given(_runs())
def test_an_end_has_a_code_and_waits_for_nothing(observation: Observation) -> None:
    """What has ended has an exit code, and what goes on has none."""
    status = reduce(observation)
    assert status.finished is (status.exit_code is not None)
    assert (status.exit_code == 0) is (status.phase is Phase.SUCCEEDED)
    if status.finished:
        assert status.waiting_for == ""
    failed = first_failed(observation)
    if failed is not None:
        assert status.failure is not None
        assert failed[0] == status.failure.pod


@settings(max_examples=40)
@given(_runs(), st.randoms(use_true_random=False))
def test_the_order_of_what_was_seen_is_of_no_account(observation: Observation, random: Any) -> None:
    """Lists come in any order; the status is the same, and the objects are left as they were."""
    before = json.dumps(observation.pods)
    pods, events = list(observation.pods), list(observation.events)
    random.shuffle(pods)
    random.shuffle(events)
    mixed = Observation(
        observation.release,
        observation.namespace,
        observation.objects,
        tuple(pods),
        tuple(events),
        observation.now,
    )
    assert reduce(observation) == reduce(mixed)
    assert before == json.dumps(observation.pods)


@settings(max_examples=40)
@given(_runs())
def test_the_json_form_reads_back(observation: Observation) -> None:
    """What is written for a program is read back to the same status."""
    status = reduce(observation)
    assert status == RunStatus.from_dict(json.loads(json.dumps(status.as_dict())))


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**12) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def _damaged(value: Any, draw: st.DrawFn, chance: int) -> Any:
    """A copy of which some fields are missing, and some are something else."""
    if draw(st.integers(0, chance)) == 0:
        return draw(_JUNK)
    if isinstance(value, dict):
        fields = {key: item for key, item in value.items() if draw(st.integers(0, chance))}
        return {key: _damaged(item, draw, chance) for key, item in fields.items()}
    if isinstance(value, list):
        return [_damaged(item, draw, chance) for item in value]
    return value


@st.composite
def _broken(draw: st.DrawFn) -> Observation:
    observation = draw(_runs())
    chance = draw(st.integers(5, 40))

    def damaged(objects: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        damaged_objects = (_damaged(manifest, draw, chance) for manifest in objects)
        return tuple(manifest for manifest in damaged_objects if isinstance(manifest, dict))

    return Observation(
        observation.release,
        observation.namespace,
        damaged(observation.objects),
        damaged(observation.pods),
        damaged(observation.events),
        observation.now,
    )


@settings(max_examples=100)
@given(_broken())
def test_nothing_fails_on_what_is_missing_or_wrong(observation: Observation) -> None:
    """Whatever field is not there, or is of another type, there is a status, and it adds up."""
    status = reduce(observation)
    first_failed(observation)
    json.dumps(status.as_dict())
    for role in status.roles:
        assert role.expected == role.pending + role.running + role.succeeded + role.failed
        assert min(role.pending, role.running, role.succeeded, role.failed) >= 0

"""The target of a job, and how little room it takes in the job's status."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.elastic.members import FAILED, GONE, SUCCEEDED, Member, MemberGroup
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.target import DesiredState, JobEnd, MasterState, PlanNotes
from allranks.k8s import ranges

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
_NODES = st.sampled_from(["", "node-a", "node-b"])
_RESOURCES = st.one_of(
    st.none(),
    st.builds(
        ResourceAmounts,
        cpu_millis=st.one_of(st.none(), st.integers(1, 10**6)),
        memory_bytes=st.just(2**30),
        gpus=st.none(),
    ),
    st.builds(ResourceAmounts, gpus=st.integers(1, 16), gpu_key=st.just("nvidia.com/gpu")),
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _WORDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_WORDS, inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def _groups(draw: st.DrawFn, kind: str) -> MemberGroup:
    ids = draw(st.lists(st.integers(0, 60), unique=True, max_size=12).map(sorted))
    members = tuple(
        Member(
            id=ident,
            rank=draw(st.one_of(st.just(ident), st.integers(0, 20))),
            relaunches=draw(st.integers(0, 3)),
            resource=draw(_RESOURCES),
            service=draw(st.sampled_from(["", "elsewhere:1", "there:2"])),
            avoid=tuple(node for node in [draw(_NODES)] if node),
            observed=draw(st.booleans()),
            ended=draw(st.sampled_from(["", SUCCEEDED, FAILED, GONE])),
            leaving=draw(st.booleans()),
            renew=draw(st.booleans()),
        )
        for ident in ids
    )
    return MemberGroup(
        type=kind,
        replicas=draw(st.integers(0, 100)),
        members=members,
        next_id=max(ids, default=-1) + 1 + draw(st.integers(0, 3)),
        resource=draw(_RESOURCES),
        failures=draw(st.integers(0, 3)),
        disruptions=draw(st.integers(0, 3)),
        plan=(plan := draw(st.sampled_from(["", "j-plan-3"]))),
        planned_at=draw(st.integers(0, 2**40)) if plan else 0,
    )


@st.composite
def _targets(draw: st.DrawFn) -> DesiredState:
    kinds = draw(st.lists(st.sampled_from(["ps", "worker", "chief"]), unique=True))
    uids = draw(st.lists(st.uuids().map(str), max_size=3, unique=True))
    return DesiredState(
        groups={kind: draw(_groups(kind)) for kind in kinds},
        ps_hosts=tuple(draw(st.lists(_WORDS, max_size=2))),
        plan=draw(_WORDS),
        applied=tuple(uids),
        notes={uid: PlanNotes(("clamped",), (draw(_WORDS),)) for uid in uids[:1]},
        master=MasterState(draw(st.integers(0, 9)), draw(st.integers(0, 9)), draw(st.booleans())),
        end=draw(
            st.one_of(
                st.none(),
                st.builds(
                    JobEnd,
                    phase=st.sampled_from([SUCCEEDED, FAILED]),
                    reason=_WORDS,
                    message=_WORDS,
                    at=st.integers(0, 2**40),
                ),
            )
        ),
    )


@settings(max_examples=150)
@given(_targets())
def test_a_target_is_read_back_as_it_was_written(target: DesiredState) -> None:
    """Through JSON, as etcd keeps it, a target loses nothing."""
    assert target == DesiredState.read(json.loads(json.dumps(target.as_status())))


@settings(max_examples=150)
@given(_JSON)
def test_any_json_is_read_as_a_target(garbage: object) -> None:
    """A status that was edited by hand gives a target, and never an error."""
    target = DesiredState.read(garbage)
    assert target == DesiredState.read(json.loads(json.dumps(target.as_status())))


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["members", "seen", "next", "relaunches"]), _JSON))
def test_a_group_of_garbage_never_gives_an_id_twice(garbage: dict[str, object]) -> None:
    """Whatever stands in a group, the next id is none that is in use."""
    group = DesiredState.read({"groups": {"worker": garbage}}).groups["worker"]
    assert all(member.id < group.next_id for member in group.members)


def test_an_empty_target_is_an_empty_object() -> None:
    """A job that nobody has planned yet has nothing in its status."""
    assert {} == DesiredState().as_status()


def test_a_thousand_workers_take_less_than_two_kilobytes() -> None:
    """Also when some of them were replaced, moved off a node, or are done."""
    members = [Member(ident, ident, observed=True) for ident in range(1000)]
    for rank in range(0, 300, 10):
        members[rank] = Member(1000 + rank, rank, relaunches=1, avoid=("node-a",), observed=True)
    members.sort(key=lambda member: member.id)
    group = MemberGroup("worker", 1000, tuple(members), 1300, ResourceAmounts(cpu_millis=8000))
    form = json.dumps(DesiredState(groups={"worker": group}).as_status(), separators=(",", ":"))
    assert 2048 > len(form)


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([], ""),
        ([(0, 0)], "0"),
        ([(0, 0), (1, 1), (2, 2)], "0-2"),
        ([(4, 1)], "4:1"),
        ([(4, 1), (5, 2), (6, 3)], "4-6:1"),
        ([(0, 0), (2, 2), (3, 3), (9, 1)], "0,2-3,9:1"),
    ],
)
def test_ids_with_ranks_are_ranges(pairs: list[tuple[int, int]], text: str) -> None:
    """Neighbours are one range, and a rank is written where it is not the id."""
    assert text == ranges.write_pairs(pairs)
    assert pairs == ranges.read_pairs(text)


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "5-3", "1.5", "٣", "1e3", None, 7, ["1"]])
def test_what_is_no_range_is_left_out(text: object) -> None:
    """Nothing is read of what nobody could have written."""
    assert [] == list(ranges.Indexes.parse(text))


def test_a_range_asks_for_no_more_memory_than_a_job_has_members() -> None:
    """A range that would fill the memory is cut at the most members that a group may have."""
    assert ranges.LIMIT == len(ranges.read_pairs("0-9999999999"))

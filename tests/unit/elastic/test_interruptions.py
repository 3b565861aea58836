"""Plans, failures and killed operators in any order: what is left is what the last plans asked."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.elastic.members import SUCCEEDED
from tests.unit.elastic.simcluster import MASTER, NAME, ConflictError, SimCluster, job, template

_KINDS = st.sampled_from(["worker", "ps", "chief"])
_PICK = st.integers(0, 30)
_STEPS = st.one_of(
    st.tuples(st.just("plan"), _KINDS, st.integers(0, 6)),
    st.tuples(st.just("two plans"), _KINDS, st.integers(0, 6)),
    st.tuples(st.just("person"), _KINDS, st.integers(0, 6)),
    st.tuples(st.just("suspend"), _KINDS, _PICK),
    st.tuples(st.just("replace"), _KINDS, _PICK),
    st.tuples(st.just("remove"), _KINDS, _PICK),
    st.tuples(st.just("migrate"), _KINDS, _PICK),
    st.tuples(st.just("empty"), _KINDS, _PICK),
    st.tuples(st.just("fail"), _KINDS, _PICK),
    st.tuples(st.just("succeed"), _KINDS, _PICK),
    st.tuples(st.just("vanish"), _KINDS, _PICK),
    st.tuples(st.just("kubelet"), _KINDS, _PICK),
    st.tuples(st.just("wait"), _KINDS, st.integers(1, 40)),
    st.tuples(st.just("scale"), st.just("worker"), st.integers(0, 6)),
    # An operator that is killed after so many actions, and one that is killed before it wrote.
    st.tuples(st.just("look"), _KINDS, st.integers(0, 5)),
    st.tuples(st.just("look"), _KINDS, st.integers(0, 5)),
    st.tuples(st.just("no commit"), _KINDS, _PICK),
    st.tuples(st.just("conflict"), _KINDS, _PICK),
)
_HISTORIES = st.lists(_STEPS, min_size=3, max_size=24)
_ORDERS = st.lists(st.integers(0, 50), max_size=7)
_MODES = st.sampled_from(["own", "given", "external"])
# A pod that is somebody else's, and is called like a worker of the job.
_FOREIGN_POD = f"{NAME}-edljob-worker-2"


class _World:
    """A cluster, and the number that was last asked of each type."""

    def __init__(self, mode: str) -> None:
        specs: dict[str, Any] = {kind: {"restartCount": 99} for kind in ("worker", "ps", "chief")}
        if mode == "given":
            specs[MASTER] = {"template": template("dlrover:1")}
        self.cluster = SimCluster(job(specs, master=mode, annotations={names.RELAUNCH: "watcher"}))
        self.cluster.foreign_pod(_FOREIGN_POD, **{names.EDL_NAME: NAME})
        self.cluster.foreign_pod("somebody", **{names.APP_PART_OF: names.PART_OF})
        self.requests: dict[str, int] = {}
        self.suspended = False
        self._plans = 0
        self.cluster.look()  # the counts of the spec that are there at first are no edit

    def step(self, action: str, kind: str, number: int, order: list[int]) -> None:
        """One thing that happens."""
        cluster = self.cluster
        match action:
            case "plan" | "two plans" | "person":
                self._plan(action, kind, number)
            case "suspend":
                self.suspended = True
                cluster.edit(suspend=not cluster.job["spec"].get("suspend", False))
            case "scale":
                self._scale(kind, number)
            case "replace" | "remove" | "migrate":
                self._verbatim(action, kind, number)
            case "empty":
                cluster.plan(self._name())
            case "fail" | "succeed" | "vanish":
                self._pod(action, kind, number)
            case "kubelet":
                cluster.kubelet()
            case "wait":
                cluster.wait(number)
            case "look":
                cluster.look(acts=number, order=order)
            case "no commit":
                cluster.look(commits=False)
            case "conflict":
                self._conflict()

    def _number(self) -> int:
        self._plans += 1
        return self._plans

    def _name(self) -> str:
        return f"{NAME}-plan-{self._number()}"

    def _plan(self, action: str, kind: str, number: int) -> None:
        if action == "two plans":
            self.cluster.plan(self._name(), **{kind: number + 2})
        name, scale = self._name(), "auto"
        if action == "person":
            name, scale = f"{NAME}-manual-{self._number()}", "manual"
        self.cluster.plan(name, scale=scale, **{kind: number})
        self.requests[kind] = number
        self.cluster.wait(1)

    def _scale(self, kind: str, number: int) -> None:
        """Edit the count in the spec; it is a plan once an operator has seen it."""
        before = self.cluster.job["metadata"]["generation"]
        self.cluster.scale(kind, number)
        self.cluster.look()
        self.cluster.look()
        if before != self.cluster.job["metadata"]["generation"]:
            self.requests[kind] = number

    def _verbatim(self, action: str, kind: str, number: int) -> None:
        """A plan that names a pod of the target, as a master would that knows the target."""
        self.cluster.look()
        self.cluster.look()  # a name that was taken is left to its owner only now
        group = self.cluster.target.groups.get(kind)
        if group is None:
            return
        # A suspended job makes no pods, and meets the name that was taken only when it goes on.
        # Until then that name is its owner's: a plan that names it is refused.
        members = [
            member
            for member in group.current
            if f"{NAME}-edljob-{kind}-{member.id}" != _FOREIGN_POD
            # One that has done its work moves nowhere: such a plan is refused.
            and not (action == "migrate" and member.ended)
        ]
        if not members:
            return
        member = members[number % len(members)]
        meta = {"name": f"{NAME}-edljob-{kind}-{member.id}", "type": kind, "id": member.id}
        if action == "replace":
            new = {"type": kind, "id": group.next_id, "rankIndex": member.rank}
            self.cluster.plan(self._name(), spec={"createPods": [new]})
        elif action == "remove":
            self.cluster.plan(self._name(), spec={"removePods": [meta]})
            self.requests[kind] = group.replicas - 1
        else:
            resource = {"cpu": str(number + 1)}
            self.cluster.plan(self._name(), spec={"migratePods": [{**meta, "resource": resource}]})
        self.cluster.look(acts=0)

    def _pod(self, action: str, kind: str, number: int) -> None:
        pods = self.cluster.pod_names(kind)
        # A pod that has ended before an operator has seen it run is no business of this test.
        pods = [pod for pod in pods if self.cluster.phase(pod) == "Running"]
        if not pods:
            return
        self.cluster.look(acts=0)
        name = pods[number % len(pods)]
        if action == "vanish":
            self.cluster.delete(name, at_once=number % 2 == 0)
        else:
            self.cluster.finish(name, code=137 if action == "fail" else 0)

    def _conflict(self) -> None:
        """Somebody else writes the job between an operator's look and its write."""
        decision = self.cluster.look(commits=False)
        self.cluster.annotate("touched", str(self.cluster.now))
        if decision.commit is not None:
            with contextlib.suppress(ConflictError):
                self.cluster.carry_out(decision.commit)
                raise AssertionError("a stale write was taken")


@settings(max_examples=120)
@given(mode=_MODES, history=_HISTORIES, order=_ORDERS)
@example(
    mode="own",
    history=[("plan", "worker", 3), ("suspend", "worker", 0), ("remove", "worker", 20)],
    order=[],
)
@example(
    mode="own",
    history=[
        ("scale", "worker", 1),
        *((step, "worker", 0) for step in ("kubelet", "succeed", "migrate")),
    ],
    order=[],
)
def test_the_pods_are_what_the_last_plans_asked(
    mode: str, history: list[tuple[str, str, int]], order: list[int]
) -> None:
    """However often the operator dies, in whatever order it acts, and whatever befalls the pods."""
    world = _World(mode)
    for action, kind, number in history:
        world.step(action, kind, number, order)
    cluster = world.cluster
    cluster.edit(suspend=False)
    cluster.settle()
    target = cluster.target
    for kind, count in world.requests.items():
        # Of parameter servers one stays, and so does the chief, unless it was removed by its name.
        allowed = {count, max(count, 1)} if kind in ("ps", "chief") else {count}
        assert target.groups[kind].replicas in allowed, kind
    for kind, group in target.groups.items():
        members = [member for member in group.members if not member.ended]
        running_names = [
            ident
            for name, ident in zip(cluster.pod_names(kind), cluster.ids(kind), strict=True)
            if cluster.phase(name) == "Running"
        ]
        assert [member.id for member in members] == running_names
        assert len({member.rank for member in group.members}) == len(group.members)
        assert all(member.ended in ("", SUCCEEDED) for member in group.members)
    if not world.suspended:  # a pod that was not seen before it went comes back under its name
        assert {} == {name: times for name, times in cluster.created.items() if times > 1}
    assert {_FOREIGN_POD, "somebody"}.isdisjoint(cluster.deletions)
    assert all(phase in ("Succeeded", "Superseded") for phase in cluster.plan_phases().values())
    assert () == target.applied


@settings(max_examples=40)
@given(mode=_MODES, history=_HISTORIES)
def test_a_settled_job_is_left_alone(mode: str, history: list[tuple[str, str, int]]) -> None:
    """Where nothing has changed nothing is done, at once and much later."""
    world = _World(mode)
    for action, kind, number in history:
        world.step(action, kind, number, [])
    world.cluster.settle()
    for _ in range(4):  # plans of a master are pruned half a minute later
        world.cluster.wait(3600)
        world.cluster.settle()
    decision = world.cluster.look()
    assert decision.commit is None
    assert () == decision.then
    assert decision.requeue_after is None

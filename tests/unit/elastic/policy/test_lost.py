"""Workers that are lost though their pods run."""

from __future__ import annotations

from dataclasses import replace

from allranks.elastic.policy import state as states
from allranks.elastic.policy.observation import JobObservation, PolicyDecision, Worker
from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.policy.step import step

WHY = "said nothing for 45 s (lostSeconds)"
OBSERVATION = JobObservation(
    tuple(Worker(f"demo-edljob-worker-{number}") for number in range(3)),
    target=3,
    lost={"demo-edljob-worker-1": WHY},
    replicas={"worker": 3},
)


def policy_state(*, fixed: str = "") -> states.PolicyState:
    """A job of three workers."""
    return states.begin(PolicySettings(), desired=3, minimum=3, maximum=3, now=0.0, fixed=fixed)


def decided(
    state: states.PolicyState, observation: JobObservation, now: float
) -> tuple[states.PolicyState, list[PolicyDecision]]:
    """One look."""
    state, decisions = step(state, observation, now)
    return state, [decision for decision in decisions if decision.reason == "WorkerLost"]


def test_a_lost_worker_is_replaced_once_and_the_number_stays() -> None:
    """Whoever has set the number, and without a wait: the job stands still."""
    state, (decision,) = decided(policy_state(fixed="it was set by hand"), OBSERVATION, 1.0)
    assert ({"worker": 3}, ("demo-edljob-worker-1",), True) == (
        decision.replicas,
        decision.remove,
        decision.warning,
    )
    assert (
        f"demo-edljob-worker-1 {WHY}: though it runs, 1 new pod takes its place" == decision.message
    )
    for second in range(2, 60):
        state, again = decided(state, OBSERVATION, float(second))
        assert [] == again


def test_it_is_asked_for_again_where_nothing_came_of_it() -> None:
    """Another's plan was newer, and ours was not taken."""
    state, _ = decided(policy_state(), OBSERVATION, 1.0)
    state, again = decided(state, OBSERVATION, 61.0)
    assert 1 == len(again)
    state, _ = decided(state, replace(OBSERVATION, lost={}), 62.0)
    assert {} == state.replaced


def test_many_are_one_plan() -> None:
    """A switch is gone; the servers and the chief are replaced as the workers are."""
    pods = [f"demo-edljob-worker-{number}" for number in range(4)] + ["demo-edljob-chief-0"]
    observation = replace(
        OBSERVATION, lost=dict.fromkeys(pods, WHY), replicas={"worker": 3, "chief": 1, "ps": 2}
    )
    _, (decision,) = decided(policy_state(), observation, 1.0)
    assert ({"worker": 3, "chief": 1}, tuple(sorted(pods))) == (decision.replicas, decision.remove)
    assert decision.message.endswith("; and 2 more: though they run, 5 new pods take their place")


def test_a_plan_that_is_under_way_is_waited_for_and_an_end_is_an_end() -> None:
    """What a plan sets is not undone by a number from before it."""
    assert [] == decided(policy_state(), replace(OBSERVATION, settled=False), 1.0)[1]
    assert [] == decided(policy_state(), replace(OBSERVATION, ending=True), 1.0)[1]

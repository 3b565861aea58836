"""Whether a pod that failed is made again, and how: one table per kind of end."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.elastic import pod_replacement
from allranks.elastic.api.job import ReplicaSpec
from allranks.elastic.members import Member
from allranks.elastic.pod_replacement import RelaunchVerdict
from allranks.elastic.resources import ResourceAmounts
from tests.unit.elastic.podsamples import pod, stamp, template

MIB = 1024**2
CORE = "exit code 134 (it aborted (SIGABRT))"
KILLED = "exit code 137 (it was killed (SIGKILL), most likely because memory ran out)"
STOPPED = "exit code 143 (it was told to stop (SIGTERM))"


def spec(**fields: Any) -> ReplicaSpec:
    """What a job says of its workers."""
    return ReplicaSpec("worker", template=template(), **fields)


def failed(code: int, **fields: Any) -> dict[str, Any]:
    """A worker that failed by itself."""
    return pod("jar-edljob-worker-0", "Failed", code=code, **fields)


@pytest.mark.parametrize(
    ("code", "policy", "verdict"),
    [
        (1, "", RelaunchVerdict("again", "exit code 1")),
        (1, "OnFailure", RelaunchVerdict("again", "exit code 1")),
        (1, "Always", RelaunchVerdict("again", "exit code 1")),
        (1, "Never", RelaunchVerdict("again", "exit code 1")),
        (
            1,
            "ExitCode",
            RelaunchVerdict("fatal", "exit code 1, which is final with restartPolicy ExitCode"),
        ),
        (
            127,
            "ExitCode",
            RelaunchVerdict(
                "fatal",
                "exit code 127 (the command was not found), which is final with restartPolicy "
                "ExitCode",
            ),
        ),
        (134, "", RelaunchVerdict("again", CORE)),
        (137, "ExitCode", RelaunchVerdict("again", KILLED)),
        (143, "", RelaunchVerdict("again", STOPPED)),
        (128, "ExitCode", RelaunchVerdict("again", "exit code 128")),
    ],
)
def test_an_exit_code_says_what_follows(code: int, policy: str, verdict: RelaunchVerdict) -> None:
    """Signals are tried again with each policy; an error of the program's own is with most."""
    assert verdict == pod_replacement.judge(failed(code), spec(restart_policy=policy), Member(0, 0))


def test_a_workspace_that_cannot_be_unpacked_is_final() -> None:
    """No other pod could unpack it; a program of the user's may end with the same code."""
    broken = failed(names.EXIT_WORKSPACE)
    assert pod_replacement.judge(broken, spec(), Member(0, 0)) == RelaunchVerdict(
        "again", "exit code 217"
    )
    broken["metadata"].setdefault("annotations", {})[names.WORKSPACE_DIGEST] = "sha256:x"
    verdict = RelaunchVerdict("fatal", "exit code 217: its workspace cannot be unpacked")
    assert pod_replacement.judge(broken, spec(), Member(0, 0)) == verdict


@pytest.mark.parametrize("code", [201, 202, 14])
@pytest.mark.parametrize("policy", ["", "ExitCode"])
def test_broken_hardware_is_kept_off(code: int, policy: str) -> None:
    """The next pod must not run on that node; the code is the agent's, not the program's."""
    verdict = pod_replacement.judge(failed(code), spec(restart_policy=policy), Member(0, 0))
    reason = f"exit code {code} tells of broken hardware on node-1"
    assert RelaunchVerdict("again", reason, avoid_node="node-1") == verdict


def test_a_job_that_fails_on_many_nodes_is_not_their_fault() -> None:
    """A pod must be able to run somewhere."""
    nodes = tuple(f"n{index}" for index in range(8))
    verdict = pod_replacement.judge(failed(201), spec(), Member(0, 0, avoid=nodes))
    assert ("again", "") == (verdict.outcome, verdict.avoid_node)


@pytest.mark.parametrize(
    ("end", "policy"),
    [
        ({"code": 137, "reason": "OOMKilled"}, ""),
        ({"code": 1, "reason": "OOMKilled"}, "ExitCode"),
        ({"code": 247}, ""),
    ],
)
def test_a_pod_that_ran_out_of_memory_gets_more(end: dict[str, Any], policy: str) -> None:
    """Half as much again of what it had, in whole MiB."""
    verdict = pod_replacement.judge(failed(**end), spec(restart_policy=policy), Member(0, 0))
    # The pod as it is kept says no amounts; the template says 32Mi, a pod without any has 128Mi.
    assert ResourceAmounts(memory_bytes=192 * MIB) == verdict.resource
    assert ("again", "it ran out of memory; it gets 192Mi") == (verdict.outcome, verdict.reason)


@pytest.mark.parametrize(
    ("amounts", "own", "expected"),
    [
        ({"requests": {"memory": "1Gi"}}, None, 1536),
        ({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}, None, 3072),
        ({"limits": {"memory": "333Mi"}}, None, 500),
        ({"requests": {"memory": "1Gi"}}, ResourceAmounts(2000, 4096 * MIB), 6144),
    ],
)
def test_more_memory_is_more_than_the_limit(
    amounts: dict[str, Any], own: ResourceAmounts | None, expected: int
) -> None:
    """What killed it was its limit, or what a plan had given it; other amounts stay."""
    containers = [{"name": "main", "resources": amounts}]
    verdict = pod_replacement.judge(
        failed(137, reason="OOMKilled", containers=containers),
        spec(),
        Member(0, 0, resource=own),
    )
    assert verdict.resource is not None
    assert expected * MIB == verdict.resource.memory_bytes
    assert (own.cpu_millis if own else None) == verdict.resource.cpu_millis


def test_a_member_that_ran_out_of_memory_twice_gets_more_each_time() -> None:
    """The second time begins with what the first one gave."""
    member = Member(0, 0)
    for expected in (192, 288, 432):
        verdict = pod_replacement.judge(failed(247), spec(), member)
        assert verdict.resource is not None
        assert expected * MIB == verdict.resource.memory_bytes
        member = Member(0, 0, resource=verdict.resource)


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("failed_pod", "reason"),
    [
        (failed(137, status={"conditions": [DISRUPTED]}), "PreemptionByScheduler"),
        (pod("p", "Failed", status={"reason": "NodeLost"}), "NodeLost"),
        (
            pod(
                "p",
                "Running",
                metadata={
                    "deletionTimestamp": stamp(60),
                    "deletionGracePeriodSeconds": 30,
                },
            ),
            "Deleted",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["", "ExitCode", "Never"])
def test_what_was_taken_away_failed_at_nothing(
    failed_pod: dict[str, Any], reason: str, policy: str
) -> None:
    """It comes back whatever the policy, however often, and at no cost."""
    verdict = pod_replacement.judge(
        failed_pod, spec(restart_policy=policy, restart_count=0), Member(0, 0, 9)
    )
    assert RelaunchVerdict("again", f"it was no failure ({reason})", counts=False) == verdict


@pytest.mark.parametrize(
    ("tries", "before", "kind"),
    [(3, 0, "again"), (3, 2, "again"), (3, 3, "give up"), (0, 0, "give up"), (1, 5, "give up")],
)
@pytest.mark.parametrize("code", [1, 137, 201, 247])
def test_tries_are_counted(code: int, tries: int, before: int, kind: str) -> None:
    """Whatever the code: `restartCount` bounds how often a rank is filled again."""
    verdict = pod_replacement.judge(failed(code), spec(restart_count=tries), Member(0, 0, before))
    assert kind == verdict.outcome
    if kind == "give up":
        assert f"and no try is left (restartCount {tries})" in verdict.reason


@pytest.mark.parametrize(
    "manifest", [pod("p"), pod("p", "Pending"), pod("p", "Succeeded", code=0), {}, {"status": 3}]
)
def test_what_has_not_failed_is_left(manifest: dict[str, Any]) -> None:
    """A pod that ended well has done its work, also with `Always`."""
    assert (
        "none"
        == pod_replacement.judge(manifest, spec(restart_policy="Always"), Member(0, 0)).outcome
    )


@pytest.mark.parametrize("policy", ["", "ExitCode"])
def test_a_pod_that_its_node_refused_is_tried_again(policy: str) -> None:
    """No program of it ran, so none can have failed for good."""
    status = {"reason": "UnexpectedAdmissionError", "containerStatuses": []}
    verdict = pod_replacement.judge(
        pod("p", "Failed", status=status), spec(restart_policy=policy), Member(0, 0)
    )
    assert RelaunchVerdict("again", "it was refused (UnexpectedAdmissionError)") == verdict


def test_of_several_containers_the_first_that_failed_is_judged() -> None:
    """Unless one of them ran out of memory: that is what the others died of."""

    def container_end(name: str, code: int, at: float, reason: str = "Error") -> dict[str, Any]:
        state = {"exitCode": code, "reason": reason, "finishedAt": stamp(at)}
        return {"name": name, "state": {"terminated": state}}

    first = [container_end("main", 143, 9), container_end("log", 201, 5)]
    failed_pod = pod("p", "Failed", status={"containerStatuses": first})
    assert "node-1" == pod_replacement.judge(failed_pod, spec(), Member(0, 0)).avoid_node
    failed_pod = pod(
        "p",
        "Failed",
        status={"containerStatuses": [*first, container_end("x", 137, 9, "OOMKilled")]},
    )
    assert pod_replacement.judge(failed_pod, spec(), Member(0, 0)).resource is not None


def test_a_spec_without_a_template_is_judged_too() -> None:
    """A chief carved out of the workers has none."""
    verdict = pod_replacement.judge(failed(247), ReplicaSpec("chief"), Member(0, 0))
    assert verdict.resource is not None

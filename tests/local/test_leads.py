"""Runs whose end is that of some of their controllers, with real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.model.status import Phase, PodPhase

from .conftest import claim_volume, container, job

if TYPE_CHECKING:
    from .conftest import Machine, Outcome

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_FOR_EVER = "while :; do sleep 0.01; done"
_SOON = "sleep 0.5"  # what ends by itself is not waited for


def led(manifest: dict[str, Any], role: str) -> dict[str, Any]:
    """The Job of a role that leads."""
    return following(manifest, role, annotations={names.LEAD: "true"})


def following(manifest: dict[str, Any], role: str, **metadata: Any) -> dict[str, Any]:
    """The Job of a role that ends with others."""
    manifest["metadata"] |= metadata
    manifest["spec"]["template"]["metadata"] = {"labels": {names.ROLE: role}}
    return manifest


def phases(outcome: Outcome) -> dict[str, PodPhase]:
    """The last phase of each pod."""
    return {pod.name: pod.phase for pod in outcome.status.pods}


def test_the_leads_end_is_the_runs(machine: Machine) -> None:
    """A server that never ends by itself is ended when the lead is done, and that is a good end."""
    server = following(job("run-ps", container(_FOR_EVER)), "ps")
    outcome = machine.run(server, led(job("run-chief", container("echo done")), "chief"))
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    assert {"run-ps-0": PodPhase.SUCCEEDED, "run-chief-0": PodPhase.SUCCEEDED} == phases(outcome)


def test_a_follower_that_breaks_off_behind_the_lead_spoils_nothing(machine: Machine) -> None:
    """What fails because the lead has left it is neither tried again nor the run's failure."""
    volume, mount = claim_volume()
    pod = {"volumes": [volume]}
    server = job("run-ps", container("cat /notes/door; exit 5", volumeMounts=[mount]), pod=pod)
    script = "mkfifo /notes/door; exec 3>/notes/door; echo led"
    lead = job("run-chief", container(f"{script}; sleep 0.1", volumeMounts=[mount]), pod=pod)
    waiting = {"name": "wait", "volumeMounts": [mount]}
    waiting["command"] = ["/bin/sh", "-c", "until test -p /notes/door; do sleep 0.01; done"]
    server["spec"]["template"]["spec"]["initContainers"] = [waiting]
    outcome = machine.run(following(server, "ps"), led(lead, "chief"))
    assert (Phase.SUCCEEDED, 0, 0) == (
        outcome.status.phase,
        outcome.status.exit_code,
        outcome.status.restarts,
    )
    assert outcome.status.failure is None


def test_a_lead_that_fails_fails_the_run(machine: Machine) -> None:
    """The run ends with the lead's exit code, whatever the others do."""
    server = following(job("run-ps", container(_SOON)), "ps")
    outcome = machine.run(server, led(job("run-worker", container("exit 9")), "worker"))
    assert (Phase.FAILED, 9) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.failure is not None
    assert "run-worker-0" == outcome.status.failure.pod


def test_all_leads_are_waited_for(machine: Machine) -> None:
    """With two leads the run goes on until both are done."""
    volume, mount = claim_volume()
    pod = {"volumes": [volume]}
    first = job("run-a", container("echo first > /notes/first", volumeMounts=[mount]), pod=pod)
    script = "until test -s /notes/first; do sleep 0.01; done; sleep 0.2; echo second"
    second = job("run-b", container(script, volumeMounts=[mount]), pod=pod)
    outcome = machine.run(led(first, "chief"), led(second, "worker"))
    assert ["second"] == outcome.texts
    assert Phase.SUCCEEDED is outcome.status.phase


def test_a_success_policy_ends_the_other_ranks_of_a_lead(machine: Machine) -> None:
    """When the rank that counts is done, the lead's other ranks end with the followers."""
    script = f"test $JOB_COMPLETION_INDEX = 0 && exit 0; {_FOR_EVER}"
    rules = {"rules": [{"succeededIndexes": "0"}]}
    workers = led(job("run-worker", container(script), nodes=2, successPolicy=rules), "worker")
    server = following(job("run-ps", container(_SOON)), "ps")
    outcome = machine.run(workers, server)
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    assert {PodPhase.SUCCEEDED} == set(phases(outcome).values())


def test_whoever_failed_first_is_told_though_the_leads_end_too(machine: Machine) -> None:
    """When a follower has failed for good, the leads are told, and end; its code is the run's."""
    volume, mount = claim_volume()
    pod = {"volumes": [volume]}
    script = "touch /notes/lost; echo no room; exit 5"
    server = job("run-ps", container(script, volumeMounts=[mount]), pod=pod)
    script = "until test -f /notes/lost; do sleep 0.01; done; sleep 6; exit 9"
    lead = job("run-worker", container(script, volumeMounts=[mount]), pod=pod)
    outcome = machine.run(following(server, "ps"), led(lead, "worker"))
    assert (Phase.FAILED, 5) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.failure is not None
    assert ("run-ps-0", ("no room",)) == (outcome.status.failure.pod, outcome.status.failure.log)

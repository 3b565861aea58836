"""Whether the kubelet starts a container again: its policy, its rules, how it ended."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.k8s.restarts import backs_off

RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}


def status(code: int | None, restarts: int = 1, name: str = "trainer") -> dict[str, Any]:
    """The status of a container that has ended, or that runs."""
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    return {"name": name, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Never", 1, False),
        ("Always", None, False),
        (None, 1, False),
    ],
)
def test_the_policy_of_the_pod_decides(
    policy: str | None, code: int | None, *, expected: bool
) -> None:
    """Once it was started again before: the first restart comes without a back-off."""
    spec = {"restartPolicy": policy, "containers": [{"name": "other"}, {"name": "trainer"}]}
    assert expected is backs_off(spec, status(code))
    assert not backs_off(spec, status(code, restarts=0))


@pytest.mark.parametrize(
    ("container", "code", "expected"),
    [
        ({"restartPolicyRules": [RULE]}, 42, True),
        ({"restartPolicyRules": [RULE]}, 1, False),
        ({"restartPolicyRules": [RULE], "restartPolicy": "OnFailure"}, 1, True),
        ({"restartPolicyRules": [ALL]}, 1, True),
        ({"restartPolicyRules": [ALL]}, 0, False),
        ({"restartPolicy": "Always"}, 0, True),
    ],
)
def test_what_the_container_says_goes_before_it(
    container: dict[str, Any], code: int, *, expected: bool
) -> None:
    """Its rules first, then its own policy, then the pod's."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "trainer", **container}]}
    assert expected is backs_off(spec, status(code))


def test_an_init_container_is_done_once_it_ended_well() -> None:
    """Where the pod's policy is Always; a sidecar is started again all the same."""
    init = [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]
    spec = {"restartPolicy": "Always", "initContainers": init, "containers": [{"name": "trainer"}]}
    assert not backs_off(spec, status(0, name="fetch"))
    assert backs_off(spec, status(1, name="fetch"))
    assert backs_off(spec, status(0, name="proxy"))

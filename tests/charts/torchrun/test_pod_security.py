"""The pods meet the Pod Security Standard "restricted"."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.shared.pod_security import violations

# ci files that ask for less on purpose, and for what.
_ON_PURPOSE = {
    "full": {"hostNetwork", "hostIPC", "hostPort", "runAsNonRoot", "seccomp", "capabilities"}
    | {"escalation"},
    "hostnetwork": {"hostNetwork"},
    "unrestricted": {"runAsNonRoot", "seccomp", "capabilities", "escalation"},
    "pod-template": {"volumes", "capabilities", "escalation"},
}


def test_pods_are_restricted(ci_file: Any, ci: dict[str, Any], pod: Any) -> None:
    """Every ci file renders a restricted pod, but for what it asks on purpose."""
    allowed = _ON_PURPOSE.get(ci_file.stem.removesuffix("-values"), set())
    assert violations(pod(ci)["spec"]) <= allowed


def test_no_token_is_mounted_unless_asked(render: Any, pod: Any) -> None:
    """A trainer does not speak to the API server, so it gets no way to."""
    assert pod(render())["spec"]["automountServiceAccountToken"] is False
    manifests = render(serviceAccount={"automountToken": True})
    assert pod(manifests)["spec"]["automountServiceAccountToken"] is True


def test_user_settings_go_over_the_restricted_ones(render: Any, pod: Any) -> None:
    """A user and a group are added; what was restricted stays."""
    spec = pod(
        render(
            security={
                "podSecurityContext": {"runAsUser": 1000, "supplementalGroups": [44]},
                "containerSecurityContext": {"readOnlyRootFilesystem": True},
            }
        )
    )["spec"]
    assert {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
        "supplementalGroups": [44],
    } == spec["securityContext"]
    assert not violations(spec)
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("storage", "group"),
    [
        ({}, None),
        ({"checkpoints": {"size": "1Gi"}}, 1000),
        ({"checkpoints": {"size": "1Gi"}, "datasets": {"existingClaim": "data"}}, None),
        ({"datasets": {"existingClaim": "data"}}, None),
    ],
)
def test_new_claims_can_be_written(
    storage: dict[str, Any], group: int | None, render: Any, pod: Any
) -> None:
    """A fresh volume is root's: a group that may write is given where every claim is our own.

    Claims that were there before keep their owners: the kubelet would change them all.
    """
    context = pod(render(storage=storage))["spec"]["securityContext"]
    assert group == context.get("fsGroup")
    policy = "OnRootMismatch" if group else None
    assert policy == context.get("fsGroupChangePolicy")


def test_given_group_wins(render: Any, pod: Any) -> None:
    """The group is the user's where the user gives one."""
    manifests = render(
        storage={"checkpoints": {"size": "1Gi"}}, security={"podSecurityContext": {"fsGroup": 7}}
    )
    assert pod(manifests)["spec"]["securityContext"]["fsGroup"] == 7


def test_the_check_sees_an_open_pod() -> None:
    """The check above does see what the standard forbids."""
    open_pod = {
        "hostNetwork": True,
        "containers": [{"securityContext": {"privileged": True, "runAsUser": 0}}],
        "volumes": [{"name": "x", "hostPath": {"path": "/"}}],
    }
    assert {
        "hostNetwork",
        "volumes",
        "privileged",
        "escalation",
        "capabilities",
        "runAsNonRoot",
        "runAsUser",
        "seccomp",
    } == violations(open_pod)

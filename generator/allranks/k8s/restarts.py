"""Whether the kubelet starts a container of a pod again after it has ended.

While it waits to do so, a container's state is mostly the end itself: the kubelet writes
``CrashLoopBackOff`` only when it next looks at the pod, which can be just before the new start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.k8s.fields import count, items, mapping, number, numbers, string, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_RESTARTS = frozenset({"Restart", "RestartAllContainers"})


def backs_off(spec: Mapping[str, Any], container_status: Mapping[str, Any]) -> bool:
    """Return whether a container has ended and is started again after a back-off.

    The first restart comes at once, and those after it later and later, up to five minutes.

    Args:
        spec: of a pod that has not ended.
        container_status: an entry of its `status.containerStatuses` or `initContainerStatuses`.
    """
    terminated = mapping(container_status, "state", "terminated")
    exit_code = number(terminated.get("exitCode"))
    if exit_code is None or not count(container_status, "restartCount"):
        return False
    name = string(container_status.get("name"))
    return any(
        _starts_again(spec, container, exit_code, is_init=kind == "initContainers")
        for kind in ("initContainers", "containers")
        for container in items(spec, kind)
        if text(container, "name") == name
    )


def _starts_again(
    spec: Mapping[str, Any], container: Mapping[str, Any], exit_code: int, *, is_init: bool
) -> bool:
    for rule in items(container, "restartPolicyRules"):
        if _matches(mapping(rule.get("exitCodes")), exit_code):
            return text(rule, "action") in _RESTARTS
    policy = text(container, "restartPolicy") or text(spec, "restartPolicy")
    if policy == "Always" and is_init and not text(container, "restartPolicy"):
        policy = "OnFailure"  # only a sidecar is started again after a good end
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(exit_codes: Mapping[str, Any], exit_code: int) -> bool:
    is_listed = exit_code in numbers(exit_codes, "values")
    return is_listed if text(exit_codes, "operator") == "In" else not is_listed

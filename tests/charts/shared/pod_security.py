"""The Pod Security Standard "restricted", by the rules it documents.

kubernetes.io/docs/concepts/security/pod-security-standards, every control of baseline and
restricted that a pod of ours can touch.
"""

from __future__ import annotations

from typing import Any

_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"}
_VOLUMES |= {"image", "projected", "secret"}


def violations(spec: dict[str, Any]) -> set[str]:
    """Controls of the restricted standard that a PodSpec breaks."""
    pod = spec.get("securityContext", {})
    problems = {key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)}
    for volume in spec.get("volumes", []):
        if not set(volume) - {"name"} <= _VOLUMES:
            problems.add("volumes")
    if pod.get("runAsUser") == 0:
        problems.add("runAsUser")
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        problems |= _of_container(container.get("securityContext", {}), pod)
        if any(port.get("hostPort") for port in container.get("ports", [])):
            problems.add("hostPort")
    return problems


def _of_container(own: dict[str, Any], pod: dict[str, Any]) -> set[str]:
    fields = set()
    if own.get("privileged"):
        fields.add("privileged")
    if own.get("allowPrivilegeEscalation") is not False:
        fields.add("escalation")
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []) or not set(capabilities.get("add", [])) <= {
        "NET_BIND_SERVICE"
    }:
        fields.add("capabilities")
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        fields.add("runAsNonRoot")
    if own.get("runAsUser") == 0:
        fields.add("runAsUser")
    profile = own.get("seccompProfile", pod.get("seccompProfile", {}))
    if profile.get("type") not in ("RuntimeDefault", "Localhost"):
        fields.add("seccomp")
    return fields

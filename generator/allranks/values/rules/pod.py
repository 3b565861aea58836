"""Rules about the pod: its network, its security, and its template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.command import ROLES, is_reserved_env, roles
from allranks.values.rules.size import SIZE, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.paths import ValuesPath

TRAINER = "trainer"
_PRIVILEGED_PORTS = 1024
# What $patch may say of a map or an item of a list.
_DIRECTIVES = ("delete", "replace", "merge")
# Fields of the pod that the job's own names and ends depend on, and what to use instead.
_FIXED = {
    "restartPolicy": "remove it; see runPolicy, and the controller and restarts of the workload",
    "hostname": "remove it; each pod is named by its rank",
    "subdomain": "remove it; the pods are named by the release's Service",
    "hostNetwork": "set network.hostNetwork",
    "dnsPolicy": "set network.dnsPolicy",
}


def _dns(view: View) -> Iterator[Finding]:
    policy, host = view["network.dnsPolicy"], view["network.hostNetwork"]
    location = path("network.dnsPolicy")
    spec = view["podTemplate"].get("spec", {})
    if policy == "None" and not spec.get("dnsConfig"):
        yield Finding(
            location,
            "None needs the pods' own DNS settings",
            "add podTemplate.spec.dnsConfig, or leave it out",
        )
    elif host and policy in ("ClusterFirst", "Default"):
        yield Finding(
            location,
            f"with hostNetwork, {policy} asks the node's DNS, which does not know rank 0",
            "leave it out, which means ClusterFirstWithHostNet",
        )
    elif policy == "Default":
        requested = size(view)
        if requested is not None and requested.nodes > 1:
            yield Finding(
                location,
                "Default asks the node's DNS, which does not know rank 0",
                "leave it out, which means ClusterFirst",
            )


def _host_port(view: View) -> Iterator[Finding]:
    port = view["torchrun.port"]
    if port < _PRIVILEGED_PORTS and view["network.hostNetwork"] and view["security.restricted"]:
        yield Finding(
            path("torchrun.port"),
            f"port {port} on the host's network is for root, and security.restricted is true",
            f"use a port from {_PRIVILEGED_PORTS} to 65535, such as 29500",
        )


def _restricted(view: View) -> Iterator[Finding]:
    if not view["security.restricted"]:
        return
    hint = "remove it, or set security.restricted: false"
    for key in ("podSecurityContext", "containerSecurityContext"):
        context, location = view[f"security.{key}"], path(f"security.{key}")
        for below, setting in _more_than_restricted(context):
            yield Finding((*location, *below), f"{setting}, and security.restricted is true", hint)


def _more_than_restricted(context: dict[str, Any]) -> Iterator[tuple[ValuesPath, str]]:
    """The settings of a security context that Pod Security "restricted" refuses."""
    if context.get("runAsUser") == 0:
        yield ("runAsUser",), "user 0 is root"
    if context.get("runAsNonRoot") is False:
        yield ("runAsNonRoot",), "false allows root"
    if context.get("privileged"):
        yield ("privileged",), "a privileged container is the node's root"
    if context.get("allowPrivilegeEscalation"):
        yield ("allowPrivilegeEscalation",), "a process could gain privileges"
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield ("seccompProfile", "type"), "Unconfined lifts the system call filter"
    capabilities = (context.get("capabilities") or {}).get("add") or ()
    extra = [name for name in capabilities if name != "NET_BIND_SERVICE"]
    if extra:
        yield ("capabilities", "add"), f"the capability {extra[0]} is added"


def _template(view: View) -> Iterator[Finding]:
    for dotted in ("podTemplate", *(f"{role}.podTemplate" for role in roles(view))):
        template = view.get(dotted, {})
        yield from _directives(template, view.path(dotted))
        spec = template.get("spec") or {}
        for field, hint in _FIXED.items():
            if field in spec:
                location = view.path(f"{dotted}.spec", field)
                yield Finding(location, "the job depends on what the chart sets here", hint)
        for index, container in enumerate(spec.get("containers") or ()):
            location = view.path(f"{dotted}.spec.containers", index)
            yield from _container(container, location, view)


def _directives(node: Any, location: ValuesPath) -> Iterator[Finding]:
    """The invalid merge directives, judged as `library/templates/_merge.tpl` does."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _directives(item, (*location, index))
    if not isinstance(node, dict) or node.get("$patch") == "delete":
        return
    for key, value in node.items():
        if not str(key).startswith("$"):
            yield from _directives(value, (*location, key))
        elif key != "$patch":
            yield Finding(
                (*location, key),
                "is a directive that is not supported",
                "use $patch, or the whole list",
            )
        elif value and value not in _DIRECTIVES:
            fix = f"write {', '.join(_DIRECTIVES[:-1])} or {_DIRECTIVES[-1]}"
            yield Finding((*location, key), f"{value!r} is not a directive", fix)


def _container(container: dict[str, Any], location: ValuesPath, view: View) -> Iterator[Finding]:
    patch, name = container.get("$patch"), container.get("name")
    if (patch == "replace" and name is None) or (patch == "delete" and name == TRAINER):
        yield Finding((*location, "$patch"), "the job would have no trainer", "remove it")
    if name != TRAINER:
        return
    for field in ("command", "args"):
        if field in container:
            yield Finding(
                (*location, field),
                "would replace the entry that starts the job",
                f"set {field} at the root of the values",
            )
    for index, variable in enumerate(container.get("env") or ()):
        variable_name = str(variable.get("name", ""))
        if is_reserved_env(variable_name, view):
            yield Finding(
                (*location, "env", index),
                f"{variable_name} is reserved: the job sets it for each process",
                "remove it",
            )


RULES = (
    ValuesRule(
        "dns",
        "`network.dnsPolicy` lets the pods find rank 0: `ClusterFirstWithHostNet` with "
        "`hostNetwork`, and `None` with `podTemplate.spec.dnsConfig` only.",
        (*SIZE, "network.dnsPolicy", "network.hostNetwork", "podTemplate"),
        _dns,
    ),
    ValuesRule(
        "host-port",
        "With `network.hostNetwork` and `security.restricted`, `torchrun.port` is 1024 or more.",
        ("torchrun.port", "network.hostNetwork", "security.restricted"),
        _host_port,
        workload="torchrun",
    ),
    ValuesRule(
        "restricted",
        "The security contexts ask nothing that `security.restricted` forbids.",
        ("security",),
        _restricted,
    ),
    ValuesRule(
        "pod-template",
        "`podTemplate` leaves alone what the job depends on: restart policy, host name, DNS and "
        "host network of the pod; command, args and reserved variables of the trainer. Its "
        "directives are those of a strategic merge.",
        ("podTemplate", *ROLES),
        _template,
    ),
)

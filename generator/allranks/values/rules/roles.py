"""Rules about an elastic job: its framework, and its roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.values import frameworks
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.command import CONFIG_MAP_MAX, ENTRY_RESERVE
from allranks.values.rules.size import SIZE, size

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHOICE = ("elastic.mode", "elastic.framework", "elastic.strategy")
_ALLREDUCE, _SERVERS = "AllreduceStrategy", "ParameterServerStrategy"
# What Linux takes as one variable.
_VARIABLE_MAX = 128 * 1024 - 1
_STATIC = "set elastic.mode: static, or leave it out"


def strategy(view: View) -> str:
    """The strategy of an ElasticJob; "" in mode static, and where the framework has none."""
    if view["elastic.mode"] != "auto":
        return ""
    return str(view["elastic.strategy"] or frameworks.recipe(view["elastic.framework"]).strategy)


def _choice(view: View) -> Iterator[Finding]:
    framework = view["elastic.framework"]
    if view["elastic.mode"] == "static":
        if view["elastic.strategy"]:
            yield Finding(
                path("elastic.strategy"),
                "only an ElasticJob has one, and elastic.mode is static",
                "set elastic.mode: auto, or remove it",
            )
        return
    if not strategy(view):
        yield Finding(
            path("elastic.framework"),
            f"the processes of {framework} find each other once; no master can change their number",
            "set elastic.mode: static",
        )
    if view["elastic.successPolicy"]:
        yield Finding(
            path("elastic.successPolicy"), "its master decides when an ElasticJob is done", _STATIC
        )
    if view["elastic.port"]:
        yield Finding(
            path("elastic.port"),
            "the pods of an ElasticJob listen where its master expects them",
            _STATIC,
        )


def _follow_port(view: View) -> Iterator[Finding]:
    port = view["elastic.port"] or frameworks.recipe(view["elastic.framework"]).port
    if view["elastic.mode"] == "static" and view["elastic.followPort"] == port:
        yield Finding(
            path("elastic.followPort"),
            f"{port} is the port that the training listens on",
            f"use another, such as {port + 1 if port < 65_535 else port - 1}",  # noqa: PLR2004
        )


def _roles(view: View) -> Iterator[Finding]:
    roles, rings = (
        frameworks.recipe(view["elastic.framework"]).roles,
        strategy(view) == _ALLREDUCE,
    )
    for role, own in view["elastic.roles"].items():
        count, location = int(own["replicas"]), path("elastic.roles", role, "replicas")
        if count and (role not in roles or (rings and role != "worker")):
            yield Finding(location, *_no_such_role(view, role))
        elif role in roles and 0 < roles[role].most < count:
            yield Finding(
                location,
                f"{view['elastic.framework']} has at most {roles[role].most} {role}",
                f"use {roles[role].most}",
            )
        for side, amounts in own["resources"].items():
            if view["gpuResource"] in amounts:
                yield Finding(
                    path("elastic.roles", role, "resources", side, view["gpuResource"]),
                    "GPUs are asked for by gpusPerPod",
                    f"remove it, and set elastic.roles.{role}.gpusPerPod",
                )


def _no_such_role(view: View, role: str) -> tuple[str, str]:
    framework = view["elastic.framework"]
    roles = frameworks.recipe(view["elastic.framework"]).roles
    if role in roles:
        return (
            f"the job has no {role}: with {_ALLREDUCE} there are workers alone",
            "remove it, or set elastic.strategy: ParameterServerStrategy",
        )
    having = [name for name, recipe in frameworks.recipes().items() if role in recipe.roles]
    allowed = " or ".join(f"elastic.framework: {name}" for name in having)
    return (
        f"the job has no {role}; {framework} has {', '.join(roles)}",
        f"remove it, or set {allowed}",
    )


def _unused(view: View) -> Iterator[Finding]:
    recipe = frameworks.recipe(view["elastic.framework"])
    for role, own in view["elastic.roles"].items():
        about = recipe.roles.get(role, frameworks.RoleLimits())
        by_framework = strategy(view) == _SERVERS and role == "ps"
        if own["replicas"] or about.least or by_framework:
            continue
        settings = [
            key for key in ("gpusPerPod", "env", "command", "args", "podTemplate") if own[key]
        ]
        settings += [f"resources.{side}" for side, amounts in own["resources"].items() if amounts]
        for key in settings:
            yield Finding(
                path("elastic.roles", role, *key.split(".")),
                f"does nothing: the job has no {role}",
                f"set elastic.roles.{role}.replicas, or remove it",
            )


def _workers(view: View) -> Iterator[Finding]:
    worker = view["elastic.roles"]["worker"]
    for key, own in (("nodes", "replicas"), ("gpusPerNode", "gpusPerPod")):
        if view[key] and worker[own] and view[key] != worker[own]:
            yield Finding(
                path("elastic.roles.worker", own),
                f"{worker[own]} contradicts {key}, which is {view[key]} and says the same",
                "leave one of the two out",
            )


def _one_process(view: View) -> Iterator[Finding]:
    procs = int(view["procsPerNode"])
    if procs > 1 and strategy(view) != _ALLREDUCE:
        yield Finding(
            path("procsPerNode"),
            f"{procs} processes in a pod are for torchrun; here one runs in each",
            f"remove it and use more pods, or set elastic.mode: auto with {_ALLREDUCE}",
        )


def _too_many(view: View) -> Iterator[Finding]:
    requested = size(view)
    if requested is None or view["elastic.mode"] != "static":
        return
    counts = {
        role: max(int(view["elastic.roles"][role]["replicas"]), about.least)
        for role, about in frameworks.recipe(view["elastic.framework"]).roles.items()
    } | {"worker": requested.nodes}
    release, namespace = view.release or "a", view.namespace or "a"
    needed = sum(
        count * len(f'"{release}-{role}-{count}.{release}.{namespace}.svc:65535",')
        for role, count in counts.items()
    )
    if needed > _VARIABLE_MAX:
        yield Finding(
            path("nodes" if view["nodes"] else "elastic.roles.worker.replicas"),
            f"the names of all pods have {needed} bytes, and a variable holds {_VARIABLE_MAX}",
            "use fewer pods, or a shorter name for the release",
        )
    texts = [view[key].encode("utf-8", "replace") for key in ("script", "setup")]
    room = CONFIG_MAP_MAX - ENTRY_RESERVE - sum(map(len, texts))
    if 0 < room < needed <= _VARIABLE_MAX:
        yield Finding(
            path("script" if view["script"] else "setup"),
            f"the names of all pods have {needed} bytes, and the ConfigMap has room for {room}",
            "put the program into the image, or onto storage.workspace, and run it with command",
        )


RULES = (
    ValuesRule(
        "elastic-choice",
        "`elastic.mode`, `framework`, `strategy` and `successPolicy` go together: MXNet is static, "
        "and what its master decides is not set for an ElasticJob.",
        (*_CHOICE, "elastic.successPolicy", "elastic.port"),
        _choice,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-follow-port",
        "`elastic.followPort` is another port than the framework's.",
        ("elastic.mode", "elastic.framework", "elastic.port", "elastic.followPort"),
        _follow_port,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-roles",
        "`elastic.roles` are those of the framework, no more of each than it has, and without GPUs "
        "in `resources`.",
        (*_CHOICE, "elastic.roles", "gpuResource"),
        _roles,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-workers",
        "`elastic.roles.worker` agrees with `nodes` and `gpusPerNode`.",
        ("elastic.roles", "nodes", "gpusPerNode"),
        _workers,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-processes",
        "One process runs in each pod, but for torchrun's in mode `auto`.",
        (*_CHOICE, "procsPerNode"),
        _one_process,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-names",
        "The names of all pods fit into one variable (some 3000 pods), and into the ConfigMap "
        "beside `script` and `setup`.",
        (*SIZE, "elastic.mode", "elastic.framework", "elastic.roles", "script", "setup"),
        _too_many,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-unused",
        "A role that has settings has pods.",
        (*_CHOICE, "elastic.roles"),
        _unused,
        warning=True,
        workload="elastic",
    ),
)

"""Rules about an elastic job whose master decides its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.k8s import quantity
from allranks.model.job_spec import READ, JobSpec
from allranks.names import ROLE_MASTER
from allranks.values import frameworks
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_A_JOB = ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
_OF_ANOTHER = ("image", "command", "podTemplate")
_BOUNDS = ("minWorkers", "maxWorkers")
_TRAINER = "trainer"
_CPU, _MEMORY, _GPU = "cpu", "memory", "gpu"
_EVERYTHING = (*sorted(READ), "own")


@dataclass(frozen=True, slots=True)
class _Ask:
    """The requests of a job's pods against one limit, in units of `quantity.request_units`.

    Attributes:
        name: of the limit.
        limit: what all pods may ask together.
        text: the same, as it was typed.
        per_worker: what one worker asks.
        rest: what the other roles' pods ask together.
    """

    name: str
    limit: int
    text: str
    per_worker: int
    rest: int

    @property
    def holds(self) -> int:
        """The most workers within the limit."""
        return max(0, self.limit - self.rest) // self.per_worker

    def show(self, units: int) -> str:
        """An amount in the notation of values."""
        return str(units) if self.name == _GPU else quantity.format_units(self.name, units)


def _static(view: View) -> Iterator[Finding]:
    if view["elastic.mode"] != "static":
        return
    auto = view["elastic.auto"]
    unsupported: list[tuple[str, ...]] = [(key,) for key in (*_BOUNDS, "relaunch") if auto[key]]
    unsupported += [("limits", name) for name, amount in auto["limits"].items() if amount]
    unsupported += [("policy", "startWorkers")] if auto["policy"]["startWorkers"] else []
    unsupported += [("master", key) for key in _OF_ANOTHER if auto["master"][key]]
    for keys in unsupported:
        yield Finding(
            path("elastic.auto", *keys),
            "is for a job whose master decides its size, and elastic.mode is static",
            "set elastic.mode: auto, or remove it",
        )


def _auto(view: View) -> Iterator[Finding]:
    if view["elastic.mode"] != "auto":
        return
    auto = view["elastic.auto"]
    least, most = (int(auto[key]) for key in _BOUNDS)
    if most and least > most:
        yield Finding(
            path("elastic.auto.minWorkers"),
            f"{least} is more than elastic.auto.maxWorkers, which is {most}",
            f"write {most} or less, or raise maxWorkers to {least}",
        )
    for key in (*_OF_A_JOB, *(["fatalExitCodes"] if auto["master"]["command"] else [])):
        if view["runPolicy"][key]:
            yield Finding(
                path("runPolicy", key),
                "an ElasticJob has no such thing",
                "remove it, or set elastic.mode: static",
            )
    if auto["master"]["command"] and not auto["master"]["image"]:
        yield Finding(
            path("elastic.auto.master.image"),
            "empty, and a command is given, which is for another master than ours",
            "name its image, or remove the command",
        )
    containers = auto["master"]["podTemplate"].get("spec", {}).get("containers") or ()
    for index, container in enumerate(containers):
        if container.get("name") == _TRAINER:
            yield Finding(
                path("elastic.auto.master.podTemplate.spec.containers", index, "name"),
                f"{_TRAINER} is the container of the pods that train",
                "write main, which is the master's",
            )


def _start(view: View) -> Iterator[Finding]:
    start, requested = int(view["elastic.auto"]["policy"]["startWorkers"]), numbers(view)
    if not start or not requested.auto:
        return
    location, (least, most) = path("elastic.auto.policy.startWorkers"), requested.bounds
    if requested.nodes and requested.nodes != start:
        yield Finding(
            location,
            f"{start} contradicts nodes, which is {requested.nodes} and says the same",
            "leave one of the two out",
        )
    elif most and not least <= start <= most:
        near = max(least, min(start, most))
        yield Finding(
            location,
            f"{start} is outside the range of workers, {least} to {most}",
            f"write {near}, or {'raise what bounds it' if start > most else 'lower minWorkers'}: "
            + (_bound(view, most) if start > most else f"it is {least}"),
        )


def _bound(view: View, most: int) -> str:
    auto = view["elastic.auto"]
    if int(auto["maxWorkers"]) == most:
        return f"elastic.auto.maxWorkers is {most}"
    return f"elastic.auto.limits.gpu {auto['limits']['gpu']} holds {most}"


def _limits(view: View) -> Iterator[Finding]:
    requested = numbers(view)
    for ask in _asks(view):
        location = path("elastic.auto.limits", ask.name)
        least, key = max(1, requested.least), "elastic.auto.minWorkers"
        if requested.nodes > least:
            least, key = (
                requested.nodes,
                "nodes" if view["nodes"] else "elastic.roles.worker.replicas",
            )
        if least <= ask.holds:
            continue
        needed = ask.show(ask.rest + least * ask.per_worker)
        beside = f", and the other roles {ask.show(ask.rest)}" if ask.rest else ""
        if ask.holds:
            workers = f"{least} workers ({key}) ask {ask.show(least * ask.per_worker)}"
            # What the one bound allows the other may forbid.
            most = min(ask.holds, int(view["elastic.auto"]["maxWorkers"]) or ask.holds)
            fix = f"raise it to {needed}, or write {key}: {most}"
        else:
            workers = f"one worker asks {ask.show(ask.per_worker)}"
            fix = (
                f"raise it to at least {ask.show(ask.rest + ask.per_worker)}, or let a pod ask less"
            )
        yield Finding(location, f"{ask.text} is all that the pods may ask; {workers}{beside}", fix)


def _held(view: View) -> Iterator[Finding]:
    requested = numbers(view)
    asks = list(_asks(view))
    holding = min(asks, key=lambda ask: ask.holds, default=None)
    if holding is not None and 0 < holding.holds < requested.most:
        yield Finding(
            path("elastic.auto.maxWorkers"),
            f"{requested.most} are never reached: elastic.auto.limits.{holding.name} "
            f"{holding.text} holds {holding.holds}",
            f"write {holding.holds}, or raise the limit to "
            f"{holding.show(holding.rest + requested.most * holding.per_worker)}",
        )
    if (
        requested.auto
        and requested.gpu_limit
        and not requested.gpus_per_worker
        and not requested.gpus
    ):
        yield Finding(
            path("elastic.auto.limits.gpu"),
            f"{requested.gpu_limit}, and no worker asks for a GPU, so this trains on CPUs",
            "set gpusPerNode, or nodeShape.gpus to have them split over the nodes",
        )


def _no_bound(view: View) -> Iterator[Finding]:
    auto, requested = view["elastic.auto"], numbers(view)
    bounded = auto["maxWorkers"] or any(auto["limits"].values()) or auto["master"]["command"]
    if not requested.auto or bounded:
        return
    stays = max(1, requested.least, requested.nodes)
    yield Finding(
        path("elastic.auto"),
        f"nothing says how far the job may grow, so its master keeps {plural(stays, 'worker')}",
        "set elastic.auto.maxWorkers, or elastic.auto.limits",
    )


def _asks(view: View) -> Iterator[_Ask]:
    """The requests of the pods against each limit, as far as the values give them."""
    if view["elastic.mode"] != "auto":
        return
    limits = view["elastic.auto"]["limits"]
    values = {key: view[key] for key in READ} | {view.workload: view["own"]}
    spec = JobSpec.from_values(values, frameworks.fewest(values))
    per_worker = numbers(view).gpus_per_worker
    worker = spec.requests(per_worker) | {_GPU: per_worker}
    for name in (_CPU, _MEMORY, _GPU):
        if not limits[name] or not worker.get(name):
            continue
        rest = sum(
            role.nodes
            * (role.requests(role.gpus_per_node) | {_GPU: role.gpus_per_node}).get(name, 0)
            for role in spec.beside
            if role.role != ROLE_MASTER
        )
        limit = int(limits[name]) if name == _GPU else quantity.capacity_units(name, limits[name])
        yield _Ask(name, limit, str(limits[name]), worker[name], rest)


RULES = (
    ValuesRule(
        "elastic-static",
        "What bounds a master (`elastic.auto`) is not set for a static job, which has none.",
        ("elastic.mode", "elastic.auto"),
        _static,
        warning=True,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-auto",
        "`minWorkers` is at most `maxWorkers`, another master has an image, the master's "
        "container is not named like the trainer's, and an ElasticJob has no deadline and no "
        "removal by time; with another master no fatal exit codes either.",
        ("elastic.mode", "elastic.auto", "runPolicy"),
        _auto,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-start",
        "`elastic.auto.policy.startWorkers` is in the range of workers, and agrees with `nodes`.",
        SIZE,
        _start,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-limits",
        "`elastic.auto.limits` hold the fewest workers, those to begin with, and the other roles.",
        _EVERYTHING,
        _limits,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-bound",
        "Something bounds the size of a job whose master decides it.",
        SIZE,
        _no_bound,
        warning=True,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-held",
        "`elastic.auto.limits` hold `maxWorkers`, and a limit of GPUs is one of pods with GPUs.",
        _EVERYTHING,
        _held,
        warning=True,
        workload="elastic",
    ),
)

"""Rules about an elastic range of nodes, for several workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.humanize import plural
from allranks.values import frameworks
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, devices, most_nodes, numbers, size

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVERS = "ParameterServerStrategy"


def _elastic_range(view: View) -> Iterator[Finding]:
    if view.workload == "elastic":
        return  # each of its bounds is of use alone
    least, most = int(view["own.elastic.minNodes"]), int(view["own.elastic.maxNodes"])
    if bool(least) != bool(most):
        bound, other_bound = ("minNodes", "maxNodes") if least else ("maxNodes", "minNodes")
        yield Finding(
            view.path(f"own.elastic.{other_bound}"),
            f"is 0, and {view.workload}.elastic.{bound} is {least or most}; a range has two ends",
            "set it as well, or set both to 0 for a fixed number of nodes",
        )
    elif least > most:
        yield Finding(
            view.path("own.elastic.minNodes"),
            f"{least} is more than {view.workload}.elastic.maxNodes, which is {most}",
            f"write {most} or less, or raise maxNodes",
        )


def _elastic_nodes(view: View) -> Iterator[Finding]:
    most, requested = most_nodes(view), size(view)
    if view.workload == "elastic":
        least, first = numbers(view).bounds[0], "the fewest"
    else:
        least, first = int(view["own.elastic.minNodes"]), str(most)
    if not 0 < least <= most or requested is None or least <= requested.nodes <= most:
        return
    near = least if requested.nodes < least else most
    if view["nodes"]:
        location, hint = path("nodes"), f"write {near}, or leave nodes out to start with {first}"
    elif view["gpus"]:
        few, most_gpus = least * requested.gpus, most * requested.gpus
        location, hint = path("gpus"), f"ask for {devices(view, f'{few} to {most_gpus}')}"
    else:
        location, hint = view.path("own.roles.worker.replicas"), f"write {near}, or leave it out"
    yield Finding(
        location,
        f"the size is {plural(requested.nodes, 'node')}, "
        f"outside the elastic range {least} to {most}",
        f"{hint}, or widen the range",
    )


def _elastic_lead(view: View) -> Iterator[Finding]:
    """Without a chief, the first worker leads a job with parameter servers."""
    recipe, requested = frameworks.recipe(view["elastic.framework"]), numbers(view)
    strategy = view["elastic.strategy"] or recipe.strategy
    leads = requested.auto and strategy == _SERVERS and names.ROLE_CHIEF in recipe.roles
    if not leads or view["elastic.roles"][names.ROLE_CHIEF]["replicas"]:
        return
    if (requested.nodes or requested.most) != 1:
        return
    location = path("nodes") if view["nodes"] else view.path("own.roles.worker.replicas")
    yield Finding(
        location if requested.nodes else view.path("own.auto.maxWorkers"),
        "1 worker is to be the chief, and none is left to work for it",
        "write 2 or more, or set elastic.roles.chief.replicas: 1",
    )


RULES = (
    ValuesRule(
        "elastic-lead",
        "An elastic job with parameter servers has a worker beside its chief.",
        ("elastic.framework", "elastic.strategy", "elastic.roles", *SIZE),
        _elastic_lead,
        workload="elastic",
    ),
    ValuesRule(
        "elastic-range",
        "`elastic` has both ends or none, and `minNodes` is at most `maxNodes`.",
        ("own.elastic",),
        _elastic_range,
    ),
    ValuesRule(
        "elastic-nodes", "The size of an elastic job is inside its range.", SIZE, _elastic_nodes
    ),
)

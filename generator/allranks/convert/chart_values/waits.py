"""How long the pods of a job wait for each other, where nothing has them start together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values.queue_and_scheduler import pod_groups
from allranks.k8s import fields as k8s
from allranks.values.sources import defaults as chart_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Conversion


def noted(conversion: Conversion) -> Conversion:
    """A conversion that says how long a pod waits for rank 0, where its pods may start apart.

    Args:
        conversion: the conversion; that of a gang, of a queue or of one pod is as it was. Of a
            queue for -q, only who reads it knows what it starts together.
    """
    return conversion if conversion.queue else conversion.with_notes(notes(conversion.values))


def notes(values: Mapping[str, Any]) -> Iterator[str]:
    """That the pods of a job may start apart, where its values have several and no gang.

    Args:
        values: the values of a job.
    """
    nodes, dialect = values.get("nodes"), k8s.text(values, "scheduling", "dialect")
    workload, roles = values.get("workload"), k8s.mapping(values, "elastic", "roles")
    is_spread = workload == "torchrun" and isinstance(nodes, int) and nodes > 1
    # Workers and others wait for the names of the chief and of all parameter servers.
    others = [role for role in ("chief", "ps") if k8s.mapping(roles, role)]
    is_of_roles = workload == "elastic" and bool(others) and (len(roles) > 1 or bool(nodes))
    is_together = dialect not in ("", "none") or "queue" in values or bool(pod_groups(values))
    # Those that meet at an etcd wait there for each other, for as long as torchrun's own time.
    is_elsewhere = k8s.text(values, "torchrun", "rdzvBackend").startswith("etcd")
    if not (is_spread or is_of_roles) or is_together or is_elsewhere:
        return
    seconds = chart_defaults(str(workload))["network"]["waitSeconds"]
    awaited = " and ".join(others) if is_of_roles else "rank 0"
    yield (
        f"no scheduler starts the pods together, and one that waits {seconds} s for {awaited} "
        "fails: set network.waitSeconds to the longest that a pod may wait for its place"
    )

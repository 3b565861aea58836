"""Fields of a job or a plan that nobody reads, most often because they are misspelt.

The definitions keep what they do not know, for the tools that these objects come from write more
than is said anywhere. So an API server refuses no slip of the keyboard, and it is to be said here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

JOB = (
    "distributionStrategy",
    "optimizeMode",
    "brainService",
    "resourceLimits",
    "envs",
    "suspend",
    "suspended",
    "replicaSpecs",
    # For DLRover's own programs.
    "enableElasticScheduling",
    "enableDynamicSharding",
)
REPLICA = (
    "replicas",
    "minReplicas",
    "maxReplicas",
    "restartCount",
    "restartPolicy",
    "restartTimeout",
    "autoScale",
    "priority",
    "BatchScheduler",
    "batchScheduler",
    "template",
    # For DLRover's own programs.
    "criticalNodes",
)
PLAN = (
    "ownerJob",
    "replicaResourceSpecs",
    "createPods",
    "removePods",
    "migratePods",
    "psHosts",
)
GROUP = ("replicas", "resource")
POD = ("name", "id", "type", "rankIndex", "service", "resource")

_NAMED_MAX = 3
_SHOWN_MAX = 40


def fields(data: Mapping[Any, Any], allowed: Collection[str], where: str = "") -> Iterator[str]:
    """Yield a sentence for each field of an object that nobody reads.

    Args:
        data: the object; empty fields, as tools write them, are ignored.
        allowed: the fields that are read.
        where: what the object is, such as ``replicaSpecs.worker``; "" for a whole spec.
    """
    unknown = [str(key) for key, value in data.items() if key not in allowed and value]
    for key in unknown[:_NAMED_MAX]:
        name = key if len(key) <= _SHOWN_MAX else f"{key[:_SHOWN_MAX]}…"
        near = get_close_matches(key[:_SHOWN_MAX], allowed, n=1)
        hint = f"; is {near[0]} meant?" if near else ""
        yield f"{where}{'.' if where else ''}{name} is no field that is read{hint}"
    if len(unknown) > _NAMED_MAX:
        yield f"{where or 'the spec'} has {len(unknown) - _NAMED_MAX} more fields that are not read"

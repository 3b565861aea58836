"""The recipes of the frameworks of elastic jobs, as in the chart.

They are data (``charts/elastic/frameworks.yaml``), read by the chart's templates, by what runs in
the pods, and here; so the rules between values know a framework as soon as the chart does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allranks import resources
from allranks.model import elastic_size
from allranks.names import ROLE_MASTER, ROLE_PS
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RoleLimits:
    """The least and the most pods of a role in a framework (0 is no limit)."""

    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Framework:
    """A recipe, as far as values depend on it.

    Attributes:
        roles: by name.
        env: the variables that it gives each pod.
        strategy: of an ElasticJob; "" where it has none.
        port: what its pods listen on.
    """

    roles: Mapping[str, RoleLimits] = field(default_factory=dict)
    env: tuple[str, ...] = ()
    strategy: str = ""
    port: int = 0


def recipe(framework: str) -> Framework:
    """The recipe of a framework; an empty one for an unknown name."""
    return recipes().get(str(framework), Framework())


def fewest(values: Mapping[str, Any]) -> dict[str, int]:
    """The least pods of each role besides the workers, whatever the values say.

    Args:
        values: merged, of any workload.

    Returns:
        What the framework cannot do without; the servers that go with the workers to begin with,
        where a master decides; and the master, which is no role of the framework.
    """
    own = values.get("elastic")
    if values.get("workload") != "elastic" or own is None:
        return {}
    framework = recipe(own["framework"])
    if own["mode"] != "auto":
        return {role: limits.least for role, limits in framework.roles.items() if limits.least}
    counts = {ROLE_MASTER: 1}
    servers = framework.roles.keys() & {ROLE_PS}
    if servers and not elastic_size.rings(own) and not own["roles"][ROLE_PS]["replicas"]:
        numbers = elastic_size.Numbers.of(values, own)
        start = numbers.nodes or max(1, numbers.least)
        counts[ROLE_PS] = -(-start // elastic_size.WORKERS_PER_PS)
    return counts


@lru_cache(maxsize=1)
def recipes() -> dict[str, Framework]:
    """All recipes, by name."""
    path = resources.folder("charts") / "elastic/frameworks.yaml"
    data: dict[str, Any] = load(path.read_bytes(), str(path)).data
    return {
        name: Framework(
            roles={
                role: RoleLimits(int(about.get("least", 0)), int(about.get("most", 0)))
                for role, about in recipe["roles"].items()
            },
            env=tuple(recipe["env"]),
            strategy=recipe["strategy"],
            port=int(recipe["port"]),
        )
        for name, recipe in data.items()
    }

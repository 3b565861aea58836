"""The number of workers of an elastic job and the GPUs of each, where its values leave them open.

The charts compute the same (`elastic.size`), and the master splits GPUs by the same rule; it stands
here alone, so that the checks, the layout and the first plan cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# The strategy of an elastic job whose workers run torchrun, and what has it by default.
_RINGS = "AllreduceStrategy"
_RING_FRAMEWORKS = ("pytorch",)
# A parameter server job without a number of servers has one for so many workers.
WORKERS_PER_PS = 4


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers in an elastic job's values about its size; 0 is not set.

    Attributes:
        auto: whether a master decides how many workers there are.
        gpus: GPUs in all.
        nodes: workers to begin with.
        per_node: GPUs of each.
        cap: GPUs that one node has.
        least: the fewest workers that the master keeps.
        most: the most.
        gpu_limit: the most GPUs that all pods may have together.
    """

    auto: bool = False
    gpus: int = 0
    nodes: int = 0
    per_node: int = 0
    cap: int = 0
    least: int = 0
    most: int = 0
    gpu_limit: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any], own: Mapping[str, Any]) -> Numbers:
        """Return the numbers in merged values and in their own section."""
        worker = (own.get("roles") or {}).get("worker") or {}
        auto = own.get("auto") or {}
        return cls(
            auto=own.get("mode") == "auto",
            gpus=_count(values, "gpus"),
            nodes=_count(values, "nodes") or _count(worker, "replicas"),
            per_node=_count(values, "gpusPerNode") or _count(worker, "gpusPerPod"),
            cap=_count(values.get("nodeShape") or {}, "gpus"),
            least=_count(auto, "minWorkers"),
            most=_count(auto, "maxWorkers"),
            gpu_limit=_count(auto.get("limits") or {}, "gpu"),
        )

    @property
    def gpus_per_worker(self) -> int:
        """The GPUs of each worker, where the values set them; else 0."""
        if self.per_node or self.gpus or not (self.auto and self.cap and self.gpu_limit):
            return self.per_node
        return split(self.gpu_limit, self.cap)

    @property
    def bounds(self) -> tuple[int, int]:
        """The minimum and maximum of workers; (0, 0) where their number is fixed or unbounded."""
        most = self._most() if self.auto else 0
        return (max(1, self.least), most) if most else (0, 0)

    def _most(self) -> int:
        limit = (
            self.gpu_limit // self.gpus_per_worker if self.gpu_limit and self.gpus_per_worker else 0
        )
        if self.most or limit:
            return min(self.most or limit, limit or self.most)
        return max(self.least, self.nodes) if self.least else 0


def split(gpus: int, cap: int) -> int:
    """Return the GPUs of each of the fewest nodes for a number of GPUs, each with at most `cap`.

    They are equal where the number divides; where not, whole nodes are taken and the rest stays
    unused, because a job that changes its size may be smaller.
    """
    nodes = -(-gpus // cap)
    return gpus // nodes if gpus % nodes == 0 else cap


def rings(own: Mapping[str, Any]) -> bool:
    """Whether the workers run torchrun, which starts several processes in each."""
    if own.get("mode") != "auto":
        return False
    strategy = own.get("strategy") or ""
    return strategy == _RINGS or (not strategy and own.get("framework") in _RING_FRAMEWORKS)


def _count(values: Mapping[str, Any], key: str) -> int:
    return int(values.get(key) or 0)

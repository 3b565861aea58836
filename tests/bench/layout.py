"""How long the layout takes on a cluster of 10,000 nodes with 80,000 GPUs.

Every mode that a job can ask is timed, on clusters cut in different ways, together with refusals,
which look at everything twice. The code only computes, so its processor time is what it takes on
an idle machine; each figure is the better of two runs. Fails when the worst is over the budget.
"""

from __future__ import annotations

import random
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from allranks.errors import CapacityError
from allranks.layout import feasible, render
from allranks.layout.compute import compute
from allranks.layout.inventory_objects import from_objects
from allranks.model.inventory import Amount, Inventory, Node, Taint
from allranks.model.job_spec import JobSpec, PodAmounts, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES, GPUS = 10_000, 8
BUDGET = 0.3
RUNS = 2
Result = TypeVar("Result")
GPU = "nvidia.com/gpu"
KEYS = {"host": "kubernetes.io/hostname", "rack": "example.com/rack", "block": "example.com/block"}
CLUSTERS = {"empty": (32, 512, False), "busy": (32, 512, True), "racks of one": (1, 512, True)}
CLUSTERS |= {"one rack": (NODES, NODES, True), "no labels": (0, 0, True)}
# One node, many divisors, the whole cluster, a prime, and one that no cluster here has.
TOTALS = (8, 15_120, 79_999, 80_000, 83_160)


def cluster(rack: int, block: int, *, busy: bool) -> Inventory:
    """Labelled, tainted nodes; where busy, each with something else free."""
    draws = random.Random(1)  # noqa: S311 - the same cluster in every run
    nodes = []
    for number in range(NODES):
        labels = {KEYS["host"]: f"node-{number}", "pool": "train"}
        if rack:
            labels |= {KEYS["rack"]: f"rack-{number // rack}"}
            labels |= {KEYS["block"]: f"block-{number // block}"}
        share = draws.random() if busy else 0.0
        nodes.append(
            Node(
                f"node-{number}",
                gpus=Amount(GPUS, GPUS - int(share * (GPUS + 1))),
                cpu=Amount(192_000, 192_000 - draws.randint(0, 96_000) * busy),
                memory=Amount(2**41, 2**41 - draws.randint(0, 2**40) * busy),
                other={"pods": Amount(110, 100), "rdma/hca": Amount(8, 8)},
                labels=labels,
                taints=(Taint(GPU, "present"),),
            )
        )
    return Inventory(tuple(nodes), GPU)


def jobs() -> Iterator[tuple[str, JobSpec]]:
    """Every mode, at every level, for every total; elastic and fixed splits once."""
    pod = PodAmounts(per_gpu={"cpu": "12", "memory": "180Gi"}, devices={"rdma/hca": 8})
    pool = {"key": "pool", "operator": "In", "values": ["train"]}
    for mode in ("none", "preferred", "required"):
        for level in ("host", "rack", "block")[: 1 if mode == "none" else 3]:
            common = {
                "gpu_resource": GPU,
                "pod": pod,
                "topology": Topology(mode, level, KEYS),
                "node_selector": {"pool": "train"},
                "node_terms": ({"matchExpressions": [pool]},),
                "tolerations": ({"key": GPU, "operator": "Exists"},),
            }
            name = mode if mode == "none" else f"{mode} {level}"
            for total in TOTALS:
                yield name, JobSpec(gpus=total, **common)  # type: ignore[arg-type]
            elastic = {"gpus_per_node": 4, "min_nodes": 2, "max_nodes": 5000}
            yield name, JobSpec(**elastic, **common)  # type: ignore[arg-type]
            yield name, JobSpec(gpus=16_384, nodes=4096, **common)  # type: ignore[arg-type]


def best(action: Callable[[], Result]) -> tuple[Result, float]:
    """The last result, and the seconds of the shortest run."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        result = action()
        times.append(time.process_time() - start)
    return result, min(times)


def outcome(spec: JobSpec, inventory: Inventory) -> bool:
    """Whether the job fits."""
    feasible.natural.cache_clear()  # a command line starts with nothing remembered
    try:
        compute(spec, inventory)
    except CapacityError:
        return False
    return True


def measured(inventory: Inventory) -> dict[str, dict[bool, float]]:
    """The worst time by topology, and by whether the job fits."""
    table: dict[str, dict[bool, float]] = {}
    for name, spec in jobs():
        fits, seconds = best(partial(outcome, spec, inventory))
        row = table.setdefault(name, {})
        row[fits] = max(row.get(fits, 0.0), seconds)
    return table


def conversion() -> float:
    """From the API's objects: 10,000 nodes and as many pods."""
    amounts = {"cpu": "192", "memory": "2113373376Ki", "pods": "110", GPU: "8"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"metadata": {"name": f"n{i}"}, "spec": {}, "status": status} for i in range(NODES)]
    resources = {"requests": {"cpu": "12", "memory": "180Gi"}, "limits": {GPU: "1"}}
    spec = {"containers": [{"resources": resources}]}
    pods = [{"spec": spec | {"nodeName": f"n{i}"}} for i in range(NODES)]
    return best(lambda: from_objects(nodes, pods, GPU))[1]


def main() -> int:
    """Print the table; 1 where the worst is over the budget."""
    print(f"layout of {NODES} nodes, {NODES * GPUS} GPUs: worst of {len(TOTALS) + 2} jobs, seconds")
    print(f"{'cluster':14}{'topology':18}{'fits':>8}{'refused':>9}")
    worst = 0.0
    for title, (rack, block, busy) in CLUSTERS.items():
        for name, row in measured(cluster(rack, block, busy=busy)).items():
            texts = [f"{row[key]:.3f}" if key in row else "-" for key in (True, False)]
            print(f"{title:14}{name:18}{texts[0]:>8}{texts[1]:>9}", flush=True)
            worst = max(worst, *row.values())
    inventory = cluster(32, 512, busy=True)
    spec = JobSpec(gpus=2048, gpu_resource=GPU, tolerations=({"operator": "Exists"},))
    layout = compute(spec, inventory)
    print(f"{'picture (SVG)':32}{best(lambda: render.svg(layout, inventory, 'a'))[1]:8.3f}")
    print(f"{'inventory from API objects':32}{conversion():8.3f}")
    print(f"worst layout {worst:.3f} s, budget {BUDGET} s: {'ok' if worst <= BUDGET else 'OVER'}")
    return int(worst > BUDGET)


if __name__ == "__main__":
    sys.exit(main())

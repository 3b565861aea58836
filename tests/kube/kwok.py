"""Fake nodes whose fake pods run and end, by the thousand: KWOK beside the control plane.

A fake pod runs as soon as it has a node. Annotations of the pod say what else happens to it
(`stages.yaml` has the rules):

    bench.allranks.dev/ends-after: 3s               it ends, counted from its start
    bench.allranks.dev/exit-code: "1"               with this code; 0 where it is not given
    bench.allranks.dev/says: done               its termination message
    bench.allranks.dev/waits-for: ImagePullBackOff  it never starts, for this reason

A variable of its first container says the second and the third as well, for programs that tell
their pods apart by what these run: `BENCH_ENDS_WITH: "1 no memory"`.

Fake nodes carry a taint, so that a real pod never lands on one, nor a fake pod on a real node: a
pod that is to be fake needs `TOLERATION`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kube import binaries
from tests.kube.control_plane import kubeconfig_of
from tests.kube.errors import BenchError
from tests.kube.runs import listens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kube.api import Api
    from tests.kube.processes import Processes
    from tests.kube.runs import Run

ENDS_AFTER = "bench.allranks.dev/ends-after"
EXIT_CODE = "bench.allranks.dev/exit-code"
SAYS = "bench.allranks.dev/says"
ENDS_WITH = "BENCH_ENDS_WITH"
WAITS_FOR = "bench.allranks.dev/waits-for"

FAKE = "kwok.x-k8s.io/node"  # the annotation of a fake node, and the key of its taint
TAINT = {"key": FAKE, "value": "fake", "effect": "NoSchedule"}
TOLERATION = {**TAINT, "operator": "Equal"}
RACK = "topology.kubernetes.io/rack"
BLOCK = "topology.kubernetes.io/block"

_STAGES = Path(__file__).parent / "stages.yaml"
_THREADS = 8
_SECONDS = 30.0
_POLL = 0.1
_HEARTBEAT_SECONDS = 40


def start(run: Run, processes: Processes) -> None:
    """Start KWOK; nodes are made later, by `create`.

    Raises:
        BenchError: it ends, or takes too long.
    """
    # Without a real node nobody misses the heartbeats of fake ones; see the control plane.
    heartbeat = _HEARTBEAT_SECONDS if run.options.node else 0
    processes.start(
        "kwok",
        binaries.find("kwok"),
        f"--kubeconfig={kubeconfig_of(run, 'kwok')}",
        f"--config={_STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={FAKE}=fake",
        f"--node-lease-duration-seconds={heartbeat}",
        "--cidr=10.128.0.0/12",
        f"--node-ip={run.node_ip}",
        f"--server-address=127.0.0.1:{run.port('kwok')}",
    )
    processes.wait(lambda: listens(run.port("kwok")), "KWOK's start", _SECONDS)


@dataclass(frozen=True, slots=True)
class Shape:
    """What each fake node has.

    Attributes:
        gpus: devices of `gpu_resource`.
        cpus: cores.
        memory: as Kubernetes writes it.
        pods: at most so many.
        gpu_resource: the extended resource of the devices.
    """

    gpus: int = 8
    cpus: int = 96
    memory: str = "1024Gi"
    pods: int = 110
    gpu_resource: str = "nvidia.com/gpu"

    @property
    def capacity(self) -> dict[str, str]:
        """As a Node's status has it."""
        devices = {self.gpu_resource: str(self.gpus)} if self.gpus else {}
        plain = {"cpu": str(self.cpus), "memory": self.memory, "pods": str(self.pods)}
        return {**plain, "ephemeral-storage": "1Ti", **devices}


def node(name: str, shape: Shape, labels: Mapping[str, str]) -> dict[str, Any]:
    """A fake Node that is ready from the start.

    Args:
        name: its name.
        shape: what it has.
        labels: added to the host name, as of its rack.
    """
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        },
        "spec": {"taints": [TAINT]},
        "status": {
            "capacity": shape.capacity,
            "allocatable": shape.capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def create(
    api: Api,
    count: int,
    *,
    prefix: str = "fake",
    shape: Shape | None = None,
    domains: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Make fake nodes, and return when pods can be scheduled on all of them.

    Args:
        api: of a cluster with KWOK.
        count: how many.
        prefix: of their names: `fake-0000`, `fake-0001` and so on.
        shape: what each has.
        domains: label key -> nodes in one domain of it: `{RACK: 16}` gives the nodes 0 to 15 the
            value `rack-000`, after the last word of the key.
        labels: given to all of them.

    Returns:
        Their names.

    Raises:
        BenchError: a taint that is not ours stays on them.
    """

    def make(number: int) -> str:
        name = f"{prefix}-{number:04}"
        places = {
            key: f"{key.rpartition('/')[2]}-{number // size:03}"
            for key, size in (domains or {}).items()
        }
        body = node(name, shape or Shape(), {**places, **(labels or {})})
        api.request("POST", "/api/v1/nodes", body)
        return name

    with ThreadPoolExecutor(_THREADS) as pool:
        names = list(pool.map(make, range(count)))
    deadline = time.monotonic() + _SECONDS
    while not set(names) <= _open_nodes(api):
        if time.monotonic() > deadline:
            raise BenchError("the fake nodes did not become ready")
        time.sleep(_POLL)
    return names


def _open_nodes(api: Api) -> set[str]:
    """The nodes that bear our taint alone."""
    nodes = api.request("GET", "/api/v1/nodes").body["items"]
    return {node["metadata"]["name"] for node in nodes if len(node["spec"].get("taints", ())) == 1}

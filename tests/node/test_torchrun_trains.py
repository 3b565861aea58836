"""Real pods train: each way of meeting, each controller, and the example as its users run it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Lab, MakeLab

pytestmark = [pytest.mark.timeout(900)]

# Every rank adds its number; every rank must see the sum of all. Rank 0 says it for all of them:
# where its end is the job's, pods that end a moment later are removed with their logs.
ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
pod, node = os.environ["ALLRANKS_NODE_RANK"], os.environ["GROUP_RANK"]
lines = [None] * world
dist.all_gather_object(lines, f"rank {rank} of {world} on node {node}, pod {pod}: {total.item():g}")
if rank == 0:
    print("\\n".join(lines), flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""

# The name of rank 0's node, as JAX reads it of the first list, and DINOv2 of the second: up to a
# comma or a bracket, and the first number behind that.
OF_HOSTS = """
import os, re, socket, torch.distributed as dist
dist.init_process_group("gloo")
rank, answers = dist.get_rank(), [None] * dist.get_world_size()
texts = os.environ["SLURM_STEP_NODELIST"], os.environ["SLURM_JOB_NODELIST"]
names = ["".join(re.match(r"([^,[]*)(?:.([0-9]+))?", text).groups("")) for text in texts]
addresses = {socket.gethostbyname(name) for name in (*names, os.environ["MASTER_ADDR"])}
dist.all_gather_object(answers, f"rank {rank}: {' '.join(names)} has {len(addresses)} address")
if rank == 0:
    print("\\n".join(answers), flush=True)
dist.barrier()
os._exit(0)
"""


def _sums(nodes: int, procs: int) -> list[str]:
    """What rank 0 says; a pod is the node of its own index."""
    world = nodes * procs
    total = sum(range(world))
    return [
        f"rank {rank} of {world} on node {rank // procs}, pod {rank // procs}: {total}"
        for rank in range(world)
    ]


def _reports(lab: Lab, release: str) -> list[str]:
    log = lab.log(lab.pod(release)["metadata"]["name"])
    # Where a pod has several processes, each line bears its rank.
    lines = [re.sub(r"^\[\d+\] ", "", line) for line in log.splitlines()]
    return sorted(line for line in lines if line.startswith("rank "))


def test_static_three_pods_of_two_ranks(lab: Lab) -> None:
    """Six ranks in three pods reduce over the pods' network."""
    lab.install(
        "static", nodes=3, procsPerNode=2, script=ALL_REDUCE, torchrun={"rdzvBackend": "static"}
    )
    lab.completes("static", seconds=120)
    assert _sums(3, 2) == _reports(lab, "static"), lab.logs("static")


@pytest.mark.parametrize("helm", [3], indirect=True, ids=["helm3"])
def test_c10d_pods_keep_their_ranks(make_lab: MakeLab, helm: Any) -> None:
    """With c10d each pod's node rank is its index; helm 3 installs it as helm 4 does."""
    lab = make_lab(helm=helm)
    lab.install("met", nodes=3, script=ALL_REDUCE)
    lab.completes("met", seconds=120)
    assert _sums(3, 1) == _reports(lab, "met"), lab.logs("met")


def test_a_stateful_set_meets_behind_a_cluster_ip(lab: Lab) -> None:
    """Rank 0 is found through a Service with an address; finished pods stay and do not restart."""
    lab.install("steady", nodes=2, script=ALL_REDUCE, torchrun={"controller": "StatefulSet"})
    lab.line("steady", "rank 1 of 2", seconds=120)
    assert _sums(2, 1) == _reports(lab, "steady")
    services = lab.cluster.items(lab.path("services"))
    (master,) = [service for service in services if service["spec"].get("clusterIP") != "None"]
    assert master["spec"]["clusterIP"].startswith("10.")
    for rank in range(2):
        lab.line("steady", "this rank has finished its training", rank)
    restarts = [
        status["restartCount"]
        for pod in lab.pods("steady")
        for status in pod["status"]["containerStatuses"]
    ]
    assert [1, 1] == restarts


def test_rank_0_is_where_slurms_lists_of_hosts_say(lab: Lab) -> None:
    """Also by a name without its domain, which each pod of the run finds."""
    lab.install("hosts", nodes=3, script=OF_HOSTS, compat="slurm")
    lab.completes("hosts", seconds=120)
    names = "hosts-0.hosts hosts-0"
    assert [f"rank {rank}: {names} has 1 address" for rank in range(3)] == _reports(lab, "hosts")


def test_shared_memory_is_as_large_as_asked(lab: Lab) -> None:
    """A 2 GiB /dev/shm is 2 GiB in the pod, and takes more than the runtime's own 64 MiB."""
    script = (
        "import shutil\n"
        "print('total', shutil.disk_usage('/dev/shm').total)\n"
        "open('/dev/shm/x', 'wb').write(bytes(100 << 20))\n"
        "print('wrote 100 MiB')\n"
    )
    lab.install("shm", nodes=1, script=script, shm={"size": "2Gi"})
    lab.completes("shm")
    log = lab.logs("shm")
    assert f"total {2 << 30}" in log
    assert "wrote 100 MiB" in log

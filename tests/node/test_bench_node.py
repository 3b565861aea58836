"""The node itself: pods see a cluster, and nothing of it is left, however a run ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kube import image_recipe, node, node_place, runs

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

REPO = Path(__file__).parents[2]
# A run of another process, with a pod; it says so and waits to be killed.
_RUN = """
import json, signal, sys
from tests.kube import cluster, image_recipe
with cluster.start(name="lost", node=True) as found:
    container = {"name": "c", "image": image_recipe.BARE, "command": ["sleep", "1000"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"containers": [container]}}
    found.kubectl("wait", "--for=create", "serviceaccount/default")
    found.api("POST", "/api/v1/namespaces/default/pods", pod)
    found.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    print(json.dumps({"name": found.run.name}), flush=True)
    signal.pause()
"""


@pytest.fixture
def detached_run() -> Iterator[tuple[subprocess.Popen[str], runs.Record]]:
    """Another process with a node of its own, and the record of its run."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN], stdout=subprocess.PIPE, text=True, cwd=REPO
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the run did not start"
        record = runs.read(json.loads(line)["name"])
        assert record is not None
        yield process, record
    finally:
        process.kill()
        process.wait()


def _living(record: runs.Record) -> list[str]:
    """Command lines of processes that have to do with a run."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(record.run.folder) in words or words.startswith("sleep 1000"):
            processes.append(words)
    return processes


def _devices() -> list[str]:
    return [path.name for path in Path("/sys/class/net").iterdir()]


@pytest.mark.parametrize("victim", ["test", "guardian"])
def test_a_killed_run_leaves_no_process_and_no_interface(
    detached_run: tuple[subprocess.Popen[str], runs.Record], victim: str
) -> None:
    """Whether the test run or the guardian is killed: containers, mounts and devices are gone."""
    process, record = detached_run
    device = record.run.device("node")
    assert device in _devices()
    # A container runs, and its pod is ready, some moments before runc has become its program.
    until(lambda: any(words.startswith("sleep") for words in _living(record)), "the pod's program")
    if victim == "test":
        process.kill()
    else:
        os.kill(record.guardian.pid, signal.SIGKILL)
    until(lambda: not _living(record), lambda: f"the end of {_living(record)}")
    until(lambda: device not in _devices(), "the interface to go")
    assert str(record.run.folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
    # The next run removes what the kernel does not.
    runs.sweep()
    node_place.sweep()
    until(lambda: not record.run.folder.exists(), "the folder to go")
    cgroups = Path("/sys/fs/cgroup").glob(f"**/allranks-{device}")
    assert [] == list(cgroups)


def test_the_kubelet_starts_when_containerd_answers(lab: Lab) -> None:
    """A kubelet gives up where it finds no containerd: however long that takes, it is there first.

    Read from what the kernel keeps: when the socket was made, and when the kubelet started.
    """
    run = lab.cluster.run
    record = runs.read(run.name)
    assert record is not None
    assert record.processes is not None
    holder = record.processes["node"].pid
    place = node_place.enter(run.device("node"), holder, run.folder / "node")
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    listens = node.socket_of(place).stat().st_mtime - booted
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert listens <= record.processes["kubelet"].started * tick + tick


def test_this_machines_own_network_is_not_touched(lab: Lab) -> None:
    """Bridges, rules and pod addresses are in the node's namespace only."""
    run = lab.cluster.run
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    assert run.pod_cidr not in routes
    assert "pods" not in _devices()
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    assert "KUBE-" not in rules
    (manifest,) = lab.cluster.items("/api/v1/nodes")
    addresses = {address["type"]: address["address"] for address in manifest["status"]["addresses"]}
    assert node.address(run) == addresses["InternalIP"]


def test_a_pod_resolves_names_and_reaches_the_api(lab: Lab) -> None:
    """A command runs in a pod; there the cluster's names resolve and its API answers."""
    lab.install("inside", nodes=1, script="import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    lab.line("inside", "up")
    pod = lab.pod("inside")["metadata"]["name"]
    output = lab.inside(pod, "getent", "hosts", "kubernetes.default.svc")
    service = lab.cluster.api("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == output.split()[0]
    ask = "import socket\nsocket.create_connection(('kubernetes.default.svc', 443), 5)\nprint('ok')"
    assert "ok\n" == lab.inside(pod, "python3", "-c", ask)
    assert "uid=1000(trainer)" in lab.inside(pod, "id")


def test_the_image_trains_with_the_pinned_torch() -> None:
    """The trainer's image has the versions that the examples are tested with on a machine."""
    recipes = image_recipe.RECIPES
    image = image_recipe.requirements((recipes / "trainer.txt").read_text(encoding="utf-8"))
    text = (REPO / "requirements/examples.txt").read_text(encoding="utf-8")
    # Lines for other versions of Python name the same package again.
    ours = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if "==" in line]
    pinned = {line.split()[0] for line in ours}
    for name in ("torch", "numpy", "scikit-learn"):
        assert image[name].split()[0] in pinned

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError
from allranks.layout import inventory_file
from allranks.layout.compute import compute
from allranks.model.inventory import Amount, Taint
from allranks.model.job_spec import JobSpec, PodAmounts

if TYPE_CHECKING:
    from pathlib import Path

FULL = """\
gpuResource: nvidia.com/gpu
nodes:
  - name: gpu-01
    gpus: 8
    cpu: 96
    memory: 1Ti
    free: {gpus: 6, cpu: "40.5", resources: {rdma/hca: 2}}
    gpuType: H100
    rack: r1
    block: b1
    labels: {team: vision}
    taints:
      - {key: nvidia.com/gpu, value: present}
    resources: {rdma/hca: 8}
    schedulable: false
  - name: a100
    count: 3
    gpus: 4
    rack: r2
"""


def write(folder: Path, text: str, name: str = "nodes.yaml") -> Path:
    """A file with this text."""
    path = folder / name
    path.write_text(text)
    return path


def test_the_short_form_is_read_whole(tmp_path: Path) -> None:
    """Every documented key arrives where it belongs, and what is free defaults to all."""
    inventory = inventory_file.load(write(tmp_path, FULL))
    first, *group = inventory.nodes
    assert first.name == "gpu-01"
    assert Amount(8, 6) == first.gpus
    assert Amount(96_000, 40_500) == first.cpu
    assert Amount(2**40, 2**40) == first.memory
    assert {"rdma/hca": Amount(8, 2)} == first.other
    assert ("H100", "r1", "b1") == (first.gpu_type, first.rack, first.block)
    assert (Taint("nvidia.com/gpu", "present", "NoSchedule"),) == first.taints
    assert "not schedulable" == first.blocked
    assert ["a100-0", "a100-1", "a100-2"] == [node.name for node in group]
    assert {Amount(4, 4)} == {node.gpus for node in group}
    assert inventory.gpu_resource == "nvidia.com/gpu"


def test_what_the_short_form_leaves_out_limits_nothing(tmp_path: Path) -> None:
    """An inventory of GPUs alone places a job that asks CPU, memory and adapters too."""
    path = write(tmp_path, "nodes:\n  - {name: gpu, gpus: 8}\n")
    pod = PodAmounts(requests={"cpu": "900", "memory": "9Ti", "rdma/hca": 1})
    layout = compute(
        JobSpec(gpus=8, gpu_resource="amd.com/gpu", pod=pod), inventory_file.load(path)
    )
    assert ["gpu"] == [share.node for share in layout.assignment]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("nodes:\n  - name: a\n    fre: {gpus: 1}\n", 3, "unknown key", "did you mean free?"),
        ("nodes:\n  - name: a\n    gpus: -1\n", 3, "whole number from 0", ""),
        ("nodes:\n  - name: a\n    gpus: 1.5\n", 3, "whole number from 0", ""),
        ("nodes:\n  - name: a\n    gpus: true\n", 3, "whole number from 0", ""),
        ("nodes:\n  - name: a\n    memory: 10 GB\n", 3, "not a Kubernetes quantity", "10G"),
        ("nodes:\n  - name: a\n    cpu: -1\n", 3, "negative", ""),
        ("nodes:\n  - name: a\n    count: 0\n", 3, "whole number from 1", ""),
        ("nodes:\n  - name: a\n    count: 999999999\n", 3, "more than", ""),
        ("nodes:\n  - name: a\n  - gpus: 1\n", 3, "no name", ""),
        ("nodes:\n  - name: 7\n", 2, "a string", 'quote it: "7"'),
        ("nodes:\n  - name: a\n  - name: a\n", 3, "nodes[0]", ""),
        ("nodes:\n  - name: a-1\n  - name: a\n    count: 2\n", 3, "'a-1'", ""),
        ("nodes:\n  - name: a\n    gpus: 4\n    free:\n      gpus: 5\n", 5, "5 is free of 4", ""),
        (
            "nodes:\n  - name: a\n    taints:\n      - {key: k, effect: Never}\n",
            4,
            "effect",
            "NoExec",
        ),
        ("nodes:\n  - name: a\n    taints: [k]\n", 3, "list of mappings", ""),
        ("nodes:\n  - name: a\n    taints: [{value: v}]\n", 3, "no key", ""),
        ("nodes:\n  - name: a\n    labels: {x: 1}\n", 3, "a string", ""),
        ("nodes:\n  - name: a\n    schedulable: maybe\n", 3, "true or false", ""),
        ("nodes:\n  - gpu-1\n", 2, "list of mappings", "- name:"),
        ("nodes: 3\n", 1, "a list of nodes", ""),
        ("nodes:\n  - name: a\n    free: 3\n", 3, "a mapping", ""),
        ("gpus: 3\n", 1, "no inventory", "kubectl"),
        ("items:\n  - {kind: Service}\n", None, "no Node objects, but Service", "kubectl"),
        ("items:\n  - {kind: Node}\n", 2, "metadata.name", "kubectl"),
        ("items: 3\n", 1, "no inventory", ""),
        ('{"nodes": [{"name": "a", "gpus": "x"}]}', 1, "whole number", ""),
        ('{"items": [{"kind": "Node"', 1, "not valid JSON", "cut off"),
        (" \n", None, "empty", "kubectl"),
        ("nodes: [\n", 2, "", ""),
    ],
)
def test_mistakes_are_named_with_their_line(
    tmp_path: Path, text: str, line: int | None, message: str, hint: str
) -> None:
    """A wrong file is refused with file and line, what was expected, and the fix."""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as excinfo:
        inventory_file.load(path)
    problem = excinfo.value.problem
    assert message in problem.message
    assert hint in problem.hint
    assert problem.hint
    assert problem.source == (f"{path}:{line}" if line else str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path as given stands in the error."""
    with pytest.raises(InputError, match="No such file") as excinfo:
        inventory_file.load(tmp_path / "none.yaml")
    assert str(tmp_path / "none.yaml") == excinfo.value.problem.source


def test_binary_content_is_refused(tmp_path: Path) -> None:
    """A file that is not text is the user's mistake, not a traceback."""
    path = tmp_path / "nodes.yaml"
    path.write_bytes(b'{"items": "\xff\xfe\x00"}')
    with pytest.raises(InputError):
        inventory_file.load(path)


def node(name: str, **status: Any) -> dict[str, Any]:
    """A Node object as the API server prints it, as far as it matters here."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "H100"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def pod(node_name: str, gpus: str) -> dict[str, Any]:
    """A running pod with this many GPUs."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": node_name, "containers": [container]},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_kubectl_output_is_read(tmp_path: Path, form: str) -> None:
    """A List of nodes and pods gives what is free, in either format."""
    listing = {"apiVersion": "v1", "kind": "List", "items": [node("a"), node("b"), pod("a", "3")]}
    text = json.dumps(listing, indent=2 if form == "json" else None)
    if form == "yaml":
        text = f"# made by hand\n{text}"
    inventory = inventory_file.load(write(tmp_path, text))
    assert [("a", 1), ("b", 4)] == [(node.name, node.gpus.free) for node in inventory.nodes]
    assert inventory.nodes[0].gpu_type == "H100"
    assert inventory.notes == ()


def test_nodes_without_pods_are_said_to_count_as_empty(tmp_path: Path) -> None:
    """`kubectl get nodes` alone cannot tell what is busy, and the plan says so."""
    listing = {"kind": "NodeList", "items": [{**node("a"), "kind": None}]}
    inventory = inventory_file.load(write(tmp_path, json.dumps(listing)))
    assert inventory.nodes[0].gpus.free == 4
    assert "lists no pods" in inventory.notes[0]


def test_one_node_object_is_an_inventory_too(tmp_path: Path) -> None:
    """`kubectl get node NAME -o json` prints the object without a list."""
    inventory = inventory_file.load(write(tmp_path, json.dumps(node("a"))))
    assert ["a"] == [node.name for node in inventory.nodes]


def test_another_gpu_resource_is_found_in_the_same_file(tmp_path: Path) -> None:
    """A job on MIG slices is fitted although the file was read for whole GPUs."""
    mig = "nvidia.com/mig-1g.10gb"
    allocatable = {"cpu": "8", "memory": "64Gi", mig: "7"}
    path = write(tmp_path, json.dumps({"items": [node("a", allocatable=allocatable)]}))
    spec = JobSpec(gpus=7, gpu_resource=mig, tolerations=({"operator": "Exists"},))
    assert compute(spec, inventory_file.load(path)).gpus_per_node == 7

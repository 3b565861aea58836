"""Every value changes the render: there is no key that the chart reads past."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.values.resolve import resolve
from allranks.values.sources import Sources
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = Path(__file__).parents[3] / "charts/torchrun"
BASE: dict[str, Any] = {
    "image": {"repository": "my/trainer", "tag": "1.4"},
    "command": ["/opt/train.py"],
    "nodes": 2,
}
GPUS = {"gpus": 16, "nodes": 0}
ELASTIC = {"nodes": 0, "torchrun": {"elastic": {"minNodes": 3, "maxNodes": 3}}}

# A base in which a key matters, where the plain one does not do: by path or its longest prefix.
FITTING: dict[str, dict[str, Any]] = {
    "command": {},
    "script": {"command": [], "script": "print(1)"},
    "gpusPerNode": {},
    "nodes": {"nodes": 0},
    "procsPerNode": GPUS | {"gpusPerNode": 8},
    "nodeShape.gpus": GPUS,
    "gpuResource": GPUS,
    "resources.perGpu": GPUS,
    "shm.sizePerGpu": GPUS,
    "queue": {"scheduling": {"dialect": "kueue"}},
    "gpuType.label": GPUS | {"gpuType": {"value": "A100"}},
    "scheduling.gangTimeoutSeconds": {"scheduling": {"dialect": "volcano"}},
    "scheduling.topology": {"scheduling": {"topology": {"mode": "preferred"}}},
    "scheduling.topology.labels.host": {
        "scheduling": {"topology": {"mode": "preferred", "level": "host"}}
    },
    "scheduling.topology.labels.block": {
        "scheduling": {"topology": {"mode": "preferred", "level": "block"}}
    },
    "network.rdma.resources": {"network": {"rdma": {"enabled": True}}},
    "serviceAccount.annotations": {"serviceAccount": {"create": True}},
    "layout": GPUS | {"procsPerNode": 4, "torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}},
    "torchrun.elastic.minNodes": ELASTIC,
    "torchrun.elastic.maxNodes": ELASTIC,
    "torchrun.rdzvEndpoint": {
        "torchrun": {"rdzvBackend": "etcd-v2", "rdzvEndpoint": "other.infra:2379"}
    },
    "torchrun.rdzvBackend": {
        "torchrun": {"rdzvEndpoint": "etcd.infra:2379", "rdzvBackend": "etcd"}
    },
}
for _volume in ("workspace", "datasets", "checkpoints"):
    for _key in ("mountPath", "subPath", "readOnly", "keep", "storageClassName", "accessModes"):
        FITTING[f"storage.{_volume}.{_key}"] = {"storage": {_volume: {"size": "1Gi"}}}
    FITTING[f"storage.{_volume}.sizePerGpu"] = GPUS

# Values of keys that full-values.yaml cannot set beside its others.
OTHER: dict[str, Any] = {
    "image.tag": "2.0",
    "script": "print(2)",
    "procsPerNode": 2,
    "nodes": 3,
    "resources.perPod.requests": {"cpu": "1"},
    "resources.perPod.limits": {"memory": "1Gi"},
    "shm.size": "1Gi",
    "torchrun.controller": "StatefulSet",
    "torchrun.module": True,
    "storage.workspace.size": "1Gi",
    "storage.workspace.sizePerGpu": "1Gi",
    "storage.workspace.storageClassName": "fast",
    "storage.workspace.accessModes": ["ReadOnlyMany"],
    "storage.workspace.keep": True,
    "storage.datasets.existingClaim": "data",
    "storage.datasets.sizePerGpu": "1Gi",
    "storage.checkpoints.existingClaim": "ckpt",
    "storage.checkpoints.size": "1Gi",
    "storage.checkpoints.readOnly": True,
}

# Keys that change no manifest on purpose, and what they do instead.
ELSEWHERE = {
    "workload": "says which chart the file is for; another value is refused",
    "preset": "resolved by the command line; the chart refuses it",
    "nodeShape.cpu": "a bound that the command line checks requests against",
    "nodeShape.memory": "a bound that the command line checks requests against",
}


def leaves(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all values that are not maps with keys of their own."""
    if isinstance(values, dict) and values:
        for key, below in values.items():
            yield from leaves(below, (*path, key))
    else:
        yield path


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at a path."""
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def at(values: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; None where there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


DEFAULTS = load((CHART / "values.yaml").read_bytes(), "values.yaml").data
FULL = load((CHART / "ci/full-values.yaml").read_bytes(), "full-values.yaml").data
LEAVES = [".".join(path) for path in leaves(DEFAULTS)]


def _fitting(path: str) -> dict[str, Any]:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        found = FITTING.get(".".join(parts[:length]))
        if found is not None:
            return found
    return {}


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and value else value
    return result


def _rendered(helm: Any, values: dict[str, Any]) -> str:
    """The manifests without the digest, which changes with every value by design."""
    text: str = helm.render(CHART, values=values)
    return re.sub(r"allranks.dev/values-digest: .*", "", text)


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf not in ELSEWHERE])
def test_every_value_changes_the_render(leaf: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    path = tuple(leaf.split("."))
    value = OTHER.get(leaf, at(FULL, path))
    assert at(DEFAULTS, path) != value, f"{leaf}: full-values.yaml has no other value than default"
    without = _merged(BASE, _fitting(leaf))
    changed = copy.deepcopy(without)
    put(changed, path, value)
    assert _rendered(helm4, without) != _rendered(helm4, changed)


@pytest.mark.parametrize("leaf", sorted(ELSEWHERE))
def test_what_changes_nothing_is_refused_or_known(leaf: str, helm4: Any) -> None:
    """A key that changes no manifest is refused, or is one of two bounds."""
    changed = copy.deepcopy(BASE)
    if leaf.startswith("nodeShape."):
        put(changed, tuple(leaf.split(".")), at(FULL, tuple(leaf.split("."))))
        assert _rendered(helm4, BASE) == _rendered(helm4, changed)
        return
    put(changed, tuple(leaf.split(".")), "mpi")
    said = helm4.refusal(CHART, "--skip-schema-validation", values=changed)
    assert f"ERROR: {leaf}: " in said


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the table above cover each key of values.yaml."""
    missing = [
        leaf
        for leaf in LEAVES
        if leaf not in OTHER and leaf not in ELSEWHERE and at(FULL, tuple(leaf.split("."))) is None
    ]
    assert not missing


def test_ci_files_pass_every_check() -> None:
    """What the chart renders in CI is what the command line accepts."""
    for path in sorted((CHART / "ci").glob("*-values.yaml")):
        assert resolve(Sources(files=(str(path),)), "demo").workload == "torchrun"

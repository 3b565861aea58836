"""Whether every value of a chart changes what is rendered."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Parity:
    """The values of one chart, and in what company each of them matters.

    Attributes:
        chart: the chart's folder.
        base: values that render.
        fitting: a base in which a key matters, where the plain one does not do: by path or its
            longest prefix.
        other: values of keys that full-values.yaml cannot set beside its others.
        elsewhere: keys that change no manifest on purpose, and what they do instead.
    """

    chart: Path
    base: dict[str, Any]
    fitting: Mapping[str, dict[str, Any]]
    other: Mapping[str, Any]
    elsewhere: Mapping[str, str]

    @property
    def defaults(self) -> dict[str, Any]:
        """What values.yaml says."""
        return read(self.chart / "values.yaml")

    @property
    def full(self) -> dict[str, Any]:
        """What full-values.yaml says."""
        return read(self.chart / "ci/full-values.yaml")

    @property
    def keys(self) -> list[str]:
        """Every key of values.yaml, dotted."""
        return [".".join(path) for path in leaves(self.defaults)]

    @property
    def changing(self) -> list[str]:
        """Those that must change the render."""
        return [key for key in self.keys if key not in self.elsewhere]

    def check_change(self, key: str, helm: Any) -> None:
        """A value that differs from its default makes other manifests."""
        path = tuple(key.split("."))
        value = self.other.get(key, at(self.full, path))
        assert at(self.defaults, path) != value, f"{key}: full-values.yaml has the default"
        without = merged(self.base, self._fitting(key))
        changed = copy.deepcopy(without)
        put(changed, path, value)
        assert self._rendered(helm, without) != self._rendered(helm, changed)

    def check_elsewhere(self, key: str, helm: Any, value: str) -> None:
        """A key that changes no manifest is refused, or is there for the command line alone."""
        path = tuple(key.split("."))
        changed = copy.deepcopy(self.base)
        if key.startswith(("nodeShape.", "workspace.")):
            put(changed, path, at(self.full, path))
            assert self._rendered(helm, self.base) == self._rendered(helm, changed)
            return
        put(changed, path, value)
        message = helm.refusal(self.chart, "--skip-schema-validation", values=changed)
        assert f"ERROR: {key}: " in message

    def missing(self) -> list[str]:
        """Keys that neither full-values.yaml nor the tables have another value for."""
        return [
            key
            for key in self.keys
            if key not in self.other
            and key not in self.elsewhere
            and at(self.full, tuple(key.split("."))) is None
        ]

    def _fitting(self, key: str) -> dict[str, Any]:
        parts = key.split(".")
        for length in range(len(parts), 0, -1):
            fitting = self.fitting.get(".".join(parts[:length]))
            if fitting is not None:
                return fitting
        return {}

    def _rendered(self, helm: Any, values: dict[str, Any]) -> str:
        """The manifests without the digest of all values, and without a key made by chance."""
        text = _text(helm, self.chart, json.dumps(values))
        return re.sub(r"(allranks.dev/values-digest|  ssh-privatekey): .*", "", text)


@cache
def _text(helm: Any, chart: Path, values: str) -> str:
    """What helm renders; most keys are compared with one and the same base."""
    text: str = helm.render(chart, values=json.loads(values))
    return text


def read(path: Path) -> dict[str, Any]:
    """The values of a file."""
    values: dict[str, Any] = load(path.read_bytes(), path.name).data
    return values


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


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Values over others, as Helm merges them."""
    result = copy.deepcopy(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and value else value
    return result


# What every workload chart has. GPUs make sizes by GPU matter; a claim needs a size.
GPUS = {"gpus": 16, "nodes": 0}
_VOLUMES = ("workspace", "datasets", "checkpoints")
_DIGEST = "sha256:" + "0123456789abcdef" * 4
FITTING: dict[str, dict[str, Any]] = {
    "workspace.mountPath": {
        "workspace": {
            "snapshot": {
                "digest": _DIGEST,
                "archiveDigest": _DIGEST,
                "compression": "xz",
                "via": "configMap",
                "configMaps": ["ws-0"],
            }
        }
    },
    "command": {},
    "script": {"command": [], "script": "print(1)"},
    "gpusPerNode": {},
    "nodes": {"nodes": 0},
    "procsPerNode": GPUS | {"gpusPerNode": 8},
    "nodeShape.gpus": GPUS,
    "gpuResource": GPUS,
    "resources.perGpu": GPUS,
    "shm.sizePerGpu": GPUS,
    "queue": {"scheduling": {"dialect": "kai"}},
    "queueRef.revision": {"queueRef": {"name": "research"}},
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
    "slurm.unset": {"compat": "slurm"},
    "networkPolicy.from": {"networkPolicy": {"enabled": True}},
}
for _volume in _VOLUMES:
    for _key in ("mountPath", "subPath", "readOnly", "keep", "storageClassName", "accessModes"):
        FITTING[f"storage.{_volume}.{_key}"] = {"storage": {_volume: {"size": "1Gi"}}}
    FITTING[f"storage.{_volume}.sizePerGpu"] = GPUS
    for _key in ("azureFile", "azureBlob"):
        FITTING[f"storage.{_volume}.{_key}"] = {"storage": {_volume: {"size": "1Gi"}}}

OTHER: dict[str, Any] = {
    "image.tag": "2.0",
    "compat": "slurm",  # beside no torchrun.runPath, which full-values.yaml has
    "slurm.unset": ["SLURM_NTASKS_PER_NODE"],
    "networkPolicy.enabled": True,
    "networkPolicy.from": [{"podSelector": {}}],
    "scheduling.dialect": "volcano",
    "script": "print(2)",
    "procsPerNode": 2,
    "nodes": 3,
    "resources.perPod.requests": {"cpu": "1"},
    "resources.perPod.limits": {"memory": "1Gi"},
    "shm.size": "1Gi",
    "storage.workspace.size": "1Gi",
    "storage.workspace.sizePerGpu": "1Gi",
    "storage.workspace.storageClassName": "fast",
    "storage.workspace.accessModes": ["ReadOnlyMany"],
    **{f"storage.{name}.azureFile": {"protocol": "smb"} for name in _VOLUMES},
    **{f"storage.{name}.azureBlob": {"protocol": "fuse2"} for name in _VOLUMES},
    "runPolicy.checkpointSignal": "SIGUSR2",
    "storage.workspace.keep": True,
    "storage.datasets.existingClaim": "data",
    "storage.datasets.sizePerGpu": "1Gi",
    "storage.checkpoints.existingClaim": "ckpt",
    "storage.checkpoints.size": "1Gi",
    "storage.checkpoints.readOnly": True,
}

ELSEWHERE = {
    "workload": "says which chart the file is for; another value is refused",
    "preset": "resolved by the command line; the chart refuses it",
    "nodeShape.cpu": "a bound that the command line checks requests against",
    "nodeShape.memory": "a bound that the command line checks requests against",
    "nodeShape.gpuTflops": "what a preflight of torchrun expects",
    "nodeShape.gpuMemoryGBps": "what a preflight of torchrun expects",
    "workspace.via": "how the command line sends a workspace; what it sent is the snapshot",
    "workspace.registry": "where the command line pushes a workspace",
    "workspace.claim": "where the command line puts a workspace",
}

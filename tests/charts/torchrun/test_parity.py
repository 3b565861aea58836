"""Every value changes the render: there is no key that the chart reads past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allranks.values.resolve import resolve
from allranks.values.sources import Sources
from tests.charts.shared.parity import ELSEWHERE, FITTING, GPUS, OTHER, Parity

ELASTIC = {"nodes": 0, "torchrun": {"elastic": {"minNodes": 3, "maxNodes": 3}}}
PREFLIGHT = {"torchrun": {"preflight": {"level": "quick"}}}
TORCHRUN = Parity(
    chart=Path(__file__).parents[3] / "charts/torchrun",
    base={
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["/opt/train.py"],
        "nodes": 2,
    },
    fitting=FITTING
    | {
        "layout": GPUS
        | {"procsPerNode": 4, "torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}},
        "torchrun.preflight": PREFLIGHT,
        "nodeShape.gpuTflops": PREFLIGHT,
        "nodeShape.gpuMemoryGBps": PREFLIGHT,
        "runPolicy.onStall": {"runPolicy": {"stallSeconds": 600}},
        "torchrun.rankPrefix": {"procsPerNode": 2},
        "torchrun.elastic.minNodes": ELASTIC,
        "torchrun.elastic.maxNodes": ELASTIC,
        "torchrun.rdzvEndpoint": {
            "torchrun": {"rdzvBackend": "etcd-v2", "rdzvEndpoint": "other.infra:2379"}
        },
        "torchrun.rdzvBackend": {
            "torchrun": {"rdzvEndpoint": "etcd.infra:2379", "rdzvBackend": "etcd"}
        },
    },
    other=OTHER
    | {
        "torchrun.controller": "StatefulSet",
        "torchrun.module": True,
        "torchrun.spares": 1,
        "torchrun.restartsInPlace": 2,
        "torchrun.torchft.lighthouse": "lighthouse-master:29510",
    },
    elsewhere={key: why for key, why in ELSEWHERE.items() if not key.startswith("nodeShape.gpu")},
)


@pytest.mark.parametrize("key", TORCHRUN.changing)
def test_every_value_changes_the_render(key: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    TORCHRUN.check_change(key, helm4)


@pytest.mark.parametrize("key", sorted(TORCHRUN.elsewhere))
def test_what_changes_nothing_is_refused_or_known(key: str, helm4: Any) -> None:
    """A key that changes no manifest is refused, or is one of two bounds."""
    TORCHRUN.check_elsewhere(key, helm4, value="mpi")


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the tables cover each key of values.yaml."""
    assert not TORCHRUN.missing()


def test_ci_files_pass_every_check() -> None:
    """What the chart renders in CI is what the command line accepts."""
    for path in sorted((TORCHRUN.chart / "ci").glob("*-values.yaml")):
        assert resolve(Sources(files=(str(path),)), "demo").workload == "torchrun"

"""Every value changes the render: there is no key that the chart reads past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allranks.values.resolve import resolve
from allranks.values.sources import Sources
from tests.charts.shared.parity import ELSEWHERE, FITTING, GPUS, OTHER, Parity

HOROVOD = {"nodes": 0, "command": ["horovodrun", "x"]}
ELASTIC = HOROVOD | {"mpi": {"elastic": {"minNodes": 3, "maxNodes": 3}}}
MPI = Parity(
    chart=Path(__file__).parents[3] / "charts/mpi",
    base={
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["/opt/train.py"],
        "nodes": 2,
        "mpi": {"ssh": {"existingSecret": "key"}},
    },
    fitting=FITTING
    | {
        "layout": HOROVOD
        | GPUS
        | {"procsPerNode": 4, "mpi": {"elastic": {"minNodes": 2, "maxNodes": 4}}},
        "mpi.elastic.minNodes": ELASTIC,
        "mpi.elastic.maxNodes": ELASTIC,
        "mpi.numWorkers": {"nodes": 0},
        "runPolicy.onStall": {"runPolicy": {"stallSeconds": 600}},
        "mpi.np": {"procsPerNode": 4},
        "mpi.transport": {"mpi": {"ssh": {"existingSecret": ""}}},
    },
    other=OTHER
    | {"mpi.transport": "exec", "mpi.mpirunArgs": ["--bind-to", "none"]}
    | {"mpi.numWorkers": 3, "mpi.ownMpirun": True},
    elsewhere=ELSEWHERE | {},
)


@pytest.mark.parametrize("key", MPI.changing)
def test_every_value_changes_the_render(key: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    MPI.check_change(key, helm4)


@pytest.mark.parametrize("key", sorted(MPI.elsewhere))
def test_what_changes_nothing_is_refused_or_known(key: str, helm4: Any) -> None:
    """A key that changes no manifest is refused, or is one of two bounds."""
    MPI.check_elsewhere(key, helm4, value="torchrun")


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the tables cover each key of values.yaml."""
    assert not MPI.missing()


def test_ci_files_pass_every_check() -> None:
    """What the chart renders in CI is what the command line accepts."""
    for path in sorted((MPI.chart / "ci").glob("*-values.yaml")):
        assert resolve(Sources(files=(str(path),)), "demo").workload == "mpi"

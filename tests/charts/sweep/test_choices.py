"""What a parameter sets by its path: `validate` and the chart say the same of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli.main import main
from allranks.yamlio.dump import dump
from tests.charts.shared import rendered

if TYPE_CHECKING:
    from pathlib import Path

# Each path with choices that a trial may have, and with one that it may not have.
CHOICES: list[tuple[str, list[Any], Any]] = [
    ("activeDeadlineSeconds", [], 1),
    ("annotations.a", ["any text"], None),
    ("env.A.valueFrom.secretKeyRef.name", [], "x"),
    ("gpuResource", ["amd.com/gpu"], "gpu"),
    ("image.digest", ["sha256:" + "0" * 64], "sha256:0"),
    ("image.pullPolicy", ["Always", "Never"], "Sometimes"),
    ("image.repository", ["ghcr.io/my/trainer"], "a,b"),
    ("image.tag", ["1.0", 2], "bad tag!"),
    ("labels.team", ["vision", ""], "a b"),
    ("network.hostNetwork", [True, False], "maybe"),
    ("nodes", [1], 2),
    ("nodes", [1], 100001),
    ("procsPerNode", [1, "2", 3.0], 2.5),
    ("resources.perPod.requests.cpu", [1, "500m"], "x"),
    ("resources.perPod.requests.memory", ["1Gi"], "much"),
    ("runPolicy.activeDeadlineSeconds", [0, 60], -1),
    ("runPolicy.backoffLimit", [0, 2147483647], 2147483648),
    ("scheduling.dialect", ["none", "kai"], "slurm"),
    ("scheduling.dialect", ["none"], "kueue"),
    ("scheduling.nodeSelector.disk", ["ssd"], "-"),
    ("serviceAccount.name", ["trainer"], "Trainer"),
    ("shm.size", ["1Gi", ""], "banana"),
    ("status.enabled", ["auto"], "often"),
    ("torchrun.maxRestarts", [0, 1], -1),
    ("torchrun.monitorInterval", [0.5, 2], "soon"),
    ("torchrun.port", [29400], 70000),
    ("torchrun.controller", ["Job"], "StatefulSet"),
    ("torchrun.numaBinding", ["node", ""], "cpu"),
    ("workingDir", ["/work"], "work"),
]


@pytest.mark.parametrize("row", CHOICES, ids=[row[0] for row in CHOICES])
def test_one_verdict_of_a_choice(
    row: tuple[str, list[Any], Any], helm: Any, repo: Path, tmp_path: Path, capsys: Any
) -> None:
    """A choice that `validate` refuses the chart refuses, too; and it takes each of the others."""
    path, good, bad = row
    for choices in (good, [*good, bad] if bad is not None else []):
        if not choices:
            continue
        values = _values(path, choices)
        (tmp_path / "v.yaml").write_text(dump(values), encoding="utf-8")
        code = main(["validate", "-f", str(tmp_path / "v.yaml")])
        output = capsys.readouterr()
        words = ("template", "demo", repo / "charts/sweep", "-f", tmp_path / "v.yaml")
        process = helm.run(*words, check=False)
        is_good = bad not in choices
        assert (code == 0) is is_good, output
        assert (process.returncode == 0) is is_good, process.stderr
        assert is_good or "ERROR: " in process.stderr


def _values(path: str, choices: list[Any]) -> dict[str, Any]:
    workload = "torchrun" if path.startswith("torchrun.") else ""
    section = {"parameters": {"a": {"values": choices, "path": path}}}
    return rendered.minimal("sweep") | {
        "workload": "sweep",
        "sweep": {"trial": {"workload": workload}, **section},
    }

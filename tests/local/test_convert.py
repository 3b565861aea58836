"""`convert`, then `run --on local`: what was written for another controller trains here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .conftest import metrics

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_TRAIN = """
import json, os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor(float(os.environ["SCALE"]) * (dist.get_rank() + 1))
dist.all_reduce(total)
line = {"total": total.item(), "rank": dist.get_rank(), "words": sys.argv[1:]}
print(json.dumps(line), flush=True)
dist.destroy_process_group()
"""
_POD = """\
restartPolicy: Never
          containers:
          - name: pytorch
            image: any
            env: [{name: SCALE, value: "10"}]
            command:
            - bash
            - -c
            - >-
              torchrun --nnodes 2 --nproc_per_node 2 --node_rank RANK
              --rdzv_backend c10d --rdzv_endpoint HOST:23456 --rdzv_id x PROGRAM --lr 1e-5 "a b"
"""
_PYTORCH = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: old}}
spec:
  nprocPerNode: "2"
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          {_POD}"""
_INDEXED = f"""\
apiVersion: v1
kind: Service
metadata: {{name: peers}}
spec: {{clusterIP: None, selector: {{job-name: old}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: old}}
spec:
      completionMode: Indexed
      completions: 2
      parallelism: 2
      template:
        spec:
          subdomain: peers
          {_POD}"""
JOBS = [
    pytest.param(_PYTORCH, "$RANK", "$MASTER_ADDR", id="PyTorchJob"),
    pytest.param(_INDEXED, "$JOB_COMPLETION_INDEX", "old-0.peers", id="Job"),
]


@pytest.mark.parametrize(("text", "rank", "host"), JOBS)
def test_a_converted_job_trains(
    command_line: CommandLine, tmp_path: Path, text: str, rank: str, host: str
) -> None:
    """Its ranks meet in our rendezvous, with the words and variables of the old job."""
    (tmp_path / "train.py").write_text(_TRAIN, encoding="utf-8")
    for name, value in (("RANK", rank), ("HOST", host), ("PROGRAM", str(tmp_path / "train.py"))):
        text = text.replace(f" {name}", f" {value}")
    old, values = tmp_path / "old.yaml", tmp_path / "values.yaml"
    old.write_text(text.replace(" HOST:", f" {host}:"), encoding="utf-8")
    command_line("convert", old, "-o", values)
    ended = command_line("run", "old", "-f", values, "--on", "local")
    lines = sorted(metrics(ended.stdout), key=lambda line: line["rank"])
    assert [(rank, 100.0) for rank in range(4)] == [(line["rank"], line["total"]) for line in lines]
    assert {("--lr", "1e-5", "a b")} == {tuple(line["words"]) for line in lines}

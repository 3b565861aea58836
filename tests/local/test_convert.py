"""`convert`, then `run --on local`: what was written for another controller trains here.

PyTorchJob, Job and TorchrunJob under torchrun, MPIJob under mpirun, TFJob with a parameter server
that its workers find by TF_CONFIG, and a Katib Experiment as a sweep.
"""

from __future__ import annotations

import re
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import metrics, one_by_one

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
# In one write: processes of a pod share its log, and print() writes the line's end apart.
sys.stdout.write(json.dumps(line) + "\\n")
sys.stdout.flush()
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
_TORCHRUN = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: old}
spec:
  image: any
  numNodes: 2
  env: [{name: SCALE, value: "10"}]
  command: python PROGRAM --lr 1e-5 "a b"
"""
JOBS = [
    pytest.param(_PYTORCH, 4, ("$RANK", "$MASTER_ADDR"), id="PyTorchJob"),
    pytest.param(_INDEXED, 4, ("$JOB_COMPLETION_INDEX", "old-0.peers"), id="Job"),
    pytest.param(_TORCHRUN, 2, ("", ""), id="TorchrunJob"),
]


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize(("text", "ranks", "place"), JOBS)
def test_a_converted_job_trains(
    command_line: CommandLine, tmp_path: Path, text: str, ranks: int, place: tuple[str, str]
) -> None:
    """Its ranks meet in our rendezvous, with the words and variables of the old job."""
    rank, host = place
    (tmp_path / "train.py").write_text(_TRAIN, encoding="utf-8")
    for name, value in (("RANK", rank), ("HOST", host), ("PROGRAM", str(tmp_path / "train.py"))):
        text = text.replace(f" {name}", f" {value}")
    old, values = tmp_path / "old.yaml", tmp_path / "values.yaml"
    old.write_text(text.replace(" HOST:", f" {host}:"), encoding="utf-8")
    command_line("convert", old, "-o", values)
    ended = command_line("run", "old", "-f", values, "--on", "local")
    lines = sorted(metrics(ended.stdout), key=lambda line: line["rank"])
    total = 10.0 * ranks * (ranks + 1) / 2
    assert [(rank, total) for rank in range(ranks)] == [
        (line["rank"], line["total"]) for line in lines
    ]
    assert {("--lr", "1e-5", "a b")} == {tuple(line["words"]) for line in lines}


@pytest.mark.usefixtures("warm_ranks")
def test_ranks_meet_at_a_port_of_their_programs_own(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """Rank 0 opens a store there, beside that of torchrun, which shares none with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"[bash, -c, 'export MASTER_PORT={port}; exec python PROGRAM a']"
    text = _PYTORCH[: _PYTORCH.index("            command:")] + f"            command: {command}\n"
    lines = _run(command_line, tmp_path, text.replace('  nprocPerNode: "2"\n', ""), _TRAIN)
    assert [30.0, 30.0] == [line["total"] for line in lines]


_SUM = """
import json, os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(float(os.environ["SCALE"]) * (world.rank + 1))
sys.stdout.write(json.dumps({"total": total, "rank": world.rank, "words": sys.argv[1:]}) + "\\n")
"""
_MPI = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: old}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: launcher
            image: any
            command: [mpirun, -n, "4", -x, SCALE, PYTHON, PROGRAM, a b]
            env: [{name: SCALE, value: "10"}]
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: worker, image: any}]}}
"""


# Pods without an operator, of which the first calls mpirun.
_FIRST_POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: old}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: old
      restartPolicy: Never
      containers:
      - name: m
        image: any
        env: [{name: SCALE, value: "10"}]
        command:
        - bash
        - -c
        - |
          if [ "$JOB_COMPLETION_INDEX" = 0 ]; then
            mpirun -n 4 -H old-0.old:2,old-1.old:2 -x SCALE PYTHON PROGRAM "a b"
          else
            /usr/sbin/sshd -D
          fi
"""


@one_by_one
@pytest.mark.parametrize("text", [_MPI, _FIRST_POD], ids=["MPIJob", "Job"])
def test_a_converted_mpijob_trains(command_line: CommandLine, tmp_path: Path, text: str) -> None:
    """Its mpirun starts a rank in each slot of the chart's hosts, with the launcher's variables."""
    lines = _run(command_line, tmp_path, text, _SUM)
    lines.sort(key=lambda line: line["rank"])
    assert [(rank, 100.0, ["a b"]) for rank in range(4)] == [
        (line["rank"], line["total"], line["words"]) for line in lines
    ]


# A weight that the server keeps, and two workers that pull and push it.
_SERVED = """
import json, os, socket, time

told = json.loads(os.environ["TF_CONFIG"])
host, port = told["cluster"]["ps"][0].rsplit(":", 1)
pushes = 20 * len(told["cluster"]["worker"])
if told["task"]["type"] == "ps":
    weight = 0.0
    with socket.create_server(("", int(port))) as server:
        while pushes:
            with server.accept()[0] as peer, peer.makefile("rw") as lines:
                step = float(lines.readline())
                weight, pushes = weight - step, pushes - bool(step)
                lines.write(f"{weight}\\n")
                lines.flush()
else:
    def ask(step):
        while True:
            try:
                with socket.create_connection((host, int(port))) as peer:
                    peer.sendall(f"{step}\\n".encode())
                    return float(peer.recv(100))
            except OSError:
                time.sleep(0.05)

    weight = ask(0.0)
    for _ in range(20):
        weight = ask(0.2 * (weight - 3) or 1e-9)
    line = {"worker": told["task"]["index"], "loss": (weight - 3) ** 2}
    print(json.dumps(line), flush=True)
"""
_TF = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: old}
spec:
  tfReplicaSpecs:
    PS: {replicas: 1, template: &pod {spec: {containers: [
      {name: tensorflow, image: any, command: [PYTHON, PROGRAM]}]}}}
    Worker: {replicas: 2, template: *pod}
"""


def test_a_converted_tfjob_trains(command_line: CommandLine, tmp_path: Path) -> None:
    """Its roles find each other by TF_CONFIG, and the job ends when its first worker has."""
    losses = {line["worker"]: line["loss"] for line in _run(command_line, tmp_path, _TF, _SERVED)}
    assert losses[0] < 0.1


_FIT = """
import sys

rate, weight = float(sys.argv[1].removeprefix("--lr=")), 0.0
for _ in range(5):
    weight -= rate * 2 * (weight - 3)
print(f"loss={(weight - 3) ** 2}", flush=True)
"""
_KATIB = """\
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: old}
spec:
  objective: {type: minimize, objectiveMetricName: loss}
  algorithm: {algorithmName: grid}
  maxTrialCount: 2
  parallelTrialCount: 2
  parameters:
  - {name: lr, parameterType: double, feasibleSpace: {min: "0.1", max: "0.4", step: "0.3"}}
  trialTemplate:
    trialParameters: [{name: rate, reference: lr}]
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - {name: t, image: any, command: [PYTHON, PROGRAM, "--lr=${trialParameters.rate}"]}
"""


def test_a_converted_experiment_searches(command_line: CommandLine, tmp_path: Path) -> None:
    """Each trial trains with parameters of its own, and the least loss is the best."""
    values = _converted(command_line, tmp_path, _KATIB, _FIT)
    command_line("sweep", "run", "old", "-f", values, "--on", "local")
    text = command_line("sweep", "results", "old", "--best", "-o", "yaml").stdout
    assert "--lr=0.4" in text


def _converted(command_line: CommandLine, folder: Path, text: str, program: str) -> Path:
    """The values of a manifest that names its program PROGRAM and its Python PYTHON."""
    (folder / "train.py").write_text(program, encoding="utf-8")
    text = re.sub(r"\bPROGRAM\b", str(folder / "train.py"), text)
    old, values = folder / "old.yaml", folder / "values.yaml"
    old.write_text(re.sub(r"\bPYTHON\b", sys.executable, text), encoding="utf-8")
    command_line("convert", old, "-o", values)
    return values


def _run(command_line: CommandLine, folder: Path, text: str, program: str) -> list[dict[str, Any]]:
    """The lines of JSON that a converted job writes."""
    values = _converted(command_line, folder, text, program)
    return metrics(command_line("run", "old", "-f", values, "--on", "local").stdout)

"""An MPI job through the program: its starter, and its manifests without a private key."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from allranks.yamlio import load

pytestmark = pytest.mark.usefixtures("forked")

CPUS = {
    "gpus: 16\ngpusPerNode: 8\n": "gpus: 0\nnodes: 2\nprocsPerNode: 4\n",
    "  sizePerGpu: 8Gi\n": "  size: 8Gi\n",
    '  perGpu:\n    cpu: "8"\n    memory: 64Gi\n': (
        '  perPod: {requests: {cpu: "8", memory: 16Gi}}\n'
    ),
}
REST = {"gpus: 16\n": "gpus: 12\n"}
MPIRUN = {
    'command: [python, train.py]\nargs: ["--lr", "1e-3"]\n': (
        'command: [mpirun, -np, "8", python, train.py]\n'
    )
}
EXEC = {"transport: ssh": "transport: exec"}
ROOT = {"restricted: true": "podSecurityContext: {runAsUser: 1000}"}


def changed(text: str, changes: dict[str, str]) -> str:
    """A starter as its comments say that it may be changed."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "2 nodes x 8 nvidia.com/gpu, 16 processes: python train.py --lr 1e-3"),
        (CPUS, "2 nodes, 8 processes"),
        (REST, "2 nodes x 8 nvidia.com/gpu (4 on the last), 12 processes"),
        (MPIRUN, "room for 16 processes: mpirun -np 8 python train.py"),
        (EXEC, "16 processes"),
        (ROOT, "16 processes"),
        ({"runLauncherAsWorker: false": "runLauncherAsWorker: true"}, "16 processes"),
    ],
)
def test_the_starter_and_its_hints_are_right(cli: Any, changes: dict[str, str], says: str) -> None:
    """What `init` prints passes every check and renders, and so does each change it names."""
    cli.write(changed(cli("init", "mpi").stdout, changes))
    process = cli("validate", "-f", "values.yaml")
    assert (0, "") == (process.returncode, process.stderr)
    assert says in process.stdout
    assert 0 == cli("render", "demo", "-f", "values.yaml").returncode


def test_manifests_hold_no_private_key(cli: Any) -> None:
    """They name a Secret, are the same each time, and a note says how it is made."""
    cli.write(cli("init", "mpi").stdout)
    process = cli("render", "demo", "-f", "values.yaml", "-n", "ml")
    assert "Secret" not in {document["kind"] for document in load.load_all(process.stdout)}
    assert "secretName: demo-ssh" in process.stdout
    assert "kubectl create secret generic demo-ssh --namespace ml " in process.stderr
    assert process.stdout == cli("render", "demo", "-f", "values.yaml", "-n", "ml").stdout


def test_a_secret_of_the_persons_own_is_named(cli: Any) -> None:
    """`mpi.ssh.existingSecret` stays what it is, and there is nothing to say."""
    cli.write(cli("init", "mpi").stdout)
    process = cli("render", "demo", "-f", "values.yaml", "--set", "mpi.ssh.existingSecret=mine")
    assert (0, "") == (process.returncode, process.stderr)
    assert "secretName: mine" in process.stdout


def test_the_commands_of_the_note_make_the_secret(cli: Any) -> None:
    """They run as they stand: the key is made, given to kubectl, and removed."""
    cli.write(cli("init", "mpi").stdout)
    note = cli("render", "demo", "-f", "values.yaml", "-n", "ml").stderr
    cli.write('#!/bin/sh\nprintf "%s\\n" "$@" | tee called >&2; cat ssh-key\n', "kubectl")
    (cli.cwd / "kubectl").chmod(0o755)
    command = note.rpartition("made once with: ")[2]
    process = subprocess.run(
        ["sh", "-ec", f'PATH="$PWD:$PATH"\n{command}'],
        cwd=cli.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PRIVATE KEY" in process.stdout
    words = (cli.cwd / "called").read_text().splitlines()
    assert ["create", "secret", "generic", "demo-ssh"] == words[:4]
    assert not list(cli.cwd.glob("ssh-key*"))


def test_a_plan_has_the_last_node(cli: Any) -> None:
    """A rest of GPUs is a row of its own, with the last ranks."""
    cli.write(changed(cli("init", "mpi").stdout, REST))
    table = cli("plan", "-f", "values.yaml").stdout
    assert "8 per node (4 on the last), 12 in all" in table
    layout = json.loads(cli("plan", "-f", "values.yaml", "-o", "json").stdout)
    assert (4, 4) == (layout["lastGpusPerNode"], layout["lastProcsPerNode"])


_SMALL = "workload=mpi,image.repository=x,image.tag=v1,command={x}"


def test_fewer_processes_than_slots_are_planned_as_they_start(cli: Any) -> None:
    """`mpi.np: 4` on three workers with two slots is four processes, on two of them."""
    size = ["--set", f"{_SMALL},mpi.numWorkers=3,mpi.slotsPerWorker=2,mpi.np=4"]
    output = cli("plan", *size).stdout
    assert "processes  4 in all (mpi.np), on 6 slots" in output
    rows = [line.split() for line in output.splitlines()[-3:]]
    assert [["0-1", "worker-0", "2"], ["2-3", "worker-1", "2"], ["worker-2", "0"]] == rows
    assert "3 nodes, 4 processes: x" in cli("validate", *size).stdout
    assert 4 == json.loads(cli("plan", *size, "-o", "json").stdout)["processes"]

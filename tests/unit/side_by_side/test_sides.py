"""How a job begins on a node of Slurm's, and in the pods that are made of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.side_by_side import missing, pods, slurm_job
from tests.side_by_side.filesystem import SUBMIT_FOLDER, Site

MANIFESTS: list[dict[str, Any]] = [
    {"kind": "Service"},
    {
        "kind": "ConfigMap",
        "metadata": {"name": "run"},
        "data": {"entry.sh": "allranks_setup() { :; }\n# --- torchrun: more\nexec launch\n"},
    },
    {
        "kind": "Job",
        "metadata": {"name": "run"},
        "spec": {
            "completions": 2,
            "template": {
                "spec": {
                    "subdomain": "run",
                    "volumes": [{"name": "entry", "configMap": {"name": "run"}}],
                    "containers": [
                        {
                            "command": ["sh", "/etc/allranks/entry.sh"],
                            "args": ["$(SLURM_JOB_ID)", "$$(A)", "$(B)"],
                            "volumeMounts": [{"name": "entry", "mountPath": "/etc/allranks"}],
                            "env": [
                                {"name": "SLURM_JOB_ID", "value": "77"},
                                {"name": "SLURM_JOB_NODELIST", "value": "run-[0-1].run"},
                                {"name": "SLURM_NTASKS_PER_NODE", "value": "4"},
                                {
                                    "name": "ALLRANKS_NODE_RANK",
                                    "valueFrom": {"fieldRef": {"fieldPath": "job-index"}},
                                },
                            ],
                        }
                    ],
                }
            },
        },
    },
]


def test_a_pod_is_started_as_the_kubelet_does() -> None:
    """With its variables expanded, its index, and its chart's entry up to the launcher."""
    side = pods.side(MANIFESTS)
    assert ("run-0.run", "run-1.run") == side.hosts
    assert {"run-[0-1].run": ["run-0.run", "run-1.run"]} == side.hostlists
    assert 4 == side.slots
    first, second = side.commands
    assert ("sh", "/etc/allranks/entry.sh", "77", "$(A)", "$(B)") == first.words
    assert ["0", "1"] == [c.environment["ALLRANKS_NODE_RANK"] for c in (first, second)]
    assert ["run-0", "run-1"] == [c.environment["HOSTNAME"] for c in (first, second)]
    entry = side.files["/etc/allranks/entry.sh"]
    assert entry.startswith("allranks_setup() { :; }")
    assert "exec launch" not in entry
    assert "allranks-launcher" in entry


def test_a_script_is_started_as_the_manual_of_sbatch_says() -> None:
    """On nodes of the pods' names, with the variables of the options that it has."""
    text = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=2 -D data\nsrun a\n"
    side = slurm_job.side("job.sbatch", text, ["x"], pods.side(MANIFESTS))
    (command,) = side.commands
    assert (slurm_job.SCRIPT, "x") == command.words
    assert f"{SUBMIT_FOLDER}/data" == command.folder
    assert ("run-0.run", "run-1.run") == side.hosts
    variables = {
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NAME": "job.sbatch",
        "SLURM_JOB_NODELIST": "run-[0-1].run",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "SLURM_GPUS_PER_NODE": "2",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURMD_NODENAME": "run-0",
    }
    assert variables == {name: command.environment[name] for name in variables}
    assert "SLURM_CPUS_PER_TASK" not in command.environment


@pytest.mark.parametrize(
    ("errors", "programs", "folders", "scripts"),
    [
        ("x: line 3: solve: command not found", {"solve"}, set(), set()),
        ("x: line 3: cd: data: No such file or directory", set(), {"/w/data"}, set()),
        ("bash: run.sh: No such file or directory", set(), set(), {"/w/run.sh"}),
        ("x: line 9: /a/b/../c: No such file or directory", set(), {"/a/b"}, {"/a/c"}),
        ("launcher: ./a.out: No such file or directory", set(), set(), {"/w/a.out"}),
        ("x: line 1: exec: solve: not found", {"solve"}, set(), set()),
        ("tee: logs/a.log: No such file or directory", set(), {"/w/logs"}, set()),
        ("cat: list: No such file or directory", set(), set(), set()),
        ("x: line 1: /proc/x: No such file or directory", set(), set(), set()),
    ],
)
def test_what_a_shell_misses_is_made(
    errors: str, programs: set[str], folders: set[str], scripts: set[str]
) -> None:
    """By its words: a program on PATH, a folder, or a file that can be run."""
    site = Site(set(), set(), set())
    assert bool(programs | folders | scripts) == missing.add(site, errors, ["/w"])
    assert (programs, folders, scripts) == (site.programs, site.folders, site.scripts)

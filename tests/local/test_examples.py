"""Every example, run as its README says, by the real command line with real torchrun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from allranks import names
from allranks.local.host import addresses
from allranks.yamlio.load import load_all

from .conftest import CommandLine, metrics, port_base

if TYPE_CHECKING:
    import subprocess

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

REPO = Path(__file__).parents[2]
DIGITS = REPO / "examples/torchrun-digits/values.yaml"


@pytest.fixture
def allranks(command_line: CommandLine) -> CommandLine:
    """The command line, with a port of its own for each run."""
    port = f"torchrun.port={addresses.free_port(port_base() + 400)}"

    def run(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        return command_line(*words, *(("--set", port) if words[0] == "run" else ()), code=code)

    return run


def test_digits_train_resume_and_leave_nothing_but_the_checkpoint(
    allranks: CommandLine, tmp_path: Path
) -> None:
    """Two nodes of two processes reach 95 %, save each epoch, and go on from what was saved.

    They do after 18 of the example's 30 epochs.
    """
    words = ("run", "digits", "-f", DIGITS, "--on", "local", "--set-literal")
    first = metrics(allranks(*words, "args[1]=1", "--set-literal", "args[5]=0").stdout)
    assert [1] == [line["epoch"] for line in first if "loss" in line]

    second = metrics(allranks(*words, "args[1]=18", "--replace").stdout)
    assert {"resumed": True, "epoch": 1, "epochs": 18} == second[0]
    assert list(range(2, 19)) == [line["epoch"] for line in second if "loss" in line]
    final = second[-1]
    assert (True, 4, "gloo") == (final["final"], final["world_size"], final["backend"])
    assert final["accuracy"] >= 0.95

    status = json.loads(allranks("status", "digits", "--on", "local", "-o", "json").stdout)
    assert "Succeeded" == status["phase"]
    assert "epoch 18 of 18 (100%)" == status["progress"]["text"]
    logs = allranks("logs", "digits", "--on", "local", "--rank", "0").stdout
    assert final in metrics(logs)

    deleted = allranks("delete", "digits", "--on", "local").stdout
    assert "kept PersistentVolumeClaim/digits-checkpoints" in deleted
    (checkpoint,) = tmp_path.rglob("checkpoint.pt")
    assert "volumes" in checkpoint.parts
    allranks("status", "digits", "--on", "local", code=2)


def test_digits_below_the_wanted_accuracy_fail_at_once(
    allranks: CommandLine,
) -> None:
    """The exit code for "too inaccurate" is fatal: no retry, and it is the job's own exit code."""
    words = ("run", "digits", "-f", DIGITS, "--on", "local", "--set-literal", "args[1]=1")
    process = allranks(*words, code=3)
    assert "exit code 3" in process.stdout
    logs = allranks("logs", "digits", "--on", "local", "--rank", "0").stdout
    assert 1 == len([line for line in metrics(logs) if "final" in line])


def test_a_teams_queue_completes_a_job_and_holds_it_to_its_rules(command_line: CommandLine) -> None:
    """From its file, without a cluster: what the README says of the job, and of a larger one."""
    folder = REPO / "examples/queue-team"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    files = ("-f", folder / "job.yaml", "-q", "h100", "--queue-file", folder / "queue.yaml")
    assert "2 nodes x 8 nvidia.com/gpu" in command_line("validate", *files).stdout
    refused = command_line("validate", *files, "--set", "gpus=64", code=2).stderr
    (promise,) = (line.strip() for line in readme.splitlines() if "are more than" in line)
    assert promise in refused
    manifests = load_all(command_line("render", "demo", *files, "-n", "research").stdout)
    (job,) = (manifest for manifest in manifests if manifest and manifest["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    queue = yaml.safe_load((folder / "queue.yaml").read_text(encoding="utf-8"))
    assert "h100" == job["metadata"]["labels"][names.QUEUE]
    assert queue["imposed"]["scheduling"]["tolerations"][0] in pod["tolerations"]
    image = queue["defaults"]["image"]
    assert f"{image['repository']}:{image['tag']}" == pod["containers"][0]["image"]
    claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["volumes"]]
    assert queue["defaults"]["storage"]["checkpoints"]["existingClaim"] in claims


def test_a_submitted_folder_trains_and_is_given_back(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """Two nodes train with a copy of the folder, which `show` gives back with all of its files."""
    folder = REPO / "examples/submit-folder"
    port = f"torchrun.port={addresses.free_port(port_base() + 400)}"
    words = ("submit", "spirals", "--on", "local", "--nodes", "2", "--workspace", folder)
    process = command_line(*words, "--set", port, "--", "python", "train.py", "--steps", "200")
    final = metrics(process.stdout)[-1]
    assert (True, 2) == (final["final"], final["ranks"])
    assert final["accuracy"] >= 0.9
    command_line("show", "spirals", "--on", "local", "--code", tmp_path / "ran")
    assert {"README.md", "model.py", "train.py"} == {
        path.name for path in (tmp_path / "ran").iterdir()
    }
    for path in (tmp_path / "ran").iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    command_line("delete", "spirals", "--on", "local")


def test_a_sharded_checkpoint_serves_another_number_of_ranks(
    allranks: CommandLine,
) -> None:
    """What two ranks have saved, each its part, three go on from; `timeline` knows of the save."""
    values = REPO / "examples/torchrun-dcp/values.yaml"
    words = ("run", "dcp", "-f", values, "--on", "local", "--set-literal")
    first = metrics(allranks(*words, "args[1]=12").stdout)
    assert (12, 2) == (first[-1]["step"], first[-1]["world_size"])
    timeline = json.loads(allranks("timeline", "dcp", "--on", "local", "-o", "json").stdout)
    saves = [moment for moment in timeline["moments"] if moment["name"] == "saved"]
    assert "step 12" == saves[-1]["detail"]

    ranks = ("--set", "nodes=1", "--set", "procsPerNode=3")
    second = metrics(allranks(*words, "args[1]=14", "--replace", *ranks).stdout)
    assert {"resumed": True, "step": 12, "world_size": 3} == second[0]
    assert (14, 3) == (second[-1]["step"], second[-1]["world_size"])

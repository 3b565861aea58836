"""A folder of code in real pods: submitted, shown again, and renewed while they train."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from allranks import names
from tests import workspaces

from .conftest import until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Allranks, Lab

pytestmark = [pytest.mark.timeout(900)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code that trains for ever."""
    folder = tmp_path / "research"
    (folder / "package/empty").mkdir(parents=True)
    shown = "import os, sys\nfrom package import inner\nprint(os.getcwd(), sys.argv[1:])\n"
    (folder / "train.py").write_text(shown + workspaces.training(last=2))
    (folder / "code_version.py").write_text("NUMBER = 1\n")
    (folder / "package/inner.py").write_text("")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def _submit(allranks: Allranks, folder: Path) -> str:
    return allranks(
        *("submit", "study", "--nodes", "2", "--detach", "--workspace", folder),
        *("--", "python", "train.py", "--lr", "1e-5", "$(HOME)"),
        runPolicy={"terminationGracePeriodSeconds": 20},
    )


def test_a_submitted_folder_trains_in_two_pods_and_leaves_nothing(
    lab: Lab, allranks: Allranks, folder: Path, tmp_path: Path
) -> None:
    """Two restricted pods train what the folder had; it can be had again; `delete` removes it."""
    (folder / "code_version.py").write_text("NUMBER = 2\n")
    _submit(allranks, folder)
    (folder / "code_version.py").write_text("raise SystemExit(1)  # edited after it was sent\n")
    lab.line("study", "rank 0 of 2 trains [2]")
    lab.line("study", "/app ['--lr', '1e-5', '$(HOME)']")
    lab.completes("study")

    allranks("show", "study", "--code", tmp_path / "ran")
    assert "NUMBER = 2\n" == (tmp_path / "ran/code_version.py").read_text()
    assert 0o755 == (tmp_path / "ran/run.sh").stat().st_mode & 0o777
    assert (tmp_path / "ran/package/empty").is_dir()
    assert len(lab.cluster.items(lab.path("configmaps") + f"?labelSelector={names.WORKSPACE}")) == 1
    allranks("delete", "study")
    until(
        lambda: not lab.cluster.items(lab.path("configmaps") + f"?labelSelector={names.WORKSPACE}"),
        "the end of what was sent",
    )


def test_pods_take_newer_code_while_they_train(lab: Lab, allranks: Allranks, folder: Path) -> None:
    """`sync` ends the ranks after their last save and starts them again in the same pods."""
    _submit(allranks, folder)
    for rank in range(2):
        lab.line("study", f"rank {rank} of 2 trains [1]", rank=rank)
    before = {pod["metadata"]["uid"] for pod in lab.pods("study")}
    (folder / "code_version.py").write_text("NUMBER = 2\n")

    answer = json.loads(allranks("sync", "study", "--workspace", folder, "-o", "json"))

    assert (True, 2, 1) == (answer["changed"], answer["pods"], answer["generation"])
    for rank in range(2):
        lab.line("study", f"rank {rank} saves code 1", rank=rank)
        lab.line("study", f"rank {rank} of 2 trains [2]", rank=rank)
    lab.completes("study")
    # Once rank 0 has ended well, the Job takes away a pod that is a moment behind it.
    after = lab.pods("study")
    assert {pod["metadata"]["uid"] for pod in after} <= before
    assert {0} == {
        status["restartCount"] for pod in after for status in pod["status"]["containerStatuses"]
    }
    allranks("delete", "study")
    until(lambda: lab.get("configmaps", "study-sync") is None, "the end of what was synced")


def test_a_pod_that_is_lost_after_a_sync_comes_back_with_its_code(
    lab: Lab, allranks: Allranks, folder: Path
) -> None:
    """The pod in the place of a lost one finds the newer code, and trains with the others."""
    # A rank that saves and ends well when its pod is deleted would end the training.
    (folder / "train.py").write_text(workspaces.training(last=3, saves=False))
    _submit(allranks, folder)
    lab.line("study", "rank 0 of 2 trains [1]")
    (folder / "code_version.py").write_text("NUMBER = 2\n")
    allranks("sync", "study", "--workspace", folder)
    lab.line("study", "rank 1 of 2 trains [2]", rank=1)

    lost = lab.pod("study", 1)["metadata"]
    lab.delete("pods", lost["name"], grace=0)
    until(lambda: lab.pod("study", 1)["metadata"]["uid"] != lost["uid"], "another pod 1")

    assert "trains [2]" in lab.line("study", "rank 1 of 2 trains", rank=1)
    (folder / "code_version.py").write_text("NUMBER = 3\n")
    allranks("sync", "study", "--workspace", folder)
    lab.completes("study")

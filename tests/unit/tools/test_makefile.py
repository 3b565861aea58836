"""What `make` would do, in which order."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def plan(repo: Path, *words: str) -> list[str]:
    """The commands that make would run."""
    env = {"PATH": os.environ["PATH"]}
    command = ["make", "--no-print-directory", "-n", *words]
    process = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, check=True)
    return process.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "tier"),
    [
        (["cluster-up"], "test-cluster"),
        (["cluster-up", "NODE=1"], "test-node"),
        (["test-cluster"], "test-cluster"),
        (["test-node"], "test-node"),
    ],
)
def test_what_a_machine_lacks_is_named_before_kubernetes_is_built(
    repo: Path, words: list[str], tier: str
) -> None:
    """All of it at once, and nothing that another tier needs."""
    lines = plan(repo, *words)
    build = next(at for at, line in enumerate(lines) if line.endswith("tests.kube build"))
    assert f"-m tests.kube host --tier {tier}" in "\n".join(lines[:build])


def test_large_downloads_are_shown(repo: Path) -> None:
    """What pip fetches by its pins it names as it comes: torch takes minutes."""
    lines = plan(repo, "-B", ".venv/.installed", ".venv/.examples")
    fetches = [line for line in lines if "--require-hashes" in line]
    assert 2 == len(fetches)
    assert not [line for line in fetches if " -q" in line or "--quiet" in line]

"""The picture of a plan in the README is what the command draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parents[3]


def test_picture_in_the_docs_is_what_plan_draws() -> None:
    """docs/img/plan.svg has the bytes that `allranks plan -o svg` prints for examples/plan."""
    folder = REPO / "examples/plan"
    words = ["plan", "-f", folder / "values.yaml", "--inventory", folder / "nodes.yaml"]
    command = [Path(sys.executable).parent / "allranks", *words, "-o", "svg"]
    process = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert (REPO / "docs/img/plan.svg").read_bytes() == process.stdout

"""`make test` and CI run every tier, also after one that fails (tools/tiers.sh)."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAKEFILE = """\
test-bad: ; @{repo}/tools/tier.sh bad false
test-good: ; @{repo}/tools/tier.sh good echo the good tier ran
lint: ; @echo linted
test-unready: no-such-file
test-first: ; @touch first; until [ -e second ]; do sleep 0.01; done; echo first done
test-second: ; @touch second; until [ -e first ]; do sleep 0.01; done; echo second done; exit 3
"""


def tiers(
    repo: Path, folder: Path, *targets: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run targets of a small Makefile."""
    (folder / "Makefile").write_text(MAKEFILE.format(repo=repo))
    # Where make itself runs these tests, its flags are not those of the small one.
    env = {"PATH": os.environ["PATH"], **variables}
    words = [repo / "tools/tiers.sh", *targets]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_tier_runs_after_one_that_fails(repo: Path, tmp_path: Path) -> None:
    """The end names each tier, and last those that failed; the exit code is 1."""
    process = tiers(repo, tmp_path, "test-bad", "test-unready", "lint", "test-good")
    assert 1 == process.returncode
    assert "the good tier ran" in process.stdout
    head, end = process.stdout.split("time per tier:\n")
    assert "linted" in head
    *lines, everything, failed = end.splitlines()
    computed = ", 0 s of processor time"
    assert [
        f"tier bad: failed in N s{computed}",
        "tier unready: failed in N s",
        "tier lint: passed in N s",
        f"tier good: passed in N s{computed}",
    ] == [re.sub(r"in \d+ s", "in N s", line) for line in lines]
    assert everything.startswith("all: ")
    assert "failed: test-bad test-unready" == failed


def test_all_tiers_that_pass(repo: Path, tmp_path: Path) -> None:
    """The exit code is 0, and nothing is said to have failed."""
    process = tiers(repo, tmp_path, "lint", "test-good")
    assert (0, "") == (process.returncode, process.stderr)
    assert "failed" not in process.stdout


def test_what_would_begin_too_late_is_named(repo: Path, tmp_path: Path) -> None:
    """It is not begun, and the verdict is that of the others."""
    process = tiers(repo, tmp_path, "test-bad", "lint", TIERS_BEGIN_BEFORE="0")
    assert 0 == process.returncode
    assert "linted" not in process.stdout
    assert "not begun, as 0 s were over: test-bad lint\n" in process.stdout
    process = tiers(repo, tmp_path, "test-bad", "lint", TIERS_BEGIN_BEFORE="3600")
    assert 1 == process.returncode
    assert "not begun" not in process.stdout


def test_tiers_that_run_at_once(repo: Path, tmp_path: Path) -> None:
    """Each runs while the other does, their outputs come apart, and each has its own verdict."""
    process = tiers(repo, tmp_path, "test-first+test-second", "lint")
    assert 1 == process.returncode
    output, end = process.stdout.split("time per tier:\n")
    assert ["first done", "second done"] == re.findall(".* done", output)
    assert output.index("second done") < output.index("linted")
    tier_lines = [re.sub(r"in \d+ s", "in N s", line) for line in end.splitlines()[:3]]
    names = ("first: passed", "second: failed", "lint: passed")
    assert [f"tier {name} in N s" for name in names] == tier_lines
    assert "failed: test-second" == end.splitlines()[-1]


def test_every_tier_of_make_test_is_run_by_ci(repo: Path) -> None:
    """CI lists the targets itself, with those that not every machine can run."""
    makefile = (repo / "Makefile").read_text()
    line = next(line for line in makefile.splitlines() if "tools/tiers.sh" in line)
    ci = (repo / ".ci/run").read_text()
    assert all(re.search(rf"\b{tier}\b", ci) for tier in line.split("tools/tiers.sh")[1].split())

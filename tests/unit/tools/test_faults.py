"""The faults of `make mutations`: each can be put in, and what runs them tells which test fails."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.mutations import faults, readme
from tests.mutations.copies import RepositoryCopy, RunFailedError
from tests.mutations.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

EVERY = faults.read()
AREAS = {
    "layout": 8,
    "values rules": 8,
    "post-renderer": 8,
    "elastic decide": 8,
    "status reducer": 8,
    "sweep decide": 6,
    "templates": 14,
}
TEST = """\
import allranks

def test_before():
    assert allranks.NODES

def test_nodes():
    assert allranks.NODES == 2
"""
FAULT = Fault(
    area="layout",
    name="one-node-more",
    file="generator/allranks/__init__.py",
    old="NODES = 2",
    new="NODES = 3",
    tests=("test_allranks.py",),
    breaks="a job has a node more",
)


def test_every_part_has_its_faults() -> None:
    """Sixty in all, and no two have one name."""
    assert 60 == len({fault.name for fault in EVERY})
    assert AREAS == {area: sum(fault.area == area for fault in EVERY) for area in AREAS}


@pytest.mark.parametrize("fault", EVERY, ids=[fault.name for fault in EVERY])
def test_a_fault_can_be_put_in(fault: Fault, repo: Path) -> None:
    """What it replaces stands in its file once, and the tests that have to catch it exist."""
    assert 1 == (repo / fault.file).read_text(encoding="utf-8").count(fault.old)
    assert fault.old != fault.new
    assert fault.tests
    for test in fault.tests:
        path, _, function = test.partition("::")
        assert f"def {function}" in (repo / path).read_text(encoding="utf-8")


def test_the_table_has_every_fault() -> None:
    """`python -m tests.mutations --write` was run after the last change of the faults."""
    rows = [line for line in readme.README.read_text().splitlines() if line.startswith("| `")]
    assert [f"| `{fault.name}` | {fault.breaks} |" for fault in EVERY] == [
        row.rsplit(" | ", 2)[0] + " |" for row in rows
    ]
    assert [] == [row for row in rows if "survived" in row]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with both packages and a test."""
    root = tmp_path / "repository"
    for package in ("generator/allranks", "operator/allranks_operator"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("NODES = 2\n")
    (root / "test_allranks.py").write_text(TEST)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_a_fault_is_caught_in_a_copy(repository: Path, tmp_path: Path) -> None:
    """By the first test that fails; without the fault all pass, and the repository stays."""
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = RepositoryCopy(repository, folder)
    copy.check_imports()
    with copy.with_fault(FAULT):
        assert "test_allranks.py::test_nodes" == copy.first_failure(FAULT.tests)
        assert "NODES = 2\n" == (repository / FAULT.file).read_text()
    assert "" == copy.first_failure(FAULT.tests)


def test_faults_outside_of_the_copy_are_not_tried(repository: Path, tmp_path: Path) -> None:
    """Without packages of its own the copy would import those that are installed."""
    (repository / FAULT.file).unlink()
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = RepositoryCopy(repository, folder)
    with pytest.raises(RunFailedError, match="imports"):
        copy.check_imports()


def test_tests_that_cannot_run_catch_nothing(repository: Path, tmp_path: Path) -> None:
    """A file that cannot be imported is a fault of the tests, or of the fault."""
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = RepositoryCopy(repository, folder)
    with pytest.raises(RunFailedError, match="pytest ended with 4"):
        copy.first_failure(["test_nothing.py"])

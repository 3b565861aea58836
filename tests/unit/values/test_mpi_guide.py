"""What docs/guides/mpi.md says of values, held to be true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.schema.validate import find_problems
from allranks.values import check
from allranks.values.merge import merge, overlay
from allranks.values.sources import defaults

GUIDE = (Path(__file__).parents[3] / "docs/guides/mpi.md").read_text("utf-8")
DEFAULTS = defaults("mpi")
BASE = {"workload": "mpi", "image": {"repository": "my/trainer"}, "command": ["a"]}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    section = GUIDE.split(f"# {heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def problems(user: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a person's values."""
    values = merge(DEFAULTS, overlay(BASE, user))
    result = find_problems("mpi", values, lambda _: "", lambda *_: "")
    result += check.find_problems(values, lambda _: "")
    return [problem.message for _, problem in result]


@pytest.mark.parametrize(
    ("fragments", "hosts", "slots"), [(row[0], row[1], row[2]) for row in rows("Size")]
)
def test_sizes_are_as_the_table_has_them(fragments: str, hosts: str, slots: str) -> None:
    """Each row's values are valid and give so many hosts with so many slots."""
    user: dict[str, Any] = {}
    for fragment in re.findall(r"`([^`]+)`", fragments):
        user |= yaml.safe_load(fragment)
    assert [] == problems(user)
    layout = compute(JobSpec.from_values(merge(DEFAULTS, overlay(BASE, user))))
    assert [int(number) for number in re.findall(r"\d+", hosts)] == [layout.nodes]
    numbers = [int(number) for number in re.findall(r"\d+", slots)]
    assert numbers == [layout.procs_per_node, *filter(None, [layout.last_procs_per_node])]


def test_slots_that_leave_gpus_idle_are_refused() -> None:
    """Eight GPUs with one slot, unless `procsPerNode` says so."""
    slots = {"mpi": {"slotsPerWorker": 1}}
    assert problems({"gpus": 8, **slots})
    assert [] == problems({"gpus": 8, "procsPerNode": 1})


def test_the_values_of_the_guide_are_valid() -> None:
    """Every YAML block of it, and without the elastic program the range is refused."""
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
    assert blocks
    for block in blocks:
        assert [] == problems(block)
        assert problems({**block, "command": ["python", "train.py"]})


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        *((name, True) for name in ("OMPI_MCA_btl", "HYDRA_DEBUG", "I_MPI_FABRICS")),
        *((name, True) for name in ("OMPI_MCA_plm_rsh_agent", "I_MPI_PERHOST")),
        *((name, False) for name in ("ALLRANKS_X", "K_MPI_JOB_ROLE", "PMI_RANK")),
        ("OMPI_COMM_WORLD_RANK", False),
    ],
)
def test_variables_are_allowed_as_it_says(name: str, *, allowed: bool) -> None:
    """What tunes an MPI passes, for all pods and for one role; what names a rank does not."""
    for user in ({"env": {name: "1"}}, {"mpi": {"launcher": {"env": {name: "1"}}}}):
        assert allowed is (problems(user) == [])


@pytest.mark.parametrize("heading", ["From MPIJob", "From `batch.test.bdap.com/v1`"])
def test_every_key_of_the_mapping_exists(heading: str) -> None:
    """What a field becomes is a key of the values, as it is spelt there; `*` is any key."""
    keys = {
        key
        for row in rows(heading)
        for key in re.findall(r"`([a-z][A-Za-z]*(?:\.[A-Za-z*]+)*)(?:: [^`]*)?`", row[1])
        if key.split(".")[0] in DEFAULTS
    }
    assert len(keys) > 5
    for key in keys:
        node: Any = DEFAULTS
        for part in key.split("."):
            node = next(iter(node.values())) if part == "*" else node[part]

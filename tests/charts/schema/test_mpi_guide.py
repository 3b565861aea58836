"""What docs/guides/mpi.md says each MPI is told is what the chart tells it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from allranks.yamlio import load

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/mpi.md").read_text("utf-8")
FAMILIES = re.compile(r"(OMPI|PRTE|HYDRA|I_MPI)_")
IN_GUIDE = {"OpenMPI": "Open MPI", "MPICH": "MPICH", "Intel": "Intel MPI"}


def guide_variables(implementation: str) -> set[str]:
    """The variables of the table's second column, in all rows of an MPI."""
    section = GUIDE.split("## What each MPI is told\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    cells = [row[2] for row in rows if row[1].strip().startswith(IN_GUIDE[implementation])]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


OF_SLURM = {"OMPI_MCA_plm", "OMPI_MCA_ras", "PRTE_MCA_plm", "PRTE_MCA_ras"}


@pytest.mark.parametrize(
    ("implementation", "release", "absent"),
    [
        ("OpenMPI", "a" * 42, set()),
        ("OpenMPI", "demo", {"OMPI_MCA_regx"}),  # for long names alone
        ("OpenMPI", "demo", {"OMPI_MCA_regx", *OF_SLURM}),  # with compat: slurm alone
        ("MPICH", "demo", set()),
        ("Intel", "demo", set()),
    ],
)
def test_the_table_of_variables_is_the_charts(
    helm4: Any, implementation: str, release: str, absent: set[str]
) -> None:
    """Every pod has exactly the variables of its MPI's families that the guide names."""
    values = {
        "image": {"repository": "a/b"},
        "command": ["x"],
        "nodes": 2,
        "mpi": {"implementation": implementation},
        "compat": "" if absent >= OF_SLURM else "slurm",
    }
    jobs = [
        manifest
        for manifest in load.load_all(
            helm4.render(ROOT / "charts/mpi", values=values, name=release)
        )
        if manifest["kind"] == "Job"
    ]
    assert 2 == len(jobs)
    for job in jobs:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        names = {variable["name"] for variable in container["env"]}
        assert guide_variables(implementation) - absent == {
            name for name in names if FAMILIES.match(name)
        }

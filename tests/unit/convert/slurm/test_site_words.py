"""Words of a site in a step: options of its plugins, its programs, and what it looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def test_a_program_of_the_step_by_its_name_is_named() -> None:
    """Srun looks for it in the folder of the job, too, and a pod on its PATH alone."""
    conversion = _convert("#SBATCH -n 4 --mem=1G", "srun gmx_mpi mdrun")
    assert any("called by name: gmx_mpi (line 3)" in note for note in conversion.notes)


def test_the_value_of_a_sites_option_is_no_program() -> None:
    """`--environment` of CSCS has one; of an option that nobody knows it is said."""
    conversion = _convert(_NODES, "srun --environment ./a.toml python a.py")
    assert ["python", "a.py"] == conversion.values["command"]
    assert [True] == ["names an image" in own.why for own in conversion.lost]
    lost = _convert(_NODES, "srun --mystery 7 ./a").lost
    assert any("write --mystery=VALUE" in own.why for own in lost)
    assert not any("=VALUE" in own.why for own in _convert(_NODES, "srun --mystery=7 ./a").lost)


def test_deepspeed_without_ssh_in_a_text_runs_in_each_pod() -> None:
    """It starts the ranks of its own node alone, and was refused for the others."""
    own = "deepspeed --no_ssh --node_rank ${SLURM_NODEID} --num_gpus 4 --venv_script v a.py"
    rows = ("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", f"srun bash -c '{own}'")
    values = _convert(*rows).values
    assert (2, 1) == (values["nodes"], values["procsPerNode"])
    with pytest.raises(InvalidValues, match="by ssh"):
        _convert(rows[0], f"srun bash -c '{own.replace('--no_ssh ', '')}'")


@pytest.mark.parametrize(
    "look",
    [
        "command -v apptainer >/dev/null || exit 1",
        "if ! which singularity &>/dev/null; then echo none; exit 1; fi",
        "type -P apptainer || { echo none; exit 1; }",
    ],
)
@pytest.mark.parametrize(
    "step", ["srun apptainer exec a.sif python a.py", "apptainer exec a.sif ls"]
)
def test_a_look_for_what_starts_containers_is_left_out(look: str, step: str) -> None:
    """The pod is the container: each would end there."""
    conversion = _convert(_NODES, look, step)
    texts = [str(conversion.values.get(key, "")) for key in ("setup", "script")]
    assert not any("exit 1" in text for text in texts)
    loading = "command -v apptainer >/dev/null || module load apptainer"
    assert "module load" in str(_convert(_NODES, loading, step).values)


def test_folders_beside_a_container_that_the_script_starts_are_named() -> None:
    """The script names its image, and what stands outside of the container ran on the node."""
    rows = (
        "cp -r /data1/sets/x /tmp/x",
        "apptainer exec docker://a.io/b:1 \\\n  python a.py --data /data2/y",
    )
    conversion = _convert("#SBATCH -n 1 --gpus=1", *rows, "ls ~/runs")
    paths = [own.path for own in conversion.verdicts]
    assert "/data1/sets/x" in paths
    assert "~/runs" in paths
    assert not any("/data2" in path for path in paths)

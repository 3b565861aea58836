"""What --tres-per-task and the options of GPUs say that is no plain number of one kind of GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict


def _convert(directives: str) -> Conversion:
    text = f"#!/bin/bash\n#SBATCH {directives}\nsrun python train.py\n"
    return job.convert(text.encode(), "job.sbatch")


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path == path)


@pytest.mark.parametrize(
    ("directives", "path"),
    [
        ("-N 2 --gres=gpu:a100:2,gpu:v100:1", "--gres"),
        ("-N 2 --gpus=a100:4,v100:2", "--gpus"),
        ("-N 2 --gpus-per-node=a100:1,mylab:1", "--gpus-per-node"),
    ],
)
def test_gpus_of_two_types_are_no_number_of_them(directives: str, path: str) -> None:
    """A pod has those of its node, and pods are alike: the mix is not carried."""
    verdict = _verdict(_convert(directives), path)
    assert Outcome.NOT_CARRIED == verdict.outcome
    assert "of several types (a100" in verdict.why


def test_more_gpus_than_a_node_may_have_are_said() -> None:
    """Slurm's K is 1024, and the run has as many as a node may have."""
    conversion = _convert("-N 1 --ntasks-per-node=1 --gres=gpu:2K")
    assert 1000 == conversion.values["gpusPerNode"]
    assert "no node has 2,048 GPUs" in _verdict(conversion, "--gres").why


def test_nodes_that_follow_from_the_gpus_of_a_task_are_said() -> None:
    """The script names none."""
    verdict = _verdict(_convert("--gpus=8 --gpus-per-task=2"), "--gpus-per-task")
    assert (Outcome.CHANGED, "nodes, gpusPerNode") == (verdict.outcome, verdict.to)
    assert "4 nodes" in verdict.why


@pytest.mark.parametrize(
    ("directives", "requests"),
    [
        ("-N 1 -n 4 --tres-per-task=cpu=4,gres/gpu=1", {"cpu": "16"}),
        ("-N 1 -n 4 --tres-per-task=cpu:4,mem=4G", {"cpu": "16", "memory": "16Gi"}),
        ("-N 1 -n 4 --mem=8G --tres-per-task=mem=4G", {"cpu": "4", "memory": "8Gi"}),
    ],
)
def test_cpus_and_memory_of_a_task_are_those_of_its_pod(
    directives: str, requests: dict[str, str]
) -> None:
    """As --cpus-per-task has them, and no resource of a site's."""
    conversion = _convert(directives)
    assert requests == conversion.values["resources"]["perPod"]["requests"]
    assert () == conversion.lost


def test_an_option_of_cpus_alone_says_nothing_of_gpus() -> None:
    """Its amounts are those of a pod."""
    verdict = _verdict(_convert("-N 1 -n 4 --tres-per-task=cpu=4"), "--tres-per-task")
    assert (Outcome.CHANGED, "resources.perPod") == (verdict.outcome, verdict.to)


def test_a_resource_of_a_site_is_named_alone() -> None:
    """Not the CPUs beside it."""
    verdict = _verdict(
        _convert("-N 1 -n 4 --tres-per-task=cpu=4,cpu=x,license/ansys=1"), "--tres-per-task"
    )
    assert verdict.why.startswith("cpu=x, license/ansys=1 is a resource")


def _convert_rows(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("directive", "option", "why"),
    [
        ("--exclusive", "", "a task could use the CPUs of its whole node"),
        ("--exclusive", "--cpu-bind=mask_cpu:0xf,0xf0", "each task had the CPUs of its own mask"),
        ("--exclusive", "--cpu-bind=verbose,map_cpu:0,4", "each task had the CPUs of its own mask"),
        ("--exclusive=user", "", ""),
        ("--exclusive=user -c 4", "", "a task was bound to its CPUs"),
    ],
)
def test_a_task_has_the_cpus_of_its_node_where_the_job_has_them(
    directive: str, option: str, why: str
) -> None:
    """With --exclusive=user others of the same user are there; a mask says which a task has."""
    rows = (f"#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-node=2 {directive}",)
    conversion = _convert_rows(*rows, f"srun {option} python a.py")
    whys = [own.why for own in conversion.verdicts if own.path == "OMP_NUM_THREADS"]
    assert [why] * bool(why) == [own[: len(why)] for own in whys]


def test_other_accelerators_are_no_gpus_that_a_script_does_not_ask_for() -> None:
    """A site's DCUs came beside GPUs of AMD's, of which nothing is said in the script."""
    rows = ("#SBATCH -N 2 --gres=dcu:4", "export HSA_FORCE_FINE_GRAIN_PCIE=1")
    conversion = _convert_rows(*rows, "srun torchrun --nnodes 2 --nproc_per_node 4 a.py")
    assert 4 == conversion.values["procsPerNode"]
    assert not {"gpusPerNode", "gpuResource"} & conversion.values.keys()
    assert ["--gres"] == [own.path for own in conversion.lost]


def test_a_pod_has_the_cpus_of_the_job_where_a_step_takes_a_part() -> None:
    """The step leaves some of them to nobody, and the memory of each is the pod's as well."""
    directives = "-N 1 --gpus-per-task=1 --cpus-per-gpu=2 --mem-per-cpu=24G"
    text = f"#!/bin/bash\n#SBATCH {directives}\nsrun -n 1 --cpus-per-task=1 python train.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    requests = conversion.values["resources"]["perPod"]["requests"]
    assert {"cpu": "2", "memory": "48Gi"} == {name: str(requests[name]) for name in requests}

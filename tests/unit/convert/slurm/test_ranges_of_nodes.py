"""A torchrun of a batch script that trains with any number of nodes in a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_MEETING = "--rdzv_backend=c10d --rdzv_endpoint=$HOSTNAME:29500 --nproc_per_node 4"


def _convert(nodes: str, flags: str, *rows: str) -> Conversion:
    directives = f"#SBATCH {nodes} --gres=gpu:4 --ntasks-per-node=1"
    step = f"srun torchrun {flags} {_MEETING} train.py"
    return job.convert("\n".join(("#!/bin/bash", directives, *rows, step, "")).encode(), "a.sbatch")


def _of_nnodes(conversion: Conversion) -> Verdict:
    return next(item for item in conversion.verdicts if item.path.startswith("--nnodes"))


@pytest.mark.parametrize(
    ("nodes", "flags", "size", "elastic", "outcome"),
    [
        ("-N 2", "--nnodes=1:2 --max-restarts=3", 2, (1, 2), Outcome.CARRIED),
        ("-N 4", "--nnodes 2:4", 4, (2, 4), Outcome.CARRIED),
        ("-N 4", "--nnodes=$LEAST:4", 4, (2, 4), Outcome.CARRIED),
        ("-N 2", "--nnodes=1:8", 2, (1, 2), Outcome.CHANGED),
        ("-N 4", "--nnodes=1:2", 2, (1, 2), Outcome.CARRIED),
        ("-N 2", "--nnodes=2:4", 2, None, Outcome.CHANGED),
        ("-N 2", "--nnodes=3:4", 2, None, Outcome.CHANGED),
    ],
)
def test_a_range_of_nodes_is_that_of_the_run(
    nodes: str, flags: str, size: int, elastic: tuple[int, int] | None, outcome: Outcome
) -> None:
    """As far as the job's nodes go; what of it is no range there is said."""
    conversion = _convert(nodes, flags, "LEAST=2")
    own = conversion.values["torchrun"].get("elastic")
    assert size == conversion.values["nodes"]
    assert own == (elastic and {"minNodes": elastic[0], "maxNodes": elastic[1]})
    assert outcome == _of_nnodes(conversion).outcome


def test_a_range_of_one_size_is_a_number() -> None:
    """`2:2` is 2."""
    conversion = _convert("-N 2", "--nnodes=2:2")
    assert "elastic" not in conversion.values["torchrun"]


def test_a_launcher_of_one_node_has_no_range() -> None:
    """With --standalone each node trains by itself, whatever --nnodes says, and that is said."""
    conversion = _convert("-N 2", "--standalone --nnodes=1:2")
    assert "elastic" not in conversion.values.get("torchrun", {})
    assert ["no training had several" in lost.why for lost in conversion.lost] == [True]


def test_a_launcher_without_srun_that_waits_for_nobody_trains_on_one_node() -> None:
    """It runs on the first node alone, and a range from 1 begins there."""
    text = "#!/bin/bash\n#SBATCH -N 2 --gres=gpu:4\ntorchrun --nnodes=1:2 --nproc_per_node=4 a.py\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert values.get("nodes", 1) == 1
    assert "elastic" not in values.get("torchrun", {})

"""As whom the pods of a batch script run: not as root, which the script did not either."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\n"


@pytest.mark.parametrize(
    ("step", "user"),
    [
        ("srun python a.py", 1000),
        ("srun --container-image=b/c:1 python a.py", None),
        ("mpirun ./a.out", None),
    ],
)
def test_pods_do_not_run_as_root(step: str, user: int | None) -> None:
    """The image that stands in where none is named is root's; of others nobody knows.

    Any number will do but for MPI, whose ssh knows the users of the image alone.
    """
    conversion = job.convert(f"{_HEAD}{step}\n".encode(), "a.sbatch")
    context = conversion.values.get("security", {}).get("podSecurityContext", {})
    assert user == context.get("runAsUser")
    is_noted = any("say another in security.podSecurityContext" in it for it in conversion.notes)
    assert is_noted == (user is None)

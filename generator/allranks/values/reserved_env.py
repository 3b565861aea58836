"""The variables that a workload's entry, torchrun or mpirun sets itself."""

from __future__ import annotations

from allranks import names
from allranks.values import frameworks


def is_reserved(name: str, workload: str, mode: str = "", framework: str = "") -> bool:
    """Whether a workload sets a variable itself.

    Args:
        name: the variable.
        workload: the workload.
        mode: of an elastic job, `elastic.mode`.
        framework: of an elastic job, `elastic.framework`.
    """
    if workload == "mpi":
        return name in names.RESERVED_ENV_MPI or name.startswith(names.RESERVED_ENV_PREFIXES_MPI)
    if workload != "elastic":
        return name in names.RESERVED_ENV or name.startswith(names.RESERVED_ENV_PREFIXES)
    if name.startswith(names.RESERVED_ENV_PREFIXES_ELASTIC):
        return True
    if mode == "auto":
        return name in names.RESERVED_ENV_ELASTIC_JOB
    return name in (*frameworks.recipe(framework).env, "JOB_COMPLETION_INDEX")

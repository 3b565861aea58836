"""Options of sbatch's that stand in variables of who submits: ``SBATCH_TIMELIMIT=60 sbatch …``.

They win over the script's lines, and the command line over them. Source: sbatch(1), input
environment variables, of Slurm 26.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.near_words import nearest_word
from allranks.convert.slurm import options
from allranks.convert.slurm.options import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PREFIX = "SBATCH_"
# Those whose option has another name than the variable.
_OTHER_NAMES = {
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_DEBUG": "verbose",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_REQ_SWITCH": "switches",
    "SBATCH_SEGMENT_SIZE": "segment",
    "SBATCH_TIMELIMIT": "time",
    "SLURM_CLUSTERS": "clusters",
    "SLURM_HINT": "hint",
}
_SAME_NAMES = (
    *("ACCOUNT", "ACCTG_FREQ", "BATCH", "CLUSTERS", "CONSTRAINT", "CONTAINER", "CONTAINER_ID"),
    *("CORE_SPEC", "CPUS_PER_GPU", "DELAY_BOOT", "DISTRIBUTION", "ERROR", "EXCLUSIVE", "EXPORT"),
    *("GET_USER_ENV", "GPU_BIND", "GPU_FREQ", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK", "GRES"),
    *("GRES_FLAGS", "HINT", "IGNORE_PBS", "INPUT", "JOB_NAME", "MEM_BIND", "MEM_PER_CPU"),
    *("MEM_PER_GPU", "NETWORK", "NO_KILL", "NO_REQUEUE", "OPEN_MODE", "OUTPUT", "OVERCOMMIT"),
    *("PARTITION", "POWER", "PROFILE", "QOS", "REQUEUE", "RESERVATION", "SIGNAL", "SPREAD_JOB"),
    *("THREAD_SPEC", "THREADS_PER_CORE", "TRES_BIND", "TRES_PER_TASK", "USE_MIN_NODES", "WAIT"),
    *("WAIT_ALL_NODES", "WCKEY"),
)
OPTIONS = {
    **{f"{_PREFIX}{name}": name.lower().replace("_", "-") for name in _SAME_NAMES},
    **_OTHER_NAMES,
}
# Those of the manual that no option of the table answers to, and why nothing reads them.
_WITHOUT_OPTION = {
    "SBATCH_CONTAINER_TYPE": "a pod's container is the cluster's",
    "SBATCH_WAIT4SWITCH": "a job waits for its place, wherever that is",
}


def settings(environment: Mapping[str, str], typed: Iterable[Setting]) -> list[Setting]:
    """The options that variables stand for, but for those that the command line has.

    Args:
        environment: of who submits.
        typed: the options of the command line.
    """
    own_options = {option.name: option for option in options.of("sbatch")}
    typed_names = {setting.name for setting in typed}
    result: dict[str, Setting] = {}
    for variable, name in OPTIONS.items():
        if variable not in environment or name in typed_names or name in result:
            continue
        option = own_options[name]
        value = "" if option.takes == options.Takes.NOTHING else environment[variable]
        result[name] = Setting(name, value, 0, option, variable)
    return list(result.values())


def notes(environment: Mapping[str, str], own_settings: Sequence[Setting]) -> list[str]:
    """Sentences about the variables: those that are read, and those that stand for no option.

    Args:
        environment: of who submits.
        own_settings: the options that they stand for.
    """
    read = ", ".join(f"{own.variable} (--{own.name})" for own in own_settings)
    sentences = [f"read from your environment, as sbatch does: {read}"] if read else []
    for variable in sorted(environment):
        if variable in OPTIONS or not variable.startswith(_PREFIX):
            continue
        if variable in _WITHOUT_OPTION:
            sentences.append(f"{variable} is not read: {_WITHOUT_OPTION[variable]}")
            continue
        near = nearest_word(variable, [*OPTIONS])
        hint = f": did you mean {near}?" if near else ""
        sentences.append(f"{variable} is no variable of sbatch's, and is not read{hint}")
    return sentences

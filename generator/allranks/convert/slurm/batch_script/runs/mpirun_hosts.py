"""Hosts of the old cluster that an mpirun names, and files of it that may: what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.steps import mpirun
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import Body

_RANK_FILE = (
    "it places each rank on a host of the old cluster, and is left out: say with --map-by how they "
    "are placed"
)


def take_out(body: Body, texts: list[str], line: int) -> list[str]:
    """Take out of an mpirun what names hosts of the old cluster, which is said.

    Args:
        body: the run.
        texts: as typed: mpirun, its options, the program; other words stay as they are.
        line: where they stand.

    Returns:
        The words that are left.
    """
    program = words.base(texts[0]) if texts else ""
    if program == "mpirun_rsh":
        why = "it is MVAPICH's, which the mpi chart does not have: write mpirun of an MPI it has"
        body.say(line, program, Outcome.NOT_CARRIED, "mpi.implementation", why)
    remaining, host_words, unknown_option = mpirun.without_hosts(texts)
    if host_words:
        why = "mpirun is given the chart's list of hosts: those of the script are other machines"
        body.say(line, f"{program} {' '.join(host_words)}", Outcome.CHANGED, "", why)
    if unknown_option:
        why = "it may name hosts of the old cluster: take it out"
        body.say(line, f"{program} {unknown_option}", Outcome.NOT_CARRIED, "", why)
    for option, why in mpirun.files_of_hosts(remaining).items():
        body.say(line, f"{program} {option}", Outcome.NOT_CARRIED, "command", why)
    remaining, file_words = mpirun.without_rank_file(remaining)
    if file_words:
        path = f"{program} {' '.join(file_words)}"
        body.say(line, path, Outcome.NOT_CARRIED, "command", _RANK_FILE)
    return remaining

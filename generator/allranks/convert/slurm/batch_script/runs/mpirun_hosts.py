"""Hosts of the old cluster that an mpirun names, and files of it that may: what is said of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.jobs import mpi_agents
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.steps import mpirun
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_RANK_FILE = (
    "it places each rank on a host of the old cluster, and is left out: say with --map-by how they "
    "are placed"
)
# An option with hosts, and maybe the first of them; and any option behind other words.
_HOSTS = re.compile(r"-H(?:\s.*)?|--?hosts?(?:[\s=].*)?", re.DOTALL)
_OPTION = re.compile(r"(?:^|\s)-{1,2}[A-Za-z]")


def take_out(reading: ScriptReading, texts: list[str], line: int) -> list[str]:
    """Take out of an mpirun what names hosts of the old cluster, which is said.

    Args:
        reading: the script, and what comes of it.
        texts: as typed: mpirun, its options, the program; other words stay as they are.
        line: where they stand.

    Returns:
        The words that are left.
    """
    body, contents = reading.body, reading.variables.contents
    program = words.base(texts[0]) if texts else ""
    if program == "mpirun_rsh":
        why = "it is MVAPICH's, which the mpi chart does not have: write mpirun of an MPI it has"
        body.say(line, program, Outcome.NOT_CARRIED, "mpi.implementation", why)
    names = {name for name, own in contents.items() if _is_of_hosts(own)}
    texts = mpirun.with_option(texts, lambda text: _variable(text) in names)
    remaining, host_words, unknown_option = mpirun.without_hosts(texts)
    if host_words:
        why = "mpirun is given the chart's list of hosts: those of the script are other machines"
        body.say(line, f"{program} {' '.join(host_words)}", Outcome.CHANGED, "", why)
    if unknown_option:
        why = "it may name hosts of the old cluster: take it out"
        body.say(line, f"{program} {unknown_option}", Outcome.NOT_CARRIED, "", why)
    with_agent = remaining
    remaining = list(mpi_agents.without_agents(tuple(with_agent)))
    if remaining != with_agent:
        body.say(line, f"{program} --mca plm_rsh_agent", Outcome.CHANGED, "", mpi_agents.AGENT)
    for option, why in mpirun.files_of_hosts(remaining).items():
        body.say(line, f"{program} {option}", Outcome.NOT_CARRIED, "command", why)
    remaining, file_words = mpirun.without_rank_file(remaining)
    if file_words:
        path = f"{program} {' '.join(file_words)}"
        body.say(line, path, Outcome.NOT_CARRIED, "command", _RANK_FILE)
    return remaining


def _variable(text: str) -> str:
    return shell_text.variable_alone(scanner.unquote(text))


def _is_of_hosts(contents: Sequence[str]) -> bool:
    """Whether a variable has an option with hosts, to which later lines add: ``F="-H "``."""
    first, *later = contents
    others = [text for text in later if not _HOSTS.fullmatch(text)]
    has_more = any(_OPTION.search(text) for text in (*others, first.lstrip("-")))
    return _HOSTS.fullmatch(first) is not None and not has_more

"""The words of an mpirun in a batch script: its lists of hosts, which the mpi chart makes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.jobs.mpi_hosts import HOSTFILE
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.steps import horovod_options
from allranks.convert.slurm.batch_script.text import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

# How many ranks it starts in all, and on each node, as typed.
_COUNT_OF_RANKS = re.compile(r"\s-{1,2}np?[ =](\$\(\(.*?\)\)|\S+)")
_RANKS_OF_NODE = re.compile(
    r"\s(?:-{1,2}(?:npernode|N|ppn|perhost)[ =](?P<count>\$\(\(.*?\)\)|\S+)"
    r"|-{1,2}map-by[ =]ppr:(?P<placed>[^\s:]+):node)"
)
# How many ranks a host of a list may have, where the script writes that.
_SLOTS = re.compile(
    r"\bslots=(?P<count>\d+|\$\{?\w+\}?)|(?:s/\$/|\$1[ ]*\"):(?P<placed>\d+)", re.IGNORECASE
)
_HOROVODRUN = "horovodrun"
_HOSTS = frozenset({"host", "H", "hosts", "hostfile", "machinefile", "f", "default-hostfile"})
# Cores of each rank, as part of how they are placed, and as options.
_CORES = re.compile(r"(?i):pe=(\d+)")
_CORES_OPTIONS = frozenset({"cpus-per-proc", "cpus-per-rank"})
# How many words belong to an option of any MPI, as charts/mpi/files/mpirun.sh knows them.
_ONE_WORD = frozenset(
    {
        *("n", "np", "c", "N", "npernode", "ppn", "perhost", "x", "wd", "wdir", "path", "bind-to"),
        *(
            "map-by",
            "rank-by",
            "membind",
            "envlist",
            "genvlist",
            "output-filename",
            "prefix",
            "rmk",
        ),
        *_CORES_OPTIONS,
        *("launcher", "bootstrap", "timeout", "cpu-set", "p", "network-interface", "start-timeout"),
        *("rankfile", "rf", "app", "configfile"),
    }
)
# Files of the old cluster: those that say where each rank is, and those that have the programs.
_RANK_FILES = frozenset({"rankfile", "rf"})
_RANK_FILE_MAPPING = re.compile(r"rankfile(?::file=.*)?", re.IGNORECASE)
_RANK_FILE_PARAMETERS = frozenset({"rmaps_rank_file_path", "orte_rankfile"})
_NAMES_PROGRAMS = (
    "it names programs, and may name hosts of the old cluster: write the programs into the command"
)
_FILES_OF_HOSTS = {
    "app": _NAMES_PROGRAMS,
    "configfile": _NAMES_PROGRAMS,
    "host-discovery-script": (
        "it lists hosts of the old cluster: write /etc/mpi/discover_hosts.sh, which lists the "
        "pods, and how many there may be in mpi.elastic"
    ),
}
# Options of ibrun's, and those of srun's that say the same; "" for what a pod has its own way for.
_OF_SITE = {"n": "ntasks", "np": "ntasks", "npernode": "ntasks-per-node", "o": "", "tpr": ""}
# What a site puts before the program to bind it to its cores.
_BINDING = frozenset({"tacc_affinity", "task_affinity", "mem_affinity"})
_TWO = frozenset({"mca", "gmca", "omca", "prtemca", "pmixmca", "env", "genv"})
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)


def without_hosts(texts: Sequence[str]) -> tuple[list[str], list[str], str]:
    """The words of an mpirun without its lists of hosts.

    Args:
        texts: as typed: mpirun, its options, the program.

    Returns:
        The words that are left; those that were taken out; and an option that may name hosts and
        stands behind one that is not known, "" for none.
    """
    if not _is_mpirun(texts):
        return list(texts), [], ""
    remaining, host_words = [texts[0]], list[str]()
    chart_hosts = ["--hostfile", HOSTFILE] if words.base(texts[0]) == _HOROVODRUN else []
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        name, count = _option(texts, at)
        own = [*texts[at : at + count]]
        pair = (
            _PAIR.fullmatch(own[1]) if name in ("env", "genv") and count == len(own) > 1 else None
        )
        if pair is not None:
            own[1:2] = pair.groups()  # as the chart reads it
        if name in _HOSTS and not host_words:
            remaining += chart_hosts  # mpirun finds them by itself
        (host_words if name in _HOSTS else remaining).extend(own)
        at += count
    if chart_hosts and not host_words:
        remaining[1:1] = chart_hosts  # it starts its ranks in its own pod else
    rest = list(texts[at:])
    return [*remaining, *rest], host_words, _behind_unknown(rest)


def with_option(texts: Sequence[str], has_hosts: Callable[[str], bool]) -> list[str]:
    """The words of an mpirun with the option of its hosts before the words that have that in them.

    Args:
        texts: as typed: mpirun, its options, the program.
        has_hosts: whether a word is a variable with that option and the hosts.
    """
    result, at = [*texts[:1]], 1
    while _is_mpirun(texts) and at < len(texts):
        is_option = texts[at].startswith("-")
        if not is_option and not has_hosts(texts[at]):
            break
        count = _option(texts, at)[1] if is_option else 1
        result += [*([] if is_option else ["-H"]), *texts[at : at + count]]
        at += count
    return [*result, *texts[at:]]


def without_rank_file(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of an mpirun without a file that says which rank is on which host.

    Args:
        texts: as typed: mpirun, its options, the program.

    Returns:
        The words that are left, and those that were taken out.
    """
    remaining: list[str] = [*texts[:1]]
    file_words: list[str] = []
    for name, own in _options(texts):
        values = [own[0].partition("=")[2], *own[1:]]
        is_mapping = name == "map-by" and any(map(_RANK_FILE_MAPPING.fullmatch, values))
        is_parameter = name in _TWO and not _RANK_FILE_PARAMETERS.isdisjoint(values)
        is_file = name in _RANK_FILES or is_mapping or is_parameter
        (file_words if is_file else remaining).extend(own)
    return [*remaining, *program(texts)] if file_words else list(texts), file_words


def files_of_hosts(texts: Sequence[str]) -> dict[str, str]:
    """The options of an mpirun whose files may name hosts, as typed, with what to do about each.

    Args:
        texts: as typed: mpirun, its options, the program.
    """
    return {
        " ".join(own): _FILES_OF_HOSTS[name]
        for name, own in _options(texts)
        if name in _FILES_OF_HOSTS
    }


def _options(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The options of an mpirun by name, each with its words."""
    at = 1
    while _is_mpirun(texts) and at < len(texts) and texts[at].startswith("-"):
        name, count = _option(texts, at)
        yield name, list(texts[at : at + count])
        at += count


def without_cores(texts: Sequence[str]) -> tuple[list[str], str]:
    """The words of an mpirun without the cores that it binds each rank to: ``socket:PE=4``.

    The chart has ranks bound to none, as cores are shared in a pod: Open MPI 5 refuses both.

    Args:
        texts: as typed: mpirun, its options, the program.

    Returns:
        The words that are left, and the number of cores; "" for none.
    """
    start = len(texts) - len(program(texts))
    remaining: list[str] = []
    cores = ""
    for before, text in pairwise(["", *texts[:start]]):
        option = before.lstrip("-")
        own = _CORES.search(text) if option == "map-by" or "map-by" in text else None
        if own is not None:
            cores = own[1]
        elif option in _CORES_OPTIONS and text.isdecimal():
            cores = text
            remaining.pop()
            continue
        remaining.append(text if own is None else _CORES.sub("", text))
    return [*remaining, *texts[start:]], cores


def without_count(texts: Sequence[str], names: Collection[str]) -> list[str]:
    """The words of an mpirun without a number of ranks that is in one of some variables.

    Args:
        texts: as typed: mpirun, its options, the program.
        names: variables that have as many as the hosts have slots.
    """
    rest = program(texts)
    own = list(texts[: len(texts) - len(rest)])
    at = next((n for n, text in enumerate(own) if text in ("-n", "-np", "--n", "--np")), len(own))
    variable = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", "".join(own[at + 1 : at + 2]))
    if not _is_mpirun(texts) or ":" in rest or variable is None or variable[1] not in names:
        return list(texts)
    return [*own[:at], *own[at + 2 :], *rest]


def of_site(texts: Sequence[str], constants: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What ``ibrun`` says, which takes the ranks from the job: TACC's, SDSC's, Frontera's.

    Args:
        texts: as typed: ibrun, its options, the program.
        constants: the variables whose text is known.

    Returns:
        The options of srun's that say the same, with their values, and the words of the program.
    """
    counts: dict[str, str] = {}
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        name, count = _option(texts, at)
        name = "o" if name == "offset" else name
        count = 2 if name in _OF_SITE and "=" not in texts[at] else count
        value = texts[at].partition("=")[2] or texts[min(at + count, len(texts)) - 1]
        option = _OF_SITE.get(name, "multi-prog" if name == "multi-prog" else "")
        if option:
            counts[option] = words.resolve(value, constants) or value
        at += count
    rest = list(texts[at:])
    is_binding = len(rest) > 1 and words.base(rest[0]) in _BINDING
    return counts, rest[int(is_binding) :]


def ranks(texts: Sequence[str]) -> tuple[str, str]:
    """How many ranks the words of an mpirun start on each node, and in all; "" for what they miss.

    Args:
        texts: as typed: mpirun, its options, the program, which may have an ``-n``, too.
    """
    own = " ".join(texts[: len(texts) - len(program(texts))])
    of_node, count = _RANKS_OF_NODE.search(own), _COUNT_OF_RANKS.search(own)
    per_node = (of_node["count"] or of_node["placed"]) if of_node else ""
    return per_node, count[1] if count else ""


def slots(text: str) -> str:
    """How many ranks a host may have in a list that a text writes: ``slots=8``; "" for none."""
    match = _SLOTS.search(text)
    return (match["count"] or match["placed"]) if match else ""


def program(texts: Sequence[str]) -> list[str]:
    """What an mpirun runs, as far as its options are known; the words themselves for others."""
    at = 1 if _is_mpirun(texts) else 0
    while at and at < len(texts) and texts[at].startswith("-"):
        at += _option(texts, at)[1]
    return list(texts[at:])


def container(texts: Sequence[str]) -> int | None:
    """Where the command line of a container's program begins: ``mpirun -np 2 singularity exec …``.

    None for words that start no container.
    """
    at = len(texts) - len(program(texts))
    rest = words.unwrapped(texts[at:])
    is_container = bool(rest) and words.base(rest[0]) in words.CONTAINERS
    return len(texts) - len(rest) if is_container else None


def _is_mpirun(texts: Sequence[str]) -> bool:
    return bool(texts) and words.base(texts[0]) in words.MPI_LAUNCHERS


def _option(texts: Sequence[str], at: int) -> tuple[str, int]:
    """The name of an option, and how many words it has with itself: two in ``-genv A=1``."""
    name, equals, _ = scanner.unquote(texts[at]).lstrip("-").partition("=")
    if words.base(texts[0]) == _HOROVODRUN:
        name, values = horovod_options.read(name)
        return name, 1 if equals else 1 + values
    if equals:
        return name, 1
    is_pair = name in ("env", "genv") and "=" in "".join(texts[at + 1 : at + 2])
    if name in _ONE_WORD | _HOSTS or is_pair:
        return name, 2
    return name, 3 if name in _TWO else 1


def _behind_unknown(rest: Sequence[str]) -> str:
    """An option that names hosts, where the first word is the argument of an unknown option."""
    for at, text in enumerate(rest):
        if words.is_python(rest[at:]) or "/" in text:
            return ""
        if at and text.lstrip("-").partition("=")[0] in _HOSTS - {"f"} and text.startswith("-"):
            return text
    return ""

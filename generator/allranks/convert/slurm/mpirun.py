"""The words of an mpirun in a batch script: its lists of hosts, which the mpi chart makes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm import words

if TYPE_CHECKING:
    from collections.abc import Sequence

# How many ranks it starts, as typed.
COUNT_OF_RANKS = re.compile(r"\s-{1,2}np?[ =](\S+)")
_HOSTFILE = "/etc/mpi/hostfile"  # the mpi chart's
_HOSTS = frozenset({"host", "H", "hosts", "hostfile", "machinefile", "f", "default-hostfile"})
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
        *("launcher", "bootstrap", "timeout", "cpu-set", "p", "network-interface", "start-timeout"),
    }
)
_TWO = frozenset({"mca", "gmca", "omca", "prtemca", "pmixmca", "env", "genv"})


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
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        name, count = _option(texts[at])
        (host_words if name in _HOSTS else remaining).extend(texts[at : at + count])
        at += count
    if host_words and words.base(texts[0]) == "horovodrun":
        remaining += ["--hostfile", _HOSTFILE]  # mpirun finds it by itself
    rest = list(texts[at:])
    return [*remaining, *rest], host_words, _behind_unknown(rest)


def program(texts: Sequence[str]) -> list[str]:
    """What an mpirun runs, as far as its options are known; the words themselves for others."""
    at = 1 if _is_mpirun(texts) else 0
    while at and at < len(texts) and texts[at].startswith("-"):
        at += _option(texts[at])[1]
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
    return bool(texts) and words.base(texts[0]) in words.MPIRUN | {"horovodrun"}


def _option(text: str) -> tuple[str, int]:
    """The name of an option, and how many words it has with itself."""
    name, equals, _ = scanner.unquote(text).lstrip("-").partition("=")
    if equals:
        return name, 1
    return name, 2 if name in _ONE_WORD | _HOSTS else 3 if name in _TWO else 1


def _behind_unknown(rest: Sequence[str]) -> str:
    """An option that names hosts, where the first word is the argument of an unknown option."""
    for at, text in enumerate(rest):
        if words.is_python(rest[at:]) or "/" in text:
            return ""
        if at and text.lstrip("-").partition("=")[0] in _HOSTS - {"f"} and text.startswith("-"):
            return text
    return ""

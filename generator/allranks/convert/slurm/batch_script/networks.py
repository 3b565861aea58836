"""What a script names of the old cluster's network: interfaces of its nodes, and its proxy.

Both are carried as they are typed, and a pod has neither: NCCL ends where it has no interface of
the name, and each download fails that is to go by a proxy which nobody can reach.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script import words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.script import Script
    from allranks.convert.slurm.batch_script.shell_variables import ShellVariables

_INTERFACES = re.compile(
    r"(?:NCCL|GLOO|TP|RCCL|ECCL|BYTEPS|NVSHMEM_BOOTSTRAP_UID)_(?:SOCKET|SOCK)_IFNAME"
    r"|HOROVOD_GLOO_IFACE|I_MPI_HYDRA_IFACE|MPICH_(?:NETWORK_)?IFACE"
    r"|OMPI_MCA_(?:btl|oob)_tcp_if_include"
)
# The same as options of launchers.
_OPTIONS = frozenset(
    {"btl_tcp_if_include", "oob_tcp_if_include", "--network-interface", "--network-interfaces"}
)
_PROXY = re.compile(r"(?i)(?:https?|all|ftp)_proxy")
_LOGIN = re.compile(r"//[^/@]*@")
_OF_POD = "eth0"
_NO_INTERFACE = (
    "a pod has the interface eth0, and those of its node with network.hostNetwork alone: take it "
    "out, or name one that pods have"
)
_NO_PROXY = (
    "it is the proxy of the old cluster: take it out where pods reach other networks without it, "
    "or write the proxy of the new one"
)


def say(script: Script, variables: ShellVariables) -> list[Verdict]:
    """What becomes of the names of a network that a script gives its programs.

    Args:
        script: the script.
        variables: what its variables hold.

    Returns:
        The first line of each of them.
    """
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        for path, name, text in _settings(command):
            value = words.resolve(text, variables.constants) or scanner.unquote(text)
            is_proxy = _PROXY.fullmatch(name) is not None
            is_wrong = bool(value) and (is_proxy or not _is_of_pod(value))
            if is_wrong and name not in verdicts:
                why = _NO_PROXY if is_proxy else _NO_INTERFACE
                verdicts[name] = Verdict(path, Outcome.CHANGED, "", why, command.line)
    return [*verdicts.values()]


def _settings(command: Command) -> Iterator[tuple[str, str, str]]:
    """The names of a network in a command: as typed, what they are for, and their text."""
    texts = [token.text for token in command.words]
    if not words.any_of(texts, words.IDLE):
        for text in [*(token.text for token in command.assignments), *texts[1:]]:
            name, sign, value = text.partition("=")
            if sign and (_INTERFACES.fullmatch(name) or _PROXY.fullmatch(name)):
                yield _LOGIN.sub("//", text), name, value
    for option, value in pairwise(texts):
        if option in _OPTIONS:
            yield f"{option} {value}", option, value


def _is_of_pod(value: str) -> bool:
    """Whether a pod may have one of some interfaces, each the beginning of a name or a network."""
    names = value.removeprefix("=").split(",")
    is_asked_for = re.search(r"[$`/]", value) is not None  # the pod's own, or a network
    is_excluded = value.startswith("^")
    return (
        is_asked_for
        or is_excluded
        or any(_OF_POD.startswith(name.strip()) or name == "lo" for name in names if name)
    )

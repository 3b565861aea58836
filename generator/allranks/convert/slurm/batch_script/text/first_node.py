"""The name of the first node, where a batch script puts it in.

Slurm runs the script on the first node of a job, so that ``$HOSTNAME`` and ``$(hostname)`` are that
node's name wherever the script's own shell puts them in, also in the words of a step of all nodes.
In a run each process has a shell of its own, on a node of its own; there the same is MASTER_ADDR.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMAND = r"\s*(?:/(?:usr/)?bin/)?(?:hostname|uname\s+-n)\b"
_NAMES = "HOSTNAME|SLURMD_NODENAME|SLURM_LAUNCH_NODE_IPADDR"
_WHERE_WORKERS_MEET = re.compile(r"\"?--rdzv[-_]endpoint\b")
# The first of the names of all nodes: `scontrol show hostnames $SLURM_NODELIST | head -1`.
_FIRST_OF_ALL = (
    r"\s*(?:/\S+/)?scontrol\s+show\s+hostnames?(?:\s+\"?\$\{?SLURM_(?:JOB_)?NODELIST\}?\"?)?"
    r"\s*\|\s*head\s+(?:-n\s*1|-1|--lines=1)\s*"
)
_NAME = re.compile(
    rf"\$(?:\{{(?P<braced>{_NAMES})\}}|(?P<plain>{_NAMES})\b)"
    rf"|\$\({_COMMAND}[^()`]*\)|`{_COMMAND}[^()`]*`"
    rf"|\$\({_FIRST_OF_ALL}\)|`{_FIRST_OF_ALL}`"
)

# What a process calls its own node by, where no text of the script's own shell stands in its place:
# `of_each_node` spells it so.
OF_PROCESS = (
    rf"\"?(?:\$\((?:command\s+)?{_COMMAND}[^()\n]*\)|`{_COMMAND}[^`\n]*`"
    rf"|\$(?:(?:{_NAMES})\b|\{{(?:{_NAMES})-?\}}))\"?"
)


def of_each_node(text: str) -> str:
    r"""A text whose escaped names, which another shell is to find, are no first node's any more.

    Args:
        text: shell, as ``"--role \\$(hostname)"``.
    """
    names = rf"(?<=\\)\$(?:\{{(?:{_NAMES})\}}|(?:{_NAMES})\b|\({_COMMAND})"
    return re.sub(names, _of_its_own_shell, text)


def _of_its_own_shell(match: re.Match[str]) -> str:
    name = match[0].strip("${}")
    return f"${{{name}-}}" if name[0] != "(" else f"$(command {name[1:].strip()}"


def with_rank_zero(text: str, own: set[str] | frozenset[str] = frozenset()) -> tuple[str, str]:
    """A text with rank 0's address in place of the first node's name.

    Args:
        text: shell; what stands in single quotes, or behind a backslash, is left to another shell.
        own: the variables that the script sets itself, which stay.

    Returns:
        The text, and the first such name in it as typed; "" for none.
    """
    out: list[str] = []
    first, at, in_double = "", 0, False
    while at < len(text):
        match = _NAME.match(text, at)
        if match is not None and (match["braced"] or match["plain"]) not in own:
            first = first or match[0]
            out.append("$MASTER_ADDR")
            at = match.end()
            continue
        end = at + (2 if text[at] == "\\" else 1)
        if text[at] == "'" and not in_double:
            end = text.find("'", at + 1) + 1 or len(text)
        in_double ^= text[at] == '"'
        out.append(text[at:end])
        at = end
    return "".join(out), first


def first_named(texts: Sequence[str], own: set[str], *, is_torchrun: bool) -> str:
    """The first name of that node in the words of a command; "" for none.

    Where torchrun's workers meet is the launcher's, and no word of the command any more.

    Args:
        texts: the words.
        own: the variables that the script sets itself.
        is_torchrun: whether they are those of a torchrun.
    """
    for before, text in pairwise(["", *texts]):
        name = with_rank_zero(text, own)[1]
        option = text if "=" in text else before
        if name and not (is_torchrun and _WHERE_WORKERS_MEET.match(option)):
            return name
    return ""


def is_named(text: str) -> bool:
    """Whether a text has the name of the node that its shell runs on."""
    return bool(with_rank_zero(text)[1])

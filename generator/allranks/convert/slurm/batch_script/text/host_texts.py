"""Texts of which the first node's name is a part: a URL, an address with its port, a folder.

The rest of such a text stays, with rank 0's address in the name's place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import first_node, substitutions, words

if TYPE_CHECKING:
    from collections.abc import Collection

OTHER_NETWORK = "; {} is left off, as it named a network of the old cluster"
# A name of the same node in another network, or its domain: node1-ib0, node1.cluster.local.
_SUFFIX = r"(?P<suffix>[-.][A-Za-z](?:[\w-]|\.(?=\w))*|i\b)"
_IN_URL = r"(?P<before>://(?:[^\s/@]*@)?)"
_BEHIND_URL = r"(?=[:/?\"'\s,]|$)"
_PORT = r"(?=:(?:\d|\$))"


def with_address(
    value: str, hosts: Collection[str], lists: Collection[str], own: set[str] | frozenset[str]
) -> str:
    """A variable's text with rank 0's address where the script asks for its first node.

    Args:
        value: the text, as typed: ``tcp://$(scontrol show hostnames | head -n1):23456``.
        hosts: the variables that have the first node's name; they stay.
        lists: those that have the names of all.
        own: the variables that the script sets itself.

    Returns:
        The text; "" where no part of it is known to be the node's name.
    """
    names = {*hosts, "MASTER_ADDR"}
    pieces, at = [], 0
    for start, end in substitutions.spans(value):
        text = value[start:end]
        reads = {name for name, _ in words.variables(text)}
        is_host = words.names_nodes(text) or first_node.is_named(text)
        pieces.append(value[at:start])
        pieces.append(_address(value, end) if is_host or reads & {*names, *lists} else text)
        at = end
    result = "".join([*pieces, value[at:]])
    for name in lists:
        pattern = re.compile(rf"\$(?:\{{{name}(?:\[0\])?\}}|{name}\b)")
        result = pattern.sub(lambda match: _address(match.string, match.end()), result)
    result, _ = first_node.with_rank_zero(result, own)
    reads = {name for name, _ in words.variables(result)}
    return result if reads & names else ""


def without_suffix(
    text: str, hosts: Collection[str], *, is_address: bool = False
) -> tuple[str, str]:
    """A text without what makes the first node's name one of another network.

    Args:
        text: shell: ``tcp://$first-ib0:5555``.
        hosts: the variables that have the first node's name.
        is_address: whether the whole text is an address, and not a name of something else.

    Returns:
        The text, and the first such suffix in it; "" for none.
    """
    names = "|".join(sorted({*hosts, "MASTER_ADDR"}))
    host = rf"(?P<host>\$(?:\{{(?:{names})\}}|(?:{names})(?!\w)))"
    patterns = [f"{_IN_URL}{host}{_SUFFIX}{_BEHIND_URL}"]
    patterns += [rf"(?P<before>(?<![\w/.:-])){host}{_SUFFIX}{_PORT}"]
    patterns += [rf"(?P<before>\A\"?){host}{_SUFFIX}(?=\"?\Z)"] if is_address else []
    suffix = ""
    for pattern in patterns:
        match = re.search(pattern, text)
        suffix = suffix or (match["suffix"] if match is not None else "")
        text = re.sub(pattern, r"\g<before>\g<host>", text)
    return text, suffix


def _address(text: str, end: int) -> str:
    """Rank 0's address in a text, in front of what stands behind a place of it."""
    return "${MASTER_ADDR}" if re.match(r"\w", text[end:]) else "$MASTER_ADDR"

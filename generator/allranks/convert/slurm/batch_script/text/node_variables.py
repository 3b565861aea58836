"""What a variable of a script tells of the nodes: how many there are, or where the first is."""

from __future__ import annotations

import re
from enum import StrEnum

from allranks.convert.slurm.batch_script.text import node_names, shell_text, words

# Numbers of ranks and nodes, which are no address.
_COUNTS = words.RENDEZVOUS - {"MASTER_ADDR", "MASTER_PORT", "MASTER_IP", "MASTER_HOST"}
# How scripts count the nodes, list them, and take the first.
_COUNTING = re.compile(r"\bwc\s+-l|\$\{#\w+\[")
_LISTING = re.compile(node_names.QUESTION)
_FIRST = re.compile(r"\bhead\b|\[0\]|\bsed\b[^|]*\b1p|NR\s*==\s*1|\bhostname\b|--ip-address")

# How a script asks for the address of the node that it runs on, which is the first.
_OF_THIS_NODE = re.compile(
    r"(?:\$\(|`)\s*(?:\S*/)?(?:ip\s+(?:-\S+\s+)*(?:a|addr|address|route|r)\b|ifconfig\b|hostname\b)"
)
# What a program of the project's own makes of the nodes: `TF_CONFIG=$(python config.py $NODES)`.
_OF_PROGRAM = re.compile(r"(?:\$\(|`)\s*(?:python[\d.]*\s+(?!-)\S|(?:\./|(?:ba)?sh\s)\S)")
_ADDRESS_IN_NAME = re.compile(r"(?i)addr|host|coord|(?:^|_)ip(?:$|_)|ur[il]$|endpoint")


class NodeVariable(StrEnum):
    """What a variable of the nodes is, with the text that a pod has for it."""

    TYPED = ""  # what the script says, as it is
    COUNT = "$SLURM_NNODES"
    ADDRESS = "$MASTER_ADDR"
    UNKNOWN = "?"


def kind_of(name: str, text: str, source_kinds: set[NodeVariable]) -> NodeVariable:
    """What a statement makes of a variable, by what those of the nodes are that it reads."""
    if _COUNTING.search(text):
        return NodeVariable.COUNT
    if _OF_THIS_NODE.search(text) and name not in _COUNTS and shell_text.looks_like_master(name):
        return NodeVariable.ADDRESS
    if not words.names_nodes(text) and source_kinds <= {NodeVariable.TYPED, NodeVariable.COUNT}:
        return NodeVariable.TYPED
    is_list = _LISTING.search(text) is not None or NodeVariable.UNKNOWN in source_kinds
    is_address = shell_text.looks_like_master(name) or _ADDRESS_IN_NAME.search(name) is not None
    if _OF_PROGRAM.search(text) and not (is_address or _FIRST.search(text)):
        return NodeVariable.UNKNOWN
    if name in _COUNTS or (is_list and not _FIRST.search(text)):
        return NodeVariable.UNKNOWN
    return NodeVariable.ADDRESS


def reads_first(name: str, text: str, command_line: str) -> bool:
    """Whether a command reads of an array of the nodes only the first: ``"${host[0]}"``, ``$host``.

    Args:
        name: the variable.
        text: what sets it; a variable that is no array has all nodes in its text.
        command_line: the command's shell.
    """
    arrays = rf"\b{name}=\(|\b(?:mapfile|readarray)\b|\bread\s+-\w*a"
    uses = re.findall(rf"\$\{{?[#!]?{name}\b", command_line)
    of_first = re.findall(rf"\$\{{{name}(?:\[0\])?\}}|\${name}\b", command_line)
    is_list = re.search(arrays, text) is not None and _LISTING.search(text) is not None
    return is_list and len(uses) == len(of_first)

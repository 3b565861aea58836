"""The sentence in which a launcher says how a rank ended (`describe`, in files/failures.py).

A pod whose own rank failed writes `rank 3 ended with exit code 9`. Others of its run write
`failed first: rank 3 in pod x-1 ended with exit code 9`, or `lost a peer: ` and their own rank.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from allranks import names

_SENTENCE = re.compile(
    rf"(?P<prefix>(?:{re.escape(names.PEER_LOST)})?(?:{re.escape(names.FAILED_FIRST)})?)"
    r"(?P<rank>rank \d+)(?: in pod (?P<pod>\S+))? ended with exit code (?P<code>\d+)"
)


class RankEnd(NamedTuple):
    """How a rank ended, as a termination message has it.

    Attributes:
        prefix: what stands before the rank: `names.FAILED_FIRST`, `names.PEER_LOST` or "".
        rank: the rank in words, as ``rank 3``.
        pod: its pod; "" where none is named.
        code: its exit code.
        rest: what follows in the message: its last lines.
    """

    prefix: str
    rank: str
    pod: str
    code: int
    rest: str


def parse(message: str) -> RankEnd | None:
    """Return the end of a rank with which a message begins; None where it begins with none.

    Args:
        message: a termination message.
    """
    match = _SENTENCE.match(message)
    if match is None:
        return None
    pod, code = match["pod"] or "", int(match["code"])
    return RankEnd(match["prefix"], match["rank"], pod, code, message[match.end() :])

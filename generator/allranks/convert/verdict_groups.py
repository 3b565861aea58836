"""Verdicts of neighbours that say the same, as one of what they stand in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.verdicts import dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import FieldPath, Verdict


def grouped(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts with those of neighbours that say the same put into that of what they stand in.

    Args:
        verdicts: in the order of the object.
    """
    groups: list[Verdict] = []
    for verdict in verdicts:
        last = groups[-1] if groups else None
        if last is not None and _says_the_same(last, verdict):
            keys = common_path(last.keys, verdict.keys)
            groups[-1] = replace(last, path=dotted(keys), keys=keys)
        else:
            groups.append(verdict)
    return groups


def _says_the_same(verdict: Verdict, other: Verdict) -> bool:
    above = common_path(verdict.keys, other.keys)
    # Within what the first stands in, and no higher.
    is_near = len(above) > 1 and len(above) in (len(verdict.keys), len(verdict.keys) - 1)
    is_near = is_near and len(other.keys) - len(above) <= 1 + (len(above) == len(verdict.keys))
    words = (verdict.outcome, verdict.to, verdict.why)
    return is_near and words == (other.outcome, other.to, other.why)


def common_path(path: FieldPath, other: FieldPath) -> FieldPath:
    """The path that two fields stand in.

    Args:
        path: that of the one.
        other: that of the other.
    """
    depth = next(
        (at for at, (a, b) in enumerate(zip(path, other, strict=False)) if a != b),
        min(len(path), len(other)),
    )
    return path[:depth]

"""Verdicts of neighbours that say the same, as one of what they stand in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.verdicts import Outcome, dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import FieldPath, Verdict


# So many fields with one reason are a part of an object that is not carried as a whole.
_FIELDS_OF_PART = 4


def with_whole_losses(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts with one for each part of an object of which nothing is carried, for one reason.

    Args:
        verdicts: in the order of the object.
    """
    words_of: dict[FieldPath, set[tuple[str, str, str]]] = {}
    counts: Counter[FieldPath] = Counter()
    for verdict in verdicts:
        for depth in range(2, len(verdict.keys)):
            part = verdict.keys[:depth]
            words_of.setdefault(part, set()).add((verdict.outcome, verdict.to, verdict.why))
            counts[part] += 1
    result: list[Verdict] = []
    whole: set[FieldPath] = set()
    for verdict in verdicts:
        parts = (verdict.keys[:depth] for depth in range(2, len(verdict.keys)))
        is_lost = verdict.outcome is Outcome.NOT_CARRIED
        keys = next(
            (p for p in parts if len(words_of[p]) == 1 and counts[p] >= _FIELDS_OF_PART), None
        )
        if keys is None or not is_lost:
            result.append(verdict)
        elif keys not in whole:
            whole.add(keys)
            result.append(replace(verdict, path=dotted(keys), keys=keys))
    return result


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

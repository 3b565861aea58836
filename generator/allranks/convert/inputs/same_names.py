"""Jobs of one name that come into one namespace, which has a release of that name once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.documents import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.verdicts import Conversion


def noted(conversions: Iterable[Conversion]) -> list[Conversion]:
    """Conversions of which each says whether one before it has its name and its namespace.

    Args:
        conversions: the jobs, with the namespaces that they go to.
    """
    firsts: dict[tuple[str, str], Conversion] = {}
    result: list[Conversion] = []
    for conversion in conversions:
        is_run = "workload" in conversion.values
        key = (conversion.namespace, conversion.name)
        first = firsts.setdefault(key, conversion) if is_run else conversion
        notes = [] if first is conversion else [_note(first, conversion)]
        result.append(conversion.with_notes(notes))
    return result


def _note(first: Conversion, second: Conversion) -> str:
    place = namespaces.of(first.manifest)
    where = f" of the namespace {place}" if place != namespaces.of(second.manifest) else ""
    line = f":{first.line}" if first.line else ""
    return (
        f"{first.kind} {first.name}{where} ({first.source}{line}) has this name as well, and a "
        f"namespace has one release of it: start one of the two as another"
    )

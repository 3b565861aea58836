"""How often a pod that fails is replaced, where the chart alone says it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.verdicts import Outcome, dotted
from allranks.k8s import fields as k8s
from allranks.values.sources import defaults as chart_defaults

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_LIMIT = ("runPolicy", "backoffLimit")


def noted(conversion: Conversion) -> Conversion:
    """A conversion that says how often a pod is replaced, where its report leans on that value.

    Args:
        conversion: the conversion; where its values have the number, it is as it was.
    """
    chart = str(conversion.values.get("workload") or "")
    if chart not in names.WORKLOADS or k8s.at(conversion.values, *_LIMIT) is not None:
        return conversion
    limit = dotted(_LIMIT)
    is_named = any(limit in note for note in conversion.notes) or any(
        verdict.to == limit for verdict in conversion.of(Outcome.CHANGED)
    )
    if not is_named:
        return conversion
    return conversion.with_notes([f"{limit} is {_default(chart)} where nothing sets it"])


@functools.cache
def _default(chart: str) -> int:
    number: int = k8s.at(chart_defaults(chart), *_LIMIT)
    return number

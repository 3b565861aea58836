"""The values of charts without a workload: the schema is checked, and the presets of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InvalidValues
from allranks.schema.validate import validate
from allranks.values import sources as gathering
from allranks.values.merge import merge, overlay
from allranks.values.queue import DEFAULTS
from allranks.values.resolve import typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.values.sources import Sources
    from allranks.yamlio.document import ValuesDocument


def check_document(document: ValuesDocument, chart: str) -> None:
    """Refuse a values file that the chart would refuse.

    Args:
        document: the file.
        chart: the chart's folder.

    Raises:
        InvalidValues: the values are wrong; every problem is in it.
    """

    def where(path: Sequence[str | int]) -> str:
        return gathering.find((document,), path)

    values = merge(gathering.defaults(chart), document.data)
    problems = validate(chart, values, where, typed(where))
    if problems:
        raise InvalidValues(problems)


def resolve(sources: Sources, chart: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """The values to pass to helm.

    Args:
        sources: the files and flags.
        chart: the chart's folder.
        before: what the release was given until now; the sources are laid over it.

    Raises:
        InvalidValues: the values are wrong; every problem is in it.
        InputError: a file is missing, unreadable or no values file, or a queue's preset does not
            exist.
    """
    layers, documents = gathering.read(sources)
    user = overlay(before, documents)

    def where(path: Sequence[str | int]) -> str:
        return gathering.find(layers, path)

    values = merge(gathering.defaults(chart), user)
    problems = validate(chart, values, where, typed(where))
    if problems:
        raise InvalidValues(problems)
    if chart == names.QUEUE_CHART:
        # Helm knows no presets: what is wrong here would be told to each who submits.
        gathering.presets_of(values[DEFAULTS].get("preset"), layers, (DEFAULTS, "preset"))
    return user

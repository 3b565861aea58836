"""Hold what was made of a TorchrunQueue to what charts/queue takes.

An object may have what its controller's schema let pass and ours does not: an image that is none, a
name that no queue can have. `queue install` would refuse the file that such values are written to,
so they are refused here, by the field that they come from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError, InvalidValues
from allranks.values import charts
from allranks.yamlio import dump, load

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict
    from allranks.errors import Problem

_OWN_LABELS = frozenset(
    {names.APP_NAME, names.APP_INSTANCE, names.APP_MANAGED_BY, names.APP_PART_OF, names.APP_VERSION}
)
# Whose labels and annotations say something of an object that is left behind.
_OWNERS = (f"{names.DOMAIN}/", "helm.sh/", "meta.helm.sh/", "kubectl.kubernetes.io/")


def fit(conversion: Conversion, source: str) -> Conversion:
    """The conversion with values that charts/queue takes.

    Args:
        conversion: what was made of the object.
        source: the file that has it.

    Raises:
        InputError: a value is none that the chart takes; the field that it was made of is named.
    """
    fitting = _without_the_chart_s_own(conversion)
    document = load.load(dump.dump(fitting.values), source)
    try:
        charts.check_document(document, names.QUEUE_CHART)
    except InvalidValues as error:
        raise InvalidValues([_of_field(item, fitting, source) for item in error.problems]) from None
    except InputError as error:
        raise InvalidValues([_of_field(error.problem, fitting, source)]) from None
    return fitting


def _without_the_chart_s_own(conversion: Conversion) -> Conversion:
    """The conversion without labels and annotations that the chart, helm and kubectl write."""
    values = dict(conversion.values)
    for block in ("labels", "annotations"):
        own = values.get(block)
        if not isinstance(own, dict):
            continue  # none, or what the chart refuses
        values[block] = {key: item for key, item in own.items() if not _is_own(str(key))}
        if not values[block]:
            del values[block]
    verdicts = tuple(
        replace(verdict, outcome=Outcome.CHANGED, to="", why="the chart, helm or kubectl writes it")
        if verdict.keys[:-1] in {("metadata", "labels"), ("metadata", "annotations")}
        and _is_own(str(verdict.keys[-1]))
        else verdict
        for verdict in conversion.verdicts
    )
    return replace(conversion, values=values, verdicts=verdicts)


def _is_own(key: str) -> bool:
    return key in _OWN_LABELS or key.startswith(_OWNERS)


def _of_field(problem: Problem, conversion: Conversion, source: str) -> Problem:
    """The problem of a value, said of the field of the object that it was made of."""

    def concerns(verdict: Verdict) -> bool:
        rest = problem.path.removeprefix(verdict.to) if verdict.to else problem.path
        return rest != problem.path and rest[:1] in ("", ".", "[")

    fields = [verdict for verdict in conversion.verdicts if concerns(verdict)]
    longest = max((len(verdict.to) for verdict in fields), default=0)
    fields = [verdict for verdict in fields if len(verdict.to) == longest]
    if not fields:
        return problem.at(source=source)
    # A mapping is carried as a whole: its key says which of its fields it is.
    ends = [(f".{item.keys[-1]}", f'["{item.keys[-1]}"]') for item in fields]
    same = (item for item, end in zip(fields, ends, strict=True) if problem.path.endswith(end))
    return problem.at(
        next(same, fields[0]).path,
        message=f"{problem.message}; it becomes {problem.path}",
        source=source,
    )

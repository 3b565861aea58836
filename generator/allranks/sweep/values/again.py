"""A trial's values as a person would write them: a values file that runs the trial once more.

A trial that is a program in one pod is a release of the sweep's own chart, which fills in
placeholders. Those of the trial were filled in before, so that what looks like one now was chosen,
and is to arrive as it is. A chart has no sign that says so; but it does not look at what a choice
holds, and so the beginning of a placeholder is written as a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.sweep.values import places

if TYPE_CHECKING:
    from collections.abc import Mapping

OPEN = "open"  # the parameter that stands for the beginning of a placeholder
_OF = "of"  # the parameter that says which trial the values were
_BEGIN = "${sweep."
_ESCAPED = f"{_BEGIN}{OPEN}}}"
# What is made for helm, and what is written anew.
_MADE = ("layout", names.SWEEP_PLUGIN)


def to_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's values without what was made of them for helm.

    Args:
        given: of `Prepared.values`.
    """
    if not is_made(given):
        return dict(given)
    first = {"workload": given["workload"]}
    if first["workload"] != names.SWEEP_PLUGIN:
        return {**first, **{key: value for key, value in given.items() if key != _MADE[0]}}
    shared = {key: value for key, value in given.items() if key not in _MADE}
    (named,) = given["sweep"]["parameters"].values()
    parameters = {_OF: {**named, "env": _free("OF_TRIAL", shared)}}
    if any(_BEGIN in text for _, text, is_key in places.strings(shared) if not is_key):
        parameters[OPEN] = {"values": [_BEGIN]}
        shared = _escaped(shared)
    return {**first, **shared, "sweep": {"parameters": parameters}}


def is_made(values: Mapping[str, Any]) -> bool:
    """Whether values are those that helm is given for a trial of a chart of ours.

    A foreign chart may have a value called ``layout`` as well.
    """
    layout = values.get("layout")
    return "workload" in values and isinstance(layout, dict) and "trial" in layout


def _free(name: str, values: Mapping[str, Any]) -> str:
    """A variable that the values do not set: the trial may have been one of such a file itself."""
    taken = values.get("env") or {}
    count = 1
    found = name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value.replace(_BEGIN, _ESCAPED) if isinstance(value, str) else value

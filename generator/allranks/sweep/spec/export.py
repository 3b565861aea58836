"""Export a trial's values as a values file that runs the trial once more.

A trial that is a program in one pod is a release of the sweep's own chart, which fills in
placeholders. The trial's own ones are filled in already, so that text that looks like one now
belongs to a choice, and must arrive as it is. The chart has no escape for it; but it does not
expand the text of a choice, and so the beginning of a placeholder is written as a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.sweep.model import Parameter, Range, Values
from allranks.sweep.search import space
from allranks.sweep.spec import apply, parameters
from allranks.sweep.spec.parameters import ParameterReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.spec.parameters import TokenOf


OPEN = "open"  # the parameter whose value is the beginning of a placeholder
_OF = "of"  # the parameter whose value is the name of the exported trial
_BEGIN = "${sweep."
_ESCAPED = f"{_BEGIN}{OPEN}}}"
# Keys that are generated for helm, and keys that are written anew.
_GENERATED = ("layout", names.SWEEP_PLUGIN)


def values_to_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial's values without the keys that were generated for helm.

    Args:
        values: of `PreparedSweep.values`.
    """
    if not is_for_helm(values):
        return dict(values)
    first = {"workload": values["workload"]}
    if first["workload"] != names.SWEEP_PLUGIN:
        return {**first, **{key: value for key, value in values.items() if key != _GENERATED[0]}}
    shared = {key: value for key, value in values.items() if key not in _GENERATED}
    (parameter,) = values["sweep"]["parameters"].values()
    parameters = {_OF: {**parameter, "env": _free_variable("OF_TRIAL", shared)}}
    if any(_BEGIN in text for _, text, is_key in apply.strings(shared) if not is_key):
        parameters[OPEN] = {"values": [_BEGIN]}
        shared = _escape(shared)
    return {**first, **shared, "sweep": {"parameters": parameters}}


def is_for_helm(values: Mapping[str, Any]) -> bool:
    """Whether values are those that helm gets for a trial of one of our charts.

    An external chart may have a value called ``layout`` as well.
    """
    layout = values.get("layout")
    return "workload" in values and isinstance(layout, dict) and "trial" in layout


def _free_variable(name: str, values: Mapping[str, Any]) -> str:
    """Return a variable that the values do not set; an exported file may be exported again."""
    variables = values.get("env") or {}
    count = 1
    variable = name
    while variable in variables:
        count += 1
        variable = f"{name}_{count}"
    return variable


def _escape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape(item) for item in value]
    return value.replace(_BEGIN, _ESCAPED) if isinstance(value, str) else value


# The most trials of a release; the values of a longer range are not listed.
_LONGEST = 10_000
_SPACES = ("values", "range", "quantized")


def as_typed(user: Mapping[str, Any], token: TokenOf) -> dict[str, Any]:
    """Return values for charts/sweep, with text for every choice.

    Args:
        user: the user's values.
        token: returns how a number or a boolean at a path was written; None if it was text.
    """
    section = user.get("sweep")
    forms = section.get("parameters") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(forms, dict):
        return dict(user)
    path = ("sweep", "parameters")
    parsed = {
        parameter.name: parameter
        for parameter in parameters.parameters(ParameterReader(token), path, forms)
    }
    texts = {name: _write_form(form, parsed.get(name)) for name, form in forms.items()}
    return {**user, "sweep": {**section, "parameters": texts}}


def _write_form(form: Any, parameter: Parameter | None) -> Any:
    if parameter is None or not isinstance(parameter.space, Values | Range):
        return form
    count = space.size(parameter.space) or 0
    if count > _LONGEST:
        return form
    texts = [space.choice(parameter.space, index).text for index in range(count)]
    rest = {key: value for key, value in form.items() if key not in _SPACES}
    return {**rest, "values": texts}

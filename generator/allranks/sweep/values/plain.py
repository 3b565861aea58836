"""A grid as one release of charts/sweep: its choices as the text that was typed.

Helm reads ``1e-5`` as a number and would write it as 0.00001. So the chart is given every choice as
text, and a range as the list of its numbers; what is not good is left for the chart to refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.sweep import space
from allranks.sweep.model import Parameter, Range, Values
from allranks.sweep.values import forms
from allranks.sweep.values.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.values.reading import TokenOf

# No release has more trials, so that a longer range is never tried to its end.
_LONGEST = 10_000
_SPACES = ("values", "range", "quantized")


def as_typed(user: Mapping[str, Any], token: TokenOf) -> dict[str, Any]:
    """Values for charts/sweep, with text for every choice.

    Args:
        user: what the person gave.
        token: how a number or a boolean at a path was written; None where it was text.
    """
    section = user.get("sweep")
    given = section.get("parameters") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(given, dict):
        return dict(user)
    path = ("sweep", "parameters")
    known = {each.name: each for each in forms.parameters(Reading(token), path, given)}
    written = {name: _written(form, known.get(name)) for name, form in given.items()}
    return {**user, "sweep": {**section, "parameters": written}}


def _written(form: Any, parameter: Parameter | None) -> Any:
    if parameter is None or not isinstance(parameter.space, Values | Range):
        return form
    count = space.size(parameter.space) or 0
    if count > _LONGEST:
        return form
    texts = [space.choice(parameter.space, index).text for index in range(count)]
    rest = {key: value for key, value in form.items() if key not in _SPACES}
    return {**rest, "values": texts}

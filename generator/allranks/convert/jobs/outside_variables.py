"""Numbers of a launcher that variables from outside of its container decide.

``--nproc_per_node=${GPUS:-1}`` is one process only where nothing sets ``GPUS``: a ConfigMap that
the container reads may, and so may the script before it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.pods.podsets import RANKS
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import FieldPath, Fields

_OPTIONS = ("nproc-per-node", "nnodes")
_VARIABLE = re.compile(
    r"\$\{([A-Za-z_]\w*)(?::?-[^}]*)?\}|\$([A-Za-z_]\w*)|\$\(([A-Za-z_]\w*)\)", re.ASCII
)


def with_counts(fields: Fields, container: FieldPath, runs: Program, context: Context) -> Program:
    """A program whose launcher's numbers are those that its ConfigMaps say.

    A variable that something else may set keeps no default: its number is not known.

    Args:
        fields: the object.
        container: the container that runs it, below its template.
        runs: what the container's words run.
        context: what else is known; the input may have the ConfigMaps.
    """
    options = dict(runs.options)
    for option in _OPTIONS:
        text = options.get(option)
        if text is not None:
            options[option] = _VARIABLE.sub(
                lambda match: _number(fields, container, runs, context, match), text
            )
    return replace(runs, options=options) if options != dict(runs.options) else runs


def decide(container: Mapping[str, object], text: str) -> bool:
    """Whether a number is of a variable whose text stands outside of its container.

    Args:
        container: the container.
        text: the number, as it is typed.
    """
    named = {next(filter(None, match)) for match in _VARIABLE.findall(text)}
    entries = {str(entry.get("name")): entry for entry in k8s.items(container, "env")}
    return any(
        bool(entries[name].get("valueFrom"))
        if name in entries
        else bool(k8s.items(container, "envFrom"))
        for name in named
    )


def _number(
    fields: Fields, container: FieldPath, runs: Program, context: Context, match: re.Match[str]
) -> str:
    """What stands for a variable: its text, its name alone where that is not known, or itself."""
    name = match[1] or match[2] or match[3]
    entries = [entry for _, entry in fields.items(*container, "env") if entry.get("name") == name]
    is_assigned = re.search(rf"(?<![\w$-]){name}=", runs.setup, re.ASCII) is not None
    if is_assigned:
        return f"${name}"
    if entries and not entries[-1].get("valueFrom"):
        return match[0]
    own = (
        _of_entry(entries[-1], context)
        if entries
        else _of_sources(fields, container, name, context)
    )
    is_of_rank = name in RANKS or name.startswith("PET_")
    return (f"${name}" if is_of_rank else match[0]) if own is None else own or f"${name}"


def _of_entry(entry: Mapping[str, object], context: Context) -> str:
    """The text of a variable that an object has; "" where that is not known."""
    source = k8s.mapping(entry, "valueFrom", "configMapKeyRef")
    return _data(context, k8s.text(source, "name")).get(k8s.text(source, "key"), "")


def _of_sources(fields: Fields, container: FieldPath, name: str, context: Context) -> str | None:
    """The text of a variable of `envFrom`: "" where that is not known, None where none has it."""
    for _, source in reversed(fields.items(*container, "envFrom")):
        prefix = k8s.text(source, "prefix")
        if not name.startswith(prefix):
            continue
        key = name.removeprefix(prefix)
        config_map = k8s.text(source, "configMapRef", "name")
        if context.find("ConfigMap", config_map) is None:
            return ""
        if (text := _data(context, config_map).get(key)) is not None:
            return text
    return None


def _data(context: Context, config_map: str) -> dict[str, str]:
    """What a ConfigMap of the input has."""
    document = context.find("ConfigMap", config_map)
    data = {} if document is None else k8s.mapping(document.data, "data")
    return {str(key): str(value) for key, value in data.items()}

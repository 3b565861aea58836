"""Sweep over values files: ``--over learning=lr.yaml``, each file or list item one choice.

    --over model=small.yaml,large.yaml     a choice per file: small, large
    --over model=models/*.yaml             the same for all that a pattern finds, by name
    --over learning=lr.yaml                lr.yaml is a list: a choice per item, lr[0], lr[1], …
    --over lr=rates.yaml                   a list of plain values: lr is a parameter like others

A choice that is a mapping is merged over the values of all trials, exactly as one more ``-f`` would
be. A list of texts, numbers and booleans is the same as the parameter's ``values``. The files are
read once; their content is part of the sweep, which needs them no more.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.sweep.model import OVERLAY, Choice, Parameter, Reach, Values
from allranks.sweep.spec import parameters
from allranks.sweep.spec.parameters import ParameterReader
from allranks.values import files
from allranks.yamlio.load import load_list
from allranks.yamlio.mistakes import kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.paths import ValuesPath
    from allranks.yamlio.document import ValuesDocument

FLAG = "--over"
# Keys about the whole sweep, which are the same for all trials.
_SHARED = ("sweep", "preset")
# The key under which a list is read, so that its items have paths; YAML has no such character.
_LIST = "\0"
_SPECIAL = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class _Item:
    """A choice from a file: values, or a plain value, with its source."""

    label: str
    data: Any
    document: ValuesDocument
    path: ValuesPath

    @property
    def place(self) -> str:
        """``file:line``."""
        return self.document.where(self.path)


def flag(text: str, workload: str = "") -> Parameter:
    """Return the parameter of one ``--over NAME=FILE[,FILE…]``.

    Args:
        text: the flag's value. A file may be a pattern; a backslash takes the next character as it
            is.
        workload: which of our charts the trials use, which a choice may repeat; "" for an external
            chart, and where a trial runs its command alone.

    Raises:
        InputError: it is not of that form, a file is missing or is not YAML, a pattern matches
            nothing, or the choices are of several kinds.
        InvalidValues: the name is not valid, or a plain value cannot be tried.
    """
    source = f"{FLAG} {text}"
    name, equals, patterns = text.partition("=")
    if not equals or not name or not patterns:
        raise InputError(
            f"{FLAG} takes name=files",
            hint="write learning=lr.yaml, or model=a.yaml,b.yaml",
            source=source,
        )
    items = list(_items(_files(patterns, source)))
    values = [isinstance(item.data, dict) for item in items]
    if not items:
        raise InputError("there is nothing to choose from", hint="list a choice", source=source)
    if all(values):
        return _overlays(
            name, patterns, [_remove_workload(item, workload) for item in items], source
        )
    if any(values):
        odd = items[values.index(not values[0])]
        raise InputError(
            f"the choices are of different kinds: this one is {kind(odd.data)}",
            hint="make all of them values (mappings), or all of them plain values",
            source=odd.place,
        )
    return _plain(name, items, source)


def only_choice(parameter: Parameter) -> str:
    """Return the only choice of a parameter whose files are named one by one; "" if there are more.

    A pattern may match one file today, and more tomorrow.
    """
    patterns = "".join(reach.to for reach in parameter.reaches if reach.kind == OVERLAY)
    only = len(parameter.overlays) == 1 and not _SPECIAL & set(patterns)
    return next(iter(parameter.overlays)) if only else ""


def _files(patterns: str, source: str) -> Iterator[str]:
    """Yield the named files, and those that patterns match, in the order of their names."""
    for pattern in parameters.split(patterns):
        if not _SPECIAL & set(pattern):
            yield pattern
            continue
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - a name as typed
        if not matches:
            raise InputError(f"no file is called like {pattern}", hint="check it", source=source)
        yield from matches


def _items(names: Iterator[str]) -> Iterator[_Item]:
    for name in names:
        document = load_list(files.read(name), name, _LIST)
        stem = PurePath(name).stem
        if _LIST not in document.data:
            yield _Item(stem, document.data, document, ())
        for index, item in enumerate(document.data.get(_LIST, ())):
            yield _Item(f"{stem}[{index}]", item, document, (_LIST, index))


def _remove_workload(item: _Item, workload: str) -> _Item:
    """Return a choice without the `workload` of a complete values file."""
    if not workload or "workload" not in item.data:
        return item
    if item.data["workload"] != workload:
        raise InputError(
            f"the choice is for the workload {item.data['workload']}, and the trials are of "
            f"{workload}",
            path="workload",
            hint="sweep each workload on its own",
            source=item.document.where((*item.path, "workload")),
        )
    rest = {key: value for key, value in item.data.items() if key != "workload"}
    return replace(item, data=rest)


def _overlays(name: str, patterns: str, items: list[_Item], source: str) -> Parameter:
    reading = ParameterReader(where=lambda _path: source)
    parameters.check_name(reading, (name,), name)
    reading.done()
    # Two folders may each have a file of this name.
    labels = [item.label for item in items]
    if len(set(labels)) < len(labels):
        labels = [_item_source(item) for item in items]
    overlays: dict[str, dict[str, Any]] = {}
    for label, item in zip(labels, items, strict=True):
        if label in overlays:
            raise InputError(f"{label} is given twice", hint="keep one of the two", source=source)
        _check(item)
        overlays[label] = dict(item.data)
    space = Values(tuple(Choice(label, label) for label in overlays))
    return Parameter(name, space, (Reach(OVERLAY, patterns),), overlays)


def _item_source(item: _Item) -> str:
    suffix = item.label[len(PurePath(item.document.source).stem) :]
    return item.document.source + suffix


def _check(item: _Item) -> None:
    for key in _SHARED:
        if key in item.data:
            raise InputError(
                f"{key} is the same for all trials, and a choice cannot have another",
                path=key,
                hint="put it into a file given with -f",
                source=item.document.where((*item.path, key)),
            )
    if not item.data:
        raise InputError(
            "a choice without values changes nothing",
            hint="write what differs, or remove it",
            source=item.place,
        )


def _plain(name: str, items: list[_Item], source: str) -> Parameter:
    """Return a parameter of plain values, as one of a values file, with its values as typed."""

    def item_at(path: ValuesPath) -> _Item | None:
        index = path[-1] if path[:2] == (name, "values") else None
        return items[index] if isinstance(index, int) else None

    def token(path: ValuesPath) -> str | None:
        item = item_at(path)
        return None if item is None else item.document.token(item.path)

    def place(path: ValuesPath) -> str:
        item = item_at(path)
        return source if item is None else item.place

    reading = ParameterReader(token, place)
    form = {"values": [item.data for item in items]}
    parsed = parameters.parameters(reading, (), {name: form})
    reading.done()
    return parsed[0]

"""Sweeping over values files: ``--over learning=lr.yaml``, each file or list item one choice.

    --over model=small.yaml,large.yaml     a choice per file: small, large
    --over model=models/*.yaml             the same for all that a pattern finds, by name
    --over learning=lr.yaml                lr.yaml is a list: a choice per item, lr[0], lr[1], …
    --over lr=rates.yaml                   a list of plain values: lr is a parameter like others

A choice that is a mapping is laid over the values of all trials, exactly as one more ``-f`` would
be. A list of texts, numbers and booleans is the same as the parameter's ``values``. The files are
read once; what they hold is kept with the sweep, so that it goes on without them.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.sweep.model import OVERLAY, Choice, Parameter, Reach, Values
from allranks.sweep.values import forms
from allranks.sweep.values.reading import Reading
from allranks.values import files
from allranks.yamlio.load import load_list
from allranks.yamlio.mistakes import kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.paths import ValuesPath
    from allranks.yamlio.document import Document

FLAG = "--over"
# What is about the sweep, and so the same for all its trials.
_SHARED = ("sweep", "preset")
# Where a list is put to give its items paths: no file has this key, as YAML has no such character.
_LIST = "\0"
_SPECIAL = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class _Item:
    """What one choice is: values, or a plain value; and where it stands."""

    label: str
    data: Any
    document: Document
    path: ValuesPath

    @property
    def place(self) -> str:
        """``file:line``."""
        return self.document.where(self.path)


def flag(text: str, workload: str = "") -> Parameter:
    """The parameter of one ``--over NAME=FILE[,FILE…]``.

    Args:
        text: the flag's value. A file may be a pattern; a backslash takes the next character as it
            is.
        workload: which of our charts the trials are of; a choice that says so says nothing new. ""
            for a foreign chart, and where a trial runs its command alone.

    Raises:
        InputError: it is not of that form, a file is missing or is not YAML, a pattern finds
            nothing, or the choices are of several kinds.
        InvalidValues: the name is none, or a plain value cannot be tried.
    """
    source = f"{FLAG} {text}"
    name, equals, written = text.partition("=")
    if not equals or not name or not written:
        raise InputError(
            f"{FLAG} takes name=files",
            hint="write learning=lr.yaml, or model=a.yaml,b.yaml",
            source=source,
        )
    items = list(_items(_found(written, source)))
    values = [isinstance(item.data, dict) for item in items]
    if not items:
        raise InputError("there is nothing to choose from", hint="list a choice", source=source)
    if all(values):
        return _overlays(name, written, [_of(item, workload) for item in items], source)
    if any(values):
        odd = items[values.index(not values[0])]
        raise InputError(
            f"a choice is {kind(odd.data)}, and others are not",
            hint="make all of them values (mappings), or all of them plain values",
            source=odd.place,
        )
    return _plain(name, items, source)


def alone(parameter: Parameter) -> str:
    """The only choice of a parameter of files that were named one by one; "" where there are more.

    What a pattern finds may be one file today, and more tomorrow.
    """
    written = "".join(reach.to for reach in parameter.reaches if reach.kind == OVERLAY)
    only = len(parameter.overlays) == 1 and not _SPECIAL & set(written)
    return next(iter(parameter.overlays)) if only else ""


def _found(written: str, source: str) -> Iterator[str]:
    """The files that are named, patterns by the files they find, in the order of their names."""
    for part in forms.split(written):
        if not _SPECIAL & set(part):
            yield part
            continue
        found = sorted(glob.glob(part, recursive=True))  # noqa: PTH207 - a name as typed
        if not found:
            raise InputError(f"no file is called like {part}", hint="check it", source=source)
        yield from found


def _items(names: Iterator[str]) -> Iterator[_Item]:
    for name in names:
        document = load_list(files.read(name), name, _LIST)
        stem = PurePath(name).stem
        if _LIST not in document.data:
            yield _Item(stem, document.data, document, ())
        for index, item in enumerate(document.data.get(_LIST, ())):
            yield _Item(f"{stem}[{index}]", item, document, (_LIST, index))


def _of(item: _Item, workload: str) -> _Item:
    """A choice without the `workload` that a whole values file has."""
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


def _overlays(name: str, written: str, items: list[_Item], source: str) -> Parameter:
    reading = Reading(where=lambda _path: source)
    forms.check_name(reading, (name,), name)
    reading.done()
    # Two folders may each have a file of this name.
    labels = [item.label for item in items]
    if len(set(labels)) < len(labels):
        labels = [_whole(item) for item in items]
    overlays: dict[str, dict[str, Any]] = {}
    for label, item in zip(labels, items, strict=True):
        if label in overlays:
            raise InputError(f"{label} is given twice", hint="keep one of the two", source=source)
        _check(item)
        overlays[label] = dict(item.data)
    space = Values(tuple(Choice(label, label) for label in overlays))
    return Parameter(name, space, (Reach(OVERLAY, written),), overlays)


def _whole(item: _Item) -> str:
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
    """A parameter like one of a values file: as typed, and reaching its trial in the same ways."""

    def item_at(path: ValuesPath) -> _Item | None:
        index = path[-1] if path[:2] == (name, "values") else None
        return items[index] if isinstance(index, int) else None

    def token(path: ValuesPath) -> str | None:
        item = item_at(path)
        return None if item is None else item.document.token(item.path)

    def place(path: ValuesPath) -> str:
        item = item_at(path)
        return source if item is None else item.place

    reading = Reading(token, place)
    form = {"values": [item.data for item in items]}
    found = forms.parameters(reading, (), {name: form})
    reading.done()
    return found[0]

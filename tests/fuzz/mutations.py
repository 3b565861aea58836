"""Values files that are almost right: those of the charts and examples, with a few changes.

A case follows from a seed and its number alone, so that a failure is found again by the two.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.schema import paths
from allranks.values.merge import copy, merge
from allranks.values.sources import defaults
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.paths import ValuesPath

REPO = Path(__file__).parents[2]
_MISSING = object()
_TEXTS = (
    "",
    " ",
    "a",
    "auto",
    "true",
    "ture",
    "yes",
    "null",
    "8",
    "1e-5",
    "٣",
    "1Gi",
    "8 GB",
    "-1",
    "NaN",
    "a b",
    "A_b",
    "ü",
    "日本",
    "😀",
    "a\nb",
    "\t",
    'say "hi"',
    "it's",
    "{{ .Values.image }}",
    "$(HOME)",
    "${sweep.lr}",
    "${sweep.none}",
    "../../x",
    "/",
    "http://a/b",
    "x" * 64,
    "x" * 300,
    "a.b.c/d",
    "#",
    ": ",
    "- a",
    "\x85",
    "\u2028",
)
_NUMBERS = (0, 1, -1, 2, 3, 7, 8, 255, 256, 65535, 65536, 2**31, 2**53, 1e308, 0.5, 1.0, -0.5)
_PLAIN = (None, True, False, [], {}, [[]], [None], {"a": None}, [{}], ["a", "a"], {"a": {"b": 1}})
_KEYS = (
    "enabled",
    "name",
    "Name",
    "value",
    "a.b",
    "a/b",
    "",
    "1",
    "über",
    "x" * 70,
    "spec",
    "size",
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: the path, and what stands there now; `_MISSING` where it was removed."""

    path: ValuesPath
    value: Any

    def apply(self, values: Any) -> Any:
        """The values with the change; as they are where its path is not there."""
        return _put(values, self.path, self.value)

    def __str__(self) -> str:
        """The change as a person reads it."""
        text = "removed" if self.value is _MISSING else repr(self.value)
        return f"{paths.show(self.path)}: {text if len(text) < 200 else text[:199] + '…'}"


@dataclass(frozen=True, slots=True)
class Case:
    """A values file to be judged.

    Attributes:
        number: which one it is of its seed.
        base: the file that it was made from.
        values: that file's.
        changes: what was changed.
    """

    number: int
    base: str
    values: dict[str, Any]
    changes: tuple[Change, ...]

    @property
    def workload(self) -> str:
        """Which chart it is for."""
        return str(self.values["workload"])

    def mutated(self) -> dict[str, Any]:
        """The values with all changes."""
        out: Any = copy(self.values)
        for change in self.changes:
            out = change.apply(out)
        return dict(out)


def bases() -> list[tuple[str, dict[str, Any]]]:
    """Every values file of the charts and the examples, by its path."""
    base_values = []
    for path in sorted([*REPO.glob("charts/*/ci/*-values.yaml"), *REPO.glob("examples/*/*.yaml")]):
        data = load(path.read_bytes(), path.name).data
        chart = path.parents[1].name if "charts" in path.parts else data.get("workload")
        if chart in names.WORKLOADS:
            base_values.append((str(path.relative_to(REPO)), {**data, "workload": chart}))
    return base_values


def case(seed: int, number: int, base_values: list[tuple[str, dict[str, Any]]]) -> Case:
    """The case of a number.

    Args:
        seed: of all cases.
        number: its own.
        base_values: those of `bases`.
    """
    chance = random.Random(f"{seed}:{number}")  # noqa: S311 - for variety, not for secrets
    name, values = base_values[number % len(base_values)]
    out: Any = copy(values)
    changes = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = _change(chance, out)
        changes.append(change)
        out = change.apply(out)
    return Case(number, name, values, tuple(changes))


def _change(chance: random.Random, values: dict[str, Any]) -> Change:
    """A change somewhere: in what the file says, or in what the chart has besides."""
    whole = values
    if chance.random() < 0.5:
        whole = merge(defaults(str(values["workload"])), values)
    places = [path for path in _paths(whole) if path and path != ("workload",)]
    path = chance.choice(places)
    old = _get(whole, path)
    kind = chance.random()
    if kind < 0.12:
        return Change(path, _MISSING)
    if kind < 0.24:
        return _renamed(chance, path, old)
    if kind < 0.34 and isinstance(old, dict):
        return Change((*path, chance.choice(_KEYS)), _any(chance))
    if kind < 0.40 and isinstance(old, list):
        items = [*old, *(old[:1] or [_any(chance)])]
        return Change(path, items * chance.choice((1, 1, 100)))
    if kind < 0.60:
        return Change(path, _retyped(chance, old))
    return Change(path, _any(chance))


def _renamed(chance: random.Random, path: ValuesPath, old: Any) -> Change:
    """A key that is nearly right, or a text that nearly is."""
    text = old if isinstance(old, str) and chance.random() < 0.5 else path[-1]
    if not isinstance(text, str) or not text:
        return Change(path, _any(chance))
    at = chance.randrange(len(text))
    slip = chance.choice(
        (
            text[:at] + text[at + 1 :],
            text[:at] + text[at].swapcase() + text[at + 1 :],
            text + "s",
            text[:at] + text[at] + text[at:],
            text.upper(),
            text.replace("-", "_"),
        )
    )
    return Change(path, slip) if text is old else Change((*path[:-1], slip), old)


def _retyped(chance: random.Random, old: Any) -> Any:
    """The same value as another type."""
    if isinstance(old, bool):
        return chance.choice((str(old).lower(), int(old), str(old), [old]))
    if isinstance(old, int | float):
        return chance.choice((str(old), float(old), [old], {"value": old}, bool(old), -old))
    if isinstance(old, str):
        return chance.choice(([old], {"name": old}, old.split(), f" {old}", f"{old}\n", 1, True))
    if isinstance(old, list):
        return chance.choice(
            (dict.fromkeys(map(str, range(len(old))), "a"), " ".join(map(str, old)), [old], None)
        )
    if isinstance(old, dict):
        return chance.choice(
            ([{"name": key, "value": value} for key, value in old.items()], list(old), "a", [old])
        )
    return chance.choice(("", 0, [], {}))


def _any(chance: random.Random) -> Any:
    value = chance.choice(chance.choice((_TEXTS, _NUMBERS, _PLAIN)))
    return copy(value)


def _paths(value: Any, path: ValuesPath = ()) -> Iterator[ValuesPath]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):
            yield from _paths(item, (*path, index))


def _get(values: Any, path: ValuesPath) -> Any:
    for step in path:
        values = values[step]
    return values


def _put(values: Any, path: ValuesPath, value: Any) -> Any:
    """Values with one place set, made or removed; a list is left where its index is not there."""
    if not path:
        return values if value is _MISSING else value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if not isinstance(values, list) or step >= len(values):
            return values
        inner = _put(values[step], rest, value) if rest or value is not _MISSING else _MISSING
        return [*values[:step], *([] if inner is _MISSING else [inner]), *values[step + 1 :]]
    if not isinstance(values, dict):
        return values
    if not rest and value is _MISSING:
        return {key: item for key, item in values.items() if key != step}
    below = values.get(step, {} if rest and isinstance(rest[0], str) else None)
    return {**values, step: _put(below, rest, value)}

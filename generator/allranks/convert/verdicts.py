"""What became of each field of a converted object.

A converter takes the fields that it understands, one by one, and says of each what became of it.
What nobody has taken is not carried, and said as well: nothing is dropped in silence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks.humanize import plural
from allranks.values.merge import overlay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FieldPath = tuple[str | int, ...]


class Outcome(StrEnum):
    """What became of a field."""

    CARRIED = "carried"
    CHANGED = "changed"
    NOT_CARRIED = "not carried"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one field.

    Attributes:
        path: the field in its object: ``spec.reliability.maxRestarts``.
        outcome: carried, changed or not carried.
        to: the value or flag that has it; "" for none.
        why: the reason, where it is not carried as it is.
    """

    path: str
    outcome: Outcome
    to: str = ""
    why: str = ""

    def __str__(self) -> str:
        """The verdict as a sentence."""
        arrow = f" -> {self.to}" if self.to else ""
        reason = f": {self.why}" if self.why else ""
        return f"{self.path}{arrow} {self.outcome}{reason}"

    def as_dict(self) -> dict[str, str]:
        """The JSON form."""
        return {"path": self.path, "outcome": str(self.outcome), "to": self.to, "why": self.why}


@dataclass(frozen=True, slots=True)
class Conversion:
    """An object as values.

    Attributes:
        kind: the object's kind.
        name: its name.
        namespace: its namespace; "" for none.
        values: the values.
        verdicts: what became of each of its fields, in their order.
        queue: the queue that it names; "" for none.
    """

    kind: str
    name: str
    namespace: str
    values: dict[str, Any]
    verdicts: tuple[Verdict, ...]
    queue: str = ""

    def of(self, *outcomes: Outcome) -> tuple[Verdict, ...]:
        """The verdicts with one of these outcomes."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome in outcomes)

    def summary(self) -> str:
        """The counts in a sentence."""
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
        return f"{self.kind} {self.name}: {plural(len(self.verdicts), 'field')}: {parts}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "queue": self.queue,
            "values": self.values,
            "fields": [verdict.as_dict() for verdict in self.verdicts],
        }


@dataclass(slots=True)
class Fields:
    """An object whose fields are taken one by one.

    Attributes:
        source: the object.
        values: what has been made of it so far.
    """

    source: Mapping[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    _verdicts: dict[FieldPath, Verdict] = field(default_factory=dict)

    def get(self, *path: str | int) -> Any:
        """What stands at a path; None for nothing. It counts as taken once a verdict is given."""
        node: Any = self.source
        for step in path:
            if isinstance(node, list) and isinstance(step, int):
                node = node[step] if step < len(node) else None
            elif isinstance(node, dict):
                node = node.get(step)
            else:
                return None
        return node

    def has(self, *path: str | int) -> bool:
        """Whether something stands at a path."""
        return self.get(*path) is not None

    def carry(self, path: FieldPath, to: FieldPath, value: Any = None, why: str = "") -> None:
        """Carry a field, if it is there.

        Args:
            path: the field.
            to: the path of the value.
            value: the value; None for the field's own.
            why: what is changed about it; "" where it is carried as it is.
        """
        own = self.get(*path)
        if own is None:
            return
        self.put(to, own if value is None else value)
        outcome = Outcome.CHANGED if why else Outcome.CARRIED
        self.say(path, outcome, _dotted(to), why)

    def put(self, to: FieldPath, value: Any) -> None:
        """Set a value; mappings are merged, all else is replaced."""
        nested: Any = value
        for step in reversed(to):
            nested = {step: nested}
        self.values = overlay(self.values, nested)

    def say(self, path: FieldPath, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of a field and of all below it, if it is there."""
        own = self.get(*path)
        if own is None:
            return
        for leaf in _leaves(own, path):
            self._verdicts[leaf] = Verdict(_dotted(leaf), outcome, to, why)

    def leave(self, path: FieldPath, why: str) -> None:
        """Say that a field is not carried, if it is there."""
        self.say(path, Outcome.NOT_CARRIED, "", why)

    def verdicts(self) -> tuple[Verdict, ...]:
        """A verdict for every field, in the order of the object."""
        return tuple(
            self._verdicts.get(leaf) or self._untaken(leaf) for leaf in _leaves(self.source, ())
        )

    def _untaken(self, leaf: FieldPath) -> Verdict:
        if self.get(*leaf) in (None, {}, []):
            return Verdict(_dotted(leaf), Outcome.CARRIED, "", "it is empty")
        return Verdict(_dotted(leaf), Outcome.NOT_CARRIED, "", "no dialect has such a field")


def leaves(source: Mapping[str, Any]) -> Iterable[str]:
    """The paths of all fields of an object, as verdicts name them."""
    return (_dotted(leaf) for leaf in _leaves(source, ()))


def _leaves(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path


def _dotted(path: FieldPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text

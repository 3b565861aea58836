"""Objects whose kind has been written in several dialects: two fields may be one value here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import Fields, dotted, leaf_paths
from allranks.values.merge import copy

if TYPE_CHECKING:
    from allranks.convert.verdicts import FieldPath


def overruled(path: FieldPath, to: FieldPath) -> str:
    """Why a field is not carried where another says the same value otherwise.

    Args:
        path: the other field.
        to: the path of the value.
    """
    return f"both are {dotted(to)} here, and {dotted(path)} is the one that counts"


@dataclass(slots=True)
class Dialects(Fields):
    """An object in which several fields may say one value: the last that is put counts."""

    _rivals: dict[FieldPath, dict[FieldPath, Any]] = field(default_factory=dict)
    _overruled: set[FieldPath] = field(default_factory=set)

    def put(self, to: FieldPath, value: Any, source: FieldPath = ()) -> None:
        """Set a value, and say of the fields that said it otherwise that they are not carried.

        Args:
            to: the path of the value.
            value: the value.
            source: the field that it is made of; () where there is none.
        """
        Fields.put(self, to, value, source)
        if not source:
            return
        rivals = self._rivals.setdefault(to, {})
        rivals.pop(source, None)
        for rival, other in rivals.items():
            is_merged = isinstance(self.get(*rival), dict) and isinstance(value, dict)
            after = Fields(self.values).get(*to) if is_merged else value
            for leaf in leaf_paths(other, ()) if is_merged else ((),):
                path: FieldPath = (*rival, *leaf)
                if Fields({"": after}).get("", *leaf) != Fields({"": other}).get("", *leaf):
                    self.leave(path, overruled(source, to))
                    self._overruled.add(path)
                elif path in self._overruled:
                    self.keep(path, dotted(to))
        rivals[source] = copy(value)

"""Frozen records without importing ``dataclasses``.

That import costs about as much as starting Python, and Helm starts this program for every
release. A type checker sees dataclasses (PEP 681); at run time it is the small part of them that
this package uses: keyword fields with defaults, ``__post_init__``, equality, and no writing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Self, dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Nothing: only a type checker needs to be told."""
        return lambda kind: kind


@dataclass_transform(frozen_default=True, kw_only_default=True)
class FrozenRecord:
    """The base of a record; a subclass annotates its fields, each with a default."""

    def __init__(self, **attributes: Any) -> None:
        fields = type(self).__annotations__
        if unknown := attributes.keys() - fields:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        values = self.__dict__
        for name in fields:
            values[name] = attributes[name] if name in attributes else getattr(type(self), name)
        self.__post_init__()

    def replace(self, **changes: Any) -> Self:
        """The record with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def __post_init__(self) -> None:
        """For a subclass that checks its fields."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: a record is read-only."""
        raise AttributeError(f"{type(self).__name__}.{name} is read-only")

    def __eq__(self, value: object) -> bool:
        """Equal records are of one class and equal in every field."""
        return type(value) is type(self) and self.__dict__ == value.__dict__

    def __hash__(self) -> int:
        """The hash of all fields."""
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        """The record as it would be written in Python."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

"""A values file with the line and the spelling of each value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Lines = dict[str, int] | list[int]
Tokens = dict[str | int, str]


@dataclass(frozen=True, slots=True)
class ValuesDocument:
    """One values file.

    Attributes:
        data: the mapping, typed as Helm types it.
        source: the name the file was given by, for messages.
        repeated: keys that a mapping has twice, each with both of its lines; the later one counts.
    """

    data: dict[str, Any]
    source: str
    _lines: dict[int, Lines] = field(default_factory=dict, repr=False, compare=False)
    _tokens: dict[int, Tokens] = field(default_factory=dict, repr=False, compare=False)
    repeated: tuple[tuple[str, int, int], ...] = field(default=(), repr=False, compare=False)

    def line(self, path: Sequence[str | int]) -> int | None:
        """The line of a key or list item, from 1; None where the file has none."""
        node: Any = self.data
        line: int | None = 1
        for step in path:
            lines = self._lines.get(id(node))
            if isinstance(lines, dict) and isinstance(step, str):
                line = lines.get(step)
            elif isinstance(lines, list) and isinstance(step, int) and 0 <= step < len(lines):
                line = lines[step]
            else:
                return None
            if line is None:
                return None
            node = node[step]
        return line

    def token(self, path: Sequence[str | int]) -> str | None:
        """The spelling of a number or boolean: ``1e-5``, ``0.10``, ``yes``.

        None for text, which is its own token, for everything else, and where the file has nothing.
        """
        if not path or self.line(path) is None:
            return None
        node: Any = self.data
        for step in path[:-1]:
            node = node[step]
        return self._tokens.get(id(node), {}).get(path[-1])

    def where(self, path: Sequence[str | int]) -> str:
        """``file:line`` of a path, or of the nearest path above it."""
        for end in range(len(path), -1, -1):
            line = self.line(path[:end])
            if line is not None:
                return f"{self.source}:{line}"
        return self.source

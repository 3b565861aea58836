"""How wide the columns of a table are on a terminal: long text gives way, numbers never do.

A number that is cut says something else, and a row without its name says nothing. So where a
terminal is too narrow, the longest text is cut first; then columns that can be missed go; and what
is left after that is longer than the terminal, which goes on in its next line. Where it cannot, in
a table that is drawn anew in its place, a long name gives way last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = 2  # between two columns
# Text that is cut keeps so much before a column is left out, and so much in any case.
_READABLE, _LEAST = 12, 6
_NAME = 20  # of a name that is cut


@dataclass(frozen=True, slots=True)
class Column:
    """A column before it is fitted.

    Attributes:
        title: its heading.
        width: of its longest cell, or of its heading.
        firm: it is never cut.
    """

    title: str
    width: int
    firm: bool


def fit(
    columns: Sequence[Column], room: int, spare: Sequence[str] = (), *, names_give: bool = False
) -> dict[int, int]:
    """The width of each column that is shown, by its place.

    Args:
        columns: from the left.
        room: how wide the table may be.
        spare: headings of columns that can be left out, the first one first.
        names_give: whether the first column may be cut where nothing else gives way.
    """
    kept = dict(enumerate(columns))
    for title in spare:
        if _needed(kept.values(), _READABLE) <= room:
            break
        kept = {at: column for at, column in kept.items() if column.title != title}
    most = max((column.width for column in columns), default=0)
    while most > _LEAST and _needed(kept.values(), most) > room:
        most -= 1
    widths = {at: _width(column, most) for at, column in kept.items()}
    if names_give and widths:
        first, over = min(widths), max(0, _needed(kept.values(), most) - room)
        widths[first] = max(min(widths[first], _NAME), widths[first] - over)
    return widths


def _width(column: Column, most: int) -> int:
    return column.width if column.firm else min(column.width, most)


def _needed(columns: Iterable[Column], most: int) -> int:
    return sum(_width(one, most) + GAP for one in columns) - GAP

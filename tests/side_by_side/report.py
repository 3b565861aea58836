"""What became of batch scripts: as a table for a terminal, and as data."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.side_by_side.comparison import Comparison

WIDTH = 100
_NAME_MAX = 50
_HEAD = ("with Slurm", "in pods", "explained", "silent")


def table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """A line of each script, with its silent differences below it; no line is longer than `WIDTH`.

    Args:
        comparisons: what became of each script, in the order of the lines.
    """
    names = [_short(comparison.script) for comparison in comparisons]
    width = max(map(len, ("script", *names)))
    yield f"{'script':{width}}  " + "  ".join(f"{title:>10}" for title in _HEAD)
    for name, comparison in zip(names, comparisons, strict=True):
        if comparison.refusal:
            yield f"{name:{width}}  {'-':>10}"
            yield from _below(comparison.refusal)
            continue
        counts = (*comparison.programs, comparison.explained, len(comparison.silent))
        yield f"{name:{width}}  " + "  ".join(f"{count:>10}" for count in counts)
        for difference in comparison.silent:
            yield from _below(str(difference))


def _short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"


def _below(text: str) -> list[str]:
    """A sentence in the lines below a script's own."""
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent="  ", subsequent_indent="    "
    )


def as_data(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The same as JSON-ready data, a mapping of each script."""
    return [asdict(comparison) for comparison in comparisons]

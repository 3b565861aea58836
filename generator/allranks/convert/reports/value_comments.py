"""The comments of a values file: the field that a value was made of, and what its file says there.

A comment of the manifest stands at the value that has its field, once. Where no value has the
field, whoever writes the file has it at its head: no comment is lost in silence.
"""

from __future__ import annotations

import difflib
import functools
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values.item_paths import place_of, same_place
from allranks.convert.reports import own_values
from allranks.convert.verdicts import Fields, Outcome, dotted, leaf_paths
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.convert.verdicts import Conversion, FieldPath
    from allranks.yamlio.document import ValuesDocument

_NOT_IN_COMMENT = re.compile("[^\t -~\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
# Lists of words, which are one command.
_OF_COMMAND = ("command", "args")
# The kind of an object decides on the chart: whoever reads the file sees both in its first lines.
_CHART = ("workload",)


def comment(text: str) -> str:
    """A text as it may stand behind a #: on one line, and of characters that YAML takes."""
    return " ".join(_NOT_IN_COMMENT.sub("?", text).split())


def annotated(text: str, conversion: Conversion) -> tuple[str, list[str]]:
    """The text of values with comments: the field of each value, and what its file says there.

    Args:
        text: the values, as they are written.
        conversion: the values, with the fields that they were made of and their comments.

    Returns:
        The text, and the comments of fields that no value has, with their lines.
    """
    values = load.load(text, conversion.source)
    remarks: dict[int, _Remarks] = {}
    homeless: list[str] = []
    for own in filter(None, (conversion, conversion.runtime)):
        origins = _origins(own, values)
        homeless += _put_comments(remarks, _comments(own, values, origins), values, own.source)
        _put_origins(remarks, origins, values, own)
    _put_reasons(remarks, values)
    return "\n".join(_lines(text.split("\n"), remarks)), homeless


def _put_comments(
    remarks: dict[int, _Remarks],
    comments: Iterable[tuple[int, tuple[str, ...], str, FieldPath | None]],
    values: ValuesDocument,
    source: str,
) -> Iterator[str]:
    """Put comments at their values; those that have none, with their file and line."""
    for number, above, behind, place in comments:
        line = values.line(place) if place is not None else None
        if line is None:
            texts = filter(None, (*above, behind))
            yield from (f"{source}:{number}: # {item}" for item in texts)
        else:
            own = remarks.setdefault(line, _Remarks())
            own.above += above
            own.behind += [behind] if behind else []


def _put_origins(
    remarks: dict[int, _Remarks],
    origins: Mapping[FieldPath, FieldPath],
    values: ValuesDocument,
    conversion: Conversion,
) -> None:
    """Put behind each value the field that it was made of; of several, the widest."""
    for place, source in sorted(origins.items(), key=lambda item: len(item[0])):
        line, number = values.line(place), conversion.lines.get(source, 0)
        if line is not None and number:
            own = remarks.setdefault(line, _Remarks())
            own.origin = own.origin or f"{conversion.source}:{number}: {dotted(source)}"


def _put_reasons(remarks: dict[int, _Remarks], values: ValuesDocument) -> None:
    """Put behind each value that has no field why it is there."""
    fields = Fields(values.data)
    for place in own_values.PLACES:
        line = values.line(place) if fields.get(*place) is not None else None
        # What stands in a mapping that a field became is of that field.
        around = (values.line(place[:end]) for end in range(1, len(place)))
        is_of_field = any(own in remarks and remarks[own].origin for own in around if own)
        if line and not is_of_field and not remarks.setdefault(line, _Remarks()).origin:
            remarks[line].origin = own_values.reason(place, fields.get(*place))


@dataclass(slots=True)
class _Remarks:
    """The comments of a line: those above it, those behind it, and the field of its value."""

    above: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    origin: str = ""


def _lines(lines: Iterable[str], remarks: Mapping[int, _Remarks]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        own = remarks.get(number)
        if own is None:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip(" ")))
        yield from (f"{indent}# {comment(item)}" for item in own.above)
        yield "".join(
            (line, *(f" # {comment(item)}" for item in (*own.behind, own.origin) if item))
        )


def _origins(conversion: Conversion, values: ValuesDocument) -> dict[FieldPath, FieldPath]:
    """By the place of a value, the field that it was made of, in the order of the file."""
    places = {place_of(values.data, to): source for to, source in conversion.origins.items()}
    above = {place[:end] for place in places for end in range(len(place))}
    for to, source in _verdict_origins(conversion, values.data):
        if to not in above:
            places.setdefault(to, source)
    lines = {place: line for place in places if place and (line := values.line(place))}
    order = sorted(lines, key=lambda place: (lines[place], len(place)))
    return {place: places[place] for place in order}


def _verdict_origins(
    conversion: Conversion, values: Mapping[str, Any]
) -> Iterator[tuple[FieldPath, FieldPath]]:
    """By the place of a value, the field of which a verdict says that this value has it."""
    sources: dict[str, list[FieldPath]] = {}
    sizes: Counter[FieldPath] = Counter()
    for verdict in conversion.verdicts:
        sizes.update(verdict.keys[:end] for end in range(1, len(verdict.keys) + 1))
        if verdict.to and verdict.outcome is not Outcome.NOT_CARRIED:
            sources.setdefault(verdict.to, []).append(verdict.keys)
    for place in _paths(values):
        leaves = sources.get(dotted(place), [])
        if leaves and place != _CHART:
            above = _common_path(leaves)
            # Together they are a field, where all of it is this value.
            yield place, above if sizes[above] == len(leaves) else leaves[0]


def _common_path(paths: Sequence[FieldPath]) -> FieldPath:
    """The path that all of these begin with."""
    first = paths[0]
    ends = range(len(first), 0, -1)
    return next((first[:end] for end in ends if all(own[:end] == first[:end] for own in paths)), ())


def _comments(
    conversion: Conversion,
    values: ValuesDocument,
    origins: Mapping[FieldPath, FieldPath],
) -> Iterator[tuple[int, tuple[str, ...], str, FieldPath | None]]:
    """Each line's comments, above and behind it, with the place of the value that they are at."""
    if not conversion.comments:
        return
    fields: dict[int, list[FieldPath]] = {}
    for path, line in conversion.lines.items():
        fields.setdefault(line, []).append(path)
    lines = sorted(fields)
    places = _Places(conversion, values, origins)
    for number, (above, behind) in sorted(conversion.comments.items()):
        paths = fields.get(number, [])
        if not paths and lines and conversion.manifest:
            # The field above goes on in this line.
            paths = fields[lines[max(bisect_right(lines, number) - 1, 0)]]
        near = (places.of(path) for path in sorted(paths, key=len))
        if number == 1 and not conversion.manifest:  # of a whole script
            near = ((name,) for name in values.data)
        yield number, above, behind, next(filter(None, near), None)


class _Places:
    """Finds the value at which the comment of a field stands."""

    def __init__(
        self,
        conversion: Conversion,
        values: ValuesDocument,
        origins: Mapping[FieldPath, FieldPath],
    ) -> None:
        self._fields = Fields(conversion.manifest)
        self._own = Fields(values.data)
        self._of_field: dict[FieldPath, FieldPath] = {}
        self._namesakes: dict[FieldPath, FieldPath] = {}
        self._below: dict[FieldPath, FieldPath] = {}
        for place, source in origins.items():
            self._of_field.setdefault(source, place)
            for end in range(1, len(source)):
                self._below.setdefault(source[:end], place)
                if end > 1 and source[end - 1] in place[:-1]:
                    namesake = place[: place.index(source[end - 1]) + 1]
                    self._namesakes.setdefault(source[:end], namesake)
        self._of_verdicts: dict[FieldPath, FieldPath] = {}
        self._carried: set[FieldPath] = set()
        self._has_verdicts = bool(conversion.verdicts)  # a runtime has none
        self._read_verdicts(conversion, values.data)
        self._words = functools.cache(lambda: dict(_words(self._fields, self._own, origins)))

    def _read_verdicts(self, conversion: Conversion, values: Mapping[str, Any]) -> None:
        places = {dotted(path): path for path in _paths(values)}
        for to in conversion.origins:
            places.setdefault(dotted(to), place_of(values, to))
        for verdict in conversion.verdicts:
            place = places.get(verdict.to)
            for end in range(1, len(verdict.keys) + 1):
                if place:
                    self._of_verdicts.setdefault(verdict.keys[:end], place)
                if verdict.outcome is not Outcome.NOT_CARRIED:
                    self._carried.add(verdict.keys[:end])

    def of(self, path: FieldPath) -> FieldPath | None:
        """The place of the value that has a field, or of the nearest; None for none."""
        place = self._of_field.get(path)
        if place is None and len(path) > 1 and path[-2] in _OF_COMMAND:
            place = self._words().get(path)
        place = place or self._within(path)
        if place is not None:
            return place
        near = (self._namesakes, self._below, self._of_verdicts)
        place = next((places[path] for places in near if path in places), None)
        nearest = next(filter(None, map(self._of_field.get, _above(path))), None)
        is_closer = nearest is not None and place is not None and nearest[: len(place)] == place
        return nearest if is_closer or (place is None and self._is_carried(path)) else place

    def _is_carried(self, path: FieldPath) -> bool:
        return path in self._carried or not self._has_verdicts

    def _within(self, path: FieldPath) -> FieldPath | None:
        """The place within a value that was taken as a whole, from here or from a like field."""
        of_verdict = self._of_verdicts.get(path)
        for end in range(1, len(path)):
            above, rest = path[:end], path[end:]
            for place in filter(None, (self._of_field.get(above), of_verdict)):
                within = same_place(self._fields.get(*above), self._own.get(*place), rest)
                if within is not None:
                    return (*place, *within)
        return None


def _above(path: FieldPath) -> Iterator[FieldPath]:
    """The fields above a field, and beside its args the command that has them."""
    for end in range(len(path), 0, -1):
        if path[end - 1] in _OF_COMMAND:
            yield (*path[: end - 1], _OF_COMMAND[0])
        if end < len(path):
            yield path[:end]


def _paths(values: Mapping[str, Any]) -> Iterable[FieldPath]:
    """The places of all values, in their order."""
    leaves = leaf_paths(values, ())
    return dict.fromkeys(leaf[:end] for leaf in leaves for end in range(1, len(leaf) + 1))


def _words(
    fields: Fields, values: Fields, origins: Mapping[FieldPath, FieldPath]
) -> Iterator[tuple[FieldPath, FieldPath]]:
    """The words of commands, with the places of the same words among the values."""
    for place, source in origins.items():
        if source[-1] not in _OF_COMMAND or place[-1] not in _OF_COMMAND:
            continue
        words = values.words(*place)
        for key in _OF_COMMAND:
            path: FieldPath = (*source[:-1], key)
            own = fields.words(*path)
            for number, index in _same(own, words):
                yield (*path, number), (*place, index)


def _same(words: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of words in one list and in another, in the order of both."""
    if len(words) == len(others):  # of a trial, some are parameters
        yield from enumerate(range(len(words)))
        return
    for block in difflib.SequenceMatcher(None, words, others).get_matching_blocks():
        yield from ((block.a + offset, block.b + offset) for offset in range(block.size))

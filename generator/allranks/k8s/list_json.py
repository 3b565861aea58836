"""The JSON of a list, cut down before the parser makes objects of it.

The pods of a run are the same but for a name, a node and some times, and half of each is a record
of who wrote which field. What is cut out here is never parsed, compared or freed: of a list of
10,000 pods that is a third of the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.k8s.manifest import Manifest

_WRITERS = b'"managedFields":['
# What follows the record of a pod, as the API server writes it: the end of its metadata. In a
# string, its quotes would be escaped.
_AFTER_WRITERS = b'},"spec":{'


def without_writers(data: bytes) -> bytes:
    """The JSON of a list without the record of who wrote which field: half of what a pod takes.

    The record is an array without arrays in it, so it ends at the first bracket that is in no
    string; where a string makes that hard to see, the record stays. No string holds what it begins
    with: a quote in a string is escaped.

    Args:
        data: the answer of the API server.
    """
    parts, at = [], 0
    while (place := data.find(_WRITERS, at)) >= 0:
        start = place + len(_WRITERS)
        end = data.find(b"]", start)
        if not data.startswith(_AFTER_WRITERS, end + 1):
            end = _end_of_record(data, start)
        parts.append(data[at:start])
        at = end if end > 0 else start
    return b"".join((*parts, data[at:])) if parts else data


def _end_of_record(data: bytes, start: int) -> int:
    """The place of the bracket that ends a record; 0 where that is hard to see."""
    end = data.find(b"}]", start) + 1
    record = data[start:end]
    quotes = record.count(b'"') - record.count(b'\\"')
    is_whole = end > 0 and quotes % 2 == 0
    is_plain = not any(mark in record for mark in (b"[", b"]", b"\\\\"))
    return end if is_whole and is_plain else 0


# What differs from spec to spec among the pods of a run.
_OWN = (b"nodeName", b"hostname")
_SPEC, _AFTER_SPEC = b'"spec":', b',"status":{'
# A key that no spec has: the API server drops what its type does not name.
_NUMBER = ""
# After so many specs in a row that were like none before them, pods are taken for no run's.
_MISSES = 8


class _Pattern(NamedTuple):
    """The text of a spec, in pieces between the values that differ.

    Attributes:
        texts: the pieces; the last goes on to the status.
        fields: the name of the field whose value stands after each piece but the last.
        number: the spec without these fields, in the table.
    """

    texts: tuple[bytes, ...]
    fields: tuple[bytes, ...]
    number: int

    def match(self, data: bytes, at: int) -> tuple[bytes, int] | None:
        """The shared value of a spec that is like this one, and where that spec ends; or None.

        Args:
            data: the answer of the API server.
            at: where the spec begins.
        """
        pieces = [b'{"":%d' % self.number]
        for text, field in zip(self.texts, self.fields, strict=False):
            if not data.startswith(text, at):
                return None
            at += len(text)
            end = data.find(b'"', at)
            value = data[at:end]
            if end < 0 or b"\\" in value:
                return None
            pieces.append(b',"%s":"%s"' % (field, value))
            at = end
        if not data.startswith(self.texts[-1], at):
            return None
        return b"".join((*pieces, b"}")), at + len(self.texts[-1]) - len(_AFTER_SPEC)


class PodSpecs:
    """The specs of the pods of a list, each parsed once with all that are like it.

    A spec that is like the one before it but for its node and its host name is cut down to these
    and the number of a spec in this table (`cut`); `whole` puts it together again.
    """

    def __init__(self, loads: Callable[[bytes], Any]) -> None:
        """Begin a list.

        Args:
            loads: what parses JSON.
        """
        self._loads = loads
        self._specs: list[Manifest] = []
        self._latest: _Pattern | None = None
        self._misses = 0

    def cut(self, data: bytes) -> bytes:
        """A page of the list with its specs cut down.

        Args:
            data: the answer of the API server. No string in it holds what is looked for, whose
                quotes it would escape.
        """
        parts, at = [], 0
        while self._misses < _MISSES and (place := data.find(_SPEC + b"{", at)) >= 0:
            start = place + len(_SPEC)
            match = self._latest and self._latest.match(data, start)
            if not match:
                self._misses += 1
                end = data.find(b"}" + _AFTER_SPEC, start) + 1
                self._latest = self._pattern(data[start:end]) if end else None
                match = self._latest and self._latest.match(data, start)
                if not match:
                    parts.append(data[at : max(end, start)])
                    at = max(end, start)
                    continue
            else:
                self._misses = 0
            parts += (data[at:start], match[0])
            at = match[1]
        return b"".join((*parts, data[at:])) if parts else data

    def _pattern(self, text: bytes) -> _Pattern | None:
        """The pattern that other specs are compared with; None for what is no spec."""
        try:
            spec = self._loads(text)
            pattern, values = self._split(text)
            same = self._loads(b"".join(pattern.texts).removesuffix(_AFTER_SPEC))
        except (ValueError, RecursionError):
            return None
        own = {field.decode(): value.decode() for field, value in values.items()}
        rest = {key: value for key, value in same.items() if key not in own}
        if {**rest, **own} != spec:  # a field of that name further inside
            rest, pattern = spec, pattern._replace(texts=(text + _AFTER_SPEC,), fields=())
        self._specs.append(rest)
        return pattern

    def _split(self, text: bytes) -> tuple[_Pattern, dict[bytes, bytes]]:
        """The text of a spec without the values of the fields that differ, and these."""
        places = {}
        for field in _OWN:
            key = b'"%s":"' % field
            if text.count(key) == 1:
                places[text.index(key) + len(key)] = field
        texts, values, at = [], {}, 0
        for place in sorted(places):
            texts.append(text[at:place])
            at = text.index(b'"', place)
            values[places[place]] = text[place:at]
        fields = tuple(places[place] for place in sorted(places))
        return _Pattern((*texts, text[at:] + _AFTER_SPEC), fields, len(self._specs)), values

    def whole(self, pod: Manifest) -> Manifest:
        """The pod with its whole spec, whose parts must not be changed; another one as it is."""
        spec = pod.get("spec")
        if isinstance(spec, dict) and _NUMBER in spec:
            number = spec.pop(_NUMBER)
            pod["spec"] = {**self._specs[number], **spec}
        return pod

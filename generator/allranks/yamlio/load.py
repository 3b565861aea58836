"""Read YAML as Helm reads it, from the C parser's events.

PyYAML's own constructors type scalars otherwise than Helm, and forget their lines. The reader here
takes the events of the C parser and types each scalar by Helm's table (`scalars`). For a values
file it keeps the line of every value, and refuses what Helm would take silently and wrongly:
duplicate keys, keys that turn into booleans, numbers that lose digits, a second document.
Working on events is also faster than composing nodes, and no nesting can exhaust the C stack.
"""

from __future__ import annotations

import math

from allranks.yamlio.parser import CParser  # isort: skip # before anything else of PyYAML
from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from allranks.errors import InputError, InvalidValues, Problem
from allranks.yamlio import scalars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from allranks.yamlio.document import Lines, Tokens, ValuesDocument

# Deeper than any values or manifest; far from the limits of Python and of Helm.
MAX_DEPTH = 200
# What aliases may add in all. go-yaml bounds the same ("excessive aliasing") at about this many.
MAX_ALIASED = 400_000
# So much may a values file have, and so many values: a release, which keeps them, has 1 MiB.
MAX_BYTES = 4 * 2**20
MAX_VALUES = 250_000
# Helm holds numbers of a values file as 64-bit floats, in which 2^53 is 2^53 + 1 as well.
MAX_EXACT_INT = 2**53 - 1

_OPEN = object()


def load(text: str | bytes, source: str) -> ValuesDocument:
    """Read a values file: one mapping, with the line of every value.

    Args:
        text: the file's content; bytes must be UTF-8.
        source: the file's name, for messages.

    Raises:
        InputError: the text is not YAML, or Helm would not take it as it is meant; `source` in the
            error is ``file:line`` and the hint says what to change.
    """
    reader, data, line = _single(text, source)
    if not isinstance(data, dict):
        from allranks.yamlio import mistakes

        raise InputError(
            f"the file holds {mistakes.kind(data)}, not a mapping of values",
            hint="write `key: value` lines",
            source=f"{source}:{line}",
        )
    return _document(data, source, reader)


def load_list(text: str | bytes, source: str, key: str) -> ValuesDocument:
    """Read a file that is a mapping, as `load` does, or a list, which is put under a key.

    Args:
        text: the file's content; bytes must be UTF-8.
        source: the file's name, for messages.
        key: where a list is put, so that its items have paths: ``(key, 0)``.

    Raises:
        InputError: as `load`; and what the file holds is neither.
    """
    reader, data, line = _single(text, source)
    if isinstance(data, list):
        data = {key: data}
        reader.lines[id(data)] = {key: line}
    if not isinstance(data, dict):
        from allranks.yamlio import mistakes

        raise InputError(
            f"the file holds {mistakes.kind(data)}, neither a mapping nor a list",
            hint="write `key: value` lines, or `- item` lines",
            source=f"{source}:{line}",
        )
    return _document(data, source, reader)


def _document(
    data: dict[str, Any], source: str, reader: _ValueBuilder, line: int = 0
) -> ValuesDocument:
    from allranks.yamlio.document import ValuesDocument

    repeated = tuple(item for item in reader.repeated if item[2] >= line)
    return ValuesDocument(data, source, reader.lines, reader.tokens, repeated)


def _single(text: str | bytes, source: str) -> tuple[_ValueBuilder, Any, int]:
    """The only document of a file, and its first line."""
    if len(text) > MAX_BYTES:
        raise InputError(
            f"the file has {len(text) / 2**20:.0f} MiB; values of at most {MAX_BYTES >> 20} MiB "
            "are read, and a release has room for 1 MiB",
            hint="put data into a volume, or into a ConfigMap of its own",
            source=source,
        )
    reader = _ValueBuilder(_decode(text, source), source, strict=True)
    documents = [(data, line) for data, line in reader.documents() if data is not None]
    if reader.problems:
        raise InvalidValues(reader.problems)
    if not documents:
        raise InputError(
            "the file holds no values",
            hint="write the values into it, such as `workload: torchrun`, or leave the file out",
            source=source,
        )
    if len(documents) > 1:
        raise InputError(
            "the file holds several YAML documents; Helm 3 takes the first and Helm 4 merges them",
            hint="remove the line `---`, or give each document its own file and a -f of its own",
            source=f"{source}:{documents[1][1]}",
        )
    data, line = documents[0]
    return reader, data, line


def load_all(text: str | bytes, source: str = "manifests") -> list[Any]:
    """Read a stream of manifests, fast: every document in order, an empty one as None.

    Keys become text and the last of two equal keys wins, as in Kubernetes. Aliases are expanded.

    Args:
        text: the stream; bytes must be UTF-8.
        source: what to call it in messages.

    Raises:
        InputError: the text is not YAML.
    """
    reader = _ValueBuilder(_decode(text, source), source, strict=False)
    return [data for data, _ in reader.documents()]


def load_objects(text: str | bytes, source: str) -> list[tuple[ValuesDocument, int]]:
    """Read a stream of manifests as `load_all` does, with the line of every field.

    Args:
        text: the stream; bytes must be UTF-8.
        source: the file's name, for messages.

    Returns:
        Each document that is a mapping, and the line that it begins on.

    Raises:
        InputError: the text is not YAML.
    """
    reader = _ValueBuilder(_decode(text, source), source, strict=False, lines=True)
    return [
        (_document(data, source, reader, line), line)
        for data, line in reader.documents()
        if isinstance(data, dict)
    ]


class _ValueBuilder:
    """Builds values from the parser's events.

    Args:
        text: the stream.
        source: its name, for messages.
        strict: also keep lines and refuse what Helm would read otherwise than it looks.
        lines: keep lines, and refuse nothing more.
    """

    def __init__(self, text: str, source: str, *, strict: bool, lines: bool = False) -> None:
        self._text = text
        self._source = source
        self._strict = strict
        self._keeps_lines = strict or lines
        self._next: Any = CParser(text).get_event
        # Keys that a mapping has twice, with both lines; empty where that is refused.
        self.repeated: list[tuple[str, int, int]] = []
        # By anchor, a list of two: the value, or _OPEN while it is being read; and its token.
        self._anchors: dict[str, list[Any]] = {}
        self._aliased = 0
        self._count = 0
        # By id of a mapping or list, the line of each of its entries. Filled where lines are kept.
        self.lines: dict[int, Lines] = {}
        # By the same, how each number and boolean in it was written. Filled where lines are kept.
        self.tokens: dict[int, Tokens] = {}
        # What is wrong in it, but does not keep the rest from being read. Filled when strict only.
        self.problems: list[Problem] = []
        # The token of the value read last; None where it is text, null or no scalar.
        self._token: str | None = None

    def documents(self) -> Iterator[tuple[Any, int]]:
        """Each document with the line it starts on."""
        try:
            while True:
                event = self._next()
                kind = type(event)
                if kind is DocumentStartEvent:
                    if self._strict and event.version not in (None, (1, 1)):
                        self._fail(event, "Helm reads YAML 1.1 only", "remove the line `%YAML …`")
                    self._anchors.clear()
                    event = self._next()
                    yield self._value(event, 0), event.start_mark.line + 1
                elif kind is StreamEndEvent:
                    return
        except YAMLError as error:
            from allranks.yamlio import mistakes

            raise mistakes.explain(error, self._text, self._source) from error

    def _value(self, event: Any, depth: int) -> Any:
        """The value that starts with an event."""
        kind = type(event)
        if self._strict:
            self._count += 1
            if self._count > MAX_VALUES:
                self._fail(
                    event,
                    f"the file has more than {MAX_VALUES:,} values",
                    "put data into a volume, or into a ConfigMap of its own",
                )
        if kind is ScalarEvent:
            value = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = [value, self._token]
            return value
        if kind is AliasEvent:
            return self._alias(event)
        if depth >= MAX_DEPTH:
            self._fail(event, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
        holder = [_OPEN, None]
        if event.anchor is not None:
            self._anchors[event.anchor] = holder
        value = (self._mapping if kind is MappingStartEvent else self._sequence)(depth + 1)
        holder[0] = value
        self._token = None
        return value

    def _scalar(self, event: Any) -> Any:
        text = event.value
        self._token = None
        if event.tag is not None:
            # The tag "!" alone means text, as quotes do.
            if event.tag == "!":
                return text
            try:
                value = scalars.resolve_tagged(event.tag, text)
            except ValueError as error:
                self._fail(event, str(error), "remove the tag, or correct the value")
        elif event.implicit[0] and text[:1] in scalars.HINTS:
            value = scalars.resolve(text)
        else:
            return text
        if self._keeps_lines and type(value) in (bool, int, float):
            self._token = text
            if self._strict:
                self._check_number(event, value)
        return value

    def _check_number(self, event: Any, value: float) -> None:
        if not math.isfinite(value):
            self._note(
                event,
                f"{event.value} is a number Helm cannot hold",
                f'give a finite number, or "{event.value}" in quotes where text is meant',
            )
        if isinstance(value, int) and abs(value) > MAX_EXACT_INT:
            self._note(
                event,
                f"{event.value} would lose digits: Helm holds whole numbers up to {MAX_EXACT_INT}",
                f'quote it: "{event.value}"',
            )

    def _note(self, event: Any, message: str, hint: str) -> None:
        """Record a mistake that does not end the parsing."""
        source = f"{self._source}:{event.start_mark.line + 1}"
        self.problems.append(Problem("", message, hint, source))

    def _sequence(self, depth: int) -> list[Any]:
        out: list[Any] = []
        lines: list[int] = []
        tokens: Tokens = {}
        read, keeps = self._next, self._keeps_lines
        while type(event := read()) is not SequenceEndEvent:
            if keeps:
                lines.append(event.start_mark.line + 1)
            out.append(self._value(event, depth))
            if self._token is not None:
                tokens[len(out) - 1] = self._token
        if keeps:
            self.lines[id(out)] = lines
            self.tokens[id(out)] = tokens
        return out

    def _mapping(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        lines: dict[str, int] = {}
        tokens: Tokens = {}
        own: set[str] = set()
        read, keeps = self._next, self._keeps_lines
        while type(event := read()) is not MappingEndEvent:
            if type(event) is ScalarEvent and event.value == "<<" and _is_merge(event):
                self._merge(out, lines, tokens, depth)
                continue
            key = self._key(event, depth)
            if keeps:
                if key in own:
                    self._repeat(key, lines[key], event)
                own.add(key)
                lines[key] = event.start_mark.line + 1
            out[key] = self._value(read(), depth)
            if self._token is not None:
                tokens[key] = self._token
            elif tokens:
                tokens.pop(key, None)
        if keeps:
            self.lines[id(out)] = lines
            self.tokens[id(out)] = tokens
        return out

    def _repeat(self, key: str, first: int, event: Any) -> None:
        """A key that its mapping has already: the later one counts, where both are allowed."""
        if self._strict:
            self._fail(
                event,
                f"the key {key!r} is given twice, first on line {first}",
                "keep one of the two",
            )
        self.repeated.append((key, first, event.start_mark.line + 1))

    def _key(self, event: Any, depth: int) -> str:
        if type(event) is ScalarEvent and event.tag is None and event.anchor is None:
            # By far the most frequent: a word that can only be text.
            text: str = event.value
            if not event.implicit[0] or text[:1] not in scalars.HINTS:
                return text
        elif type(event) in (MappingStartEvent, SequenceStartEvent):
            self._fail(
                event,
                "a key must be text, not a list or a mapping",
                "a value that starts with { or [ must be quoted: '{{ x }}'; a template of Helm's "
                "is to be rendered first (helm template)",
            )
        value = self._value(event, depth)
        if isinstance(value, str):
            return value
        scalar = getattr(event, "value", "")
        try:
            key = scalars.key_text(value)
        except ValueError as error:
            self._fail(event, f"{error}; Helm makes none of {scalar!r}", f'quote it: "{scalar}"')
        if self._strict and key != scalar:
            self._fail(event, f"Helm reads the key {scalar} as {key!r}", f'quote it: "{scalar}"')
        return key

    def _alias(self, event: Any) -> Any:
        holder = self._anchors.get(event.anchor)
        if holder is None:
            self._fail(
                event,
                f"*{event.anchor} refers to an anchor that is not there",
                f"""quote a text that starts with *: "*{event.anchor}\"""",
            )
        if holder[0] is _OPEN:
            self._fail(event, f"the anchor &{event.anchor} contains itself", "remove the alias")
        self._token = holder[1]
        return self._copy(holder[0], event)

    def _copy(self, value: Any, event: Any) -> Any:
        """A copy of an aliased value, so that editing one does not change the other."""
        if not isinstance(value, dict | list):
            return value
        self._aliased += len(value)
        if self._aliased > MAX_ALIASED:
            self._fail(event, f"aliases repeat more than {MAX_ALIASED} values", "write them out")
        copy: dict[str, Any] | list[Any]
        if isinstance(value, dict):
            copy = {key: self._copy(item, event) for key, item in value.items()}
        else:
            copy = [self._copy(item, event) for item in value]
        if self._keeps_lines:
            self.lines[id(copy)] = self.lines[id(value)]
            self.tokens[id(copy)] = self.tokens[id(value)]
        return copy

    def _merge(
        self, out: dict[str, Any], lines: dict[str, int], tokens: Tokens, depth: int
    ) -> None:
        """Merge a ``<<`` key as go-yaml does: in place, so it overrides the keys before it."""
        event = self._next()
        if type(event) is SequenceStartEvent:
            items = []
            while type(item := self._next()) is not SequenceEndEvent:
                items.append(self._value(item, depth))
        else:
            items = [self._value(event, depth)]
        # The first of several has precedence.
        for item in reversed(items):
            if not isinstance(item, dict):
                self._fail(
                    event, "<< must be given a mapping, or a list of mappings", "use an alias"
                )
            out.update(item)
            if self._keeps_lines:
                merged = self.lines.pop(id(item))
                lines.update(merged if isinstance(merged, dict) else {})
                overridden = self.tokens.pop(id(item))
                for key in item:
                    tokens.pop(key, None)
                tokens.update(overridden)

    def _fail(self, event: Any, message: str, hint: str) -> NoReturn:
        line = event.start_mark.line + 1
        raise InputError(message, hint=hint, source=f"{self._source}:{line}")


def _is_merge(event: ScalarEvent) -> bool:
    return bool(event.tag == scalars.MERGE or (event.tag is None and event.implicit[0]))


def _decode(text: str | bytes, source: str) -> str:
    """The text, without the byte order mark that editors put in front and Helm skips."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            from allranks.yamlio import mistakes

            raise mistakes.not_utf8(error, source) from error
    try:
        text.encode()
    except UnicodeEncodeError:
        # What Python makes of bytes in arguments and file names that are not UTF-8.
        raise InputError("the text is not UTF-8", hint="save it as UTF-8", source=source) from None
    return text.removeprefix("\ufeff")

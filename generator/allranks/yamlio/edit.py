"""Change one value in a user's file, and not a character of anything else.

Loading a file and dumping it again loses comments, or moves them: a comment before the next key
belongs to nobody in the data. So the file is edited as text. ruamel.yaml's parser tells where each
key and value begins and ends; only that stretch is replaced, in the form Helm reads back unchanged
(`dump`). At the end the new text is read again and must hold exactly what was asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from allranks.errors import InputError
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load, load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SOURCE = "the file"
_DASH = re.compile(r"^ *(-)(?=\s|\Z)", re.MULTILINE)


def set_value(text: str, path: Sequence[str | int], value: Any, source: str = _SOURCE) -> str:
    """The file's text with one value set; what is missing above it is made.

    Args:
        text: the file's content.
        path: where, as keys and list indices; the index after the last one appends.
        value: plain data.
        source: the file's name, for messages.

    Raises:
        InputError: the text is no values file, or nothing can be set at the path.
    """
    if not path:
        raise ValueError("a path has at least one step")
    if all(document is None for document in load_all(text, source)):
        start = text if not text or text.endswith("\n") else f"{text}\n"
        return start + dump(_nest(path, value))
    wanted = _put(load(text, source).data, tuple(path), value, source)
    return _edit(text, wanted, source, lambda editor: editor.set(tuple(path), value))


def delete_value(text: str, path: Sequence[str | int], source: str = _SOURCE) -> str:
    """The file's text without one key or list item; unchanged where it has none.

    Args:
        text: the file's content.
        path: where, as keys and list indices.
        source: the file's name, for messages.

    Raises:
        InputError: the text is no values file, or what is there cannot be taken out alone.
    """
    if not path:
        raise ValueError("a path has at least one step")
    data = load(text, source).data
    parent: Any = data
    for step in path[:-1]:
        if not _has(parent, step):
            return text
        parent = parent[step]
    if not _has(parent, path[-1]):
        return text
    del parent[path[-1]]
    return _edit(text, data, source, lambda editor: editor.delete(tuple(path)))


def _edit(text: str, wanted: Any, source: str, change: Callable[[_Editor], str]) -> str:
    """Edit with line feeds only, put the file's own line ends back, and check the result."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    plain = text.removeprefix(mark).replace("\r\n", "\n")
    try:
        new = change(_Editor(plain, source))
    except YAMLError as error:
        raise InputError(f"cannot edit: {error}", hint="edit the file by hand") from error
    if load_all(new, source) not in ([wanted], [wanted, None]):
        _refuse("the change would alter more than one value", source)
    return mark + (new.replace("\n", "\r\n") if "\r\n" in text else new)


def _refuse(message: str, source: str) -> NoReturn:
    raise InputError(message, hint="edit the file by hand", source=source)


def _has(parent: Any, step: str | int) -> bool:
    if isinstance(parent, dict):
        return step in parent
    return isinstance(parent, list) and isinstance(step, int) and 0 <= step < len(parent)


def _nest(path: Sequence[str | int], value: Any) -> Any:
    """The value inside of new mappings (and lists, for an index 0) for each step of a path."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _put(data: Any, path: tuple[str | int, ...], value: Any, source: str) -> Any:
    """The data with the value set: what the edited text has to mean."""
    if not path:
        return value
    step = path[0]
    if data is None:
        data = [] if isinstance(step, int) else {}
    if isinstance(data, dict) and isinstance(step, str):
        return {**data, step: _put(data.get(step), path[1:], value, source)}
    if isinstance(data, list) and isinstance(step, int) and 0 <= step <= len(data):
        old = data[step] if step < len(data) else None
        return [*data[:step], _put(old, path[1:], value, source), *data[step + 1 :]]
    kind = "a mapping" if isinstance(data, dict) else "a list" if isinstance(data, list) else "text"
    raise InputError(
        f"nothing can be set at {step!r}: {kind} stands there", hint="set what is above it"
    )


@dataclass(slots=True)
class _Node:
    """A value in the text: where it stands, and its entries.

    Attributes:
        start: the index of its first character, tag and anchor included.
        end: the index after its last one.
        kind: ``scalar``, ``alias``, ``mapping`` or ``list``.
        flow: written in brackets.
        value: the text of a scalar.
        keep: a block scalar whose trailing line feeds count.
        keys: the keys of a mapping, in the order of `items`.
        items: the values of a mapping or the items of a list.
    """

    start: int
    end: int
    kind: str
    flow: bool = False
    value: str = ""
    keep: bool = False
    keys: list[_Node] = field(default_factory=list)
    items: list[_Node] = field(default_factory=list)


def _tree(text: str) -> _Node:
    events = iter(YAML(typ="safe", pure=True).parse(text))
    first = next(event for event in events if isinstance(event, NodeEvent))
    return _node(first, events, text)


def _node(event: Any, events: Iterator[Any], text: str) -> _Node:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, AliasEvent):
        return _Node(start, end, "alias")
    if isinstance(event, ScalarEvent):
        keep = False
        if event.style in ("|", ">"):
            keep = "+" in text[start : text.find("\n", start)]
            content = text[start:end]
            end = start + len(content.removesuffix("\n") if keep else content.rstrip())
        return _Node(start, end, "scalar", value=event.value, keep=keep)
    if isinstance(event, MappingStartEvent):
        node = _Node(start, end, "mapping", flow=bool(event.flow_style))
        while not isinstance(event := next(events), MappingEndEvent):
            node.keys.append(_node(event, events, text))
            node.items.append(_node(next(events), events, text))
            _place_empty(node.items[-1], text.find(":", node.keys[-1].end) + 1)
    else:
        node = _Node(start, end, "list", flow=bool(event.flow_style))
        while not isinstance(event := next(events), SequenceEndEvent):
            before = node.items[-1].end if node.items else -1
            node.items.append(_node(event, events, text))
            dash = _DASH.search(text, text.find("\n", before) + 1) if before >= 0 else None
            _place_empty(node.items[-1], dash.end(1) if dash else start + 1)
    # The parser ends a block at the next token, after comments that are not its own.
    node.end = event.end_mark.index if node.flow else node.items[-1].end
    return node


def _place_empty(node: _Node, at: int) -> None:
    """Put an empty value where it would be written; the parser finds it at the next token."""
    if node.kind == "scalar" and node.start == node.end:
        node.start = node.end = at


class _Editor:
    """Replaces stretches of a text; line ends are line feeds."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._root = _tree(text)

    def set(self, path: tuple[str | int, ...], value: Any) -> str:
        """Set a value: replace what is there, or insert it into the last thing that is."""
        above: list[tuple[_Node, int]] = []
        node = self._root
        for depth, step in enumerate(path):
            index = self._find(node, step)
            if index is None:
                rest = _nest(path[depth + 1 :], value)
                if node.kind == "scalar" or not node.items:
                    return self._replace(above, node, _nest(path[depth:], value))
                return self._insert(above, node, step, rest)
            above.append((node, index))
            node = node.items[index]
        return self._replace(above, node, value)

    def delete(self, path: tuple[str | int, ...]) -> str:
        """Take out an entry; a mapping or list that loses its last one is left as {} or []."""
        above: list[tuple[_Node, int]] = []
        node = self._root
        for step in path:
            index = self._find(node, step)
            if index is None:
                _refuse("the value comes from an alias", self._source)
            above.append((node, index))
            node = node.items[index]
        parent, index = above.pop()
        if len(parent.items) == 1:
            return self._replace(above, parent, {} if parent.kind == "mapping" else [])
        if parent.flow:
            starts = [item.start for item in parent.keys or parent.items]
            if index + 1 < len(starts):
                return self._text[: starts[index]] + self._text[starts[index + 1] :]
            return self._text[: parent.items[index - 1].end] + self._text[node.end :]
        starts = self._starts(parent)
        line = self._line_start(starts[index])
        if not self._text[line : starts[index]].strip():
            return self._text[:line] + self._text[self._line_end(node.end) + 1 :]
        # The first entry after a dash: the next one takes its place.
        return self._text[: starts[index]] + self._text[starts[index + 1] :]

    def _find(self, node: _Node, step: str | int) -> int | None:
        if node.kind == "alias":
            _refuse("the value comes from an alias", self._source)
        if node.kind == "mapping":
            return next((at for at, key in enumerate(node.keys) if key.value == step), None)
        if isinstance(step, int) and step < len(node.items):
            return step
        return None

    def _replace(self, above: list[tuple[_Node, int]], node: _Node, value: Any) -> str:
        """Put a value in the place of a node, and keep the comment on its line."""
        if any(parent.flow for parent, _ in above):
            return self._text[: node.start] + _flow(value) + self._text[node.end :]
        if not above:
            body = dump(value).removesuffix("\n")
            return self._text[: node.start] + body + self._text[node.end :]
        parent, index = above[-1]
        column = self._column(self._starts(parent)[index])
        if parent.kind == "mapping":
            after = self._after_colon(parent.keys[index])
            head, body = self._render({"k": value}, column, skip=len("k:"))
        else:
            after = self._starts(parent)[index] + 1
            head, body = self._render([value], column, skip=len("-"))
        first_line = self._line_end(after)
        last_line = self._line_end(node.end)
        block_below = node.start > first_line
        comment = self._text[after:first_line] if block_below else self._text[node.end : last_line]
        comment = f"  {comment.strip()}" if comment.strip() else ""
        if not head and not body:
            head = " null"
        return self._text[:after] + head + comment + body + self._text[last_line:]

    def _insert(
        self, above: list[tuple[_Node, int]], node: _Node, step: str | int, value: Any
    ) -> str:
        """Add an entry at the end of a mapping or a list that has some."""
        if node.flow or any(parent.flow for parent, _ in above):
            inner = self._text[: node.end - 1].rstrip()
            entry = _flow({step: value})[1:-1] if isinstance(step, str) else _flow(value)
            comma = " " if inner.endswith(",") else ", "
            return inner + comma + entry + self._text[node.end - 1 :]
        column = self._column(self._starts(node)[0])
        entry = dump({step: value} if isinstance(step, str) else [value])
        at = self._line_end(node.end)
        return self._text[:at] + "\n" + self._indent(entry, column) + self._text[at:]

    def _render(self, value: Any, column: int, skip: int) -> tuple[str, str]:
        """An entry as what follows its key or dash on the line, and the lines below."""
        head, _, rest = dump(value).removesuffix("\n").partition("\n")
        return head[skip:], f"\n{self._indent(rest, column)}" if rest else ""

    @staticmethod
    def _indent(text: str, column: int) -> str:
        lines = text.removesuffix("\n").split("\n")
        return "\n".join(f"{' ' * column}{line}" if line else line for line in lines)

    def _starts(self, node: _Node) -> list[int]:
        """Where the entries of a block start: its keys, or the dashes before its items."""
        if node.kind == "mapping":
            return [key.start for key in node.keys]
        starts = [node.start]
        for before, item in pairwise(node.items):
            match = _DASH.search(self._text, self._line_end(before.end) + 1, item.start + 1)
            if match is None:
                _refuse("the list is written in an unusual way", self._source)
            starts.append(match.start(1))
        return starts

    def _after_colon(self, key: _Node) -> int:
        colon = self._text.find(":", key.end)
        if self._text[key.end : colon].strip():
            _refuse("the key is written in an unusual way", self._source)
        return colon + 1

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _column(self, at: int) -> int:
        return at - self._line_start(at)


def _flow(value: Any) -> str:
    """A value on one line, in brackets."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and "\n" in value:
        # A text of several lines as a key is always quoted on one.
        return dump({value: 0}).removesuffix(": 0\n")
    return dump(value).removesuffix("\n")

"""Change one value or key in a user's file, and leave every other character alone.

Loading a file and dumping it again loses comments, or moves them: a comment before the next key
belongs to nobody in the data. So the file is edited as text. ruamel.yaml's parser tells where each
key and value begins and ends; only that stretch is replaced, in the form Helm reads back unchanged
(`dump`). At the end the new text is read again and must hold exactly what was asked for.

It is longer than most: what replaces, inserts, deletes and moves shares one parsed text and the
rules of what may be written into it, in YAML and in JSON.
"""

from __future__ import annotations

import copy
import json
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
from allranks.yamlio import mistakes, scalars
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load, load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SOURCE = "the file"
_ALIAS = "the value comes from an alias"
_UNUSUAL_KEY = "the key is written in an unusual way"
_MORE_THAN_ONE = "the change would alter more than one value"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_PRINTABLE = re.compile(r"[ -~]*")
# A part of the text, and what stands in its place.
_Splice = tuple[int, int, str]
_DASH = re.compile(r"^ *(-)(?=\s|\Z)", re.MULTILINE)


def set_value(text: str, path: Sequence[str | int], value: Any, source: str = _SOURCE) -> str:
    """The file's text with one value set; missing parents are created.

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
    desired = _put(load(text, source).data, tuple(path), value, source)
    return _edit(text, desired, source, lambda editor: editor.set(tuple(path), value))


def replace_value(text: str, path: Sequence[str | int], value: Any, source: str = _SOURCE) -> str:
    """The file's text with a value in place of the one that stands there, on its line.

    Unlike `set_value` it makes no key, and it changes only what the file says at this place and at
    no other: nothing that an alias or a merge brings there, and nothing that one takes from there.

    Args:
        text: the file's content.
        path: where, as keys and list indices.
        value: plain data.
        source: the file's name, for messages.

    Raises:
        InputError: the text is no values file, or the value cannot be replaced alone.
    """
    new, (error,) = change_values(text, [ValueChange(tuple(path), value=value)], source)
    if error is not None:
        raise error
    return new


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One change of `change_values`.

    Attributes:
        path: where, as keys and list indices.
        value: plain data in place of what stands there.
        name: the key in place of the last one of the path, which keeps its value; "" for none.
    """

    path: tuple[str | int, ...]
    value: Any = None
    name: str = ""


def change_values(
    text: str, changes: Sequence[ValueChange], source: str = _SOURCE
) -> tuple[str, list[InputError | None]]:
    """The file's text with all changes that can be made, as `replace_value` makes one.

    The text is parsed once, whatever their number.

    Args:
        text: the file's content.
        changes: what to change; no path stands above another.
        source: the file's name, for messages.

    Returns:
        The text, and for each change why it was not made; None for one that was.

    Raises:
        InputError: the text is no values file, or none that can be edited.
    """
    data = _fitting(load(text, source).data, changes, source)
    errors: list[InputError | None] = [None] * len(changes)

    def make(editor: _Editor) -> str:
        splices: dict[int, _Splice] = {}
        for index, change in enumerate(changes):
            try:
                splices[index] = editor.splice(change)
            except InputError as error:
                errors[index] = error

        def apply_splices(indices: list[int]) -> str | None:
            """The text with some of them; None where it would say something else as well."""
            desired = copy.deepcopy(data)
            for index in indices:
                _change(desired, changes[index])
            new = editor.replace_parts([splices[index] for index in indices])
            return new if _says(new, desired, source) else None

        def settle(base: list[int], more: list[int]) -> list[int]:
            """Those of `more` that can be made beside those that are."""
            if not more or apply_splices(base + more) is not None:
                return base + more
            if len(more) == 1:
                errors[more[0]] = _refusal(_MORE_THAN_ONE, source)
                return base
            middle = len(more) // 2
            return settle(settle(base, more[:middle]), more[middle:])

        return editor.replace_parts([splices[index] for index in settle([], list(splices))])

    return _with_ends(text, source, make), errors


def _fitting(data: Any, changes: Sequence[ValueChange], source: str) -> Any:
    """The data, in which each change has a place.

    Raises:
        InputError: one has none.
    """
    for change in changes:
        if not change.name:
            _put(data, change.path, change.value, source)
    return data


def _change(data: Any, change: ValueChange) -> None:
    """Make a change in data, in place."""
    *above, step = change.path
    for part in above:
        data = data[part]
    if change.name:
        data[change.name] = data.pop(step)
    else:
        data[step] = change.value


def move_value(
    text: str, path: Sequence[str | int], target: Sequence[str | int], source: str = _SOURCE
) -> str:
    """The file's text with a value under another key, written as it was, with its comments.

    A key beside the old one takes its place. Under another parent, whose missing parents are
    created, the lines of the value go after those that are there, with the comment right above
    them; one that begins the file is about the file, and stays.

    Args:
        text: the file's content.
        path: where the value stands, as keys and list indices; its last part is a key.
        target: the path of the key that it is to have; nothing stands there yet.
        source: the file's name, for messages.

    Raises:
        InputError: the text is no values file, or the value cannot be moved alone.
    """
    path, target = tuple(path), tuple(target)
    data = load(text, source).data
    value: Any = data
    for step in path:
        if not _has(value, step):
            raise ValueError(f"nothing stands at {path}")
        value = value[step]
    if target[: len(path)] == path:
        _refuse("a value cannot be moved below itself", source)
    if path[:-1] == target[:-1]:
        new, (error,) = change_values(text, [ValueChange(path, name=str(target[-1]))], source)
        if error is not None:
            raise error
        return new
    desired = _put(_without(data, path), target, value, source)
    return _edit(text, desired, source, lambda editor: editor.move(path, target))


def _edit(text: str, desired: Any, source: str, change: Callable[[_Editor], str]) -> str:
    """Make one change, and check the result."""

    def checked(editor: _Editor) -> str:
        new = change(editor)
        if not _says(new, desired, source):
            _refuse(_MORE_THAN_ONE, source)
        return new

    return _with_ends(text, source, checked)


def _says(text: str, desired: Any, source: str) -> bool:
    return load_all(text, source) in ([desired], [desired, None])


def _with_ends(text: str, source: str, change: Callable[[_Editor], str]) -> str:
    """Edit with line feeds only, and put the file's own line ends back.

    Raises:
        InputError: the text cannot be edited, or what was JSON would be JSON no more.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    plain = text.removeprefix(mark).replace("\r\n", "\n")
    if text.count("\r\n") not in (0, plain.count("\n")):
        _refuse("some of its lines end as on Windows, and others do not", source)
    is_json = bool(_as_json(plain))
    try:
        new = change(_Editor(plain, source, is_json=is_json))
    except YAMLError as error:
        if (place := mistakes.last_odd_break(plain)) is not None:
            raise mistakes.odd_break(plain, place, source) from error
        raise InputError(
            f"Helm reads this file, and stricter readers of YAML do not{_why(error)}",
            hint="edit the file by hand",
            source=f"{source}:{_line_of(error)}",
        ) from error
    if is_json and _as_json(new) is None:
        _refuse("the file is JSON, and would be no more", source)
    return mark + (new.replace("\n", "\r\n") if "\r\n" in text else new)


def _why(error: YAMLError) -> str:
    """A parser's refusal, as the end of a sentence."""
    reason = getattr(error, "problem", None)
    return f": {reason}" if reason else ""


def _line_of(error: YAMLError) -> int:
    """The line of what a parser refuses."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return 1 + (mark.line if mark is not None else 0)


def _as_json(text: str) -> Any:
    """The data of a text that is a map in JSON, and not only in YAML; None for any other."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's JSON alone")


def _refusal(message: str, source: str) -> InputError:
    return InputError(message, hint="edit the file by hand", source=source)


def _refuse(message: str, source: str) -> NoReturn:
    raise _refusal(message, source)


def _has(parent: Any, step: str | int) -> bool:
    if isinstance(parent, dict):
        return step in parent
    return isinstance(parent, list) and isinstance(step, int) and 0 <= step < len(parent)


def _without(data: Any, path: tuple[str | int, ...]) -> Any:
    """The data without what stands at a path."""
    step, rest = path[0], path[1:]
    if isinstance(data, dict):
        items = {key: item for key, item in data.items() if rest or key != step}
        return {key: _without(item, rest) if key == step else item for key, item in items.items()}
    return [_without(item, rest) if at == step else item for at, item in enumerate(data)]


def _nest(path: Sequence[str | int], value: Any) -> Any:
    """The value inside of new mappings (and lists, for an index 0) for each step of a path."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _put(data: Any, path: tuple[str | int, ...], value: Any, source: str) -> Any:
    """The data with the value set, which the edited text has to mean."""
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
    """A value in the text: its position and its entries.

    Attributes:
        start: the index of its first character, tag and anchor included.
        end: the index after its last one.
        kind: ``scalar``, ``alias``, ``mapping`` or ``list``.
        flow: written in brackets.
        value: the text of a scalar.
        keep: a block scalar whose trailing line feeds count.
        anchor: the name by which aliases repeat it; "" for none.
        keys: the keys of a mapping, in the order of `items`.
        items: the values of a mapping or the items of a list.
    """

    start: int
    end: int
    kind: str
    flow: bool = False
    value: str = ""
    keep: bool = False
    anchor: str = ""
    keys: list[_Node] = field(default_factory=list)
    items: list[_Node] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, key: str | int) -> int | None:
        """The place of a key of a mapping; None where it has none."""
        if not self._places:
            for at, node in enumerate(self.keys):
                self._places.setdefault(node.value, at)
        return self._places.get(key) if isinstance(key, str) else None


def _tree(text: str) -> _Node:
    events = iter(YAML(typ="safe", pure=True).parse(text))
    first = next(event for event in events if isinstance(event, NodeEvent))
    return _node(first, events, text)


def _node(event: Any, events: Iterator[Any], text: str) -> _Node:
    node = _read_node(event, events, text)
    if not isinstance(event, AliasEvent):
        node.anchor = event.anchor or ""
    return node


def _read_node(event: Any, events: Iterator[Any], text: str) -> _Node:
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
            if node.items[-1].start == node.items[-1].end:
                dash = _DASH.search(text, text.find("\n", before) + 1) if before >= 0 else None
                _place_empty(node.items[-1], dash.end(1) if dash else start + 1)
    # The parser ends a block at the next token, after comments that are not its own.
    node.end = event.end_mark.index if node.flow else node.items[-1].end
    return node


def _place_empty(node: _Node, at: int) -> None:
    """Place an empty value where it would be written; the parser finds it at the next token."""
    if node.kind == "scalar" and node.start == node.end:
        node.start = node.end = at


class _Editor:
    """Replaces parts of a text; line ends are line feeds.

    Args:
        text: the text.
        source: its name, for messages.
        is_json: it is JSON, and what is written into it is, too.
    """

    def __init__(self, text: str, source: str, *, is_json: bool) -> None:
        self._text = text
        self._source = source
        self._is_json = is_json
        self._root = _tree(text)

    def set(self, path: tuple[str | int, ...], value: Any) -> str:
        """Set a value: replace it, or insert it into its nearest existing parent."""
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

    def splice(self, change: ValueChange) -> _Splice:
        """The text that a change replaces: a value on its line, or a key, and nothing around it."""
        parent, index = self._entry(change.path)
        if change.name:
            key = parent.keys[index]
            if key.kind != "scalar" or key.anchor or "\n" in self._text[key.start : key.end]:
                _refuse(_UNUSUAL_KEY, self._source)
            return key.start, key.end, self._like(key, change.name)
        node = parent.items[index]
        if node.kind == "alias":
            _refuse(_ALIAS, self._source)
        if node.anchor:
            _refuse(f"it has an anchor, &{node.anchor}, by which others repeat it", self._source)
        is_block = node.kind != "scalar" and not node.flow
        if is_block or node.start == node.end or "\n" in self._text[node.start : node.end]:
            _refuse("the value is written over several lines", self._source)
        return node.start, node.end, self._like(node, change.value)

    def replace_parts(self, splices: list[_Splice]) -> str:
        """The text with some parts replaced."""
        parts: list[str] = []
        at = 0
        for start, end, new in sorted(splices):
            parts += [self._text[at:start], new]
            at = end
        return "".join([*parts, self._text[at:]])

    def _flow(self, value: Any) -> str:
        """A value on one line."""
        return json.dumps(value, ensure_ascii=False) if self._is_json else _flow(value)

    def _like(self, node: _Node, value: Any) -> str:
        """A value in place of another: text in the quotes of that one, a number in its digits."""
        text, quote = self._flow(value), self._text[node.start]
        if isinstance(value, float) and node.kind == "scalar":
            digits = node.value.strip()
            is_same = type(same := scalars.resolve(digits)) is float and same == value
            return digits if is_same and (not self._is_json or _is_number(digits)) else text
        if isinstance(value, str) and not self._is_json and _PRINTABLE.fullmatch(value):
            if quote == "'":
                return "'" + value.replace("'", "''") + "'"
            return json.dumps(value) if quote == '"' else text
        return text

    def move(self, path: tuple[str | int, ...], target: tuple[str | int, ...]) -> str:
        """Move an entry of a block to the end of another one, as the lines that it has."""
        if self._is_json:
            return self._move_in_json(path, target)
        parent, index = self._entry(path)
        key, node = parent.keys[index], parent.items[index]
        line = self._line_start(key.start)
        if parent.flow or self._text[line : key.start].strip():
            _refuse("the key does not begin a line", self._source)
        if "\n" in self._text[key.start : key.end]:
            _refuse(_UNUSUAL_KEY, self._source)
        holder, rest = self._nearest(target)
        column = self._column(key.start)
        above = self._comment_above(parent, index)
        end = max(self._line_end(node.end), key.end)
        below = self._comment_below(end, column)
        name = self._like(key, rest[-1]) + self._text[key.end : below]
        place = self._column(self._starts(holder)[0])
        lines = [f"{' ' * (place + 2 * depth)}{_flow(k)}:" for depth, k in enumerate(rest[:-1])]
        shift = place + 2 * (len(rest) - 1)
        lines += [f"{' ' * shift}{text.strip()}" for text in self._text[above:line].splitlines()]
        lines += self._shift(name, column, shift)
        at, new = self._line_end(holder.end), "\n" + "\n".join(lines)
        # The comments go first; what is left of the entry is deleted as any.
        remaining_text = self.replace_parts([(above, line, ""), (at, at, new), (end, below, "")])
        moved = _Editor(remaining_text, self._source, is_json=False).delete(path)
        if moved.count("#") != self._text.count("#"):
            _refuse("a comment would be lost", self._source)
        return moved

    def _comment_above(self, parent: _Node, index: int) -> int:
        """Where the comment right above an entry starts, or the entry's own line where none is."""
        at = self._line_start(parent.keys[index].start)
        column = self._column(parent.keys[index].start)
        least = parent.items[index - 1].end if index else 0
        first = at
        while first > least:
            before = self._line_start(first - 1)
            if before < least or not re.match(f" {{{column}}}#", self._text[before:first]):
                break
            first = before
        return first if first > 0 else at

    def _comment_below(self, at: int, column: int) -> int:
        """Where the lines of a comment end that stand after a line, further in than its key."""
        while match := re.compile(f"\n {{{column + 1},}}#[^\n]*").match(self._text, at):
            at = match.end()
        return at

    def _move_in_json(self, path: tuple[str | int, ...], target: tuple[str | int, ...]) -> str:
        """Move an entry, as it is written, to the end of another map."""
        parent, index = self._entry(path)
        key, node = parent.keys[index], parent.items[index]
        holder, rest = self._nearest(target)
        old, pad = self._pad(key), self._pad(holder.keys[0]) if holder.keys else None
        unit = self._pad(self._root.keys[0]) or "  "
        text = self._text[node.start : node.end]
        if pad is not None and old is not None:
            inner = pad + unit * (len(rest) - 1)
            text = "\n".join(
                inner + line.removeprefix(old) if at and line.startswith(old) else line
                for at, line in enumerate(text.split("\n"))
            )
        for depth in range(len(rest) - 1, 0, -1):
            entry = f"{self._flow(rest[depth])}: {text}"
            if pad is None:
                text = f"{{{entry}}}"
            else:
                text = f"{{\n{pad}{unit * depth}{entry}\n{pad}{unit * (depth - 1)}}}"
        new = _Editor(self._add_in_json(holder, rest[0], text), self._source, is_json=True)
        return new.delete(path)

    def _add_in_json(self, holder: _Node, name: str, text: str) -> str:
        """Add an entry at the end of a map, on a line of its own where the others have theirs."""
        entry = f"{self._flow(name)}: {text}"
        if not holder.items:
            return f"{self._text[: holder.start]}{{{entry}}}{self._text[holder.end :]}"
        pad = self._pad(holder.keys[0])
        at = holder.items[-1].end
        gap = ", " if pad is None else f",\n{pad}"
        return self._text[:at] + gap + entry + self._text[at:]

    def _pad(self, key: _Node) -> str | None:
        """The blanks before a key that begins a line; None for one that does not."""
        before = self._text[self._line_start(key.start) : key.start]
        is_first = self._line_start(key.start) == 0
        return None if before.strip() or (is_first and not before) else before

    def _nearest(self, target: tuple[str | int, ...]) -> tuple[_Node, tuple[str, ...]]:
        """The deepest mapping on the way to a key that is there, and the keys below it."""
        node, depth = self._root, 0
        while (index := self._find(node, target[depth])) is not None:
            node, depth = node.items[index], depth + 1
        if node.kind != "mapping" or ((node.flow or not node.items) and not self._is_json):
            where = ".".join(map(str, target[:depth]))
            _refuse(f"{where} has no lines of its own to add one to", self._source)
        return node, tuple(map(str, target[depth:]))

    @staticmethod
    def _shift(text: str, column: int, place: int) -> list[str]:
        """The lines of an entry at another column; the first has no indentation."""
        first, *more = text.split("\n")
        pad, old = " " * place, " " * column
        return [pad + first, *(pad + line.removeprefix(old) if line else line for line in more)]

    def _entry(self, path: tuple[str | int, ...]) -> tuple[_Node, int]:
        """The mapping or list that holds what a path names, and its place there."""
        parent, index = self._root, -1
        for depth, step in enumerate(path):
            parent = parent.items[index] if depth else parent
            place = self._find(parent, step)
            if place is None:
                _refuse("the value comes from a merge (<<)", self._source)
            index = place
        return parent, index

    def delete(self, path: tuple[str | int, ...]) -> str:
        """Delete a key with its value; an emptied mapping is left as {}."""
        above: list[tuple[_Node, int]] = []
        node = self._root
        for step in path:
            index = self._find(node, step)
            if index is None:
                _refuse(_ALIAS, self._source)
            above.append((node, index))
            node = node.items[index]
        parent, index = above.pop()
        if len(parent.items) == 1:
            return self._replace(above, parent, {})
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
            _refuse(_ALIAS, self._source)
        if node.kind == "mapping":
            return node.place(step)
        if isinstance(step, int) and step < len(node.items):
            return step
        return None

    def _replace(self, above: list[tuple[_Node, int]], node: _Node, value: Any) -> str:
        """Replace a node by a value, and keep the comment on its line."""
        if self._is_json or any(parent.flow for parent, _ in above):
            return self._text[: node.start] + self._flow(value) + self._text[node.end :]
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
        """Add an entry at the end of a mapping or list that is not empty."""
        if self._is_json and isinstance(step, str):
            return self._add_in_json(node, step, self._flow(value))
        if node.flow or any(parent.flow for parent, _ in above):
            inner = self._text[: node.end - 1].rstrip()
            entry = self._flow({step: value})[1:-1] if isinstance(step, str) else self._flow(value)
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
            _refuse(_UNUSUAL_KEY, self._source)
        return colon + 1

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _column(self, at: int) -> int:
        return at - self._line_start(at)


def _is_number(text: str) -> bool:
    """Whether JSON has a number in this form."""
    return _JSON_NUMBER.fullmatch(text) is not None


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

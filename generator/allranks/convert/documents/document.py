"""An object of an input: its names, and where in its file each of its fields stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks.convert.documents import appdef_names
from allranks.convert.verdicts import leaf_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.convert.verdicts import FieldPath
    from allranks.yamlio.document import ValuesDocument

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """An object of the input.

    Attributes:
        data: the object.
        source: the file that it stands in.
        line: the line that it begins on; 0 where that is not known.
        lines: the line of each of its fields; None where they are not known.
        prefix: where in the file's document the object stands, as in a List.
    """

    data: Manifest
    source: str = ""
    line: int = 0
    lines: ValuesDocument | None = field(default=None, repr=False, compare=False)
    prefix: FieldPath = ()

    @property
    def group(self) -> str:
        """Its API group; "" for the core group."""
        group, slash, _ = str(self.data.get("apiVersion") or "").partition("/")
        return group if slash else ""

    @property
    def kind(self) -> str:
        """Its kind; "" where it has none."""
        return str(self.data.get("kind") or "")

    @property
    def name(self) -> str:
        """Its name; "" where it has none."""
        if self.kind == "AppDef":
            return appdef_names.name_of(self.data)
        metadata = self.data.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def namespace(self) -> str:
        """Its namespace; "" where it names none."""
        metadata = self.data.get("metadata")
        return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""

    @property
    def where(self) -> str:
        """The file, and the line where it is known."""
        return f"{self.source}:{self.line}" if self.line else self.source

    def repeated(self) -> Iterator[str]:
        """Of each key that one of its mappings has twice, which of the two counts."""
        if self.lines is None:
            return
        after = None
        if self.prefix and isinstance(place := self.prefix[-1], int):
            after = self.lines.line((*self.prefix[:-1], place + 1))
        for key, first, last in self.lines.repeated:
            if self.line <= last and (after is None or last < after):
                yield (
                    f"{key} is given twice, on line {first} and on line {last}, and the last "
                    f"counts ({self.source}:{last})"
                )

    def line_of(self, path: FieldPath) -> int:
        """The line of a field, or of the nearest one above it; 0 where it is not known."""
        if self.lines is None:
            return 0
        whole = (*self.prefix, *path)
        for end in range(len(whole), 0, -1):
            line = self.lines.line(whole[:end])
            if line is not None:
                return line
        return self.line

    def place_of(self, path: FieldPath) -> str:
        """The file of a field, and its line where that is known."""
        line = self.line_of(path)
        return f"{self.source}:{line}" if line else self.source

    def token_of(self, path: FieldPath) -> str:
        """How a number or a boolean is written: ``yes``, ``1.10``; "" where that is not known."""
        whole = (*self.prefix, *path)
        return (self.lines.token(whole) if self.lines is not None else None) or ""

    def field_lines(self) -> dict[FieldPath, int]:
        """The line of each field, and of all that fields stand in."""
        lines: dict[FieldPath, int] = {}
        if self.lines is None:
            return lines
        for leaf in leaf_paths(self.data, ()):
            for end in range(1, len(leaf) + 1):
                path = leaf[:end]
                if path not in lines and (line := self.lines.line((*self.prefix, *path))):
                    lines[path] = line
        return lines


def documents_of(objects: Iterable[tuple[ValuesDocument, int]]) -> Iterator[Document]:
    """The objects of a file, each item of a List by itself.

    Args:
        objects: the file's documents with the line that each begins on.
    """
    for document, line in objects:
        yield from _documents(document.data, Document({}, document.source, line, document))


def _documents(data: Manifest, within: Document) -> Iterator[Document]:
    """The object, or each item of a List, which may be a List itself.

    Args:
        data: the object.
        within: where it stands: its file, its line and its place in the file's document.
    """
    data = _with_kind(data)
    items = data.get("items")
    if not (str(data.get("kind") or "").endswith("List") and isinstance(items, list)):
        yield replace(within, data=data)
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            prefix: FieldPath = (*within.prefix, "items", index)
            place = within.lines.line(prefix) if within.lines is not None else None
            yield from _documents(item, replace(within, line=place or within.line, prefix=prefix))


def _with_kind(data: Manifest) -> Manifest:
    """An object with its kind, where only its form says it: TorchX's AppDefs."""
    roles = data.get("roles")
    if "kind" in data or not isinstance(roles, list):
        return data
    if any(isinstance(role, dict) and {"entrypoint", "image"} <= set(role) for role in roles):
        return {"apiVersion": "torchx.pytorch.org/v1", "kind": "AppDef", **data}
    return data


def steps_of(path: str) -> list[str]:
    """The steps of a dotted path: ``a.b[0].c`` has four.

    Args:
        path: the path, as a problem has it.
    """
    return path.replace("[", ".").replace("]", "").split(".")


def keys_of(path: str, data: Mapping[str, Any]) -> FieldPath:
    """The keys of a dotted path, as far as an object has them.

    Args:
        path: the path, as a problem has it.
        data: the object.
    """
    keys: list[str | int] = []
    node: Any = data
    for step in steps_of(path):
        if isinstance(node, dict) and step in node:
            keys.append(step)
            node = node[step]
        elif isinstance(node, list) and step.isdigit() and int(step) < len(node):
            keys.append(int(step))
            node = node[int(step)]
        else:
            break
    return tuple(keys)

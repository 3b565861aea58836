"""Bundle the hand-written schemas into the file that Helm reads beside a chart.

Helm resolves a relative ``$ref`` against the root of the file system and offers no registry, so a
chart's schema must stand alone: every reference is inlined as one of ``$defs``. Descriptions stay
behind (they feed the documentation), titles come along (they word the errors).

Two things are added that only a chart knows. Helm puts ``global`` and each dependency's name into
the values, so a closed root must allow them. And each key that values.yaml gives a default is
required: a user's ``null`` removes the default, and the templates rely on it being there; `preset`
alone is read by no template, and null names none.

Where one chart's values hold another's, as a sweep's hold its trials', the other file is referred
to as a whole, marked with ``x-overlay``: such values are laid over defaults elsewhere, so below the
mark nothing is required for having one.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from allranks import names, resources
from allranks.yamlio import load

if TYPE_CHECKING:
    from pathlib import Path

BASE = "https://allranks.dev/schemas/"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MAPS = ("properties", "patternProperties")  # their keys are names, not keywords
# A key whose null means the same as its default, and which no template reads.
_NULL_IS_NONE = frozenset({"preset"})
_DROPPED_KEYS = ("$schema", "$id", "$defs", "$comment", "description")
OVERLAY = "x-overlay"

Schema = dict[str, Any]


class SchemaError(Exception):
    """An error in one of our schema files, for our own tools and tests."""


def bundle(workload: str) -> Schema:
    """The bundled values schema of a workload's chart.

    Args:
        workload: the workload, which is also the chart's folder.

    Returns:
        JSON-ready data with sorted keys; the same for the same files.

    Raises:
        SchemaError: a schema file refers to what is not there, or contradicts the defaults.
    """
    chart = resources.folder("charts") / workload
    defs: dict[str, Schema] = {}
    root = _inline(_file(_name(workload)), _uri(workload), defs)
    root["properties"]["global"] = {"type": "object"}
    for name in _dependencies(chart):
        root["properties"][name] = {"type": "object"}
    _require_defaults(root, _yaml(chart / "values.yaml"), defs, {})
    result: Schema = json.loads(
        json.dumps({"$schema": DIALECT, **root, "$defs": defs}, sort_keys=True)
    )
    return result


def render(schema: Schema) -> str:
    """The text of a bundled schema's file."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def target(ref: str, base: str) -> tuple[Schema, str]:
    """The node that a reference in a schema file points at.

    Args:
        ref: the reference as it is written.
        base: the `$id` of the file it is written in.

    Returns:
        The schema, and the `$id` of its own file.

    Raises:
        SchemaError: it points at nothing.
    """
    uri, _, pointer = urljoin(base, ref).partition("#")
    if uri.startswith(BASE) and not pointer:
        return _file(uri.removeprefix(BASE)), uri
    if not uri.startswith(BASE) or not pointer.startswith("/$defs/"):
        raise SchemaError(f"{base}: $ref {ref!r} is not a definition under {BASE}")
    node = _file(uri.removeprefix(BASE)).get("$defs", {}).get(pointer.removeprefix("/$defs/"))
    if not isinstance(node, dict):
        raise SchemaError(f"{base}: $ref {ref!r} points at nothing")
    return node, uri


def source(workload: str) -> tuple[Schema, str]:
    """A workload's hand-written schema with its descriptions, and its `$id`."""
    return _file(_name(workload)), _uri(workload)


def _name(chart: str) -> str:
    """The schema file of a chart, be it of a workload or not."""
    return f"{'charts' if chart in names.OTHER_CHARTS else 'workloads'}/{chart}.schema.yaml"


def _uri(workload: str) -> str:
    return f"{BASE}{_name(workload)}"


@functools.cache
def _file(name: str) -> Schema:
    path = resources.folder("schemas") / name
    if not path.is_file():
        raise SchemaError(f"there is no schema file {name}")
    schema = _yaml(path)
    if schema.get("$id") != BASE + name:
        raise SchemaError(f"{name}: its $id is {schema.get('$id')!r}, not {BASE + name!r}")
    return schema


def _yaml(path: Path) -> Schema:
    data: Schema = load.load(path.read_bytes(), path.name).data
    return data


def _dependencies(chart: Path) -> list[str]:
    entries = _yaml(chart / "Chart.yaml").get("dependencies", [])
    return sorted(str(entry.get("alias") or entry["name"]) for entry in entries)


def _inline(node: Any, base: str, defs: dict[str, Schema], suffix: str = "") -> Any:
    """A copy of a schema node whose references point into `defs`, which is filled on the way.

    `suffix` keeps the definitions below an overlay apart from those with required defaults.
    """
    if isinstance(node, list):
        return [_inline(item, base, defs, suffix) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get(OVERLAY):
        node, suffix = {key: node[key] for key in node if key != OVERLAY}, "-overlay"
    out: Schema = {}
    for key, value in node.items():
        if key in _MAPS:
            out[key] = {name: _inline(sub, base, defs, suffix) for name, sub in value.items()}
        elif key == "$ref":
            out[key] = f"#/$defs/{_define(value, base, defs, suffix)}"
        elif key not in _DROPPED_KEYS:
            out[key] = _inline(value, base, defs, suffix)
    return out


def _define(ref: str, base: str, defs: dict[str, Schema], suffix: str) -> str:
    node, uri = target(ref, base)
    stem = uri.rsplit("/", 1)[1].removesuffix(".schema.yaml")
    _, whole, name = ref.rpartition("/$defs/")
    name = f"{stem}-{name}{suffix}" if whole else f"{stem}{suffix}"
    if name not in defs:
        defs[name] = {}  # stands in for itself while a recursive definition is read
        defs[name] = _inline(node, uri, defs, suffix)
    return name


def _require_defaults(
    node: Schema, defaults: Any, defs: dict[str, Schema], visited: dict[int, list[str]]
) -> None:
    """Make each key that has a default required, in `node` and below."""
    node = resolve(node, defs)
    properties = node.get("properties")
    if not isinstance(defaults, dict) or not properties:
        return
    keys = sorted(key for key in defaults if key in properties)
    if keys != visited.setdefault(id(node), keys):
        raise SchemaError(f"two uses of one definition have different defaults: {keys}")
    if keys:
        node["required"] = sorted({*node.get("required", ()), *keys} - _NULL_IS_NONE)
    for key in keys:
        _require_defaults(properties[key], defaults[key], defs, visited)


def resolve(node: Schema, defs: dict[str, Schema]) -> Schema:
    """The schema node behind a reference into a bundle's `$defs`; the node itself otherwise."""
    while "$ref" in node:
        node = defs[node["$ref"].removeprefix("#/$defs/")]
    return node

"""Write the fields that a CustomResourceDefinition has: one path a line.

    python tools/crd_fields.py CRD.yaml VERSION [PATH]

`PATH` is the field to begin at, such as spec.template; without it all of the object. Pod templates
are left out below another field: they have a table of their own. `*` is any key, `[]` any item.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The paths of all fields below a field."""
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    if path and {"metadata", "spec"} <= set(properties) and "containers" in (
        properties["spec"].get("properties") or {}
    ):
        yield f"{path}.<PodTemplateSpec>"
        return
    yield from _below(schema, path, properties, extra)


def _below(schema: dict[str, Any], path: str, properties: Any, extra: Any) -> Iterator[str]:
    if properties:
        for name, below in properties.items():
            yield from walk(below, f"{path}.{name}" if path else name)
    elif isinstance(extra, dict):
        yield from walk(extra, f"{path}.*")
    elif schema.get("type") == "array":
        yield from walk(schema.get("items") or {}, f"{path}[]")
    else:
        yield path


def main() -> int:
    """Print the fields of a version of a CRD."""
    file, version, *rest = sys.argv[1:]
    crd = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    spec = crd["spec"]
    versions = {item["name"]: item for item in spec.get("versions") or ()}
    schema = (versions[version].get("schema") or spec["validation"])["openAPIV3Schema"]
    prefix = ""
    for step in rest[0].split(".") if rest else ():
        schema = schema["additionalProperties"] if step == "*" else schema["properties"][step]
    own = schema["properties"]
    for name, below in own.items():
        print("\n".join(walk(below, f"{prefix}{name}")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.corpus.fields CRD [VERSION]`: the fields of a kind, a path on each line.

What the tests walk to find a field that a converter has no word for is made of a project's own CRD in
this way. Pod templates are left out: their fields are the same everywhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterator

_DROPPED = ("apiVersion", "kind", "metadata", "status")


def fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths of a schema's fields, those of pod templates left out.

    Args:
        schema: the schema.
        path: where it stands.
    """
    properties = schema.get("properties")
    if isinstance(properties, dict):
        if _is_pod_template(properties):
            yield f"{path}.**pod template"
            return
        for key, value in sorted(properties.items()):
            if path or key not in _DROPPED:
                yield from fields(value, f"{path}.{key}" if path else key)
    elif isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}.*")
    else:
        yield path


def _is_pod_template(properties: dict[str, Any]) -> bool:
    spec = properties.get("spec")
    below = spec.get("properties") if isinstance(spec, dict) else None
    return isinstance(below, dict) and "containers" in below


def main() -> int:
    """Write the fields of a CRD."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.fields", description=__doc__)
    parser.add_argument("crd", type=Path)
    parser.add_argument("version", nargs="?", default="")
    arguments = parser.parse_args()
    for document in load.load_all(arguments.crd.read_bytes(), str(arguments.crd)):
        if not document or document.get("kind") != "CustomResourceDefinition":
            continue
        for version in document["spec"]["versions"]:
            if arguments.version in ("", version["name"]):
                paths = fields(version["schema"]["openAPIV3Schema"])
                print("\n".join(path for path in paths if "**" not in path))
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Write convert/inputs/pod_fields.txt: the fields of a PodTemplateSpec, a path a line.

Usage: pod_fields.py [--check]

They are those of the models of the pinned `kubernetes` client, which Kubernetes' own OpenAPI
document is made into. `*` is any key, `[]` any item of a list.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kubernetes.client import models

if TYPE_CHECKING:
    from collections.abc import Iterator

CONVERT = Path(__file__).parents[2] / "generator" / "allranks" / "convert"
TABLE = CONVERT / "inputs" / "pod_fields.txt"
_LIST = re.compile(r"[Ll]ist\[(?P<item>.+)\]")
_MAP = re.compile(r"[Dd]ict[\[(]str, (?P<item>.+)[\])]")


def walk(kind: str, path: str) -> Iterator[str]:
    """The paths of the fields that a type of the client's has.

    Args:
        kind: its name: ``V1PodSpec``, ``List[V1Volume]``, ``str``.
        path: the field of this type; "" for the whole.
    """
    items = _LIST.fullmatch(kind)
    values = _MAP.fullmatch(kind)
    model = getattr(models, kind, None)
    if items is not None:
        yield from walk(items["item"], f"{path}[]")
    elif values is not None:
        yield from walk(values["item"], f"{path}.*")
    elif model is None or kind == "V1ManagedFieldsEntry":  # whose fields the API server writes
        yield path
    else:
        for name, own in model.openapi_types.items():
            yield from walk(own, f"{path}.{model.attribute_map[name]}".removeprefix("."))


def table() -> str:
    """The table, sorted."""
    return "".join(f"{path}\n" for path in sorted({*walk("V1PodTemplateSpec", "")}))


def main() -> int:
    """Write the table; with ``--check`` only say whether it is stale (exit code 1)."""
    text = table()
    if "--check" in sys.argv[1:]:
        is_stale = not TABLE.exists() or TABLE.read_text(encoding="utf-8") != text
        if is_stale:
            print(f"{TABLE.name} is stale: run `make gen-pod-fields`")
        return int(is_stale)
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

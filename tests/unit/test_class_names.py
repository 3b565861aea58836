"""A class name stands for one class, so that whoever reads it anywhere knows which."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOTS = tuple(Path(__file__).parents[2] / root for root in ("generator/allranks", "operator"))


def test_no_two_classes_have_one_name() -> None:
    """In the package and the operator, private classes included."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for root in ROOTS:
        for file in sorted(root.rglob("*.py")):
            module = file.relative_to(root).with_suffix("").as_posix()
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    modules[node.name].append(module)
    assert {} == {name: files for name, files in modules.items() if len(files) > 1}

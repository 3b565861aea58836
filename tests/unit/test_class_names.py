"""A class name stands for one class, so that whoever reads it anywhere knows which."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

REPO = Path(__file__).parents[2]
ROOTS = ("generator/allranks", "operator", "charts")
# The modules of a name that stands twice, and why it may.
EXCEPTIONS = {
    # An offer of newer code: one writes it as JSON, the other reads it in the pod.
    "Offer": {"generator/allranks/workspace/sync.py", "charts/library/files/sync.py"},
}


def test_no_two_classes_have_one_name() -> None:
    """In the package, the operator and what runs in pods, private classes included."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for root in ROOTS:
        for file in sorted((REPO / root).rglob("*.py")):
            if file.is_symlink() or "charts" in file.relative_to(REPO / root).parts:
                continue  # a chart has others' files by links, also of the library as a whole
            module = file.relative_to(REPO).as_posix()
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    modules[node.name].append(module)
    repeated = {name: set(files) for name, files in modules.items() if len(files) > 1}
    assert repeated == EXCEPTIONS

"""Write the picture of the packages in docs/architecture.md, from the imports.

An arrow is left out where a longer way shows it already: the picture is the transitive reduction of
what imports what. Imports inside functions count; imports for type checkers alone do not.

Usage: architecture.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
BEGIN = "<!-- Made by `make gen-architecture` from the imports; edit those. -->\n"
END = "<!-- end -->\n"
PACKAGES = ("allranks", "allranks_operator")
# What all stand on, and what would only add an arrow to each box.
FLOOR = frozenset({"atomic", "errors", "humanize", "names", "retry", "start", "trust"})


def edges() -> dict[str, set[str]]:
    """Which package imports which: of `allranks` its sub-packages, the operator as one."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    imports: dict[str, set[str]] = {}
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = package(module), package(imported)
            if source and target and source != target:
                imports.setdefault(source, set()).add(target)
    return imports


def package(module: str) -> str:
    """The box that a module stands in; "" for one that the picture leaves out."""
    program, _, below = module.partition(".")
    room = below.split(".")[0]
    if program == "allranks_operator":
        return "master" if room == "master" else "operator"
    return "" if room in FLOOR else room


def reduced(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows that no longer way shows."""

    def reaches(start: str, goal: str, *, visited: set[str]) -> bool:
        for step in imports.get(start, ()):
            if step == goal or (
                step not in visited and reaches(step, goal, visited=visited | {step})
            ):
                return True
        return False

    return [
        (source, target)
        for source, targets in sorted(imports.items())
        for target in sorted(targets)
        if not any(reaches(other, target, visited={source}) for other in targets if other != target)
    ]


def picture() -> str:
    """The picture, as a Mermaid flow chart."""
    arrows = "".join(f"  {source} --> {target}\n" for source, target in reduced(edges()))
    return f"{BEGIN}```mermaid\nflowchart TD\n{arrows}```\n{END}"


def page(text: str) -> str:
    """The page with the picture of today.

    Args:
        text: the page as it is.
    """
    head, rest = text.split(BEGIN)
    return head + picture() + rest.split(END, 1)[1]


def main() -> int:
    """Write the page; with ``--check`` only say whether it is stale (exit code 1)."""
    text = PAGE.read_text(encoding="utf-8")
    new = page(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            print("docs/architecture.md is stale: run `make gen-architecture`")
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

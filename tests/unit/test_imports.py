"""No module needs itself: at start-up, through an import inside a function, or for a type.

import-linter holds the layers; it says nothing of modules that stand on one layer. An import for a
type checker alone never runs, but a reader follows it all the same.
"""

from __future__ import annotations

from functools import cache
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

PROGRAMS = ("allranks", "allranks_operator")


@cache
def imports() -> dict[str, frozenset[str]]:
    """What each module imports: early, late, or for a type alone."""
    graph = grimp.build_graph(*PROGRAMS, cache_dir=None)
    return {
        module: frozenset(graph.find_modules_directly_imported_by(module))
        for module in graph.modules
    }


def circle(edges: dict[str, set[str]]) -> list[str]:
    """One of the circles; [] for none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        members: list[str] = error.args[1]
        return members
    return []


def packages() -> list[str]:
    """Each package that has others, or modules, below it."""
    return sorted({module.rpartition(".")[0] for module in imports()} - {""})


def test_no_module_comes_back_to_itself() -> None:
    """However late a function imports it: who moves such an import to the top must be able to."""
    assert [] == circle({module: set(imported) for module, imported in imports().items()})


@pytest.mark.parametrize("package", packages())
def test_no_neighbours_in_a_package_need_each_other(package: str) -> None:
    """Of two modules or packages side by side, one can be read without the other."""
    prefix = f"{package}."
    edges: dict[str, set[str]] = {}
    for module, imported in imports().items():
        if not module.startswith(prefix):
            continue
        source = module.removeprefix(prefix).split(".")[0]
        targets = {
            name.removeprefix(prefix).split(".")[0] for name in imported if name.startswith(prefix)
        }
        edges.setdefault(source, set()).update(targets - {source})
    assert [] == circle(edges)

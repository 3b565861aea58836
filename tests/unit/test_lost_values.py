"""No name is given a value that the next statement but takes from it again.

A walk over a schema's fields went over an empty list after a rename, and could not fail.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FOLDERS = ("generator", "operator", "tests", "tools")


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    names = (own for own in ast.walk(node) if isinstance(own, ast.Name))
    return {own.id for own in names if isinstance(own.ctx, context)}


def _targets(statement: ast.stmt) -> set[str]:
    """The names that an assignment sets as a whole."""
    nodes: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        nodes = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        nodes = [statement.target]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for key in ("body", "orelse", "finalbody"):
            block = getattr(node, key, None)
            if isinstance(block, list):
                yield block


def lost_values(source: str) -> list[str]:
    """The names that one statement of a block sets, and a later one before any has read them."""
    lost = []
    for block in _blocks(ast.parse(source)):
        lines: dict[str, int] = {}
        for statement in block:
            is_plain = isinstance(statement, ast.Assign | ast.AnnAssign)
            targets = _targets(statement)
            # Most statements follow none that has set a name, and their walk is most of the work.
            unread = set(lines) - _names(statement, ast.Load) if lines else set()
            lost += [f"{name}, line {lines[name]}" for name in sorted(unread & targets)]
            rest = unread - targets
            if rest and not is_plain:
                rest -= _names(statement, ast.Store)
            lines = {name: lines[name] for name in rest if not isinstance(statement, ast.Return)}
            lines |= dict.fromkeys(targets, statement.lineno)
    return lost


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_value_is_lost(folder: str) -> None:
    """In no module of the project."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    lost = {
        str(path.relative_to(ROOT)): names
        for path in paths
        if (names := lost_values(path.read_text(encoding="utf-8")))
    }
    assert paths
    assert not lost


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = f()\na = []\nfor b in a: pass\n", ["a, line 1"]),
        ("def g():\n    a = 1\n    b = a\n    a = 2\n    return a + b\n", []),
        ("a = 1\nif c:\n    a = 2\n", []),
        ("a = 1\na = a + 1\n", []),
        ("for a in b: pass\na = 1\n", []),
    ],
)
def test_a_lost_value_is_found(source: str, names: list[str]) -> None:
    """A value that is read between, or in a branch alone is set again, is none."""
    assert lost_values(source) == names

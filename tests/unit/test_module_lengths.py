"""A module is one concept: above 600 lines it says why it is long."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).parents[2]
ROOTS = ("generator", "operator", "charts", "plugins", "tools", "examples", "tests")
LINES_MAX = 600
_REASON = re.compile(r"\blong(er)?\b")


def test_a_long_module_says_why() -> None:
    """In its docstring, in a sentence with the word long or longer."""
    silent = []
    for root in ROOTS:
        for path in sorted((REPO / root).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if path.is_symlink() or text.count("\n") <= LINES_MAX:
                continue
            if not _REASON.search(ast.get_docstring(ast.parse(text)) or ""):
                silent.append(path.relative_to(REPO).as_posix())
    assert [] == silent

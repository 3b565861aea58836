"""The guide names every word that a status may say by itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import allranks.status
from allranks.model.status import Phase
from allranks.status import progress

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/status.md").read_text("utf-8")


def words() -> set[str]:
    """The words that stand in the code of the causes."""
    result = set()
    for path in Path(allranks.status.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Cause":
                result |= {
                    constant.value
                    for constant in ast.walk(node.args[1])
                    if isinstance(constant, ast.Constant)
                    and isinstance(constant.value, str)
                    and constant.value
                }
    return result


def test_every_phase_is_explained() -> None:
    """A person who sees a phase finds it."""
    assert [] == [phase for phase in Phase if phase not in GUIDE]


def test_every_word_of_a_cause_is_explained() -> None:
    """A person who sees a reason finds what to do next."""
    assert len(words()) > 10
    assert [] == sorted(word for word in words() if word not in GUIDE)


def test_progress_is_shown_as_the_table_says() -> None:
    """Each form that a person may write, and what becomes of it."""
    part = GUIDE.partition("## How far the training is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)`.* \| `(.+)` \|$", part, re.MULTILINE)
    assert len(rows) == 5
    for text, cell in rows:
        form = progress.form(text)
        assert form is not None
        assert cell == form["text"]

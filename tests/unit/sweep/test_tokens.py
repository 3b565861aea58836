"""How values were written that were merged from several sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.sweep.model import Values
from allranks.sweep.values import spec as specs
from allranks.sweep.values.tokens import finder
from allranks.values.sources import Sources, read

if TYPE_CHECKING:
    from pathlib import Path

ONE = """
sweep:
  parameters:
    lr: {values: [1e-5, 0.10, 1e6]}
    decay: {values: [1e-2, 1e-3]}
  search: grid
"""
TWO = """
sweep:
  parameters:
    lr: {values: [2e-5, 0.20]}
"""


def texts(folder: Path, *sets: str) -> dict[str, list[str]]:
    """The texts of each parameter's values, of two files and flags."""
    for name, text in (("one.yaml", ONE), ("two.yaml", TWO)):
        (folder / name).write_text(text, encoding="utf-8")
    files = (str(folder / "one.yaml"), str(folder / "two.yaml"))
    layers, user = read(Sources(files, tuple(("set", text) for text in sets)))
    spec = specs.parse("s", user["sweep"], finder(layers))
    return {
        item.name: [choice.text for choice in item.space.choices]
        for item in spec.parameters
        if isinstance(item.space, Values)
    }


def test_the_last_file_that_has_a_value_says_how_it_was_written(tmp_path: Path) -> None:
    """What it does not have is as in the file before it."""
    assert {"lr": ["2e-5", "0.20"], "decay": ["1e-2", "1e-3"]} == texts(tmp_path)


def test_a_flag_wins_and_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    """A number of a flag is text to Helm where it is no whole number."""
    found = texts(tmp_path, "sweep.parameters.lr.values[0]=3e-5")
    assert {"lr": ["3e-5", "0.20"], "decay": ["1e-2", "1e-3"]} == found
    found = texts(tmp_path, "sweep.parameters.decay.values={7,0.50,08}")
    assert ["7", "0.50", "08"] == found["decay"]

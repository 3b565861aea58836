"""Modules that are files of no package, such as the programs that charts mount into pods."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

CHARTS = Path(__file__).parents[1] / "charts"


def load(file: Path, name: str = "") -> Any:
    """Run a Python file as a module, each time anew, and leave no bytecode beside it.

    Args:
        file: the file.
        name: what others import it by from now on; else it is a name that nothing imports.
    """
    spec = importlib.util.spec_from_file_location(name or f"allranks_tests_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up there
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module

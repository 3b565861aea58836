"""Put charts, schemas, presets and plugin trees into the wheel.

They live at the top of the repository, where Helm users look for them. Hatch's own force-include
drops the symlink by which a chart holds the library chart, so every file is named here, through
the link.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("charts", "schemas", "values", "plugins")


class DataHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the data folders as `allranks/_data/…` to wheels that are not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name every data file; an editable install finds them in the checkout instead."""
        if version == "editable":
            return
        root = Path(self.root)
        for folder in FOLDERS:
            for path in _files(root / folder):
                target = f"allranks/_data/{path.relative_to(root).as_posix()}"
                build_data["force_include"][str(path)] = target


def _files(folder: Path) -> list[Path]:
    """Every file below a folder, symlinked folders included, in a fixed order."""
    paths: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            paths += _files(path)
        elif not path.name.endswith((".pyc", ".tgz")):
            paths.append(path)
    return paths

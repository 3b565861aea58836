"""A copy of a chart with only the files that helm needs for checked values.

Helm reads every file of a chart at each install, and packs what it has read into its record of the
release, twice. Of ours the schema, the documentation and the test values are the larger part. A
sweep installs the same chart a thousand times, so it does so from a copy without them. Name,
version, defaults, templates and files are the chart's own: what helm tells of such a release, and
does with it, is the same.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_UNNEEDED_FILES = shutil.ignore_patterns("values.schema.json", "README.md", "ci")


def copy(chart: Path, folder: Path) -> Path:
    """Copy one of our charts; return the copy's folder.

    Args:
        chart: the chart's folder. Links in it are followed: the library comes with it.
        folder: one to make the copy in; that it has the chart's own name is all that is sure.

    Raises:
        OSError: the files cannot be read or written.
    """
    return shutil.copytree(chart, folder / chart.name, ignore=_UNNEEDED_FILES)

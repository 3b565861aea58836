"""A snapshot of a small folder, packed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.workspace import archive as archives
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.workspace.model import Archive, Snapshot


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a program."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('training')\n", encoding="utf-8")
    return folder


@pytest.fixture
def snapshot(code: Path) -> Snapshot:
    """Its snapshot."""
    return snapshots.take(code)


@pytest.fixture
def archive(snapshot: Snapshot) -> Archive:
    """The same, packed."""
    return archives.pack(snapshot)

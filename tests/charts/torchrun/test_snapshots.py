"""What each ci file renders to, word for word, so that a change of a template is seen in review."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion


class Manifests(SingleFileSnapshotExtension):
    """One YAML file per ci file."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


def _without_files(text: str) -> str:
    """The rendered text without what is copied from files/, which has tests of its own."""
    kept: list[str] = []
    skipping = False
    for line in text.splitlines():
        if skipping and (not line or line.startswith("    ")):
            continue
        skipping = line.startswith(("  entry.sh: |", "  launch.py: |"))
        kept.append("    ..." if "entry-digest: " in line else line)
    return "\n".join(kept) + "\n"


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == _without_files(ci_text)


def test_both_majors_render_the_same(
    ci_file: Path, ci_text: str, torchrun: Path, helm: Any
) -> None:
    """Helm 3 and Helm 4 print the same text; they leave other blank lines between documents."""
    assert _joined(ci_text) == _joined(helm.render(torchrun, "-f", ci_file))


def _joined(text: str) -> str:
    return re.sub(r"\n+---\n", "\n---\n", text).rstrip()

"""What stands at the head of each manifest of a workload's chart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from allranks import names

if TYPE_CHECKING:
    from pathlib import Path

# Nothing but a comment comes before: no manifest renders from values that are not good.
_CHECKS = r'(?:\{\{- /\*[^*]*\*/ -\}\}\n)?\{\{- include "%s\.checks" \. -\}\}\n'


@pytest.mark.parametrize("chart", names.WORKLOADS)
def test_each_manifest_names_its_checks(chart: str, repo: Path) -> None:
    """Its first line includes the chart's checks, as does that of the notes."""
    templates = repo / "charts" / chart / "templates"
    manifests = [*sorted(templates.glob("*.yaml")), templates / "NOTES.txt"]
    head = re.compile(_CHECKS % chart)
    assert len(manifests) > 1
    assert [] == [path.name for path in manifests if not head.match(path.read_text())]

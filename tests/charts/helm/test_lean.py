"""A chart without its schema and documentation is the same chart to whoever installs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.helm import slim_chart

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("chart", "values"),
    [("torchrun", "full"), ("mpi", "exec"), ("elastic", "full"), ("sweep", "full")],
)
def test_a_lean_copy_renders_the_same(
    chart: str, values: str, repo: Path, helm4: Any, tmp_path: Path
) -> None:
    """Byte for byte, from fewer files: the schema is not among them, nor the library's."""
    whole = repo / "charts" / chart
    copy = slim_chart.copy(whole, tmp_path)
    assert [] == [*copy.rglob("values.schema.json"), *copy.rglob("README.md")]
    words = ("template", "demo", "--skip-schema-validation", "-f")
    file = whole / "ci" / f"{values}-values.yaml"
    rendered = [helm4.run(*words, file, chart).stdout for chart in (whole, copy)]
    assert rendered[0] == rendered[1]
    assert "\nkind: " in rendered[0]

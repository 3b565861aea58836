"""values.yaml of the workloads: which keys all of them have."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from allranks import names

CHARTS = Path(__file__).parents[3] / "charts"
SHARED = "# --- shared by all workloads ---\n"


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_what_is_marked_as_shared_is_in_all_workloads(workload: str) -> None:
    """Above the second mark stand the same keys in each; below it the workload's own section."""
    text = (CHARTS / workload / "values.yaml").read_text(encoding="utf-8")
    own = f"# --- {workload} alone ---\n"
    shared = yaml.safe_load(text[text.index(SHARED) : text.index(own)])
    others = [
        yaml.safe_load((CHARTS / other / "values.yaml").read_text(encoding="utf-8"))
        for other in names.WORKLOADS
    ]
    assert {*shared} == set.intersection(*map(set, others))
    assert {workload} == {*yaml.safe_load(text[text.index(own) :])}

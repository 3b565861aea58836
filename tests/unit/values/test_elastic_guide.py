"""What docs/guides/elastic.md says of values and frameworks, held to be true."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from allranks.layout import render
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.schema.validate import find_problems
from allranks.values import check, frameworks
from allranks.values.merge import merge
from allranks.values.sources import defaults

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/elastic.md").read_text("utf-8")
RECIPES: dict[str, Any] = yaml.safe_load(
    (ROOT / "charts/elastic/frameworks.yaml").read_text("utf-8")
)


def test_the_values_of_the_guide_are_valid() -> None:
    """Every YAML block of it, as it stands: it names its chart and its image."""
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
    assert blocks
    for block in blocks:
        assert "elastic" == block["workload"]
        values = merge(defaults("elastic"), block)
        assert [] == find_problems("elastic", values, lambda _: "", lambda *_: "")
        assert [] == check.check(values, lambda _: "")


def test_the_table_of_frameworks_is_the_recipes() -> None:
    """Roles, who leads and when, and the variables; and the ports in their order."""
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", GUIDE, re.MULTILINE
    )
    assert list(RECIPES) == [row[0] for row in rows]
    for name, roles, leads, over, variables in rows:
        recipe = RECIPES[name]
        assert set(recipe["roles"]) == set(roles.split(", "))
        assert leads.split(",")[0].removeprefix("the ").rstrip("s") == recipe["lead"][0]
        assert ("all workers" in over) == (recipe["policy"] == "allWorkers")
        for variable in re.findall(r"`([A-Z_]+)\*?`", variables):
            assert any(key.startswith(variable) for key in frameworks.recipes()[name].env)
    ports = ", ".join(str(recipe["port"]) for recipe in RECIPES.values())
    assert f"({ports})" in GUIDE


def test_the_exit_codes_are_the_wrappers() -> None:
    """215, 216 and 143 mean in the guide what they mean in the pods."""
    source = (ROOT / "charts/elastic/files/follow.py").read_text("utf-8")
    assert "EXIT_LEAD_LOST = 215" in source
    assert "EXIT_TRAINING_LOST = 216" in source
    for text in (
        "ends with 215",
        "end with 216",
        "ends with 143",
        "SIGTERM, and SIGKILL a little before",
    ):
        assert text in GUIDE
    assert "ALLRANKS_GRACE_SECONDS" in source
    assert "PATIENCE_SECONDS = 30.0" in source


def test_the_plan_of_the_guide_is_the_starters() -> None:
    """The table of roles is what `allranks plan` shows for `allranks init elastic`."""
    starter = files("allranks.cli").joinpath("starters", "elastic.yaml").read_text("utf-8")
    values = merge(defaults("elastic"), yaml.safe_load(starter))
    rows = render.role_rows(compute(JobSpec.from_values(values, frameworks.fewest(values))))
    lines = re.findall(r"^(?:worker|chief|ps|all) +[0-9].*$", GUIDE, re.MULTILINE)
    assert [line.split() for line in lines] == [
        [str(cell) for cell in row.values() if cell != ""] for row in rows
    ]

"""An elastic job by the command line: its starter, and what it renders."""

from __future__ import annotations

import json
from typing import Any

from allranks.yamlio.load import load_all


def test_the_starter_is_right(cli: Any) -> None:
    """What `init` prints passes every check, renders, and says how big it is."""
    cli.write(cli("init", "elastic").stdout)
    assert "4 nodes x 1 nvidia.com/gpu, 4 processes" in cli("validate", "-f", "values.yaml").stdout
    manifests = load_all(cli("render", "demo", "-f", "values.yaml").stdout)
    jobs = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Job"}
    assert {"demo-chief", "demo-ps", "demo-worker"} == jobs


def test_a_plan_counts_every_role(cli: Any) -> None:
    """The table, the JSON and the line of `validate` know the pods beside the workers."""
    cli.write(cli("init", "elastic").stdout)
    table = cli("plan", "-f", "values.yaml").stdout
    assert ["all", "7", "4", "37", "274Gi"] in [line.split() for line in table.splitlines()]
    planned = json.loads(cli("plan", "-f", "values.yaml", "-o", "json").stdout)
    checked = json.loads(cli("validate", "-f", "values.yaml", "-o", "json").stdout)
    for counts in (planned, checked):
        assert {"pods": 7, "gpus": 4, "cpu": "37", "memory": "274Gi"} == counts["inAll"]
        assert ["worker", "chief", "ps"] == [role["role"] for role in counts["roles"]]
    assert "4 processes, 1 chief, 2 ps:" in cli("validate", "-f", "values.yaml").stdout

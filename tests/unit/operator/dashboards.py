"""What the operator's chart gives Grafana and Prometheus, read as these would."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

_FILES = Path(__file__).parents[3] / "charts/operator/files"
_METRIC = re.compile(r"\b(?:allranks|process|python)_[a-z_]+\b")
_PARTS = ("_bucket", "_sum", "_count")  # of a histogram


def expressions() -> dict[str, str]:
    """All PromQL, by the panel's or the alert's name."""
    panels = json.loads((_FILES / "dashboard.json").read_text("utf-8"))["panels"]
    queries = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels
        for target in panel["targets"]
    }
    groups = yaml.safe_load((_FILES / "rules.yaml").read_text("utf-8"))
    alerts = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
    return {**queries, **alerts}


def unknown_metrics(scrape: str) -> set[str]:
    """The metrics of any expression that a scrape does not have."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE))
    known = set(types)
    known |= {name + part for name, kind in types.items() if kind == "histogram" for part in _PARTS}
    return {name for text in expressions().values() for name in _METRIC.findall(text)} - known

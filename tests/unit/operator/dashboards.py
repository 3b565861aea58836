"""What the operator's chart gives Grafana and Prometheus, read as these would."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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
    return {**queries, **alerts()}


def alerts() -> dict[str, str]:
    """The PromQL of each alert, by its name."""
    return {name: rule["expr"] for name, rule in alert_rules().items()}


def alert_rules() -> dict[str, dict[str, Any]]:
    """Each alert as Prometheus reads it, by its name."""
    groups = yaml.safe_load((_FILES / "rules.yaml").read_text("utf-8"))
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def missing_series(scrape: str) -> set[str]:
    """The counters whose growth an alert waits for, by label, that a scrape does not have.

    Prometheus sees no growth in a counter that appears with its first event.
    """
    series = {
        (metric, label)
        for text in alerts().values()
        for metric, label in re.findall(r"increase\((\w+)\{(\w+=\"\w+\")\}", text)
    }
    lines = scrape.splitlines()
    return {
        f"{metric}{{{label}}}"
        for metric, label in series
        if not any(line.startswith(f"{metric}{{") and label in line for line in lines)
    }


def unknown_metrics(scrape: str) -> set[str]:
    """The metrics of any expression that a scrape does not have."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE))
    scraped = set(types)
    scraped |= {
        name + part for name, kind in types.items() if kind == "histogram" for part in _PARTS
    }
    return {name for text in expressions().values() for name in _METRIC.findall(text)} - scraped

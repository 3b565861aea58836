"""Write what Grafana and Prometheus are given of the operator's metrics: charts/operator/files.

Usage: dashboards.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

FOLDER = Path(__file__).parents[2] / "charts" / "operator" / "files"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _ROW = 8, 7, 24


class Panel(NamedTuple):
    """One panel.

    Attributes:
        title: what it shows.
        description: how it is read.
        queries: PromQL by the legend of its lines.
        kind: Grafana's type of panel.
        unit: Grafana's unit.
    """

    title: str
    description: str
    queries: dict[str, str]
    kind: str = "timeseries"
    unit: str = "short"


class Rule(NamedTuple):
    """One alert.

    Attributes:
        name: its name.
        expression: PromQL that is true where something is wrong.
        lasting: for how long, before somebody is told.
        severity: critical, warning or info.
        summary: what is wrong, in one sentence.
        fix: what to do about it.
    """

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    fix: str


def _quantile(share: str, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[5m])))"


PANELS = (
    Panel(
        "Runs by phase",
        "As the replica that acts counts them.",
        {"{{phase}}": "max by (phase) (allranks_runs)"},
    ),
    Panel(
        "Runs that have failed",
        "Those that are still there; a release that is deleted is no longer counted.",
        {"failed": 'max(allranks_runs{phase="Failed"}) or vector(0)'},
        "stat",
    ),
    Panel(
        "Replicas that act",
        "One acts, the others stand by.",
        {"acting": "sum(allranks_leader)"},
        "stat",
    ),
    Panel(
        "From a change to the status that tells it",
        "Half of all changes, and 99 of 100.",
        {
            "half": _quantile("0.5", "allranks_reaction_seconds"),
            "99 %": _quantile("0.99", "allranks_reaction_seconds"),
        },
        unit="s",
    ),
    Panel(
        "Requests to the API server",
        "A second, by what was done and what became of it.",
        {"{{action}} {{result}}": "sum by (action, result) (rate(allranks_actions_total[5m]))"},
        unit="reqps",
    ),
    Panel(
        "How long requests take",
        "99 of 100, by what was done.",
        {"{{action}}": _quantile("0.99", "allranks_action_seconds", "action")},
        unit="s",
    ),
    Panel(
        "Scale plans that ended",
        "In an hour, by how.",
        {"{{result}}": "sum by (result) (increase(allranks_plans_total[1h]))"},
    ),
    Panel(
        "Runs and jobs that wait to be looked at",
        "It goes back to 0 where the operator keeps up.",
        {"{{pod}}": "max by (pod) (allranks_queue_depth)"},
    ),
    Panel(
        "Watches that began again",
        "In an hour, by kind and why.",
        {
            "{{resource}} {{reason}}": "sum by (resource, reason) "
            "(increase(allranks_watch_restarts_total[1h]))"
        },
    ),
    Panel(
        "Rights that the operator lacks",
        "Nothing is shown where it has all that it needs.",
        {"{{namespace}} {{action}}": "max by (namespace, action) (allranks_rights_missing) > 0"},
    ),
    Panel(
        "Memory",
        "Of each replica.",
        {"{{pod}}": "max by (pod) (process_resident_memory_bytes)"},
        unit="bytes",
    ),
    Panel(
        "CPU",
        "Cores that each replica uses.",
        {"{{pod}}": "max by (pod) (rate(process_cpu_seconds_total[5m]))"},
    ),
)

RULES = (
    Rule(
        "AllranksOperatorAbsent",
        "(sum(allranks_leader) or vector(0)) < 1",
        "5m",
        "critical",
        "No replica of the allranks operator acts.",
        "`allranks operator status` says why; jobs go on, and nobody tells of them.",
    ),
    Rule(
        "AllranksOperatorLacksRights",
        "max by (namespace, action) (allranks_rights_missing) > 0",
        "15m",
        "warning",
        "The operator may not {{ $labels.action }} in namespace {{ $labels.namespace }}.",
        "`allranks operator upgrade` brings its rights up to date.",
    ),
    Rule(
        "AllranksOperatorIsLate",
        f"{_quantile('0.99', 'allranks_reaction_seconds')} > 30",
        "15m",
        "warning",
        "One of a hundred changes takes more than 30 s to be told of.",
        "Look at the API server's latency, and at `concurrency` in the operator's values.",
    ),
    Rule(
        "AllranksOperatorWatchesRestart",
        "sum by (resource) (increase(allranks_watch_restarts_total[15m])) > 20",
        "15m",
        "warning",
        "The watch of {{ $labels.resource }} begins again and again.",
        "The operator's log says why; usually the API server ends it.",
    ),
    Rule(
        "AllranksOperatorIsRefused",
        # What is refused is tried again after 375 s at most, twice in each quarter of an hour; one
        # refusal, or several at once, are out of sight before the 20 minutes are over. Prometheus
        # extrapolates a count to the ends of its time, which `round` takes back.
        'round(sum by (action) (increase(allranks_actions_total{result="refused"}[15m]))) >= 2',
        "20m",
        "warning",
        "The API server has refused {{ $labels.action }} {{ $value }} times in 15 minutes, and "
        "goes on.",
        "An Event `ActionRefused` or `FailedCreate` of the object, and the operator's log, have "
        "the API server's sentence.",
    ),
    Rule(
        "AllranksPlansFailed",
        'round(sum(increase(allranks_plans_total{result="failed"}[30m]))) >= 3',
        "0m",
        "warning",
        "{{ $value }} scale plans could not be taken in half an hour; nothing of them was done.",
        "`kubectl get scaleplans -A` shows them, and their message why.",
    ),
    Rule(
        "AllranksOperatorFallsBehind",
        "max(min_over_time(allranks_queue_depth[15m])) > 0 "
        "and max(deriv(allranks_queue_depth[15m])) > 0",
        "15m",
        "warning",
        "Runs and jobs wait to be looked at, at least {{ $value }} at any time, and more and more.",
        "Look at the API server's latency, at `a look failed` in the operator's log, and at "
        "`concurrency` in its values.",
    ),
    Rule(
        "AllranksRunFailed",
        '(max(allranks_runs{phase="Failed"}) - max(allranks_runs{phase="Failed"} offset 10m)) > 0',
        "0m",
        "info",
        "Runs have failed in the last ten minutes: {{ $value }} more than before.",
        "`allranks list -A` shows them, and `allranks status NAME` why.",
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels = []
    for number, panel in enumerate(PANELS):
        row, column = divmod(number * _WIDTH, _ROW)
        panels.append(
            {
                "id": number + 1,
                "title": panel.title,
                "description": panel.description,
                "type": panel.kind,
                "datasource": _SOURCE,
                "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column, "y": row * _HEIGHT},
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {
                        "refId": chr(ord("A") + index),
                        "datasource": _SOURCE,
                        "expr": expression,
                        "legendFormat": legend,
                    }
                    for index, (legend, expression) in enumerate(panel.queries.items())
                ],
            }
        )
    source = {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    return {
        "uid": "allranks-operator",
        "title": "allranks: runs and operator",
        "tags": ["allranks"],
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def groups() -> list[dict[str, Any]]:
    """The groups of a PrometheusRule."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.lasting,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "description": rule.fix},
        }
        for rule in RULES
    ]
    return [{"name": "allranks", "rules": rules}]


def files() -> dict[str, str]:
    """The text of each file, by its name."""
    head = "# Written by `make gen-dashboards` from tools/gen/dashboards.py.\n"
    rules = yaml.safe_dump(groups(), sort_keys=False, width=1000)
    return {
        "dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        "rules.yaml": head + rules,
    }


def main() -> int:
    """Write the files; with ``--check`` only say which are stale (exit code 1)."""
    stale = 0
    for name, text in files().items():
        path = FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            stale = 1
            print(f"charts/operator/files/{name} is stale: run `make gen-dashboards`")
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())

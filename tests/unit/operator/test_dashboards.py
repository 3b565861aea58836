"""Dashboard and alerts ask for metrics, and labels of these, that the operator has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks_operator.metrics import TABLE, Metrics
from tests.unit.operator.dashboards import (
    alert_rules,
    alerts,
    expressions,
    missing_series,
    unknown_metrics,
)
from tests.unit.operator.parts import Parts

if TYPE_CHECKING:
    from allranks_operator.kube.client import Api
    from tests.unit.operator.fakes import FakeServer

# What Prometheus' own discovery adds to what it scrapes, and a histogram has.
_ADDED = {"pod", "le"}
_GUIDE = Path(__file__).parents[3] / "docs/guides/operator-process.md"
_NUMBER_AND_NOUN = re.compile(r"\$value \}\} (?:more )?\w+s\b")


def test_each_metric_of_a_panel_or_an_alert_exists_in_a_scrape() -> None:
    """Also before anything has happened: an alert on nothing would never come."""
    assert len(expressions()) > 15
    assert set() == unknown_metrics(Metrics().text().decode())
    assert {"allranks_runs"} <= unknown_metrics("# TYPE allranks_leader gauge\n")


def test_what_an_alert_counts_is_in_the_first_scrape(server: FakeServer, api: Api) -> None:
    """Refused requests and plans at 0, so that the first of them is growth; the queue as well."""
    scrape = Parts(server, api).metrics.text().decode()
    assert set() == missing_series(scrape)
    assert 'allranks_actions_total{result="refused"}' in missing_series("")
    assert {"AllranksOperatorIsRefused", "AllranksPlansFailed"} <= {*alerts()}
    assert "allranks_queue_depth 0.0\n" in scrape
    assert "allranks_queue_depth" in alerts()["AllranksOperatorFallsBehind"]


@pytest.mark.parametrize(
    ("name", "times", "minutes", "lasting", "words"),
    [
        ("AllranksOperatorIsRefused", 2, 15, 20, "for 20 minutes"),
        ("AllranksPlansFailed", 3, 30, 0, "three ScalePlans or more"),
    ],
)
def test_one_refusal_wakes_nobody(
    name: str, times: int, minutes: int, lasting: int, words: str
) -> None:
    """Whole numbers are counted; refusals at one moment are no alert, as the guide has it."""
    rule = alert_rules()[name]
    expression = rf"round\(sum.*\(increase\(.*\[{minutes}m\]\)\)\) >= {times}"
    assert re.fullmatch(expression, rule["expr"])
    assert f"{lasting}m" == rule["for"]
    row = next(line for line in _GUIDE.read_text("utf-8").splitlines() if f"| `{name}`" in line)
    assert words in row


@pytest.mark.parametrize("rule", alert_rules().values(), ids=list(alert_rules()))
def test_a_summary_holds_for_one_and_for_many(rule: dict[str, Any]) -> None:
    """A number has a noun in the plural behind it only where the alert is never of one."""
    if _NUMBER_AND_NOUN.search(rule["annotations"]["summary"].replace("scale ", "")):
        assert re.search(r">= ([2-9]|\d\d+)$", rule["expr"])


@pytest.mark.parametrize("name", expressions())
def test_each_label_is_one_of_its_metrics(name: str) -> None:
    """What a sum is by, and what is selected by; brackets are closed."""
    text = expressions()[name]
    assert text.count("(") == text.count(")")
    used_labels = {
        word.strip() for by in re.findall(r"by \(([^)]*)\)", text) for word in by.split(",")
    }
    used_labels |= set(re.findall(r"[{,](\w+)=", text))
    metrics = [metric for metric in TABLE if re.search(rf"\b{metric}(_bucket)?\b", text)]
    labels = {label for metric in metrics for label in TABLE[metric][0]}
    assert used_labels <= labels | _ADDED

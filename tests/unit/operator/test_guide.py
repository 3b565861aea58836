"""docs/guides/operator-process.md says what the code does: its metrics, its reasons, its flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allranks_operator import events, metrics, settings
from tests.unit.operator.dashboards import alerts

GUIDE = Path(__file__).parents[3] / "docs/guides/operator-process.md"


def rows(title: str) -> dict[str, list[str]]:
    """The rows of the table below a title, by the code in their first column."""
    text = GUIDE.read_text(encoding="utf-8")
    _, _, rest = text.partition(f"\n## {title}\n")
    assert rest, title
    section = rest.partition("\n## ")[0]
    table = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            table[cells[0].strip("`")] = cells[1:]
    return table


def test_every_metric_is_in_the_guide() -> None:
    """With its labels and what it says."""
    expected = {
        name: [", ".join(f"`{label}`" for label in labels), description.rstrip(".")]
        for name, (labels, description) in metrics.TABLE.items()
    }
    assert expected == rows("Metrics")


def test_every_alert_is_in_the_guide() -> None:
    """Of the chart's PrometheusRule."""
    assert set(rows("Alerts")) == set(alerts())


def test_every_reason_is_in_the_guide() -> None:
    """With what it means, and no reason beside them."""
    expected = {reason: [description] for reason, description in events.TABLE.items()}
    assert expected == rows("Events")


def test_every_flag_is_in_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    """With its variable."""
    with pytest.raises(SystemExit):
        settings.read(["--help"], {})
    help_text = re.sub(r"\s+", " ", capsys.readouterr().out)
    flags = rows("Flags")
    for flag, (variable, *_) in flags.items():
        assert flag in help_text
        assert variable == "" or variable.strip("`") in help_text
    help_flags = set(re.findall(r"--[a-z-]+", help_text)) - {"--help"}
    assert help_flags == set(flags)

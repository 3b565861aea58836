"""The table of a run's events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.cli.commands import events
from allranks.cli.main import main

if TYPE_CHECKING:
    import pytest


def test_the_newest_events_of_many_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of tens of thousands would take longer than to read them; a note counts the rest."""
    happened = [
        {"reason": f"R{number}", "lastTimestamp": f"2026-01-01T00:00:{number:02}Z"}
        for number in range(5)
    ]
    monkeypatch.setattr(events, "_ROWS", 3)
    monkeypatch.setattr(events, "_local_events", lambda *_: happened[::-1])
    assert 0 == main(["events", "demo", "--on", "local"])
    output = capsys.readouterr()
    assert ["R2", "R3", "R4"] == [word for word in output.out.split() if word[0] == "R"][1:]
    assert "2 older events are not shown; -o json has all" in output.err

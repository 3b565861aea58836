"""A terminal that is closed while a sweep ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks.cli import console

if TYPE_CHECKING:
    import pytest


def test_what_is_written_to_a_closed_terminal_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no error; what stands on it before is there."""
    ours, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with console.tolerate_hangup():
            click.echo("before")
            assert b"before\r\n" == os.read(ours, 100)
            assert sys.stdout.isatty()
            os.close(ours)
            click.echo("after")
            assert not sys.stdout.isatty()
        assert stream is sys.stdout
        click.echo("later still")


def test_a_pipe_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader may leave, which is told elsewhere."""
    with Path(os.devnull).open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with console.tolerate_hangup():
            assert stream is sys.stdout

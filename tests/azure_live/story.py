"""From nothing to data on a share and away again, whoever answers: a fake, or the cloud."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Ended(Protocol):
    """A command that has ended."""

    @property
    def code(self) -> int:
        """Its exit code."""

    @property
    def out(self) -> str:
        """Its output."""

    @property
    def err(self) -> str:
        """Its errors."""


class Call(Protocol):
    """Calls `allranks azure …` in a folder with an azure.yaml that has a share called datasets."""

    def __call__(self, *words: str) -> Ended:
        """Run it to its end."""


def story(call: Call, folder: Path) -> None:
    """Plan, make, upload twice, look, and remove; what is left over at the end is nothing.

    Args:
        call: the command line.
        folder: where it runs; a folder data is made in it.
    """
    data = folder / "data"
    (data / "train").mkdir(parents=True)
    for number in range(20):
        (data / f"train/{number}.bin").write_bytes(bytes([number]) * 1000)
    try:
        assert entries(call)
        done(call("up", "--yes"))
        assert not entries(call)
        first, again = (
            json.loads(done(call("upload", "data", "share:datasets/story", "-o", "json")))
            for _ in range(2)
        )
        assert (first["sent"], again["sent"], again["unchanged"]) == (20, 0, 20)
        assert json.loads(done(call("status", "-o", "json")))
    finally:
        done(call("down", "--yes"))
    assert entries(call)


def done(ended: Ended) -> str:
    """The output of a command that has succeeded."""
    assert ended.code == 0, f"{ended.out}\n{ended.err}"
    return ended.out


def entries(call: Call) -> list[str]:
    """The names of what a plan would make or change."""
    plan = json.loads(done(call("plan", "-o", "json")))
    return [entry["name"] for entry in plan["entries"] if entry["action"] != "exists"]

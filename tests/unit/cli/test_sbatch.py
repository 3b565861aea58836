"""`sbatch` of a job array: the sweep that is run, its name, and who runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli.commands.sweep import in_cluster, run, sweep_target
from allranks.cli.commands.sweep.sweep_target import SweepTarget
from allranks.cli.main import main
from allranks.sweep.storage import catalog

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class _Store:
    """A journal that may be there."""

    is_there: bool

    def exists(self) -> bool:
        """Whether it is there."""
        return self.is_there


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is run, in a cluster where a sweep `pair` is there."""
    calls: list[dict[str, Any]] = []

    def run_sweep(_: object, name: str, sources: Any, *__: object, **options: Any) -> int:
        calls.append({"name": name, "options": sources.options, **options})
        return 0

    def store_of(name: str, *_: object) -> _Store:
        return _Store(name == "pair")

    monkeypatch.setattr(run, "run_sweep", run_sweep)
    monkeypatch.setattr(sweep_target, "from_flags", lambda *_: SweepTarget("cluster", "team"))
    monkeypatch.setattr(catalog, "begin", store_of)
    monkeypatch.setattr(in_cluster, "backend_of", store_of)
    return calls


@pytest.mark.parametrize(
    ("options", "name", "is_inside"),
    [
        ((), "pair-2", False),
        (("--detach",), "pair-2", True),
        (("--replace",), "pair", False),
    ],
)
def test_an_array_is_run_as_a_sweep_of_a_free_name(
    options: tuple[str, ...],
    name: str,
    is_inside: bool,
    runs: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    """A pod runs it where nobody stays who could."""
    words = ("--workspace", str(tmp_path), "-J", "pair", "-a", "1-2", "--wrap", "python a.py")
    assert 0 == main(["sbatch", *options, *words])
    (call,) = runs
    assert (name, is_inside) == (call["name"], call["in_cluster"])
    assert (name == "pair", bool(options == ("--detach",))) == (
        call["replace_"],
        call["flags"]["detach"],
    )


def test_a_long_name_leaves_room_for_a_number(
    runs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial's own name is longer than that of its sweep."""
    names_there: list[str] = []

    def store_of(name: str, *_: object) -> _Store:
        names_there.append(name)
        return _Store(len(names_there) == 1)

    monkeypatch.setattr(catalog, "begin", store_of)
    words = ("--workspace", str(tmp_path), "-J", "a" * 80, "-a", "1-2", "--wrap", "python a.py")
    assert 0 == main(["sbatch", *words])
    first, second = names_there
    assert runs[0]["name"] == second
    assert len(first) == len(second)
    assert second.endswith("-2")

"""Which way a snapshot goes, and what the values and a dry run say of it."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console as Rich

from allranks.cli import workspace as view
from allranks.errors import InputError
from allranks.schema import validate
from allranks.service import workspace as service
from allranks.workspace import archive as archives
from allranks.workspace import choice, objects, ways
from allranks.workspace.model import Archive, SnapshotDestination

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.workspace.model import Snapshot

ONE_PART, MOST = archives.PART_BYTES, archives.PART_BYTES * archives.PARTS_MAX
DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("size", "settings", "via", "parts"),
    [
        (ONE_PART, {}, "configMap", 1),
        (ONE_PART + 1, {}, "configMap", 2),
        (MOST, {"registry": "r/c", "claim": "c"}, "configMap", 8),
        (MOST + 1, {"registry": "r/c", "claim": "c"}, "image", 0),
        (MOST + 1, {"registry": "r/c"}, "image", 0),
        (MOST + 1, {"claim": "c"}, "pvc", 0),
        (1, {"via": "image", "registry": "r/c"}, "image", 0),
        (1, {"via": "pvc", "claim": "c", "registry": "r/c"}, "pvc", 0),
        (MOST, {"via": "configMap", "registry": "r/c"}, "configMap", 8),
    ],
)
def test_the_smallest_way_that_holds_it_is_taken(
    size: int, settings: dict[str, str], via: str, parts: int
) -> None:
    """ConfigMaps, else the registry, else the claim; `workspace.via` says otherwise."""
    archive = Archive(bytes(size), "xz", DIGEST)
    way = choice.choose(archive, **{"via": "", "registry": "", **settings})
    assert (via, parts) == (way.via, way.parts)
    place = {"image": settings.get("registry"), "pvc": settings.get("claim")}.get(via, "")
    assert place == way.place


@pytest.mark.parametrize(
    ("size", "settings", "words"),
    [
        (MOST + 1, {}, "8 ConfigMaps hold at most"),
        (MOST + 1, {"via": "configMap", "registry": "r/c", "claim": "c"}, "hold at most"),
        (1, {"via": "image"}, "image needs a registry"),
        (1, {"via": "pvc"}, "pvc needs a claim"),
        (1, {"via": "pigeon"}, "pigeon is no way"),
    ],
)
def test_a_way_that_is_not_there_is_refused(
    size: int, settings: dict[str, str], words: str, snapshot: Snapshot
) -> None:
    """With the largest files, where it is the size."""
    archive = Archive(bytes(size), "xz", DIGEST)
    with pytest.raises(InputError, match=words) as caught:
        choice.choose(archive, snapshot=snapshot, **{"via": "", "registry": "", **settings})
    assert ("train.py" in caught.value.problem.message) == (size > MOST)


@pytest.mark.parametrize("via", list(ways.WAYS))
def test_the_values_of_each_way_are_what_the_schema_wants(
    snapshot: Snapshot, archive: Archive, via: Any
) -> None:
    """What the command line writes passes the checks of the charts."""
    destination = SnapshotDestination("registry.example.com/team/code", "code")
    values = ways.transport_of(via, snapshot, archive, destination).values()
    assert {"local": "configMap"}.get(via, via) == values["via"]  # charts know no other
    problems = validate.validate("torchrun", {"workspace": {"snapshot": values}}, lambda _: "")
    assert [] == [problem for problem in problems if problem.path.startswith("workspace.snapshot")]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"via": "image", "registry": "registry.example.com/team/code"},
            "to        registry.example.com/team/code: it would be pushed there",
        ),
        ({"via": "pvc", "claim": "code"}, "to        code: it would be written there"),
    ],
)
def test_a_dry_run_says_where_it_would_go(code: Path, settings: dict[str, str], line: str) -> None:
    """And sends nothing; on this machine it goes nowhere else."""
    packed = service.pack(str(code), (), {"workspace": settings})
    text = io.StringIO()
    view.show(_Console(text), packed)  # type: ignore[arg-type]
    assert line in text.getvalue()
    assert [] == packed.transport.manifests("lab")
    here = service.pack(str(code), (), {"workspace": settings}, is_local=True)
    assert "local" == here.report.way.via
    assert here.sentence.endswith("packed, as a copy in the run's folder")


@pytest.mark.parametrize("settings", [{}, {"via": "image"}, {"via": "configMap"}])
def test_only_the_disk_bounds_what_goes_to_this_machine(
    code: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many pieces as ConfigMaps could be, which the charts know, and larger ones."""
    monkeypatch.setattr(archives, "PART_BYTES", 1000)
    (code / "data.bin").write_bytes(random.Random(7).randbytes(10_000))  # noqa: S311 - data
    packed = service.pack(str(code), (), {"workspace": settings}, is_local=True)
    values, parts = packed.transport.values(), packed.transport.manifests("default")
    assert values["configMaps"] == [part["metadata"]["name"] for part in parts]
    archive, _ = objects.read(parts)
    assert archives.PARTS_MAX == len(parts)
    assert values["archiveDigest"] == archive.digest
    problems = validate.validate("torchrun", {"workspace": {"snapshot": values}}, lambda _: "")
    assert [] == [problem for problem in problems if problem.path.startswith("workspace.snapshot")]


class _Console:
    """Prints without colours and without wrapping."""

    def __init__(self, stream: io.StringIO) -> None:
        self._rich = Rich(file=stream, width=200)

    def text(self, line: str) -> None:
        """Print a line."""
        self._rich.print(line, markup=False)

    def table(self, *_: Any, **__: Any) -> None:
        """Print nothing."""

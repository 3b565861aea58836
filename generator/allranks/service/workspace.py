"""A workspace on its way: the snapshot of a folder, packed, and how it is sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.humanize import plural
from allranks.workspace import archive as archives
from allranks.workspace import choice, ways
from allranks.workspace import report as reports
from allranks.workspace import snapshot as snapshots
from allranks.workspace.model import SnapshotDestination

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.service.prepare import PreparedJob
    from allranks.workspace.choice import Way
    from allranks.workspace.model import Archive, Snapshot
    from allranks.workspace.report import SnapshotReport
    from allranks.workspace.ways import SnapshotTransport


@dataclass(frozen=True, slots=True)
class PackedWorkspace:
    """The snapshot of a folder, ready to be sent.

    Attributes:
        snapshot: what goes.
        report: the same in numbers, and how it goes.
        transport: what sends it.
    """

    snapshot: Snapshot
    report: SnapshotReport
    transport: SnapshotTransport

    @property
    def sentence(self) -> str:
        """A line on what is sent and how."""
        report = self.report
        parts = f"{report.way.parts} ConfigMaps" if report.way.parts > 1 else "a ConfigMap"
        how = {
            "configMap": f"as {parts} {report.name}",
            "image": f"as an image in {report.way.place}",
            "pvc": f"on claim {report.way.place}",
            "local": "as a copy in the run's folder",
        }[report.way.via]
        return f"code: {plural(report.files, 'file')}, {size(report.packed)} packed, {how}"

    def into(self, prepared: PreparedJob) -> PreparedJob:
        """The job with this workspace."""
        return replace(prepared, snapshot=self.transport.values())

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready data."""
        return camel(asdict(self.report))


def pack(
    folder: str, include: Sequence[str], values: Mapping[str, Any], *, is_local: bool = False
) -> PackedWorkspace:
    """Take the snapshot of a folder, and choose the way that it goes.

    Args:
        folder: the workspace.
        include: paths that go whatever rule keeps them out.
        values: the values of the job, with its chart's defaults.
        is_local: it is for a run on this machine, which needs neither a registry nor a claim.

    Raises:
        InputError: the folder cannot be sent as it is, or not by the way that the values ask for.
    """
    if is_local:
        snapshot = snapshots.take(Path(folder), include=include)
        archive = archives.pack_fast(snapshot)
        return _packed(snapshot, archive, choice.here(archive), SnapshotDestination())
    settings = values.get("workspace") or {}
    via = str(settings.get("via") or "")
    destination = SnapshotDestination(
        str(settings.get("registry") or ""), str(settings.get("claim") or ""), values
    )
    registry, claim = destination.registry, destination.claim
    choice.check(via, registry, claim)
    snapshot = snapshots.take(Path(folder), include=include)
    try:
        archive = archives.pack(snapshot, choice.most_bytes(via, registry, claim))
    except archives.TooLargeError as error:
        words = f"has more than {error.size:,} bytes when packed"
        raise choice.too_large(words, via, snapshot) from error
    way = choice.choose(archive, via=via, registry=registry, claim=claim, snapshot=snapshot)
    return _packed(snapshot, archive, way, destination)


def _packed(
    snapshot: Snapshot, archive: Archive, way: Way, destination: SnapshotDestination
) -> PackedWorkspace:
    report = reports.report(snapshot, archive, way=way)
    return PackedWorkspace(
        snapshot, report, ways.transport_of(way.via, snapshot, archive, destination)
    )


def camel(data: dict[str, Any]) -> dict[str, Any]:
    """Data with its keys as JSON has them: `largestFiles`."""
    return {
        head + "".join(map(str.capitalize, rest)): value
        for key, value in data.items()
        for head, *rest in [key.split("_")]
    }


_KIB = 1024
_UNITS = ("bytes", "KiB", "MiB", "GiB")


def size(count: int) -> str:
    """A number of bytes for a person: ``131 KiB``."""
    number, unit = float(count), 0
    while number >= _KIB and unit < len(_UNITS) - 1:
        number, unit = number / _KIB, unit + 1
    text = f"{number:.0f}" if number >= 10 or not unit else f"{number:.1f}"  # noqa: PLR2004 - two digits
    return f"{text} {_UNITS[unit]}"

"""The charts as helm checks and ships them."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

from tests.charts.shared.rendered import joined

if TYPE_CHECKING:
    from pathlib import Path

_COMMANDS = ("get pods", "logs -f", "--on local", "describe pods", "uninstall demo")
_NAMED = ("Job", "StatefulSet", "ElasticJob", "Service", "PersistentVolumeClaim")


def check_lint(helm: Any, chart: Path, values: Path) -> None:
    """`helm lint --strict` has nothing to say."""
    output = helm.run("lint", "--strict", chart, "-f", values).stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in output
    assert "[WARNING]" not in output


def check_package(helm: Any, chart: Path, values: Path, folder: Path) -> None:
    """A packaged chart has the library inside, renders the same, and leaves out what CI needs."""
    helm.run("package", chart, "-d", folder)
    (archive,) = folder.glob("*.tgz")
    assert joined(helm.render(chart, "-f", values)) == joined(helm.render(archive, "-f", values))
    with tarfile.open(archive) as shipped:
        names = shipped.getnames()
    assert not [name for name in names if "/ci/" in name or "__pycache__" in name]
    for path in sorted((*chart.glob("files/*"), *chart.glob("crds/*"))):
        if path.is_file():  # and no folder of Python's cache
            assert f"{chart.name}/{path.parent.name}/{path.name}" in names
    assert f"{chart.name}/charts/allranks-library/files/entry.sh" in names


def check_link(chart: Path) -> None:
    """The library inside the chart is the one beside it, so it is never stale."""
    link = chart / "charts/allranks-library"
    assert link.is_symlink()
    assert chart.parent / "library" == link.resolve()


def check_notes(helm4: Any, chart: Path, values: Path, manifests: dict[str, Any]) -> None:
    """NOTES name each object, how to follow the job and how to end it, and show no value of env.

    Only Helm 4 shows them without a cluster; Helm 3 renders them too, with every other template.
    """
    output = helm4.run("install", "demo", chart, "-f", values, "--dry-run=client").stdout
    notes = output.partition("NOTES:")[2]
    for name, manifest in manifests.items():
        if manifest["kind"] in _NAMED:
            assert manifest["metadata"]["name"] in notes, name
    for command in _COMMANDS:
        assert command in notes
    assert "NCCL_DEBUG=INFO" not in notes
    assert "PRIVATE KEY" not in notes

"""The chart as helm checks and ships it."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

import yaml

import allranks

if TYPE_CHECKING:
    from pathlib import Path


def test_lint_passes(ci_file: Path, torchrun: Path, helm: Any) -> None:
    """`helm lint --strict` has nothing to say about any ci file."""
    said = helm.run("lint", "--strict", torchrun, "-f", ci_file).stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_package_renders_the_same(torchrun: Path, helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library inside and renders what the folder renders."""
    helm.run("package", torchrun, "-d", tmp_path)
    (archive,) = tmp_path.glob("*.tgz")
    values = torchrun / "ci/static-values.yaml"
    assert helm.render(torchrun, "-f", values) == helm.render(archive, "-f", values)


def test_package_leaves_the_ci_files_out(torchrun: Path, helm: Any, tmp_path: Path) -> None:
    """What only CI needs is not shipped."""
    helm.run("package", torchrun, "-d", tmp_path)
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as shipped:
        names = shipped.getnames()
    assert not [name for name in names if "/ci/" in name]
    assert "torchrun/files/entry.sh" in names
    assert "torchrun/charts/allranks-library/files/entry.sh" in names


def test_versions_agree(repo: Path) -> None:
    """The charts, the library and the Python package are released together."""
    about = {
        name: yaml.safe_load((repo / f"charts/{name}/Chart.yaml").read_text())
        for name in ("library", "torchrun")
    }
    versions = {chart["version"] for chart in about.values()}
    versions |= {each["version"] for each in about["torchrun"]["dependencies"]}
    versions.add(about["torchrun"]["appVersion"])
    assert {allranks.__version__} == versions


def test_library_is_a_link(torchrun: Path, repo: Path) -> None:
    """The library inside the chart is the one beside it, so it is never stale."""
    link = torchrun / "charts/allranks-library"
    assert link.is_symlink()
    assert repo / "charts/library" == link.resolve()


def test_notes_say_what_to_do(
    ci_file: Path, ci: dict[str, Any], torchrun: Path, helm4: Any
) -> None:
    """NOTES name each object, how to follow the job and how to end it, and show no value of env.

    Only Helm 4 shows them without a cluster; Helm 3 renders them too, with every other template.
    """
    said = helm4.run("install", "demo", torchrun, "-f", ci_file, "--dry-run=client").stdout
    notes = said.partition("NOTES:")[2]
    for name, manifest in ci.items():
        if manifest["kind"] in ("Job", "StatefulSet", "Service", "PersistentVolumeClaim"):
            assert manifest["metadata"]["name"] in notes, name
    for command in ("get pods", "logs -f", "--on local", "describe pods", "uninstall demo"):
        assert command in notes
    assert "NCCL_DEBUG=INFO" not in notes

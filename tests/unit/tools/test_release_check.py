"""What has to hold before a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.modules import load

REPO = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def release() -> Any:
    """The script, as a module."""
    return load(REPO / "tools/release_check.py")


def test_package_charts_and_plugins_say_one_version(release: Any) -> None:
    """The checkout that these tests run in."""
    places = dict(release.versions(REPO))
    assert {"charts/torchrun/Chart.yaml: allranks-library", "plugins/helm3/sweep/plugin.yaml"} <= {
        *places
    }
    assert release.one_version(REPO) in places.values()


def test_a_place_with_another_version_is_named(release: Any, tmp_path: Path) -> None:
    """With both versions."""
    package = tmp_path / "generator/allranks/__init__.py"
    chart = tmp_path / "charts/mpi/Chart.yaml"
    for path, text in (
        (package, '__version__ = "1.2.3"\n'),
        (chart, "version: 1.2.2\nappVersion: 1.2.3\n"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    with pytest.raises(release.NotReadyError) as error:
        release.one_version(tmp_path)
    assert (
        "generator/allranks/__init__.py says 1.2.3, and charts/mpi/Chart.yaml: version says 1.2.2"
        == str(error.value)
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n- A.\n", ""),
        ("## [Unreleased]\n\n- A.\n", "no section"),
        ("## [1.2.3]\n\n- A.\n", "no section"),
        ("## [Unreleased]\n\n- B.\n\n## [1.2.3] - 2026-01-02\n\n- A.\n", "is not empty"),
    ],
)
def test_the_changelog_tells_the_version(release: Any, text: str, problem: str) -> None:
    """With its date, and with nothing left that waits for a version."""
    if not problem:
        release.changelog(text, "1.2.3")
        return
    with pytest.raises(release.NotReadyError, match=problem):
        release.changelog(text, "1.2.3")

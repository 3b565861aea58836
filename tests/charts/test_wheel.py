"""The wheel carries all that the command line needs: charts, schemas, presets and plugins."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout and unpacked as pip would."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True, timeout=100)
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_wheel_renders_a_job_without_the_checkout(
    unpacked: Path, tmp_path: Path, helm4: Any
) -> None:
    """What is installed from the wheel renders the same bytes as the checkout does."""
    values = REPO / "examples/torchrun-digits/values.yaml"
    run = "from allranks.cli.main import main; main()"
    words = ["render", "digits", "-f", values, "--helm", helm4.path, "-o", "-"]

    def render(path: Path) -> str:
        # -I ignores the editable install's path; the wheel's folder is put first by hand.
        code = f"import sys; sys.path.insert(0, {str(path)!r}); {run}"
        command = [sys.executable, "-c", code, *words]
        env = {**os.environ, "PYTHONPATH": str(path)}
        process = subprocess.run(
            command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True, timeout=60
        )
        return process.stdout

    rendered = render(unpacked)
    assert "kind: Job" in rendered
    assert render(REPO / "generator") == rendered


def test_wheel_holds_every_data_file(unpacked: Path) -> None:
    """No chart, schema, preset or plugin file of the checkout is missing from the wheel."""
    for kind in ("charts", "schemas", "values", "plugins"):
        process = subprocess.run(
            ["git", "ls-files", kind], cwd=REPO, check=True, capture_output=True, text=True
        )
        data_files = {name for name in process.stdout.split() if not (REPO / name).is_symlink()}
        packed = unpacked / "allranks/_data"
        missing = {name for name in data_files if not (packed / name).is_file()}
        assert set() == missing
    assert (packed / "charts/torchrun/charts/allranks-library/Chart.yaml").is_file()

"""The wheel: it carries charts, schemas, presets and plugins, and pip makes programs of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from allranks import __version__, names

REPO = Path(__file__).parents[2]
INTERRUPTS = 200
SPAN = 0.15  # seconds of a start that they are spread over
# Until start.py has its handler Python's own answers, and these two files of ours are loaded then.
BEFORE_THE_HANDLER = {"__init__.py", "start.py"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True, timeout=100)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    """The wheel, unpacked as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.fixture(scope="module")
def installed(wheel: Path) -> tuple[Path, Path]:
    """The wheel, installed by pip in a folder with a blank: its programs, and its packages."""
    prefix = wheel.parent / "a prefix"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--no-index", "--prefix", prefix, "--ignore-installed", wheel]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    names_of = {"base": str(prefix), "platbase": str(prefix)}
    scripts, packages = (
        Path(sysconfig.get_path(key, "posix_prefix", names_of)) for key in ("scripts", "purelib")
    )
    return scripts, packages


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


def test_ctrl_c_at_any_moment_of_the_start(installed: tuple[Path, Path]) -> None:
    """Python's own start may answer it with a traceback; from our first line on none is shown.

    The program ends by SIGINT or with 130, unless it had ended before. Python ends with 1 where it
    could not load its own `site`, and goes on where it ignores an exception.
    """
    scripts, packages = installed
    env = {**os.environ, "PYTHONPATH": str(packages)}

    def interrupt(number: int) -> tuple[int, str, str]:
        command = [scripts / names.CLI, "--version"]
        with subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SPAN * number / INTERRUPTS)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    with ThreadPoolExecutor(2) as threads:
        ends = list(threads.map(interrupt, range(INTERRUPTS)))
    assert set() == {code for code, _, _ in ends} - {0, 1, 130, -signal.SIGINT}
    assert {f"allranks {__version__}\n"} >= {out for code, out, _ in ends if code == 0}
    # Click closes the terminal's line with `^C` before it passes the interrupt on.
    assert {"", "\n"} >= {err for code, _, err in ends if code == 130}
    errors = "".join(err for _, _, err in ends)
    ours = set(re.findall(rf'File "{re.escape(str(packages))}/([^"]+)"', errors))
    assert set() == {Path(file).name for file in ours} - BEFORE_THE_HANDLER
    assert "this is a bug" not in errors


def test_python_dash_m(installed: tuple[Path, Path], tmp_path: Path) -> None:
    """`python -m allranks` is the program that pip puts beside Python."""
    scripts, packages = installed
    env = {**os.environ, "PYTHONPATH": str(packages)}
    expected, actual = (
        subprocess.run(
            [*command, "validate", "--set", "nodes=0"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            check=False,
        )
        for command in ([scripts / names.CLI], [sys.executable, "-m", "allranks"])
    )
    assert 2 == actual.returncode
    assert (expected.returncode, expected.stdout, expected.stderr) == (
        actual.returncode,
        actual.stdout,
        actual.stderr,
    )

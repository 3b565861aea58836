"""What `submit --on local` sends to processes of this machine: a copy, and nothing but that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a shell program that waits for a file, and then runs another file."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "main.sh").write_text(
        'touch "$MARKS/started"\nwhile [ ! -e "$MARKS/go" ]; do sleep 0.1; done\nsh ./step.sh\n',
        encoding="utf-8",
    )
    (folder / "step.sh").write_text("echo first\n", encoding="utf-8")
    return folder


@pytest.fixture
def running(code: Path, tmp_path: Path, helm4: Any) -> Iterator[subprocess.Popen[str]]:
    """A run of that folder."""
    program = Path(sys.executable).parent / names.CLI
    env = {**os.environ, names.ENV_STATE: str(tmp_path), names.ENV_HELM: str(helm4.path)}
    words = ("submit", "demo", "--on", "local", "--nodes", "1", "--workspace", code)
    command = ("--env", f"MARKS={tmp_path}", "--", "sh", "main.sh")
    with subprocess.Popen(
        [program, *words, *command],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_an_edit_during_training_changes_nothing(
    running: subprocess.Popen[str], code: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    """Pods run what was sent; what was edited meanwhile is the next run's."""
    until((tmp_path / "started").exists, "the start of the program")
    (code / "step.sh").write_text("echo second\n", encoding="utf-8")
    (tmp_path / "go").touch()
    out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, err
    assert "first" in out
    assert "second" not in out
    command_line("show", "demo", "--on", "local", "--code", tmp_path / "ran")
    assert "echo first\n" == (tmp_path / "ran/step.sh").read_text(encoding="utf-8")


def test_a_name_is_found_and_the_next_run_has_its_own(
    command_line: CommandLine, code: Path, tmp_path: Path
) -> None:
    """The same folder and command have the same name; while it is taken, a number follows."""
    (tmp_path / "go").touch()
    words = ("submit", "--on", "local", "--nodes", "1", "--workspace", code)
    command = ("--env", f"MARKS={tmp_path}", "--", "sh", "main.sh")
    for _ in range(2):
        command_line(*words, *command)
    runs = json.loads(command_line("list", "--on", "local", "-o", "json").stdout)
    first, second = sorted(run["name"] for run in runs)
    assert first.startswith("code-")
    assert f"{first}-2" == second

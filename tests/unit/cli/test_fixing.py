"""`validate --fix` where files cannot be written as one."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from allranks.cli import main
from allranks.errors import InputError

_PROGRAM = "import sys; from allranks.start import cli; sys.exit(cli())"
GOOD = 'workload: torchrun\nimage: {repository: a/b, tag: "1"}\ncommand: [x]\nnodes: 2\n'


def test_what_could_not_be_written_at_all_is_data_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No file of two is written where one cannot be: the fixes are there, and none is written."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(f"{GOOD}env: {{A: 1}}\n")

    def refuse(_: Any) -> None:
        raise InputError("the folder is read-only", source="a.yaml")

    monkeypatch.setattr("allranks.cli.files.rewrite", refuse)
    assert 2 == main.main(["validate", "-f", "a.yaml", "--fix", "--yes", "-o", "json"])
    data = json.loads(capfd.readouterr().out)
    assert ("the folder is read-only", False) == (data["problems"][0]["message"], data["written"])
    assert ["env.A"] == [item["path"] for item in data["fixes"]]
    assert [False] == [item["written"] for item in data["files"]]


def test_a_written_file_is_told_where_the_output_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is lost with the output, so that standard error has it."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(f"{GOOD}env: {{A: 1}}\n")
    program = [sys.executable, "-c", _PROGRAM, "validate", "-f", "a.yaml", "--fix", "--yes"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [*program, "-o", "json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert 1 == process.returncode
    assert "note: wrote 1 fix to a.yaml\n" in process.stderr
    assert 'env: {A: "1"}' in Path("a.yaml").read_text()


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_was_written_and_what_not_is_shown(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second file cannot take its place any more: both are named, with exit code 1."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(f"{GOOD}env: {{A: 1}}\n")
    Path("b.yaml").write_text("env: {B: 2}\n")
    replace = Path.replace

    def refuse(partial: Path, target: Any) -> Any:
        if str(target).endswith("b.yaml"):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        return replace(partial, target)

    monkeypatch.setattr(Path, "replace", refuse)
    words = ["validate", "-f", "./a.yaml", "-f", "b.yaml", "--fix", "--yes", "-o", form]
    assert 1 == main.main(words)
    output = capfd.readouterr()
    message = "cannot be written: Operation not permitted. Written: a.yaml. Not written: b.yaml"
    if form == "json":
        data = json.loads(output.out)
        assert {"./a.yaml": True, "b.yaml": False} == {
            item["file"]: item["written"] for item in data["files"]
        }
        assert (1, False) == (data["exitCode"], data["written"])
        assert message == data["problems"][0]["message"]
    else:
        assert f"error: b.yaml: {message}\n" in output.err
        assert "run the same command again for the rest" in output.err
    assert 'env: {A: "1"}\n' in Path("a.yaml").read_text()
    assert "env: {B: 2}\n" == Path("b.yaml").read_text()

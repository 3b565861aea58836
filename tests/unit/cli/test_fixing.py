"""`validate --fix` where files cannot be written as one."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from allranks.cli import main

GOOD = 'workload: torchrun\nimage: {repository: a/b, tag: "1"}\ncommand: [x]\nnodes: 2\n'


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

"""Paths of a script in a folder of which it is known what is sent."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.service import convert
from allranks.workspace.contents import Contents

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion

_SENT = Contents(
    frozenset({"src", "src/data", "src/data/a.csv", "logs", "data"}),
    {
        "inputs": ".gitignore:3 inputs/",
        "m/best.bin": ".gitignore:4 *.bin",
        ".venv": "default .venv/",
    },
)


def _convert(*rows: str, contents: Contents | None = _SENT) -> Conversion:
    script = "\n".join(["#!/bin/bash", "#SBATCH -n 1", *rows, ""])
    return job.convert(script.encode(), "job", contents=contents)


def _ignored(conversion: Conversion) -> list[tuple[str, str]]:
    return [
        (verdict.path, verdict.why.split(" keeps it out")[0])
        for verdict in conversion.verdicts
        if "keeps it out of what is sent" in verdict.why
    ]


@pytest.mark.parametrize(
    ("row", "path", "rule"),
    [
        ("python a.py inputs/x", "inputs/x", ".gitignore:3 inputs/"),
        ("python a.py --from=./inputs/", "inputs", ".gitignore:3 inputs/"),
        ("export WHERE=inputs; python a.py", "inputs", ".gitignore:3 inputs/"),
        ("cd src; python a.py ../inputs/x", "inputs/x", ".gitignore:3 inputs/"),
        ("P=m; python a.py --model $P/best.bin", "m/best.bin", ".gitignore:4 *.bin"),
        ("bash -c 'python a.py inputs/x'", "inputs/x", ".gitignore:3 inputs/"),
    ],
)
def test_the_rule_that_keeps_a_path_out_is_said(row: str, path: str, rule: str) -> None:
    """Whatever the path and its option are called."""
    assert _ignored(_convert(row)) == [(path, rule)]


@pytest.mark.parametrize(
    "row",
    [
        "python a.py --output-dir inputs/x",
        "python train.py; python a.py inputs/x",
        "mkdir -p inputs; python a.py inputs/x",
        "rm -rf inputs; python a.py",
        "python a.py .venv/x",
        "python a.py other/x",
    ],
)
def test_what_a_script_writes_is_not_missed(row: str) -> None:
    """Nor what nobody keeps out, and what no person's rule does."""
    assert _ignored(_convert(row)) == []


@pytest.mark.parametrize(
    ("row", "is_guess"),
    [
        ("python a.py --data-dir src/data", False),
        ("python a.py --train-data src/data/a.csv", False),
        ("python a.py --data-dir src/data/other", True),
        ("./a > logs/a.txt", False),
        ("./a > runs/a.txt", True),
    ],
)
def test_of_what_is_sent_nobody_has_to_think(row: str, *, is_guess: bool) -> None:
    """Names speak where a path is not there, or where nobody knows what is."""

    def guesses(conversion: Conversion) -> int:
        return sum("where .gitignore does not keep it out" in v.why for v in conversion.verdicts)

    assert guesses(_convert(row)) == is_guess
    assert guesses(_convert(row, contents=None)) == 1


def test_the_note_lists_what_git_ignores() -> None:
    """A program may read it whatever its words are."""
    notes = _convert("python a.py").notes
    assert any("git ignores inputs, m/best.bin here" in note for note in notes)
    assert not any("as a rule: `allranks sbatch --dry-run`" in note for note in notes)


def test_a_script_in_the_folder_that_one_stands_in_is_sent_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One from elsewhere, or from standard input, may be of any folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "inputs", there):
        folder.mkdir(parents=True)
    for folder in (here, there):
        (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -n 1\npython a.py inputs/x\n")
    (here / ".gitignore").write_text("inputs/\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(here), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", here], env=env, check=True)
    monkeypatch.chdir(here)
    [own, other] = convert.convert(("job.sh", str(there / "job.sh"))).conversions
    assert _ignored(own) == [("inputs/x", ".gitignore:1 inputs/")]
    assert _ignored(other) == []
    submitted = convert.script("job.sh", workspace=here, include=("inputs",))
    assert _ignored(submitted) == []


def test_the_report_says_that_the_script_alone_was_read() -> None:
    """A program's own settings may name folders, logins and variables of the old cluster's."""
    notes = _convert("python a.py --config conf/a.yaml").notes
    assert sum(note.startswith("only the script was read") for note in notes) == 1


@pytest.mark.parametrize(
    ("source", "row", "is_inside"),
    [
        ("jobs/a.sh", "cd ../src", True),
        ("jobs/a.sh", "cd ..", True),
        ("jobs/a.sh", "python ../src/data/a.csv", True),
        ("jobs/a.sh", "cd ../other", False),
        ("a.sh", "cd ../src", False),
        ("/tmp/jobs/a.sh", "cd ../src", False),
    ],
)
def test_a_path_above_the_scripts_own_folder_may_be_sent(
    source: str, row: str, *, is_inside: bool
) -> None:
    """Who submits it stands there, and who converts it at the top of the project."""
    script = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython a.py\n".encode()
    conversion = job.convert(script, source, contents=_SENT)
    [why] = [own.why for own in conversion.verdicts if "folder that is sent" in own.why]
    assert ("let the script begin with `cd jobs`" in why) is is_inside
    assert ("send that above" in why) is not is_inside

"""What was found, written to where a person says; and what a shell completes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from allranks.cli import main
from tests.unit.sweep.simulation import write_ended_sweep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep s with one trial that has ended."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    write_ended_sweep()


def results(*words: str) -> int:
    """The exit code of `allranks sweep results s`."""
    return main.main(["sweep", "results", "s", *words])


def test_a_report_to_standard_output(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is all that is printed there, and no file is made."""
    assert 0 == results("--report", "-")
    out, err = capfd.readouterr()
    assert (True, "") == (out.startswith("<!DOCTYPE html>"), err)
    assert out.endswith("</html>\n")
    assert {"state"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--report", "-", "-o", "csv"], "standard output has room for one thing"),
        (["--report", "-", "--best"], "standard output has room for one thing"),
        (["--plot", "-"], "there are several pictures"),
    ],
)
def test_two_things_do_not_share_standard_output(
    capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """They are refused before anything is written."""
    assert 2 == results(*words)
    out, err = capfd.readouterr()
    assert (True, "") == (message in err, out)


def test_a_report_and_pictures_follow_links(tmp_path: Path) -> None:
    """What a link leads to gets the content, and the link stays."""
    (tmp_path / "link.html").symlink_to("real.html")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "history.png").symlink_to("../real.png")
    assert 0 == results("--report", "link.html", "--plot", "pictures")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "pictures" / "history.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flag", "start", "names"),
    [
        ("--search", "", ["grid", "random", "tpe"]),
        ("--search", "r", ["random"]),
        ("--search", "cma", ["CmaEsSampler"]),
        ("--search", "Partial", ["PartialFixedSampler"]),
        ("--metric", "", ["accuracy"]),
        ("--metric", "x", []),
    ],
)
def test_a_shell_completes_flags(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flag: str,
    start: str,
    names: list[str],
) -> None:
    """The searches, and the metrics of the sweeps that are there."""
    monkeypatch.setenv(main.COMPLETE_VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"allranks sweep run x {flag} {start}")
    monkeypatch.setenv("COMP_CWORD", "5")
    monkeypatch.setattr(sys, "argv", ["allranks"])
    with pytest.raises(SystemExit):
        main.main([])
    assert [f"plain,{name}" for name in names] == capfd.readouterr().out.split()


def test_an_empty_journal_is_not_the_usual_one(capsys: pytest.CaptureFixture[str]) -> None:
    """It was a variable of the shell that is not set: nothing is begun, read or removed."""
    for command in ("results", "delete", "resume"):
        assert 2 == main.main(["sweep", command, "s", "--journal", ""])
        assert capsys.readouterr().err.startswith("error: --journal: is empty\n  fix: say where")

"""`validate --fix` as a person or a script calls it: diff, question, exit codes, and the file."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import stat
import subprocess
import termios
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import MINIMAL, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("forked")

CTRL_C = b"\x03"
WRONG = MINIMAL + "env: {A: 1}  # one\nprocs_per_node: 4\n"
RIGHT = MINIMAL + 'env: {A: "1"}  # one\nprocsPerNode: 4\n'
GUESS = MINIMAL + "gpus: 15\n"
DIFF = """\
--- values.yaml
+++ values.yaml
@@ -2,5 +2,5 @@
 image: {repository: my/trainer, tag: "1.0"}
 command: [python, train.py]
 nodes: 2
-env: {A: 1}  # one
-procs_per_node: 4
+env: {A: "1"}  # one
+procsPerNode: 4
"""


@pytest.fixture
def wrong(cli: Any) -> Path:
    """A file with two mistakes whose fixes are certain."""
    path: Path = cli.cwd / "values.yaml"
    path.write_text(WRONG)
    return path


def test_with_yes_it_writes_and_checks(cli: Any, wrong: Path) -> None:
    """The diff and what the values give are the result; a second time there is nothing to do."""
    process = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert (0, f"{DIFF}ok  torchrun: 2 nodes, 8 processes: python train.py\n") == (
        process.returncode,
        process.stdout,
    )
    assert "note: wrote 2 fixes to values.yaml\n" == process.stderr
    assert RIGHT == wrong.read_text()
    again = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert (0, "") == (again.returncode, again.stderr)
    assert RIGHT == wrong.read_text()


@pytest.mark.parametrize("flags", [("--diff",), ("--fix", "--diff"), ("--fix",)])
def test_nothing_is_written_unasked(cli: Any, wrong: Path, flags: tuple[str, ...]) -> None:
    """Not with --diff, and not where nobody can be asked; the problems are as without it."""
    without = cli("validate", "-f", "values.yaml")
    process = cli("validate", "-f", "values.yaml", *flags)
    note = (
        "note: nothing was written to values.yaml: there is no terminal to ask at; add --yes\n"
        if "--diff" not in flags
        else ""
    )
    assert (2, DIFF, note + without.stderr) == (process.returncode, process.stdout, process.stderr)
    assert WRONG == wrong.read_text()


def answered(cli: Any, answer: bytes) -> tuple[int, str]:
    """The exit code of a call at a terminal, and what the terminal shows."""
    here, there = pty.openpty()
    command = [PROGRAM, "validate", "-f", "values.yaml", "--fix"]
    with subprocess.Popen(
        command,
        cwd=cli.cwd,
        env=cli.environment(None),
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - for Ctrl-C
    ) as process:
        os.close(there)
        try:
            output = ""
            while "[y/N]" not in output:
                output += os.read(here, 4096).decode()
            os.write(here, answer)
            while True:
                # Python does not see a signal that comes just before it waits for input: whoever
                # sees nothing happen presses again.
                if answer == CTRL_C and not select.select([here], [], [], 2)[0]:
                    os.write(here, answer)
                try:
                    output += os.read(here, 4096).decode()
                except OSError:
                    break
        finally:
            os.close(here)  # whatever is still there ends with its terminal
    return process.returncode, output


@pytest.mark.parametrize(
    ("answer", "code"), [(b"y\n", 0), (b"n\n", 2), (b"\n", 2), (CTRL_C, 130), (b"\x04", 130)]
)
def test_a_person_is_asked(cli: Any, wrong: Path, answer: bytes, code: int) -> None:
    """The diff stands above the question; anything but a yes writes nothing, and that is said."""
    returned, output = answered(cli, answer)
    assert code == returned
    question = "write 2 fixes to values.yaml? [y/N]"
    assert '+env: {A: "1"}  # one' in output.partition(question)[0]
    has_notice = "nothing was written to values.yaml\r\n" in output.partition(question)[2]
    assert has_notice is (code != 0)
    assert (RIGHT if code == 0 else WRONG) == wrong.read_text()


def test_a_guess_is_left_with_its_reason(cli: Any) -> None:
    """Unless guesses are asked for."""
    path = cli.write(GUESS, "values.yaml")
    process = cli("validate", "-f", path, "--fix", "--yes")
    assert (2, "") == (process.returncode, process.stdout)
    assert process.stderr.startswith(
        "note: gpus: not fixed: it is not certain that this was meant: --unsafe-fixes writes it\n"
        "error: gpus: 15 GPUs cannot be split equally over 2 nodes"
    )
    assert 0 == cli("validate", "-f", path, "--fix", "--yes", "--unsafe-fixes").returncode
    assert (cli.cwd / "values.yaml").read_text().endswith("gpus: 14\n")


def test_what_is_left_keeps_its_exit_code(cli: Any, wrong: Path) -> None:
    """What can be fixed is, and the rest is reported as ever."""
    wrong.write_text(WRONG + "pots: 1\n")
    process = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert 2 == process.returncode
    assert "error: pots: unknown key (values.yaml:7)" in process.stderr
    assert RIGHT + "pots: 1\n" == wrong.read_text()


@pytest.mark.parametrize(("extra", "code"), [("", 0), ("pots: 1\n", 2)])
def test_the_fixes_as_data(cli: Any, wrong: Path, extra: str, code: int) -> None:
    """What was written and what was not, beside what `validate -o json` says anyway."""
    wrong.write_text(WRONG + "gpuz: 15\n" + extra if extra else WRONG)
    for flags, is_written in ((["--fix"], False), (["--fix", "--yes"], True)):
        process = cli("validate", "-f", "values.yaml", *flags, "-o", "json")
        data = json.loads(process.stdout)
        assert (code if is_written else 2) == process.returncode == data["exitCode"]
        assert is_written is data["written"]
        assert {"env.A", "procs_per_node"} <= {item["path"] for item in data["fixes"]}
        assert {"1", "procsPerNode"} <= {
            item.get("value", item.get("key")) for item in data["fixes"]
        }
        assert all(item["source"].startswith("values.yaml:") for item in data["fixes"])
        assert '+env: {A: "1"}  # one\n' in data["files"][0]["diff"]
        assert "" == process.stderr
    assert wrong.read_text().startswith(RIGHT)


def test_standard_input_and_flags_are_no_files(cli: Any, wrong: Path) -> None:
    """They are told, and the file beside them is fixed."""
    flags = ["-f", "values.yaml", "-f", "-", "--set", "retries=3", "--fix", "--yes"]
    process = cli("validate", *flags, stdin="env: {B: 2}\n")
    assert 2 == process.returncode
    assert "note: env.B: not fixed: it comes from standard input\n" in process.stderr
    assert (
        "note: retries: not fixed: it comes from --set retries=3, and no file is changed for it\n"
    ) in process.stderr
    assert RIGHT == wrong.read_text()


def test_mode_and_link_stay(cli: Any, wrong: Path) -> None:
    """The file behind a link is written, and may be read by whom it could before."""
    real = wrong.rename(cli.cwd / "real.yaml")
    real.chmod(0o640)
    wrong.symlink_to("real.yaml")
    assert 0 == cli("validate", "-f", "values.yaml", "--fix", "--yes").returncode
    assert wrong.is_symlink()
    assert (RIGHT, 0o640) == (real.read_text(), stat.S_IMODE(real.stat().st_mode))
    assert ["real.yaml", "values.yaml"] == sorted(
        path.name for path in cli.cwd.iterdir() if "yaml" in path.name
    )


def test_a_read_only_file_is_left(cli: Any, wrong: Path) -> None:
    """Also for root, who could."""
    wrong.chmod(0o444)
    process = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert (2, "") == (process.returncode, process.stdout)
    assert "note: env.A: not fixed: values.yaml is read-only\n" in process.stderr
    assert WRONG == wrong.read_text()


@pytest.mark.parametrize("text", [WRONG + "nodes: 3\n", WRONG + "\tx: 1\n", WRONG + "a: [\n"])
def test_what_is_no_values_file_is_refused_as_ever(cli: Any, wrong: Path, text: str) -> None:
    """A key given twice, a tab, a list without its end."""
    wrong.write_text(text)
    without = cli("validate", "-f", "values.yaml")
    process = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert (2, "", without.stderr) == (process.returncode, process.stdout, process.stderr)
    assert text == wrong.read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--yes"], "--unsafe-fixes is for --fix and --diff, and --yes is for --fix alone"),
        (["--unsafe-fixes"], "--unsafe-fixes is for --fix and --diff"),
        (["--diff", "--yes"], "--diff writes nothing, and --yes is for writing"),
        (["--fix", "--diff", "--yes"], "--diff writes nothing, and --yes is for writing"),
    ],
)
def test_flags_that_mean_nothing_alone_are_refused(
    cli: Any, wrong: Path, flags: list[str], message: str
) -> None:
    """Nobody thinks that something was written."""
    process = cli("validate", "-f", "values.yaml", *flags)
    assert (2, "") == (process.returncode, process.stdout)
    assert message in process.stderr
    assert WRONG == wrong.read_text()


def test_several_files_are_written_together(cli: Any, wrong: Path) -> None:
    """Each is named, and marked as written for a script."""
    other = cli.write("env: {B: 2}\n", "b.yaml")
    flags = ["-f", "values.yaml", "-f", "b.yaml", "--fix", "--yes", "-o", "json"]
    process = cli("validate", *flags)
    assert (0, "") == (process.returncode, process.stderr)
    assert {"values.yaml": True, "b.yaml": True} == {
        item["file"]: item["written"] for item in json.loads(process.stdout)["files"]
    }
    assert (RIGHT, 'env: {B: "2"}\n') == (wrong.read_text(), other.read_text())


def test_other_names_of_a_file_are_told(cli: Any, wrong: Path) -> None:
    """A hard link goes on to name the old text; a person and a script are told before."""
    os.link(wrong, cli.cwd / "copy.yaml")
    process = cli("validate", "-f", "values.yaml", "--diff", "-o", "json")
    (data,) = json.loads(process.stdout)["files"]
    assert (1, False) == (data["otherNames"], data["written"])
    process = cli("validate", "-f", "values.yaml", "--fix", "--yes")
    assert process.stderr.startswith(
        "note: values.yaml has 1 other name (hard links); they keep the old text"
    )
    assert (RIGHT, WRONG) == (wrong.read_text(), (cli.cwd / "copy.yaml").read_text())

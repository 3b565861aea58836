"""The program: exit codes, messages wherever they must be seen, and no traceback."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from allranks import __version__

PYTHON = [sys.executable, "-I", "-m", "allranks.postrender"]
SCRIPT = [str(Path(sysconfig.get_path("scripts")) / "allranks-postrender")]
JOB = b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: t}\nspec: {template: {spec: {}}}\n"


def run(
    stdin: bytes, *arguments: str, program: list[str] = PYTHON, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the program as Helm does."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [*program, *arguments], input=stdin, capture_output=True, env={**environment, **env},
        check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("program", [PYTHON, SCRIPT])
def test_a_foreign_stream_passes_byte_for_byte(program: list[str]) -> None:
    """CRLF, a byte order mark and a missing last line break among it."""
    stream = "\ufeff---\r\na: é # c\r\n---\nb: |\n  x\n \n--- # no end".encode()
    process = run(stream, program=program)

    assert (0, stream, b"") == (process.returncode, process.stdout, process.stderr)


def test_empty_in_empty_out() -> None:
    """A chart may render nothing."""
    process = run(b"")

    assert (0, b"", b"") == (process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize(
    ("stdin", "arguments", "message"),
    [
        (b"a: 1\n\xff\xfe\n", [], "the byte 0xff is not UTF-8 (stdin:2)"),
        (JOB + b" x", ["--dialect=kueue", "--queue=q"], "(stdin:"),
        (JOB, ["--dialect=kueue"], "Kueue needs a queue"),
        (JOB, ["--dialect", "slurm"], "--dialect: 'slurm' is not one of none, kueue, kai"),
        (JOB, ["--topology-mode=close"], "--topology-mode: 'close' is not one of"),
        (JOB, ["--topology-value=r1"], "needs --topology-mode"),
        (JOB, ["--gang-min=-1"], "'-1' is not a number from 0"),
        (JOB, ["--gang-min=4.5"], "'4.5' is not a number from 0"),
        (JOB, ["--rdma-resource=rdma/hca"], "is not KEY=VALUE"),
        (JOB, ["--label==x"], "is not KEY=VALUE"),
        (JOB, ["--dialekt=none"], "unrecognized arguments: --dialekt=none"),
        (JOB, ["train.yaml"], "unrecognized arguments: train.yaml"),
        (JOB, ["--report=/no/such/folder/x"], "the file '/no/such/folder/x' cannot be written"),
    ],
)
def test_mistakes_exit_2_with_a_message(stdin: bytes, arguments: list[str], message: str) -> None:
    """On stderr, with the program's name, nothing on stdout and no traceback."""
    process = run(stdin, *arguments)

    assert 2 == process.returncode
    assert b"" == process.stdout
    assert process.stderr.startswith(b"allranks-postrender: ")
    assert message in process.stderr.decode()
    assert b"Traceback" not in process.stderr


@pytest.mark.parametrize("by", ["--report", "--report=", "environment"])
def test_a_failure_is_also_in_the_report(tmp_path: Path, by: str) -> None:
    """Helm 4 swallows stderr; the file has the same words."""
    report = tmp_path / "report"
    arguments = {"--report": ["--report", str(report)], "--report=": [f"--report={report}"]}
    env = str(report) if by == "environment" else ""
    process = run(JOB, "--dialect=kueue", *arguments.get(by, []), ALLRANKS_REPORT=env)

    assert 2 == process.returncode
    assert process.stderr.decode() == report.read_text()


def test_a_wrong_argument_is_reported_too(tmp_path: Path) -> None:
    """The file is known before the rest of the arguments is understood."""
    report = tmp_path / "report"
    process = run(JOB, "--bogus", f"--report={report}")

    assert 2 == process.returncode
    assert "--bogus" in report.read_text()


def test_success_empties_the_report(tmp_path: Path) -> None:
    """The message of an earlier run must not be taken for this one's."""
    report = tmp_path / "report"
    report.write_text("old news")
    process = run(JOB, f"--report={report}")

    assert 0 == process.returncode
    assert "" == report.read_text()


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """As with `| head -1`."""
    process = subprocess.Popen(
        PYTHON, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write(JOB * 100_000)
    process.stdin.close()
    assert process.stderr is not None
    message = process.stderr.read()
    process.stderr.close()

    assert 1 == process.wait(60)
    assert b"" == message


def test_a_full_disk_is_said() -> None:
    """A stream that was not written as a whole must not be taken for one."""
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            PYTHON, input=JOB, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )

    assert 1 == process.returncode
    assert b"the output could not be written: No space left on device" in process.stderr
    assert b"Traceback" not in process.stderr


def test_a_terminal_is_not_waited_for() -> None:
    """Typed without a pipe, it says how it is used."""
    master, slave = pty.openpty()
    try:
        process = subprocess.run(PYTHON, stdin=slave, capture_output=True, check=False, timeout=60)
    finally:
        os.close(master)
        os.close(slave)

    assert 2 == process.returncode
    assert b"nothing is piped in" in process.stderr


def test_help_and_version() -> None:
    """Both leave with 0; the help has every option's line."""
    assert __version__ in run(b"", "--version").stdout.decode()
    process = run(b"", "--help")

    assert 0 == process.returncode
    assert "--topology-tier" in process.stdout.decode()


def test_modules_of_the_callers_folder_are_not_ours(tmp_path: Path) -> None:
    """Helm runs it in the user's folder, where a yaml.py may lie."""
    (tmp_path / "yaml.py").write_text("raise SystemExit('hijacked')")
    process = subprocess.run(
        [*SCRIPT, "--dialect=kai"], input=JOB, capture_output=True, cwd=tmp_path, check=False,
        timeout=60,
    )  # fmt: skip

    assert 0 == process.returncode, process.stderr
    assert b"kai-scheduler" in process.stdout


@pytest.mark.parametrize("mode", ["pipe", "file", "append"])
def test_helm_4_is_told_through_its_own_stderr(tmp_path: Path, mode: str) -> None:
    """A parent that swallows our stderr still shows the message, wherever its stderr goes."""
    script = tmp_path / "parent.py"
    # What Helm 4 does: run us, drop our stderr, then say a sentence of its own.
    script.write_text(
        "import subprocess, sys\n"
        f"subprocess.run({[*PYTHON, '--dialect=kueue']!r}, input={JOB!r}, capture_output=True)\n"
        "sys.stderr.write('Error: plugin exited with error\\n')\n"
    )
    log = tmp_path / "log"
    env = {**os.environ, "HELM_PLUGIN_NAME": "allranks-postrender"}
    command = [sys.executable, str(script)]
    if mode == "pipe":
        output = subprocess.run(
            command, stderr=subprocess.PIPE, env=env, check=True
        ).stderr.decode()
    else:
        with log.open("ab" if mode == "append" else "wb") as file:
            subprocess.run(command, stderr=file, env=env, check=True)
        output = log.read_text()

    assert "Error: plugin exited with error\n" in output
    assert "allranks-postrender: queue: Kueue needs a queue" in output
    assert "--queue\n" in output


def test_what_is_imported_stays_within_the_budget() -> None:
    """The standard library, PyYAML and ourselves; on the short way not even PyYAML."""
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "from allranks.postrender.__main__ import main\ncode = main(sys.argv[1:])\n"
        "sys.stderr.write(' '.join(sorted(set(sys.modules) - before)))\nsys.exit(code)\n"
    )
    short = run(JOB, program=[sys.executable, "-I", "-c", code]).stderr.decode().split()
    long = run(JOB, "--dialect=volcano", program=[sys.executable, "-I", "-c", code])
    modules = long.stderr.decode().split()

    assert 0 == long.returncode
    allowed = {"yaml", "_yaml", "allranks", *sys.stdlib_module_names}
    packages = {name.partition(".")[0] for name in modules if "cython" not in name}
    assert set() == packages - allowed
    ours = {name for name in modules if name.startswith("allranks.")}
    others = {name for name in ours if not name.startswith("allranks.postrender")}
    light = {"allranks.names", "allranks.errors", "allranks.libraries", "allranks.yamlio"}
    assert set() == {name for name in others - light if not name.startswith("allranks.yamlio.")}
    assert not {"allranks.yamlio.edit", "argparse"} & set(short)
    assert not {"yaml", "dataclasses", "typing", "json", "pathlib", "inspect"} & set(short)

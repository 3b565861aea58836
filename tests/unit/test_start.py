"""How our programs start and end: closed and full streams, and a Ctrl-C that comes early."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
CLOSED = "error: the output could not be written: standard output is closed\n"
FULL = "error: the output could not be written: No space left on device\n"
NO_FILE = "error: there is no file no.yaml\n  fix: check the path\n"
CLOSED_INPUT = (
    "error: standard input cannot be read: standard input is closed\n"
    "  fix: pipe the file in, or name it\n"
)
PIPE_IT = (
    "allranks-postrender: manifests are read from stdin, which cannot be read: standard input is "
    "closed\n  fix: helm template NAME CHART | allranks-postrender, or helm's own "
    "--post-renderer\n"
)
# Sends Ctrl-C when a module is about to be imported.
INTERRUPTER = """\
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


def shell(line: str, cwd: Path) -> tuple[int, str, str]:
    """The exit code of a line of shell, what it prints, and what it says."""
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(cwd)}
    process = subprocess.run(
        ["sh", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        # What cannot be written is a failure, and said.
        ("allranks presets >&-", 1, CLOSED),
        ("allranks presets >/dev/full", 1, FULL),
        ("allranks init torchrun >&-", 1, CLOSED),
        ("allranks --help >/dev/full", 1, FULL),
        ("allranks list --on local -o json >&- <&-", 1, CLOSED),
        ("allranks-sweep --help >&-", 1, CLOSED),
        ("allranks-sweep __complete '' >/dev/full", 1, FULL),
        ("allranks-operator --help >&-", 1, CLOSED),
        ("allranks-master --help >/dev/full", 1, FULL),
        ("allranks-postrender </dev/null >&-", 0, ""),
        # Wrong input is wrong input wherever its message goes.
        ("allranks validate -f no.yaml >&-", 2, NO_FILE),
        ("allranks validate -f no.yaml 2>&-", 2, ""),
        ("allranks validate -f no.yaml 2>/dev/full", 2, ""),
        ("allranks validate -f no.yaml >&- 2>&- <&-", 2, ""),
        ("allranks validate -f no.yaml -o json >/dev/full", 2, NO_FILE),
        ("allranks validate -f no.yaml -o json >&-", 2, NO_FILE),
        ("allranks validate --nope 2>&-", 2, ""),
        ("allranks 2>/dev/full", 2, ""),
        ("allranks-sweep --nope 2>&-", 2, ""),
        ("allranks-operator --nope 2>&-", 2, ""),
        ("allranks-master --nope 2>/dev/full", 2, ""),
        ("allranks-postrender --nope 2>&- </dev/null", 2, ""),
        (
            "allranks validate -f - <&-",
            2,
            CLOSED_INPUT,
        ),
        ("allranks-postrender <&-", 2, PIPE_IT),
    ],
)
def test_streams_that_are_closed_or_full(
    tmp_path: Path, line: str, code: int, message: str
) -> None:
    """The exit code is that of what went wrong first, and nothing is taken for a bug of ours."""
    assert (code, "", message) == shell(line, tmp_path)


def test_a_full_disk_fails_the_postrenderer(tmp_path: Path) -> None:
    """Closed or full, helm must not take an empty output for an empty chart."""
    document = "echo 'kind: A' | allranks-postrender"
    for line, reason in (
        (f"{document} >&-", "standard output is closed"),
        (f"{document} >/dev/full", "No space left on device"),
    ):
        message = f"allranks-postrender: the output could not be written: {reason}\n"
        assert (1, "", message) == shell(line, tmp_path)


def test_messages_of_a_reader_that_leaves(tmp_path: Path) -> None:
    """The exit code of wrong input stays, where messages go into a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        words = [BIN / "allranks", "validate", "-f", "no.yaml"]
        assert 2 == subprocess.run(words, cwd=tmp_path, stderr=writer, check=False).returncode
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("allranks --help", "allranks.cli.main"),
        ("allranks --help", "click"),
        ("allranks --help", "allranks.cli.console"),
        ("allranks presets", "allranks.cli.commands.values"),
        ("allranks validate --set workload=torchrun", "jsonschema"),
        ("allranks-sweep --help", "click"),
        ("allranks-postrender", "allranks.postrender.options"),
        ("allranks-postrender", "allranks.postrender.pipeline"),
        ("allranks-operator --help", "structlog"),
        ("allranks-master --help", "allranks_operator.master.master"),
        ("sh {plugins}/helm3/sweep/run.sh --help", "click"),
        ("sh {plugins}/helm4/sweep/run.sh --help", "click"),
        ("sh {plugins}/helm4/allranks-postrender/run.sh", "allranks.postrender.pipeline"),
    ],
)
def test_an_interrupt_while_modules_are_loaded(
    tmp_path: Path, repo: Path, line: str, module: str
) -> None:
    """Ctrl-C ends the program with 130 and without a word, however early it comes.

    click ends the line that the terminal's ^C stands in.
    """
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    line = line.format(plugins=shlex.quote(str(repo / "plugins")))
    called = f"printf 'kind: A\\n' | env INTERRUPT_AT={module} PYTHONPATH=. {line}"
    code, out, err = shell(called, tmp_path)
    assert (130, "", "") == (code, out, err.strip())


def test_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    """Values, arguments and messages are UTF-8 all the same, as helm and kubectl have them."""
    (tmp_path / "values.yaml").write_text("workload: torchrun\nnodes: 2\ncommand: [ü→.py]\n")
    ascii_locale = "env LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"
    command = f"{ascii_locale} allranks validate -f values.yaml"
    line = f"{command} --set 'image.repository=p,args={{grüße}}'"
    answer = "ok  torchrun: 2 nodes, 2 processes: 'ü→.py' 'grüße'\n"
    assert (0, answer, "") == shell(line, tmp_path)
    code, out, err = shell(f"{command} --set image.repository=p,nodes=ü", tmp_path)
    assert (2, "") == (code, out)
    assert err.startswith('error: nodes: "ü" is a string')


def test_an_interrupt_before_the_program_is_asked_for(tmp_path: Path) -> None:
    """The script that pip writes compiles a pattern after the import of our start."""
    (tmp_path / "early.py").write_text(
        "import os, signal\nfrom allranks.start import cli\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    assert (130, "", "") == shell(f"{sys.executable} early.py", tmp_path)


def test_who_imports_the_command_line_keeps_ctrl_c(tmp_path: Path) -> None:
    """Only a program of ours gives it another meaning."""
    (tmp_path / "library.py").write_text(
        "import signal, allranks.cli.main, allranks_operator.log\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    assert (0, "", "") == shell(f"{sys.executable} library.py", tmp_path)


def test_an_interrupt_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """A shell's background commands ignore Ctrl-C, and so does the start of ours."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    line = "trap '' INT; INTERRUPT_AT=click PYTHONPATH=. allranks --version"
    code, out, err = shell(line, tmp_path)
    assert (0, "") == (code, err)
    assert out.startswith("allranks ")


@pytest.mark.parametrize("module", ["cli.commands.run", "cli.commands.why", "diagnosis.pods"])
def test_a_run_on_a_cluster_loads_nothing_of_the_local_runtime(module: str) -> None:
    """It takes a tenth of the time that the command itself needs."""
    loaded = "[name for name in ('allranks.local', 'psutil') if name in sys.modules]"
    program = f"import sys, allranks.{module}; print({loaded})"
    command = [sys.executable, "-c", program]
    assert "[]\n" == subprocess.run(command, capture_output=True, text=True, check=True).stdout

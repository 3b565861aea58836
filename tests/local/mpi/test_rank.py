"""The program around each rank of an MPI job: what it passes on, and what it reports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .pods import REPO, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.local

_RANK = REPO / "charts" / "mpi" / "files" / "rank.sh"
_RELAY = REPO / "charts" / "mpi" / "files" / "relay.sh"
_ABORT = "Abort(37) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 37)"
_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
_in_each_shell = pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)
_LAUNCHER = {"OMPI_COMM_WORLD_RANK": "3", "ALLRANKS_MPI_LAUNCHER": "job-launcher-0.job.lab.svc"}


def _environment(folder: Path, **env: str) -> dict[str, str]:
    """Of a rank in the launcher's own pod, whose launcher is a process that nobody misses."""
    (folder / "ends").touch()
    return {**os.environ, "ALLRANKS_STATE": str(folder), **_LAUNCHER, **env}


def _run(
    shell: list[str], folder: Path, *command: str, text: str = "", **env: str
) -> tuple[int, str, str, str]:
    """Run a command as a rank; its exit code, stdout, stderr and what was reported."""
    process = subprocess.run(
        [*shell, _RANK, *command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(folder, **env),
        timeout=60,
    )
    return process.returncode, process.stdout, process.stderr, (folder / "ends").read_text()


def _up(shell: list[str], folder: Path, program: str) -> subprocess.Popen[bytes]:
    """A rank in a group of its own, whose program has said that it is up."""
    rank = subprocess.Popen(
        [*shell, _RANK, *_python(program)],
        stdout=subprocess.PIPE,
        env=_environment(folder),
        start_new_session=True,
    )
    assert rank.stdout is not None
    assert b"up\n" == rank.stdout.readline()
    return rank


def _python(text: str) -> tuple[str, str, str]:
    return sys.executable, "-c", text


@_in_each_shell
def test_an_exit_code_is_kept_and_reported(tmp_path: Path, shell: list[str]) -> None:
    """Host, rank and code are written down; stdout and stderr are the command's, byte for byte."""
    program = "import sys; print('a b', flush=True); sys.stderr.write('no end'); sys.exit(37)"
    assert (37, "a b\n", "no end", "job-launcher-0.job.lab.svc 3 37 alone\n") == _run(
        shell, tmp_path, *_python(program)
    )


@_in_each_shell
def test_a_good_end_is_not_reported(tmp_path: Path, shell: list[str]) -> None:
    """Stdin is the rank's own, and a success leaves nothing behind."""
    assert (0, "all of it", "", "") == _run(shell, tmp_path, "cat", text="all of it")


@_in_each_shell
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_the_signal_that_ended_a_rank_is_what_mpirun_sees(
    tmp_path: Path, shell: list[str], number: signal.Signals
) -> None:
    """The report has 128 and the number; the program ends by it, and no shell says a word of it."""
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    report = f"job-launcher-0.job.lab.svc 3 {128 + number} alone\n"
    assert (-number, "", "", report) == _run(shell, tmp_path, *_python(program))


@_in_each_shell
def test_a_killed_rank_keeps_its_place_among_those_that_fall_with_it(
    tmp_path: Path, shell: list[str]
) -> None:
    """Hydra may be killing its whole group: a report comes at once, and is confirmed soon."""
    report = "job-launcher-0.job.lab.svc 3 137"
    program = "import os; os.kill(os.getpid(), 9)"
    process = _run(shell, tmp_path, *_python(program), PMI_RANK="3")
    assert (-signal.SIGKILL, "", "", f"{report} killed\n{report} alone\n") == process


@pytest.mark.parametrize("shell", _SHELLS[:2], ids=" ".join)  # busybox's sleep is a builtin
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_hydra_hears_of_an_end_after_a_killed_peer_has_confirmed_its_own(
    tmp_path: Path, shell: list[str], number: signal.Signals
) -> None:
    """Hydra kills all when it hears of an end: that of a peer is held back until then."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sleep").write_text(f'#!/bin/sh\necho "slept $1" >>{tmp_path}/ends\n')
    (programs / "sleep").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    process = _run(shell, tmp_path, *_python(program), PMI_RANK="3", PATH=path)
    *reports, last = process[3].splitlines()
    waits = [float(line.split()[1]) for line in reports if line.startswith("slept")]
    assert last.startswith("slept ")
    assert float(last.split()[1]) >= 5 * max([0.05, *waits])
    assert reports[-1] == f"job-launcher-0.job.lab.svc 3 {128 + number} alone"


_PEER = "job-worker-0.job.lab.svc 0 139 alone"
_DIES, _LIVES, _SIGNALLED = (
    f"job-worker-1.job.lab.svc 2 137 {how}" for how in ("killed", "alone", "told")
)
_BLAMED_KILLED, _BLAMED_PEER = "2 137 job-worker-1", "0 139 job-worker-0"


@_in_each_shell
@pytest.mark.parametrize(
    ("implementation", "ends", "blamed"),
    [
        pytest.param("Intel", [_DIES, _PEER, _LIVES], _BLAMED_KILLED, id="in its place"),
        pytest.param("Intel", [_DIES, _PEER, _SIGNALLED], _BLAMED_PEER, id="with its group"),
        pytest.param("MPICH", [_PEER, _DIES, _LIVES], _BLAMED_KILLED, id="heard late"),
        pytest.param("MPICH", [_PEER, _DIES], _BLAMED_PEER, id="killed by Hydra"),
        pytest.param("OpenMPI", [_PEER, _LIVES], _BLAMED_PEER, id="another MPI"),
    ],
)
def test_a_killed_rank_is_blamed_when_it_was_not_its_whole_group(
    tmp_path: Path, shell: list[str], implementation: str, ends: list[str], blamed: str
) -> None:
    """A peer that crashed over it was heard between its two reports, or with MPICH before them."""
    (tmp_path / "ends").write_text("".join(f"{line}\n" for line in ends))
    program = (
        f"ALLRANKS_STATE={tmp_path} ALLRANKS_MPI_IMPLEMENTATION={implementation} "
        "allranks_tee_pids=; "
        f". {REPO}/charts/mpi/files/common.sh; . {REPO}/charts/mpi/files/blame.sh; "
        'allranks_find_rank; echo "$allranks_rank $allranks_rank_code $allranks_rank_host"'
    )
    process = subprocess.run([*shell, "-c", program], capture_output=True, text=True, check=True)
    assert (f"{blamed}\n", "") == (process.stdout, process.stderr)


@_in_each_shell
def test_a_pod_without_a_host_name_is_blamed_by_its_own(tmp_path: Path, shell: list[str]) -> None:
    """Where all pods share the machine's name the hostfile has addresses; people know names."""
    (tmp_path / "ends").write_text("127.114.175.3 3 139 alone\n")
    lines = [
        f"{host}\t/state/{number}\n"
        for number, name in ((2, "run-worker-0"), (3, "run-worker-1"))
        for host in (f"127.114.175.{number}", name, f"{name}.run.lab.svc")
    ]
    (tmp_path / "map").write_text("".join(lines))
    program = (
        f"ALLRANKS_STATE={tmp_path} ALLRANKS_MPI_LOCAL_MAP={tmp_path}/map allranks_tee_pids=; "
        f". {REPO}/charts/mpi/files/common.sh; . {REPO}/charts/mpi/files/blame.sh; "
        'allranks_find_rank; echo "$allranks_rank_host"; allranks_find_alias 127.114.175.9; '
        'echo "$allranks_alias"'
    )
    process = subprocess.run([*shell, "-c", program], capture_output=True, text=True, check=True)
    assert ("run-worker-1\n127.114.175.9\n", "") == (process.stdout, process.stderr)


@_in_each_shell
@pytest.mark.parametrize("code", [129 + signal.SIGSTOP, 128 + signal.SIGSTOP, 200, 255])
def test_a_high_exit_code_is_no_signal(tmp_path: Path, shell: list[str], code: int) -> None:
    """A code that would stand for a signal that does not end a process is passed on as it is."""
    assert code == _run(shell, tmp_path, *_python(f"raise SystemExit({code})"))[0]


@_in_each_shell
def test_a_program_is_never_the_shells_own(tmp_path: Path, shell: list[str]) -> None:
    """`echo` and `exit` are programs on PATH, and arguments arrive as they are."""
    program = tmp_path / "exit"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\nexit 5\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    code, text, _, _ = _run(shell, tmp_path, "exit", "a\\tb", "", "*", "$HOME", PATH=path)
    assert (5, "<a\\tb><><*><$HOME>") == (code, text)


@_in_each_shell
def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, shell: list[str]) -> None:
    """127 for one that is not there, 126 for one that cannot be run."""
    code, _, error, report = _run(shell, tmp_path, "no-such-program")
    assert (127, True) == (code, "no-such-program" in error)
    assert report.endswith(" 3 127 alone\n")
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    code, _, error, _ = _run(shell, tmp_path, str(plain))
    assert (126, True) == (code, str(plain) in error)


@_in_each_shell
def test_a_rank_that_was_told_to_end_did_not_fail(tmp_path: Path, shell: list[str]) -> None:
    """A signal to the group reaches the rank once; its end is reported as that of a told one."""
    program = (
        "import signal, sys, time\n"
        "told = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
        "print('up', flush=True)\n"
        "while not told: time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "sys.exit(40 + len(told))\n"
    )
    rank = _up(shell, tmp_path, program)
    os.killpg(rank.pid, signal.SIGTERM)
    assert 41 == rank.wait(60)
    assert "job-launcher-0.job.lab.svc 3 41 told\n" == (tmp_path / "ends").read_text()


@_in_each_shell
def test_a_signal_of_the_users_ends_nothing(tmp_path: Path, shell: list[str]) -> None:
    """What mpirun passes on to a rank's group, as SIGUSR1, is the rank's."""
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    rank = _up(shell, tmp_path, program)
    os.killpg(rank.pid, signal.SIGUSR1)
    assert 9 == rank.wait(60)
    assert "job-launcher-0.job.lab.svc 3 9 alone\n" == (tmp_path / "ends").read_text()


@_in_each_shell
def test_a_report_that_nobody_reads_holds_nothing_up(tmp_path: Path, shell: list[str]) -> None:
    """A pipe whose reader is gone, and a place that is not there, are no reason to wait."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path / "nowhere", "/dev/null"):
        env = {"ALLRANKS_MPI_ENDS": str(place)}
        assert (7, "", "") == _run(shell, tmp_path, *_python("raise SystemExit(7)"), **env)[:3]


@_in_each_shell
def test_a_report_through_a_pipe(tmp_path: Path, shell: list[str]) -> None:
    """On a worker the host is left to the launcher's side; the number is that of any MPI."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        env = {"ALLRANKS_MPI_ENDS": str(pipe), "OMPI_COMM_WORLD_RANK": "", "PMI_RANK": "12"}
        assert 1 == _run(shell, tmp_path, "false", **env)[0]
        assert b"- 12 1 alone\n" == os.read(reader, 100)
    finally:
        os.close(reader)


@_in_each_shell
def test_the_launcher_is_told_at_once(tmp_path: Path, shell: list[str]) -> None:
    """It gets SIGUSR2 when the report is written."""
    launcher = subprocess.Popen(["sleep", "600"])
    try:
        (tmp_path / "pid").write_text(f"{launcher.pid}\n")
        _run(shell, tmp_path, "false")
        until(lambda: launcher.poll() is not None, "the signal")
        assert -signal.SIGUSR2 == launcher.wait()
    finally:
        launcher.kill()
        launcher.wait()


@_in_each_shell
@pytest.mark.parametrize("aborts", [True, False])
def test_words_that_no_daemon_passes_on(tmp_path: Path, shell: list[str], aborts: bool) -> None:
    """Of a rank that called MPI_Abort the relay hands them on, when its daemon is over."""
    words = f"no idea\n{_ABORT if aborts else 'no more'}"
    with _relayed(shell, tmp_path) as (relay, pipe):
        program = f"import os, sys, time; sys.stderr.write({words!r}); sys.stderr.flush(); "
        rank = _with_mpich(shell, pipe, f"{program}print('up', flush=True); time.sleep(60)")
        assert rank.stdout is not None
        assert b"up\n" == rank.stdout.readline()
        os.killpg(rank.pid, signal.SIGKILL)
        assert (b"", words.encode()) == rank.communicate(timeout=240)
        pipe.write_text("over\n")
        lines = "".join(f"allranks-left: {line}\n" for line in words.splitlines())
        assert (lines if aborts else "", None) == relay.communicate(timeout=240)
    assert [pipe.name] == [path.name for path in tmp_path.iterdir() if path.name != "ends"]


@_in_each_shell
def test_the_stderr_of_a_rank_is_passed_on_as_it_comes(tmp_path: Path, shell: list[str]) -> None:
    """Line or no line, to the last byte and no longer; the rank's end is reported behind it."""
    with _relayed(shell, tmp_path) as (relay, pipe):
        program = "import os; os.write(2, b'50 %'); input(); os.write(2, b'\\r100 %'); os._exit(3)"
        rank = _with_mpich(shell, pipe, program)
        assert rank.stderr is not None
        assert rank.stdin is not None
        assert b"50 %" == os.read(rank.stderr.fileno(), 100)
        assert (b"", b"\r100 %") == rank.communicate(b"\n", timeout=60)
        assert 3 == rank.returncode
        pipe.write_text("over\n")
        assert ("allranks-end: - 3 3 alone\n", None) == relay.communicate(timeout=240)


@contextlib.contextmanager
def _relayed(shell: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A relay, and the pipe that it reads.

    The relay has the pipe open before it has begun, as remote.sh sees to: what a rank writes into
    a pipe that nobody else has open goes with the rank's descriptor.
    """
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    words = [*shell, str(_RELAY), str(pipe)]
    held_open = os.open(pipe, os.O_RDWR)
    try:
        relay = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=(held_open,))
    finally:
        os.close(held_open)
    try:
        yield relay, pipe
    finally:
        relay.kill()
        relay.wait()


def _with_mpich(shell: list[str], pipe: Path, program: str) -> subprocess.Popen[bytes]:
    """A rank that its relay copies, in a group of its own."""
    mpich = {"ALLRANKS_MPI_ENDS": str(pipe), "ALLRANKS_MPI_IMPLEMENTATION": "MPICH"}
    return subprocess.Popen(
        [*shell, _RANK, *_python(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **mpich, "PMI_RANK": "3"},
        start_new_session=True,
    )

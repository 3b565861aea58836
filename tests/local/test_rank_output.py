"""What ranks write, through the launcher of a torchrun pod to the pod's own log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.modules import load

from .conftest import until

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

FILES = Path(__file__).parents[2] / "charts/torchrun/files"


def _start(folder: Path, script: str, procs: int = 2, **extra: str) -> subprocess.Popen[bytes]:
    """A launcher of one node with so many ranks; its two streams are files of their own."""
    (folder / "train.py").write_text(script)
    env = {
        **os.environ,
        "ALLRANKS_RANK_PREFIX": "1" if procs > 1 else "",
        "ALLRANKS_TERMINATION_LOG": str(folder / "message"),
        "PET_MAX_RESTARTS": "0",
        "PET_NPROC_PER_NODE": str(procs),
        "PET_STANDALONE": "1",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-u", FILES / "launch.py", "train.py"],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=err,
        )


def _run(folder: Path, script: str, procs: int = 2, **extra: str) -> bytes:
    """What the ranks of such a node write, once it has ended well."""
    process = _start(folder, script, procs, **extra)
    assert process.wait(240) == 0, (folder / "err").read_text()
    return (folder / "out").read_bytes()


def test_lines_of_several_ranks_are_whole_and_bear_their_rank(tmp_path: Path) -> None:
    """Whatever pieces the ranks write in, each line is one rank's, in the order of that rank."""
    script = """
import os, sys
rank = os.environ["RANK"]
for number in range(2000):
    os.write(1, ("{%s-" % rank).encode()); os.write(1, ("%d" % number).encode())
    os.write(1, b"}\\n" if number % 2 else b"}\\n\\n")
os.write(1, b"the end of %s" % rank.encode())
"""
    lines = _run(tmp_path, script).decode().splitlines()

    for rank in ("0", "1"):
        expected = []
        for number in range(2000):
            expected += [f"{{{rank}-{number}}}"] + [""] * (number % 2 == 0)
        own = [line.removeprefix(f"[{rank}] ") for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [*expected, f"the end of {rank}"]
    assert len(lines) == 2 * 3001


def test_what_one_rank_writes_passes_unchanged(tmp_path: Path) -> None:
    """Bytes that are no text, lines without an end, a line of a megabyte: as they were written."""
    script = "import os; os.write(1, bytes(range(256)) * 16); os.write(1, b'x' * (1 << 20))"

    output = _run(tmp_path, script, procs=1)

    assert output == bytes(range(256)) * 16 + b"x" * (1 << 20)


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    """Of several ranks a line passes up to 64 KiB; a character is not cut in two."""
    script = """
import os, sys
if os.environ["RANK"] == "1":
    sys.stdout.buffer.write(b"x" + "é".encode() * 100_000 + b"\\nlast\\n")
"""
    lines = _run(tmp_path, script).split(b"\n")[:-1]

    assert [len(line) <= (1 << 16) + len("[1] ") for line in lines] == [True] * 5
    assert all(line.startswith(b"[1] ") for line in lines)
    assert b"".join(line[4:] for line in lines[:-1]).decode() == "x" + "é" * 100_000
    assert lines[-1] == b"[1] last"


def test_the_two_streams_of_a_rank_keep_their_order_in_one_file(tmp_path: Path) -> None:
    """Where the pod's streams are one file, so are a rank's: a warning stands in its place."""
    (tmp_path / "train.py").write_text(
        "import sys\nfor number in range(500):\n"
        "    print(number, file=sys.stdout if number % 2 else sys.stderr, flush=True)\n"
    )
    env = {**os.environ, "PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2"}
    process = subprocess.run(
        [sys.executable, FILES / "launch.py", "train.py"],
        cwd=tmp_path,
        env={**env, "ALLRANKS_RANK_PREFIX": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=240,
    )
    numbers = [int(number) for number in re.findall(r"^\[1\] (\d+)$", process.stdout, re.MULTILINE)]
    assert numbers == list(range(500))


def test_a_process_that_a_rank_leaves_behind_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """The node ends with its ranks, and all that they wrote is there."""
    script = """
import os, subprocess
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open("pid." + os.environ["RANK"], "w").write(str(child.pid))
print("x" * 30_000)
print("done")
"""
    try:
        lines = _run(tmp_path, script).decode().splitlines()
    finally:
        for path in tmp_path.glob("pid.*"):
            os.kill(int(path.read_text()), signal.SIGKILL)
    assert sorted(line for line in lines if line.endswith("done")) == ["[0] done", "[1] done"]


def test_ranks_go_on_when_nobody_reads_the_log(tmp_path: Path) -> None:
    """A log that is gone costs the lines, not the training."""
    (tmp_path / "train.py").write_text(
        "for _ in range(5000): print('x' * 100)\nopen('ended', 'a').write('x')"
    )
    env = {**os.environ, "PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2"}
    source, target = os.pipe()
    process = subprocess.Popen(
        [sys.executable, FILES / "launch.py", "train.py"],
        cwd=tmp_path,
        env={**env, "ALLRANKS_RANK_PREFIX": "1"},
        stdout=target,
        stderr=subprocess.DEVNULL,
    )
    os.close(target)
    os.close(source)
    process.wait(240)
    assert (tmp_path / "ended").read_text() == "xx"


def test_what_the_user_redirects_is_left_alone(tmp_path: Path) -> None:
    """The tee and redirects of torchrun work as before, and only the other stream is ours."""
    script = "import os, sys; print('out'); print('warned', file=sys.stderr)"
    extra = {"PET_REDIRECTS": "1", "PET_LOG_DIR": str(tmp_path / "logs")}

    assert _run(tmp_path, script, **extra) == b""

    files = list((tmp_path / "logs").rglob("stdout.log"))
    assert [path.read_text() for path in files] == ["out\n", "out\n"]
    assert "[1] warned\n" in (tmp_path / "err").read_text()


def test_the_last_lines_of_a_rank_are_kept() -> None:
    """Twenty of them, with the one that has no end, as a terminal leaves them."""
    module = load(FILES / "rank_output.py")
    output = module.RankOutput(prefixed=True)
    output._thread.start()
    reader, write = os.pipe()
    output._last_lines["7"] = module.deque(maxlen=module.KEPT_LINES)
    pipe = output._pipe("7", write)
    pipe.write(b"".join(b"line %d\n" % number for number in range(50)))
    pipe.write(b"10 %\r20 %\rstill open")

    lines = output.last_lines(7)

    assert lines == [f"line {number}" for number in range(31, 50)] + ["still open"]
    assert output.last_lines(3) == []
    pipe.close()
    output.finish()
    assert os.read(reader, 1 << 16).split(b"\n")[-2] == b"[7] 10 %\r20 %\rstill open"
    os.close(reader)
    os.close(write)


def test_a_torch_that_cannot_be_hooked_leaves_the_ranks_the_log(tmp_path: Path) -> None:
    """Where torch's internals are others, the ranks write to the pod's log themselves."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if 'RANK' not in os.environ:\n"
        "    from torch.distributed.elastic.multiprocessing import subprocess_handler as module\n"
        "    class Handler(module.SubprocessHandler):\n"
        "        def _start(self, args, env):\n"
        "            return module.SubprocessHandler._popen(self, args, env)\n"
        "    import torch.distributed.elastic.multiprocessing.subprocess_handler as package\n"
        "    package.SubprocessHandler = type('Other', (), {})\n"
    )
    output = _run(tmp_path, "print('hello')", procs=1, PYTHONPATH=str(tmp_path))
    assert output == b"hello\n"


def test_a_rank_that_never_ends_is_killed_before_the_pod_is(tmp_path: Path) -> None:
    """Of a short grace the ranks have all but a little, then the node ends by itself, with 143."""
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: open("told", "w"))
open("ready", "w")
while True:
    time.sleep(1)
"""
    process = _start(tmp_path, script, procs=1, ALLRANKS_GRACE_SECONDS="10")
    until((tmp_path / "ready").exists, "the start of the rank", 120)
    ranks = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    assert process.wait(28) == 143  # torch's own time would be 30 s
    assert (tmp_path / "told").exists()
    assert not [rank for rank in ranks if _goes_on(rank)]


def _goes_on(process: psutil.Process) -> bool:
    """Whether it has not ended; who takes its exit code may come later."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""A launcher that is forked for each generation of the code, as if it had no parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspaces import Sent, pack

pytestmark = pytest.mark.timeout(120)
_FILES = Path(__file__).parents[3] / "charts/library/files"
# A launcher's beginning; the test's own lines follow. They run in each fork.
_BEGIN = """
import importlib.util, os, pathlib, signal, sys, threading, time
spec = importlib.util.spec_from_file_location("sync", sys.argv[1] + "/sync.py")
sync = importlib.util.module_from_spec(spec)
sys.modules["sync"] = sync
spec.loader.exec_module(sync)
workspace = sync.Workspace(os.environ)
follower = sync.Follower(os.environ, print, "SIGTERM,SIGHUP")
generation = os.environ.get("ALLRANKS_WORKSPACE_GENERATION", "")
def offer(number):
    sync.write(workspace.wanted_path, pathlib.Path(sys.argv[2]).read_text())
    workspace.stage(workspace.newest(), pathlib.Path(sys.argv[2]).parent)
"""


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A pod's folder: its programs, its code, and an offer of newer code."""
    for source in ("sync.py", "workspace.py"):
        shutil.copy(_FILES / source, tmp_path)
    (tmp_path / "entry.sh").write_text('echo "entry.sh $*"; exit 9\n')
    (tmp_path / "state/code").mkdir(parents=True)
    (tmp_path / "sent").mkdir()
    snapshot = Sent(pack({"number.txt": "2"}), parts=1)
    (tmp_path / "sent/archive.0").write_bytes(snapshot.data)
    (tmp_path / "sent/offer.json").write_text(
        f'{{"generation": 1, "digest": "{snapshot.digest}", "archiveDigest": "{snapshot.digest}", '
        '"compression": "gzip"}'
    )
    return tmp_path


def _launch(pod: Path, lines: str) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "ALLRANKS_WORKSPACE_STATE": str(pod / "state"),
        "ALLRANKS_WORKSPACE_FOLDER": str(pod / "state/code"),
        "ALLRANKS_WORKSPACE_SYNC": str(pod / "mount"),
    }
    command = [sys.executable, "-c", _BEGIN + lines, str(pod), str(pod / "sent/offer.json")]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, cwd=pod)


def _ended(pod: Path, lines: str) -> tuple[int, str]:
    process = _launch(pod, lines)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize(
    ("end", "code"),
    [("sys.exit(7)", 7), ("os._exit(0)", 0), ("os.kill(os.getpid(), signal.SIGKILL)", 137)],
    ids=["code", "good", "killed"],
)
def test_the_parent_ends_as_its_launcher(pod: Path, end: str, code: int) -> None:
    """The exit code is the launcher's, as a shell gives it."""
    assert (code, "") == _ended(pod, f"follower.fork([])\n{end}\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_reaches_the_launcher(pod: Path, name: str) -> None:
    """What torchrun handles is passed on; the launcher's own handlers hold, whoever set them."""
    process = _launch(
        pod,
        f"signal.signal(signal.{name}, lambda *_: os._exit(5))\n"
        "follower.fork([])\nos.write(1, b'ready\\n')\nwhile True: signal.pause()\n",
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    process.send_signal(getattr(signal, name))
    assert 5 == process.wait(60)


def test_a_fork_begins_with_the_newer_code(pod: Path) -> None:
    """The next launcher has it in place, and its digest and number in the environment."""
    lines = """
os.chdir(workspace.folder)
sync.unpacking.__file__ = "_ops.py"  # as torch.ops has it: in no folder
follower.fork(["train.py"])
if not os.environ.get("ALLRANKS_WORKSPACE_GENERATION"):
    offer(1)
    follower.pending = workspace.newest()
    follower.restart(["train.py"])
print(os.environ["ALLRANKS_WORKSPACE_GENERATION"], os.environ["ALLRANKS_WORKSPACE_DIGEST"])
print((workspace.folder / "number.txt").read_text(), os.getpid() != os.getppid())
sys.exit(3)
"""
    digest = Sent(pack({"number.txt": "2"}), parts=1).digest
    assert (3, f"1 {digest}\n2 True\n") == _ended(pod, lines)


def test_a_late_signal_does_not_come_between(pod: Path) -> None:
    """Where torch's handlers raise, code is put in place as a whole all the same, and once."""
    lines = """
def fail(*_):
    raise RuntimeError("torch's handler")
follower.fork(["train.py"])
if not os.environ.get("ALLRANKS_WORKSPACE_GENERATION"):
    offer(1)
    follower.pending = workspace.newest()
    signal.signal(signal.SIGHUP, fail)
    install = sync.Workspace.install
    def interrupted(workspace, offer):
        print("install")
        threading.Thread(target=follower.restart, args=[[]], daemon=True).start()
        os.kill(os.getpid(), signal.SIGHUP)
        install(workspace, offer)
        sys.stdout.flush()
    sync.Workspace.install = interrupted
    follower.restart(["train.py"])
print(os.environ["ALLRANKS_WORKSPACE_GENERATION"], (workspace.folder / "number.txt").read_text())
sys.exit(3)
"""
    assert (3, "install\n1 2\n") == _ended(pod, lines)


def test_code_that_cannot_be_put_in_place_is_left_to_the_entry(pod: Path) -> None:
    """entry.sh begins in the parent's place, with the launcher's words; it says what is wrong."""
    (pod / "state/code/number.txt").mkdir()
    lines = """
follower.fork(["train.py", "--lr"])
offer(1)
follower.pending = workspace.newest()
follower.restart(["train.py", "--lr"])
"""
    code, output = _ended(pod, lines)
    assert (9, "entry.sh train.py --lr") == (code, output.splitlines()[-1])


def test_a_pod_that_ends_forks_no_other_launcher(pod: Path) -> None:
    """Where SIGTERM has come, a launcher that asks to begin anew ends the pod."""
    process = _launch(
        pod,
        "signal.signal(signal.SIGTERM, lambda *_: follower.fork_again())\n"
        "follower.fork([])\nos.write(1, b'ready\\n')\nwhile True: signal.pause()\n",
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == process.wait(60)


@pytest.mark.parametrize(
    "before",
    [
        '(sync.HERE / "setup.sh").write_text("")',
        "threading.Thread(target=signal.pause, daemon=True).start()",
        "sys.path.insert(0, str(workspace.folder)); import number",
    ],
    ids=["setup", "thread", "own-module"],
)
def test_what_would_differ_from_a_start_is_not_forked(pod: Path, before: str) -> None:
    """A setup has to run again, threads are lost in a fork, and a module of the code is old."""
    (pod / "state/code/number.py").write_text("")
    lines = f"{before}\nparent = os.getpid()\nfollower.fork([])\nprint(parent == os.getpid())\n"
    assert (0, "True\n") == _ended(pod, lines)

"""What another user of the same machine can see of a run, do to it, or leave in its way.

The other one is a process of another user id, in a folder that both may enter, as /tmp is. It takes
root to be two users.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.errors import InputError
from allranks.local import control, store, tree
from allranks.sweep import records
from allranks.sweep.storage import journals
from allranks.sweep.trials.copies import ChartCopy
from tests.local.conftest import Machine, container, job, until
from tests.unit.sweep.simulation import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(os.geteuid() != 0, reason="to be a second user takes root"),
]

_OTHER = 65_534
_SECRET = "only-mine-4711"  # noqa: S105 - of the test


def as_other(act: Callable[[], Any]) -> Any:
    """What a function gives that another user calls, as JSON has it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.setgroups([])
            os.setgid(_OTHER)
            os.setuid(_OTHER)
            given = {"gives": act()}
        except BaseException:  # noqa: BLE001 - a forked child ends here in any case
            given = {"raises": traceback.format_exc()}
        os.write(write, json.dumps(given).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        given = json.loads(stream.read())
    os.waitpid(child, 0)
    assert "raises" not in given, given["raises"]
    return given["gives"]


def made(path: Path, mode: int, *, folder: bool = False) -> None:
    """Have the other user make a file or a folder, with a mode."""

    def make() -> None:
        (path.mkdir if folder else path.touch)()
        path.chmod(mode)

    as_other(make)


def refused(act: Callable[[], Any]) -> str:
    """The name of the error that a system call ends in for the other user; "" where it works."""

    def call() -> str:
        try:
            act()
        except OSError as error:
            return type(error).__name__
        return ""

    return str(as_other(call))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder as /tmp is: all may write, and nobody removes what is another's."""
    folder = Path(tempfile.mkdtemp(prefix="two-users-", dir="/tmp"))
    folder.chmod(0o1777)
    mask = os.umask(0)  # nothing may depend on the user's
    monkeypatch.setenv(names.ENV_STATE, str(folder / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    try:
        yield folder
    finally:
        os.umask(mask)
        shutil.rmtree(folder)


@pytest.fixture
def going(shared: Path) -> Iterator[Path]:
    """A run that goes on, with a Secret; its folder."""
    workdir = shared / "work"
    workdir.mkdir(0o700)
    machine = Machine(shared / "state", workdir)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token"},
        "stringData": {"token": _SECRET},
    }
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]
    script = f"echo started; touch {workdir}/on; while :; do sleep 1; done"
    machine.start(secret, job("run", container(script, env=env)), foreground=False)
    try:
        until((workdir / "on").exists, "a pod that runs")
        yield shared / "state" / "runs" / "lab" / "run"
    finally:
        control.delete("run", "lab")


def test_nobody_else_reads_what_a_run_leaves(going: Path, shared: Path) -> None:
    """Whatever the umask: manifests have Secrets in them, and logs what was printed."""
    assert 0o700 == stat.S_IMODE((shared / "state").stat().st_mode)
    assert 0o700 == stat.S_IMODE(going.stat().st_mode)
    for name in ("run.json", "state.json", "lock"):
        assert 0o600 == stat.S_IMODE((going / name).stat().st_mode), name
    assert "PermissionError" == refused(lambda: list((shared / "state").iterdir()))
    for path in (going / "run.json", going / "logs" / "index", going.parents[2] / "lock"):
        assert path.exists()
        assert "PermissionError" == refused(path.read_bytes), path


def test_nobody_else_ends_a_run(going: Path) -> None:
    """Neither by its processes, nor by its lock, nor with the command line."""
    pids = [process.pid for process in tree.marked(names.ENV_RUN, [str(going)])] or [
        process.pid for process in tree.marked("POD_NAME", ["run-0"])
    ]
    assert pids
    for pid in pids:
        assert "PermissionError" == refused(lambda pid=pid: os.kill(pid, signal.SIGKILL))
        environ = Path(f"/proc/{pid}/environ")
        assert "PermissionError" == refused(environ.read_bytes)

    def delete() -> str:
        try:
            control.delete("run", "lab")
        except (InputError, PermissionError) as error:
            return str(error)
        return ""

    assert as_other(delete)
    assert store.RunFolder(going).alive()


def test_a_state_folder_that_another_has_made_is_not_used(shared: Path) -> None:
    """They could put runs into it, or read what comes."""
    state = shared / "state"
    for mode in (0o755, 0o777):
        made(state, mode, folder=True)
        machine = Machine(state, shared)
        with pytest.raises(InputError, match="another user's, or any user may write"):
            machine.run(job("run", container("true")))
        assert [] == list(state.iterdir())
        state.rmdir()
    state.mkdir(0o777)
    with pytest.raises(InputError, match="chmod go-w"):
        store.root()


def test_a_link_in_place_of_a_temporary_folder_leads_nowhere(shared: Path) -> None:
    """What another has put where copies of charts are left stays, and so does what is mine."""
    mine = shared / "mine"
    mine.mkdir(0o700)
    (mine / "precious").write_text("x")
    (mine / ".lock").touch()
    old = (0, 0)

    def plant() -> None:
        (shared / "allranks-chart-link").symlink_to(mine)
        (shared / "allranks-chart-dir").mkdir()
        (shared / "allranks-chart-dir" / ".lock").symlink_to(mine / "precious")
        os.mkfifo(shared / "allranks-chart-pipe")
        for path in shared.glob("allranks-chart-*"):
            os.utime(path, old, follow_symlinks=False)

    as_other(plant)
    os.utime(mine, old)
    chart = mine / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 0.0.1\n")
    copy = ChartCopy(chart)
    try:
        assert 0o700 == stat.S_IMODE(copy.chart.parent.stat().st_mode) or (
            0o700 == stat.S_IMODE(copy.chart.stat().st_mode)
        )
    finally:
        copy.close()
    assert "x" == (mine / "precious").read_text()
    left = sorted(path.name for path in shared.glob("allranks-chart-*"))
    assert ["allranks-chart-dir", "allranks-chart-link", "allranks-chart-pipe"] == left


def test_a_journal_that_another_has_made_ahead_is_not_written(shared: Path) -> None:
    """Values stand in it, and passwords may stand in them."""
    path = shared / "j.jsonl"
    made(path, 0o666)
    head = records.head(spec(), 1.0, {"token": _SECRET})
    with pytest.raises(InputError, match="is another user's file"):
        journals.keeper(str(path), "s").create(head)
    assert b"" == path.read_bytes()
    own = shared / "own.jsonl"
    journals.keeper(str(own), "s").create(head).close()
    assert "PermissionError" == refused(own.read_bytes)
    assert "PermissionError" == refused(lambda: own.write_bytes(b""))
    assert "PermissionError" == refused(own.unlink)


def test_a_port_that_another_holds_is_left_to_them(shared: Path) -> None:
    """Whether they listen on it, or claim it as a run does; nobody waits for them."""
    assert shared.exists()
    first = control.free_port(30_500)
    with socket.socket() as held, socket.socket(type=socket.SOCK_DGRAM) as claimed:
        held.bind(("127.0.0.1", first))
        held.listen()
        with suppress(OSError):
            claimed.bind(("127.0.0.1", first + 1))
        assert control.free_port(first) > first + 1

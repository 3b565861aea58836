"""What another user of the same machine can see of a run, do to it, or leave in its way.

The other one is a process of another user id, in a folder that both may enter, as /tmp is. It takes
root to be two users.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import tempfile
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names, trust
from allranks.errors import InputError
from allranks.local import runs as local_runs
from allranks.local.host import process_tree
from allranks.local.state import store
from allranks.sweep import records
from allranks.sweep.storage import exposure as storage_exposure
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state, request_stop
from allranks.sweep.trials.releases import ChartCopy
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
    reader, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setgid(_OTHER)
            os.setuid(_OTHER)
            answer = {"gives": act()}
        except BaseException:  # noqa: BLE001 - a forked child ends here in any case
            answer = {"raises": traceback.format_exc()}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(reader) as stream:
        answer = json.loads(stream.read())
    os.waitpid(child, 0)
    assert "raises" not in answer, answer["raises"]
    return answer["gives"]


def make(path: Path, mode: int, *, folder: bool = False) -> None:
    """Have the other user make a file or a folder, with a mode."""

    def make() -> None:
        (path.mkdir if folder else path.touch)()
        path.chmod(mode)

    as_other(make)


def error_name(act: Callable[[], Any]) -> str:
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
        local_runs.delete("run", "lab")


def test_nobody_else_reads_what_a_run_leaves(going: Path, shared: Path) -> None:
    """Whatever the umask: manifests have Secrets in them, and logs what was printed."""
    assert 0o700 == stat.S_IMODE((shared / "state").stat().st_mode)
    assert 0o700 == stat.S_IMODE(going.stat().st_mode)
    for name in ("run.json", "state.json", "lock"):
        assert 0o600 == stat.S_IMODE((going / name).stat().st_mode), name
    assert "PermissionError" == error_name(lambda: list((shared / "state").iterdir()))
    for path in (going / "run.json", going / "logs" / "index", going.parents[2] / "lock"):
        assert path.exists()
        assert "PermissionError" == error_name(path.read_bytes), path


def test_nobody_else_ends_a_run(going: Path) -> None:
    """Neither by its processes, nor by its lock, nor with the command line."""
    pids = [process.pid for process in process_tree.find_marked(names.ENV_RUN, [str(going)])] or [
        process.pid for process in process_tree.find_marked("POD_NAME", ["run-0"])
    ]
    assert pids
    errors = [
        {
            error_name(lambda pid=pid: os.kill(pid, signal.SIGKILL)),
            error_name(Path(f"/proc/{pid}/environ").read_bytes),
        }
        for pid in pids
    ]
    # The pod's script starts a `sleep` each second, one of which may have ended meanwhile.
    lasting = [own for own in errors if not own & {"ProcessLookupError", "FileNotFoundError"}]
    assert lasting
    assert all(own == {"PermissionError"} for own in lasting)

    def delete() -> str:
        try:
            local_runs.delete("run", "lab")
        except (InputError, PermissionError) as error:
            return str(error)
        return ""

    assert as_other(delete)
    assert store.RunFolder(going).alive()


def test_a_state_folder_that_another_has_made_is_not_used(shared: Path) -> None:
    """They could put runs into it, or read what comes."""
    state = shared / "state"
    for mode in (0o755, 0o777):
        make(state, mode, folder=True)
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
    folders = sorted(path.name for path in shared.glob("allranks-chart-*"))
    assert ["allranks-chart-dir", "allranks-chart-link", "allranks-chart-pipe"] == folders


def _group() -> str:
    """The other user's group, as a person reads it."""
    try:
        return grp.getgrgid(_OTHER).gr_name
    except KeyError:
        return str(_OTHER)


_HEAD = records.head(spec(), 1.0, {"token": _SECRET})


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_journal_that_another_has_made_ahead_is_not_written(shared: Path, form: str) -> None:
    """Values stand in it, and passwords may stand in them; nor is it gone on with."""
    path = shared / "s.db"
    make(path, 0o666)
    backend = backend_of(form.format(path), "s")
    for use in (lambda: Journal.create(backend, _HEAD), partial(Journal.open, backend)):
        with pytest.raises(InputError, match="is another user's, in a folder that all may write"):
            use()
    assert b"" == path.read_bytes()
    own = shared / "own.db"
    Journal.create(backend_of(form.format(own), "s"), _HEAD).close()
    assert "PermissionError" == error_name(own.read_bytes)
    assert "PermissionError" == error_name(lambda: own.write_bytes(b""))
    assert "PermissionError" == error_name(own.unlink)


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_journal_that_others_can_write_is_not_gone_on_with(shared: Path, form: str) -> None:
    """It is looked at, and its mode is the fix; a database may be shared on purpose."""
    path = shared / "s.db"
    backend = backend_of(form.format(path), "s")
    Journal.create(backend, _HEAD).close()
    for mode, who in ((0o666, "all users"), (0o660, f"the group {_group()}")):
        os.chown(path, 0, _OTHER)
        path.chmod(mode)
        with pytest.raises(InputError, match=f"can be written by {who}") as excinfo:
            Journal.open(backend)
        assert f"`chmod go-w {path}`" in excinfo.value.problem.hint
        assert "s" == read_state(backend).spec.name
    if form != "{}":
        assert "?shared=true" in excinfo.value.problem.hint
        Journal.open(backend_of(f"{form.format(path)}?shared=true", "s")).close()
    path.chmod(0o600)
    Journal.open(backend).close()


@pytest.mark.parametrize("kind", ["link", "folder"])
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_place_that_another_has_made_leads_to_no_journal(
    shared: Path, kind: str, form: str
) -> None:
    """Neither to a file of mine by a link, nor into a folder of theirs."""
    mine = shared / "mine"
    mine.mkdir(0o700)
    way = shared / "way"
    as_other(lambda: way.symlink_to(mine) if kind == "link" else way.mkdir(0o777))
    with pytest.raises(InputError, match=f"{way} is another user's, in a folder that all"):
        Journal.create(backend_of(form.format(way / "s.db"), "s"), _HEAD)
    assert [] == list(mine.iterdir())


def test_what_sqlite_would_read_beside_its_file_is_mine(shared: Path) -> None:
    """It takes back what stands in a journal of its own, whoever has left it there."""
    path = shared / "s.db"
    backend = backend_of(f"sqlite:///{path}", "s")
    Journal.create(backend, _HEAD).close()
    for end in ("-journal", "-wal"):
        make(shared / f"s.db{end}", 0o644)
        with pytest.raises(InputError, match=f"s.db{end} is another user's"):
            Journal.open(backend)
        (shared / f"s.db{end}").unlink()
    Journal.open(backend).close()


def test_a_folder_that_others_can_write_is_told_of(shared: Path) -> None:
    """What they put there is theirs and is refused; they can take a journal away all the same."""
    folder = shared / "project"
    path = folder / "sub" / "s.jsonl"
    path.parent.mkdir(0o700, parents=True)
    folder.chmod(0o777)
    Journal.create(backend_of(str(path), "s"), _HEAD).close()
    sentence = f"{folder} can be written by all users, who could take the sweep's journal away"
    assert [f"{sentence}: `chmod o-w {folder}`"] == storage_exposure.remarks(str(path))
    assert [f"{sentence}: `chmod o-w {folder}`"] == storage_exposure.remarks(f"sqlite:///{path}")
    assert [] == storage_exposure.remarks(f"sqlite:///{path}?shared=true")
    os.chown(folder, 0, _OTHER)
    folder.chmod(0o775)
    assert "`chmod g-w " in storage_exposure.remarks(str(path))[0]
    os.chown(folder, 0, 0)  # the system's own group
    assert [] == storage_exposure.remarks(str(path))
    (remark,) = storage_exposure.remarks(f"sqlite:///{shared}/s.db")
    assert f"all users can make files in {shared}, and SQLite believes one" in remark
    assert [] == storage_exposure.remarks(str(shared / "s.jsonl"))
    for where in ("secret:lab/s", "postgresql://me@host/db", str(shared / "nothing" / "s")):
        assert [] == storage_exposure.remarks(where)


def test_what_another_owns_is_judged_by_who_is_not_root(shared: Path) -> None:
    """A folder of theirs is told of, as a project may be in one; a file of theirs is refused."""
    shared.chmod(0o755)
    folder = shared / "theirs"
    folder.mkdir(0o755)
    (folder / "s").touch(0o644)
    for path in (folder, folder / "s"):
        os.chown(path, 1, 1)

    def judged() -> list[tuple[str, str, bool]]:
        return [
            (exposure.path.name, exposure.why, exposure.is_theirs)
            for exposure in trust.exposures(folder / "s")
        ]

    assert [] == judged()  # by root, who may use it
    assert [
        ["theirs", "is another user's folder", False],
        ["s", "is another user's file", True],
    ] == as_other(judged)


def test_a_group_of_one_is_nobody_else(shared: Path) -> None:
    """As most systems give each user: what it may write, its user alone may."""
    account = pwd.getpwall()
    own = next(
        user
        for user in account
        if user.pw_uid and grp.getgrgid(user.pw_gid).gr_name == user.pw_name
    )
    folder = shared / "mine"
    folder.mkdir()
    os.chown(folder, own.pw_uid, own.pw_gid)
    folder.chmod(0o775)
    assert [] == [exposure for exposure in trust.exposures(folder / "s") if exposure.path != folder]
    assert "" == trust.writers(folder.stat())
    os.chown(folder, own.pw_uid, _OTHER)
    assert f"the group {_group()}" == trust.writers(folder.stat())


def test_a_stranger_s_request_to_stop_is_none(shared: Path) -> None:
    """In a folder that all may write to, anybody can make the file that asks for it."""
    path = shared / "s.jsonl"
    with Journal.create(backend_of(str(path), "s"), _HEAD) as opened:
        make(shared / "s.jsonl.stop", 0o644)
        assert "" == opened.take_request()
        (shared / "s.jsonl.stop").unlink()
        assert request_stop(backend_of(str(path), "s"), "enough", 2.0)
        assert "enough" == opened.take_request()


def test_a_state_folder_behind_a_link_of_another_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could lead it elsewhere at any moment."""
    mine = shared / "mine"
    mine.mkdir(0o700)
    as_other(lambda: (shared / "way").symlink_to(mine))
    monkeypatch.setenv(names.ENV_STATE, str(shared / "way" / "state"))
    with pytest.raises(InputError, match="way is another user's, in a folder that all may"):
        store.root()


def test_a_port_that_another_holds_is_left_to_them(shared: Path) -> None:
    """Whether they listen on it, or claim it as a run does; nobody waits for them."""
    assert shared.exists()
    first = local_runs.free_port(30_500)
    with socket.socket() as listener, socket.socket(type=socket.SOCK_DGRAM) as claimed:
        listener.bind(("127.0.0.1", first))
        listener.listen()
        with suppress(OSError):
            claimed.bind(("127.0.0.1", first + 1))
        assert local_runs.free_port(first) > first + 1

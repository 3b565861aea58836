"""The user's folder of runs."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from allranks.errors import InputError
from allranks.local.host.addresses import Block
from allranks.local.state import store
from allranks.model.status import Phase, RunStatus

_SPEC = store.Spec(
    name="train",
    namespace="lab",
    manifests=[{"kind": "Job"}],
    workdir="/w",
    block=Block(3, 1),
    ports=(29500,),
    backoff_scale=0.1,
    grace=30.0,
    ttl=None,
    notes=("note",),
)
_STATUS = RunStatus("train", "lab", Phase.PENDING)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ALLRANKS_STATE": "/a/b", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/a/b"),
        ({"ALLRANKS_STATE": "", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/allranks"),
        ({"ALLRANKS_STATE": "", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/allranks"),
    ],
)
def test_where_the_folder_is(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """ALLRANKS_STATE, then XDG_STATE_HOME, then the home folder."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Path(expected) == store.root()


@pytest.mark.attack
@pytest.mark.parametrize(
    ("beside", "mode", "expected"),
    [
        ("runs", 0o755, 0o700),
        ("sweeps", 0o775, 0o700),
        ("runs", 0o750, 0o750),  # somebody has chosen that
        ("thesis.tex", 0o755, 0o755),  # it is more than ours
    ],
)
def test_a_folder_of_an_earlier_version_is_closed(
    state: Path, beside: str, mode: int, expected: int
) -> None:
    """Runs have Secrets in them; the next command that writes takes the others' rights away."""
    (state / beside).mkdir(parents=True)
    state.chmod(mode)
    assert expected == store.make_root().stat().st_mode & 0o777


def test_a_person_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container that the system does not know: the variable to set is named."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("ALLRANKS_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(InputError, match="HOME is not set") as refusal:
        store.root()
    assert "set HOME, or set ALLRANKS_STATE to a folder" == refusal.value.problem.hint


@pytest.mark.parametrize("path", ["/has space", "/a:b", "/a$b", "/a'b", "/a,b"])
def test_a_folder_that_scripts_would_break_on_is_refused(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Paths are written into scripts and path lists, so they need to be plain."""
    monkeypatch.setenv("ALLRANKS_STATE", path)
    with pytest.raises(InputError, match="ALLRANKS_STATE"):
        store.root()


def test_what_is_written_reads_back(state: Path) -> None:
    """Spec and status survive, in a folder that only its owner can read."""
    folder = store.run_folder("train", "lab")
    assert not folder.exists()
    folder.create(_SPEC, _STATUS)
    assert (_SPEC, _STATUS) == (folder.spec(), folder.status())
    assert folder.path.stat().st_mode & 0o077 == 0
    assert [folder] == list(store.run_folders())
    assert state / "volumes" / "lab" == folder.claims


def test_creating_replaces_what_an_ended_run_left() -> None:
    """A name that is used again starts from an empty folder."""
    folder = store.run_folder("train", "lab")
    folder.create(_SPEC, _STATUS)
    (folder.logs / "old.log").write_text("old")
    folder.create(_SPEC, _STATUS)
    assert list(folder.logs.iterdir()) == []


def test_a_folder_is_there_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes one may be killed within it: there is no run then, and what is left goes soon."""
    folder = store.run_folder("train", "lab")

    def die(_folder: store.RunFolder, _status: RunStatus) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(store.RunFolder, "write_status", die)
        with pytest.raises(KeyboardInterrupt):
            folder.create(_SPEC, _STATUS)
    assert not folder.path.exists()
    assert [] == list(store.run_folders())
    with store.registry():
        assert [] == list(folder.path.parent.iterdir())
    folder.create(_SPEC, _STATUS)
    assert _SPEC == folder.spec()


def test_a_run_lives_as_long_as_its_lock() -> None:
    """Whoever holds the lock is the run; looking does not disturb it."""
    folder = store.run_folder("train", "lab")
    assert not folder.alive()
    folder.create(_SPEC, _STATUS)
    assert not folder.alive()
    lock = folder.lock()
    assert folder.alive()
    assert not folder.wait_dead(0.0)
    os.close(lock)
    assert folder.wait_dead(None)


def test_removing_leaves_no_empty_folders(state: Path) -> None:
    """The last run of a namespace takes the namespace's folder with it."""
    folder = store.run_folder("train", "lab")
    folder.create(_SPEC, _STATUS)
    folder.remove()
    assert list((state / "runs").iterdir()) == []


def test_a_linked_claim_is_unlinked_only(tmp_path: Path) -> None:
    """A user may link a claim to data of theirs, which is theirs."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "claim").symlink_to(mine)
    store.remove_tree(tmp_path / "claim")
    assert mine.is_dir()
    assert not (tmp_path / "claim").exists()


@pytest.mark.attack
@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "A", "a_b", "-a"])
def test_names_cannot_lead_elsewhere(name: str) -> None:
    """A name or namespace that is none is refused before it becomes a path."""
    with pytest.raises(InputError, match="is not a name"):
        store.run_folder(name, "lab")
    with pytest.raises(InputError, match="is not a namespace"):
        store.run_folder("train", name)


def test_runs_are_listed_while_others_come_and_go() -> None:
    """The folder of a namespace goes with its last run, also under the eyes of who looks."""

    def come_and_go() -> None:
        folder = store.run_folder("train", "lab")
        for _ in range(300):
            folder.path.mkdir(parents=True)
            folder.remove()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(come_and_go)
        while not future.done():
            assert [] == list(store.run_folders())
        future.result()

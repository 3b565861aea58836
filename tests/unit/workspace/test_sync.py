"""Newer code for the pods of a run: all of them or none, and never two codes in one training."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, NotFoundError, RunError
from allranks.workspace import archive as archives
from allranks.workspace import snapshot as snapshots
from allranks.workspace import sync
from allranks.workspace.model import Archive
from allranks.workspace.sync import Offer, Published
from tests import workspaces
from tests.modules import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHARTS = Path(__file__).parents[3] / "charts"


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """sync.py with workspace.py beside it, as they lie in a pod."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in ("sync.py", "workspace.py"):
            shutil.copy(CHARTS / "library/files" / source, folder)
        yield load(folder / "sync.py")


def _archive(number: int) -> Archive:
    files = {"number.txt": str(number), f"only-{number}.txt": "", "sub/x": "x"}
    # The same size, and maybe the same second: Python would take what it has compiled before.
    modules = {"sub/same.py": "x = 0\n", "sub/other.py": f"x = {number}\n"}
    data = workspaces.pack({**files, **modules})
    return Archive(data, "gzip", workspaces.sha256(data))


def _offer(generation: int, number: int | None = None) -> Offer:
    archive = _archive(generation if number is None else number)
    return Offer(generation, archive.digest, archive)


@dataclass
class _FakePod:
    """A pod whose launcher and kubelet are steps of a test; its half of a sync is the real one."""

    program: Any
    name: str
    root: Path
    run: _FakeRun
    is_full: bool = False
    is_gone: bool = False

    def __post_init__(self) -> None:
        (self.root / "mount").mkdir(parents=True)
        (self.root / "state/code").mkdir(parents=True)
        self.look()
        self.workspace = self.program.Workspace(
            {
                "ALLRANKS_WORKSPACE_STATE": str(self.root / "state"),
                "ALLRANKS_WORKSPACE_FOLDER": str(self.root / "state/code"),
                "ALLRANKS_WORKSPACE_SYNC": str(self.root / "mount"),
            }
        )
        self.start()

    def look(self) -> None:
        """The kubelet renews the ConfigMap."""
        if self.run.offer is not None:
            (self.root / "mount/archive.0").write_bytes(self.run.offer.archive.data)
            (self.root / "mount/offer.json").write_text(self.run.offer.text())

    def start(self) -> None:
        """entry.sh: have the newest code, else what the job was started with."""
        digest, _ = self.program.settle(self.workspace)
        if not digest and not (self.root / "state/digest").exists():
            (self.root / "mount/../state/code/number.txt").write_text("0")
            (self.root / "state/digest").write_text("sha256:" + "0" * 64 + "\n")
        self.trains = digest or "sha256:" + "0" * 64

    def step(self) -> None:
        """The launcher sees newer code, ends its ranks and starts over."""
        offer = self.workspace.newest()
        if offer is None or offer.generation <= self.workspace.active():
            return
        if not self.workspace.is_staged(offer):
            self.workspace.stage(offer, self.workspace.mount)
        self.trains = ""
        self.workspace.install(offer)
        self.start()

    @property
    def number(self) -> str:
        """Which code lies in its folder."""
        return (self.root / "state/code/number.txt").read_text()

    def call(self, words: tuple[str, ...], data: bytes, _seconds: float) -> bytes:
        """See `SyncPod`."""
        with self.run.lock:
            return self._answer(words, data)

    def _answer(self, words: tuple[str, ...], data: bytes) -> bytes:
        self.run.interrupt()
        if self.is_gone:
            raise NotFoundError(f"pod {self.name} is gone")
        if words[0] == "receive":
            problem = self.program.receive(self.workspace, io.BytesIO(data))
            if self.is_full and not problem:
                self.workspace.drop(int(json.loads(data.split(b"\n")[0])["generation"]))
                problem = "No space left on device"
        elif words[0] == "activate":
            offer = self.program.staged(self.workspace, int(words[1]), words[2])
            problem = ""
            if offer is not None:
                self.program.write(self.workspace.wanted_path, offer.text())
                self.step()
            elif self.workspace.active() < int(words[1]):
                problem = f"generation {words[1]} was not received here"
        else:
            self.workspace.drop(int(words[1]))
            problem = ""
        return json.dumps({"problem": problem}).encode()


@dataclass
class _FakeRun:
    """A run whose pods come and go as a test says."""

    program: Any
    root: Path
    offer: Offer | None = None
    alive: dict[str, _FakePod] = field(default_factory=dict)
    interruptions: list[Callable[[], None]] = field(default_factory=list)
    pod_count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self) -> None:
        """A pod is made."""
        self.pod_count += 1
        pod = _FakePod(self.program, f"pod-{self.pod_count}", self.root / str(self.pod_count), self)
        self.alive[str(self.pod_count)] = pod

    def lose(self, index: int) -> None:
        """A pod is lost, and another one made in its place."""
        uid = sorted(self.alive)[index % len(self.alive)]
        self.alive.pop(uid).is_gone = True
        self.add()

    def interrupt(self) -> None:
        """What happens meanwhile."""
        if self.interruptions:
            self.interruptions.pop()()

    def pods(self) -> dict[str, _FakePod]:
        """See `SyncTarget`."""
        return dict(self.alive)

    def published(self) -> Published:
        """See `SyncTarget`."""
        if self.offer is None:
            return Published(0, "", "")
        return Published(self.offer.generation, self.offer.digest, self.offer.archive.digest)

    def publish(self, offer: Offer) -> None:
        """See `SyncTarget`."""
        self.interrupt()
        self.offer = offer

    def check(self) -> None:
        """Pods that could meet in one rendezvous, whose id has the digest, have one code."""
        by_rendezvous: dict[str, set[str]] = {}
        for pod in filter(lambda pod: pod.trains, self.alive.values()):
            by_rendezvous.setdefault(pod.trains, set()).add(pod.number)
        assert [1] * len(by_rendezvous) == [len(codes) for codes in by_rendezvous.values()]


@pytest.fixture
def fake_run(program: Any, tmp_path: Path) -> _FakeRun:
    """A run of three pods."""
    run = _FakeRun(program, tmp_path)
    for _ in range(3):
        run.add()
    return run


def _deliver(run: _FakeRun, offer: Offer) -> int:
    return sync.deliver(run, offer, seconds=5, say=lambda _: None)


def test_all_pods_get_the_newer_code_and_lose_the_older(fake_run: _FakeRun) -> None:
    """A file that is not sent again goes; what the program wrote beside it stays."""
    own = fake_run.root / "1/state/code/own.txt"
    own.write_text("of the program")

    assert _deliver(fake_run, _offer(1)) == 3
    assert _deliver(fake_run, _offer(2)) == 3

    assert ["2"] * 3 == [pod.number for pod in fake_run.alive.values()]
    code = fake_run.root / "1/state/code"
    assert {"number.txt", "only-2.txt", "own.txt", "sub"} == {path.name for path in code.iterdir()}


def test_what_is_compiled_of_a_file_goes_with_it(fake_run: _FakeRun) -> None:
    """A file that is the same keeps its time and what is compiled of it; that of others goes."""
    _deliver(fake_run, _offer(1))
    code = fake_run.root / "1/state/code/sub"
    (code / "__pycache__").mkdir()
    for name in ("same", "other", "own"):
        (code / f"__pycache__/{name}.cpython-311.pyc").write_text("")
    os.utime(code / "same.py", (1, 1))

    _deliver(fake_run, _offer(2))

    stems = {path.name.partition(".")[0] for path in (code / "__pycache__").iterdir()}
    assert ({"same", "own"}, 1) == (stems, (code / "same.py").stat().st_mtime)
    assert "x = 2\n" == (code / "other.py").read_text()


def test_a_pod_without_room_keeps_all_as_they_are(fake_run: _FakeRun) -> None:
    """Where one pod cannot unpack the code, none takes it, and nothing is published."""
    fake_run.alive["2"].is_full = True

    with pytest.raises(RunError) as error:
        _deliver(fake_run, _offer(1))

    assert "nothing was changed: pod-2: No space left on device" == error.value.problem.message
    assert ["0"] * 3 == [pod.number for pod in fake_run.alive.values()]
    assert fake_run.published().generation == 0
    assert not list(fake_run.root.glob("*/state/sync/1"))


def test_a_run_without_pods_is_refused(program: Any, tmp_path: Path) -> None:
    """Nothing is sent to a run none of whose pods runs."""
    with pytest.raises(InputError, match="no pod of the run is running"):
        _deliver(_FakeRun(program, tmp_path), _offer(1))


def test_a_file_that_is_the_same_stays_and_none_of_another_folder_is_taken(
    fake_run: _FakeRun, tmp_path: Path
) -> None:
    """It is linked in place of being written; through a link in the code nothing is."""
    pod = next(iter(fake_run.alive.values()))
    _deliver(fake_run, _offer(1))
    code = pod.workspace.state / "code"
    same = code / "sub/x"
    number = same.stat().st_ino
    _deliver(fake_run, _offer(2))
    assert number == same.stat().st_ino
    (code / "sub").rename(tmp_path / "elsewhere")
    (code / "sub").symlink_to(tmp_path / "elsewhere")
    assert "" == pod.program.receive(pod.workspace, io.BytesIO(_offer(3).message()))
    staged = pod.workspace.of(3) / "tree/sub/x"
    assert (same.read_text(), 1) == (staged.read_text(), staged.stat().st_nlink)


def test_a_pod_whose_training_has_ended_takes_nothing(fake_run: _FakeRun) -> None:
    """Its container goes on, as in a StatefulSet; no rank would ever run the code."""
    pod = next(iter(fake_run.alive.values()))
    pod.workspace.finished_path.touch()
    with pytest.raises(RunError, match="its training has ended"):
        _deliver(fake_run, _offer(1))
    assert {"0"} == {pod.number for pod in fake_run.alive.values()}


def test_what_is_unpacked_can_be_read_by_other_users(program: Any, fake_run: _FakeRun) -> None:
    """As when it was unpacked first, whatever umask the pod has; the pod keeps that."""
    pod = next(iter(fake_run.alive.values()))
    before = os.umask(0o077)
    try:
        message = _offer(1).message()
        assert "" == program.receive(pod.workspace, io.BytesIO(message))
        assert 0o077 == os.umask(0o077)
    finally:
        os.umask(before)
    tree = pod.workspace.of(1) / "tree"
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tree.rglob("*")}
    assert ("0o755", "0o644") == (modes["sub"], modes["number.txt"])


@pytest.mark.parametrize("parts", [1, archives.PARTS_MAX])
def test_an_archive_that_no_config_map_holds_is_refused(tmp_path: Path, parts: int) -> None:
    """A sync brings what one ConfigMap holds; what takes most of a larger one is named."""
    noise = random.Random(3)  # noqa: S311 - contents that do not compress
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.bin").write_bytes(noise.randbytes(parts * archives.PART_BYTES + 1))
    with pytest.raises(InputError, match="a sync brings at most") as caught:
        sync.pack(snapshots.take(tmp_path))
    assert "the largest folders: data/ (" in caught.value.problem.message
    assert "the line `/data/`" in caught.value.problem.hint


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "what was sent is no offer of a workspace"),
        (b"{}\n", "what was sent is no offer of a workspace"),
        (b"[" * 4000 + b"\n", "what was sent is no offer of a workspace"),
        (_offer(1).message()[:-1], "the stream ended 1 bytes too early"),
        (_offer(1).message().replace(b'"size": ', b'"size": 9999999'), "cannot be synced"),
    ],
    ids=["nothing", "empty", "deep", "short", "large"],
)
def test_a_broken_stream_changes_nothing(
    fake_run: _FakeRun, program: Any, message: bytes, problem: str
) -> None:
    """A pod says what is wrong with what it was sent, and keeps nothing of it."""
    pod = fake_run.alive["1"]
    assert problem in program.receive(pod.workspace, io.BytesIO(message))
    assert [] == list((pod.root / "state/sync").iterdir())


@settings(max_examples=60)
@given(
    losses=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=5),
    looks=st.lists(st.integers(0, 12), max_size=4),
    syncs=st.integers(1, 3),
    full=st.sampled_from([None, None, 0, 1, 2]),
)
def test_pods_with_different_code_never_train_together(
    program: Any,
    losses: list[tuple[int, int]],
    looks: list[int],
    syncs: int,
    full: int | None,
) -> None:
    """Whatever is lost and made between any two calls, in the end all have one code, old or new."""
    with tempfile.TemporaryDirectory() as name:
        run = _FakeRun(program, Path(name))
        for _ in range(3):
            run.add()
        for generation in range(1, syncs + 1):
            events: list[Callable[[], None]] = [run.check] * 13
            for at, index in losses:
                events[at] = lambda index=index: (run.lose(index), run.check())  # type: ignore[misc]
            for at in looks:
                events[at] = lambda: ([pod.look() for pod in run.alive.values()], run.check())  # type: ignore[func-returns-value]
            run.interruptions = events
            pods = list(run.alive.values())
            if full is not None:
                pods[full].is_full = True
            before = run.published().generation
            try:
                _deliver(run, _offer(before + 1, number=generation))
            except RunError:
                assert before == run.published().generation
            run.interruptions = []
            for pod in run.alive.values():
                pod.is_full = False
                pod.look()
                pod.step()
            run.check()
            assert len({pod.number for pod in run.alive.values()}) == 1


def test_the_id_of_the_rendezvous_has_the_digest_of_newer_code() -> None:
    """Nodes with newer code meet under another id than those with the job's own.

    The launcher has read its settings by the time newer code comes.
    """
    launch = load(CHARTS / "torchrun/files/launch.py")
    env = {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ID": "big",
        "ALLRANKS_RANK0_HOST": "big-0.big",
        "PET_LOCAL_ADDR": "big-0.big",
        "ALLRANKS_WORKSPACE_DIGEST": "sha256:" + "0123456789abcdef" * 4,
    }
    own = ["--rdzv-conf", "is_host=1"]
    settings = launch.LauncherSettings(env)
    assert own == launch.node_options(settings, env)
    env["ALLRANKS_WORKSPACE_GENERATION"] = "3"
    newer = ["--rdzv-id", "big-0123456789ab"]
    assert [*newer, *own] == launch.node_options(settings, env)

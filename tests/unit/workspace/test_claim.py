"""A claim that is filled through a pod: on a cluster that pretends, with the real program."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cluster import paths
from allranks.errors import (
    BusyError,
    ExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.workspace import claim, claim_pod, record
from allranks.workspace.model import Archive, SnapshotDestination

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Snapshot

VALUES = {
    "image": {"repository": "my/trainer", "tag": "1", "digest": ""},
    "imagePullSecrets": ["pull"],
    "security": {"restricted": True, "podSecurityContext": {"fsGroup": 1000}},
    "scheduling": {"tolerations": [{"operator": "Exists"}]},
}
DESTINATION = SnapshotDestination(claim="code", pod=VALUES)


@dataclass
class FakeCluster:
    """A namespace with claims, and pods that run the program on a folder of this machine.

    Attributes:
        folder: the claim.
        modes: its access modes.
        pods: by their names.
        questions: what the program was asked to do.
        status: of a pod that was made.
        before_ask: called before each question.
        path: the PATH of the image.
        claim: the name of the claim that is there.
    """

    folder: Path
    modes: list[str] = field(default_factory=lambda: ["ReadWriteMany"])
    pods: dict[str, Manifest] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    status: Manifest = field(default_factory=lambda: {"phase": "Running"})
    before_ask: Callable[[str], None] = lambda _: None
    path: str = ""
    where: str = "context fake at nowhere"
    created: int = 0
    claim: str = "code"

    def get(self, path: str, name: str, *, namespace: str = "", **_: Any) -> Manifest:
        """An object."""
        assert "lab" == namespace
        if path == paths.CLAIMS and name == self.claim:
            return {"metadata": {"name": name}, "spec": {"accessModes": self.modes}}
        if path == paths.PODS and name in self.pods:
            return self.pods[name]
        raise NotFoundError(f"there is no {name}")

    def list(self, path: str, **_: Any) -> list[Manifest]:
        """The claims."""
        assert paths.CLAIMS == path
        return [{"metadata": {"name": name}} for name in ("code", "data")]

    def create(self, path: str, body: Manifest, *, namespace: str = "", **_: Any) -> Manifest:
        """A pod."""
        assert (paths.PODS, "lab") == (path, namespace)
        name = body["metadata"]["name"]
        if name in self.pods:
            raise ExistsError("is there")
        self.created += 1
        self.pods[name] = copy.deepcopy(body) | {"status": self.status}
        self.pods[name]["metadata"] |= {
            "uid": f"uid-{self.created}",
            "creationTimestamp": "2999-01-01T00:00:00Z",
        }
        return self.pods[name]

    def delete(self, path: str, name: str, *, namespace: str = "", **_: Any) -> bool:
        """Delete a pod."""
        assert (paths.PODS, "lab") == (path, namespace)
        return self.pods.pop(name, None) is not None

    def ask(self, pod: str, command: Sequence[str], data: bytes, *, end: bytes, **_: Any) -> bytes:
        """Run a program in the pod."""
        self.get(paths.PODS, pod, namespace="lab")
        words = [word.replace("/claim/", f"{self.folder}/") for word in command]
        self.questions.append(words[4])
        self.before_ask(words[4])
        env = {"PATH": self.path} if self.path else None
        shell = shutil.which("sh")
        assert shell is not None
        result = subprocess.run(
            [shell, *words[1:]], input=data, capture_output=True, check=False, env=env
        )
        answer, _, rest = result.stdout.partition(end + b"\n")
        assert b"" == rest
        if end not in result.stdout:
            raise RunError("the program has ended")
        return answer


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """A cluster with an empty claim."""
    folder = tmp_path / "claim"
    folder.mkdir()
    return FakeCluster(folder)


@pytest.fixture
def send(cluster: FakeCluster, snapshot: Snapshot, archive: Archive) -> Callable[..., bool]:
    """Sends the snapshot to the claim."""

    def send(nodes: int = 1, destination: SnapshotDestination = DESTINATION) -> bool:
        return claim.fill(
            cluster,  # type: ignore[arg-type]
            "lab",
            snapshot,
            archive,
            destination,
            nodes=nodes,
        )

    return send


def image_with(tmp_path: Path, programs: str) -> str:
    """The PATH of an image that has these programs, and those to move files."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in (*programs.split(), "mkdir", "mv", "rm"):
        path = sys.executable if program == "python3" else shutil.which(program)
        (folder / program).write_text(f'#!/bin/sh\nexec {path} "$@"\n', encoding="utf-8")
        (folder / program).chmod(0o755)
    return str(folder)


def files(cluster: FakeCluster) -> list[Path]:
    """All files of the claim."""
    return [path for path in cluster.folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("programs", ["python3", "head sha256sum"])
def test_the_archive_is_on_the_claim_and_the_pod_is_gone(  # noqa: PLR0917 - fixtures
    cluster: FakeCluster,
    send: Callable[..., bool],
    snapshot: Snapshot,
    archive: Archive,
    tmp_path: Path,
    programs: str,
) -> None:
    """With the image's Python, or with its coreutils; the second time nothing is written."""
    cluster.path = image_with(tmp_path, programs)
    assert send()
    file = cluster.folder / claim.folder(snapshot, archive) / "archive.0"
    assert [file] == files(cluster)
    assert archive.data == file.read_bytes()
    assert {} == cluster.pods
    cluster.questions.clear()
    assert not send()
    assert ["look"] == cluster.questions
    assert {} == cluster.pods


def test_what_is_there_and_broken_is_written_again(
    cluster: FakeCluster, send: Callable[..., bool], snapshot: Snapshot, archive: Archive
) -> None:
    """By its digest, not by its name; what a killed sender has left goes."""
    folder = cluster.folder / claim.folder(snapshot, archive)
    folder.mkdir()
    (folder / "archive.0").write_bytes(archive.data[:-1])
    (folder / ".archive.77.part").write_bytes(b"half")
    assert send()
    assert [folder / "archive.0"] == files(cluster)
    assert archive.data == (folder / "archive.0").read_bytes()


def job_of(snapshot: Snapshot, archive: Archive) -> Manifest:
    """The Job of a run whose code is on the claim, as the charts render it."""
    trainer = {
        "name": "trainer",
        "image": "my/trainer:1",
        "imagePullPolicy": "Always",
        "env": [
            {"name": "ALLRANKS_WORKSPACE_ARCHIVE_DIGEST", "value": archive.digest},
            {"name": "ALLRANKS_WORKSPACE_COMPRESSION", "value": archive.compression},
        ],
        "volumeMounts": [
            {"name": "workspace-archive", "subPath": claim.folder(snapshot, archive)},
        ],
    }
    pod = {
        "securityContext": {"runAsNonRoot": True, "fsGroup": 1000},
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"operator": "Exists"}],
        "containers": [trainer],
        "volumes": [
            {"name": "workspace-archive", "persistentVolumeClaim": {"claimName": "code"}},
        ],
    }
    annotations = {names.WORKSPACE_DIGEST: snapshot.digest}
    return {
        "kind": "Job",
        "metadata": {"name": "study", "annotations": annotations},
        "spec": {"template": {"spec": pod}},
    }


@pytest.fixture
def read_back(cluster: FakeCluster, snapshot: Snapshot, archive: Archive) -> Callable[[], Archive]:
    """Reads the code of the run from the claim, as `show --code` does."""
    job = job_of(snapshot, archive)

    def read_back() -> Archive:
        code, pod = record.of_objects([job]), record.pod_of([job])
        return claim.read(cluster, "lab", code, pod)  # type: ignore[arg-type]

    return read_back


@pytest.mark.parametrize("programs", ["python3", "tail head wc sha256sum"])
def test_a_run_gives_its_code_back_from_the_claim(  # noqa: PLR0917 - fixtures
    cluster: FakeCluster,
    send: Callable[..., bool],
    read_back: Callable[[], Archive],
    archive: Archive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: str,
) -> None:
    """In pieces, by a pod that mounts the claim read-only and is gone afterwards."""
    cluster.path = image_with(tmp_path, programs)
    send()
    cluster.questions.clear()
    monkeypatch.setattr(claim, "_PIECE_BYTES", 100)
    pieces = -(-len(archive.data) // 100)
    bodies: list[Manifest] = []
    create = cluster.create
    monkeypatch.setattr(
        cluster,
        "create",
        lambda path, body, **more: bodies.append(body) or create(path, body, **more),
    )
    assert archive == read_back()
    assert ["size", *["read"] * pieces] == cluster.questions
    assert {} == cluster.pods
    (body,) = bodies
    (container,) = body["spec"]["containers"]
    assert body["metadata"]["name"].endswith("-read")
    assert [{"name": "claim", "mountPath": "/claim", "readOnly": True}] == container["volumeMounts"]
    assert ("my/trainer:1", "Always") == (container["image"], container["imagePullPolicy"])
    assert [{"name": "pull"}] == body["spec"]["imagePullSecrets"]
    assert (True, 1000) == (
        body["spec"]["securityContext"]["runAsNonRoot"],
        body["spec"]["securityContext"]["fsGroup"],
    )


def test_code_that_is_gone_or_changed_is_said(
    cluster: FakeCluster,
    send: Callable[..., bool],
    read_back: Callable[[], Archive],
    snapshot: Snapshot,
    archive: Archive,
) -> None:
    """Whoever has removed the folder, the file's bytes, or the claim; the pod goes all the same."""
    file = cluster.folder / claim.folder(snapshot, archive) / "archive.0"
    with pytest.raises(RunError, match="the code is no longer in folder") as caught:
        read_back()
    assert "are still recorded" in caught.value.problem.hint
    send()
    file.write_bytes(archive.data[:-1])
    with pytest.raises(RunError, match="has the digest"):
        read_back()
    assert {} == cluster.pods
    os.truncate(file, 1 << 40)
    with pytest.raises(RunError, match="holds no archive that can be read"):
        read_back()
    cluster.claim = "another"
    with pytest.raises(RunError, match="claim code is no longer in namespace lab"):
        read_back()


def test_who_may_make_no_pod_is_told_of_one_that_has_the_code(
    cluster: FakeCluster, read_back: Callable[[], Archive], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right to ask for, and the command that reads it from a pod of the run."""

    def refuse(*_: Any, **__: Any) -> Manifest:
        raise ForbiddenError("you may not create pods")

    monkeypatch.setattr(cluster, "create", refuse)
    with pytest.raises(ForbiddenError, match="cannot be read by a pod: you may not") as caught:
        read_back()
    assert "kubectl exec -n lab POD -- cat" in caught.value.problem.hint


@pytest.mark.parametrize("programs", ["python3", "head sha256sum"])
def test_a_connection_that_ends_early_leaves_nothing(
    cluster: FakeCluster, archive: Archive, tmp_path: Path, programs: str
) -> None:
    """The program knows how much comes; half of it gets no name."""
    cluster.path = image_with(tmp_path, programs)
    digest = hashlib.sha256(archive.data).hexdigest()
    words = ("fill", "/claim/x", str(len(archive.data)), digest)
    cluster.pods["ws"] = {}
    answer = cluster.ask(
        "ws",
        ["sh", "-c", claim._PROGRAM, "claim", *words],
        archive.data[:-1],
        end=claim_pod.END.encode(),
    )
    assert answer.startswith((b"failed: the connection was lost", b"differs: "))
    assert [] == files(cluster)


def test_a_claim_that_nobody_may_write_to_says_how(
    cluster: FakeCluster, send: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words, with the value to set; the pod goes all the same."""
    cases = {
        "failed: mkdir: cannot create directory: Permission denied": "may not write",
        "failed: OSError: [Errno 28] No space left on device": "is full",
        "differs: 00": "what arrived is not what was sent",
    }
    for line, words in cases.items():
        answers = iter(["absent\n", f"{line}\n"])
        monkeypatch.setattr(cluster, "ask", lambda *_, a=answers, **__: next(a).encode())
        with pytest.raises(RunError, match=words):
            send()
        assert {} == cluster.pods


def test_the_pod_is_a_restricted_one(snapshot: Snapshot, archive: Archive) -> None:
    """The job's image, pull secrets, tolerations and security; no token, and an end of its own."""
    body = claim.pod(snapshot, archive, DESTINATION)
    spec = body["spec"]
    (container,) = spec["containers"]
    assert f"{snapshot.name}-fill" == body["metadata"]["name"]
    assert "my/trainer:1" == container["image"]
    assert [{"name": "pull"}] == spec["imagePullSecrets"]
    assert [{"operator": "Exists"}] == spec["tolerations"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["activeDeadlineSeconds"] > 0
    assert {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 1000,
    } == spec["securityContext"]
    assert {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    } == container["securityContext"]
    root = SnapshotDestination(claim="code", pod={**VALUES, "security": {"restricted": False}})
    assert "runAsNonRoot" not in claim.pod(snapshot, archive, root)["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("modes", "nodes", "is_refused"),
    [
        (["ReadWriteMany"], 2, False),
        (["ReadWriteOnce", "ReadWriteMany"], 2, False),
        (["ReadWriteOnce"], 1, False),
        (["ReadWriteOnce"], 2, True),
        (["ReadWriteOncePod"], 2, True),
        (["ReadOnlyMany"], 1, True),
    ],
)
def test_a_claim_has_to_be_mounted_by_all_nodes(
    cluster: FakeCluster, send: Callable[..., bool], modes: list[str], nodes: int, is_refused: bool
) -> None:
    """Said before a pod is made; pods of a second node would wait for ever."""
    cluster.modes = modes
    if not is_refused:
        assert send(nodes)
        return
    with pytest.raises(InputError, match=f"claim code is {modes[0]}") as caught:
        send(nodes)
    assert "ReadWriteMany" in caught.value.problem.hint
    assert 0 == cluster.created


def test_a_claim_that_is_not_there_has_the_nearest_named(
    cluster: FakeCluster, send: Callable[..., bool]
) -> None:
    """Nothing is made for it."""
    with pytest.raises(InputError, match="there is no claim cod in namespace lab") as caught:
        send(destination=SnapshotDestination(claim="cod", pod=VALUES))
    assert "did you mean code?" == caught.value.problem.hint
    assert 0 == cluster.created


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, BusyError])
def test_an_interruption_takes_the_pod_along(
    cluster: FakeCluster, send: Callable[..., bool], interruption: type[BaseException]
) -> None:
    """Ctrl-C while the archive is on its way."""

    def interrupt(question: str) -> None:
        if question == "fill":
            raise interruption("now")

    cluster.before_ask = interrupt
    with pytest.raises(interruption):
        send()
    assert {} == cluster.pods


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"phase": "Failed"}},
        {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}},
        {"spec": {"containers": [{"image": "another"}]}},
    ],
)
def test_what_a_killed_sender_has_left_is_replaced(
    cluster: FakeCluster,
    send: Callable[..., bool],
    snapshot: Snapshot,
    archive: Archive,
    change: Manifest,
) -> None:
    """A pod that has ended, that is old, or that has another image."""
    old_pod = cluster.create(paths.PODS, claim.pod(snapshot, archive, DESTINATION), namespace="lab")
    for key, value in change.items():
        old_pod[key] = {**old_pod[key], **value}
    assert send()
    assert 2 == cluster.created
    assert {} == cluster.pods


def test_two_senders_share_a_pod(
    cluster: FakeCluster, send: Callable[..., bool], snapshot: Snapshot, archive: Archive
) -> None:
    """And where one ends it under the other, that one makes another."""
    cluster.create(paths.PODS, claim.pod(snapshot, archive, DESTINATION), namespace="lab")
    interruptions = ["fill"]

    def interrupt(question: str) -> None:
        if question in interruptions:
            interruptions.remove(question)
            cluster.pods.clear()
            raise RunError("the connection to the program was lost")

    cluster.before_ask = interrupt
    assert send()
    assert (2, {}) == (cluster.created, cluster.pods)


def test_a_pod_of_somebody_else_stays(
    cluster: FakeCluster, send: Callable[..., bool], snapshot: Snapshot
) -> None:
    """Only its name is ours."""
    name = f"{snapshot.name}-fill"
    cluster.pods[name] = {"metadata": {"name": name}}
    with pytest.raises(InputError, match="was made for something else"):
        send()
    assert [name] == list(cluster.pods)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "message": "no such image"},
        {
            "phase": "Pending",
            "containerStatuses": [
                {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
            ],
        },
    ],
)
def test_a_pod_that_cannot_start_says_why(
    cluster: FakeCluster, send: Callable[..., bool], status: Manifest
) -> None:
    """In the kubelet's words; the pod goes."""
    cluster.status = status
    with pytest.raises(RunError, match="cannot start: no such image"):
        send()
    assert {} == cluster.pods


def test_a_pod_that_no_node_takes_says_why(
    cluster: FakeCluster, send: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its time is over, in the scheduler's words."""
    monkeypatch.setattr(claim_pod, "START_SECONDS", 0.0)
    message = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    cluster.status = {"phase": "Pending", "conditions": [condition]}
    with pytest.raises(RunError, match="1 Insufficient cpu"):
        send()
    assert {} == cluster.pods

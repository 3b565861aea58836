"""Volumes as folders and files."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError
from allranks.local.plan.expand import expand
from allranks.local.plan.rewrite import Names, Rewriter
from allranks.local.pod.env import PlacedPod
from allranks.local.pod.volumes import ContainerMounts, VolumeFolders

if TYPE_CHECKING:
    from conftest import Manifests

_REWRITER = Rewriter(Names({"train-0": "127.9.9.9"}, {}), {"/data": "/local"})


class Box:
    """A container with one volume, mounted at /m."""

    def __init__(
        self,
        tmp_path: Path,
        manifests: Manifests,
        source: dict[str, Any],
        *documents: dict[str, Any],
        **mount: Any,
    ) -> None:
        """Build the pod around the volume."""
        mounts = [{"name": "v", "mountPath": "/m", **mount}]
        pod = {
            "volumes": [{"name": "v", **source}],
            "containers": [
                manifests.container("a", volumeMounts=mounts),
                manifests.container("b", volumeMounts=mounts),
            ],
        }
        job = manifests.job(pod=pod, labels={"team": "blue"})
        self.release = expand([job, *documents], name="train", namespace="lab")
        self.folders = VolumeFolders(tmp_path / "pod", tmp_path / "claims", tmp_path / "configmaps")
        self.pod = PlacedPod(self.release.pods[0], "uid", "127.9.9.9")

    def mounts(self, container: int = 0) -> ContainerMounts:
        """What one of the two containers mounts."""
        return ContainerMounts(
            self.release, self.pod, self.pod.plan.containers[container], self.folders
        )

    def make(self, scope: dict[str, str] | None = None) -> str:
        """Create it, and return where /m is."""
        self.mounts().check()
        self.mounts().materialise(scope or {}, _REWRITER)
        return self.mounts().paths(scope or {})["/m"]


def _read(path: str) -> dict[str, tuple[str, int]]:
    return {
        str(file.relative_to(path)): (file.read_text(), stat.S_IMODE(file.stat().st_mode))
        for file in Path(path).rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("source", [{"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {}])
def test_empty_folders_are_shared_by_the_pods_containers(
    tmp_path: Path, manifests: Manifests, source: dict[str, Any]
) -> None:
    """An emptyDir is one folder for all containers of the pod, and goes with the pod."""
    box = Box(tmp_path, manifests, source)
    path = box.make()
    assert path == box.mounts(1).paths({})["/m"]
    assert path.startswith(str(box.folders.pod))
    assert _read(path) == {}


def test_claims_outlive_the_pod(tmp_path: Path, manifests: Manifests) -> None:
    """A claim is a folder outside the pod's, by its name, and keeps what is in it."""
    box = Box(tmp_path, manifests, {"persistentVolumeClaim": {"claimName": "ckpt"}})
    path = box.make()
    assert str(tmp_path / "claims" / "ckpt") == path
    (tmp_path / "claims" / "ckpt" / "epoch-1").write_text("weights")
    assert "epoch-1" in _read(box.make())


def test_sub_paths(tmp_path: Path, manifests: Manifests) -> None:
    """A subPath is a folder in the volume; an expression may refer to variables."""
    claim = {"persistentVolumeClaim": {"claimName": "ckpt"}}
    plain = Box(tmp_path, manifests, claim, subPath="runs/a")
    assert str(tmp_path / "claims" / "ckpt" / "runs" / "a") == plain.make()
    expression = Box(tmp_path, manifests, claim, subPathExpr="runs/$(POD)")
    assert expression.make({"POD": "t-1"}).endswith("/runs/t-1")
    assert (tmp_path / "claims" / "ckpt" / "runs" / "t-1").is_dir()


@pytest.mark.attack
@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b"])
def test_a_sub_path_cannot_leave_its_volume(
    tmp_path: Path, manifests: Manifests, path: str
) -> None:
    """A subPath that leads outside is refused."""
    with pytest.raises(InputError, match="leaves its volume"):
        Box(tmp_path, manifests, {"emptyDir": {}}, subPath=path).make()


def test_host_paths_are_the_machines_own(tmp_path: Path, manifests: Manifests) -> None:
    """A hostPath is that path."""
    box = Box(tmp_path, manifests, {"hostPath": {"path": str(tmp_path / "mine")}})
    assert str(tmp_path / "mine") == box.make()


def test_configmaps_are_files_and_rewritten(tmp_path: Path, manifests: Manifests) -> None:
    """Each key is a file with its mode, and text in it reads as args do."""
    box = Box(
        tmp_path,
        manifests,
        {
            "configMap": {
                "name": "c",
                "defaultMode": 0o555,
                "items": [
                    {"key": "run", "path": "bin/run.sh"},
                    {"key": "note", "path": "note", "mode": 0o400},
                ],
            }
        },
        manifests.data("ConfigMap", "c", data={"run": "ls /data train-0", "note": "x", "no": "y"}),
    )
    expected = {"bin/run.sh": ("ls /local 127.9.9.9", 0o555), "note": ("x", 0o400)}
    assert expected == _read(box.make())


def test_files_can_be_made_again(tmp_path: Path, manifests: Manifests) -> None:
    """A second start of the container finds the files whole, read-only modes notwithstanding."""
    source = {"configMap": {"name": "c", "defaultMode": 0o444}}
    box = Box(tmp_path, manifests, source, manifests.data("ConfigMap", "c", data={"k": "v"}))
    assert _read(box.make()) == _read(box.make()) == {"k": ("v", 0o444)}


def test_secrets_are_files_as_they_are(tmp_path: Path, manifests: Manifests) -> None:
    """A Secret's content is not rewritten."""
    source = {"secret": {"secretName": "s", "defaultMode": 0o400}}
    secret = manifests.data("Secret", "s", stringData={"key": "train-0 /data"})
    assert {"key": ("train-0 /data", 0o400)} == _read(
        Box(tmp_path, manifests, source, secret).make()
    )


def test_downward_files(tmp_path: Path, manifests: Manifests) -> None:
    """Fields and resources as files."""
    items = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "team", "fieldRef": {"fieldPath": "metadata.labels['team']"}, "mode": 0o440},
        {"path": "cpu", "resourceFieldRef": {"resource": "requests.cpu", "containerName": "b"}},
    ]
    box = Box(tmp_path, manifests, {"downwardAPI": {"items": items}})
    expected = {"name": ("train-0", 0o644), "team": ("blue", 0o440), "cpu": ("0", 0o644)}
    assert expected == _read(box.make())


def test_projected_sources_share_a_folder(tmp_path: Path, manifests: Manifests) -> None:
    """A projected volume holds the files of all its sources."""
    sources = [
        {"configMap": {"name": "c"}},
        {"secret": {"name": "s", "items": [{"key": "k", "path": "secret/k"}]}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "gone", "optional": True}},
    ]
    box = Box(
        tmp_path,
        manifests,
        {"projected": {"sources": sources, "defaultMode": 0o440}},
        manifests.data("ConfigMap", "c", data={"a": "1"}),
        manifests.data("Secret", "s", stringData={"k": "2"}),
    )
    expected = {"a": ("1", 0o440), "secret/k": ("2", 0o440), "n": ("train-0", 0o440)}
    assert expected == _read(box.make())


def test_an_optional_source_that_is_missing_is_empty(tmp_path: Path, manifests: Manifests) -> None:
    """Optional ConfigMaps and keys may be missing."""
    box = Box(tmp_path, manifests, {"configMap": {"name": "gone", "optional": True}})
    assert _read(box.make()) == {}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "gone"}}, "needs the configMap 'gone'"),
        ({"secret": {"secretName": "gone"}}, "needs the secret 'gone'"),
        (
            {"configMap": {"name": "c", "items": [{"key": "x", "path": "x"}]}},
            "needs key 'x' of the configMap 'c', which has k",
        ),
        ({"nfs": {"server": "s"}}, "of the kind nfs"),
        ({"projected": {"sources": [{"serviceAccountToken": {}}]}}, "serviceAccountToken"),
    ],
)
def test_what_is_not_there_is_refused_before_the_start(
    tmp_path: Path, manifests: Manifests, source: dict[str, Any], message: str
) -> None:
    """A check names what is missing and touches nothing."""
    box = Box(tmp_path, manifests, source, manifests.data("ConfigMap", "c", data={"k": "v"}))
    with pytest.raises(InputError, match=message):
        box.mounts().check()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_volume_is_refused(tmp_path: Path, manifests: Manifests) -> None:
    """A mount of a volume that the pod does not have names those it has."""
    with pytest.raises(InputError, match="the pod has v"):
        Box(tmp_path, manifests, {"emptyDir": {}}, name="w").mounts().check()


def test_the_root_cannot_be_mounted_over(tmp_path: Path, manifests: Manifests) -> None:
    """There is no text in which / could be replaced."""
    with pytest.raises(InputError, match="over /"):
        Box(tmp_path, manifests, {"emptyDir": {}}, mountPath="/").mounts().check()


def test_the_termination_message_is_a_file_of_the_container(
    tmp_path: Path, manifests: Manifests
) -> None:
    """/dev/termination-log is a path like a mount."""
    box = Box(tmp_path, manifests, {"emptyDir": {}})
    box.make()
    path = box.mounts().paths({})["/dev/termination-log"]
    assert str(box.folders.termination_log("a")) == path
    assert box.folders.termination_log("a").is_file()


_OUT = "../../../../out"


@pytest.mark.attack
@pytest.mark.parametrize(
    "source",
    [
        {"persistentVolumeClaim": {"claimName": _OUT}},
        {"persistentVolumeClaim": {"claimName": ".."}},
        {"persistentVolumeClaim": {"claimName": "/etc"}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": _OUT}]}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "/tmp/out"}]}},
        {"configMap": {"name": "odd"}},
        {"secret": {"secretName": "s", "items": [{"key": "k", "path": f"a/{_OUT}"}]}},
        {"downwardAPI": {"items": [{"path": _OUT, "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {
            "projected": {
                "sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": ".."}]}}]
            }
        },
    ],
)
def test_no_name_of_a_manifest_leaves_its_folder(
    tmp_path: Path, manifests: Manifests, source: dict[str, Any]
) -> None:
    """It is refused before anything is written."""
    documents = [
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "x"}},
        {"kind": "ConfigMap", "metadata": {"name": "odd"}, "data": {_OUT: "x"}},
        {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "x"}},
    ]
    box = Box(tmp_path, manifests, source, *documents)
    with pytest.raises(InputError, match=r"leaves its volume|not a file name"):
        box.mounts().check()
    with pytest.raises(InputError, match=r"leaves its volume|not a file name"):
        box.make()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.attack
@pytest.mark.parametrize("name", ["../x", "..", "a/b", ""])
def test_a_container_is_called_like_a_file(manifests: Manifests, name: str) -> None:
    """Its log is one."""
    job = manifests.job(pod={"containers": [manifests.container(name)]})
    with pytest.raises(InputError, match="not a file name"):
        expand([job], name="train", namespace="lab")

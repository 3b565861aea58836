"""A folder that is submitted to a real API server: what is sent, who owns it, and when it goes."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cluster.client import KubeCluster
from allranks.workspace import archive, config_maps, objects, snapshot
from tests.waiting import until

from .program import Program, job, program
from .test_cli_refusals import documented, grant

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

COMMAND = ("--", "python", "train.py", "--lr", "1e-5", "two words")
_HOUR = 3600.0


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, with helm 4."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture(autouse=True)
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes run the pods."""
    make_nodes(2)


@pytest.fixture
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, an empty folder and a link."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "train.py").write_text("print('training')\n", encoding="utf-8")
    (folder / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "latest").symlink_to("train.py")
    return folder


def parts(allranks: Program) -> dict[str, set[str]]:
    """The ConfigMaps of snapshots in the namespace, and the names of the owners of each."""
    return {
        item["metadata"]["name"]: {
            owner["name"] for owner in item["metadata"].get("ownerReferences", ())
        }
        for item in allranks.items("v1/configmaps")
        if names.WORKSPACE in (item["metadata"].get("labels") or {})
    }


def submit(allranks: Program, folder: Path, *words: str, **how: Any) -> str:
    """Submit the folder, with a job whose pods end soon."""
    values = how.pop("values", job(ends="1s"))
    return allranks("submit", "--workspace", folder, *words, *COMMAND, values=values, **how)


def uninstall(allranks: Program, name: str) -> None:
    """Remove a release with plain helm."""
    subprocess.run(
        [allranks.helm, "uninstall", name, "-n", allranks.namespace],
        env=allranks.environment(),
        check=True,
        capture_output=True,
    )


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The paths of a folder with mode and content."""

    def content(path: Path) -> bytes:
        if path.is_symlink():
            return str(path.readlink()).encode()
        return b"" if path.is_dir() else path.read_bytes()

    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, content(path))
        for path in folder.rglob("*")
    }


def test_a_folder_from_submit_to_delete(allranks: Program, code: Path, tmp_path: Path) -> None:
    """It is sent once, shared by two runs, given back as it was, and goes with the last of them."""
    output = submit(allranks, code, "first")
    assert "as a ConfigMap ws-" in output
    assert "first  Succeeded, 2 done" in output
    ((part, owners),) = parts(allranks).items()
    assert {"first"} == owners
    (code / "train.py").write_text("print('edited')\n", encoding="utf-8")
    code_data = allranks.json("show", "first", "--code", tmp_path / "ran")
    assert ["python", "train.py", "--lr", "1e-5", "two words"] == code_data["command"]
    assert (part.rsplit("-", 2)[0], [part], "configMap") == (
        f"ws-{code_data['digest'][7:19]}",
        code_data["parts"],
        code_data["via"],
    )
    (code / "train.py").write_text("print('training')\n", encoding="utf-8")
    assert tree(code) == tree(tmp_path / "ran")

    assert "sent before" in submit(allranks, code, "second")
    assert {part: {"first", "second"}} == parts(allranks)
    assert "deleted first\n" == allranks("delete", "first")
    assert [part] == list(parts(allranks))
    assert "deleted second\n" == allranks("delete", "second")
    assert {} == parts(allranks)


def test_an_upgrade_keeps_the_code(allranks: Program, code: Path) -> None:
    """Also where the job is replaced, and its snapshot would go with it."""
    submit(allranks, code, "demo", "--detach", values=job())
    (part,) = parts(allranks)
    values = job() | {"command": ["python", "train.py", "--more"]}
    allranks("upgrade", "demo", "--recreate", values=values)
    (controller,) = allranks.items("batch/v1/jobs")
    uid = controller["metadata"]["uid"]

    def owners() -> list[str]:
        """The uids of the owners that the snapshot has now."""
        item = allranks.get("v1/configmaps", part)
        return [owner["uid"] for owner in item["metadata"]["ownerReferences"]]

    until(lambda: owners() == [uid], "the new job to be the only owner")
    digest = controller["metadata"]["annotations"][names.WORKSPACE_DIGEST]
    assert part.startswith(f"ws-{digest[7:19]}")


def test_code_that_is_deleted_under_a_suspended_run_is_said(
    allranks: Program, code: Path, tmp_path: Path
) -> None:
    """Without a pod that could say it, with what to do; that puts it there again, for all runs."""
    suspended = job() | {"runPolicy": {"suspend": True}}
    submit(allranks, code, "demo", values=suspended)
    (part,) = parts(allranks)
    allranks.cluster.api("DELETE", f"{allranks.root('v1/configmaps')}/{part}")
    until(lambda: not parts(allranks), "the end of the snapshot")
    status = allranks("status", "demo")
    assert f"ConfigMap {part}" in status
    assert "of the same folder puts it there again" in " ".join(status.split())
    assert "somebody has deleted it" in allranks("show", "demo", "--code", tmp_path / "x", code=2)
    submit(allranks, code, "other", values=suspended)
    assert part not in allranks("status", "demo")
    allranks("show", "demo", "--code", tmp_path / "ran")
    assert {part: {"demo", "other"}} == parts(allranks)
    uninstall(allranks, "other")
    until(lambda: {part: {"demo"}} == parts(allranks), "the garbage collector")


def test_plain_helm_and_the_garbage_collector_leave_nothing(allranks: Program, code: Path) -> None:
    """A release that is uninstalled without us takes its snapshot with it."""
    submit(allranks, code, "demo", "--detach", values=job())
    assert 1 == len(parts(allranks))
    uninstall(allranks, "demo")
    until(lambda: not parts(allranks), "the garbage collector")


def test_a_large_folder_is_several_config_maps(
    allranks: Program, code: Path, tmp_path: Path
) -> None:
    """As many as a real API server takes, which is eight; and it comes back whole."""
    (code / "weights.bin").write_bytes(os.urandom(7_500_000))
    output = submit(allranks, code, "large", "--detach", values=job())
    assert "as 8 ConfigMaps" in output
    assert 8 == len(parts(allranks))
    assert {frozenset({"large"})} == {frozenset(owners) for owners in parts(allranks).values()}
    allranks("show", "large", "--code", tmp_path / "ran")
    assert tree(code) == tree(tmp_path / "ran")
    allranks("delete", "large")
    assert {} == parts(allranks)


def test_the_same_name_twice_at_once(allranks: Program, code: Path, tmp_path: Path) -> None:
    """One gets it; the other is told so, and leaves nothing of its own code behind."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text("print('other')\n", encoding="utf-8")
    processes = [
        allranks.start("submit", "demo", "--detach", "--workspace", folder, *COMMAND, values=job())
        for folder in (code, other)
    ]
    ends = [(process, process.communicate(timeout=120)) for process in processes]
    assert [0, 2] == sorted(process.returncode for process, _ in ends), ends
    (refused,) = (text[1] for process, text in ends if process.returncode)
    assert "demo" in refused
    assert "Traceback" not in refused
    (owners,) = parts(allranks).values()
    assert {"demo"} == owners


def test_a_sender_that_is_killed_leaves_what_a_later_one_mends(
    allranks: Program, code: Path
) -> None:
    """Whatever was done by then: no part without its run stays, and no run loses its part."""
    process = allranks.start("submit", "--workspace", code, *COMMAND, values=job())
    assert process.stderr is not None
    assert any("code: " in line for line in process.stderr)  # sent; the release comes next
    process.kill()
    process.communicate()
    output = submit(allranks, code, "--detach", values=job())
    assert "sent before" in output
    (part,) = parts(allranks)

    def settled() -> bool:
        """Whether helm, which goes on by itself, has ended."""
        records = [
            item for item in allranks.items("v1/secrets") if item["type"].startswith("helm.sh/")
        ]
        statuses = {item["metadata"]["labels"]["status"] for item in records}
        return "pending-install" not in statuses

    until(settled, "the end of helm")
    cluster = KubeCluster(str(allranks.cluster.kubeconfig))
    assert () == config_maps.collect(cluster, allranks.namespace, now=time.time() + 2 * _HOUR)
    jobs = {item["metadata"]["name"] for item in allranks.items("batch/v1/jobs")}
    until(lambda: parts(allranks)[part] == jobs, "all that are there as owners")
    for name in jobs:
        allranks("delete", name)
    assert {} == parts(allranks)


def test_what_was_sent_for_nothing_goes_after_an_hour(allranks: Program, code: Path) -> None:
    """A sender that was killed before its release: an hour later its parts go."""
    contents = snapshot.take(code)
    sent = objects.config_maps(contents, archive.pack(contents), allranks.namespace)
    cluster = KubeCluster(str(allranks.cluster.kubeconfig))
    config_maps.send(cluster, sent, allranks.namespace)
    assert () == config_maps.collect(cluster, allranks.namespace)
    (part,) = parts(allranks)
    now = time.time() + 1.1 * _HOUR
    assert (part,) == config_maps.collect(cluster, allranks.namespace, now=now)
    assert {} == parts(allranks)


def test_rights_for_config_maps_are_asked_for_before_anything_is_sent(
    allranks: Program, code: Path, repo: Path
) -> None:
    """The missing ones are named; with the guide's Role it works, to the deletion of the code."""
    guest = allranks.as_guest()
    output = submit(guest, code, "demo", "--detach", code=1)
    assert "nothing was sent" in output
    assert {} == parts(allranks)
    grant(allranks, documented(repo))
    submit(guest, code, "demo", "--detach", values=job())
    assert [{"demo"}] == list(parts(allranks).values())
    guest("delete", "demo")
    assert {} == parts(allranks)


def test_a_quota_on_config_maps_names_who_holds_it(allranks: Program, code: Path) -> None:
    """The snapshots that are there, with their runs; nothing is started."""
    submit(allranks, code, "first", "--detach", values=job())
    count = len(allranks.items("v1/configmaps"))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/configmaps": str(count)}},
    }
    path = allranks.root("v1/resourcequotas")
    allranks.cluster.api("POST", path, quota)
    until(
        lambda: (allranks.get("v1/resourcequotas", "few").get("status") or {}).get("used"),
        "the quota to be counted",
    )
    (code / "train.py").write_text("print('more')\n", encoding="utf-8")
    output = submit(allranks, code, "second", "--detach", code=1)
    assert "does not fit the quota" in output
    assert "(first)" in output
    assert [] == allranks.objects_of("second")


def test_rendered_manifests_can_be_applied(allranks: Program, code: Path) -> None:
    """The snapshot is among them, byte for byte the same each time; a later look owns it."""
    words = ("render", "demo", "--workspace", code)
    first = allranks(*words, values=job())
    assert first == allranks(*words, values=job())
    path = allranks.home / "all.yaml"
    path.write_text(first, encoding="utf-8")
    allranks.cluster.kubectl("apply", "-f", str(path), namespace=allranks.namespace)
    cluster = KubeCluster(str(allranks.cluster.kubeconfig))
    config_maps.collect(cluster, allranks.namespace, now=time.time() + 2 * _HOUR)
    assert [{"demo"}] == list(parts(allranks).values())
    allranks("delete", "demo")
    assert {} == parts(allranks)


def test_a_sweep_sends_its_code_once(allranks: Program, code: Path) -> None:
    """All trials mount the same snapshot, one after the other, and it goes with the last."""
    words = ("run", "rates", "torchrun", "--set-range", "env.SEED=1..3", "--parallel", "1")
    place = ("-n", allranks.namespace, "--workspace", code)
    process = allranks.start("sweep", *words, *place, values=job(ends="1s"))
    until(lambda: allranks.items("batch/v1/jobs"), "the first trial")
    (part,) = parts(allranks)
    (trial, *_) = allranks.items("batch/v1/jobs")
    assert part.startswith(f"ws-{trial['metadata']['annotations'][names.WORKSPACE_DIGEST][7:19]}")
    out, err = process.communicate(timeout=300)
    assert 0 == process.returncode, err
    assert "3 succeeded" in out
    allranks("sweep", "delete", "rates")
    until(lambda: not parts(allranks), "the end of the snapshot")

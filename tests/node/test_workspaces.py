"""Real pods with a workspace: what a kubelet mounts is unpacked by whoever the pod runs as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests import workspaces

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

_TRAIN = """
import os, sys
import model
sys.stdout.write(f"{model.NAME} as {os.getuid()} in {os.getcwd()} {sorted(os.listdir('.'))}\\n")
sys.stdout.flush()
"""
_SENT = workspaces.Sent(
    workspaces.pack(
        {"train.py": _TRAIN, "model.py": "NAME = 'sent'", "bin/again.sh": "exit 3"},
        [workspaces.folder("empty")],
    )
)
_READ_ONLY = {"containerSecurityContext": {"readOnlyRootFilesystem": True}}


def _send(lab: Lab, sent: workspaces.Sent) -> None:
    for manifest in sent.manifests(lab.namespace):
        lab.cluster.api("POST", lab.path("configmaps"), manifest)


def test_pods_train_what_was_sent(lab: Lab) -> None:
    """Each of two pods unpacks its own as no root, and starts in it."""
    _send(lab, _SENT)
    lab.install("ex", nodes=2, command=["python", "train.py"], **_SENT.values())
    lab.completes("ex", seconds=120)
    log = lab.log(lab.pod("ex")["metadata"]["name"])
    assert "sent as " in log
    assert "sent as 0 " not in log
    assert " in /app ['__pycache__', 'bin', 'empty', 'model.py', 'train.py']" in log


def test_a_read_only_root(lab: Lab) -> None:
    """Nothing but the workspace's own volume is written to."""
    _send(lab, _SENT)
    lab.install(
        "ex",
        chart="elastic",
        command=["python", "train.py"],
        elastic={"framework": "pytorch"},
        security=_READ_ONLY,
        **_SENT.values(),
    )
    lab.completes("ex", "worker", seconds=120)


def test_a_container_that_starts_again_in_its_pod(lab: Lab) -> None:
    """The kubelet mounts the same copy, and nothing is unpacked twice."""
    _send(lab, _SENT)
    lab.install(
        "ex",
        command=["python", "train.py"],
        setup="test -e tried || { touch tried; exit 3; }; ls; echo again",
        torchrun={"controller": "StatefulSet"},
        **_SENT.values(),
    )
    lab.line("ex", "again", seconds=120)
    log = lab.log(lab.pod("ex")["metadata"]["name"])
    assert "unpacked workspace" not in log
    assert "tried" in log


def test_a_broken_archive(lab: Lab) -> None:
    """The Job fails at once, with the sentence where Kubernetes shows it."""
    sent = workspaces.Sent(_SENT.data[:-1])
    _send(lab, sent)
    values: dict[str, Any] = sent.values(archiveDigest=_SENT.digest)
    lab.install("ex", command=["python", "train.py"], **values)
    assert lab.finished("ex", seconds=120)["reason"] == "PodFailurePolicy"
    end = lab.ended("ex")
    assert names.EXIT_WORKSPACE == end["exitCode"]
    assert "is not what was sent" in end["message"]


def test_a_mounted_volume_inside(lab: Lab) -> None:
    """A volume may be mounted below the workspace, as long as the workspace has nothing there."""
    _send(lab, _SENT)
    spec = {
        "containers": [
            {"name": "trainer", "volumeMounts": [{"name": "out", "mountPath": "/app/out"}]}
        ],
        "volumes": [{"name": "out", "emptyDir": {}}],
    }
    lab.install(
        "ex",
        command=["sh", "-c", "touch out/x && ls"],
        podTemplate={"spec": spec},
        **_SENT.values(),
    )
    lab.completes("ex", seconds=120)
    assert "out" in lab.log(lab.pod("ex")["metadata"]["name"]).split()

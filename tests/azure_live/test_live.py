"""The stories of a cluster on Azure, told by the cloud: `make azure-live`.

It costs money for half an hour, and removes what it has made; what it makes has two hours to live.
ALLRANKS_AZURE_REGION, ALLRANKS_AZURE_SIZE and ALLRANKS_AZURE_IMAGE choose others than the usual.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.mgmt.resource.resources import ResourceManagementClient

from allranks.azure.sdk import login

from .stories import FIRST, STORIES, Cloud, data_arrives_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(sys.executable).parent / "allranks"
_HOUR = 3600
# Seconds for a change: the next of `up` or `down` has then been begun.
_CHANGE = 20
# Of a network security group, which costs nothing.
_FOREIGN = "Microsoft.Network/networkSecurityGroups", "2024-05-01"
_IMAGE = "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"
_TRAIN = """\
import os, torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sees "
      f"{sum(len(names) for _, _, names in os.walk('/datasets/story'))} files")
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended.

    Attributes:
        code: its exit code.
        out: its output.
        err: its errors.
    """

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class LiveCloud:
    """Azure itself, as the stories ask for it; see there."""

    name: str
    folder: Path
    stores: tuple[str, ...] = ("share:datasets", "blob:blobs")

    @property
    def group(self) -> str:
        """The resource group."""
        return f"allranks-{self.name}"

    def call(self, *words: str) -> Ended:
        """Run it to its end."""
        return self._wait(self._start(*words))

    def at_once(self, *words: str) -> list[Ended]:
        """Run it twice at once."""
        return [self._wait(program) for program in [self._start(*words) for _ in range(2)]]

    def kill(self, number: int, *words: str) -> None:
        """Kill it when about so many changes were taken, unless it ends before."""
        program = self._start(*words)
        try:
            program.wait(number * _CHANGE)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
        self._wait(program)

    def add_foreign(self, name: str) -> None:
        """Put a network security group there."""
        kind, version = _FOREIGN
        self._resources(
            lambda client: client.begin_create_or_update_by_id(
                self._id(kind, name), version, {"location": FIRST.region}
            )
        )

    def remove_foreign(self, name: str) -> None:
        """Take it away."""
        kind, version = _FOREIGN
        self._resources(lambda client: client.begin_delete_by_id(self._id(kind, name), version))

    def _id(self, kind: str, name: str) -> str:
        subscription = os.environ["AZURE_SUBSCRIPTION_ID"]
        return f"/subscriptions/{subscription}/resourceGroups/{self.group}/providers/{kind}/{name}"

    def _resources(self, request: Callable[[Any], Any]) -> None:
        base = login.endpoint("public")
        with ResourceManagementClient(
            login.credential("auto", "public"),
            os.environ["AZURE_SUBSCRIPTION_ID"],
            base_url=base,
            credential_scopes=[f"{login.CLOUDS['public'][0]}/.default"],
        ) as client:
            request(client.resources).result()

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, "azure", *words],
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def _wait(program: subprocess.Popen[str]) -> Ended:
        out, err = program.communicate(timeout=_HOUR)
        return Ended(program.returncode, out, err)


def a_job_trains_with_the_share(cloud: Cloud) -> None:
    """Two pods of a submitted folder meet, and both see the files of the share; then they go.

    On the fakes this is `tests/cluster/test_azure.py`, and has no machines to run on.
    """
    code = cloud.folder / "code"
    code.mkdir()
    (code / "train.py").write_text(_TRAIN)
    repository, _, tag = os.environ.get("ALLRANKS_AZURE_IMAGE", _IMAGE).rpartition(":")
    values = {
        "workload": "torchrun",
        "image": {"repository": repository, "tag": tag},
        "command": ["python", "train.py"],
        "nodes": 2,
        "procsPerNode": 1,
        "resources": {"perPod": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        "storage": {"datasets": {"readOnly": True}},
    }
    (cloud.folder / "values.yaml").write_text(json.dumps(values))
    words = ("deploy", "story", "-f", "values.yaml", "-n", "default", "--workspace", str(code))
    ended = cloud.call(*words, "--logs", "all")
    assert 0 == ended.code, ended.out + ended.err
    for rank in (0, 1):
        assert f"rank {rank} of 2 sees 23 files" in ended.out + ended.err


def _live() -> list[Callable[[Cloud], None]]:
    place = STORIES.index(data_arrives_once) + 1
    return [*STORIES[:place], a_job_trains_with_the_share, *STORIES[place:]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    """Azure, with a name that no other run of this has; nothing is left there at the end."""
    live = LiveCloud(f"story-{int(time.time())}", tmp_path_factory.mktemp("live"))
    try:
        yield live
    finally:
        (live.folder / "azure.yaml").write_text(FIRST.text(live.name))
        ended = live.call("down", "--yes")
        assert 0 == ended.code, ended.err


@pytest.mark.timeout(3 * _HOUR)
def test_the_cloud_tells_the_stories(cloud: LiveCloud, capsys: pytest.CaptureFixture[str]) -> None:
    """As the fakes do, and with a job on its machines; each is named as it begins."""
    for story in _live():
        with capsys.disabled():
            sys.stdout.write(f"{story.__name__}\n")
            sys.stdout.flush()
        story(cloud)

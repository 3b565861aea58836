"""An Azure that only pretends, and the command line as processes that are asked to work with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.azure_fake import arm
from tests.azure_fake.programs import Ended, Program, Programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GPU = "{name: gpu, vmSize: Standard_NC24ads_A100_v4, maxNodes: 2, taints: ['sku=gpu:NoSchedule']}"
FILE = f"""\
name: demo
subscription: {arm.SUBSCRIPTION}
pools:
  - {GPU}
storage:
  account: demodata
  shares: [{{name: datasets, quotaGiB: 100}}]
  containers: [blobs]
"""


@dataclass(slots=True)
class Azure:
    """A fake of Azure, and who asks it.

    Attributes:
        fake: the fake.
        programs: the command line as processes.
        folder: where they run.
    """

    fake: arm.FakeArm
    programs: Programs
    folder: Path

    def write(self, text: str = FILE) -> None:
        """Write azure.yaml."""
        (self.folder / "azure.yaml").write_text(text)

    def start(self, *args: str, **env: str) -> Program:
        """Start `allranks azure …`."""
        variables = {**self.fake.env(self.folder), **env}
        return self.programs.start("azure", *args, env=variables, cwd=self.folder)

    def run(self, *args: str, **env: str) -> Ended:
        """Run `allranks azure …` to its end; the fake knows its process, to kill it."""
        program = self.start(*args, **env)
        self.fake.victim = program.pid
        self.fake.victim_known.set()
        ended = program.wait()
        self.fake.victim_known.clear()
        return ended

    def up(self) -> None:
        """Make all of it."""
        ended = self.run("up", "--yes")
        assert 0 == ended.code, ended.err
        self.fake.requests.clear()

    def kubeconfig(self) -> Any:
        """The kubeconfig; None where there is none."""
        from allranks.yamlio.load import load_all

        path = self.folder / "kubeconfig"
        return load_all(path.read_bytes())[0] if path.exists() else None


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """The command line as processes."""
    with Programs(tmp_path_factory.mktemp("programs")) as server:
        yield server


@pytest.fixture
def make_azure(programs: Programs, tmp_path: Path) -> Iterator[Callable[..., Azure]]:
    """Makes an Azure; at the end no body was of another shape than the SDKs' models have."""
    fakes: list[arm.FakeArm] = []

    def make(**options: int) -> Azure:
        fake = arm.FakeArm(**options)
        fakes.append(fake)
        fake.__enter__()
        folder = tmp_path / f"work-{len(fakes)}"
        folder.mkdir()
        azure = Azure(fake, programs, folder)
        azure.write()
        return azure

    yield make
    for fake in fakes:
        fake.__exit__(None, None, None)
        assert [] == fake.misshapen


@pytest.fixture
def azure(make_azure: Callable[..., Azure]) -> Azure:
    """An Azure in which nothing is."""
    return make_azure()

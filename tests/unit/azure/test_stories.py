"""What `make azure-live` asks of the cloud, asked of the fakes."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.azure import naming
from allranks.azure.sdk import access
from tests.azure_fake import arm
from tests.azure_fake.files import KEY, FakeFiles, Share
from tests.azure_live.stories import STORIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.azure_fake.programs import Ended
    from tests.unit.azure.conftest import Azure


@dataclass(slots=True)
class FakeCloud:
    """The fakes, as the stories ask for an Azure; see there."""

    azure: Azure
    files: str
    name: str = "story"
    stores: tuple[str, ...] = ("share:datasets",)

    @property
    def folder(self) -> Path:
        """Where the commands run."""
        return self.azure.folder

    @property
    def group(self) -> str:
        """The resource group."""
        return f"allranks-{self.name}"

    def call(self, *words: str) -> Ended:
        """Run it to its end."""
        return self.azure.run(*words, **{access.ENV_STORAGE: self.files})

    def at_once(self, *words: str) -> list[Ended]:
        """Run it twice at once."""
        return [program.wait() for program in [self.azure.start(*words) for _ in range(2)]]

    def kill(self, number: int, *words: str) -> None:
        """Kill it at its change of this number, when that was taken."""
        fake = self.azure.fake
        fake.kill_at_write, fake.kill_after = len(fake.writes()) + number, True
        ended = self.call(*words)
        fake.kill_at_write = None
        assert -signal.SIGKILL == ended.code, ended.err

    def add_foreign(self, name: str) -> None:
        """Put it there."""
        self.azure.fake.add_foreign(self.group, name)

    def remove_foreign(self, name: str) -> None:
        """Take it away."""
        fake = self.azure.fake
        for key in [key for key in fake.things if key[2] == name]:
            del fake.things[key]


def test_the_fakes_tell_the_stories(azure: Azure) -> None:
    """From nothing to a cluster with data, changed, kept in part, and away again."""
    with FakeFiles({"datasets": Share()}).serving() as files:
        cloud = FakeCloud(azure, files.endpoint)
        azure.fake.keys[naming.account_name(cloud.name, arm.SUBSCRIPTION, cloud.group)] = KEY
        for story in STORIES:
            story(cloud)
    assert {} == azure.fake.there()["groups"]
    assert 23 == len(files.shares["datasets"].files)

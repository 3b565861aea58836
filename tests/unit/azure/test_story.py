"""What `make azure-live` asks of the cloud, asked of the fakes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from allranks.azure.sdk import access
from tests.azure_fake.files import KEY, FakeFiles, Share
from tests.azure_live.story import story

if TYPE_CHECKING:
    from tests.unit.azure.conftest import Azure


def test_the_fakes_tell_the_story(azure: Azure) -> None:
    """From nothing to data on a share, and away again."""
    azure.fake.keys["demodata"] = KEY
    with FakeFiles({"datasets": Share()}).serving() as files:
        story(partial(azure.run, **{access.ENV_STORAGE: files.endpoint}), azure.folder)
    assert sorted(files.shares["datasets"].folders) == ["story", "story/train"]
    assert len(files.shares["datasets"].files) == 20

"""`up` and `down` killed at any of their requests: what Azure then has, and what ends it well."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from allranks.azure.sdk import arm as sdk
from allranks.cli.main import main
from tests.azure_fake.arm import FakeArm
from tests.azure_fake.in_process import Killed, transport
from tests.unit.azure.conftest import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP, MACHINES = "allranks-demo", "MC_allranks-demo_demo_westeurope"
# Which request, or which of those that change something; and whether after it was carried out.
Kill = tuple[int, bool, bool]
KILLS = st.lists(
    st.tuples(st.integers(1, 40), st.booleans(), st.just(value=False))
    | st.tuples(st.integers(1, 8), st.booleans(), st.just(value=True)),
    max_size=3,
)


class Life:
    """A cluster's life in a fake that is called, not spoken to."""

    def __init__(self, fake: FakeArm, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.fake = fake
        (folder / "azure.yaml").write_text(FILE)
        for name, value in fake.env(folder).items():
            patch.setenv(name, value)
        patch.setenv("ALLRANKS_AZURE_PACE", "0.000001")
        patch.chdir(folder)
        given_options = sdk.SdkArm._options
        pipe = transport(fake)
        patch.setattr(sdk.SdkArm, "_options", lambda arm: {**given_options(arm), "transport": pipe})

    def killed(self, kill: Kill, *words: str) -> bool:
        """Give a command, and kill it at a request from now on; whether it came to that."""
        number, self.fake.kill_after, is_write = kill
        if is_write:
            self.fake.kill_at_write = len(self.fake.writes()) + number
        else:
            self.fake.kill_at = len(self.fake.requests) + number
        try:
            main(["azure", *words])
        except Killed:
            return True
        finally:
            self.fake.kill_at = self.fake.kill_at_write = None
        return False

    def ended(self, *words: str) -> None:
        """Give a command, which succeeds."""
        assert 0 == main(["azure", *words])

    def is_whole(self) -> bool:
        """Whether all is there once, and settled."""
        there = self.fake.there()
        return [GROUP, MACHINES] == list(there["groups"]) and {"demodata": {"datasets": 100}} == (
            there["shares"]
        )


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Changes to this process that end with the test."""
    with pytest.MonkeyPatch.context() as context:
        yield context


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    ups=KILLS,
    downs=KILLS,
    has_resources=st.booleans(),
    keep=st.booleans(),
    lag=st.integers(0, 4),
    looks=st.integers(1, 4),
    flicker=st.sampled_from([0, 3, 4]),
)
@example(
    ups=[(1, True, True)], downs=[], has_resources=False, keep=False, lag=4, looks=1, flicker=0
)
@example(
    ups=[(2, True, True)],
    downs=[(3, False, False)],
    has_resources=False,
    keep=True,
    lag=4,
    looks=2,
    flicker=3,
)
def test_up_and_down_end_well_wherever_they_were_killed(
    patch: pytest.MonkeyPatch,
    *,
    ups: list[Kill],
    downs: list[Kill],
    has_resources: bool,
    keep: bool,
    lag: int,
    looks: int,
    flicker: int,
) -> None:
    """Killed at any requests, also reads, they end as without it when given again.

    Azure may be slow, may not show at once what was made, and not each time. `down` may be given
    right after an `up` that was killed: what Azure did not show then is not left to be paid for.
    """
    with TemporaryDirectory() as folder, closing(FakeArm(looks, lag, flicker)) as fake:
        patch.undo()
        life = Life(fake, Path(folder), patch)
        for kill in ups:
            life.killed(kill, "up", "--yes")
        if has_resources:
            life.ended("up", "--yes")
            assert life.is_whole()
        words = ("down", "--yes", *(["--keep-storage"] if keep else []))
        for kill in downs:
            life.killed(kill, *words)
        life.ended(*words)
        there = life.fake.there()
        assert not [name for name in there["things"] if "managedClusters" in name]
        assert MACHINES not in there["groups"]
        if not keep:
            assert {} == there["groups"]
        patch.undo()

"""The life of a cluster on Azure, story by story, whoever answers: a fake, or the cloud.

Each story begins where the one before it ended, because a cluster takes the cloud ten minutes: the
first finds nothing, the last leaves nothing. What only a fake can be told to do (to throttle, to
fail, to let hours pass) is in `tests/unit/azure`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LARGE = 5 * 1024 * 1024  # bytes; more than one request takes


class Ended(Protocol):
    """A command that has ended."""

    @property
    def code(self) -> int:
        """Its exit code; a negative one is the signal that it died of."""

    @property
    def out(self) -> str:
        """Its output."""

    @property
    def err(self) -> str:
        """Its errors."""


class Cloud(Protocol):
    """An Azure, and the command line that asks it."""

    @property
    def name(self) -> str:
        """What the cluster of azure.yaml is called."""

    @property
    def folder(self) -> Path:
        """Where the commands run; its kubeconfig is the file of that name in it."""

    @property
    def stores(self) -> Sequence[str]:
        """What can be uploaded to, such as ``share:datasets``."""

    def call(self, *words: str) -> Ended:
        """Run `allranks azure …` to its end."""

    def at_once(self, *words: str) -> Sequence[Ended]:
        """Run the same command twice at once."""

    def kill(self, number: int, *words: str) -> None:
        """Begin a command and kill it when some of its changes (about so many) were taken."""

    def add_foreign(self, name: str) -> None:
        """Put something into the group that allranks has not made."""

    def remove_foreign(self, name: str) -> None:
        """Take it away again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """An azure.yaml of small machines, a share and a container.

    Attributes:
        region: where.
        size: of its machines.
        pool_size: of those of its one pool; "" for the same.
        hours: how many it may live.
        nodes: how many machines the pool may have.
        quota: of the share, in GiB.
        team: the value of a tag of one's own.
    """

    region: str = os.environ.get("ALLRANKS_AZURE_REGION", "westeurope")
    size: str = os.environ.get("ALLRANKS_AZURE_SIZE", "Standard_D4s_v5")
    pool_size: str = ""
    hours: int = 2
    nodes: int = 1
    quota: int = 1
    team: str = "vision"

    def text(self, name: str) -> str:
        """The file.

        Args:
            name: what the whole is called.
        """
        pool = f"{{name: cpu, vmSize: {self.pool_size or self.size}, maxNodes: {self.nodes}}}"
        share = f"{{name: datasets, quotaGiB: {self.quota}}}"
        return (
            f"name: {name}\nregion: {self.region}\nmaxHours: {self.hours}\n"
            f"tags: {{team: {self.team}}}\n"
            f"cluster: {{systemPool: {{vmSize: {self.size}}}}}\n"
            f"pools: [{pool}]\n"
            f"storage: {{shares: [{share}], containers: [blobs]}}\n"
        )


FIRST = Settings()
RETAGGED = replace(FIRST, team="speech")
GROWN = replace(RETAGGED, hours=3, nodes=2, quota=2)


def plan_changes_nothing(cloud: Cloud) -> None:
    """What is not there is planned, as a table, as Bicep and as commands; and stays planned."""
    _write(cloud, FIRST)
    planned = _entries(cloud)
    assert {"make"} == {*planned.values()}
    for form in ("text", "bicep", "az"):
        assert _done(cloud.call("plan", "-o", form))
    assert planned == _entries(cloud)


def what_does_not_exist_is_refused(cloud: Cloud) -> None:
    """Regions and sizes are asked for before anything is made, and the nearest is named."""
    for path, settings, nearest in (
        ("region", replace(FIRST, region=f"{FIRST.region}x"), FIRST.region),
        ("pools[0].vmSize", replace(FIRST, pool_size=f"{FIRST.size}x"), FIRST.size),
    ):
        _write(cloud, settings)
        refused = cloud.call("up", "--yes")
        assert 2 == refused.code, refused.out + refused.err
        assert path in refused.err
        assert nearest in refused.err.partition("fix: ")[2]
    _write(cloud, FIRST)
    assert {"make"} == {*_entries(cloud).values()}


def up_goes_on_where_it_was_killed(cloud: Cloud) -> None:
    """Killed twice, `up` given again ends with all there, and given once more leaves it."""
    for number in (1, 3):
        cloud.kill(number, "up", "--yes")
    _done(cloud.call("up", "--yes"))
    assert {"exists"} == {*_entries(cloud).values()}
    assert json.loads(_done(cloud.call("up", "--yes", "-o", "json")))["ok"]
    assert {"exists"} == {*_entries(cloud).values()}


def two_at_once_do_no_harm(cloud: Cloud) -> None:
    """Two `up` that change the same both end well, and it is changed once."""
    _write(cloud, RETAGGED)
    assert [0, 0] == [ended.code for ended in cloud.at_once("up", "--yes")]
    assert {"exists"} == {*_entries(cloud).values()}


def the_login_is_in_the_kubeconfig_alone(cloud: Cloud) -> None:
    """The kubeconfig is for its owner alone, and what is printed has no key of the cluster."""
    ended = cloud.call("kubeconfig")
    assert "client-key-data" not in _done(ended) + ended.err
    path = cloud.folder / "kubeconfig"
    assert 0o600 == path.stat().st_mode & 0o777
    assert cloud.name in path.read_text()


def data_arrives_once(cloud: Cloud) -> None:
    """Names of all kinds, empty and large files; a second upload sends what differs alone."""
    for store in cloud.stores:
        data = _data(cloud)
        count = len([path for path in data.rglob("*") if path.is_file()])
        first, again = _upload(cloud, store), _upload(cloud, store)
        assert (count, 0, count) == (first["sent"], again["sent"], again["unchanged"])
        (data / "train/3.bin").write_bytes(b"changed")
        third = _upload(cloud, store)
        assert (1, count - 1) == (third["sent"], third["unchanged"])


def what_differs_is_changed_alone(cloud: Cloud) -> None:
    """Bounds of a pool, a quota and the hours to live are changed, and nothing else."""
    _write(cloud, GROWN)
    planned = _entries(cloud)
    assert {"exists", "change"} == {*planned.values()}
    assert {"cpu", "datasets"} <= {name for name, action in planned.items() if action == "change"}
    _done(cloud.call("up", "--yes"))
    assert {"exists"} == {*_entries(cloud).values()}


def what_cannot_be_changed_is_refused(cloud: Cloud) -> None:
    """Another size of a pool that is there is refused with the way out."""
    _write(cloud, replace(GROWN, pool_size="Standard_D8s_v5"))
    refused = cloud.call("up", "--yes")
    assert (2, True) == (refused.code, "give the pool another name" in refused.err), refused.err
    _write(cloud, GROWN)


def what_is_there_is_shown(cloud: Cloud) -> None:
    """`status` succeeds, `cost-guard` knows of it, and `reap` leaves it: its time is not over."""
    assert json.loads(_done(cloud.call("status", "-o", "json")))
    guard = cloud.call("cost-guard", "-f", "azure.yaml", "-o", "json")
    assert cloud.name in guard.out
    _done(cloud.call("reap", "-f", "azure.yaml", "--only", cloud.name, "--yes"))
    assert {"exists"} == {*_entries(cloud).values()}


def data_outlives_the_cluster(cloud: Cloud) -> None:
    """With --keep-storage the cluster goes, killed in between; its data is there for the next."""
    cloud.kill(1, "down", "--keep-storage", "--yes")
    _done(cloud.call("down", "--keep-storage", "--yes"))
    assert {"make", "exists"} == {*_entries(cloud).values()}
    _done(cloud.call("up", "--yes"))
    for store in cloud.stores:
        assert 0 == _upload(cloud, store)["sent"]


def what_others_made_stays(cloud: Cloud) -> None:
    """Something in our group without our tag is named and kept, and so is the group."""
    cloud.add_foreign("theirs")
    ended = cloud.call("down", "--yes")
    _done(ended)
    assert "theirs is not ours and stays" in ended.err
    cloud.remove_foreign("theirs")


def nothing_is_left(cloud: Cloud) -> None:
    """Killed, `down` given again removes the rest; then all is planned anew."""
    cloud.kill(1, "down", "--yes")
    _done(cloud.call("down", "--yes"))
    assert {"make"} == {*_entries(cloud).values()}


STORIES = (
    plan_changes_nothing,
    what_does_not_exist_is_refused,
    up_goes_on_where_it_was_killed,
    two_at_once_do_no_harm,
    the_login_is_in_the_kubeconfig_alone,
    data_arrives_once,
    what_differs_is_changed_alone,
    what_cannot_be_changed_is_refused,
    what_is_there_is_shown,
    data_outlives_the_cluster,
    what_others_made_stays,
    nothing_is_left,
)


def _write(cloud: Cloud, settings: Settings) -> None:
    (cloud.folder / "azure.yaml").write_text(settings.text(cloud.name))


def _data(cloud: Cloud) -> Path:
    """A folder of 20 small files and some odd ones."""
    data = cloud.folder / "data"
    (data / "train/deep er/ünï").mkdir(parents=True, exist_ok=True)
    for number in range(20):
        (data / f"train/{number}.bin").write_bytes(bytes([number]) * 1000)
    (data / "train/deep er/ünï/50 % (1)#.txt").write_text("odd")
    (data / "empty").write_bytes(b"")
    (data / "large.bin").write_bytes(bytes(range(256)) * (_LARGE // 256))
    return data


def _upload(cloud: Cloud, store: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(
        _done(cloud.call("upload", "data", f"{store}/story", "-o", "json"))
    )
    return summary


def _done(ended: Ended) -> str:
    """The output of a command that has succeeded."""
    assert 0 == ended.code, f"{ended.out}\n{ended.err}"
    return ended.out


def _entries(cloud: Cloud) -> dict[str, str]:
    """What a plan would do with each thing, by its name."""
    plan = json.loads(_done(cloud.call("plan", "-o", "json")))
    return {entry["name"]: entry["action"] for entry in plan["entries"]}

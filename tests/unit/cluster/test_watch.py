"""A run as it changes: what the watches bring, and what happens where they break off."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from allranks.cluster import paths
from allranks.cluster.watch import RunObserver
from allranks.errors import ExpiredError, ForbiddenError, ToolError
from tests import waiting

DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


until = partial(waiting.until, poll=0.005)


def change(fake: Any, kind: str, item: str, version: str, **rest: Any) -> tuple[str, Any]:
    """One change of a Job, or of a pod where `item` has a dash."""
    of = "Pod" if "-" in item else "Job"
    return kind, fake.manifest(of, item, metadata={"resourceVersion": version}, **rest)


def names_of(live: RunObserver) -> list[str]:
    """The names of all that is known."""
    observation = live.observation()
    return [manifest["metadata"]["name"] for manifest in (*observation.objects, *observation.pods)]


def test_changes_are_kept(fake: Any) -> None:
    """What comes is there, what goes is not; a bookmark is neither."""
    pods = fake.FakeStream(
        change(fake, "ADDED", "demo-0", "1"),
        change(fake, "ADDED", "demo-1", "2"),
        ("BOOKMARK", {"metadata": {"resourceVersion": "3"}}),
        change(fake, "DELETED", "demo-0", "4"),
        end=False,
    )
    cluster = fake.FakeCluster()
    cluster.streams = {
        paths.JOBS: [fake.FakeStream(change(fake, "ADDED", "demo", "1"), end=False)],
        paths.PODS: [pods],
    }
    with RunObserver(cluster, "demo", "lab", ["Job", "ConfigMap"]) as live:
        until(lambda: names_of(live) == ["demo", "demo-1"], "the changes")
        assert live.changed.is_set()
        assert not live.gone
    assert pods.closed
    assert paths.STATEFUL_SETS not in [request[1] for request in cluster.requests]


def test_a_watch_goes_on_where_it_ended(fake: Any) -> None:
    """The next one begins after the last change; a forgotten place begins anew."""
    cluster = fake.FakeCluster()
    cluster.streams[paths.JOBS] = [
        fake.FakeStream(change(fake, "ADDED", "demo", "7")),
        fake.FakeStream(ExpiredError("too old")),
        fake.FakeStream(change(fake, "ADDED", "again", "9"), end=False),
    ]
    with RunObserver(cluster, "demo", "lab", ["Job"]) as live:
        until(lambda: names_of(live) == ["again"], "the second beginning")
    versions = [request[2] for request in cluster.requests if request[1] == paths.JOBS]
    assert ["", "7", ""] == versions


def test_a_job_that_ended_and_was_removed_is_not_a_deleted_run(fake: Any) -> None:
    """Its TTL took it away; how it ended is still the answer."""
    deletion = change(fake, "DELETED", "demo", "2", status=DONE)
    cluster = fake.FakeCluster()
    cluster.streams[paths.JOBS] = [fake.FakeStream(deletion, end=False)]
    with RunObserver(cluster, "demo", "lab", ["Job"]) as live:
        until(lambda: names_of(live) == ["demo"], "the end")
        assert not live.gone


def test_a_deleted_run_is_gone(fake: Any) -> None:
    """Somebody removed it while it was followed."""
    cluster = fake.FakeCluster()
    cluster.streams[paths.JOBS] = [
        fake.FakeStream(
            change(fake, "ADDED", "demo", "1"), change(fake, "DELETED", "demo", "2"), end=False
        )
    ]
    with RunObserver(cluster, "demo", "lab", ["Job"]) as live:
        until(lambda: live.gone, "the deletion")


def test_a_cluster_that_does_not_answer_is_asked_again(fake: Any) -> None:
    """The trouble is told while it lasts, and forgotten after it."""
    cluster = fake.FakeCluster()
    answers = iter([ToolError("context fake does not answer")])
    cluster.refuse = lambda *request: next(answers, None) if request[1] == paths.JOBS else None
    cluster.streams[paths.JOBS] = [fake.FakeStream(change(fake, "ADDED", "demo", "1"), end=False)]
    with RunObserver(cluster, "demo", "lab", ["Job"]) as live:
        until(lambda: live.trouble == "context fake does not answer", "the trouble")
        until(lambda: names_of(live) == ["demo"], "the second try")
        assert live.trouble == ""


def test_a_right_that_is_missing_ends_it(fake: Any) -> None:
    """Asking again would not help."""
    cluster = fake.FakeCluster()
    cluster.refuse = lambda *_: ForbiddenError("no watch")

    def failed(live: RunObserver) -> bool:
        try:
            live.observation()
        except ForbiddenError:
            return True
        return False

    with RunObserver(cluster, "demo", "lab") as live:
        until(lambda: failed(live), "the refusal")
        with pytest.raises(ForbiddenError, match="no watch"):
            live.observation()

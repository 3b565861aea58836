"""A pod of this machine whose containers start again where they are: what is told of the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import run_events as events
from allranks.local.backoff import JobBackoff
from allranks.local.host import process
from allranks.local.host.addresses import Block
from allranks.local.plan.addresses import by_pod
from allranks.local.plan.expand import expand
from allranks.local.plan.rewrite import release_names
from allranks.local.pod.env import Surroundings
from allranks.local.pod.runner import PodRun, RunSettings
from allranks.local.run_status import RunProgress, report
from allranks.local.state.store import RunFolder
from allranks.timeline import of_local_run

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Manifests

    from allranks.model.status import RunStatus

_RULES = [
    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [220]}},
]
_MESSAGE = "rank 1 ended with exit code 9"


class Story:
    """A pod whose launcher asks for a restart in place, and what is written down of it."""

    def __init__(self, folder: Path, manifests: Manifests) -> None:
        """Make the pod, and run it until it has begun again."""
        spec = {
            "restartPolicy": "Never",
            "containers": [
                manifests.container(
                    restartPolicyRules=_RULES,
                    restartPolicy="Never",
                    terminationMessagePolicy="FallbackToLogsOnError",
                )
            ],
        }
        self.release = expand([manifests.job(nodes=1, pod=spec)], name="train", namespace="lab")
        self.addresses = by_pod(self.release, Block(0, 1))
        run_folder = RunFolder(folder / "runs" / "lab" / "train")
        run_folder.logs.mkdir(parents=True)
        context = RunSettings(
            folder=run_folder,
            surroundings=Surroundings(self.release, self.addresses, {}),
            names=release_names(self.release, self.addresses),
            gpus={},
            workdir=folder,
            backoff=JobBackoff(),
        )
        self.pod = PodRun(self.release.pods[0], 0, context, created_at=1.0)
        self.log = events.EventLog(run_folder.events)
        self.pod.step(1.0)
        self.log.update([self.pod], 1.0)
        self.pod.ended("trainer", 220, 5.0)

    def begin_again(self) -> None:
        """Take the next step of the pod, which starts its container again."""
        self.pod.step(5.0)
        self.log.update([self.pod], 5.0)

    def status(self) -> RunStatus:
        """The status of the run."""
        return report(RunProgress(self.release, [self.pod], self.addresses, started_at=1.0))

    def events(self) -> list[dict[str, Any]]:
        """What is written down."""
        return events.read(self.pod.context.folder.events)


@pytest.fixture
def story(tmp_path: Path, manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A pod that has just ended; its processes are none, and write their last line at once."""

    def spawn(spec: process.ProcessSpec) -> int:
        spec.log.write_text(f"{_MESSAGE}\n")
        return 2**22 + 1  # no process has such a number

    monkeypatch.setattr(process, "spawn", spawn)
    return Story(tmp_path, manifests)


def test_the_event_of_an_end_has_its_message_though_the_container_has_begun_again(
    story: Story,
) -> None:
    """Both are written down in one look; the end is told as it was."""
    story.begin_again()
    assert [
        ("Started", "container trainer was started"),
        ("Error", f"container trainer ended with exit code 220: {_MESSAGE}"),
        ("Started", "container trainer was started again (start 2)"),
    ] == [(event["reason"], event["message"]) for event in story.events()]


def test_a_restart_in_place_has_the_code_of_the_rank_in_the_timeline(story: Story) -> None:
    """The launcher's own only asks for the restart; as of a run on a cluster."""
    story.begin_again()
    run = of_local_run.build(story.status(), story.events(), [], now=9.0)
    assert [(5.0, "Error, exit code 9")] == [
        (moment.at, moment.detail) for moment in run.moments if moment.name == "restart"
    ]


def test_a_status_has_the_code_of_the_rank_that_a_launcher_asks_a_restart_for(
    story: Story,
) -> None:
    """In the pod's row and in the failure, before and after the container has begun again."""
    for state in ("terminated", "running"):
        status = story.status()
        (container,) = status.pods[0].containers
        assert (state, 9) == (container.state, container.exit_code)
        assert status.failure is not None
        assert (9, _MESSAGE) == (status.failure.exit_code, status.failure.message)
        story.begin_again()


def test_a_container_that_runs_has_nothing_of_its_last_end(story: Story) -> None:
    """Why it ended last stands in the failure; its own state has no word and no message."""
    story.begin_again()
    (container,) = story.status().pods[0].containers
    assert ("", "") == (container.reason, container.message)

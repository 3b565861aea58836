"""A gang is written only where all its pods are made at once; else a note says why not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml

from allranks.postrender import PostrenderOptions, process

POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}


def stateful(**spec: Any) -> dict[str, Any]:
    """A StatefulSet of three pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "x"}},
            "template": POD,
            **spec,
        },
    }


def job(**spec: Any) -> dict[str, Any]:
    """A Job of four pods at a time."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "template": POD, **spec},
    }


def cronjob(**spec: Any) -> dict[str, Any]:
    """A CronJob of such Jobs."""
    inner = {"spec": job(**spec)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": inner},
    }


def jobset(worker: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A JobSet of a leader and two workers of four pods."""
    leader = {"name": "leader", "template": {"spec": {"template": POD}}}
    workers = {"name": "worker", "replicas": 2, "template": {"spec": job()["spec"]}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [leader, {**workers, **(worker or {})}], **spec},
    }


IN_ORDER = {"startupPolicyOrder": "InOrder"}
ONE_AFTER_ANOTHER = {
    "statefulset": (stateful(), "set podManagementPolicy: Parallel"),
    "ordered": (stateful(podManagementPolicy="OrderedReady"), "podManagementPolicy: Parallel"),
    "job": (job(completions=10), "set parallelism to completions"),
    "cronjob": (cronjob(completions=5), "set parallelism to completions"),
    "depends-on": (jobset({"dependsOn": [{"name": "leader", "status": "Ready"}]}), "dependsOn"),
    "in-order": (jobset(startupPolicy=IN_ORDER), "set startupPolicyOrder: AnyOrder"),
    "inner": (
        jobset({"template": {"spec": job(completions=9)["spec"]}}),
        "set parallelism to completions",
    ),
}
AT_ONCE = {
    "statefulset": (stateful(podManagementPolicy="Parallel"), 3),
    "one-pod": (stateful(replicas=1), 1),
    "job": (job(completions=4), 4),
    "more-parallel": (job(completions=3), 3),
    "queue": (job(), 4),
    "suspended": (job(suspend=True), 4),
    "jobset": (jobset(), 9),
    "any-order": (jobset(startupPolicy={"startupPolicyOrder": "AnyOrder"}), 9),
}
GANG_KEYS = (
    "batch-min-member",
    "pod-group",
    "group-min-member",
    "group-name",
    "PodGroup",
)


def rendered(manifest: dict[str, Any], **options: Any) -> tuple[str, list[str]]:
    """The stream, and the notes."""
    notes: list[str] = []
    return process(yaml.safe_dump(manifest), PostrenderOptions(**options), notes.append), notes


@pytest.mark.parametrize("dialect", ["volcano", "coscheduling", "kai"])
@pytest.mark.parametrize("case", ONE_AFTER_ANOTHER)
def test_pods_that_are_made_one_after_another_are_no_gang(dialect: str, case: str) -> None:
    """A gang of them would wait for pods that are made only when the first ones run."""
    manifest, fix = ONE_AFTER_ANOTHER[case]
    text, notes = rendered(manifest, dialect=dialect)

    assert [] == [key for key in GANG_KEYS if key in text]
    if dialect == "kai" and manifest["kind"] == "StatefulSet":
        # KAI makes no gang of any StatefulSet.
        assert [] == notes
        return
    (note,) = notes
    assert note.startswith(f'stdin:1, {manifest["kind"]} "{manifest["metadata"]["name"]}": no gang')
    assert fix in note


@pytest.mark.parametrize("case", AT_ONCE)
def test_pods_that_are_made_at_once_are_a_gang(case: str) -> None:
    """All of them, without a note."""
    manifest, pods = AT_ONCE[case]
    text, notes = rendered(manifest, dialect="volcano")
    group = next(iter(yaml.safe_load_all(text)))

    assert ("PodGroup", pods, []) == (group["kind"], group["spec"]["minMember"], notes)


def test_a_gang_that_is_asked_for_and_cannot_start_is_not_written() -> None:
    """An option is for the whole stream: what it cannot be for is named, and goes on."""
    text, notes = rendered(stateful(), dialect="coscheduling", gang_min=2)

    assert "PodGroup" not in text
    assert 1 == len(notes)


def test_kueue_writes_no_gang_and_no_note() -> None:
    """It admits all pods of a workload before the first is made."""
    text, notes = rendered(stateful(), dialect="kueue", queue="q")

    assert "kueue.x-k8s.io/queue-name: q" in text
    assert [] == notes


def test_the_program_prints_the_note_and_succeeds() -> None:
    """A note is no failure: stderr has it, stdout the stream."""
    process = subprocess.run(
        [sys.executable, "-m", "allranks.postrender", "--dialect=volcano"],
        input=yaml.safe_dump(stateful()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 0 == process.returncode
    assert "schedulerName: volcano" in process.stdout
    assert process.stderr.startswith(
        'allranks-postrender: note: stdin:1, StatefulSet "db": no gang'
    )
    assert 1 == process.stderr.count("\n")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"names": ("nope",)}, ["--name nope: no object that these options can change is of"]),
        ({"names": ("ps", "nope")}, ["--name nope: "]),
        ({"names": ("ps",)}, []),
        ({"kinds": ("CronJob",)}, ["--kind CronJob: no object that these options can change is"]),
        ({"kinds": ("CronJob",), "names": ("ps",)}, ["--name ps: "]),
    ],
)
def test_options_for_an_object_that_is_not_there(
    choice: dict[str, Any], expected: list[str]
) -> None:
    """A name or a kind that nothing has is said: a mistyped name would have no effect."""
    manifest = stateful()
    manifest["metadata"]["name"] = "ps"
    _, notes = rendered(manifest, scheduler_name="mine", **choice)
    assert len(expected) == len(notes)
    assert all(note.startswith(start) for note, start in zip(notes, expected, strict=True))


def test_options_for_a_stream_without_workloads() -> None:
    """The name that nothing has is said there, too."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ps"}}
    _, notes = rendered(manifest, scheduler_name="mine", names=("ps",))
    assert 1 == len(notes)

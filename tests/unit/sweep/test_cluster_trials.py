"""Trials on a cluster that only pretends, with a helm that only writes its records.

It is long because all that can happen to a trial is tried on one such cluster.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import resources
from allranks.cluster import paths
from allranks.errors import (
    ForbiddenError,
    InputError,
    NameTakenError,
    NotFoundError,
    ReleaseTakenError,
    RunError,
    ToolError,
)
from allranks.helm import errors, releases
from allranks.helm.binary import HelmBinary
from allranks.helm.releases import ReleaseRef
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.sweep import actions, model, runner
from allranks.sweep.model import Trial
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.spec.prepare import PreparedSweep
from allranks.sweep.trials import cluster as cluster_trials
from allranks.sweep.trials import logs
from allranks.sweep.trials import releases as trials_releases
from allranks.sweep.trials.base import TrialOutput, last_line
from allranks.sweep.trials.cluster import ClusterTrials
from tests.unit.cluster.fake_cluster import FakeCluster, FakeStream

from .simulation import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.sweep.actions import ObservedRelease

_IN = re.compile(r"(\S+) in \(([^)]*)\)")
_PATIENCE = 20.0
OURS = OwnerMark("5eed", "jo.laptop")
MARKED = {"allranks.dev/sweep": "s", "allranks.dev/sweep-id": "5eed"}


class Cluster(FakeCluster):
    """One that knows sets in selectors, too."""

    def list(self, resource_path: str, **options: Any) -> list[dict[str, Any]]:
        """All of a kind whose labels have what the selector asks."""
        values_match = _IN.fullmatch(options.get("label_selector", ""))
        if values_match is None:
            return super().list(resource_path, **options)
        objects = super().list(resource_path)
        names = values_match[2].split(",")
        return [
            manifest
            for manifest in objects
            if manifest["metadata"]["labels"].get(values_match[1]) in names
        ]

    def add(self, manifest: dict[str, Any]) -> None:
        """One more object, or another state of it."""
        self.objects[paths.manifest_path(manifest), manifest["metadata"]["name"]] = manifest


def pretended(*objects: dict[str, Any]) -> Any:
    """One with objects; of what the port asks it has only what trials need."""
    return Cluster(*objects)


class Helm:
    """What helm does to the cluster.

    Attributes:
        refusals: raised by the next installs.
        leaves: a refused install has written its record.
        stuck: why nothing is uninstalled.
        installs: the releases that were installed, and how.
        uninstalls: those that were uninstalled.
    """

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.refusals: list[Exception] = []
        self.leaves = False
        self.stuck: Exception | None = None
        self.installs: list[tuple[str, dict[str, Any]]] = []
        self.uninstalls: list[str] = []

    def install(
        self, home: ReleaseRef, chart: Path, values: Mapping[str, Any], **options: Any
    ) -> None:
        """Write the record of a release."""
        assert values
        self.installs.append((home.name, {**options, "chart": chart, "is_tied": home.is_tied}))
        if self.refusals:
            if self.leaves:
                self.cluster.add(record(home.name, options["labels"], "failed"))
            raise self.refusals.pop(0)
        self.cluster.add(record(home.name, options["labels"]))

    def uninstall(self, home: ReleaseRef) -> bool:
        """Take the record away."""
        self.uninstalls.append(home.name)
        if self.stuck is not None:
            raise self.stuck
        keys = [key for key in self.cluster.objects if key[1].startswith(f"release.{home.name}.")]
        for key in keys:
            del self.cluster.objects[key]
        return bool(keys)


def record(
    name: str, labels: Mapping[str, str], status: str = "deployed", version: int = 1, **fields: Any
) -> dict[str, Any]:
    """Helm's record of a release."""
    release = {"manifest": yaml.safe_dump(job(name)), **fields}
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    own = {"owner": "helm", "name": name, "status": status, "version": str(version)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"release.{name}.v{version}", "labels": {**own, **labels}},
        "data": {"release": base64.b64encode(packed).decode()},
    }


def job(name: str, *conditions: str, **fields: Any) -> dict[str, Any]:
    """A trial's Job."""
    labels = {"app.kubernetes.io/instance": name, "app.kubernetes.io/part-of": "allranks"}
    labels["app.kubernetes.io/managed-by"] = "Helm"
    true_conditions = [
        {"type": condition_type, "status": "True", "reason": "Because"}
        for condition_type in conditions
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "uid": f"{name}-job",
            "labels": {**labels, "allranks.dev/role": "trial", "allranks.dev/workload": "sweep"},
            "annotations": {"meta.helm.sh/release-name": name},
        },
        "spec": {"completions": 1, "parallelism": 1, "completionMode": "Indexed"},
        "status": {"conditions": true_conditions, "active": int(not true_conditions)},
        **fields,
    }


def pod(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """A trial's pod, whose trainer is in a state."""
    labels = job(name)["metadata"]["labels"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-0-x",
            "uid": f"{name}-uid",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                **labels,
                "batch.kubernetes.io/job-name": name,
                "batch.kubernetes.io/job-completion-index": "0",
            },
            "ownerReferences": [{"kind": "Job", "name": name, "uid": f"{name}-job"}],
        },
        "spec": {"containers": [{"name": "trainer"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "trainer", "state": state, "restartCount": 0}],
        },
    }


class Stand:
    """The trials of one sweep, and all around them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workload: str = "sweep") -> None:
        objective = model.Objective("accuracy")
        self.cluster = pretended()
        self.helm = Helm(self.cluster)
        monkeypatch.setattr(releases, "install", self.helm.install)
        monkeypatch.setattr(releases, "uninstall", self.helm.uninstall)
        prepared = PreparedSweep(spec(objective=objective), {}, "chart", workload, owner=OURS)
        self.home = ReleaseRef(HelmBinary(Path("helm"), "4.0.0", 4, supported=True), "s", "lab")
        self.trials = ClusterTrials(prepared, self.cluster, self.home)
        self.trial = Trial(7, "s-1234abcd", {}, model.RUNNING, attempts=1)

    def start(self) -> None:
        """Start the trial, and wait until helm has done its part."""
        self.trials.start(self.trial, {"a": 1})
        self.until(lambda observed: observed is None or observed.phase != actions.STARTING)

    def look(self) -> ObservedRelease | None:
        """What is seen of the trial."""
        return self.trials.observe().get(self.trial.name)

    def observed(self) -> ObservedRelease:
        """What is seen of the trial, of which something is."""
        observed = self.look()
        assert observed is not None
        return observed

    def until(self, check: Callable[[ObservedRelease | None], bool]) -> ObservedRelease | None:
        """What is seen of the trial once a check holds."""
        deadline = time.monotonic() + _PATIENCE
        while not check(observed := self.look()):
            assert time.monotonic() < deadline, observed
            self.trials.wait(0.01)
        return observed

    def phase(self, phase: str) -> ObservedRelease:
        """The trial, once it is in a phase."""
        observed = self.until(lambda observed: observed is not None and observed.phase == phase)
        assert observed is not None
        return observed


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A sweep of our own chart."""
    _hurry(monkeypatch)
    return Stand(monkeypatch)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A sweep of somebody else's chart."""
    _hurry(monkeypatch)
    return Stand(monkeypatch, workload="")


def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allranks.sweep.trials.cluster._LOOK", 0.0)
    monkeypatch.setattr(logs, "_PAUSE", 0.0)


def test_a_trial_from_its_start_to_its_removal(stand: Stand) -> None:
    """Its release has the sweep's labels; its end is told once all that it said is at hand."""
    trial = stand.trial
    stand.start()
    ((name, options),) = stand.helm.installs
    labels = {**MARKED, "allranks.dev/trial": "7", "allranks.dev/begun-by": "jo.laptop"}
    assert (trial.name, labels, True) == (name, options["labels"], options["is_tied"])
    assert actions.RUNNING == stand.phase(actions.RUNNING).phase
    assert TrialOutput([]) == stand.trials.read(trial)
    stream = FakeStream("2026-01-01T00:00:01Z accuracy=0.5 step=1", end=False)
    stand.cluster.streams[f"{trial.name}-0-x"] = [stream]
    stand.cluster.add(job(trial.name))
    stand.cluster.add(pod(trial.name, {"running": {}}))
    lines: list[str] = []
    while not lines:
        assert actions.RUNNING == stand.phase(actions.RUNNING).phase
        lines += stand.trials.read(trial).lines
    stand.cluster.add(job(trial.name, "Complete"))
    container_state = {"terminated": {"exitCode": 0, "message": '{"accuracy": 0.9}'}}
    stand.cluster.add(pod(trial.name, container_state))
    assert actions.RUNNING == stand.phase(actions.RUNNING).phase  # its log goes on
    stream.feed("2026-01-01T00:00:02Z accuracy=0.7 step=2")
    stream.feed(None)
    stand.phase(actions.SUCCEEDED)
    output = stand.trials.read(trial)
    assert ["accuracy=0.5 step=1", "accuracy=0.7 step=2"] == [*lines, *output.lines]
    assert '{"accuracy": 0.9}' == output.message
    stand.trials.remove(trial.name)
    stand.until(lambda observed: observed is None)
    assert [] == stand.helm.uninstalls  # it was plain
    assert {("api/v1/pods", f"{trial.name}-0-x")} == set(stand.cluster.objects)
    stand.trials.close()


def test_a_trial_that_says_nothing_failed_with_its_exit_code(stand: Stand) -> None:
    """The launcher's own line, with the trial's name, is not its last words."""
    stand.start()
    message = "allranks: running setup\nallranks: trial 0: s-7049d5af\n"
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "message": message}}
    stand.cluster.add(job(stand.trial.name, "Failed"))
    stand.cluster.add(pod(stand.trial.name, ended))
    assert "exit code 3" == stand.phase(actions.FAILED).reason
    stand.trials.close()


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ([], ""),
        (["allranks: trial 3: al-7049d5af", ""], ""),
        (["allranks: trial a", "no luck", "allranks: waiting for rank 0 (1 s of 9 s)"], "no luck"),
        (["no luck", "allranks: error: no port"], "allranks: error: no port"),
        (["allranks: setup failed with exit code 1; the command was not run"] * 2, "setup"),
    ],
)
def test_the_last_line_of_a_trial(lines: list[str], last: str) -> None:
    """Launchers' lines of progress say nothing of a failure; what they say failed does."""
    line = last_line(lines)
    assert last in line
    assert bool(last) == bool(line)


def test_why_a_trial_failed(stand: Stand) -> None:
    """Its exit code and its last words; and a job that is gone has not ended well."""
    stand.start()
    container_state = {
        "terminated": {"exitCode": 3, "reason": "Error", "message": "one\nout of memory\n"}
    }
    stand.cluster.add(job(stand.trial.name, "Failed"))
    stand.cluster.add(pod(stand.trial.name, container_state))
    assert "exit code 3: out of memory" == stand.phase(actions.FAILED).reason
    assert "" == stand.trials.read(stand.trial).message
    stand.trials.remove(stand.trial.name)
    stand.until(lambda observed: observed is None)
    stand.start()
    stand.cluster.add(job(stand.trial.name))
    stand.phase(actions.RUNNING)
    stand.cluster.objects.pop((paths.JOBS, stand.trial.name))
    assert "was removed before its end" in stand.phase(actions.FAILED).reason
    stand.trials.close()


@pytest.mark.parametrize(
    ("error", "phase", "retryable"),
    [
        (RunError("the namespace's quota forbids it: exceeded"), actions.BLOCKED, True),
        (RunError("the cluster does not answer: refused"), actions.BLOCKED, True),
        (InputError("s-1234abcd: must be a number"), actions.FAILED, False),
        (ForbiddenError("may not create jobs"), actions.FAILED, False),
        (ToolError('helm failed: Job "s-1234abcd" is invalid: spec'), actions.FAILED, False),
        (
            errors.parse('Error: Job.batch "s-1234abcd" is invalid: spec.a: no'),
            actions.FAILED,
            False,
        ),
        (ToolError("helm failed: something"), actions.FAILED, True),
    ],
)
def test_what_a_refused_install_means(
    stand: Stand, error: Exception, phase: str, *, retryable: bool
) -> None:
    """What it left is removed first; the reason is the same for all trials."""
    stand.helm.refusals.append(error)
    stand.helm.leaves = True
    stand.start()
    observed = stand.phase(phase)
    assert retryable == observed.retryable
    assert "s-1234abcd" not in observed.reason
    assert [stand.trial.name] == stand.helm.uninstalls
    stand.start()
    stand.phase(actions.RUNNING)
    stand.trials.close(at_once=True)


def test_what_helm_is_told_more_than_once(stand: Stand) -> None:
    """A release that is there is started; one that needs the post-renderer gets it from then on."""
    needs = InputError("these values need the post-renderer, and helm was called without it")
    stand.helm.refusals.append(needs)
    stand.start()
    stand.phase(actions.RUNNING)
    stand.helm.refusals.append(ReleaseTakenError("a release of this name is already there"))
    stand.start()
    stand.phase(actions.RUNNING)
    assert [False, True, True] == [options["post_render"] for _, options in stand.helm.installs]
    assert [] == stand.helm.uninstalls
    stand.trials.close()


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        ({}, "a release of chart foo"),
        ({"allranks.dev/sweep": "s"}, "another sweep s"),
        (
            MARKED | {"allranks.dev/sweep-id": "b0b", "allranks.dev/begun-by": "bo.desk"},
            "another sweep s, begun by bo.desk",
        ),
    ],
)
def test_a_release_of_somebody_elses(stand: Stand, labels: dict[str, str], whose: str) -> None:
    """Is neither adopted nor removed, whatever it is called; the trial fails, and says why."""
    theirs = record(stand.trial.name, labels, "failed", chart={"metadata": {"name": "foo"}})
    stand.cluster.add(theirs)
    assert stand.look() is None
    for refusal in (
        ReleaseTakenError("a release of this name is already there"),
        ToolError("helm failed: release: already exists"),
    ):
        stand.helm.refusals.append(refusal)
        stand.start()
        observed = stand.phase(actions.FAILED)
        assert (True, False) == (f"taken by {whose};" in observed.reason, observed.retryable)
        stand.trials.remove(stand.trial.name)
        stand.until(lambda observed: observed is None)
    assert [theirs] == list(stand.cluster.objects.values())
    assert [] == stand.helm.uninstalls
    assert ([stand.trial.name] if labels else []) == list(stand.trials.foreign_releases())
    stand.trials.close()


def test_a_second_sweep_of_a_name_is_refused(stand: Stand) -> None:
    """With whose releases are there, which, and what to do; one's own are no reason."""
    stand.cluster.add(record(stand.trial.name, MARKED))
    runner.refuse_others("s", stand.trials, "lab")
    for number in range(5):
        labels = {"allranks.dev/sweep": "s", "allranks.dev/begun-by": "bo.desk"}
        stand.cluster.add(record(f"s-{number}", labels | {"allranks.dev/sweep-id": "b0b"}))
    with pytest.raises(InputError) as excinfo:
        runner.refuse_others("s", stand.trials, "lab")
    assert (
        "in namespace lab are releases of another sweep s, begun by bo.desk: s-0, s-1, s-2 and 2 "
        "more" == excinfo.value.problem.message
    )
    assert "`allranks sweep delete s` removes it" in excinfo.value.problem.hint
    with pytest.raises(InputError) as excinfo:
        runner.refuse_others("s", stand.trials, "lab", lambda: "secret:lab/s")
    assert "`allranks sweep status s --journal secret:lab/s` shows it" in excinfo.value.problem.hint
    stand.trials.close()


def test_volumes_that_stay_are_seen(stand: Stand) -> None:
    """Those of this sweep's trials that were asked to; not another's, and not what is going."""
    keep = {"helm.sh/resource-policy": "keep"}
    for name, release, release_annotations, going in (
        ("a-data", "s-a", keep, {}),
        ("gone", "s-a", keep, {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("plain", "s-a", {}, {}),
        ("theirs", "s-b", keep, {}),
        ("foreign", "other", keep, {}),
    ):
        metadata = {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": release, **release_annotations},
            **going,
        }
        stand.cluster.add(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        )
    stand.cluster.add(record("s-b", {"allranks.dev/sweep": "s"}))
    claim = "persistentvolumeclaims/a-data"
    assert {claim: claim} == stand.trials.claims(["s-a", "s-b"])
    stand.cluster.refuse = lambda _, path: (
        ForbiddenError("may not list") if path == paths.CLAIMS else None
    )
    assert {} == stand.trials.claims(["s-a"])
    stand.trials.close()


def test_a_chart_that_cannot_be_fetched_any_more(stand: Stand) -> None:
    """Is waited for as a cluster is, and named: it was there when the sweep began."""
    chart = "https://charts.example.com/it.tgz"
    prepared = PreparedSweep(spec(), {}, chart, "", owner=OURS)
    trials = ClusterTrials(prepared, stand.cluster, stand.home)
    message = 'the cluster does not answer: Get "https://charts.example.com/it.tgz": no such host'
    stand.helm.refusals.append(RunError(message))
    trials.start(stand.trial, {"a": 1})
    _wait(
        lambda: (
            not any(observed.phase == actions.STARTING for observed in trials.observe().values())
        )
    )
    observed = trials.observe()[stand.trial.name]
    assert actions.BLOCKED == observed.phase
    assert observed.reason.startswith(f"the chart {chart} cannot be fetched: Get ")
    trials.close()
    stand.trials.close()


def test_an_object_of_a_trials_name_fails_it(stand: Stand) -> None:
    """Where there is no release, but what one would make: waiting would be for ever."""
    message = "an object of this name is already there and belongs to another release: Job x"
    stand.helm.refusals.append(NameTakenError(message))
    stand.start()
    observed = stand.phase(actions.FAILED)
    assert (message, False, []) == (observed.reason, observed.retryable, stand.helm.uninstalls)
    stand.trials.close()


def test_the_cluster_is_not_asked_at_each_turn(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks the last one is told, with what was begun since."""

    def look_is_due(*, due: bool) -> None:
        monkeypatch.setattr("allranks.sweep.trials.cluster._LOOK", 0.0 if due else 600.0)

    assert {} == stand.trials.observe()
    look_is_due(due=False)
    stand.trials.start(stand.trial, {"a": 1})
    _wait(lambda: stand.cluster.objects)
    # Helm is done, but no look has seen the release yet: it must not seem to be gone.
    request_count = len(stand.cluster.requests)
    assert actions.STARTING == stand.observed().phase
    assert request_count == len(stand.cluster.requests)
    look_is_due(due=True)
    stand.phase(actions.RUNNING)
    look_is_due(due=False)
    stand.trials.remove(stand.trial.name)
    _wait(lambda: not stand.cluster.objects)
    assert actions.REMOVING == stand.observed().phase
    stand.trials.close()


def test_a_look_that_fails_is_none(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier one has found is not told in its stead, however soon it is asked again."""
    monkeypatch.setattr("allranks.sweep.trials.cluster._LOOK", 600.0)
    stand.cluster.refuse = lambda *_: ToolError("the cluster does not answer")
    for _ in range(2):
        with pytest.raises(ToolError, match="does not answer"):
            stand.trials.observe()
    stand.trials.close()


def test_helm_reads_a_lean_copy_of_a_chart_that_was_checked(stand: Stand) -> None:
    """Where all trials have one layout; the copy is made once, and goes at the end."""
    chart = resources.folder("charts") / "sweep"
    layout = compute(JobSpec.from_values({"workload": "torchrun", "nodes": 1}))
    prepared = PreparedSweep(spec(), {}, chart, "sweep", layout)
    trials = ClusterTrials(prepared, stand.cluster, stand.home)
    for name in ("s-1", "s-2"):
        trials.start(Trial(1, name, {}, model.RUNNING, attempts=1), {"a": 1})
    _wait(lambda: len(stand.helm.installs) == 2)
    (chart_copy,) = {options["chart"] for _, options in stand.helm.installs}
    assert "sweep" == chart_copy.name
    assert (chart_copy / "Chart.yaml").read_bytes() == (chart / "Chart.yaml").read_bytes()
    assert not (chart_copy / "values.schema.json").exists()
    trials.close()
    assert not chart_copy.exists()
    stand.trials.close()


def _wait(check: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_a_killed_helm_left_is_removed(stand: Stand) -> None:
    """Whatever its record says; nobody else works on the releases of this sweep."""
    for status in ("pending-install", "failed", "uninstalling"):
        stand.cluster.add(record(stand.trial.name, MARKED, status))
        observed = stand.look()
        assert observed is not None
        assert actions.REMOVING == observed.phase
        stand.until(lambda observed: observed is None)
    # What an install that was killed has made stands in its record; the rest is for helm to judge.
    assert [stand.trial.name] * 2 == stand.helm.uninstalls
    stand.cluster.add(record("other-1234abcd", {"allranks.dev/sweep": "other"}))
    assert {} == stand.trials.observe()
    stand.trials.close()


def test_a_release_that_cannot_be_removed_ends_the_runner(stand: Stand) -> None:
    """Not at the first time: a cluster may be away for a moment."""
    stand.helm.stuck = ToolError("may not delete")
    stand.cluster.add(record(stand.trial.name, MARKED, "failed"))
    with pytest.raises(RunError, match="cannot be removed: may not delete"):
        stand.until(lambda _: False)
    assert trials_releases._REMOVALS == len(stand.helm.uninstalls)
    stand.trials.close()


def test_a_foreign_charts_trial_ends_with_its_jobs(foreign: Stand) -> None:
    """They are found by what helm writes on them; a chart without a job has no trials."""
    name = foreign.trial.name
    foreign.cluster.add(job(name))
    foreign.start()
    foreign.cluster.add(pod(name, {"running": {}}))
    foreign.phase(actions.RUNNING)
    foreign.cluster.add(job(name, "Failed"))
    assert "Because" == foreign.phase(actions.FAILED).reason
    foreign.trials.remove(name)
    foreign.until(lambda observed: observed is None)
    foreign.cluster.add(job(name, "Complete"))
    foreign.start()
    foreign.phase(actions.SUCCEEDED)
    foreign.trials.remove(name)
    foreign.until(lambda observed: observed is None)
    foreign.start()
    observed = foreign.phase(actions.FAILED)
    assert ("makes no Job" in observed.reason, False) == (True, observed.retryable)
    foreign.trials.close()


def test_pods_of_an_earlier_attempt_say_nothing(stand: Stand) -> None:
    """They may still be going when the next one has begun; neither end nor log of them is its."""
    stand.start()
    old = pod(stand.trial.name, {"terminated": {"exitCode": 0, "message": "accuracy=1"}})
    old["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    stand.cluster.add(old)
    stand.cluster.add(job(stand.trial.name))
    stand.phase(actions.RUNNING)
    stand.cluster.add(job(stand.trial.name, "Complete"))
    stand.phase(actions.SUCCEEDED)
    assert TrialOutput([], "") == stand.trials.read(stand.trial)
    assert not any(request[0] == "logs" for request in stand.cluster.requests)
    stand.trials.close()


def _log(cluster: Any, *, over: bool = True) -> logs.PodLog:
    slots = threading.Semaphore(1)
    return logs.PodLog(cluster, ("lab", "p", "trainer"), lambda: over, slots)


def _all(log: logs.PodLog) -> list[str]:
    log_lines: list[str] = []
    deadline = time.monotonic() + _PATIENCE
    while not (log.done and log.is_empty):
        assert time.monotonic() < deadline
        log_lines += log.take()
    return log_lines


def test_a_log_that_breaks_off_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is lost, and none comes twice."""
    monkeypatch.setattr(logs, "_PAUSE", 0.0)
    cluster = pretended()
    cluster.streams["p"] = [
        FakeStream("1 a", "2 b", ToolError("broken")),
        FakeStream("2 b", "3 c"),
    ]
    log = _log(cluster)
    assert ["a", "b", "c"] == _all(log)
    assert "" == log.trouble
    log.close()


def test_a_log_that_cannot_be_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where it is gone, and after some tries where the node does not answer."""
    monkeypatch.setattr(logs, "_PAUSE", 0.0)
    for error, times in ((NotFoundError("gone"), 1), (ToolError("away"), 3)):
        cluster = pretended()
        cluster.refuse = lambda *_, error=error: error
        log = _log(cluster)
        assert [] == _all(log)
        assert (times, str(error)) == (len(cluster.requests), log.trouble)


def test_a_log_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its trial has ended it has some seconds; and closing ends its reading."""
    monkeypatch.setattr(cluster_trials, "_PATIENCE", 0.0)
    cluster = pretended()
    cluster.streams["s-1-0-x"] = [FakeStream(end=False)]
    slots = threading.Semaphore(1)
    pods = cluster_trials.TrialPods(cluster, "lab", spec(objective=model.Objective("a")), slots)
    pods.update([job("s-1")], [pod("s-1", {"running": {}})])
    pods.is_read()
    assert pods.is_read()
    pods.close()
    with slots:
        assert [] == pods.take()


@pytest.mark.parametrize(
    "changed",
    [
        {"hooks": [{"name": "hook"}]},
        {"manifest": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"},
        {"manifest": "{: not yaml"},
        {"manifest": "- a list\n"},
        {"manifest": "apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: other}\n"},
        {"manifest": "apiVersion: v1\nkind: Service\n"},
    ],
)
def test_what_is_not_plain_is_left_to_helm(changed: dict[str, Any]) -> None:
    """Nothing is deleted."""
    cluster = pretended(record("r", {}, **changed))
    before = dict(cluster.objects)
    assert not _remove(cluster)
    assert before == cluster.objects


def test_records_that_helm_alone_understands() -> None:
    """Several revisions, no record, another state, and one that is broken."""
    assert not _remove(pretended())
    assert not _remove(pretended(record("r", {}), record("r", {}, version=2)))
    assert not _remove(pretended(record("r", {}, "pending-upgrade")))
    broken = record("r", {})
    broken["data"]["release"] = "AAAA"
    assert not _remove(pretended(broken))


def _remove(cluster: Any) -> bool:
    return trials_releases.remove(cluster, "lab", trials_releases.records(cluster, "lab", "r"))


def test_what_is_to_be_kept_is_kept() -> None:
    """As helm keeps it; the rest goes, and the record last."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": {"helm.sh/resource-policy": "keep"}},
    }
    text = yaml.safe_dump_all([claim, job("r")])
    cluster = pretended(record("r", {}, manifest=text), claim, job("r"))
    assert _remove(cluster)
    assert [("api/v1/persistentvolumeclaims", "data")] == list(cluster.objects)
    deleted = [request[1] for request in cluster.requests if request[0] == "delete"]
    assert [paths.JOBS, paths.SECRETS] == deleted

"""Sweeps as Helm releases on a real control plane; their pods are fake and end as told."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from allranks import names
from allranks.errors import InputError
from allranks.helm import releases
from allranks.helm.binary import inspect
from allranks.helm.releases import ReleaseRef
from allranks.sweep import actions, model, runner
from allranks.sweep.spec.prepare import SweepFlags, prepare
from allranks.values.sources import Sources

from .conftest import until
from .sweeping import FOREIGN, Field, fake

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(600)

_METRIC = {"metric": "accuracy"}
# Seconds for what takes a few of them where the machine has little else to do.
_PATIENCE = 240


@pytest.fixture
def field(
    cluster: Cluster,
    namespace: str,
    helm: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Field:
    """Where a sweep runs, with each major of helm in turn."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))
    return Field(cluster, namespace, helm.path, tmp_path)


@pytest.fixture(autouse=True)
def _node(make_nodes: MakeNodes) -> None:
    """One fake node runs the pods."""
    make_nodes(1)


def _report(value: float) -> str:
    return f'{{"accuracy": {value}}}'


def _helms(namespace: str) -> list[int]:
    """The helm processes at work in a namespace."""
    processes = psutil.process_iter(["pid", "cmdline"])
    return [
        process.info["pid"]
        for process in processes
        if process.info["cmdline"]
        and process.info["cmdline"][0].endswith("/helm")
        and namespace in process.info["cmdline"]
    ]


def test_trials_are_releases(field: Field) -> None:
    """Each is one release, so many at a time; the results are known and nothing is left."""
    choices = [fake(n, says=_report(n / 10)) for n in range(5)]
    choices.append(fake(5, code=3))
    values, over = field.write(choices, objective=_METRIC, parallel=3)
    state = field.run(field.prepare(values, over))
    assert (actions.COMPLETED, 5, 1) == (
        state.outcome,
        state.counts[model.SUCCEEDED],
        state.counts[model.FAILED],
    )
    assert [0.0, 0.1, 0.2, 0.3, 0.4, None] == [trial.value for trial in state.trials.values()]
    assert "exit code 3" == state.trials[5].reason
    assert 4 == state.best
    assert [] == field.releases()
    assert [] == field.items("batch/v1/jobs")


def test_a_killed_helm_leaves_nothing_behind(field: Field) -> None:
    """Helm ends with the runner; what it had begun is removed and begun again."""
    values, over = field.write([fake(n, ends="1s") for n in range(8)], parallel=8)
    process = field.process(values, over)
    until(field.releases, "a release")
    process.kill()
    process.communicate()
    until(lambda: not _helms(field.namespace), "the end of every helm", 10)
    out, err = field.process(values, over).communicate(timeout=_PATIENCE)
    assert "completed" in out, err
    state = field.look()
    assert (8, {1}) == (
        state.counts[model.SUCCEEDED],
        {trial.attempts for trial in state.trials.values()},
    )
    assert [] == field.releases()


def test_a_full_quota_is_waited_for(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials that find no room fail in nothing: they begin once there is some."""
    monkeypatch.setattr("allranks.sweep.decide.BLOCKED_WAIT", 1.0)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/jobs.batch": "2"}},
    }
    root = f"/api/v1/namespaces/{field.namespace}/resourcequotas"
    field.cluster.api("POST", root, quota)
    until(
        lambda: field.items("v1/resourcequotas")[0].get("status", {}).get("used"), "the quota's use"
    )
    values, over = field.write([fake(n, ends="0.5s") for n in range(5)], parallel=4)
    state = field.run(field.prepare(values, over))
    assert (actions.COMPLETED, 5) == (state.outcome, state.counts[model.SUCCEEDED])
    assert {1} == {trial.attempts for trial in state.trials.values()}
    assert [] == field.releases()


def test_a_sweep_is_stopped_and_goes_on(field: Field) -> None:
    """Ctrl-C removes the releases of what runs; resumed, all trials run to their ends."""
    # The first two still run when the signal comes.
    choices = [fake(n, ends="10s" if n < 2 else "0.2s") for n in range(4)]
    values, over = field.write(choices, parallel=2)
    process = field.process(values, over)
    until(lambda: len(field.items("v1/pods")) == 2, "two trials' pods")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_PATIENCE)
    assert "stopped interrupted by SIGINT" in out, err
    assert [] == field.releases()
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        prepared = runner.resume(journal)
        state = runner.run(prepared, field.trials(prepared), journal)
    assert (actions.COMPLETED, 4) == (state.outcome, state.counts[model.SUCCEEDED])
    assert [] == field.releases()


def test_what_fails_can_be_kept(field: Field) -> None:
    """With `keep: failed` the releases of failed trials stay, until the sweep is cleared."""
    choices = [fake(0), fake(1, code=2), fake(2)]
    values, over = field.write(choices, parallel=3, keep="failed")
    prepared = field.prepare(values, over)
    state = field.run(prepared)
    release = state.trials[1].name
    assert [release] == field.releases()
    trials = field.trials(prepared)
    assert (release,) == runner.clear(trials)
    trials.close()
    assert [] == field.releases()


def test_what_the_cluster_refuses_is_no_reason_to_try_again(field: Field) -> None:
    """The refusal is the reason, and retries are not spent on it."""
    values, over = field.write([fake(0), fake(1)], parallel=2, retries=3)
    template = {"podTemplate": {"spec": {"activeDeadlineSeconds": -1}}}
    values.write_text(yaml.safe_dump(yaml.safe_load(values.read_text()) | template))
    state = field.run(field.prepare(values, over))
    assert (actions.BROKEN, 2) == (state.outcome, state.counts[model.FAILED])
    assert {1} == {trial.attempts for trial in state.trials.values()}, state.reason
    assert "all for this: " in state.reason
    assert "activeDeadlineSeconds" in state.reason
    assert [] == field.releases()


def test_a_foreign_chart_is_swept(field: Field) -> None:
    """Each trial is a release of it, with its parameter at the path; its job says how it ended."""
    chart = field.folder / "mine"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: mine, version: 1.0.0}")
    (chart / "values.yaml").write_text("learning: {rate: '0.1'}\ncode: 0\n")
    (chart / "templates/job.yaml").write_text(FOREIGN)
    request = SweepFlags("s", Sources(), str(chart), ("learning.rate=1e-5,0.10", "code=0,4"))
    state = field.run(prepare(request))
    assert {"0": model.SUCCEEDED, "4": model.FAILED} == {
        trial.assignment["code"].text: trial.state for trial in state.trials.values()
    }
    assert {"BackoffLimitExceeded": 2} == dict(state.reasons())
    assert [] == field.releases()


def test_two_sweeps_of_one_name(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither takes the other's releases, and a plain release of a trial's name stays, too."""
    choices = [fake(n, says=_report(n / 10)) for n in range(3)]
    values, over = field.write(choices, objective=_METRIC, keep="all", trials=2)
    first = field.prepare(values, over)
    assert 2 == field.run(first).counts[model.SUCCEEDED]
    uids = {item["metadata"]["uid"] for item in field.items("v1/secrets")}
    assert 2 == len(uids)
    monkeypatch.setenv(names.ENV_STATE, str(field.folder / "elsewhere"))
    field.write(choices, objective=_METRIC)
    second = field.prepare(values, over)
    trials = field.trials(second)
    with pytest.raises(InputError, match=f"in namespace {field.namespace} are releases of another"):
        runner.refuse_others("s", trials, field.namespace)
    trials.close()
    # Begun at the same moment, neither would be refused.
    state = field.run(second)
    assert [model.FAILED, model.FAILED, model.SUCCEEDED] == [
        trial.state for trial in state.trials.values()
    ]
    assert "its name is taken by another sweep s, begun by " in state.trials[0].reason
    assert uids == {item["metadata"]["uid"] for item in field.items("v1/secrets")}
    trials = field.trials(first)
    assert sorted(field.releases()) == sorted(runner.clear(trials))
    trials.close()
    assert [] == field.releases()

    chart = field.folder / "foo"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: foo\nversion: 0.1.0\n")
    home = ReleaseRef(
        inspect(field.helm), state.trials[0].name, field.namespace, str(field.cluster.kubeconfig)
    )
    releases.install(home, chart, {}, post_render=False)
    monkeypatch.setenv(names.ENV_STATE, str(field.folder / "third"))
    state = field.run(field.prepare(values, over))
    assert "its name is taken by a release of chart foo; " in state.trials[0].reason
    assert (2, [home.name]) == (state.counts[model.SUCCEEDED], field.releases())

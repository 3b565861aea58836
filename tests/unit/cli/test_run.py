"""What a local run changes in a person's values, and which exit code it ends with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from allranks import names
from allranks.cli import follow, status_view
from allranks.cli.commands import avoid
from allranks.cli.commands import run as run_command
from allranks.cli.run_options import RunOptions
from allranks.local import runs as local_runs
from allranks.local import values as local_values
from allranks.model.status import Failure, Phase, RunStatus

DEFAULTS = {
    "workload": "torchrun",
    "queue": "",
    "scheduling": {"dialect": "none", "topology": {"mode": "none"}},
    "network": {"rdma": {"enabled": False}},
    "torchrun": {"port": 29500, "rdzvEndpoint": ""},
}


@pytest.fixture(autouse=True)
def _ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only port 29500 is taken on this machine."""
    monkeypatch.setattr(local_runs, "free_port", lambda port: 29501 if port == 29500 else port)


def test_what_only_a_cluster_has_is_turned_off() -> None:
    """Queue, dialect, topology and RDMA are off, each with a note; all else stays."""
    user = {
        "queue": "research",
        "scheduling": {"dialect": "kueue", "topology": {"mode": "required", "level": "rack"}},
        "network": {"rdma": {"enabled": True}},
        "torchrun": {"port": 4000},
        "args": ["x"],
    }
    local = local_values.values_for_this_machine(user, {**DEFAULTS, **user})
    assert local.values == {
        "queue": "",
        "scheduling": {"dialect": "none", "topology": {"mode": "none", "level": "rack"}},
        "network": {"rdma": {"enabled": False}},
        "torchrun": {"port": 4000},
        "args": ["x"],
    }
    assert [note.split(" ")[0] for note in local.notes] == [
        "queue",
        "scheduling.dialect",
        "scheduling.topology.mode",
        "network.rdma.enabled",
    ]
    assert user["queue"] == "research"


def test_no_image_is_needed() -> None:
    """The charts get one that nothing looks at; one that is given stays."""
    merged = {**DEFAULTS, "torchrun": {"port": 4000}, "image": {"repository": ""}}
    assert {"image": {"repository": "none"}} == local_values.values_for_this_machine(
        {}, merged
    ).values
    user_values = {"image": {"repository": "my/trainer"}}
    assert (
        user_values
        == local_values.values_for_this_machine(user_values, {**merged, **user_values}).values
    )


def test_plain_values_stay_as_they_are() -> None:
    """Nothing is written into values that need no change."""
    merged = {**DEFAULTS, "torchrun": {"port": 4000}}
    assert local_values.values_for_this_machine({"args": []}, merged) == local_values.Local(
        {"args": []}, ()
    )


def test_a_busy_port_gives_way() -> None:
    """The next free port is taken, and told to who asked for one."""
    assert local_values.values_for_this_machine({}, DEFAULTS) == local_values.Local(
        {"torchrun": {"port": 29501}}, ()
    )
    local = local_values.values_for_this_machine({"torchrun": {"port": 29500}}, DEFAULTS)
    assert local.values == {"torchrun": {"port": 29501}}
    assert "torchrun.port is 29501 here" in local.notes[0]


def test_a_rendezvous_elsewhere_keeps_its_port() -> None:
    """It is nobody's on this machine."""
    elsewhere = {**DEFAULTS, "torchrun": {"port": 29500, "rdzvEndpoint": "etcd:2379"}}
    assert local_values.values_for_this_machine({}, elsewhere).values == {}


@pytest.mark.parametrize(
    ("phase", "code", "failure", "expected"),
    [
        (Phase.SUCCEEDED, 0, None, 0),
        (Phase.SUSPENDED, None, None, 0),
        (Phase.FAILED, 7, None, 7),
        (Phase.FAILED, None, 9, 9),
        (Phase.FAILED, None, None, 1),
        (Phase.FAILED, 0, None, 1),
    ],
)
def test_the_exit_code_is_the_jobs_and_never_0_for_a_failure(
    phase: Phase, code: int | None, failure: int | None, expected: int
) -> None:
    """The job's own code, else the first failure's, else 1."""
    first = None if failure is None else Failure("p", 0, "c", failure, 0.0)
    status = RunStatus("demo", "default", phase, exit_code=code, failure=first)
    assert expected == status_view.exit_code(status)


def test_a_run_starts_anew_off_the_nodes_that_its_preflight_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as another node is named; one that it avoids already ends it with its exit code."""

    def ended(node: str) -> RunStatus:
        message = f"preflight: node {node} is slow\nset scheduling.avoidNodes: [{node}]"
        failure = Failure("demo-1", 1, "trainer", names.EXIT_PREFLIGHT, 1.0, message=message)
        return RunStatus("demo", "lab", Phase.FAILED, workload="torchrun", failure=failure)

    ends = iter([ended("b2"), ended("b3"), ended("b3")])
    avoided: list[str] = []
    notes: list[str] = []

    def keep_off(_console: Any, _target: Any, _name: str, nodes: tuple[str, ...]) -> Any:
        is_changed = not set(nodes) <= set(avoided)
        avoided.extend(set(nodes) - set(avoided))
        return avoided, is_changed, []

    monkeypatch.setattr(follow, "follow", lambda *_: next(ends))
    monkeypatch.setattr(avoid, "keep_off", keep_off)
    monkeypatch.setattr(status_view, "show", lambda *_: None)
    console: Any = SimpleNamespace(note=notes.append, text=lambda _: None)
    target: Any = SimpleNamespace(cluster=None)
    home: Any = SimpleNamespace(name="demo", namespace="lab")
    code = run_command._follow_on_cluster(console, home, target, RunOptions(), ("Job",))
    assert (names.EXIT_PREFLIGHT, ["b2", "b3"]) == (code, avoided)
    assert notes == [
        "preflight: node b2 is slow; starting demo anew without b2",
        "preflight: node b3 is slow; starting demo anew without b3",
        "preflight: node b3 is slow; starting demo anew without b3",
        "demo is not started anew: it avoids b3 already",
    ]

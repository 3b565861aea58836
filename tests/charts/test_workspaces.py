"""The workspace in what the charts render: who has it, and how it is mounted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from allranks import names
from allranks.values.rules.command import ENTRY_RESERVE
from allranks.workspace import record
from tests import workspaces
from tests.charts.shared import rendered

CHARTS = Path(__file__).parents[2] / "charts"
SENT = workspaces.Sent(workspaces.pack({"train.py": ""}))
IMAGE = f"registry.example.com/team/code@{SENT.digest}"
# Each form of each workload, in values over the least that its chart needs.
FORMS: dict[str, dict[str, Any]] = {
    "torchrun": {"nodes": 2},
    "torchrun of a StatefulSet": {"nodes": 2, "torchrun": {"controller": "StatefulSet"}},
    "mpi": {"gpus": 12, "gpusPerNode": 8, "mpi": {"runLauncherAsWorker": True}},
    "mpi by exec": {"mpi": {"numWorkers": 2, "transport": "exec"}},
    "elastic": {
        "elastic": {
            "framework": "tensorflow",
            "roles": {name: {"replicas": 1} for name in ("ps", "worker", "chief", "evaluator")},
        }
    },
    "elastic with a master": {"elastic": {"mode": "auto", "framework": "tensorflow"}},
    "sweep": {"sweep": {"parameters": {"lr": {"values": ["1", "2"], "arg": "--lr"}}}},
    "sweep of sets": {"nodes": 2, "sweep": rendered.SWEEP},
}


def _render(template: Any, form: str, **values: Any) -> dict[str, Any]:
    """The manifests of a form that has a workspace."""
    chart = form.split(maxsplit=1)[0]
    all_values = rendered.minimal(chart) | FORMS[form] | SENT.values() | values
    manifests = template(CHARTS / chart, values=all_values, name="demo")
    return rendered.by_name(manifests)


def _trainers(manifests: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The pod templates that run the command, each with its container."""
    return [
        (pod, next(item for item in pod["spec"]["containers"] if item["name"] == "trainer"))
        for pod in rendered.templates(manifests).values()
    ]


def _env(container: dict[str, Any]) -> dict[str, str]:
    prefix = "ALLRANKS_WORKSPACE_"
    return {
        item["name"].removeprefix(prefix): item["value"]
        for item in container["env"]
        if item["name"].startswith(prefix)
    }


@pytest.mark.parametrize("form", FORMS)
def test_every_pod_with_the_command_has_it(template: Any, form: str) -> None:
    """Each has the archive, a folder of its own, and what unpacks the one into the other."""
    manifests = _render(template, form)
    trainers = _trainers(manifests)
    assert trainers
    for pod, container in trainers:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert len(volumes) == len(pod["spec"]["volumes"])
        archive = volumes["workspace-archive"]["projected"]
        parts = [
            (source["configMap"]["name"], source["configMap"]["items"])
            for source in archive["sources"]
        ]
        keys = (f"archive.{number}" for number in range(2))
        expected = [
            (name, [{"key": key, "path": key}]) for name, key in zip(SENT.names, keys, strict=True)
        ]
        assert expected == parts
        assert 0o444 == archive["defaultMode"]
        assert {"name": "workspace-code", "emptyDir": {}} == volumes["workspace-code"]
        mounts = [
            mount
            for mount in container["volumeMounts"]
            if mount["name"] in {"workspace-archive", "workspace-code"}
        ]
        assert [
            {
                "name": "workspace-archive",
                "mountPath": "/etc/allranks-workspace",
                "readOnly": True,
            },
            {"name": "workspace-code", "mountPath": "/var/run/allranks-workspace"},
            {"name": "workspace-code", "mountPath": "/app", "subPath": "code"},
        ] == mounts
        assert "/app" == container["workingDir"]
        assert {
            "ARCHIVE": "/etc/allranks-workspace",
            "ARCHIVE_DIGEST": SENT.digest,
            "COMPRESSION": "gzip",
            "DIGEST": SENT.digest,
            "FOLDER": "/app",
            "LOG": "/dev/termination-log",
            "STATE": "/var/run/allranks-workspace",
        } == {name: value for name, value in _env(container).items() if name != "SYNC"}
        (entry,) = (
            volume["configMap"]["name"] for volume in volumes.values() if volume["name"] == "entry"
        )
        assert "workspace.py" in manifests[f"ConfigMap/{entry}"]["data"]


@pytest.mark.parametrize("form", FORMS)
def test_controllers_and_pods_say_which(template: Any, form: str) -> None:
    """The digest stands on what makes the pods and on the pods, and so replaces a StatefulSet's."""
    manifests = _render(template, form)
    controllers = [
        manifest
        for manifest in manifests.values()
        if manifest["kind"] in ("Job", "StatefulSet", names.ELASTIC_JOB)
    ]
    marked = [*controllers, *(pod for pod, _ in _trainers(manifests))]
    digests = {item["metadata"]["annotations"].get(names.WORKSPACE_DIGEST) for item in marked}
    assert {SENT.digest} == digests
    code = record.of_objects(controllers)
    sent = (code.digest, code.archive_digest, code.compression)
    assert (SENT.digest, SENT.digest, "gzip") == sent
    assert ("configMap", tuple(SENT.names), "") == (code.via, code.parts, code.path)


@pytest.mark.parametrize("form", FORMS)
def test_no_retry_is_spent_on_it(template: Any, form: str) -> None:
    """A Job whose workspace cannot be unpacked has failed, and one without has no such rule."""
    jobs = [item for item in _render(template, form).values() if item["kind"] == "Job"]
    for job in jobs:
        rules = job["spec"]["podFailurePolicy"]["rules"]
        assert {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": "trainer",
                "operator": "In",
                "values": [names.EXIT_WORKSPACE],
            },
        } in rules


@pytest.mark.parametrize("form", FORMS)
def test_without_a_snapshot_there_is_none(template: Any, form: str) -> None:
    """Where nothing was sent no pod has anything of it, whatever the other values say."""
    workspace = {"via": "image", "registry": "registry.example.com/code", "mountPath": "/code"}
    manifests = _render(template, form, workspace=workspace)
    # A launcher that can take newer code names the variables that would tell it where.
    text = str({name: item for name, item in manifests.items() if item["kind"] != "ConfigMap"})
    assert "ALLRANKS_WORKSPACE" not in text
    assert "workspace-" not in text
    assert "/code" not in text


def test_others_have_none(template: Any) -> None:
    """Neither what shows the logs of a sweep nor the master of an elastic job runs the code."""
    board = _render(
        template,
        "sweep",
        storage={"workspace": {"size": "1Gi"}},
        sweep=rendered.SWEEP | {"tensorboard": {"enabled": True}},
    )
    assert "workspace-code" not in str(board["Deployment/demo-tensorboard"])
    job = _render(template, "elastic with a master")["ElasticJob/demo"]
    assert "workspace-code" not in str(job["spec"]["replicaSpecs"][names.EDL_MASTER])


def test_an_image_volume(template: Any) -> None:
    """An image that was pushed is mounted as it is; nodes keep it."""
    snapshot = {
        key: value
        for key, value in SENT.values()["workspace"]["snapshot"].items()
        if key != "configMaps"
    }
    workspace = {"snapshot": snapshot | {"via": "image", "image": IMAGE}}
    ((pod, container),) = _trainers(_render(template, "torchrun", workspace=workspace))
    expected = {
        "name": "workspace-archive",
        "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"},
    }
    assert expected in pod["spec"]["volumes"]
    mount = {"name": "workspace-archive", "mountPath": "/etc/allranks-workspace", "readOnly": True}
    assert mount in container["volumeMounts"]


@pytest.mark.parametrize("path", ["", "ws-0123456789ab"])
def test_a_claim(template: Any, path: str) -> None:
    """A folder of a claim is mounted, read-only, and the run's objects say which."""
    snapshot = {
        key: value
        for key, value in SENT.values()["workspace"]["snapshot"].items()
        if key != "configMaps"
    }
    workspace = {"snapshot": snapshot | {"via": "pvc", "claim": "code", "path": path}}
    manifests = _render(template, "torchrun", workspace=workspace)
    code = record.of_objects(manifests.values())
    assert ("pvc", ("code",), path) == (code.via, code.parts, code.path)
    ((pod, container),) = _trainers(manifests)
    expected = {"name": "workspace-archive", "persistentVolumeClaim": {"claimName": "code"}}
    assert expected in pod["spec"]["volumes"]
    mount = {"name": "workspace-archive", "mountPath": "/etc/allranks-workspace", "readOnly": True}
    assert (mount | ({"subPath": path} if path else {})) in container["volumeMounts"]


@pytest.mark.parametrize(
    ("working_dir", "expected", "start"),
    [
        ("", "/app", None),
        ("/app", "/app", "/app"),
        ("/app/", "/app", "/app/"),
        ("/app/src/x", "/app", "/app/src/x"),
        ("/application", "/application", None),
        ("/workspace/src", "/workspace/src", None),
    ],
)
def test_where_the_command_starts(
    template: Any, working_dir: str, expected: str, start: str | None
) -> None:
    """In the workspace unless workingDir says otherwise; its own folders are entered later."""
    manifests = _render(template, "torchrun", workingDir=working_dir)
    ((_, container),) = _trainers(manifests)
    assert (expected, start) == (container["workingDir"], _env(container).get("START"))


def test_a_volume_called_workspace_is_another(template: Any) -> None:
    """The user's own volume for code may be there as well."""
    manifests = _render(template, "torchrun", storage={"workspace": {"existingClaim": "home"}})
    ((pod, container),) = _trainers(manifests)
    assert {"name": "workspace", "persistentVolumeClaim": {"claimName": "home"}} in pod["spec"][
        "volumes"
    ]
    assert {"name": "workspace", "mountPath": "/workspace"} in container["volumeMounts"]


def test_the_pod_template_is_merged_over_it(template: Any) -> None:
    """A user may bound the copy, or have the command start elsewhere."""
    spec = {
        "containers": [{"name": "trainer", "workingDir": "/srv"}],
        "volumes": [{"name": "workspace-code", "emptyDir": {"sizeLimit": "1Gi"}}],
    }
    manifests = _render(template, "torchrun", podTemplate={"spec": spec})
    ((pod, container),) = _trainers(manifests)
    bounded = {"name": "workspace-code", "emptyDir": {"sizeLimit": "1Gi"}}
    assert bounded in pod["spec"]["volumes"]
    assert "/srv" == container["workingDir"]


def test_dollars_in_the_path_arrive_as_typed(template: Any) -> None:
    """No part of the path is taken for a variable of the kubelet's."""
    workspace = {"mountPath": "/a$(b)$c"} | SENT.values()["workspace"]
    ((_, container),) = _trainers(_render(template, "torchrun", workspace=workspace))
    assert "/a$$(b)$$c" == _env(container)["FOLDER"]
    assert "/a$(b)$c" == container["workingDir"]


@pytest.mark.parametrize("form", FORMS)
def test_our_own_files_have_room(template: Any, form: str) -> None:
    """What the command line leaves free for our files in the ConfigMap is enough for them."""
    manifests = _render(template, form)
    (files,) = (
        item["data"]
        for item in manifests.values()
        if item["kind"] == "ConfigMap" and "entry.sh" in item.get("data", {})
    )
    own = {name: text for name, text in files.items() if name not in ("plan.json", "hostfile")}
    # The charts count them as JSON; and there is room to grow.
    assert len(json.dumps(own)) < 0.95 * ENTRY_RESERVE

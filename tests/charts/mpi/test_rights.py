"""Keys and rights: who may speak to whom, and that no secret is written where it can be read."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.charts.shared.pod_security import violations
from tests.charts.shared.rendered import templates

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render

pytestmark = pytest.mark.attack

UNEVEN = {"gpus": 20, "gpusPerNode": 8}
EXEC = {"mpi": {"transport": "exec"}}
# ci files that ask for less than "restricted" on purpose, and for what.
_ON_PURPOSE = {
    "full": {"hostNetwork", "hostIPC", "hostPID", "hostPort", "runAsNonRoot", "seccomp"}
    | {"capabilities", "escalation"},
    "hostnetwork": {"hostNetwork"},
    "root": {"runAsNonRoot", "seccomp", "capabilities", "escalation"},
}


def test_pods_are_restricted(ci_file: Path, ci: dict[str, Any]) -> None:
    """Every ci file renders pods that Pod Security "restricted" takes, but for what it asks."""
    allowed = _ON_PURPOSE.get(ci_file.stem.removesuffix("-values"), set())
    for name, template in templates(ci).items():
        assert violations(template["spec"]) <= allowed, name


# --- the key -----------------------------------------------------------------------------------


def test_key_is_one_that_sshd_takes(render: Render) -> None:
    """A fresh ECDSA key, in the type of Secret that Kubernetes has for it."""
    secret = render()["Secret/demo-ssh"]
    assert "kubernetes.io/ssh-auth" == secret["type"]
    pem = base64.b64decode(secret["data"]["ssh-privatekey"])
    assert pem.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")


def test_key_is_kept_on_upgrade(mpi: Path) -> None:
    """The template looks for the release's key before it makes one.

    Without a cluster there is none to find, so two renders differ; on one, see the cluster tier.
    """
    text = (mpi / "templates/secret.yaml").read_text()
    assert 'lookup "v1" "Secret" .Release.Namespace $name' in text
    assert re.search(r'get \$data "ssh-privatekey" \| default \(genPrivateKey "ecdsa"', text)


@pytest.mark.parametrize(
    "values", [EXEC, {"mpi": {"ssh": {"existingSecret": "mine"}}}], ids=["exec", "existing"]
)
def test_no_key_is_made_where_none_is_needed(values: dict[str, Any], render: Render) -> None:
    """The API transport has none, and a Secret of the user's own is used as it is."""
    manifests = render(**values)
    assert not [name for name in manifests if name.startswith("Secret/")]
    for template in templates(manifests).values():
        secrets = [
            volume["secret"]["secretName"]
            for volume in template["spec"]["volumes"]
            if "secret" in volume
        ]
        assert (["mine"] if "ssh" in values["mpi"] else []) == secrets


def test_key_stands_nowhere_else(render: Render) -> None:
    """Not in the ConfigMap, not in a variable, an argument or an annotation."""
    manifests = render()
    data = manifests.pop("Secret/demo-ssh")["data"]["ssh-privatekey"]
    pem = base64.b64decode(data).decode()
    secrets = [data, *(line for line in pem.splitlines() if not line.startswith("-----"))]
    assert secrets[1:]
    for text in secrets:
        assert text not in str(manifests)
    assert "PRIVATE KEY" not in str(manifests)


@pytest.mark.parametrize(
    ("values", "mode", "group"),
    [
        ({}, 0o440, 1000),
        ({"storage": {"checkpoints": {"size": "1Gi"}}}, 0o440, 1000),
        # Claims that exist keep their owner: the kubelet would change every file of them.
        ({"storage": {"datasets": {"existingClaim": "data"}}}, 0o444, None),
        ({"security": {"podSecurityContext": {"fsGroup": 7}}}, 0o440, 7),
        # The image may have a user of its own, as that of the MPI operator's samples.
        ({"security": {"restricted": False}}, 0o444, None),
        (
            {"security": {"restricted": False, "containerSecurityContext": {"runAsUser": 1000}}},
            0o444,
            None,
        ),
        (
            {"security": {"restricted": False, "podSecurityContext": {"runAsUser": 1000}}},
            0o444,
            None,
        ),
    ],
)
def test_key_can_be_read_by_the_pods_user(
    values: dict[str, Any], mode: int, group: int | None, render: Render
) -> None:
    """The file is root's: it is for the group where there is one, else for whoever the pod runs."""
    for template in templates(render(**values)).values():
        spec = template["spec"]
        (volume,) = (volume for volume in spec["volumes"] if "secret" in volume)
        assert mode == volume["secret"]["defaultMode"]
        assert [{"key": "ssh-privatekey", "path": "ssh-privatekey"}] == volume["secret"]["items"]
        assert group == spec.get("securityContext", {}).get("fsGroup")


def test_exec_needs_no_group(render: Render) -> None:
    """Without a key nothing has to be readable for a group."""
    for template in templates(render(**EXEC)).values():
        assert "fsGroup" not in template["spec"]["securityContext"]


# --- the rights --------------------------------------------------------------------------------


def test_exec_is_allowed_by_name(render: Render) -> None:
    """The launcher may run commands in this job's workers, scale them down, and nothing else."""
    manifests = render(**UNEVEN, **EXEC)
    pods = ["demo-worker-0", "demo-worker-1", "demo-worker-last-0"]
    assert [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": pods, "verbs": ["get"]},
        {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": pods,
            "verbs": ["create", "get"],
        },
        {
            "apiGroups": ["apps"],
            "resources": ["statefulsets/scale"],
            "resourceNames": ["demo-worker", "demo-worker-last"],
            "verbs": ["get", "patch"],
        },
    ] == manifests["Role/demo-launcher"]["rules"]
    binding = manifests["RoleBinding/demo-launcher"]
    assert [{"kind": "ServiceAccount", "name": "demo-launcher", "namespace": "default"}] == binding[
        "subjects"
    ]
    assert {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "demo-launcher",
    } == binding["roleRef"]


def test_exec_names_all_that_may_join(render: Render) -> None:
    """An elastic job's rights are on all pods it may ever have."""
    manifests = render(
        command=["horovodrun"],
        nodes=1,
        mpi={"transport": "exec", "elastic": {"minNodes": 1, "maxNodes": 3}},
    )
    assert [f"demo-worker-{index}" for index in range(3)] == manifests["Role/demo-launcher"][
        "rules"
    ][0]["resourceNames"]


def test_statefulset_over_ssh_may_only_be_scaled(render: Render) -> None:
    """Its pods would start again however they end, so the launcher takes their number to zero."""
    manifests = render(mpi={"controller": "StatefulSet"})
    (rule,) = manifests["Role/demo-launcher"]["rules"]
    assert (["statefulsets/scale"], ["demo-worker"]) == (rule["resources"], rule["resourceNames"])


def test_workers_that_stay_are_not_scaled(render: Render) -> None:
    """With cleanPodPolicy None the launcher may run its commands, and no more."""
    manifests = render(mpi={"transport": "exec", "cleanPodPolicy": "None"})
    assert [["pods"], ["pods/exec"]] == [
        rule["resources"] for rule in manifests["Role/demo-launcher"]["rules"]
    ]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mpi": {"controller": "StatefulSet", "cleanPodPolicy": "None"}},
        {"gpus": 8, "mpi": {"transport": "exec", "runLauncherAsWorker": True}},
    ],
    ids=["ssh", "workers stay", "no workers"],
)
def test_no_rights_where_none_are_needed(values: dict[str, Any], render: Render) -> None:
    """No Role at all; one without names would be about every pod of the namespace."""
    manifests = render(**values)
    assert not [name for name in manifests if name.startswith(("Role", "ServiceAccount"))]
    for template in templates(manifests).values():
        assert template["spec"]["automountServiceAccountToken"] is False


def test_rights_are_never_without_names(ci: dict[str, Any]) -> None:
    """In every ci file each rule names its objects."""
    for manifest in ci.values():
        for rule in manifest.get("rules", []) if manifest["kind"] == "Role" else []:
            assert rule["resourceNames"]
            assert not {"*"} & {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}


def test_only_the_launcher_has_a_token(render: Render) -> None:
    """The workers' account, and their lack of a token, are as without the API transport."""
    account = {"serviceAccount": {"create": True, "annotations": {"example.com/role": "x"}}}
    manifests = render(**EXEC, **account)
    specs = {name: template["spec"] for name, template in templates(manifests).items()}
    launcher, worker = specs["Job/demo-launcher"], specs["StatefulSet/demo-worker"]
    assert ("demo-launcher", True) == (
        launcher["serviceAccountName"],
        launcher["automountServiceAccountToken"],
    )
    assert ("demo", False) == (worker["serviceAccountName"], worker["automountServiceAccountToken"])
    for name in ("ServiceAccount/demo", "ServiceAccount/demo-launcher"):
        assert manifests[name]["metadata"]["annotations"]["example.com/role"] == "x"
        assert manifests[name]["automountServiceAccountToken"] is False

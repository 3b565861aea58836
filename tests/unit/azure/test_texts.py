"""What others read: the commands of az, the file of Bicep, the CronJob, the kubeconfig."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.azure import bodies, by_hand, cron, kubeconfig, settings
from allranks.azure.desired import TAG_EXPIRES, TAG_MADE, creation_time, desired, expiry_time
from allranks.errors import InputError, RunError
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from pathlib import Path

ID = "11111111-2222-3333-4444-555555555555"
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
TEXT = f"""\
name: demo
subscription: {ID}
tags: {{team: "a 'b' ${{c}}"}}
pools:
  - name: gpu
    vmSize: Standard_NC24ads_A100_v4
    maxNodes: 2
    spot: true
    gpuDriver: none
    labels: {{team: a}}
    taints: ["sku=gpu:NoSchedule"]
"""


@pytest.fixture
def file(tmp_path: Path) -> settings.Settings:
    """An azure.yaml with all that can be asked for."""
    (tmp_path / "azure.yaml").write_text(TEXT)
    return settings.load(str(tmp_path / "azure.yaml"))


_AZ = """\
#!/bin/sh
for word in "$@"; do printf '%s\\t' "$word"; done >> az.log
echo >> az.log
echo ID
"""


def _run_az(text: str, folder: Path, **env: str) -> list[list[str]]:
    """Give the commands to a shell, with an `az` that only takes note; the words of each call."""
    program, log = folder / "az", folder / "az.log"
    program.write_text(_AZ)
    program.chmod(0o755)
    log.unlink(missing_ok=True)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh"],
        input=text,
        cwd=folder,
        env={"PATH": path, **env},
        text=True,
        capture_output=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return [line.split("\t")[:-1] for line in log.read_text().splitlines()]


def test_az_is_a_program_of_a_shell(file: settings.Settings, tmp_path: Path) -> None:
    """A shell runs the commands with every name of the file; their expiry begins when they run."""
    text = by_hand.az(file)

    lines = _run_az(text, tmp_path)
    assert text == by_hand.az(file)
    assert [
        "account set",
        "provider register",
        "provider register",
        "provider register",
        "group create",
        "aks create",
        "aks nodepool",
        "storage account",
        "storage account",
        "storage account",
        "storage container-rm",
        "storage share-rm",
        "storage share-rm",
        "aks get-credentials",
    ] == [" ".join(line[:2]) for line in lines]
    tags = dict(word.split("=", 1) for word in lines[4][lines[4].index("--tags") + 1 :])
    assert ("demo", "a 'b' ${c}") == (tags["allranks-name"], tags["team"])
    created_at, expires = creation_time(tags), expiry_time(tags)
    assert created_at is not None
    assert abs((datetime.now(UTC) - created_at).total_seconds()) < 3600
    assert expires is not None
    assert timedelta(hours=12) - (expires - created_at) < timedelta(minutes=1)
    pool = lines[6]
    assert ("0", "2") == (pool[pool.index("--min-count") + 1], pool[pool.index("--max-count") + 1])


def test_roles_are_given_where_they_are_asked_for(file: settings.Settings, tmp_path: Path) -> None:
    """With ROLES=yes each identity gets its role on the account, and pods a workload identity."""
    lines = _run_az(by_hand.az(file), tmp_path, ROLES="yes", NAMESPACE="team")

    given_roles = [line for line in lines if line[:3] == ["role", "assignment", "create"]]
    assert [
        "Storage File Data Privileged Contributor",
        "Storage Blob Data Contributor",
        "Storage Account Contributor",
        "Storage Account Contributor",
        "Storage Account Contributor",
    ] == [line[line.index("--role") + 1] for line in given_roles]
    account = f"/providers/Microsoft.Storage/storageAccounts/{file.account}"
    assert [] == [line for line in given_roles if not line[-1].endswith(account)]
    assert [] == [line for line in given_roles if "ID" not in line]
    assert [1] == [1 for line in lines if "system:serviceaccount:team:default" in line]
    plain = replace(file, cloud="usGovernment", shares=(), max_hours=0)
    lines = _run_az(by_hand.az(plain), tmp_path)
    assert ["cloud", "set", "--name", "AzureUSGovernment"] == lines[0]
    assert "allranks-expires" not in by_hand.az(plain) + by_hand.bicep(plain)


def test_bicep_has_what_the_requests_have(file: settings.Settings) -> None:
    """Every key and text of the requests stands in the file, and each brace is closed.

    Its tags are those of the group, so that all has one expiry; pools are made one after the other.
    """
    two = replace(file, pools=(*file.pools, replace(file.pools[0], name="more")))
    text, state = by_hand.bicep(two), desired(two, None, NOW)

    assert "team: 'a \\'b\\' \\${c}'" in text
    assert text == by_hand.bicep(two)
    assert 2 == text.count("tags: resourceGroup().tags")
    assert "  dependsOn: [\n    pool0\n  ]\n" in text
    body = re.sub(r"'(\\.|[^'\\])*'", "''", text)
    assert body.count("{") == body.count("}")
    assert body.count("[") == body.count("]")
    symbols = re.findall(r"(?m)^resource (\w+) '[^']+@\d{4}-\d\d-\d\d' = .*\{$", text)
    assert [
        *("cluster", "pool0", "pool1"),
        *("account", "files", "share0", "share1", "blobs", "container0"),
        *("roleOfCluster", "roleOfNodes", "roleForShares", "roleForBlobs"),
    ] == symbols
    assert 4 == text.count(" = if (giveRoles")
    keys = _keys(bodies.cluster_body(state.cluster)) | _keys(bodies.pool_body(state.pools[0]))
    for key in keys - {TAG_EXPIRES, TAG_MADE}:  # the group has them
        assert re.search(rf"(?m)^ *'?{re.escape(key)}'?: ", text), key


def _keys(data: Any) -> set[str]:
    if isinstance(data, dict):
        return set(data).union(*map(_keys, data.values()))
    return set().union(*map(_keys, data)) if isinstance(data, list) else set()


@given(st.text("a'\\${}\n\t é", max_size=30))
def test_a_text_in_bicep_ends_where_it_should(text: str) -> None:
    """Quotes, backslashes and dollars of a text end it nowhere, and begin no expression."""
    literal = by_hand._text(text)

    inner = literal[1:-1]
    assert ("'", "'") == (literal[0], literal[-1])
    assert not re.search(r"(?<!\\)(\\\\)*'", inner)
    assert not re.search(r"(?<!\\)(\\\\)*\$\{", inner)


def test_cron_has_an_identity_and_no_key(file: settings.Settings) -> None:
    """The CronJob runs as a workload identity, looks at its own name alone, and has no Secret."""
    text = cron.manifests(file, None, "registry/allranks:1", "client", "default")

    account, job = load_all(text)
    assert "client" == account["metadata"]["annotations"]["azure.workload.identity/client-id"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    assert "true" == pod["metadata"]["labels"]["azure.workload.identity/use"]
    (container,) = pod["spec"]["containers"]
    assert ["allranks", "azure", "reap", "--yes", "--no-wait"] == container["command"]
    assert "--only=demo" in container["args"]
    assert "env" not in container
    assert "ecret" not in text
    assert "az role assignment create --role Contributor" in text


# --- the kubeconfig -------------------------------------------------------------------------------

USER = "clusterUser_group_demo"
FRESH = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "demo", "cluster": {"server": "https://new"}}],
    "users": [{"name": USER, "user": {"token": "t"}}],
    "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": USER}}],
}
MINE = {
    "clusters": [{"name": "mine", "cluster": {"server": "https://mine"}}],
    "users": [{"name": "me", "user": {}}],
    "contexts": [{"name": "mine", "context": {"cluster": "mine", "user": "me"}}],
    "current-context": "mine",
}


def test_a_merge_and_its_opposite() -> None:
    """What was there stays as it was; taking the context out again leaves nothing of it."""
    merged = kubeconfig.merge(MINE, FRESH).data

    assert ["mine", "demo"] == [item["name"] for item in merged["contexts"]]
    assert "demo" == merged["current-context"]
    assert "mine" == kubeconfig.merge(MINE, FRESH, switch=False).data["current-context"]
    assert merged == kubeconfig.merge(merged, FRESH).data
    rest = kubeconfig.remove_context(merged, "demo", USER)
    assert {**MINE, "current-context": ""} == rest
    assert MINE == kubeconfig.remove_context(MINE, "mine", USER)


def test_entries_of_others_do_not_give_way() -> None:
    """A cluster or context of the same name that is of another user is refused."""
    theirs = {
        **MINE,
        "clusters": [{"name": "demo", "cluster": {"server": "https://theirs"}}],
        "contexts": [{"name": "x", "context": {"cluster": "demo", "user": "me"}}],
    }

    with pytest.raises(InputError, match="of another cluster"):
        kubeconfig.merge(theirs, FRESH)
    assert (
        "https://new"
        == kubeconfig.merge(theirs, FRESH, overwrite=True).data["clusters"][0]["cluster"]["server"]
    )


def test_the_lock_of_kubectl_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program holds kubectl's lock nothing is written, and who holds it is said."""
    monkeypatch.setattr(kubeconfig, "_LOCK_SECONDS", 0.01)
    file = tmp_path / "config"
    file.with_name("config.lock").touch()

    with (
        pytest.raises(RunError, match="another program changes the kubeconfig"),
        kubeconfig.changing(file) as data,
    ):
        data.update(FRESH)
    assert not file.exists()


def test_what_is_no_kubeconfig_is_left(tmp_path: Path) -> None:
    """A file that is no kubeconfig is refused, and not written over; its lock is freed."""
    file = tmp_path / "config"
    file.write_text("- a\n- b\n")

    with pytest.raises(InputError, match="no kubeconfig"), kubeconfig.changing(file) as data:
        data.update(FRESH)
    assert "- a\n- b\n" == file.read_text()
    assert ["config"] == [item.name for item in tmp_path.iterdir()]

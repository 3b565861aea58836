"""What the chart grants is what its guide says, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks.elastic.api.job import read
from allranks.elastic.pods import account
from tests.charts.operator import rights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.attack

Render = Any
_ROLES = ("Role", "ClusterRole")
JOB = {"metadata": {"name": "led", "namespace": "default", "uid": "u-led"}, "spec": {}}


@pytest.fixture(scope="module")
def guide_rights(repo: Path) -> list[rights.Rights]:
    """The guide's tables."""
    return rights.of_guide(repo / "docs/guides/operator.md")


def without(table: rights.Rights, *resources: str) -> rights.Rights:
    """A table without some resources, which are granted only where values ask for them."""
    return {key: verbs for key, verbs in table.items() if key[1] not in resources}


def test_the_operators_rights_are_those_of_the_guide(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """Verb by verb; reading logs only where the values ask for it."""
    role = "Role/allranks-watcher"
    assert without(guide_rights[0], "pods/log") == rights.of_role(render(), role)
    assert guide_rights[0] == rights.of_role(render(podLogs=True), role)


def test_an_operator_of_the_cluster_has_the_same_rights(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """A ClusterRole in place of the Roles, with the same rules."""
    manifests = render(watch={"cluster": True})
    assert "Role/allranks-watcher" not in manifests
    assert without(guide_rights[0], "pods/log") == rights.of_role(
        manifests, "ClusterRole/default-allranks-watcher"
    )


def test_the_lease_is_the_operators_own(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """All but the right to create, which cannot be given by name, is for one Lease."""
    rules = render()["Role/allranks-watcher-lease"]["rules"]
    assert guide_rights[1] == rights.of_rules(rules)
    assert [None, ["allranks-watcher"]] == [rule.get("resourceNames") for rule in rules]
    assert ["create"] == rules[0]["verbs"]


def test_a_masters_own_rights_are_those_of_the_guide(guide_rights: list[rights.Rights]) -> None:
    """What has a name is given by name, and nothing is made that nobody's name is known of."""
    rules = account(read(JOB)).role["rules"]
    assert guide_rights[2] == rights.of_rules(rules)
    owned = {
        rule["resources"][0]: rule["resourceNames"] for rule in rules if "resourceNames" in rule
    }
    assert {"elasticjobs": ["led"], "configmaps": ["led-history"]} == owned


def test_both_who_make_a_masters_account_give_it_the_same(template: Any, repo: Path) -> None:
    """The operator to a job that names none, and the elastic chart to those of its releases."""
    values = yaml.safe_load((repo / "charts/elastic/ci/auto-values.yaml").read_text("utf-8"))
    manifests = template(repo / "charts/elastic", values=values, name="led")
    (role,) = (manifest for manifest in manifests if manifest["kind"] == "Role")
    assert role["rules"] == account(read(JOB)).role["rules"]


def test_the_masters_shared_rights_are_those_of_the_guide(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """Whoever names a master's image has them: nobody's ConfigMap or Secret is among them."""
    for history in (True, False):
        manifests = render(master={"history": history})
        assert guide_rights[3] == rights.of_role(manifests, "Role/allranks-master")
    assert not {"configmaps", "secrets"} & {resource for _, resource in guide_rights[3]}


def test_only_who_makes_accounts_may(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """Without history no account is made, no role is given and no ConfigMap is touched."""
    manifests = render(master={"history": False})
    watcher = rights.of_role(manifests, "Role/allranks-watcher")
    making = {"serviceaccounts", "roles", "rolebindings", "configmaps"}
    assert not making & {resource for _, resource in watcher}
    assert all("get" not in verbs for verbs in watcher.values())
    grants = {(key, verb) for key, verbs in guide_rights[2].items() for verb in verbs}
    watcher_rights = rights.of_role(render(), "Role/allranks-watcher")
    assert grants <= {(key, verb) for key, verbs in watcher_rights.items() for verb in verbs}


def test_nobody_may_give_more_than_they_have(ci: dict[str, Any]) -> None:
    """Kubernetes holds the operator to its own rights, as long as it has neither of these."""
    for manifest in ci.values():
        for rule in manifest.get("rules") or ():
            assert not {"escalate", "bind", "impersonate", "*"} & {*rule["verbs"]}


def test_peoples_rights_are_those_of_the_guide(
    render: Callable[..., Render], guide_rights: list[rights.Rights]
) -> None:
    """Who edits writes, who views reads, each through Kubernetes' own role of that name."""
    manifests = render()
    assert guide_rights[4] == rights.of_role(manifests, "ClusterRole/default-allranks-edit")
    viewed = rights.of_role(manifests, "ClusterRole/default-allranks-view")
    assert {"get", "list", "watch"} == set.union(*viewed.values())
    assert set(without(guide_rights[4], "elasticjobs/scale")) == set(viewed)
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    for part, into in (("edit", {"edit", "admin"}), ("view", {"view"})):
        labels = manifests[f"ClusterRole/default-allranks-{part}"]["metadata"]["labels"]
        aggregates = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
        assert into == aggregates


def test_no_file_of_values_grants_more(
    ci: dict[str, Any], guide_rights: list[rights.Rights]
) -> None:
    """No Role of any render has a right that the guide does not tell of, and none has a star."""
    allowed: rights.Rights = {}
    for table in guide_rights:
        for key, verbs in table.items():
            allowed.setdefault(key, set()).update(verbs)
    for name in ci:
        if name.split("/")[0] in _ROLES:
            for key, verbs in rights.of_role(ci, name).items():
                assert verbs <= allowed[key], name


def test_each_role_is_bound_to_one_account(ci: dict[str, Any]) -> None:
    """A binding names a role of the release and one account; nobody else gets a right."""
    for manifest in ci.values():
        if "roleRef" not in manifest:
            continue
        kind, name = manifest["roleRef"]["kind"], manifest["roleRef"]["name"]
        assert f"{kind}/{name}" in ci
        (subject,) = manifest["subjects"]
        assert "ServiceAccount" == subject["kind"]
        assert f"ServiceAccount/{subject['name']}" in ci


def test_each_watched_namespace_has_a_role_of_its_own(template: Any, operator: Path) -> None:
    """The account stays in the release's namespace; rights are where it watches, and only there."""
    values = {"watch": {"namespaces": ["research", "vision"]}}
    manifests = template(operator, values=values, name="allranks")
    accounts = {
        (manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        for manifest in manifests
        if manifest["kind"] == "Role"
    }
    operator = {("research", "allranks-watcher"), ("vision", "allranks-watcher")}
    master = {("research", "allranks-master"), ("vision", "allranks-master")}
    assert operator | master | {("default", "allranks-watcher-lease")} == accounts
    subjects = [
        manifest["subjects"][0]["namespace"]
        for manifest in manifests
        if manifest["kind"] == "RoleBinding" and manifest["metadata"]["name"] == "allranks-watcher"
    ]
    assert ["default", "default"] == subjects

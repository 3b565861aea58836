"""What the chart grants is what its guide says, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks.elastic.job import read
from allranks.elastic.pods import account
from tests.charts.operator import rights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Render = Any
_ROLES = ("Role", "ClusterRole")
JOB = {"metadata": {"name": "led", "namespace": "default", "uid": "u-led"}, "spec": {}}


@pytest.fixture(scope="module")
def told(repo: Path) -> list[rights.Rights]:
    """The guide's tables."""
    return rights.of_guide(repo / "docs/guides/operator.md")


def without(told: rights.Rights, *resources: str) -> rights.Rights:
    """A table without some resources, which are granted only where values ask for them."""
    return {key: verbs for key, verbs in told.items() if key[1] not in resources}


def test_the_watchers_rights_are_those_of_the_guide(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """Verb by verb; reading logs only where the values ask for it."""
    role = "Role/allranks-watcher"
    assert without(told[0], "pods/log") == rights.of_role(render(), role)
    assert told[0] == rights.of_role(render(podLogs=True), role)


def test_a_watcher_of_the_cluster_has_the_same_rights(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """A ClusterRole in place of the Roles, with the same rules."""
    made = render(watch={"cluster": True})
    assert "Role/allranks-watcher" not in made
    assert without(told[0], "pods/log") == rights.of_role(
        made, "ClusterRole/default-allranks-watcher"
    )


def test_the_lease_is_the_watchers_own(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """All but the right to create, which cannot be given by name, is for one Lease."""
    rules = render()["Role/allranks-watcher-lease"]["rules"]
    assert told[1] == rights.of_rules(rules)
    assert [None, ["allranks-watcher"]] == [rule.get("resourceNames") for rule in rules]
    assert ["create"] == rules[0]["verbs"]


def test_a_masters_own_rights_are_those_of_the_guide(told: list[rights.Rights]) -> None:
    """What has a name is given by name, and nothing is made that nobody's name is known of."""
    rules = account(read(JOB)).role["rules"]
    assert told[2] == rights.of_rules(rules)
    named = {
        rule["resources"][0]: rule["resourceNames"] for rule in rules if "resourceNames" in rule
    }
    assert {"elasticjobs": ["led"], "configmaps": ["led-history"]} == named


def test_both_who_make_a_masters_account_give_it_the_same(template: Any, repo: Path) -> None:
    """The watcher to a job that names none, and the elastic chart to those of its releases."""
    values = yaml.safe_load((repo / "charts/elastic/ci/auto-values.yaml").read_text("utf-8"))
    made = template(repo / "charts/elastic", values=values, name="led")
    (role,) = (each for each in made if each["kind"] == "Role")
    assert role["rules"] == account(read(JOB)).role["rules"]


def test_the_masters_shared_rights_are_those_of_the_guide(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """Whoever names a master's image has them: nobody's ConfigMap or Secret is among them."""
    for history in (True, False):
        made = render(master={"history": history})
        assert told[3] == rights.of_role(made, "Role/allranks-master")
    assert not {"configmaps", "secrets"} & {resource for _, resource in told[3]}


def test_only_who_makes_accounts_may(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """Without history no account is made, no role is given and no ConfigMap is touched."""
    made = render(master={"history": False})
    found = rights.of_role(made, "Role/allranks-watcher")
    making = {"serviceaccounts", "roles", "rolebindings", "configmaps"}
    assert not making & {resource for _, resource in found}
    assert all("get" not in verbs for verbs in found.values())
    given = {(key, verb) for key, verbs in told[2].items() for verb in verbs}
    had = rights.of_role(render(), "Role/allranks-watcher")
    assert given <= {(key, verb) for key, verbs in had.items() for verb in verbs}


def test_nobody_may_give_more_than_they_have(ci: dict[str, Any]) -> None:
    """Kubernetes holds the watcher to its own rights, as long as it has neither of these."""
    for each in ci.values():
        for rule in each.get("rules") or ():
            assert not {"escalate", "bind", "impersonate", "*"} & {*rule["verbs"]}


def test_peoples_rights_are_those_of_the_guide(
    render: Callable[..., Render], told: list[rights.Rights]
) -> None:
    """Who edits writes, who views reads, each through Kubernetes' own role of that name."""
    made = render()
    assert told[4] == rights.of_role(made, "ClusterRole/default-allranks-edit")
    viewed = rights.of_role(made, "ClusterRole/default-allranks-view")
    assert {"get", "list", "watch"} == set.union(*viewed.values())
    assert set(without(told[4], "elasticjobs/scale")) == set(viewed)
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    for part, into in (("edit", {"edit", "admin"}), ("view", {"view"})):
        labels = made[f"ClusterRole/default-allranks-{part}"]["metadata"]["labels"]
        found = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
        assert into == found


def test_no_file_of_values_grants_more(ci: dict[str, Any], told: list[rights.Rights]) -> None:
    """No Role of any render has a right that the guide does not tell of, and none has a star."""
    known: rights.Rights = {}
    for table in told:
        for key, verbs in table.items():
            known.setdefault(key, set()).update(verbs)
    for name in ci:
        if name.split("/")[0] in _ROLES:
            for key, verbs in rights.of_role(ci, name).items():
                assert verbs <= known[key], name


def test_each_role_is_bound_to_one_account(ci: dict[str, Any]) -> None:
    """A binding names a role of the release and one account; nobody else gets a right."""
    for each in ci.values():
        if not each["kind"].endswith("Binding"):
            continue
        kind, name = each["roleRef"]["kind"], each["roleRef"]["name"]
        assert f"{kind}/{name}" in ci
        (subject,) = each["subjects"]
        assert "ServiceAccount" == subject["kind"]
        assert f"ServiceAccount/{subject['name']}" in ci


def test_each_watched_namespace_has_a_role_of_its_own(template: Any, operator: Path) -> None:
    """The account stays in the release's namespace; rights are where it watches, and only there."""
    values = {"watch": {"namespaces": ["research", "vision"]}}
    made = template(operator, values=values, name="allranks")
    found = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in made
        if each["kind"] == "Role"
    }
    watcher = {("research", "allranks-watcher"), ("vision", "allranks-watcher")}
    master = {("research", "allranks-master"), ("vision", "allranks-master")}
    assert watcher | master | {("default", "allranks-watcher-lease")} == found
    subjects = [
        each["subjects"][0]["namespace"]
        for each in made
        if each["kind"] == "RoleBinding" and each["metadata"]["name"] == "allranks-watcher"
    ]
    assert ["default", "default"] == subjects

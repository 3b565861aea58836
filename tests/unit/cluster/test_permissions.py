"""Which rights a run needs, and which are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from allranks.cluster import paths, permissions
from allranks.cluster.permissions import Need
from allranks.sweep import in_cluster
from tests.unit.sweep.simulation import spec

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/cluster.md"

JOB = {"apiVersion": "batch/v1", "kind": "Job"}
NEED = Need("create", paths.JOBS)


def rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, list[str]]:
    """A rule as a rules review has it."""
    return {
        "verbs": verbs.split(),
        "apiGroups": [part.strip("'") for part in groups.split(",")],
        "resources": resources.split(),
        "resourceNames": names.split(),
    }


@pytest.mark.parametrize(
    ("granted_rule", "missing"),
    [
        (rule("create", "batch", "jobs"), False),
        (rule("*", "*", "*"), False),
        (rule("get create", ",batch", "pods jobs"), False),
        (rule("get", "batch", "jobs"), True),
        (rule("create", "apps", "jobs"), True),
        (rule("create", "batch", "jobs/status"), True),
        (rule("create", "batch", "jobs", "demo"), True),
    ],
)
def test_a_rule_gives_what_it_names(granted_rule: dict[str, list[str]], *, missing: bool) -> None:
    """Verb, group and resource must all be in one rule, and not for named objects only."""
    assert missing == bool(permissions.missing([granted_rule], [NEED]))


def test_what_is_deleted_is_there_already() -> None:
    """Helm's record and each kind; a right by name may be that of this object."""
    needs = permissions.uninstall_needs([JOB, JOB])
    assert {Need("delete", paths.JOBS), Need("update", paths.SECRETS)} <= set(needs)
    assert len(needs) == len(set(needs))
    by_name = [rule("*", "*", "*", "demo")]
    assert () == permissions.missing(by_name, needs, are_there=True)
    assert needs == permissions.missing(by_name, needs)
    error = permissions.refusal("context c", "lab", needs[-1:], done="nothing was deleted")
    assert "delete jobs.batch in namespace lab; nothing was deleted" in str(error)


def test_what_a_run_needs_is_what_it_is_made_of() -> None:
    """Helm's record, each kind that is applied, and what following lists and watches."""
    needs = permissions.install_needs([JOB], follow=True)
    assert {NEED, Need("create", paths.SECRETS), Need("watch", paths.PODS)} <= set(needs)
    assert Need("watch", paths.PODS) not in permissions.install_needs([JOB], follow=False)
    assert len(needs) == len(set(needs))


def test_the_refusal_names_the_first_and_counts_the_rest() -> None:
    """A whole list would hide the one that matters."""
    error = permissions.refusal("context c", "lab", permissions.install_needs([JOB], follow=False))
    assert "list secrets, get secrets, create secrets, update secrets and 3 more" in str(error)
    assert "in namespace lab; nothing was sent" in str(error)
    assert "ask for a Role" in error.problem.hint


def test_what_is_of_the_whole_cluster_needs_no_role_of_a_namespace() -> None:
    """Who may make volumes is to be asked, or what is there to be named."""
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "lab.demo"}}
    needs = permissions.removal_needs(volume)
    error = permissions.refusal("context c", "lab", needs, done="nothing was deleted")
    assert "get persistentvolumes, delete persistentvolumes; nothing was" in str(error)
    assert "belong to the whole cluster" in error.problem.hint


def master(*rules: dict[str, list[str]]) -> dict[str, Any]:
    """The Role that a chart makes for a master."""
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": list(rules)}


def test_what_a_role_grants_must_be_held() -> None:
    """Kubernetes lets nobody grant what they do not have; that is found out before."""
    role = master({"apiGroups": [""], "resources": ["events", "pods/exec"], "verbs": ["create"]})
    needs = permissions.install_needs([role], follow=False)
    rules = [rule("*", "rbac.authorization.k8s.io", "roles"), rule("*", "''", "secrets")]
    assert ["create events", "create pods/exec"] == [
        str(need) for need in permissions.missing([*rules[1:], rule("*", "x", "y")], needs[-2:])
    ]
    # Who may write any right into a Role needs not hold it, and `*` on roles is that too.
    assert () == permissions.missing(rules, needs)
    assert () == permissions.missing([rule("*", "''", "*")], needs[-2:])


def documented() -> list[dict[str, list[str]]]:
    """The rules of the Role that the guide shows."""
    text = GUIDE.read_text(encoding="utf-8")
    role = yaml.safe_load(text.partition("```yaml\n")[2].partition("\n```")[0])
    rules: list[dict[str, list[str]]] = role["rules"]
    return rules


def test_the_role_of_the_guide_installs_an_elastic_job() -> None:
    """It holds all that our own master is granted."""
    elastic = "elastic.iml.github.io"
    role = master(
        {"apiGroups": [elastic], "resources": ["elasticjobs"], "verbs": ["get"]},
        {"apiGroups": [elastic], "resources": ["scaleplans"], "verbs": ["get", "list", "create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]},
    )
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    job = {"apiVersion": f"{elastic}/v1alpha1", "kind": "ElasticJob"}
    needs = permissions.install_needs([role, binding, job], follow=True)
    assert () == permissions.missing(documented(), needs)


@pytest.mark.parametrize("workload", ["sweep", "torchrun", "mpi", "elastic", ""])
def test_the_role_of_the_guide_begins_a_sweep_inside_the_cluster(workload: str) -> None:
    """It holds all that the sweep's runner is granted, and makes what stays with the sweep."""
    kinds = {
        "v1": ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim"),
        "batch/v1": ("Job",),
        "apps/v1": ("StatefulSet",),
        "coordination.k8s.io/v1": ("Lease",),
    }
    objects = [{"apiVersion": group, "kind": kind} for group in kinds for kind in kinds[group]]
    role = master(*in_cluster.runner_rules(spec(), workload, objects[:-1], has_status=True))
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    needs = permissions.install_needs([*objects, role, binding], follow=False)
    assert () == permissions.missing(documented(), needs)
    assert () == permissions.missing(documented(), [Need("delete", paths.LEASES)])


def test_a_right_that_is_also_granted_is_named_once() -> None:
    """The same words say both."""
    leases = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    role = master(rule("get patch", "coordination.k8s.io", "leases"))
    needs = [
        need
        for need in permissions.install_needs([leases, role], follow=False)
        if "leases" in str(need)
    ]
    assert 5 == len(needs)
    message = str(permissions.refusal("context c", "lab", needs))
    assert "create leases.coordination.k8s.io, patch leases.coordination.k8s.io in" in message


@pytest.mark.parametrize(
    "need",
    [
        Need("get", f"{paths.ELASTIC_JOBS}/scale"),
        Need("patch", f"{paths.ELASTIC_JOBS}/scale"),
        Need("get", paths.DEPLOYMENTS),
        Need("get", paths.LEASES),
    ],
)
def test_the_role_of_the_guide_has_what_kubectl_scale_and_operator_status_ask(need: Need) -> None:
    """The commands that the guides show work with it."""
    assert () == permissions.missing(documented(), [need])

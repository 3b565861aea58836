"""The operator's objects: what helm makes of the values, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import allranks
from allranks import names
from allranks.cluster import operator as cluster_operator
from allranks.elastic.api.job import ElasticJob
from allranks.elastic.pods import metadata as pod_metadata
from allranks.schema import bundle
from allranks_operator import settings
from tests.charts.shared import packaging
from tests.charts.shared.api import check_no_nulls
from tests.charts.shared.pod_security import violations
from tests.charts.shared.rendered import Manifests, joined, reviewable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

_DEPLOYMENT = "Deployment/allranks-watcher"
_POLICY = "ValidatingAdmissionPolicy"
_PARTS = ("default-allranks-master-plans", "default-allranks-master-events")


def pod(manifests: dict[str, Any], name: str = _DEPLOYMENT) -> dict[str, Any]:
    """The PodSpec of the operator."""
    spec: dict[str, Any] = manifests[name]["spec"]["template"]["spec"]
    return spec


def operator_settings(manifests: dict[str, Any]) -> settings.OperatorSettings:
    """The settings that the operator reads off its environment there."""
    env = {
        variable["name"]: variable.get("value", "pod-1")
        for variable in pod(manifests)["containers"][0]["env"]
    }
    return settings.read([], env)


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == reviewable(ci_text)


def test_both_majors_render_the_same(
    ci_file: Path, ci_text: str, operator: Path, helm: Any
) -> None:
    """Helm 3 and Helm 4 print the same objects; they order documents that have no meaning alike."""
    assert joined(ci_text) == joined(helm.render(operator, "-f", ci_file))


def test_lint_passes(ci_file: Path, operator: Path, helm: Any) -> None:
    """`helm lint --strict` has nothing to say about any ci file."""
    packaging.check_lint(helm, operator, ci_file)


def test_package_renders_the_same(operator: Path, helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library and the definitions inside."""
    packaging.check_package(helm, operator, operator / "ci/full-values.yaml", tmp_path)


def test_no_nulls(ci: dict[str, Any]) -> None:
    """No manifest has a null."""
    check_no_nulls(ci)


def test_the_committed_schema_is_current(operator: Path) -> None:
    """values.schema.json is what the schema and the defaults give now."""
    committed = (operator / "values.schema.json").read_text("utf-8")
    assert bundle.render(bundle.bundle(names.OPERATOR)) == committed


def test_its_version_is_the_packages(operator: Path) -> None:
    """Chart, image tag and Python package are released together."""
    about = yaml.safe_load((operator / "Chart.yaml").read_text("utf-8"))
    assert {allranks.__version__} == {about["version"], about["appVersion"]}


def test_the_pods_are_restricted(ci: dict[str, Any]) -> None:
    """Pod Security "restricted", no root, a root file system that cannot be written."""
    for manifest in ci.values():
        if manifest["kind"] == "Deployment":
            spec = manifest["spec"]["template"]["spec"]
            assert set() == violations(spec)
            (container,) = spec["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "volumes" not in spec


def test_each_image_starts_its_own_program(ci: dict[str, Any]) -> None:
    """The chart names none: an older image has the program by another name."""
    (deployment,) = (manifest for manifest in ci.values() if manifest["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert not {"command", "args"} & set(container)


def test_the_release_is_no_run(ci: dict[str, Any]) -> None:
    """Nothing of it has the label by which runs are found: it would be listed as one."""
    for manifest in ci.values():
        assert names.APP_PART_OF not in manifest["metadata"]["labels"]


def test_selectors_find_the_pods(ci: dict[str, Any]) -> None:
    """Service, ServiceMonitor, NetworkPolicy and Deployment select the operator's pods."""
    (deployment,) = (manifest for manifest in ci.values() if manifest["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    service = next(manifest for manifest in ci.values() if manifest["kind"] == "Service")
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        *(
            manifest["spec"]["podSelector"]["matchLabels"]
            for manifest in ci.values()
            if manifest["kind"] == "NetworkPolicy"
        ),
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
    for manifest in ci.values():
        if manifest["kind"] == "ServiceMonitor":
            selected = manifest["spec"]["selector"]["matchLabels"]
            assert selected.items() <= service["metadata"]["labels"].items()


def test_the_operator_understands_what_it_is_told(render: Callable[..., Any]) -> None:
    """By default it watches its own namespace, and names itself after its pod."""
    options = operator_settings(render())
    assert (("default",), False) == (options.namespaces, options.cluster)
    assert ("", 8080) == options.listen
    assert ("default", "allranks-watcher") == (options.lease_namespace, options.lease_name)
    assert f"allranks/operator:{allranks.__version__}" == options.master_image
    assert "pod-1" == options.identity


@pytest.mark.parametrize("account", [{}, {"create": False, "name": "mine"}])
def test_the_operator_is_told_its_own_account(
    account: dict[str, Any], render: Callable[..., Any]
) -> None:
    """By its pod, whoever has made the account: no pod of an elastic job is to have it."""
    (container,) = pod(render(serviceAccount=account))["containers"]
    fields = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container["env"]
        if "valueFrom" in variable
    }
    assert {
        "ALLRANKS_IDENTITY": "metadata.name",
        "ALLRANKS_OPERATOR_ACCOUNT": "spec.serviceAccountName",
        "ALLRANKS_OPERATOR_NAMESPACE": "metadata.namespace",
    } == fields


def test_every_value_for_the_operator_reaches_it(render: Callable[..., Any]) -> None:
    """Namespaces, the master's image, the port, logs: as its own settings have them."""
    options = operator_settings(
        render(
            watch={"namespaces": ["a", "b"]},
            master={"image": "m:2"},
            port=9090,
            podLogs=True,
            concurrency=8,
            logLevel="debug",
        )
    )
    assert (("a", "b"), "m:2", 9090) == (
        options.namespaces,
        options.master_image,
        options.listen[1],
    )
    assert (True, 8, "debug") == (options.pod_logs, options.concurrency, options.log_level)
    assert operator_settings(render(watch={"cluster": True})).cluster


def test_the_command_line_finds_it_by_the_same_names(render: Callable[..., Any]) -> None:
    """`allranks operator status` and the chart agree on what the operator is called."""
    manifests = render(name="two")
    name = cluster_operator.name("two")
    assert {f"Deployment/{name}", f"Service/{name}"} <= set(manifests)
    assert name == told_lease(manifests, f"Deployment/{name}")


def told_lease(manifests: dict[str, Any], deployment: str) -> str:
    """The Lease that the operator takes there."""
    env = {
        variable["name"]: variable.get("value", "")
        for variable in pod(manifests, deployment)["containers"][0]["env"]
    }
    return str(env["ALLRANKS_LEASE_NAME"])


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"allranks/operator:{allranks.__version__}"),
        (
            {"repository": "localhost/allranks/operator", "tag": "1"},
            "localhost/allranks/operator:1",
        ),
        ({"tag": "1", "digest": f"sha256:{'0' * 64}"}, f"allranks/operator@sha256:{'0' * 64}"),
    ],
)
def test_images(image: dict[str, str], expected: str, render: Callable[..., Any]) -> None:
    """A digest wins over a tag, and no tag is the chart's own version; masters have the same."""
    manifests = render(image=image)
    assert expected == pod(manifests)["containers"][0]["image"]
    assert expected == operator_settings(manifests).master_image


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"watch": {"cluster": True, "namespaces": ["a"]}},
            "ERROR: watch.namespaces: watch.cluster is all of them already",
        ),
        ({"serviceAccount": {"create": False}}, "ERROR: serviceAccount.name: empty"),
        ({"labels": {names.APP_PART_OF: "allranks"}}, f"ERROR: labels.{names.APP_PART_OF}"),
        ({"labels": {names.APP_NAME: "x"}}, f"ERROR: labels.{names.APP_NAME}"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    values: dict[str, Any], message: str, operator: Path, helm: Any
) -> None:
    """Each with the fix."""
    assert message in helm.refusal(operator, values=values)


@pytest.mark.parametrize(
    ("watch", "namespaces"),
    [({}, ["default"]), ({"namespaces": ["a", "b"]}, ["a", "b"]), ({"cluster": True}, None)],
)
def test_masters_are_held_to_their_jobs_where_they_are_watched(
    watch: dict[str, Any], namespaces: list[str] | None, render: Callable[..., Any]
) -> None:
    """By objects of the whole cluster, which two releases do not share."""
    manifests = render(watch=watch, master={"admissionPolicy": True})
    policies = [manifest for name, manifest in manifests.items() if name.startswith(f"{_POLICY}/")]
    bindings = [
        manifest for name, manifest in manifests.items() if name.startswith(f"{_POLICY}Binding/")
    ]
    policy_names = [policy["metadata"]["name"] for policy in policies]
    assert {*_PARTS} == {*policy_names}
    assert policy_names == [binding["spec"]["policyName"] for binding in bindings]
    for policy in policies:
        selector = policy["spec"]["matchConstraints"].get("namespaceSelector")
        expected = {"key": "kubernetes.io/metadata.name", "operator": "In"}
        expressions = {"matchExpressions": [{**expected, "values": namespaces}]}
        assert selector == (expressions if namespaces else None)
        assert "namespace" not in policy["metadata"]


def test_the_policies_know_the_names_that_masters_have(render: Callable[..., Any]) -> None:
    """Account and pod of a master, and the labels of a plan, as the operator writes them."""
    manifests = render(master={"admissionPolicy": True})
    plans, events = (manifests[f"{_POLICY}/{name}"]["spec"] for name in _PARTS)
    job = ElasticJob("led", "default", "0123abcd-0000")
    (condition,) = plans["matchConditions"]
    own, pods = re.findall(r"matches\('([^']+)'\)", condition["expression"])
    assert re.search(own, f"system:serviceaccount:default:{pod_metadata.account_name(job)}")
    assert re.search(pods, pod_metadata.master_name("led", 12))
    start = pod_metadata.account_name(job).index("led")
    assert f"substring({start}, " in plans["variables"][1]["expression"]
    for label in (names.EDL_NAME, names.EDL_NAME_OLD):
        assert f"'{label}'" in plans["variables"][2]["expression"]
    assert [names.ELASTIC_GROUP] == plans["matchConstraints"]["resourceRules"][0]["apiGroups"]
    about = events["validations"][1]["expression"]
    assert f"'{pod_metadata.pod_name('', 'x', 0).removesuffix('x-0')}'" in about


def test_masters_are_held_to_their_jobs_with_the_whole_cluster(operator: Path, helm: Any) -> None:
    """By default, where the cluster has the kind; named namespaces ask nobody for such rights."""
    api = ("--api-versions", f"admissionregistration.k8s.io/v1/{_POLICY}")
    cluster = ("--set", "watch.cluster=true")
    assert f"kind: {_POLICY}\n" in helm.render(operator, *api, *cluster)
    off = "master.admissionPolicy=false"
    for words in ((), cluster, api, (*api, *cluster, "--set", off)):
        assert _POLICY not in helm.render(operator, *words)


def test_a_name_that_no_service_can_have_is_refused(operator: Path, helm: Any) -> None:
    """Before anything is sent."""
    assert 'release name: "1x" cannot name a Service' in helm.refusal(
        operator, values={}, name="1x"
    )


def test_a_typo_is_refused(operator: Path, helm: Any) -> None:
    """The schema knows every key."""
    assert "replica" in helm.refusal(operator, values={"replica": 3})


def test_notes_say_what_to_do(ci_file: Path, operator: Path, helm4: Any) -> None:
    """What is watched, how runs are seen, and that definitions are no business of Helm's."""
    output = helm4.run("install", "allranks", operator, "-f", ci_file, "--dry-run=client").stdout
    notes = output.partition("NOTES:")[2]
    # The Lease is the operators' own: it has no label of the release's.
    lease = r"get lease \S+-watcher "
    assert re.search(lease, notes), notes
    assert "pods,lease" not in notes
    for expected in ("watches", "kubectl get runs", "allranks operator upgrade", "--crds"):
        assert expected in notes


def test_the_image_holds_what_the_chart_runs(repo: Path) -> None:
    """The Containerfile copies what is there, runs as the chart's user, and has both programs."""
    text = (repo / "operator/Containerfile").read_text("utf-8")
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for source in line.split():
            assert (repo / source).exists(), source
    assert "USER 65532:65532" in text
    project = (repo / "pyproject.toml").read_text("utf-8")
    for program in (names.OPERATOR_PROGRAM, names.MASTER_PROGRAM, names.OPERATOR_MANAGER):
        assert f"\n{program} = " in project
    assert f'ENTRYPOINT ["{names.OPERATOR_PROGRAM}"]' in text

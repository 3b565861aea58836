"""The watcher's objects: what helm makes of the values, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import allranks
from allranks import names
from allranks.cluster import watchers
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


def pod(manifests: dict[str, Any], name: str = _DEPLOYMENT) -> dict[str, Any]:
    """The PodSpec of the watcher."""
    spec: dict[str, Any] = manifests[name]["spec"]["template"]["spec"]
    return spec


def told(manifests: dict[str, Any]) -> settings.Settings:
    """The settings that the watcher reads off its environment there."""
    env = {
        each["name"]: each.get("value", "pod-1") for each in pod(manifests)["containers"][0]["env"]
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
    for each in ci.values():
        if each["kind"] == "Deployment":
            spec = each["spec"]["template"]["spec"]
            assert set() == violations(spec)
            (container,) = spec["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "volumes" not in spec


def test_the_release_is_no_run(ci: dict[str, Any]) -> None:
    """Nothing of it has the label by which runs are found: it would be listed as one."""
    for each in ci.values():
        assert names.APP_PART_OF not in each["metadata"]["labels"]


def test_selectors_find_the_pods(ci: dict[str, Any]) -> None:
    """Service, ServiceMonitor, NetworkPolicy and Deployment select the watcher's pods."""
    (deployment,) = (each for each in ci.values() if each["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    service = next(each for each in ci.values() if each["kind"] == "Service")
    found = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        *(
            each["spec"]["podSelector"]["matchLabels"]
            for each in ci.values()
            if each["kind"] == "NetworkPolicy"
        ),
    ]
    for selector in found:
        assert selector.items() <= labels.items()
    for each in ci.values():
        if each["kind"] == "ServiceMonitor":
            chosen = each["spec"]["selector"]["matchLabels"]
            assert chosen.items() <= service["metadata"]["labels"].items()


def test_the_watcher_understands_what_it_is_told(render: Callable[..., Any]) -> None:
    """By default it watches its own namespace, and names itself after its pod."""
    found = told(render())
    assert (("default",), False) == (found.namespaces, found.cluster)
    assert ("", 8080) == found.listen
    assert ("default", "allranks-watcher") == (found.lease_namespace, found.lease_name)
    assert f"allranks/operator:{allranks.__version__}" == found.master_image
    assert "pod-1" == found.identity


def test_every_value_for_the_watcher_reaches_it(render: Callable[..., Any]) -> None:
    """Namespaces, the master's image, the port, logs: as its own settings have them."""
    found = told(
        render(
            watch={"namespaces": ["a", "b"]},
            master={"image": "m:2"},
            port=9090,
            podLogs=True,
            concurrency=8,
            logLevel="debug",
        )
    )
    assert (("a", "b"), "m:2", 9090) == (found.namespaces, found.master_image, found.listen[1])
    assert (True, 8, "debug") == (found.pod_logs, found.concurrency, found.log_level)
    assert told(render(watch={"cluster": True})).cluster


def test_the_command_line_finds_it_by_the_same_names(render: Callable[..., Any]) -> None:
    """`allranks operator status` and the chart agree on what the watcher is called."""
    made = render(name="two")
    name = watchers.name("two")
    assert {f"Deployment/{name}", f"Service/{name}"} <= set(made)
    assert name == told_lease(made, f"Deployment/{name}")


def told_lease(manifests: dict[str, Any], deployment: str) -> str:
    """The Lease that the watcher takes there."""
    env = {
        each["name"]: each.get("value", "")
        for each in pod(manifests, deployment)["containers"][0]["env"]
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
    made = render(image=image)
    assert expected == pod(made)["containers"][0]["image"]
    assert expected == told(made).master_image


@pytest.mark.parametrize(
    ("values", "said"),
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
    values: dict[str, Any], said: str, operator: Path, helm: Any
) -> None:
    """Each with the fix."""
    assert said in helm.refusal(operator, values=values)


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
    said = helm4.run("install", "allranks", operator, "-f", ci_file, "--dry-run=client").stdout
    notes = said.partition("NOTES:")[2]
    # The Lease is the watchers' own: it has no label of the release's.
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
    for program in (names.WATCHER, names.MASTER_PROGRAM):
        assert f"\n{program} = " in project
    assert f'ENTRYPOINT ["{names.WATCHER}"]' in text

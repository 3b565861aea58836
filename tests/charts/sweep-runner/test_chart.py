"""The runner of a sweep inside the cluster: what helm makes of the values, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import allranks
from allranks import names
from allranks.schema import bundle
from allranks.sweep.storage import segments
from tests.charts.shared import packaging
from tests.charts.shared.api import check_no_nulls
from tests.charts.shared.pod_security import violations
from tests.charts.shared.rendered import Manifests, by_name, joined, reviewable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

_RULE = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}
_SWEEP = {"head": segments.pack_head({"t": "sweep"}), "rules": [_RULE]}


@pytest.fixture(scope="session")
def chart(repo: Path) -> Path:
    """The chart."""
    return repo / "charts" / names.SWEEP_RUNNER


@pytest.fixture(scope="session")
def render(template: Any, chart: Path) -> Callable[..., dict[str, Any]]:
    """Render values over those of a sweep; manifests by ``Kind/name``."""

    def chart_manifests(name: str = "s", sweep: Any = None, **values: Any) -> dict[str, Any]:
        chart_values = {"sweep": {**_SWEEP, **(sweep or {})}, **values}
        return by_name(template(chart, values=chart_values, name=name))

    return chart_manifests


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == reviewable(ci_text)


def test_both_majors_render_the_same(ci_file: Path, ci_text: str, chart: Path, helm: Any) -> None:
    """Helm 3 and Helm 4 print the same objects."""
    assert joined(ci_text) == joined(helm.render(chart, "-f", ci_file))


def test_lint_passes(ci_file: Path, chart: Path, helm: Any) -> None:
    """`helm lint --strict` has nothing to say about any ci file."""
    packaging.check_lint(helm, chart, ci_file)


def test_package_renders_the_same(chart: Path, helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library inside."""
    packaging.check_package(helm, chart, chart / "ci/full-values.yaml", tmp_path)


def test_the_committed_schema_and_version_are_current(chart: Path) -> None:
    """The schema follows from its sources; chart, image tag and package are released together."""
    committed = (chart / "values.schema.json").read_text("utf-8")
    assert bundle.render(bundle.bundle(names.SWEEP_RUNNER)) == committed
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    assert {allranks.__version__} == {about["version"], about["appVersion"]}


def test_its_pod_is_restricted(ci_file: Path, ci: dict[str, Any]) -> None:
    """Pod Security "restricted", a root that cannot be written, and the only token."""
    check_no_nulls(ci)
    (job,) = (manifest for manifest in ci.values() if manifest["kind"] == "Job")
    spec = job["spec"]["template"]["spec"]
    assert set() == violations(spec), ci_file
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["automountServiceAccountToken"] is True
    (account,) = (manifest for manifest in ci.values() if manifest["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == spec["serviceAccountName"]


def test_the_release_is_no_run(ci: dict[str, Any]) -> None:
    """Nothing of it has the label by which runs are found, or those of a trial."""
    for manifest in ci.values():
        assert {names.APP_PART_OF, names.SWEEP} & set(manifest["metadata"]["labels"]) == set()


@pytest.mark.attack
def test_its_rights_are_those_that_were_computed(render: Any) -> None:
    """One Role with the rules that were given, bound to one account of the namespace."""
    manifests = render()
    assert [_RULE] == manifests["Role/s-runner"]["rules"]
    binding = manifests["RoleBinding/s-runner"]
    assert "s-runner" == binding["roleRef"]["name"]
    assert [{"kind": "ServiceAccount", "name": "s-runner", "namespace": "default"}] == (
        binding["subjects"]
    )


def test_the_journal_is_where_the_runner_looks(render: Any) -> None:
    """Its head and Lease have the names that the program knows; the next round is another Job."""
    manifests = render(name="two", sweep={"round": 2})
    head = segments.head_name("two")
    assert b'{"t":"sweep"}\n' == segments.unpack_head(manifests[f"Secret/{head}"])
    assert f"Lease/{head}" in manifests
    (container,) = manifests["Job/two-runner-2"]["spec"]["template"]["spec"]["containers"]
    expected = ["sweep", "stay", "two", "--journal", "secret:default/two"]
    assert ["allranks", *expected] == container["command"] + container["args"]


def test_a_chart_comes_along(render: Any) -> None:
    """It is a file of the pod, and the program is told which."""
    manifests = render(sweep={"chart": "aGVsbG8="})
    assert {"chart.tgz": "aGVsbG8="} == manifests["Secret/s-chart"]["data"]
    spec = manifests["Job/s-runner-1"]["spec"]["template"]["spec"]
    (mount,) = (
        mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "chart"
    )
    assert ["--chart", f"{mount['mountPath']}/chart.tgz"] == spec["containers"][0]["args"][-2:]


@pytest.mark.attack
def test_what_values_hold_is_in_secrets_alone(chart: Path, helm4: Any) -> None:
    """Passwords may be among them: no argument, variable, annotation or note has any of it."""
    sweep = {**_SWEEP, "head": segments.pack_head({"password": "sicrit"}), "chart": "c2ljcml0"}
    values = json.dumps({"sweep": sweep})
    command = ("install", "s", chart, "-f", "-", "--dry-run=client")
    output = helm4.run(*command, stdin=values).stdout
    manifests, _, notes = output.partition("MANIFEST:")[2].partition("NOTES:")
    documents = [document for document in yaml.safe_load_all(manifests) if document]
    for text in (str(sweep["head"]), str(sweep["chart"])):
        kinds = {document["kind"] for document in documents if text in json.dumps(document)}
        assert ({"Secret"}, False) == (kinds, text in notes)


def test_where_it_runs_passes_through(render: Any) -> None:
    """Tolerations, node selector, pull secrets and resources are the person's."""
    tolerations = [{"key": "infra", "operator": "Exists"}]
    manifests = render(
        scheduling={"nodeSelector": {"role": "infra"}, "tolerations": tolerations},
        imagePullSecrets=["hub"],
        resources={"requests": {"cpu": 2}},
    )
    spec = manifests["Job/s-runner-1"]["spec"]["template"]["spec"]
    assert ({"role": "infra"}, tolerations, [{"name": "hub"}]) == (
        spec["nodeSelector"],
        spec["tolerations"],
        spec["imagePullSecrets"],
    )
    assert "2" == spec["containers"][0]["resources"]["requests"]["cpu"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "ERROR: sweep: this chart is installed by `allranks sweep run"),
        ({"sweep": _SWEEP, "labels": {names.APP_NAME: "x"}}, f"ERROR: labels.{names.APP_NAME}"),
        ({"sweep": _SWEEP, "restart": 3}, "restart"),
    ],
)
def test_what_does_not_fit_is_refused(
    values: dict[str, Any], message: str, chart: Path, helm: Any
) -> None:
    """A plain install, a label of ours, and a typo."""
    assert message in helm.refusal(chart, values=values)


def test_notes_say_what_to_do(ci_file: Path, chart: Path, helm4: Any) -> None:
    """How the sweep is looked at and removed, from any machine."""
    output = helm4.run("install", "s", chart, "-f", ci_file, "--dry-run=client").stdout
    notes = output.partition("NOTES:")[2]
    for word in ("status", "results", "delete"):
        assert f"allranks sweep {word} s --journal secret:default/s" in notes

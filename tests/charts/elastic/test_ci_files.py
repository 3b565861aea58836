"""What holds for every ci file: each is rendered once by each helm, and asked all of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.values.resolve import resolve
from allranks.values.sources import Sources
from tests.charts.shared import metadata, packaging
from tests.charts.shared.api import check_no_nulls, check_types
from tests.charts.shared.pod_security import violations
from tests.charts.shared.rendered import Manifests, joined, reviewable, templates
from tests.charts.shared.strings import expand

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

# ci files that ask for less than "restricted" on purpose, and for what.
_ON_PURPOSE = {
    "full": {"hostNetwork", "hostIPC", "hostPID", "hostPort", "runAsNonRoot", "seccomp"}
    | {"capabilities", "escalation"},
    "root": {"runAsNonRoot", "seccomp", "capabilities", "escalation"},
}


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == reviewable(ci_text)


def test_both_majors_render_the_same(
    ci_file: Path, ci_text: str, elastic: Path, helm3: Any
) -> None:
    """Helm 3 prints the same text as Helm 4."""
    assert joined(ci_text) == joined(helm3.render(elastic, "-f", ci_file))


def test_every_field_exists(ci: dict[str, Any]) -> None:
    """Kubernetes' own models, and our definitions, take each manifest without a null."""
    check_types(ci)
    check_no_nulls(ci)


def test_names_labels_and_selectors(ci: dict[str, Any]) -> None:
    """Objects and pods have all labels; names are the release's; selectors find the pods."""
    metadata.check_labels(ci, "elastic")
    metadata.check_names(ci)
    if "Service/demo" in ci:
        metadata.check_selectors(ci)


def test_pods_are_restricted(ci_file: Path, ci: dict[str, Any]) -> None:
    """Pod Security "restricted" takes the pods, but for what a file asks on purpose."""
    allowed = _ON_PURPOSE.get(ci_file.stem.removesuffix("-values"), set())
    for name, template in templates(ci).items():
        assert violations(template["spec"]) <= allowed, name


def test_words_arrive_as_typed(ci: dict[str, Any], ci_values: dict[str, Any]) -> None:
    """A role's program is what the file says, unchanged by the kubelet."""
    own = ci_values.get("elastic", {}).get("roles", {})
    script = ci_values.get("script", "")
    for name, template in templates(ci).items():
        role = name.rpartition("/")[2].removeprefix("demo-")
        about = own.get(role, {})
        words = [*ci_values.get("command", []), *about.get("args", ci_values.get("args", []))]
        if script:
            words = ["/etc/allranks/script", *words]
        if about.get("command"):
            words = [*about["command"], *about.get("args", [])]
        elif script and not script.startswith("#!"):
            words = ["python3", *words]
        how, *args = (expand(word) for word in template["spec"]["containers"][0]["args"])
        assert how in ("follow", "exec", "elastic_worker")
        if how == "elastic_worker" and words[:1] == ["python3"] and script:
            words = words[1:]  # torchrun is a Python itself
        assert words == args, name


@pytest.mark.attack
def test_rights_are_a_masters_alone(ci_file: Path, ci: dict[str, Any]) -> None:
    """No pod of the training speaks to the API server, but where its account is given a token."""
    token = ci_file.stem == "full-values"
    for name, template in templates(ci).items():
        assert token == template["spec"]["automountServiceAccountToken"], name
    for manifest in ci.values():
        for rule in manifest.get("rules", []) if manifest["kind"] == "Role" else []:
            assert not {"*"} & {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}


def test_lint_passes(ci_file: Path, elastic: Path, helm4: Any) -> None:
    """`helm lint --strict` has nothing to say."""
    packaging.check_lint(helm4, elastic, ci_file)


def test_notes_say_what_to_do(ci_file: Path, ci: dict[str, Any], elastic: Path, helm4: Any) -> None:
    """NOTES name each object, how to follow the job and how to end it, and show no value of env."""
    packaging.check_notes(helm4, elastic, ci_file, ci)


def test_the_command_line_accepts_it(ci_file: Path) -> None:
    """What the chart renders in CI is what the command line accepts."""
    assert "elastic" == resolve(Sources(files=(str(ci_file),)), "demo").workload

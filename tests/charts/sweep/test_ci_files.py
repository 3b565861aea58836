"""What holds for every ci file: each is rendered once by each helm, and asked all of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
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
}


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == reviewable(ci_text)


def test_both_majors_render_the_same(ci_file: Path, ci_text: str, sweep: Path, helm3: Any) -> None:
    """Helm 3 prints the same text as Helm 4."""
    assert joined(ci_text) == joined(helm3.render(sweep, "-f", ci_file))


def test_every_field_exists(ci: dict[str, Any]) -> None:
    """Kubernetes' own models, and our definitions, take each manifest without a null."""
    check_types(ci)
    check_no_nulls(ci)


def test_names_labels_and_selectors(ci: dict[str, Any]) -> None:
    """Objects and pods have all labels; names are the release's; selectors find the pods."""
    metadata.check_labels(ci, "sweep")
    metadata.check_names(ci)
    for name, manifest in ci.items():
        if manifest["kind"] not in ("Service", "Deployment"):
            continue
        selector = manifest["spec"]["selector"]
        labels = dict(selector.get("matchLabels", selector))
        labels.pop(names.JOB_COMPLETION_INDEX, None)
        selected = [
            other
            for other, template in templates(ci).items()
            if labels.items() <= template["metadata"]["labels"].items()
        ]
        kinds = {"Job", "Deployment"}
        same = {f"{kind}/{manifest['metadata']['name']}" for kind in kinds}
        assert set(selected) <= same, f"{name} selects the pods of {selected}"
        assert len(selected) == 1


def test_pods_are_restricted(ci_file: Path, ci: dict[str, Any]) -> None:
    """Pod Security "restricted" takes the pods, but for what a file asks on purpose."""
    allowed = _ON_PURPOSE.get(ci_file.stem.removesuffix("-values"), set())
    for name, template in templates(ci).items():
        assert violations(template["spec"]) <= allowed, name


def test_words_arrive_as_typed(ci: dict[str, Any], ci_values: dict[str, Any]) -> None:
    """A trial's program is what the file says, with its placeholders, unchanged by the kubelet."""
    trial = ci_values["sweep"].get("trial", {})
    values = ci_values | trial.get("values", {})
    how = trial.get("workload", "exec")
    words = [*values.get("command", []), *values.get("args", [])]
    for name, template in templates(ci).items():
        if "tensorboard" in name:
            continue
        args = [expand(word) for word in template["spec"]["containers"][0]["args"]]
        if values.get("script"):
            assert [how, "python3", "/var/run/allranks/script"] == args
        else:
            assert [how, *words] == args, name


def test_rights_are_nobodys(ci_file: Path, ci: dict[str, Any]) -> None:
    """No trial speaks to the API server, but where its account is given a token."""
    for name, template in templates(ci).items():
        token = ci_file.stem == "full-values" and "tensorboard" not in name
        assert token == template["spec"]["automountServiceAccountToken"], name
    assert not [name for name in ci if name.startswith(("Role", "Cluster"))]


def test_lint_passes(ci_file: Path, sweep: Path, helm4: Any) -> None:
    """`helm lint --strict` has nothing to say."""
    packaging.check_lint(helm4, sweep, ci_file)


def test_notes_say_what_to_do(ci_file: Path, ci: dict[str, Any], sweep: Path, helm4: Any) -> None:
    """NOTES name each object, how to follow the sweep and how to end it, and no value of env."""
    packaging.check_notes(helm4, sweep, ci_file, ci)


def test_the_command_line_accepts_it(ci_file: Path) -> None:
    """What the chart renders in CI is what the command line accepts."""
    sources = Sources(files=(str(ci_file),), sets=(("set", "workload=sweep"),))
    assert "sweep" == resolve(sources, "demo").workload

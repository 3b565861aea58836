"""Our driver on the real helm 3 and helm 4: text in, text out, errors in our words."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, InvalidValues, RunError
from allranks.helm import driver, errors, plugins
from allranks.helm.client import Client
from allranks.yamlio import load

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.helm.binary import HelmBinary

ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=ANY_TEXT)
def test_every_string_arrives_as_typed(binary: HelmBinary, chart: Path, text: str) -> None:
    """Emoji, line separators, control characters, quotes: helm sees what the values hold."""
    rendered = driver.template(binary, "r", "ns", chart, {"text": text})
    (manifest,) = load.load_all(rendered)
    assert text == manifest["data"]["text"]
    assert ("r", "ns") == (manifest["metadata"]["name"], manifest["metadata"]["namespace"])


def test_schema_failures_name_the_values_path(binary: HelmBinary, chart: Path) -> None:
    """Both majors' schema verdicts become the same problems."""
    with pytest.raises(InvalidValues) as excinfo:
        driver.template(binary, "r", "", chart, {"gpus": -1, "gpu": 1, "map": True, "text": 1e-5})
    assert {
        ("gpus", "must be at least 0, not -1"),
        ("gpu", "unknown key"),
        ("map", "must be string or object, not boolean"),
        ("text", "must be string, not number"),
    } == {(problem.path, problem.message) for problem in excinfo.value.problems}


def test_a_charts_own_check_keeps_its_words(binary: HelmBinary, chart: Path) -> None:
    """What a template says with `fail` comes out as path, message and fix."""
    with pytest.raises(InvalidValues) as excinfo:
        driver.template(binary, "r", "", chart, {"mode": "fail"})
    problem = excinfo.value.problem
    assert ("torchrun.port", "70000 is above 65535", "use 29500") == (
        problem.path,
        problem.message,
        problem.hint,
    )


def test_a_template_error_names_its_line(binary: HelmBinary, chart: Path) -> None:
    """A nil pointer in a template is the chart's fault and says where."""
    with pytest.raises(RunError) as excinfo:
        driver.template(binary, "r", "", chart, {"mode": "nil"})
    assert excinfo.value.problem.path.startswith("probe/templates/probe.yaml:2:")
    assert "nil pointer" in excinfo.value.problem.message


def test_text_that_is_not_yaml_names_its_template(binary: HelmBinary, chart: Path) -> None:
    """A template that renders no YAML is told as such."""
    with pytest.raises(RunError, match="not YAML") as excinfo:
        driver.template(binary, "r", "", chart, {"mode": "yaml"})
    assert excinfo.value.problem.path == "probe/templates/probe.yaml"


def test_a_missing_chart(binary: HelmBinary, tmp_path: Path) -> None:
    """A folder without a chart, and no folder at all, are wrong input."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nothing"):
        with pytest.raises(InputError, match="there is no chart"):
            driver.template(binary, "r", "", tmp_path / name, {})


def test_a_wrong_release_name(binary: HelmBinary, chart: Path) -> None:
    """Helm's own refusal of a release name is wrong input."""
    with pytest.raises(InputError, match="is not a release name"):
        driver.template(binary, "Bad_Name", "", chart, {})


def test_a_cluster_that_does_not_answer(binary: HelmBinary, chart: Path, tmp_path: Path) -> None:
    """An install without a cluster says so; it is no wrong input."""
    process = subprocess.run(
        [binary.path, "install", "r", chart, "--kubeconfig", tmp_path / "none"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(tmp_path / "none")},
    )
    error = errors.parse(process.stderr)
    assert isinstance(error, RunError)
    assert "the cluster does not answer" in error.problem.message


def test_plain_helm_says_that_the_post_renderer_is_needed() -> None:
    """The kind that only the post-renderer removes is read from both majors' messages."""
    for version in ("allranks.dev/v1alpha1", "v1"):
        stderr = (
            "Error: INSTALLATION FAILED: unable to build kubernetes objects from release manifest: "
            f'resource mapping not found for name: "x" namespace: "" from "": no matches for kind '
            f'"PostRendererRequired" in version "{version}"\nensure CRDs are installed first\n'
        )
        assert "need the post-renderer" in errors.parse(stderr).problem.message


def test_a_plugin_of_helm_4_does_not_reach_what_helm_3_renders(
    binary: HelmBinary, chart: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plugin folder that a helm cannot read changes nothing, and HELM_DEBUG neither."""
    plain = driver.template(binary, "r", "", chart, {})
    broken = tmp_path / "plugins" / "x"
    broken.mkdir(parents=True)
    (broken / "plugin.yaml").write_text("apiVersion: v9\nnonsense: [")
    monkeypatch.setenv("HELM_PLUGINS", str(broken.parent))
    monkeypatch.setenv("HELM_DEBUG", "true")
    assert plain == driver.template(binary, "r", "", chart, {})


def test_pyhelm3_reads_a_chart_through_our_command(binary: HelmBinary, chart: Path) -> None:
    """pyhelm3's own client works on our command runner, on both majors."""
    client = Client(binary)
    description = driver.call(client.get_chart(chart))
    assert ("probe", "0.1.0") == (description.metadata.name, description.metadata.version)
    assert binary.major == client.version.major


def test_the_installed_post_renderer_works(binary: HelmBinary, chart: Path) -> None:
    """After `install`, helm finds the post-renderer under the name that install gives."""
    path = plugins.install(binary)
    name = path.name if binary.major >= plugins.HELM_WITH_PLUGINS else str(path)
    rendered = driver.template(
        binary, "r", "", chart, {"text": "1e-5"}, post_renderer=driver.PostRenderer(name)
    )
    (manifest,) = [document for document in load.load_all(rendered) if document]
    assert manifest["data"]["text"] == "1e-5"
    if binary.major >= plugins.HELM_WITH_PLUGINS:
        (plugin,) = plugins.list_installed(binary)
        assert (sys.executable, True) == (plugin.interpreter, plugin.works)
        process = subprocess.run(
            [binary.path, "plugin", "list"], capture_output=True, text=True, check=True
        )
        assert plugin.name in process.stdout


def test_the_post_renderers_refusal_is_shown(binary: HelmBinary, chart: Path) -> None:
    """What the post-renderer says reaches the person, though Helm 4 hides its standard error."""
    path = plugins.install(binary)
    name = path.name if binary.major >= plugins.HELM_WITH_PLUGINS else str(path)
    renderer = driver.PostRenderer(name, ("--dialect=slurm",))
    with pytest.raises(InputError) as excinfo:
        driver.template(binary, "r", "", chart, {}, post_renderer=renderer)
    assert "slurm" in str(excinfo.value)


def test_an_unknown_post_renderer(binary: HelmBinary, chart: Path) -> None:
    """A post-renderer that helm does not find is wrong input, with the way to install it."""
    with pytest.raises(InputError, match="does not know this post-renderer") as excinfo:
        driver.template(
            binary, "r", "", chart, {}, post_renderer=driver.PostRenderer("no-such-program")
        )
    assert "allranks plugin install" in excinfo.value.problem.hint

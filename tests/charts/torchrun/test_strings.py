"""What a user typed is what the container gets: through Helm, YAML and the kubelet, unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.charts.shared.strings import STRINGS, expand

Render = Callable[..., dict[str, Any]]
Pod = Callable[[dict[str, Any]], dict[str, Any]]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=st.lists(STRINGS, min_size=1, max_size=12))
def test_args_and_env_arrive_as_typed(words: list[str], render: Render, pod: Pod) -> None:
    """Each word of command and args, and each value of env, is what was typed."""
    manifests = render(
        command=["prog", *words], args=words, env={f"V{i}": word for i, word in enumerate(words)}
    )
    trainer = pod(manifests)["spec"]["containers"][0]
    assert ["prog", *words, *words] == [expand(arg) for arg in trainer["args"]]
    env = {variable["name"]: variable.get("value", "") for variable in trainer["env"]}
    assert words == [expand(env[f"V{i}"]) for i in range(len(words))]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(STRINGS.map(lambda text: text[:400]), min_size=1, max_size=8))
def test_script_and_setup_arrive_as_typed(lines: list[str], render: Render) -> None:
    """The mounted files are byte for byte what was typed; ConfigMaps are not expanded."""
    script, setup = "#" + "\n".join(lines), "\n".join(reversed(lines)) or " "
    data = render(script=script, setup=setup)["ConfigMap/demo"]["data"]
    assert script == data["script"]
    assert setup == data["setup.sh"]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=STRINGS.filter(bool).map(lambda text: text[:400]),
    key=st.from_regex(r"\A[a-z]([-a-z0-9]{0,20}[a-z0-9])?\Z"),
)
def test_other_strings_arrive_as_typed(text: str, key: str, render: Render, pod: Pod) -> None:
    """Annotations, selectors, torchrun's own texts and podTemplate are not re-typed either."""
    manifests = render(
        annotations={f"example.com/{key}": text},
        scheduling={"nodeSelector": {key: "1e5"}},
        torchrun={"role": re.sub(r"[\r\n]", "", text)},
        podTemplate={"metadata": {"annotations": {"x": text}}, "spec": {"hostname": text}},
    )
    template = pod(manifests)
    assert text == manifests["Job/demo"]["metadata"]["annotations"][f"example.com/{key}"]
    assert text == template["metadata"]["annotations"]["x"]
    spec = template["spec"]
    assert text == spec["hostname"]
    assert {key: "1e5"} == spec["nodeSelector"]
    env = {variable["name"]: variable.get("value", "") for variable in spec["containers"][0]["env"]}
    assert re.sub(r"[\r\n]", "", text) == expand(env.get("PET_ROLE", ""))


def test_ci_strings_arrive_as_typed(
    ci: dict[str, Any], ci_values: dict[str, Any], pod: Pod
) -> None:
    """In each ci file too, args and env are what the file says."""
    trainer = pod(ci)["spec"]["containers"][0]
    mounted = ["/etc/allranks/script"] if ci_values.get("script") else []
    words = [*mounted, *ci_values.get("command", []), *ci_values.get("args", [])]
    assert words == [expand(arg) for arg in trainer["args"]]


@pytest.mark.parametrize(
    ("text", "arrives"),
    [("$$", "$"), ("$(A)", "EXPANDED"), ("$$(A)", "$(A)"), ("$A", "$A"), ("$$$(A)", "$EXPANDED")],
)
def test_expansion_is_the_kubelets(text: str, arrives: str) -> None:
    """The stand-in for the kubelet's expansion does what Kubernetes documents."""
    assert arrives == expand(text)


def test_script_is_run_by_path(render: Render, pod: Pod) -> None:
    """A script runs from where it is mounted, and its folder allows that to any user."""
    spec = pod(render(script="print(1)", args=["a"]))["spec"]
    assert ["/etc/allranks/script", "a"] == spec["containers"][0]["args"]
    (entry,) = (volume for volume in spec["volumes"] if volume["name"] == "entry")
    assert 0o555 == entry["configMap"]["defaultMode"]


def test_no_template_in_values_is_evaluated(render: Render) -> None:
    """`{{ fail }}` anywhere in the values is only text."""
    evil = '{{ fail "evaluated" }}'
    manifests = render(
        command=[evil],
        setup=evil,
        env={"A": evil},
        annotations={"a": evil},
        workingDir=f"/{evil}",
        podTemplate={"metadata": {"annotations": {"b": evil}}},
    )
    assert evil == manifests["ConfigMap/demo"]["data"]["setup.sh"]

"""What a user typed is what the container gets: through Helm, YAML and the kubelet, unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.charts.shared.rendered import templates, variables
from tests.charts.shared.strings import STRINGS, expand

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Render

LAUNCHER, WORKER = "Job/demo-launcher", "Job/demo-worker"


def launcher_args(manifests: dict[str, Any]) -> list[str]:
    """The launcher's arguments, as the kubelet hands them over."""
    (trainer,) = manifests[LAUNCHER]["spec"]["template"]["spec"]["containers"]
    return [expand(arg) for arg in trainer["args"]]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(STRINGS, min_size=1, max_size=8),
    flags=st.lists(STRINGS.filter(bool), max_size=4),
)
def test_words_arrive_as_typed(words: list[str], flags: list[str], render: Render) -> None:
    """Each word of command, args and mpirunArgs, and each value of env, is what was typed."""
    env = {f"V{i}": word for i, word in enumerate(words)}
    manifests = render(
        command=["prog", *words],
        args=words,
        mpi={"mpirunArgs": flags, "launcher": {"env": env}, "worker": {"env": env}},
    )
    assert [str(len(flags)), *flags, "prog", *words, *words] == launcher_args(manifests)
    for template in templates(manifests).values():
        strings = variables(template)
        assert words == [expand(strings[name]) for name in env]


def test_ci_strings_arrive_as_typed(ci: dict[str, Any], ci_values: dict[str, Any]) -> None:
    """In each ci file too, the words are what the file says."""
    flags = ci_values.get("mpi", {}).get("mpirunArgs", [])
    script = ci_values.get("script", "")
    python = ["python3"] if script and not script.startswith("#!") else []
    mounted = ["/etc/allranks/script"] if script else []
    words = [*python, *mounted, *ci_values.get("command", []), *ci_values.get("args", [])]
    assert [str(len(flags)), *flags, *words] == launcher_args(ci)


def test_no_template_in_values_is_evaluated(render: Render) -> None:
    """`{{ fail }}` anywhere in the values is only text."""
    evil = '{{ fail "evaluated" }}'
    manifests = render(
        command=[evil],
        setup=evil,
        mpi={
            "mpirunArgs": [evil],
            "launcher": {"env": {"A": evil}, "podTemplate": {"spec": {"hostname": evil}}},
        },
    )
    assert ["1", evil, evil] == launcher_args(manifests)
    assert evil == manifests[LAUNCHER]["spec"]["template"]["spec"]["hostname"]

"""What is refused, that every value changes the render, packaging, strings and the layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.charts.shared import metadata, packaging, refusals
from tests.charts.shared.layout import PROBE, SIZES, charted, generated, sized
from tests.charts.shared.parity import ELSEWHERE, FITTING, OTHER, Parity, read
from tests.charts.shared.rendered import templates, variables
from tests.charts.shared.strings import STRINGS, expand

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Refusal, Render

REFUSED = refusals.refusal_cases("elastic")

RING = {"elastic": {"mode": "auto", "framework": "pytorch"}}
_OF = {
    "chief": "tensorflow",
    "evaluator": "tensorflow",
    "ps": "tensorflow",
    "scheduler": "mxnet",
    "server": "mxnet",
}
CHART = Path(__file__).parents[3] / "charts/elastic"
# An ElasticJob has these of a node's shape, for its master.
_MASTER_KEYS = {"nodeShape.cpu", "nodeShape.memory"}
ELASTIC = Parity(
    chart=CHART,
    base={
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["/opt/train.py"],
        "nodes": 2,
    },
    fitting=FITTING
    | {
        "layout": {"nodes": 0, "gpus": 16, "gpusPerNode": 8},
        "nodeShape.cpu": RING,
        "nodeShape.memory": RING,
        "procsPerNode": RING,
        "elastic.auto": RING,
        "elastic.auto.master.command": {
            "elastic": RING["elastic"] | {"auto": {"master": {"image": "m"}}}
        },
        "elastic.framework": {},
        "elastic.strategy": RING,
        "runPolicy.stallSeconds": RING,
        "elastic.roles.worker.replicas": {"nodes": 0},
        **{
            f"elastic.roles.{role}": {
                "elastic": {"framework": framework, "roles": {role: {"replicas": 1}}}
            }
            for role, framework in _OF.items()
        },
        **{
            f"elastic.roles.{role}.replicas": {"elastic": {"framework": framework}}
            for role, framework in _OF.items()
        },
    },
    other=OTHER
    | {"elastic.mode": "auto", "elastic.framework": "pytorch"}
    | {"elastic.strategy": "ParameterServerStrategy", "elastic.roles.server.replicas": 2}
    | {"elastic.auto.minWorkers": 2, "elastic.auto.relaunch": "master"}
    | {"elastic.roles.worker.replicas": 4, "runPolicy.stallSeconds": 600},
    elsewhere={key: reason for key, reason in ELSEWHERE.items() if key not in _MASTER_KEYS}
    | {"elastic.roles.scheduler.replicas": "MXNet has always one"}
    | {"compat": "an elastic job has roles, and no ranks of Slurm's"}
    | {"slurm.unset": "an elastic job has none of Slurm's variables"}
    | {"runPolicy.onStall": "what is done about a stall is the master's to say"},
)


@pytest.mark.parametrize("key", ELASTIC.changing)
def test_every_value_changes_the_render(key: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    ELASTIC.check_change(key, helm4)


@pytest.mark.parametrize(
    "key", sorted({"workload", "preset", "compat", "slurm.unset", "runPolicy.onStall"})
)
def test_what_changes_nothing_is_refused(key: str, helm4: Any) -> None:
    """A key that changes no manifest is refused."""
    ELASTIC.check_elsewhere(key, helm4, value="torchrun")


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the tables cover each key of values.yaml."""
    assert not ELASTIC.missing()


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", REFUSED, ids=refusals.names(REFUSED))
def test_refused_with_path_and_fix(case: dict[str, Any], refusal: Refusal) -> None:
    """Each is refused as "ERROR: path: what; fix"."""
    refusals.check_words(refusal(**case["values"]), case["problem"])


@pytest.mark.parametrize("case", refusals.for_command_line(REFUSED), ids=lambda case: case["name"])
def test_the_command_line_refuses_the_same(case: dict[str, Any]) -> None:
    """What the chart refuses, the command line refuses before Helm runs."""
    refusals.check_command_line("elastic", case["values"])


@pytest.mark.parametrize(
    ("values", "longest"),
    [
        ({}, 53),
        ({"nodes": 101}, 52),
        ({"elastic": {"roles": {"evaluator": {"replicas": 1}}}}, 51),
        (RING, 37),
    ],
)
def test_longest_name(
    values: dict[str, Any], longest: int, render: Render, refusal: Refusal
) -> None:
    """The longest release name renders; one more is refused, before a pod could not be named."""
    for manifest in render(name="a" * longest, **values).values():
        assert len(manifest["metadata"]["name"]) <= 63
        if manifest["kind"] == "Job":
            last = manifest["spec"]["completions"] - 1
            assert len(f"{manifest['metadata']['name']}-{last}") <= 63
    if longest < 53:
        message = refusal(name="a" * (longest + 1), **values)
        assert f"pods are named after it; use at most {longest}" in message


def test_more_pods_than_a_variable_holds(refusal: Refusal) -> None:
    """The names of all pods are one variable, and that has its limit."""
    assert "ERROR: nodes: the names of all pods have" in refusal(nodes=9000)
    message = refusal(nodes=2000, setup="x" * 950_000)
    assert "ERROR: script: script, setup and the names of all pods have" in message


# --- the chart as a whole ------------------------------------------------------------------------


def test_package_renders_the_same(elastic: Path, helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library and the recipes inside, and renders what the folder does."""
    packaging.check_package(helm, elastic, elastic / "ci/tensorflow-values.yaml", tmp_path)


def test_library_is_a_link(elastic: Path) -> None:
    """The library inside the chart is the one beside it."""
    packaging.check_link(elastic)


@pytest.mark.parametrize("values", ["tensorflow", "auto"])
def test_two_releases_share_no_object(values: str, template: Any, elastic: Path) -> None:
    """Two jobs in one namespace never meet, not even in a selector."""
    path = elastic / f"ci/{values}-values.yaml"
    renders = [template(elastic, "-f", path, name=name) for name in ("one", "two")]
    metadata.check_apart(*renders)


def test_user_labels_and_annotations_are_everywhere(render: Render) -> None:
    """`labels` and `annotations` reach every object and the pods, a master's too."""
    for own in ({"roles": {"ps": {"replicas": 1}}}, RING["elastic"]):
        manifests = render(
            labels={"team": "vision"},
            annotations={"example.com/note": "x"},
            storage={"checkpoints": {"size": "1Gi"}},
            serviceAccount={"create": True},
            elastic=own,
        )
        stamps = metadata.metadata(manifests)
        if own is RING["elastic"]:
            specs = manifests["ElasticJob/demo"]["spec"]["replicaSpecs"]
            stamps.append(specs["dlrover-master"]["template"]["metadata"])
        assert len(stamps) > 6
        for meta in stamps:
            assert "vision" == meta["labels"]["team"]
            assert "x" == meta["annotations"]["example.com/note"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=st.lists(STRINGS, min_size=1, max_size=8), auto=st.booleans())
def test_words_arrive_as_typed(words: list[str], auto: bool, render: Render) -> None:
    """Each word of command, args and a role's own, and each value of env, is what was typed."""
    env = {f"V{i}": word for i, word in enumerate(words)}
    role = {"replicas": 1, "command": ["own", *words], "args": words, "env": env}
    own = RING["elastic"] | {"auto": {"master": {"image": "m", "command": words, "env": env}}}
    manifests = render(
        command=["prog", *words],
        args=words,
        env=env,
        elastic=own if auto else {"roles": {"ps": role}},
    )
    for name, template in templates(manifests).items():
        first = "own" if name.endswith("ps") else "prog"
        arguments = [expand(arg) for arg in template["spec"]["containers"][0]["args"]]
        assert [first, *words, *words] == arguments[1:]
        assert words == [expand(variables(template)[key]) for key in env]
    if auto:
        specs = manifests["ElasticJob/demo"]["spec"]["replicaSpecs"]
        (container,) = specs["dlrover-master"]["template"]["spec"]["containers"]
        assert words == [expand(word) for word in container["command"]]
        assert words == [expand(variable.get("value", "")) for variable in container["env"]]


_MODES = [
    ("static", "tensorflow"),
    ("auto", "tensorflow"),
    ("auto", "pytorch"),
    ("static", "mxnet"),
]
_CASES = st.fixed_dictionaries(
    SIZES
    | {
        "workers": st.sampled_from([0, 0, 0, 1, 2, 3, 12]),
        "each": st.sampled_from([0, 0, 0, 1, 2, 8]),
        "mode": st.sampled_from(_MODES),
        "limit": st.sampled_from([0, 0, 0, 1, 6, 8, 12, 97]),
    }
)


def _values(defaults: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    values = sized(defaults, "elastic", case)
    own = values["elastic"]
    own["mode"], own["framework"] = case["mode"]
    own["roles"]["worker"] |= {"replicas": case["workers"], "gpusPerPod": case["each"]}
    own["auto"]["minWorkers"], own["auto"]["maxWorkers"] = case["elastic"]
    own["auto"]["limits"]["gpu"] = case["limit"]
    return values


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(_CASES, min_size=40, max_size=60))
def test_chart_and_generator_agree(cases: list[dict[str, Any]], size_probe: Any) -> None:
    """For any sizes the chart computes what the generator does."""
    defaults = read(CHART / "values.yaml")
    given_values = [_values(defaults, case) for case in cases]
    for values, answer in zip(
        given_values, size_probe(PROBE, {"cases": given_values}), strict=True
    ):
        assert generated(values) == charted(answer), answer["problems"]

"""From files and flags to good values, or to everything that is wrong with them."""

from __future__ import annotations

import copy
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.errors import InvalidValues
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.schema import fixes, paths
from allranks.schema.validate import find_problems
from allranks.values import check
from allranks.values.merge import merge
from allranks.values.resolve import resolve, typed
from allranks.values.sources import Sources, defaults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allranks.errors import Problem
    from allranks.schema.paths import ValuesPath

GOOD = "workload: torchrun\nimage: {repository: my/trainer}\ncommand: [python, train.py]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusals(sources: Sources, release: str = "") -> list[tuple[str, str]]:
    """(path, source) of every problem, in their order."""
    with pytest.raises(InvalidValues) as excinfo:
        resolve(sources, release)
    return [(problem.path, problem.source) for problem in excinfo.value.problems]


def test_schema_and_rules_speak_in_one_run(folder: Path) -> None:
    """Faults of both kinds are sorted by file and line, flags last."""
    (folder / "a.yaml").write_text(GOOD + "queue: x\nargs: [1]\nshm: {sizePerGpu: 1Gi}\n")
    (folder / "b.yaml").write_text("nodes: -1\n")
    sources = Sources(("a.yaml", "b.yaml"), (("set", "torchrun.port=0"),))
    assert [
        ("queue", "a.yaml:4"),
        ("args[0]", "a.yaml:5"),
        ("nodes", "b.yaml:1"),
        ("torchrun.port", "--set torchrun.port=0"),
    ] == refusals(sources)


def test_good_values_come_back_whole(folder: Path) -> None:
    """What is good is returned with the defaults under it."""
    (folder / "a.yaml").write_text(GOOD)
    loaded = resolve(Sources(("a.yaml",), (("set", "gpus=4"),)), "digits", "team")
    assert (4, 29500) == (loaded.values["gpus"], loaded.values["torchrun"]["port"])


def test_the_release_is_checked_too(folder: Path) -> None:
    """A name that cannot be is told together with the values."""
    (folder / "a.yaml").write_text(GOOD + "gpus: -1\n")
    assert [("", ""), ("gpus", "a.yaml:4")] == sorted(refusals(Sources(("a.yaml",)), "My_Run"))


def test_numbers_are_told_back_as_typed(folder: Path) -> None:
    """The message and the fix show the user's own digits and words."""
    (folder / "a.yaml").write_text(
        GOOD + "args:\n- 1e-5\n- 0.10\n- yes\n- 0x1F\nenv: {A: 010, B: no}\n"
    )
    with pytest.raises(InvalidValues) as excinfo:
        resolve(Sources(("a.yaml",), (("set", "env.C=8"),)))
    hints = {problem.path: problem.hint for problem in excinfo.value.problems}
    assert {
        "args[0]": 'quote it: "1e-5"',
        "args[1]": 'quote it: "0.10"',
        "args[2]": 'quote it: "yes"',
        "args[3]": 'quote it: "0x1F"',
        "env.A": 'quote it: "010"',
        "env.B": 'quote it: "no"',
        "env.C": "write --set-string env.C=8",
    } == hints


def test_a_text_that_is_not_certain_is_not_claimed(folder: Path) -> None:
    """Two spellings of one number on a line, a file that is gone, a line past the end: none."""
    (folder / "a.yaml").write_text("args: [1e1, 10.0]\n")
    assert "" == typed(lambda _: "a.yaml:1")(("args", 0), 10.0)
    assert "" == typed(lambda _: "a.yaml:9")(("args", 0), 10.0)
    assert "" == typed(lambda _: "gone.yaml:1")(("args", 0), 10.0)
    assert "" == typed(lambda _: "")(("args", 0), 10.0)
    assert "1e1" == typed(lambda _: "--set-json args=[1e1]")(("args", 0), 10.0)


EXPRESSION = {"key": "zone", "operator": "In", "values": ["a"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION], "matchFields": [EXPRESSION]}]}
AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS},
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]},
}
CONTAINER = {
    "name": "trainer",
    "env": [{"name": "A", "value": "b"}],
    "resources": {"requests": {"cpu": "1", "a.b/c": 1}, "limits": {"cpu": 2, "a.b/c": 1}},
}
CONTEXT = {
    "runAsUser": 1000,
    "privileged": False,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
}
RAW = {
    "scheduling": {
        "affinity": AFFINITY,
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    },
    "security": {"podSecurityContext": CONTEXT, "containerSecurityContext": CONTEXT},
    "podTemplate": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {
            "affinity": AFFINITY,
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "overhead": {"cpu": "100m"},
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 1}},
            "containers": [CONTAINER],
            "initContainers": [{**CONTAINER, "name": "first", "restartPolicy": "Always"}],
            "volumes": [{"name": "x", "emptyDir": {}}],
        },
    },
}
JUNK: list[Any] = [None, True, 0, -1, 0.5, "", "x", [], [1], [None], ["x"], [{}], {}, {"x": 1}]


def leaves(value: Any, path: ValuesPath = ()) -> Iterator[tuple[ValuesPath, Any]]:
    """Each value of a map that is no map itself, with its path."""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a tree, but for its root."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("place", list(places(RAW)), ids=paths.show)
def test_raw_kubernetes_pieces_crash_nothing(place: tuple[Any, ...]) -> None:
    """Whatever stands in a raw piece, it is refused in words, or rules and layout take it."""
    for junk in JUNK:
        given_values = copy.deepcopy(RAW)
        node: Any = given_values
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = junk
        base = {"image": {"repository": "a/b"}, "command": ["x"]}
        values = merge(defaults("torchrun"), base | given_values)
        schema_problems = find_problems("torchrun", values, lambda _: "")
        broken = [path for path, _ in schema_problems]
        problems = check.check(values, lambda _: "", unreadable=broken)
        if not schema_problems and not problems:
            assert compute(JobSpec.from_values(values)).nodes == 1, junk


@pytest.mark.parametrize(
    ("flag", "fix"),
    [
        (("set", "torchrun.maxRestart=3"), "write --set torchrun.maxRestarts=3"),
        (("set-string", "image.tagg=1.4"), "write --set-string image.tag=1.4"),
        (("set-json", 'comand=["a"]'), "write --set-json 'command=[\"a\"]'"),
        (("set", '"nodes"=3'), "write --set nodes=3"),
        (("set", "nodse=many"), "write nodes"),  # which would be refused: no flag to paste
        (("set", "env=x"), 'write a map such as {NAME: "value"}; in a flag: --set env.KEY=VALUE'),
        (("set", "layout=3"), "remove it: it is computed from the other values"),
        (("set", "scheduling.tolerations=x"), "write a list of tolerations"),
        (("set", "torchrun.maxRestarts="), "write a whole number"),
    ],
)
def test_the_fix_of_a_flag_names_the_key_that_is_meant(
    folder: Path, flag: tuple[str, str], fix: str
) -> None:
    """A misspelt key is written right with its value, and nothing speaks of quotes in a flag."""
    (folder / "a.yaml").write_text(GOOD)
    with pytest.raises(InvalidValues) as excinfo:
        resolve(Sources(("a.yaml",), (flag,)))
    assert fix == excinfo.value.problems[0].hint


@pytest.mark.parametrize(
    "flag",
    [
        ("set", "env.C=8"),
        ("set", r"labels.a\.b/c=8"),
        ("set", "args={3,a}"),
        ("set", "command=python train.py"),
        ("set", "command=2"),
        ("set", "command={true}"),
        ("set", "shm.size=8"),
        ("set", "status.enabled=Auto"),
        ("set-string", "gpus=8"),
        ("set-string", "runPolicy.suspend=true"),
        ("set-string", "status.enabled=true"),
        ("set-string", "network.waitSeconds=5m"),
        ("set-json", "args=[1.5]"),
        ("set-json", 'args=["a",["b, c"]]'),
        ("set-json", 'workingDir="src, more"'),
        ("set", "nodes=0x10"),
        ("set", "nodes=2.0"),
        ("set-string", "nodes=1e3"),
        ("set", f"command=python {' '.join(f'--option-{index}' for index in range(20))}"),
        ("set", "image.pullPolicy=allways"),
    ],
)
def test_the_flag_that_a_fix_writes_mends_it(folder: Path, flag: tuple[str, str]) -> None:
    """A value of the --set family is mended by a flag in its own syntax, with its escapes."""
    problem = _first_problem(folder, flag)
    assert problem is not None
    _check_mended(flag, problem)


_LEAVES = [
    path
    for path, value in leaves(defaults("torchrun"))
    if path[0] not in {"layout", "workload", "preset"} and not isinstance(value, dict)
]
_SLIPS = ("yes", "2.0", "0x10", "5m", "8", "a b", "1e3", "true", "{a,3}", "Always", "null", "x=1")


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(_LEAVES),
    slip=st.sampled_from(_SLIPS),
    kind=st.sampled_from(["set", "set-string"]),
)
def test_each_flag_that_is_offered_mends_what_it_is_offered_for(
    folder: Path, path: ValuesPath, slip: str, kind: str
) -> None:
    """Whatever slip, wherever: a fix that is a flag to paste leaves no problem at its place."""
    flag = (kind, f"{fixes.show_path(path)}={slip}")
    problem = _first_problem(folder, flag)
    if problem is not None and problem.hint.startswith("write --"):
        _check_mended(flag, problem)


def _first_problem(folder: Path, flag: tuple[str, str]) -> Problem | None:
    (folder / "a.yaml").write_text(GOOD)
    try:
        resolve(Sources(("a.yaml",), (flag,)))
    except InvalidValues as error:
        return error.problems[0]
    return None


def _check_mended(flag: tuple[str, str], problem: Problem) -> None:
    kind, text, *instead = shlex.split(problem.hint.removeprefix("write --"))
    flags = ((kind, text),) if instead else (flag, (kind, text))
    remainder = []
    try:
        resolve(Sources(("a.yaml",), flags))
    except InvalidValues as error:
        remainder = [(item.path, item.message) for item in error.problems]
    # What a rule then says of a value that the schema takes is another problem.
    assert (problem.path, problem.message) not in remainder, problem

"""From files and flags to good values, or to everything that is wrong with them."""

from __future__ import annotations

import copy
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InvalidValues
from allranks.layout.compute import compute
from allranks.model.jobspec import JobSpec
from allranks.schema import paths
from allranks.schema.validate import located
from allranks.values import check
from allranks.values.merge import merge
from allranks.values.resolve import resolve, typed
from allranks.values.sources import Sources, defaults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = "workload: torchrun\nimage: {repository: my/trainer}\ncommand: [python, train.py]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(sources: Sources, release: str = "") -> list[tuple[str, str]]:
    """(path, source) of every problem, in their order."""
    with pytest.raises(InvalidValues) as caught:
        resolve(sources, release)
    return [(problem.path, problem.source) for problem in caught.value.problems]


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
    ] == refused(sources)


def test_good_values_come_back_whole(folder: Path) -> None:
    """What is good is returned with the defaults under it."""
    (folder / "a.yaml").write_text(GOOD)
    loaded = resolve(Sources(("a.yaml",), (("set", "gpus=4"),)), "digits", "team")
    assert (4, 29500) == (loaded.values["gpus"], loaded.values["torchrun"]["port"])


def test_the_release_is_checked_too(folder: Path) -> None:
    """A name that cannot be is told together with the values."""
    (folder / "a.yaml").write_text(GOOD + "gpus: -1\n")
    assert [("", ""), ("gpus", "a.yaml:4")] == sorted(refused(Sources(("a.yaml",)), "My_Run"))


def test_numbers_are_told_back_as_typed(folder: Path) -> None:
    """The message and the fix show the user's own digits and words."""
    (folder / "a.yaml").write_text(
        GOOD + "args:\n- 1e-5\n- 0.10\n- yes\n- 0x1F\nenv: {A: 010, B: no}\n"
    )
    with pytest.raises(InvalidValues) as caught:
        resolve(Sources(("a.yaml",), (("set", "env.C=8"),)))
    hints = {problem.path: problem.hint for problem in caught.value.problems}
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
        refused = located("torchrun", values, lambda _: "")
        broken = [path for path, _ in refused]
        found = check.check(values, lambda _: "", broken=broken)
        if not refused and not found:
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
    with pytest.raises(InvalidValues) as caught:
        resolve(Sources(("a.yaml",), (flag,)))
    assert fix == caught.value.problems[0].hint


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
    ],
)
def test_the_flag_that_a_fix_writes_mends_it(folder: Path, flag: tuple[str, str]) -> None:
    """A value of the --set family is mended by a flag in its own syntax, with its escapes."""
    (folder / "a.yaml").write_text(GOOD)
    with pytest.raises(InvalidValues) as caught:
        resolve(Sources(("a.yaml",), (flag,)))
    problem = caught.value.problems[0]
    kind, text, *instead = shlex.split(problem.hint.removeprefix("write --"))
    flags = ((kind, text),) if instead else (flag, (kind, text))
    left = []
    try:
        resolve(Sources(("a.yaml",), flags))
    except InvalidValues as error:
        left = [item.path for item in error.problems]
    assert problem.path not in left, problem

"""Every problem at once, in the user's order, in words that end it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allranks.schema.validate import validate
from allranks.values.merge import merge
from allranks.values.sources import defaults
from allranks.yamlio.load import load

GOOD = "workload: torchrun\nimage: {repository: my/trainer}\ncommand: [python, train.py]\n"


def problems(text: str) -> list[tuple[str, str, str]]:
    """(path, message, hint) of each problem of a values file, after Helm's merge."""
    document = load(GOOD + text, "v.yaml")
    values = merge(defaults("torchrun"), document.data)
    return [(p.path, p.message, p.hint) for p in validate("torchrun", values, document.where)]


def only(text: str) -> tuple[str, str, str]:
    """The one problem of a values file."""
    result = problems(text)
    assert len(result) == 1, result
    return result[0]


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    """One run tells everything, from the top of the file to its end."""
    text = "torchrun: {port: 0}\nzzz: 1\ngpus: -1\nargs: [1, x, true]\n"
    assert [p[0] for p in problems(text)] == ["torchrun.port", "zzz", "gpus", "args[0]", "args[2]"]


def test_each_problem_has_its_line() -> None:
    """The place is a file and a line."""
    document = load(GOOD + "gpus: -1\n", "v.yaml")
    values = merge(defaults("torchrun"), document.data)
    assert ["v.yaml:4"] == [p.source for p in validate("torchrun", values, document.where)]


def test_one_value_has_one_problem() -> None:
    """A value that breaks several keywords is worded once."""
    assert 1 == len(problems(f"scheduling: {{schedulerName: {'A' * 300}}}\n"))


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        ("args: [8]", "args[0]", "8 is a number, not a string", 'quote it: "8"'),
        ("args: [[1]]", "args[0]", "a list is given, [1], not a string", 'write "1"'),
        ("args: [[a, b]]", "args[0]", "a list is given", "items of the list that it stands in"),
        ("command: 2", "command", "2 is a number, not a list of strings", '["2"]'),
        ("gpus: '٣'", "gpus", '"٣" is a string', "write 3, in the digits 0 to 9"),
        ("gpus: [8]", "gpus", "a list is given, [8], not a whole number", "write 8"),
        ("gpus: {value: 8}", "gpus", "a map is given", "write 8"),
        ("gpus: [1, 2]", "gpus", "a list is given", "write a whole number"),
        ("gpuResource: 1", "gpuResource", "1 is a number", "write an extended resource"),
        ("runPolicy: {suspend: 1}", "runPolicy.suspend", "1 is a number", "write true"),
        ("runPolicy: {suspend: [a]}", "runPolicy.suspend", "a list is", "write true or false"),
        ("runPolicy: {suspend: ture}", "runPolicy.suspend", "not true or", "write true without"),
        ("runPolicy: {suspend: 'off'}", "runPolicy.suspend", "not true or", "write false with"),
        ("torchrun: {controller: true}", "torchrun.controller", "true is", "one of Job, Stat"),
        ("status: {enabled: 'true'}", "status.enabled", "auto, true, false", "write true without"),
        ("scheduling: {avoidNodes: [B2_X]}", "scheduling.avoidNodes[0]", "a node", "write b2-x"),
        ("scheduling: {avoidNodes: ['b2 ']}", "scheduling.avoidNodes[0]", "a node", "write b2"),
        ("scheduling: {avoidNodes: ['']}", "scheduling.avoidNodes[0]", "a node", "write the name"),
        ("scheduling: {nodeSelector: 1}", "scheduling.nodeSelector", "1 is", "write a map"),
        ("command: a b 'c d'", "command", "a list of strings", '["a", "b", "c d"]'),
        ('command: "it\'s"', "command", "a list of strings", '["it\'s"]'),
        ("command: {a: b}", "command", "a map is given", "each item after a dash"),
        (
            "image: a:5000/b:1@sha256:x",
            "image",
            "is a string",
            'a:5000/b, tag: "1", digest: sha256:x',
        ),
        ("network: true", "network", "true is a truth value, not a map", "write a map with dnsPol"),
        ("gpus: '8'", "gpus", "is a string, not a whole number", "remove the quotes: 8"),
        (
            "gpus: eight",
            "gpus",
            '"eight" is a string, not a whole number',
            "write a whole number, without quotes",
        ),
        ("gpus: 1.5", "gpus", "1.5 is a fraction, not a whole number", "write 1 or 2"),
        ("gpus: -1.5", "gpus", "-1.5 is a fraction", "write a whole number"),
        (
            "runPolicy: {suspend: 'yes'}",
            "runPolicy.suspend",
            "not true or false",
            "write true without",
        ),
        ("runPolicy: {suspend: 'True'}", "runPolicy.suspend", "not true or", "write true without"),
        ("shm: {size: 8}", "shm.size", "8 is a number, not a size", "name the unit: 8Gi"),
        ("shm: {size: 8 GB}", "shm.size", "is not a size", 'write "8G"'),
        ("nodeShape: {cpu: 12 cores}", "nodeShape.cpu", "is not a number of CPUs", 'write "12"'),
        ("queue: Team_A", "queue", "is not the name of a queue", "write team-a"),
        ("gpuType: {value: NVIDIA H100}", "gpuType.value", "is not a label", "write NVIDIA_H100"),
        ("workingDir: src", "workingDir", "is not an absolute path", "write /src"),
        (
            "image: {digest: 'sha256:zz'}",
            "image.digest",
            "is not an image digest",
            "write an image",
        ),
        ("network: {waitSeconds: 5m}", "network.waitSeconds", "is a string", "write 300, in sec"),
        ("gpus: -1", "gpus", "-1 is less than the least allowed, 0", "write 0 or more"),
        ("torchrun: {port: 70000}", "torchrun.port", "most allowed, 65535", "write 65535 or less"),
        (
            "torchrun: {torchft: {lighthouse: l}}",
            "torchrun.torchft.lighthouse",
            "such as lighthouse-master:29510",
            'write "l:29510"',
        ),
        ("scheduling: {dialect: slurm}", "scheduling.dialect", "none, kueue", "write one of these"),
        ("labels: {'a b': c}", 'labels["a b"]', "is not a label key", "write a_b"),
        ("labels: {a: ~}", "labels.a", "is empty (null)", 'write "" for an empty string'),
        ("workload: mpi", "workload", 'this file is for "mpi", and the chart is torchrun', "write"),
        ("preset: [1]", "preset[0]", "1 is a number, not the name of a preset", 'quote it: "1"'),
    ],
)
def test_the_words(text: str, path: str, message: str, hint: str) -> None:
    """Each kind of fault says what was given, what is allowed, and the nearest fix."""
    base = GOOD
    for key in ("workload", "image", "command"):
        if text.startswith(f"{key}:"):
            base = "".join(line for line in base.splitlines(True) if not line.startswith(key))
    document = load(base + text, "v.yaml")
    result = validate("torchrun", merge(defaults("torchrun"), document.data), document.where)
    assert [path] == [problem.path for problem in result]
    assert message in result[0].message
    assert hint in result[0].hint
    assert bool(hint) == bool(result[0].hint)


@pytest.mark.parametrize(
    ("image", "good"),
    [("", 1), ("m", 1), ("ghcr.io:5000/my/m:1@sha256:0", 1), ("a b", 0), ("m:1\n", 0), ("é", 0)],
)
def test_the_image_of_a_master(image: str, good: int) -> None:
    """A whole image in one string; what no node could pull is refused at once."""
    user_values = {"image": {"repository": "x"}, "command": ["x"]}
    user_values |= {"elastic": {"mode": "auto", "auto": {"master": {"image": image}}}}
    result = validate("elastic", merge(defaults("elastic"), user_values), lambda _: "")
    assert ["elastic.auto.master.image"] * (not good) == [problem.path for problem in result]


def test_a_number_is_shown_as_it_was_typed() -> None:
    """1e-5 is told back as 1e-5, in the message and in the fix, where the text is known."""
    values = merge(defaults("torchrun"), {"args": [1e-5]})
    result = validate("torchrun", values, lambda _: "", lambda *_: "1e-5")
    assert ("1e-5 is a number, not a string", 'quote it: "1e-5"') == (
        result[0].message,
        result[0].hint,
    )


def test_values_without_a_place_are_judged_too() -> None:
    """What came from no file is named without a place, and long values are cut."""
    values = merge(defaults("torchrun"), {"queue": "X" * 500})
    result = validate("torchrun", values, lambda _: "")
    assert "" == result[0].source
    assert len(result[0].message) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = sorted(defaults("torchrun"))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.5])
def test_a_number_without_a_whole_neighbour_is_refused(number: float) -> None:
    """The fix names two numbers only where a person would write one of them."""
    values = merge(defaults("torchrun"), load(GOOD, "v.yaml").data | {"procsPerNode": number})
    (problem,) = validate("torchrun", values, lambda _: "v.yaml:1")
    assert ("procsPerNode", "write a whole number") == (problem.path, problem.hint)


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
@example({"procsPerNode": math.inf})
def test_anything_is_judged_without_a_crash(given_values: dict[str, Any]) -> None:
    """Whatever stands where, each problem has a path, a message and a fix."""
    result = validate("torchrun", merge(defaults("torchrun"), given_values), lambda _: "")
    assert all(problem.path and problem.message and problem.hint for problem in result)


def test_a_flag_that_guessed_a_type_is_told_to_use_the_one_that_does_not() -> None:
    """Quotes are lost to the shell, so what `--set` typed is mended by `--set-string`."""
    values = merge(defaults("torchrun"), load(GOOD + "args: [3]\n", "v.yaml").data)
    (problem,) = validate("torchrun", values, lambda _: "--set args={3}")
    assert "write --set-string 'args[0]=3'" == problem.hint


def test_a_flag_that_takes_a_fraction_for_a_text_is_told_to_use_json() -> None:
    """`--set` knows whole numbers alone; nothing without quotes would mend it."""
    values = merge(defaults("elastic"), {"elastic": {"auto": {"policy": {"growFactor": "1.5"}}}})
    flag = "--set elastic.auto.policy.growFactor=1.5"
    result = [
        problem
        for problem in validate("elastic", values, lambda _: flag)
        if "growFactor" in problem.path
    ]
    hints = [problem.hint for problem in result]
    assert ["write --set-json elastic.auto.policy.growFactor=1.5 in place of --set"] == hints


@pytest.mark.parametrize(
    ("key", "given_text", "path"),
    [
        ("framework", "tf", "tensorflow"),
        ("framework", "torch", "pytorch"),
        ("mode", "dynamic", "auto"),
    ],
)
def test_what_people_call_it_elsewhere(key: str, given_text: str, path: str) -> None:
    """A choice that has another name somewhere is found by it."""
    values = merge(defaults("elastic"), {"elastic": {key: given_text}})
    (problem,) = [
        candidate
        for candidate in validate("elastic", values, lambda _: "")
        if candidate.path == f"elastic.{key}"
    ]
    assert f"write {path}" == problem.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (".nodes", "write nodes"),
        ("nodes.", "write nodes"),
        ("torchrun..port", "write torchrun.port"),
        ("../x", "write a values path such as torchrun.port, or a list of them"),
        ("...", "write a values path such as torchrun.port, or a list of them"),
    ],
)
def test_a_fix_has_nothing_that_the_place_does_not_ask_for(text: str, hint: str) -> None:
    """A place that takes nearly every text takes `sha256:.nodes` too, and nobody means that."""
    parameters = f"sweep: {{parameters: {{lr: {{path: {text}, values: [1]}}}}}}\n"
    document = load(GOOD.replace("torchrun", "sweep") + parameters, "v.yaml")
    values = merge(defaults("sweep"), document.data)
    problem, *_ = validate("sweep", values, document.where)
    assert ("sweep.parameters.lr.path", hint) == (problem.path, problem.hint)


@pytest.mark.parametrize("text", ["'='", "/", "'!'"])
def test_a_fix_has_a_letter_or_a_digit(text: str) -> None:
    """Of signs alone nothing is left that anybody meant."""
    assert '"_"' not in only(f"env: {{{text}: x}}")[2]

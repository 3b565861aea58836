from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.errors import InputError, InvalidValues
from allranks.service.queues import chart_rules
from allranks.values import explain, presets, queue
from allranks.values.merge import merge, overlay
from allranks.values.resolve import find_problems
from allranks.values.sources import Sources, defaults, load_sources
from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.values.queue import Queue

FILE = """\
name: h100
defaults:
  image: {repository: hub.example/team/train, tag: "1"}
  nodeShape: {gpus: 8}
  env: {WHO: team, MODE: fast}
rules:
  maxGpusPerJob: 16
imposed:
  scheduling:
    priorityClassName: high
"""
JOB = """\
workload: torchrun
command: [python, train.py]
gpus: 16
env: {WHO: me}
scheduling:
  priorityClassName: low
"""


def of(text: str = FILE, name: str = "") -> Queue:
    """The queue of a file's text."""
    return queue.from_file(text.encode(), "queue.yaml", chart_rules, name)


def config_map(**data: str) -> dict[str, Any]:
    """A queue's ConfigMap, as the cluster has it."""
    blocks = {
        "queue.yaml": "name: h100\nrevision: 0123456789ab\n",
        "defaults.yaml": "nodeShape:\n  gpus: 8\n",
        "rules.yaml": "maxGpusPerJob: 16\n",
        "imposed.yaml": "{}\n",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "allranks-queue-h100",
            "namespace": "research",
            "labels": {names.QUEUE: "h100"},
            "annotations": {names.QUEUE_REVISION: "0123456789ab"},
        },
        "data": blocks | {f"{key}.yaml": text for key, text in data.items()},
    }


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A values file in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "values.yaml").write_text(JOB, encoding="utf-8")
    return "values.yaml"


def test_the_queue_lies_around_a_person_s_own_values(job: str) -> None:
    """Its defaults lie below files and flags, what it imposes lies above both."""
    sets = (("set", "env.WHERE=here,scheduling.priorityClassName=urgent"),)
    values = load_sources(Sources((job,), sets, queue=of())).values
    assert {"WHO": "me", "MODE": "fast", "WHERE": "here"} == values["env"]
    assert ("high", 8) == (
        values["scheduling"]["priorityClassName"],
        values["nodeShape"]["gpus"],
    )


def test_a_value_that_gives_way_is_told_as_yaml(job: str) -> None:
    """Lists and mappings are what a values file takes, and whole where they are short."""
    text = FILE.replace(
        "    priorityClassName: high", "    tolerations: [{key: a, operator: Exists}]"
    )
    sets = (("set-json", 'scheduling.tolerations=[{"key": "x", "effect": null}]'),)
    (note,) = load_sources(Sources((job,), sets, queue=of(text))).overridden
    assert '[{"key": "x", "effect": null}] (--set-json' in str(note)
    assert 'gives way to [{"key": "a", "operator": "Exists"}], which the queue' in str(note)


def test_presets_lie_below_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue's defaults win over a preset, whoever names it; a person's own name wins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "values.yaml").write_text("workload: torchrun\npreset: h100-8x\n")
    own = of("name: q\ndefaults: {preset: sites/aks, nodeShape: {gpus: 4}}\n")
    loaded = load_sources(Sources(("values.yaml",), queue=own))
    assert (("h100-8x",), 4) == (loaded.presets, loaded.values["nodeShape"]["gpus"])
    (tmp_path / "values.yaml").write_text("workload: torchrun\n")
    assert ("sites/aks",) == load_sources(Sources(("values.yaml",), queue=own)).presets


NO_PRESET = "preset: %s\nworkload: torchrun\n"


@pytest.mark.parametrize("none", ["[]", '""', "null"])
def test_a_job_may_have_none_of_the_queue_s_presets(none: str) -> None:
    """An empty name is a name of its own."""
    own = of("name: q\ndefaults: {preset: sites/aks}\n")
    sources = Sources(("v.yaml",), contents={"v.yaml": (NO_PRESET % none).encode()}, queue=own)
    assert () == load_sources(sources).presets


def test_an_unknown_preset_of_a_queue_names_the_nearest(job: str) -> None:
    """With its place in the queue, who mends it, and what the person may do meanwhile."""
    text = FILE.replace("defaults:\n", "defaults:\n  preset: h100-8\n")
    with pytest.raises(InputError) as caught:
        load_sources(Sources((job,), queue=of(text)))
    problem = caught.value.problem
    assert ("preset", "queue.yaml:3") == (problem.path, problem.source)
    assert problem.message.startswith("there is no preset 'h100-8', which is the queue's")
    assert "did you mean 'h100-8x'?" in problem.hint
    assert "set preset in a file of your own" in problem.hint
    own = (("set", "preset=h100-8x"),)
    assert ("h100-8x",) == load_sources(Sources((job,), own, queue=of(text))).presets


def test_the_preset_is_explained_like_a_value(job: str) -> None:
    """Whose name it is, though Helm gets the values of the preset alone."""
    text = FILE.replace("defaults:\n", "defaults:\n  preset: h100-8x\n")
    loaded = load_sources(Sources((job,), queue=of(text)))
    explanation = explain.explain(loaded, ("preset",))
    assert ("h100-8x", "queue.yaml:3") == (explanation.value, explanation.sources[-1].source)
    assert "preset" not in loaded.user


def test_every_value_keeps_its_place(job: str) -> None:
    """A value of the queue is found in its block, by its line."""
    loaded = load_sources(Sources((job,), queue=queue.from_config_map(config_map())))
    assert "queue h100 defaults:2" == loaded.where(("nodeShape", "gpus"))
    assert "values.yaml:3" == loaded.where(("gpus",))
    own = load_sources(Sources((job,), queue=of()))
    assert "queue.yaml:10" == own.where(("scheduling", "priorityClassName"))
    # What nobody gave is missing from the person's own file.
    assert "values.yaml" == own.where(("setup",))


def test_a_value_that_gives_way_is_a_note_with_both_places(job: str) -> None:
    """A person's value is not lost in silence; one that agrees needs no word."""
    loaded = load_sources(Sources((job,), queue=of()))
    note = (
        "scheduling.priorityClassName: 'low' (values.yaml:6) gives way to 'high', which the queue "
        "imposes (queue.yaml:10)"
    )
    assert [note] == [str(item) for item in loaded.overridden]
    agreeing = of(FILE.replace("high", "low"))
    assert () == load_sources(Sources((job,), queue=agreeing)).overridden


def test_a_job_says_whose_it_is(job: str) -> None:
    """The name and the revision are values, as plain Helm can have them."""
    own = of()
    loaded = load_sources(Sources((job,), queue=own))
    assert {"name": "h100", "revision": own.revision} == loaded.user["queueRef"]


def test_the_values_of_a_sweep_s_trials_are_imposed_on_as_well() -> None:
    """What lies over a sweep's values for its trials alone does not pass the queue."""
    sets = (
        ("set", "workload=sweep,sweep.trial.values.scheduling.priorityClassName=low"),
        ("set", "sweep.trial.values.gpus=1"),
    )
    loaded = load_sources(Sources((), sets, queue=of()))
    assert {"gpus": 1, "scheduling": {"priorityClassName": "high"}} == loaded.user["sweep"][
        "trial"
    ]["values"]
    assert ["sweep.trial.values.scheduling.priorityClassName"] == [
        ".".join(item.path) for item in loaded.overridden
    ]
    key = "sweep.trial.values.scheduling.priorityClassName"
    winner = explain.explain(loaded, explain.parse(key)).sources[-1]
    assert ("queue.yaml:10", "high") == (winner.source, winner.value)


def test_the_rules_are_told_with_all_other_problems(job: str) -> None:
    """Each with the path, what was given, what is allowed, the fix and the line."""
    loaded = load_sources(Sources((job,), (("set", "gpus=32,bogus=1"),), queue=of()))
    assert [
        ("bogus", "unknown key"),
        ("gpus", "32 GPUs are more than the 16 that queue h100 allows (rules.maxGpusPerJob)"),
    ] == [(problem.path, problem.message) for _, problem in find_problems(loaded)]
    assert [] == [
        problem.path
        for _, problem in find_problems(loaded, is_local=True)
        if problem.path == "gpus"
    ]


def test_a_queue_is_read_from_either_form() -> None:
    """The chart's values, its ConfigMap, and what `helm template` prints say the same."""
    from_map = queue.from_config_map(config_map())
    stream = "---\n" + dump({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "x"}})
    stream += "---\n" + dump(config_map())
    assert from_map.as_dict() == of(stream).as_dict()
    assert ("h100", "0123456789ab", 16) == (
        from_map.name,
        from_map.revision,
        from_map.rules.max_gpus_per_job,
    )


def test_the_revision_changes_with_the_blocks_alone() -> None:
    """A label is no other revision, a rule is; the order of keys does not count."""
    revision = of().revision
    assert revision == of(FILE + "labels: {team: a}\n").revision
    assert (
        revision == of(FILE.replace("{WHO: team, MODE: fast}", "{MODE: fast, WHO: team}")).revision
    )
    assert revision != of(FILE.replace("16", "17")).revision


def test_what_is_recorded_is_the_queue_again(job: str) -> None:
    """A run keeps its queue; the same values follow from the record."""
    own = of()
    record = queue.recorded({"layout": {"queue": own.as_json()}})
    assert record is not None
    assert own.as_dict() == record.as_dict()
    first, second = (load_sources(Sources((job,), queue=item)).user for item in (own, record))
    assert first == second


def test_plain_helm_records_a_name_at_least() -> None:
    """Such a queue gives nothing, and the job stays its own."""
    record = queue.recorded({"queueRef": {"name": "h100", "revision": ""}, "layout": {}})
    assert record is not None
    assert ("h100", {}, {}) == (record.name, record.defaults.data, record.imposed.data)
    assert queue.recorded({"queueRef": {"name": "", "revision": ""}}) is None
    assert queue.recorded({}) is None


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_a_damaged_record_is_said(text: str) -> None:
    """Somebody else may have written the release's values; -q is the way on."""
    with pytest.raises(InputError) as caught:
        queue.recorded({"layout": {"queue": text}})
    assert "name its queue with -q" == caught.value.problem.hint


BROKEN = [
    (
        "defaults",
        "a: [",
        "ConfigMap allranks-queue-h100 in namespace research, key defaults.yaml:2",
    ),
    ("imposed", "a: 1\na: 2\n", "key imposed.yaml:2"),
    ("rules", "maxGpus: 1\n", "key rules.yaml:1"),
    ("rules", "maxGpusPerJob: many\n", "key rules.yaml:1"),
    ("queue", "- a\n", "key queue.yaml:1"),
]


@pytest.mark.parametrize(("key", "text", "place"), BROKEN)
def test_a_broken_key_is_named_with_its_configmap(key: str, text: str, place: str) -> None:
    """The place is the ConfigMap, the key and the line, and the fix says who mends it."""
    with pytest.raises(InputError) as caught:
        queue.from_config_map(config_map(**{key: text}))
    problem = caught.value.problem
    assert place in problem.source
    assert "whoever keeps the queue" in problem.hint


REFUSED = [
    ("imposed: {workload: mpi}\nname: q\n", "imposed.workload", "a queue may not impose"),
    ("imposed: {preset: x}\nname: q\n", "imposed.preset", "a queue may not impose"),
    ("defaults: {gpus: 1}\n", "name", "does not say how the queue is called"),
    ("workload: torchrun\n", "--queue-file", "is no queue's file"),
    ("# nothing\n", "--queue-file", "is empty, and a queue's file has"),
    ("name: q\ndefaults: [a]\n", "defaults", "is no mapping"),
    ("kind: Pod\napiVersion: v1\n", "--queue-file", "holds no queue"),
    ("name: q\nrules: {images: hub}\n", "rules.images", "not a list of texts"),
    ("name: q\nrules: {allowHostPath: 1}\n", "rules.allowHostPath", "not true or false"),
    ("name: q\nrules: {maxGpuPerJob: 1}\n", "rules.maxGpuPerJob", "is no rule of a queue"),
]


@pytest.mark.parametrize(("text", "path", "words"), REFUSED)
def test_what_is_no_queue_is_refused(text: str, path: str, words: str) -> None:
    """The key, what is wrong and what to write."""
    with pytest.raises(InputError) as caught:
        of(text)
    problem = caught.value.problems[0]
    assert path == problem.path
    assert words in problem.message
    assert problem.hint


def test_a_file_may_have_what_is_a_queue_s_alone() -> None:
    """A release may say no more than who is in the team; a key of jobs tells nothing."""
    keys = {chart: set(defaults(chart)) for chart in (names.QUEUE_CHART, *names.WORKLOADS)}
    own = keys.pop(names.QUEUE_CHART) - set.union(*keys.values()) - {*queue.BLOCKS, "name"}
    assert own == queue.OWN_KEYS
    team = queue.from_file(b"team: {groups: [research]}\n", "q.yaml", chart_rules, "h100")
    assert ("h100", {}, {}) == (team.name, team.defaults.data, team.imposed.data)


def test_an_unknown_rule_names_the_nearest() -> None:
    """A misspelt rule is no rule at all, and must not pass for one."""
    with pytest.raises(InvalidValues) as caught:
        of("name: q\nrules: {maxGpuPerJob: 1}\n")
    assert caught.value.problem.hint.startswith("did you mean maxGpusPerJob?")


LEAVES = st.sampled_from(["a", "b", 1, 2, True, ["x"], ["x", "y"]])
FRAGMENTS = st.dictionaries(
    st.sampled_from(["env", "labels", "scheduling"]),
    st.dictionaries(st.sampled_from(["p", "q", "r"]), LEAVES, min_size=1, max_size=3),
    max_size=3,
)


PRESETS = st.sampled_from([preset.name for preset in presets.list()])
# What names presets: nothing, a name, an empty one, several.
NAMES = st.fixed_dictionaries(
    {}, optional={"preset": PRESETS | st.just("") | st.lists(PRESETS, max_size=2, unique=True)}
)


@given(low=FRAGMENTS, file=FRAGMENTS, flag=FRAGMENTS, high=FRAGMENTS, of_queue=NAMES, of_file=NAMES)
def test_the_merge_is_helm_s_and_the_explanation_agrees(
    *,
    low: dict[str, Any],
    file: dict[str, Any],
    flag: dict[str, Any],
    high: dict[str, Any],
    of_queue: dict[str, Any],
    of_file: dict[str, Any],
) -> None:
    """Layer over layer, presets first and imposed last; each key's winner is its last source."""
    own = of(dump({"name": "q", "defaults": low | of_queue, "imposed": high}))
    data = json.dumps({"workload": "torchrun", **file, **of_file}).encode()
    sources = Sources(("v.yaml",), (("set-json", json.dumps(flag)),), {"v.yaml": data}, queue=own)
    loaded = load_sources(sources)
    user: dict[str, Any] = {"workload": "torchrun", "queueRef": loaded.user["queueRef"]}
    preset = {"preset": "", **of_queue, **of_file}["preset"]
    names_of = tuple(preset if isinstance(preset, list) else filter(None, [preset]))
    assert names_of == loaded.presets
    of_presets = [presets.load(name).data for name in names_of]
    for layer in (*of_presets, low, file, flag, high):
        user = overlay(user, layer)
    assert user == loaded.user
    assert merge(defaults("torchrun"), user) == loaded.values
    for section, keys in user.items():
        if section not in {"env", "labels", "scheduling"}:
            continue
        for key, value in keys.items():
            if key not in {"p", "q", "r"}:
                continue  # of a preset
            explanation = explain.explain(loaded, (section, key))
            winner = explanation.sources[-1]
            assert (value, value, True) == (explanation.value, winner.value, winner.wins)
            assert loaded.where((section, key)) == winner.source
            assert not any(source.wins for source in explanation.sources[:-1])


@given(FRAGMENTS, FRAGMENTS)
def test_what_is_imposed_stands_whatever_a_person_writes(
    mine: dict[str, Any], high: dict[str, Any]
) -> None:
    """Every imposed leaf is in the result, and each that differed is told."""
    own = of(dump({"name": "q", "imposed": high}))
    data = json.dumps({"workload": "torchrun", **mine}).encode()
    loaded = load_sources(Sources(("v.yaml",), contents={"v.yaml": data}, queue=own))
    overridden = {item.path for item in loaded.overridden}
    for section, keys in high.items():
        for key, value in keys.items():
            assert value == loaded.values[section][key]
            before = copy.deepcopy(mine).get(section, {}).get(key, value)
            differs = before != value or isinstance(before, bool) != isinstance(value, bool)
            assert differs == ((section, key) in overridden)


def test_a_source_that_says_nothing_of_a_key_is_not_listed(job: str) -> None:
    """From the chart to the queue, each with its place and what it makes of the key."""
    loaded = load_sources(Sources((job,), (("set", "env.MODE=slow"),), queue=of()))
    explanation = explain.explain(loaded, explain.parse("env.MODE"))
    assert [("queue.yaml:5", "fast", False), ("--set env.MODE=slow", "slow", True)] == [
        (source.source, source.value, source.wins) for source in explanation.sources
    ]


def test_a_mapping_is_explained_by_its_leaves(job: str) -> None:
    """Each leaf has the source that won."""
    loaded = load_sources(Sources((job,), queue=of()))
    below = explain.explain(loaded, ("env",)).below
    assert {("env", "WHO"): "values.yaml:4", ("env", "MODE"): "queue.yaml:5"} == {
        path: item.source for path, item in below
    }


def test_an_unknown_key_names_the_nearest(job: str) -> None:
    """A key of --explain that nobody has is an error."""
    loaded = load_sources(Sources((job,), queue=of()))
    with pytest.raises(InputError) as caught:
        explain.explain(loaded, explain.parse("runPolicy.backofLimit"))
    assert "did you mean runPolicy.backoffLimit?" == caught.value.problem.hint


def test_an_item_of_a_list_and_a_default_that_is_removed(job: str) -> None:
    """An item has a source of its own; what a null removes is unset."""
    sets = (("set", "command[1]=other.py,shm=null"),)
    loaded = load_sources(Sources((job,), sets))
    item = explain.explain(loaded, explain.parse("command[1]"))
    assert ("other.py", "--set command[1]=other.py,shm=null") == (
        item.value,
        item.sources[-1].source,
    )
    assert explain.explain(loaded, ("shm",)).value is None

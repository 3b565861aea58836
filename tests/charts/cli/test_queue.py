"""Queues from the command line, beside plain Helm with the same sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.service.queues import chart_rules
from allranks.values import queue
from allranks.values.sources import Sources, load_sources
from allranks.yamlio import dump, load

if TYPE_CHECKING:
    from pathlib import Path

FEW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
QUEUE = """\
name: h100
defaults:
  image: {repository: hub.example/team/train, tag: "1"}
  nodeShape: {gpus: 8}
rules:
  maxGpusPerJob: 16
imposed:
  scheduling: {priorityClassName: high}
"""
JOB = """\
workload: torchrun
command: [python, train.py]
gpus: 16
scheduling: {priorityClassName: low}
"""
TORCHRUN_JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: demo}
spec:
  jobQueue: h100
  numGPUs: 16
  command: python train.py --lr 1e-5
  reliability: {maxRestarts: 2}
  podOverrides: {x: 1}
"""
TORCHRUN_QUEUE = """\
apiVersion: torchrun.ai/v1
kind: TorchrunQueue
metadata: {name: %s}
spec:
  kaiQueue: team
  nodeResources: {gpus: 8, cpus: 96, memory: 1Ti}
  image: hub.example/x:1
"""
TEXTS = st.one_of(
    st.sampled_from(["1e-5", "y", "0x1", "a: b", "", " ", "~", "null", "12:30", "é", "\u2028"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12),
)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
NUMBERS = st.integers(0, 2**53 - 1) | st.floats(0, 1e25, allow_nan=False)


def revision(stream: str) -> str:
    """The revision of the ConfigMap that helm rendered."""
    return next(
        manifest["metadata"]["annotations"][names.QUEUE_REVISION]
        for manifest in load.load_all(stream)
        if manifest and manifest["kind"] == "ConfigMap"
    )


@FEW
@given(env=st.dictionaries(KEYS, TEXTS, max_size=4), number=NUMBERS)
def test_a_file_has_the_revision_that_the_cluster_would_have(
    repo: Path, helm4: Any, env: dict[str, str], number: float
) -> None:
    """-q and --queue-file record the same, whatever stands in the blocks."""
    spec = {"x": number, "y": [env, [], {}], "z": None}
    values = {"defaults": {"env": env, "podTemplate": {"spec": spec}}}
    own = queue.from_file(dump.dump(values).encode(), "q.yaml", chart_rules, "demo")
    assert revision(helm4.render(repo / "charts/queue", values=values)) == own.revision


def test_both_helms_have_the_same_revision(repo: Path, helm: Any, tmp_path: Path) -> None:
    """And so has the file."""
    path = tmp_path / "queue.yaml"
    path.write_text(QUEUE)
    own = queue.from_file(QUEUE.encode(), "q.yaml", chart_rules)
    rendered = helm.render(repo / "charts/queue", "-f", path)
    assert revision(rendered) == own.revision
    again = queue.from_file(rendered.encode(), "stream", chart_rules)
    assert own.as_dict() == again.as_dict()


PRIORITY = st.sampled_from(["low", "high", ""])
FRAGMENT = st.fixed_dictionaries(
    {},
    optional={
        "scheduling": st.fixed_dictionaries(
            {},
            optional={
                "priorityClassName": PRIORITY,
                "nodeSelector": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")),
                "tolerations": st.lists(st.just({"operator": "Exists"}), max_size=2),
            },
        ),
        "env": st.dictionaries(st.sampled_from("AB"), st.sampled_from(["1", "1e-5"])),
        "runPolicy": st.fixed_dictionaries({}, optional={"backoffLimit": st.integers(0, 3)}),
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
    },
)


@FEW
@given(layers=st.tuples(FRAGMENT, FRAGMENT, FRAGMENT, FRAGMENT), is_own=st.booleans())
def test_plain_helm_with_the_same_layers_renders_the_same(
    repo: Path,
    helm4: Any,
    tmp_path: Path,
    layers: tuple[dict[str, Any], ...],
    is_own: bool,
) -> None:
    """Preset, defaults, file and --set-json in this order, and imposed as the last --set-json.

    The preset is the queue's or the person's.
    """
    low, file, flag, high = layers
    base = {"workload": "torchrun", "command": ["a"], "image": {"repository": "x"}, "gpus": 8}
    preset = {"preset": "sites/aks" if is_own else "h100-8x"}
    own = queue.from_file(
        dump.dump({"name": "q", "defaults": low | preset, "imposed": high}).encode(),
        "q.yaml",
        chart_rules,
    )
    sources = Sources(
        ("v.yaml",),
        (*((("set-json", 'preset="h100-8x"'),) * is_own), ("set-json", json.dumps(flag))),
        {"v.yaml": json.dumps(base | file).encode()},
        queue=own,
    )
    ours = helm4.render(repo / "charts/torchrun", values=load_sources(sources).user)
    paths = []
    for name, data in (("defaults", low), ("file", base | file)):
        paths += ["-f", tmp_path / name]
        (tmp_path / name).write_text(json.dumps(data))
    ref = {"queueRef": {"name": "q", "revision": own.revision}}
    plain = helm4.render(
        repo / "charts/torchrun",
        *("-f", repo / "values/h100-8x.yaml", *paths),
        *("--set-json", json.dumps(flag)),
        *("--set-json", json.dumps(high), "--set-json", json.dumps(ref)),
    )
    assert plain == ours


def test_a_preset_of_a_queue_is_for_the_command_line(
    cli: Any, repo: Path, helm: Any, tmp_path: Path
) -> None:
    """The queue's chart keeps the name; a job's chart says what plain Helm does instead."""
    preset = QUEUE.replace("defaults:\n", "defaults:\n  preset: h100-8x\n")
    path = tmp_path / "queue.yaml"
    path.write_text(preset)
    rendered = helm.render(repo / "charts/queue", "-f", path)
    (config,) = (item for item in load.load_all(rendered) if item and item["kind"] == "ConfigMap")
    assert "h100-8x" == load.load(config["data"]["defaults.yaml"].encode(), "d").data["preset"]
    defaults = tmp_path / "defaults.yaml"
    defaults.write_text(config["data"]["defaults.yaml"])
    (tmp_path / "job.yaml").write_text(JOB)
    chart, files = repo / "charts/torchrun", ("-f", defaults, "-f", tmp_path / "job.yaml")
    words = "pass the preset's file from values/ with -f before your own and leave preset empty"
    assert words in helm.refusal(chart, *files, values={})
    named = ("-f", repo / "values/h100-8x.yaml", *files, "--set", "preset=")
    assert 'sizeLimit: "128Gi"' in helm.render(chart, *named)  # the preset's shm
    cli.write(preset, "queue.yaml")
    cli.write(JOB)
    call = ("values", "-f", "values.yaml", "--queue-file", "queue.yaml", "--explain", "preset")
    assert "queue.yaml:3" in cli(*call).stdout


def test_an_unknown_preset_is_refused_before_a_queue_is_installed(cli: Any) -> None:
    """Helm could not tell: the place and the nearest, and no cluster is asked."""
    cli.write(
        QUEUE.replace("defaults:\n", "defaults:\n  preset: [h100-8x, h10-8x]\n"), "queue.yaml"
    )
    process = cli("queue", "install", "h100", "-f", "queue.yaml", env={"KUBECONFIG": ""})
    assert 2 == process.returncode
    assert "defaults.preset: there is no preset 'h10-8x'" in process.stderr
    assert "queue.yaml:3" in process.stderr
    assert "did you mean 'h100-8x'?" in process.stderr


def test_values_shows_the_whole_result(cli: Any) -> None:
    """As YAML that helm reads back, and as JSON."""
    cli.write(QUEUE, "queue.yaml")
    values = cli.write(JOB)
    call = ("values", "-f", values, "--queue-file", "queue.yaml")
    process = cli(*call)
    assert 0 == process.returncode
    assert "gives way to 'high', which the queue imposes (queue.yaml:8)" in process.stderr
    data = json.loads(cli(*call, "-o", "json").stdout)
    assert data == load.load(process.stdout, "out").data
    assert ("high", 8) == (data["scheduling"]["priorityClassName"], data["nodeShape"]["gpus"])


def test_explain_lists_the_sources_in_their_order(cli: Any) -> None:
    """The chart, the file, the queue; the last wins."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    call = ("values", "-f", "values.yaml", "--queue-file", "queue.yaml", "--explain")
    lines = cli(*call, "scheduling.priorityClassName").stdout.splitlines()
    assert 'scheduling.priorityClassName: "high"' == lines[0]
    assert ["charts/torchrun/values.yaml", "values.yaml", "queue.yaml"] == [
        line.split(":")[0] for line in lines[3:]
    ]
    assert lines[-1].endswith("wins")
    data = json.loads(cli(*call, "image", "-o", "json").stdout)
    assert "queue.yaml:3" == data[0]["below"][0]["source"]


def test_check_says_each_rule_with_its_verdict(cli: Any) -> None:
    """0 where the queue takes the job, 2 where a rule refuses it."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    call = ("queue", "check", "-f", "values.yaml", "--queue-file", "queue.yaml")
    process = cli(*call)
    assert 0 == process.returncode
    assert "ok    maxGpusPerJob" in process.stdout
    assert "ok    maxGpusInAll" in process.stdout
    assert "queue h100 takes the job" in process.stdout
    process = cli(*call, "--set", "gpus=32", "-o", "json")
    data = json.loads(process.stdout)
    assert (2, False, ["maxGpusPerJob"]) == (
        process.returncode,
        data["ok"],
        [rule["rule"] for rule in data["rules"] if not rule["ok"]],
    )


def test_render_names_the_queue_on_its_objects(cli: Any) -> None:
    """The label on all, the revision on the controller, twice the same bytes."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    call = ("render", "demo", "-f", "values.yaml", "--queue-file", "queue.yaml")
    first, second = cli(*call).stdout, cli(*call).stdout
    assert first == second
    manifests = [item for item in load.load_all(first) if item]
    assert {"h100"} == {item["metadata"]["labels"][names.QUEUE] for item in manifests}
    own = queue.from_file(QUEUE.encode(), "q.yaml", chart_rules)
    assert own.revision == next(
        item["metadata"]["annotations"][names.QUEUE_REVISION]
        for item in manifests
        if item["kind"] == "Job"
    )


def test_a_file_without_a_name_is_called_as_it_is(cli: Any) -> None:
    """Its `name` goes first, then -q; the docs' own commands take it with neither."""
    cli.write(QUEUE.replace("name: h100\n", ""), "team.yaml")
    cli.write(JOB)
    call = ("queue", "check", "-f", "values.yaml", "--queue-file", "team.yaml")
    for flags, name in (((), "team"), (("-q", "a100"), "a100")):
        process = cli(*call, *flags)
        assert (0, f"queue {name} takes the job") == (
            process.returncode,
            process.stdout.splitlines()[-1].partition(" (")[0],
        )


WRONG_FILES = [
    ("imposed: [1]\n", "imposed: ", "team.yaml:1"),
    ("rules: {workloads: [torch]}\n", "fix: write torchrun", "team.yaml:1"),
    ("rules: {maxGpu: 8}\n", "rules.maxGpusPerJob", "team.yaml:1"),
    ("rules: {}\nimposd: {}\n", "fix: write imposed", "team.yaml:2"),
    ("rules: {}\nname: Bad!\n", "name: ", "team.yaml:2"),
]


@pytest.mark.parametrize(("text", "words", "place"), WRONG_FILES)
def test_a_file_is_held_to_the_schema_that_its_release_is(
    cli: Any, text: str, words: str, place: str
) -> None:
    """What `queue install` would refuse is refused, with its line and the nearest."""
    cli.write(text, "team.yaml")
    cli.write(JOB)
    process = cli("validate", "-f", "values.yaml", "--queue-file", "team.yaml")
    assert 2 == process.returncode
    assert words in process.stderr
    assert place in process.stderr
    installing = cli("queue", "install", "team", "-f", "team.yaml", env={"KUBECONFIG": ""})
    assert process.stderr == installing.stderr


def test_a_name_that_no_queue_can_have_is_refused_with_the_nearest(cli: Any) -> None:
    """Before a file or a cluster is looked at."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    calls = (
        (("queue", "install", "Bad!", "-f", "queue.yaml"), "'Bad!'", "`bad`"),
        (("validate", "-f", "values.yaml", "-q", "Foo bar"), "'Foo bar'", "`foo-bar`"),
    )
    for words, name, near in calls:
        process = cli(*words, env={"KUBECONFIG": ""})
        assert 2 == process.returncode
        assert f"{name} is no name of a queue" in process.stderr
        assert f"call it {near}" in process.stderr


REFUSED = [
    (["-q", "h100"], "no kubeconfig names one"),
    (["--queue-file", "none.yaml"], "there is no file none.yaml"),
    (["-q", "other", "--queue-file", "queue.yaml"], "is of queue h100, not of other"),
    (["--queue-file", "values.yaml"], "is no queue's file"),
]


@pytest.mark.parametrize(("flags", "words"), REFUSED)
def test_a_queue_that_cannot_be_read_is_an_input_error(
    cli: Any, flags: list[str], words: str
) -> None:
    """One block with a fix, and exit code 2."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    process = cli("validate", "-f", "values.yaml", *flags, env={"KUBECONFIG": ""})
    assert 2 == process.returncode
    assert words in process.stderr
    assert "fix: " in process.stderr


def test_a_sweep_cannot_vary_what_is_imposed(cli: Any) -> None:
    """The parameter is named, and nothing starts; another parameter is fine."""
    cli.write(QUEUE, "queue.yaml")
    cli.write(JOB)
    call = ("sweep", "run", "s", "torchrun", "-f", "values.yaml", "--queue-file", "queue.yaml")
    more = ("--on", "local", "--dry-run", "--metric", "loss")
    process = cli(*call, *more, "--set-range", "scheduling.priorityClassName=low,urgent")
    assert 2 == process.returncode
    assert "the queue imposes 'high'" in process.stderr
    process = cli(*call, *more, "--set-range", "env.LR=1,2")
    assert (0, True) == (process.returncode, "gives way to 'high'" in process.stderr)


def test_a_queue_is_not_for_a_foreign_chart(cli: Any) -> None:
    """Its settings would mean nothing there."""
    cli.write(QUEUE, "queue.yaml")
    (cli.cwd / "chart").mkdir()
    (cli.cwd / "chart/Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\n")
    process = cli(
        *("sweep", "run", "s", "./chart", "--queue-file", "queue.yaml", "--set-range", "a=1,2"),
        *("--on", "local", "--dry-run"),
    )
    assert 2 == process.returncode
    assert "has settings for the charts of allranks" in process.stderr


def test_a_torchrunjob_is_read_as_values(cli: Any) -> None:
    """What is changed or not carried is told, from a file and from standard input."""
    cli.write(TORCHRUN_JOB, "job.yaml")
    cli.write(QUEUE, "queue.yaml")
    for file, stdin in (("job.yaml", ""), ("-", TORCHRUN_JOB)):
        process = cli("validate", "-f", file, "--queue-file", "queue.yaml", stdin=stdin)
        assert 0 == process.returncode
        assert "2 nodes x 8 nvidia.com/gpu, 16 processes: python train.py --lr 1e-5" in (
            process.stdout
        )
        assert "spec.podOverrides.x not carried: no dialect has such a field" in process.stderr
        assert "spec.reliability.maxRestarts -> runPolicy.backoffLimit changed" in process.stderr
    cli.write(TORCHRUN_QUEUE % "h100", "tq.yaml")
    process = cli("validate", "-f", "tq.yaml")
    assert (2, True) == (process.returncode, "queue import" in process.stderr)


def test_import_keeps_the_object_that_it_reads(cli: Any) -> None:
    """A file with the name of its queue, in the folder that the values go to, stays as it is."""
    text = TORCHRUN_QUEUE % "a"
    cli.write(text, "a.yaml")
    process = cli("queue", "import", "a.yaml", "-O", ".")
    assert (2, True) == (process.returncode, "it is read here" in process.stderr)
    assert text == (cli.cwd / "a.yaml").read_text(encoding="utf-8")


def test_import_makes_values_that_the_chart_takes(cli: Any, repo: Path, helm: Any) -> None:
    """One queue is printed, several go into a folder; helm renders each."""
    cli.write(TORCHRUN_QUEUE % "a", "a.yaml")
    cli.write(TORCHRUN_QUEUE % "b", "b.yaml")
    process = cli("queue", "import", "a.yaml")
    assert 0 == process.returncode
    assert process.stdout.startswith("# Values for charts/queue, made of TorchrunQueue a: ")
    assert "changed: says what a node has" in process.stdout
    process = cli("queue", "import", "a.yaml", "b.yaml")
    assert (2, True) == (process.returncode, "name a folder with -O" in process.stderr)
    process = cli("queue", "import", "a.yaml", "b.yaml", "-O", "out")
    assert ["out/a.yaml", "out/b.yaml"] == process.stdout.split()
    for name in ("a", "b"):
        rendered = helm.render(repo / "charts/queue", "-f", cli.cwd / f"out/{name}.yaml", name=name)
        assert f"allranks-queue-{name}" in rendered
    cli.write(TORCHRUN_QUEUE % "../../evil", "evil.yaml")
    process = cli("queue", "import", "evil.yaml", "-O", "out")
    assert (2, True) == (process.returncode, "metadata.name: '../../evil' is no" in process.stderr)
    assert ["a.yaml", "b.yaml"] == sorted(path.name for path in (cli.cwd / "out").iterdir())
    data = json.loads(cli("queue", "import", "a.yaml", "-o", "json").stdout)
    assert {"carried", "changed"} == {field["outcome"] for field in data[0]["fields"]}


def test_fix_leaves_what_is_no_file_of_the_person_s(cli: Any) -> None:
    """A queue's value and a TorchrunJob's are left with the reason; the person's own is mended."""
    # The ConfigMap of a queue, which its own chart has not checked.
    metadata = {"name": "allranks-queue-h100", "labels": {names.QUEUE: "h100"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    data = {"defaults.yaml": "image: {repository: hub.example/team/train, tag: 1}\n"}
    cli.write(dump.dump(config | {"data": data}), "queue.yaml")
    cli.write(JOB.replace("gpus: 16", "gpus: '16'"))
    call = ("validate", "-f", "values.yaml", "--queue-file", "queue.yaml", "--fix", "--yes")
    process = cli(*call)
    assert "it comes from queue h100 defaults" in process.stderr + process.stdout
    assert "gpus: 16" in (cli.cwd / "values.yaml").read_text()
    cli.write(TORCHRUN_JOB.replace("numGPUs: 16", "numGPUs: '16'"), "job.yaml")
    process = cli("validate", "-f", "job.yaml", "--fix", "--yes")
    assert "job.yaml is no values file" in process.stderr + process.stdout

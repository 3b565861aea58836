"""`allranks sweep` as a person calls it: what is checked before anything runs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("forked")

HEAD = """\
workload: sweep
image: {repository: my/trainer}
command: [python, train.py]
"""
JOB = """\
workload: torchrun
image: {repository: my/trainer}
command: [python, train.py]
nodes: 1
"""
TEN_THOUSAND = "{range: {min: 1, max: 10000}, arg: -a}"
LOOSE = "a grid goes through values one by one, and a distribution has none"
NO_PATH = (
    'sweep.parameters["torchrun.prot"]: the chart\'s values have no torchrun.prot '
    "(--set-range torchrun.prot=1,2)"
)
TOO_MUCH = (
    "torchrun.port: 99999 is more than the most allowed, 65535 (--set-range torchrun.port=1,99999)"
)


def dry(cli: Any, section: str, *flags: str) -> Any:
    """Check a sweep whose section is this, and run nothing."""
    file = cli.write(f"{HEAD}sweep: {section}\n", "sweep.yaml")
    return cli("sweep", "run", "s", "-f", file.name, "--on", "local", "--dry-run", *flags)


def test_what_would_run_is_shown(cli: Any) -> None:
    """How many trials, what is tried and how it reaches them, and the first ones by name."""
    process = dry(cli, "{parameters: {lr: {values: [1e-5, 0.10], arg: --lr}}, parallel: 1}")
    assert (0, "") == (process.returncode, process.stderr)
    assert process.stdout.splitlines() == [
        "s  2 trials, none was started",
        "search  grid, 2 trials, 1 at a time",
        "lr      1e-5, 0.10 (argument --lr)",
        "",
        "TRIAL         lr",
        "s-353eb74b  1e-5",
        "s-e984e00c  0.10",
    ]
    assert ["sweep.yaml"] == list(cli.tree())


def test_the_same_as_json(cli: Any) -> None:
    """Parameters are the text that the trials get."""
    process = dry(cli, "{parameters: {lr: {values: [1e-5], arg: --lr}}}", "-o", "json")
    assert {
        "sweep": "s",
        "search": "grid",
        "trials": 1,
        "parallel": 1,
        "first": [{"name": "s-353eb74b", "parameters": {"lr": "1e-5"}}],
    } == json.loads(process.stdout)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "{parameters: {lr: {values: [], arg: --lr}}}",
            "sweep.parameters.lr.values: is empty, not a list of texts, numbers, true and false",
        ),
        (
            "{parameters: {size: {range: {min: 5, max: 1}, arg: -n}}}",
            "sweep.parameters.size.range: min is 5, above max, which is 1",
        ),
        (
            "{search: random, trials: 3, parameters: {x: {logUniform: {min: -1, max: 1}, env: X}}}",
            "sweep.parameters.x.logUniform.min: a logarithmic range must be above 0, and -1 is not",
        ),
        (
            "{parameters: {lr: {values: [1, 2]}}}",
            "sweep.parameters.lr: lr reaches nothing: no trial would differ by it",
        ),
        (
            "{trial: {workload: torchrun}, parameters: {p: {values: [1], path: torchrun.prot}}}",
            "sweep.parameters.p.path: the chart's values have no torchrun.prot",
        ),
        (
            "{trials: 9, parameters: {lr: {values: [1, 2], arg: --lr}}}",
            "sweep.trials: 9 trials are asked for, and there are only 2 combinations",
        ),
        (
            f"{{parameters: {{a: {TEN_THOUSAND}, b: {{range: {{min: 1, max: 1000}}, arg: -b}}}}}}",
            "sweep.trials: the grid has 10,000,000 trials",
        ),
        (
            "{parameters: {m: {uniform: {min: 0, max: 1}, arg: -m}}}",
            f"sweep.parameters.m: {LOOSE}",
        ),
        (
            "{search: tpe, trials: 5, parameters: {m: {uniform: {min: 0, max: 1}, arg: -m}}}",
            "sweep.objective.metric: search: tpe needs a metric to compare trials by",
        ),
        ("{}", "sweep.parameters: a sweep needs parameters"),
        (
            '{parameters: {lr: {values: [1, 2], arg: ""}}}',
            'sweep.parameters.lr.arg: "" is not a word such as --lr',
        ),
        (
            "{parameters: {lr: {values: 3, arg: --lr}}}",
            (
                "sweep.parameters.lr.values: 3 is a number, not a list of texts, numbers, true and "
                "false"
            ),
        ),
        (
            "{parameters: {p: {range: {min: 1, max: 2, step: 0}, arg: -p}}}",
            "sweep.parameters.p.range.step: 0 is not a number over 0",
        ),
    ],
)
def test_what_cannot_be_swept_is_refused(cli: Any, section: str, message: str) -> None:
    """With the place and a fix, exit code 2, at once, and with nothing begun."""
    process = dry(cli, section)
    assert (2, "") == (process.returncode, process.stdout)
    problem, fix = process.stderr.splitlines()
    assert f"error: {message} (sweep.yaml:4)" == problem
    assert fix.startswith("  fix: ")
    assert ["sweep.yaml"] == list(cli.tree())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set-range", "lr"], "--set-range takes name=values (--set-range lr)"),
        (["--set-range", "lr="], "lr.values: the list is empty (--set-range lr=)"),
        (
            ["--set-range", "n=5..1"],
            "n.range: min is 5, above max, which is 1 (--set-range n=5..1)",
        ),
        (["--set-range", "a=1", "--set-range", "a=2"], "a is given by two flags"),
        (["--over", "x"], "--over takes name=files (--over x)"),
        (["--over", "x=no.yaml"], "there is no file no.yaml"),
        (["--over", "x=no*.yaml"], "no file is called like no*.yaml (--over x=no*.yaml)"),
        (
            ["--set-range", "lr=1,2", "--trials", "3"],
            "sweep.trials: 3 trials are asked for, and there are only 2 combinations (--trials 3)",
        ),
        (
            ["--set-range", "lr=1,2", "--goal", "1"],
            "sweep.objective.goal: a goal needs a metric (--goal 1.0)",
        ),
        (
            ["--set-range", "torchrun.port=1,99999"],
            TOO_MUCH,
        ),
        (["--set-range", "torchrun.prot=1,2"], NO_PATH),
        (["--trials", "0"], "--trials: 0 is less than 1"),
    ],
)
def test_flags_that_cannot_be_are_refused(cli: Any, flags: list[str], message: str) -> None:
    """The flag itself is named."""
    file = cli.write(JOB)
    process = cli("sweep", "run", "s", "torchrun", "-f", file, "--on", "local", "--dry-run", *flags)
    assert (2, "") == (process.returncode, process.stdout)
    assert f"error: {message}" == process.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "earlyStopping: {minSteps: 2, warmupTrials: 4}",
            (
                "sweep.earlyStopping: without a kind (successiveHalving or median) minSteps and "
                "warmupTrials have no effect"
            ),
        ),
        (
            "objective: {direction: minimize}",
            "sweep.objective.direction has no effect without a metric",
        ),
        (
            "metrics: {regex: 'a=(?P<a>.*)'}",
            "sweep.metrics.regex has no effect without sweep.objective.metric",
        ),
    ],
)
def test_a_setting_without_effect_is_said(cli: Any, section: str, message: str) -> None:
    """It is no mistake, as a flag may turn off what a file sets up."""
    process = dry(cli, f"{{parameters: {{lr: {{values: [1, 2], arg: --lr}}}}, {section}}}")
    assert 0 == process.returncode
    assert message in " ".join(process.stderr.split())


def test_choices_that_may_be_meant_otherwise_are_said(cli: Any) -> None:
    """An empty one, and two ends that are no numbers."""
    file = cli.write(JOB)
    flags = ["--set-range", "x=1,,2", "--set-range", "y=a..b,c"]
    process = cli("sweep", "run", "s", "torchrun", "-f", file, "--on", "local", "--dry-run", *flags)
    assert 0 == process.returncode
    notes = " ".join(process.stderr.split())
    assert "x: choice 2 is the empty text" in notes
    assert "y: a..b is taken as one text; a range has two numbers, as in 1..10" in notes


def test_a_range_may_be_an_item_of_a_list(cli: Any) -> None:
    """`args[1]` is a value of the chart."""
    file = cli.write(JOB + "args: [--lr, '1', --fast]\n")
    flags = ["--parallel", "2", "--set-range", "args[1]=0.01,0.02"]
    process = cli("sweep", "run", "s", "torchrun", "-f", file, "--on", "local", "--dry-run", *flags)
    assert (0, "") == (process.returncode, process.stderr)
    assert "args[1]  0.01, 0.02 (values args[1])" in process.stdout
    flags = ["--set-range", "args[7]=0.01,0.02"]
    process = cli("sweep", "run", "s", "torchrun", "-f", file, "--on", "local", "--dry-run", *flags)
    assert (2, 'error: sweep.parameters["args[7]"]: the chart\'s values have no args[7]') == (
        process.returncode,
        process.stderr.split(" (")[0].splitlines()[0],
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["s", "nothing"], "there is no chart 'nothing'"),
        (["s", "./not/there"], "there is no chart './not/there'"),
        (["s", "values.yaml"], "values.yaml is a values file, and no chart"),
        (["s"], "workload: the values are for the workload torchrun, not for a sweep"),
        (["Bad_Name", "torchrun"], "'Bad_Name' is no name of a sweep: its trials could not be"),
        (["s" * 41, "torchrun"], "the sweep's name is 41 characters long"),
        (["s", "torchrun", "--workdir", "nowhere"], "--workdir: 'nowhere' is not a folder"),
        (["s", "torchrun", "--context", "c"], "--context: is for a cluster"),
    ],
)
def test_what_is_named_wrongly_is_refused(cli: Any, words: list[str], message: str) -> None:
    """The sweep, its chart, its place: each with what is wrong."""
    cli.write(JOB)
    flags = ["-f", "values.yaml", "--set-range", "lr=1,2", "--on", "local"]
    process = cli("sweep", "run", *words, *flags)
    assert 2 == process.returncode
    assert f"error: {message}" in process.stderr
    assert ["values.yaml"] == list(cli.tree())


def test_errors_are_json_where_that_is_asked_for(cli: Any) -> None:
    """Every problem at once, with its place."""
    process = dry(
        cli, "{trials: 9, parameters: {a: {values: [], arg: -a}, b: {values: []}}}", "-o", "json"
    )
    report = json.loads(process.stdout)
    assert (2, 2, False) == (process.returncode, report["exitCode"], report["ok"])
    assert ["sweep.parameters.a.values", "sweep.parameters.b.values"] == [
        problem["path"] for problem in report["problems"]
    ]


def test_a_range_on_the_command_line_is_a_path_or_an_option(cli: Any) -> None:
    """A value of the chart is set; anything else is an option of the command, and that is said."""
    file = cli.write(JOB)
    ranges = ["--set-range", "torchrun.maxRestarts=0,3", "--set-range", "lr=1e-5,1e-4"]
    flags = ["--on", "local", "--dry-run", "--parallel", "4"]
    process = cli("sweep", "run", "s", "torchrun", "-f", file, *ranges, *flags)
    assert process.returncode == 0, process.stderr
    assert (
        "note: lr is no values path of the chart; the command gets it as --lr\n" == process.stderr
    )
    assert "torchrun.maxRestarts  0, 3 (values torchrun.maxRestarts)" in process.stdout
    assert "lr                    1e-5, 1e-4 (argument --lr)" in process.stdout


@pytest.mark.parametrize(
    ("cores", "trials"), [(1, "1 trial runs"), (2, "2 trials run")], ids=["one", "two"]
)
def test_as_many_trials_as_cores_run_on_this_machine(cli: Any, cores: int, trials: str) -> None:
    """Where nothing says how many; the cores are those this process may use, not all there are."""
    file = cli.write(JOB)
    flags = ["--set-range", "lr=1,2,3", "--on", "local", "--dry-run", "-o", "json"]
    before = os.sched_getaffinity(0)
    if cores > len(before):
        cores, trials = 1, "1 trial runs"
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        process = cli("sweep", "run", "s", "torchrun", "-f", file, *flags)
    finally:
        os.sched_setaffinity(0, before)
    assert cores == json.loads(process.stdout)["parallel"]
    assert f"note: {trials} at a time; sweep.parallel says how many" in process.stderr.splitlines()


def test_sweeping_over_values_files(cli: Any) -> None:
    """Each file, and each item of a list in a file, is a choice that is laid over the values."""
    cli.write(JOB)
    cli.write("- torchrun: {maxRestarts: 0}\n- torchrun: {maxRestarts: 3}\n", "restarts.yaml")
    cli.write("env: {SIZE: small}\n", "small.yaml")
    cli.write("env: {SIZE: large}\n", "large.yaml")
    overs = ["--over", "restarts=restarts.yaml", "--over", "model=small.yaml,large.yaml"]
    flags = ["-f", "values.yaml", "--on", "local", "--dry-run", "-o", "json"]
    process = cli("sweep", "run", "s", "torchrun", *flags, *overs)
    assert process.returncode == 0, process.stderr
    assert [
        {"restarts": f"restarts[{at}]", "model": size}
        for size in ("small", "large")
        for at in (0, 1)
    ] == [trial["parameters"] for trial in json.loads(process.stdout)["first"]]


@pytest.mark.parametrize("verb", ["status", "results", "stop", "resume", "delete"])
def test_a_sweep_that_is_not_there(cli: Any, verb: str) -> None:
    """Is wrong input for every command, and nothing is made."""
    process = cli("sweep", verb, "nope")
    assert (2, "") == (process.returncode, process.stdout)
    assert process.stderr == (
        "error: there is no sweep 'nope'\n  fix: `allranks sweep status` lists them\n"
    )
    assert {} == cli.tree()


def test_there_are_no_sweeps_at_first(cli: Any) -> None:
    """An empty list is well."""
    process = cli("sweep", "status")
    assert (0, "", "note: there are no sweeps\n") == (
        process.returncode,
        process.stdout,
        process.stderr,
    )
    assert "[]\n" == cli("sweep", "status", "-o", "json").stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--best", "--trial", "1"], "--best and --trial exclude each other"),
        (["--best", "--values", "--manifest"], "--values and --manifest exclude each other"),
        (["--values"], "--values is of one trial"),
        (["--manifest"], "--manifest is of one trial"),
        (["-o", "yaml"], "-o yaml is of one trial"),
        (["--best", "-o", "csv"], "-o csv is of all trials"),
        (["--best", "--top", "3"], "--top: is for the table of all trials"),
        (["--top", "0"], "--top: 0 is less than 1"),
    ],
)
def test_flags_of_results_that_do_not_fit(cli: Any, flags: list[str], message: str) -> None:
    """Are refused before the sweep is looked for."""
    process = cli("sweep", "results", "nope", *flags)
    assert 2 == process.returncode
    assert f"error: {message}" == process.stderr.splitlines()[0]


@pytest.mark.parametrize("verb", ["", "run", "status", "results", "stop", "resume", "delete"])
def test_help(cli: Any, verb: str) -> None:
    """Each command says what it does, with an example."""
    process = cli("sweep", *verb.split(), "--help")
    assert (0, "") == (process.returncode, process.stderr)
    assert "Example:\n" in process.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("allranks sw", "plain,sweep"),
        ("allranks sweep res", "plain,results"),
        ("allranks sweep run s --set-r", "plain,--set-range"),
        ("allranks sweep results -o y", "plain,yaml"),
        ("allranks sweep run s tor", "plain,torchrun"),
        ("allranks sweep run s ./ch", "file,./ch"),
    ],
)
def test_completion(cli: Any, words: str, expected: str) -> None:
    """Commands, options and choices are completed."""
    count = len(words.split()) - 1
    env = {"_ALLRANKS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    assert expected in cli(env=env).stdout.splitlines()


def test_names_of_sweeps_are_completed(cli: Any, tmp_path: Path) -> None:
    """Those whose journals stand in the state folder."""
    for name in ("digits", "dense", "other"):
        folder = tmp_path / "state" / "sweeps" / name
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").touch()
    env = {
        "_ALLRANKS_COMPLETE": "bash_complete",
        "COMP_WORDS": "allranks sweep results d",
        "COMP_CWORD": "3",
        "ALLRANKS_STATE": str(tmp_path / "state"),
    }
    assert ["plain,dense", "plain,digits"] == cli(env=env).stdout.splitlines()


def test_a_chart_that_is_not_ours(cli: Any) -> None:
    """Its values are set by their paths; what it has no place for is refused with the nearest."""
    (cli.cwd / "chart" / "templates").mkdir(parents=True)
    cli.write("apiVersion: v2\nname: other\nversion: 0.1.0\n", "chart/Chart.yaml")
    cli.write("learning: {rate: 0.1}\n", "chart/values.yaml")
    cli.write(_JOB, "chart/templates/job.yaml")
    call = ("sweep", "run", "s", "./chart", "--on", "local", "--dry-run", "--set-range")
    process = cli(*call, "learning.rate=1e-5,1e-4")
    assert process.returncode == 0, process.stderr
    assert "learning.rate  1e-5, 1e-4 (values learning.rate)" in process.stdout
    process = cli(*call, "learning.rat=1,2")
    assert 2 == process.returncode
    assert (
        "the chart's values have no learning.rat (--set-range learning.rat=1,2)" in process.stderr
    )
    assert "  fix: did you mean learning.rate?" in process.stderr


_DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
_HOOK = """\
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {helm.sh/hook: pre-install}}
"""
_JOB = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: it}\n"


def test_a_chart_without_a_job_is_refused(cli: Any) -> None:
    """Before anything runs: also where its only Job is a hook; one that a choice makes will do."""
    (cli.cwd / "chart" / "templates").mkdir(parents=True)
    cli.write("apiVersion: v2\nname: foo\nversion: 0.1.0\n", "chart/Chart.yaml")
    cli.write("replicas: 1\n", "chart/values.yaml")
    for text, code in (
        (_DEPLOYMENT, 2),
        (_HOOK, 2),
        ("{{- if gt (int .Values.replicas) 1 }}\n" + _JOB + "{{- end }}\n", 0),
        (_JOB, 0),
        ("{{ fail .Values.replicas }}", 0),
    ):
        cli.write(text, "chart/templates/all.yaml")
        words = ("--set-range", "replicas=1,2", "--on", "local", "--dry-run")
        process = cli("sweep", "run", "sizes", "./chart", *words)
        assert code == process.returncode, process.stderr
        assert ("makes no Job" in process.stderr) == (code != 0)


def test_a_chart_that_cannot_be_fetched(cli: Any) -> None:
    """Is not a cluster that does not answer."""
    chart = "https://127.0.0.1:1/chart.tgz"
    process = cli("sweep", "run", "s", chart, "--set-range", "lr=1,2", "--on", "local")
    assert 1 == process.returncode
    assert f"error: the chart {chart} cannot be fetched: Get " in process.stderr
    assert "cluster" not in process.stderr


def test_what_a_sweep_of_releases_does_otherwise_is_said(cli: Any) -> None:
    """A volume is each trial's own, unless it is one that is there; TensorBoard is not made."""
    section = "{parameters: {lr: {values: [1, 2], arg: --lr}}, parallel: 1}"
    assert "" == dry(cli, section, "--set", "storage.workspace.existingClaim=runs").stderr
    share = json.dumps({"shareName": "runs", "storageAccount": "training"})
    setting = f"storage.workspace.azureFile={share}"
    assert "" == dry(cli, section, "--set-json", setting).stderr
    sizes = ("storage.workspace.size=1Gi", "storage.checkpoints.size=1Gi")
    flags = [
        word
        for setting in (*sizes, "sweep.tensorboard.enabled=true")
        for word in ("--set", setting)
    ]
    board, note, other = sorted(dry(cli, section, *flags).stderr.split("note: ")[1:], reverse=True)
    assert board.startswith("sweep.tensorboard is made by plain Helm alone")
    assert note.startswith("storage.workspace: each trial has a volume of its own, which goes when")
    assert other.startswith("storage.checkpoints: each trial has a volume of its own, which stays")

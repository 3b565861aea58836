"""`allranks convert`: files in, values out, a report, and an exit code that says what was lost."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert import original
from allranks.convert.documents.document import documents_of
from allranks.yamlio.load import load_objects

if TYPE_CHECKING:
    from allranks.convert.documents.document import Document

pytestmark = pytest.mark.usefixtures("forked")

DATA = Path(__file__).parents[2] / "data/convert"
PLAIN = """\
# a job of ours
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: plain, namespace: research}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: "x:1", command: [python, t.py]}]}}
"""
# Of workers alone the operator tells none of the others, and here they are ranks of one training.
RANKS_HERE_ALONE = "node: RANK, WORLD_SIZE and MASTER_ADDR: nothing there, those of each rank here"
LOSSY = PLAIN.replace("replicas: 2", "replicas: 2\n      unheardOf: 1")


def test_a_job_from_standard_input(cli: Any) -> None:
    """The values come on standard output, with the place of each, and pass every check."""
    process = cli("convert", "-", stdin=PLAIN)
    assert 0 == process.returncode
    assert "nodes: 2 # stdin:8: spec.pytorchReplicaSpecs.Worker.replicas" in process.stdout
    cli.write(process.stdout)
    assert 0 == cli("validate", "plain", "-f", "values.yaml").returncode


def test_what_is_lost_is_an_exit_code(cli: Any) -> None:
    """3 says that something is not carried, with its line; --lossy takes that as it is."""
    cli.write(LOSSY)
    process = cli("convert", "values.yaml", "-o", "out.yaml")
    assert 3 == process.returncode
    assert "values.yaml:9: spec.pytorchReplicaSpecs.Worker.unheardOf not carried" in process.stderr
    assert "# values.yaml:9: spec.pytorchReplicaSpecs.Worker.unheardOf" in (
        cli.cwd / "out.yaml"
    ).read_text(encoding="utf-8")
    assert 0 == cli("convert", "values.yaml", "-o", "out.yaml", "--lossy").returncode


WRONG = [
    ("kind: Pod\napiVersion: v1\n", "only: Pod"),
    ("", "no object"),
    ("a: [", "values.yaml:"),
    (PLAIN.replace("kubeflow.org/v1", "example.org/v1"), "correct the apiVersion"),
    ("apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x}\n", "no Ray cluster"),
    (
        "apiVersion: elastic.pytorch.org/v1alpha1\nkind: ElasticJob\nmetadata: {name: x}\n",
        "elasticPolicy of a PyTorchJob",
    ),
    (PLAIN.replace(", command: [python, t.py]", ""), "--entrypoint"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_what_is_no_job(cli: Any, text: str, says: str) -> None:
    """It is refused with 2, in words that say what to do, and nothing is written."""
    cli.write(text)
    process = cli("convert", "values.yaml", "-o", "out.yaml")
    assert (2, "") == (process.returncode, process.stdout)
    assert says in process.stderr
    assert not (cli.cwd / "out.yaml").exists()


@pytest.mark.parametrize(("source", "target"), [("a.yaml", "a.yaml"), ("plain.yaml", "./")])
def test_a_file_that_is_read_is_not_replaced(cli: Any, source: str, target: str) -> None:
    """Neither one that is named twice, nor one that has the name of its job in the folder."""
    (cli.cwd / source).write_text(PLAIN, encoding="utf-8")
    process = cli("convert", source, "-o", target)
    assert (2, True) == (process.returncode, "it is read here" in process.stderr)
    assert PLAIN == (cli.cwd / source).read_text(encoding="utf-8")


EMPTY_QUEUE = """\
apiVersion: torchrun.ai/v1
kind: JobQueue
metadata: {name: h100}
spec: {}
"""


@pytest.mark.parametrize("is_empty", [False, True])
def test_the_values_of_a_queue_pass_every_check(cli: Any, is_empty: bool) -> None:
    """`validate` takes them as those of charts/queue, with the queue's name or none."""
    text = (DATA / "torchrunjob.yaml").read_text(encoding="utf-8").partition("---\n")[2]
    cli.write(EMPTY_QUEUE if is_empty else text, "queue.yaml")
    assert 0 == cli("convert", "queue.yaml", "-o", "values.yaml").returncode
    for name in ("h100", ""):
        process = cli("validate", *filter(None, [name]), "-f", "values.yaml")
        says = "ok  values of a queue, for `allranks queue install`\n"
        assert (0, says) == (process.returncode, process.stdout)
    process = cli("validate", "-f", "values.yaml", "-o", "json")
    assert "queue" == json.loads(process.stdout)["chart"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["other"], "name: is 'h100', and the queue is called 'other' here"),
        (["--set", "rules.unheardOf=1"], "rules.unheardOf: unknown key (--set rules.unheardOf=1)"),
        (["--fix"], "--fix and --diff mend the values of a job, and these are a queue's"),
    ],
)
def test_wrong_values_of_a_queue(cli: Any, words: list[str], says: str) -> None:
    """They are refused for what is wrong with them, and not for the workload that a job has."""
    cli.write("name: h100\nrules: {maxGpusPerJob: 8}\n")
    process = cli("validate", *words, "-f", "values.yaml")
    assert 2 == process.returncode
    assert process.stderr.startswith(f"error: {says}")


def test_a_link_is_followed(cli: Any) -> None:
    """The file behind it is written, as by every command; a folder in the way is named."""
    (cli.cwd / "linked.yaml").symlink_to("target.yaml")
    cli.write(PLAIN)
    assert 0 == cli("convert", "values.yaml", "-o", "linked.yaml").returncode
    assert (cli.cwd / "linked.yaml").is_symlink()
    assert "nodes: 2" in (cli.cwd / "target.yaml").read_text(encoding="utf-8")
    (cli.cwd / "file").write_text("", encoding="utf-8")
    process = cli("convert", "values.yaml", "-o", "file/in/")
    assert (2, True) == (process.returncode, "cannot be made" in process.stderr)


def test_many_jobs_are_a_folder(cli: Any) -> None:
    """Each job has a file of its name, a second of that name one with its namespace."""
    cli.write(f"{PLAIN}---\n{PLAIN.replace('research', 'other')}")
    assert 0 == cli("convert", "values.yaml", "-o", "out").returncode
    assert ["other-plain.yaml", "plain.yaml"] == sorted(
        path.name for path in (cli.cwd / "out").iterdir()
    )


@pytest.mark.parametrize(
    ("target", "is_folder"),
    [("out.yaml", False), ("out.yml", False), ("out.yaml/", True), ("out", True), ("v1.2", True)],
)
def test_many_jobs_are_no_file(cli: Any, target: str, is_folder: bool) -> None:
    """A target that is named like a file is refused, and made a folder with a / behind it."""
    cli.write(f"{PLAIN}---\n{PLAIN.replace('name: plain', 'name: other')}")
    process = cli("convert", "values.yaml", "-o", target)
    assert (0 if is_folder else 2) == process.returncode
    assert is_folder == (cli.cwd / target).is_dir()
    if not is_folder:
        assert f"{target} is named like a file, and there are 2 jobs" in process.stderr
        assert "fix: name a folder, as in -o out/" in process.stderr


def test_the_namespace_to_start_in_is_said(cli: Any) -> None:
    """Values name none: the report has the chosen one, or the object's own where none is."""
    cli.write("#!/bin/bash\n#SBATCH --nodes=1\nsrun python train.py\n", "train.sbatch")
    cli.write(PLAIN)
    says = "values name no namespace: start it with `-n {}`{}\n"
    for name in ("values.yaml", "train.sbatch"):
        process = cli("convert", name, "-n", "other", "-o", "out.yaml")
        assert says.format("other", "") in process.stderr
        assert says.format("other", "")[:-1] in (cli.cwd / "out.yaml").read_text(encoding="utf-8")
    process = cli("convert", "values.yaml")
    assert says.format("research", ", where it was") in process.stderr


def test_the_report_as_data(cli: Any) -> None:
    """The form json has the values, every field, and the objects beside the job; none names c."""
    cli.write(f"{PLAIN}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n")
    report = json.loads(cli("convert", "values.yaml", "--report", "json").stdout)
    assert (True, "plain", "ConfigMap", False) == (
        report["ok"],
        report["jobs"][0]["name"],
        report["beside"][0]["kind"],
        report["beside"][0]["needed"],
    )
    table = cli("convert", "values.yaml", "--report", "md", "-o", "out.yaml").stderr
    assert table.startswith("## PyTorchJob ")
    assert "| `metadata.name` | carried | `NAME, the release` |  | 4 |" in table


@pytest.mark.attack
@pytest.mark.parametrize("report", ["text", "md"])
def test_no_text_of_an_object_is_a_line_of_the_report(cli: Any, report: str) -> None:
    """A key with a line end, or a control sequence, forges no verdict and moves no cursor."""
    labels = '{"k\\nnote: forged": "v\\e[1A\\n| forged", a/b/c: x}'
    cli.write(PLAIN.replace("namespace: research", f"labels: {labels}"))
    process = cli("convert", "values.yaml", "-o", "out.yaml", "--report", report)
    assert "forged" in process.stderr
    assert "\x1b" not in process.stderr
    starts = [line.partition("forged")[0] for line in process.stderr.splitlines()]
    assert not {"note: ", "| "} & set(starts)


@pytest.mark.attack
@pytest.mark.parametrize("report", ["text", "md"])
def test_no_text_of_an_object_is_a_line_of_a_comparison(cli: Any, report: str) -> None:
    """A variable's lines stay in the difference that they are about."""
    cli.write(PLAIN.replace("[python, t.py]}", "[python, t.py], env: [{name: A, value: b}]}"))
    assert 0 == cli("convert", "values.yaml", "-o", "out.yaml").returncode
    forged = '"b\\e[1A\\nPyTorchJob plain, 2 pods: no difference | x"'
    cli.write(
        PLAIN.replace("[python, t.py]}", f"[python, t.py], env: [{{name: A, value: {forged}}}]}}")
    )
    process = cli("convert", "--check", "out.yaml", "values.yaml", "--report", report)
    assert "env A" in process.stdout
    assert "\x1b" not in process.stdout
    assert "PyTorchJob plain, 2 pods: no difference" not in process.stdout.splitlines()
    rows = [line for line in process.stdout.splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)


def test_a_refusal_is_data_where_the_report_is(cli: Any) -> None:
    """With --report json each problem is JSON on standard output, and standard error is empty."""
    cli.write(PLAIN.replace(", command: [python, t.py]", ""))
    process = cli("convert", "values.yaml", "--report", "json")
    assert (2, "") == (process.returncode, process.stderr)
    data = json.loads(process.stdout)
    assert {"ok": False, "exitCode": 2} == {key: data[key] for key in ("ok", "exitCode")}
    [problem] = data["problems"]
    assert {"path", "message", "hint", "source"} == set(problem)
    assert "values.yaml:9" == problem["source"]


def test_a_changed_value_is_a_difference(cli: Any) -> None:
    """--check finds what the values have otherwise than the job's own pods, and exits with 3."""
    (cli.cwd / "job.yaml").write_text(PLAIN, encoding="utf-8")
    cli("convert", "job.yaml", "-o", "values.yaml")
    # Of several jobs it is the one that the values say they were made of.
    (cli.cwd / "job.yaml").write_text(
        f"{PLAIN}---\n{PLAIN.replace('name: plain', 'name: other')}", encoding="utf-8"
    )
    process = cli("convert", "--check", "values.yaml", "job.yaml")
    assert (3, [RANKS_HERE_ALONE, "PyTorchJob plain, 2 pods: 1 difference"]) == (
        process.returncode,
        process.stdout.splitlines(),
    )
    cli.write(
        (cli.cwd / "values.yaml")
        .read_text(encoding="utf-8")
        .replace("t.py", "u.py")
        .replace("nodes: 2", "nodes: 3")
    )
    process = cli("convert", "--check", "values.yaml", "job.yaml")
    assert (
        3,
        [
            "node: pods: 2 there, 3 here",
            RANKS_HERE_ALONE,
            "node: command: python t.py there, python u.py here",
            "PyTorchJob plain, 2 pods: 3 differences",
        ],
    ) == (process.returncode, process.stdout.splitlines())


NAMING = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: gpt}
spec:
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [
      {name: l, image: "x:1", command: [mpirun, -x, ADDR=gpt-worker-0, ./a]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: "x:1"}]}}}
"""


def test_what_convert_loses_is_said_where_the_pods_are_the_same(cli: Any) -> None:
    """Unless a person has mended it in the values; --lossy takes it as it is."""
    (cli.cwd / "job.yaml").write_text(NAMING, encoding="utf-8")
    assert 3 == cli("convert", "job.yaml", "-o", "values.yaml").returncode
    check = ("convert", "--check", "values.yaml", "job.yaml")
    process = cli(*check)
    loss, count = process.stdout.splitlines()
    assert 3 == process.returncode
    assert ".command[2]: not carried by convert: gpt-worker-0 is no name here" in loss
    assert "MPIJob gpt, 3 pods: no difference, and 1 field not carried by convert" == count
    assert 0 == cli(*check, "--lossy").returncode
    report = json.loads(cli(*check, "--report", "json").stdout)
    assert (False, [], 1) == (report["ok"], report["differences"], len(report["losses"]))
    assert "\n\n- job.yaml:7: " in cli(*check, "--report", "md").stdout
    values = (cli.cwd / "values.yaml").read_text(encoding="utf-8")
    cli.write(values.replace("gpt-worker-0", "$(hostname)"))
    process = cli(*check)
    assert [" difference"] == [line[-11:] for line in process.stdout.splitlines()[1:]]
    assert process.stdout.startswith("launcher: command: ")


def test_an_object_that_convert_refuses_is_compared_all_the_same(cli: Any) -> None:
    """What a conversion would lose is not known then, which is said."""
    text = PLAIN.replace("[python, t.py]}", "[python, t.py], env: [{name: A, value: b}]}")
    cli.write(text)
    assert 0 == cli("convert", "values.yaml", "-o", "out.yaml").returncode
    cli.write(text.replace("image: x:1", "image: x:{{ tag }}").replace('"x:1"', '"x:{{ tag }}"'))
    process = cli("convert", "--check", "out.yaml", "values.yaml")
    assert (
        "note: what a conversion loses is not known: convert does not take it: " in process.stderr
    )


def test_another_setup_is_a_difference(cli: Any) -> None:
    """What stands before torchrun in a script is the setup of the values."""
    script = '["bash", "-c", "pip install a\\ntorchrun --nnodes=2 t.py"]'
    (cli.cwd / "job.yaml").write_text(PLAIN.replace("[python, t.py]", script), encoding="utf-8")
    cli("convert", "job.yaml", "-o", "values.yaml")
    assert 0 == cli("convert", "--check", "values.yaml", "job.yaml").returncode
    values = (cli.cwd / "values.yaml").read_text(encoding="utf-8")
    cli.write(values.replace("pip install a", "pip install b"))
    process = cli("convert", "--check", "values.yaml", "job.yaml")
    assert 3 == process.returncode
    assert process.stdout.startswith("setup: ")


def test_a_job_is_found_among_others_by_the_name_of_its_release(cli: Any) -> None:
    """Values name their job as the release is called: after a generateName, or a name of others."""
    jobs = [PLAIN.replace("name: plain", name) for name in ("generateName: a-", "name: b.c")]
    (cli.cwd / "job.yaml").write_text("---\n".join(jobs), encoding="utf-8")
    cli("convert", "job.yaml", "-o", "all/")
    for name in ("a", "b-c"):
        process = cli("convert", "--check", f"all/{name}.yaml", "job.yaml")
        assert RANKS_HERE_ALONE == process.stdout.splitlines()[0], process.stderr
        assert "2 pods: 1 difference" in process.stdout


@pytest.mark.parametrize("name", ["experiment.yaml", "optimizationjob.yaml"])
def test_a_trial_of_a_search_is_compared(cli: Any, name: str) -> None:
    """--check compares the pods of a trial, and says that the search itself is none of them."""
    text = OPTIMIZATION if name == "optimizationjob.yaml" else EXPERIMENT
    (cli.cwd / name).write_text(text, encoding="utf-8")
    assert 0 == cli("convert", name, "-o", "values.yaml").returncode
    process = cli("convert", "--check", "values.yaml", name)
    assert 0 == process.returncode, process.stdout + process.stderr
    assert "no difference" in process.stdout
    assert "is no part of a pod" in process.stderr
    values = (cli.cwd / "values.yaml").read_text(encoding="utf-8")
    cli.write(values.replace("--lr=", "--rate="))
    process = cli("convert", "--check", "values.yaml", name)
    assert 3 == process.returncode
    assert "--lr=parameter-lr" in process.stdout.splitlines()[0]


EXPERIMENT = """\
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: search}
spec:
  objective: {type: minimize, objectiveMetricName: loss}
  algorithm: {algorithmName: random}
  maxTrialCount: 4
  parameters:
  - {name: lr, parameterType: double, feasibleSpace: {min: "0.1", max: "0.9"}}
  trialTemplate:
    primaryContainerName: pytorch
    trialParameters: [{name: rate, reference: lr}]
    trialSpec:
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      spec:
        pytorchReplicaSpecs:
          Worker:
            replicas: 2
            template: {spec: {containers: [{name: pytorch, image: "x:1", command: [
              torchrun, t.py, "--lr=${trialParameters.rate}"]}]}}
"""
OPTIMIZATION = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: OptimizationJob
metadata: {name: search}
spec:
  objectives: [{metric: loss}]
  numTrials: 2
  parameters:
  - {name: lr, searchSpace: {categorical: {choices: ["1", "2"]}}}
  trainJobTemplate:
    spec:
      runtimeRef: {name: torch-distributed}
      trainer: {image: "x:1", numNodes: 2, command: [torchrun, t.py, "--lr={{ .lr }}"]}
"""


def test_the_job_of_a_chart_is_compared(cli: Any) -> None:
    """A folder that is a chart is rendered for --check as it is for a conversion."""
    templates = cli.cwd / "chart" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "Chart.yaml").write_text("{apiVersion: v2, name: job, version: 0.1.0}\n")
    job = PLAIN.replace("replicas: 2", "replicas: {{ .Values.pods }}")
    (templates / "job.yaml").write_text(job, encoding="utf-8")
    pods = ("--chart-set", "pods=3")
    assert 0 == cli("convert", "chart", *pods, "-o", "values.yaml").returncode
    process = cli("convert", "--check", "values.yaml", "chart", *pods)
    assert [
        RANKS_HERE_ALONE,
        "PyTorchJob plain, 3 pods: 1 difference",
    ] == process.stdout.splitlines()
    other = cli("convert", "--check", "values.yaml", "chart", "--chart-set", "pods=4")
    assert "node: pods: 4 there, 3 here" == other.stdout.splitlines()[0]


# What a converted sample has otherwise than the pods of its own controller, and why that is so.
DIFFERENCES = {
    # A launcher with ranks has the GPUs of a host; its own template asked for none, and all pods of
    # a job have the scheduler that its workers have.
    "pi": [
        "launcher: scheduler",
        "launcher: request nvidia.com/gpu",
        "launcher: limit nvidia.com/gpu",
    ],
    # Its master has another image, which is said not to be carried.
    "plain": ["node: image"],
    # A trial has its index as a parameter, which a shell puts in.
    "shards": ["trial: env SHARD"],
    # The set's label is not there, and its Jobs had a block for themselves.
    "pretrain": ["node: affinity", "node: env SET", "node: nodeSelector"],
    # The claims of its pods stayed when these were gone.
    "ranks": ["node: mount /scratch"],
    # Volcano gives the priority to the gang.
    "gang": ["node: priorityClassName"],
}


RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")


def jobs() -> list[tuple[Document, list[dict[str, Any]]]]:
    """The jobs of our samples whose pods are known, with the runtimes beside them."""
    samples = []
    for path in sorted(DATA.glob("*.yaml")):
        documents = documents_of(load_objects(path.read_bytes(), path.name))
        documents = list(documents)
        others = [item.data for item in documents]
        samples += [
            (item, [other for other in others if other.get("kind") in RUNTIMES])
            for item in documents
            if original.pods(item.data, others) is not None
        ]
    return samples


@pytest.mark.parametrize(
    ("job", "others"), [pytest.param(*item, id=f"{item[0].kind}-{item[0].name}") for item in jobs()]
)
def test_a_converted_job_runs_the_same_pods(
    cli: Any, job: Document, others: list[dict[str, Any]]
) -> None:
    """What the chart renders of a sample is what the sample's own controller makes of it."""
    items = {"apiVersion": "v1", "kind": "List", "items": [job.data, *others]}
    (cli.cwd / "job.json").write_text(json.dumps(items if others else job.data), encoding="utf-8")
    process = cli("convert", "job.json", "-o", "values.yaml", "--lossy", "--report", "json")
    assert 0 == process.returncode, process.stderr
    report = json.loads(
        cli("convert", "--check", "values.yaml", "job.json", "--report", "json").stdout
    )
    assert DIFFERENCES.get(job.name, []) == [
        f"{item['role']}: {item['what']}" for item in report["differences"]
    ]


@pytest.fixture
def recipe(cli: Any) -> Path:
    """A chart with a job."""
    folder: Path = cli.cwd / "recipe"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: recipe\nversion: 1.0.0\n")
    job = PLAIN.replace("name: plain", "name: {{ .Release.Name }}")
    (folder / "templates/job.yaml").write_text(
        job.replace("replicas: 2", "replicas: {{ .Values.size }}")
    )
    return folder


def test_a_chart_is_rendered_and_read(cli: Any, recipe: Path) -> None:
    """The jobs of a chart are those that helm renders of it, with the values that are given."""
    (cli.cwd / "sizes.yaml").write_text("size: 2\n")
    process = cli("convert", "recipe", "--chart-values", "sizes.yaml", "--chart-set", "size=3")
    assert 0 == process.returncode
    assert "Values made of PyTorchJob recipe" in process.stdout
    place = "recipe/templates/job.yaml (rendered):10: spec.pytorchReplicaSpecs.Worker.replicas"
    assert f"\nnodes: 3 # {place}\n" in process.stdout
    (recipe / "templates/job.yaml").write_text("a: {{ .Values.image.tag }}\n")
    process = cli("convert", "recipe")
    assert 2 == process.returncode
    assert "the chart's template failed" in process.stderr
    assert "give the values that it is installed with, by --chart-values FILE" in process.stderr


def test_the_archive_of_a_chart_has_any_name(cli: Any, recipe: Path) -> None:
    """It is known by its content; a compressed manifest is refused with what opens it."""
    with tarfile.open(cli.cwd / "recipe-1.tar.gz", "w:gz") as archive:
        archive.add(recipe, "recipe")
    process = cli("convert", "recipe-1.tar.gz", "--chart-set", "size=3")
    assert 0 == process.returncode
    assert "Values made of PyTorchJob recipe-1 (recipe-1.tar.gz/templates/job" in process.stdout
    (cli.cwd / "job.yaml.gz").write_bytes(gzip.compress(PLAIN.encode()))
    process = cli("convert", "job.yaml.gz")
    assert (2, "") == (process.returncode, process.stdout)
    assert "job.yaml.gz is compressed with gzip, and no chart's archive" in process.stderr
    assert "fix: `gunzip -c job.yaml.gz | allranks convert -`" in process.stderr


def test_the_own_refusal_of_a_chart_is_shown_with_its_template(cli: Any, recipe: Path) -> None:
    """A `fail` of a chart says what its author wrote, where, and how it is given values."""
    (recipe / "templates/job.yaml").write_text('{{ fail "set the image of your team" }}\n')
    process = cli("convert", "recipe")
    assert (2, "") == (process.returncode, process.stdout)
    assert "error: set the image of your team (recipe/templates/job.yaml:1:3)" in process.stderr
    assert "fix: give the values that it is installed with, by --chart-values" in process.stderr


@pytest.mark.parametrize("words", [("--chart-set", "a=1"), ("--chart-values", "x.yaml")])
def test_values_of_a_chart_without_a_chart(cli: Any, words: tuple[str, str]) -> None:
    """They are refused, and not left unread."""
    cli.write(PLAIN)
    for more in ((), ("--check", "values.yaml")):
        process = cli("convert", "values.yaml", *words, *more)
        assert (2, "") == (process.returncode, process.stdout)
        assert f"{words[0]} is for a chart, and no file is one" in process.stderr


def test_the_words_behind_a_batch_script(cli: Any) -> None:
    """They are its own, also of an array, and say nothing of a values file."""
    script = '#!/bin/bash\n#SBATCH -n 1 --array=0-1\npython a.py "$1" "$2"\n'
    (cli.cwd / "a.sbatch").write_text(script, encoding="utf-8")
    lost = cli("convert", "a.sbatch")
    assert 3 == lost.returncode
    assert "convert SCRIPT --words 'WORD ...'" in lost.stderr
    process = cli("convert", "a.sbatch", "--words", "'b c' d")
    assert 0 == process.returncode, process.stderr
    assert 'args:\n- "b c"\n- d\n' in process.stdout
    cli.write(PLAIN)
    for words, fix in (("'b", "close the quotes"), ("b", "leave them out")):
        process = cli("convert", "values.yaml", "--words", words)
        assert (2, True) == (process.returncode, fix in process.stderr), process.stderr


def test_a_file_whose_name_is_too_long_is_wrong_input(cli: Any) -> None:
    """The text of a manifest in place of its file is refused in words, and so is such a target."""
    process = cli("convert", PLAIN * 3)
    assert (2, False) == (process.returncode, "Traceback" in process.stderr)
    process = cli("convert", "-", "-o", "b" * 300, stdin=PLAIN)
    assert (2, True) == (process.returncode, "use a shorter name" in process.stderr)


def test_a_batch_script_from_standard_input_or_of_wrap(cli: Any) -> None:
    """Both are ways to give sbatch what it is to run; a script beside --wrap is refused."""
    (cli.cwd / "a.py").write_text("", encoding="utf-8")
    script = "#!/bin/bash\n#SBATCH -n 1\npython a.py\n"
    for words in ((), ("-",)):
        process = cli("sbatch", "--dry-run", "--on", "local", *words, stdin=script)
        assert 0 == process.returncode, process.stderr
        assert "sbatch script sbatch" in process.stderr
    process = cli("sbatch", "--dry-run", "--on", "local", "-n1", "--wrap", "python a.py")
    assert 0 == process.returncode, process.stderr
    assert "sbatch script wrap" in process.stderr
    for words in (("--wrap", "true", "a.sbatch"), ("--values", "-")):
        process = cli("sbatch", "--dry-run", *words, stdin=script)
        assert (2, "") == (process.returncode, process.stdout)
        assert "--wrap" in process.stderr or "once only" in process.stderr


def test_the_letters_of_sbatch_are_slurms(cli: Any) -> None:
    """Its help has none of ours, which would be read as Slurm's."""
    rows = cli("sbatch", "--help").stdout.splitlines()
    options = [row.split()[0] for row in rows if row.startswith("  -")]
    assert "--queue" in options
    assert [option for option in options if not option.startswith("--")] == ["-h,"]

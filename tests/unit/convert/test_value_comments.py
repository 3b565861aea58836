"""Comments of a manifest in the values made of it: each once, at the value that has its field."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.convert.verdicts import Outcome
from allranks.service import convert as service
from allranks.yamlio import load
from tests import converted

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion

POD = """\
metadata:
  annotations:
    example.org/owner.name: nlp
  labels:
    example.org/team: nlp
spec:
  serviceAccountName: trainer
  priorityClassName: high
  imagePullSecrets:
  - name: regcred
  - name: second
  nodeSelector:
    example.org/pool: big
  tolerations:
  - key: nvidia.com/gpu
    operator: Exists
  - key: spot
    operator: Exists
  containers:
  - name: NAME
    image: a/b:1
    workingDir: /app
    command:
    - WORD
    - train.py
    args:
    - --lr
    - "1e-4"
    env:
    - name: NCCL_DEBUG
      value: INFO
    - name: TOKEN
      valueFrom:
        secretKeyRef:
          name: hub
          key: token
    envFrom:
    - configMapRef:
        name: settings
    resources:
      limits:
        nvidia.com/gpu: 4
        cpu: 8
        rdma/hca: 1
      requests:
        memory: 10Gi
    volumeMounts:
    - name: data
      mountPath: /data
    - name: scratch
      mountPath: /scratch
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
  - name: scratch
    emptyDir:
      sizeLimit: 1Gi
"""


def pod(name: str, indent: int, word: str = "python") -> str:
    """A pod template with a container of this name, indented."""
    text = POD.replace("NAME", name).replace("WORD", word)
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def replicas(kind: str, key: str, roles: dict[str, str]) -> str:
    """A job of Kubeflow with these roles, by the container's name of each."""
    head = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata:\n  name: demo\nspec:\n  {key}:\n"
    return head + "".join(
        f"    {role}:\n      replicas: 1\n      template:\n{pod(name, 8)}"
        for role, name in roles.items()
    )


MANIFESTS = {
    "PyTorchJob": replicas("PyTorchJob", "pytorchReplicaSpecs", {"Worker": "pytorch"}).replace(
        "replicas: 1", "replicas: 2"
    ),
    "TFJob": replicas("TFJob", "tfReplicaSpecs", {"PS": "tensorflow", "Worker": "tensorflow"}),
    "MPIJob": replicas("MPIJob", "mpiReplicaSpecs", {"Launcher": "mpi", "Worker": "mpi"})
    .replace("kubeflow.org/v1", "kubeflow.org/v2beta1")
    .replace("- python\n", "- mpirun\n", 1),
    "JobSet": "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: demo\nspec:\n"
    "  replicatedJobs:\n  - name: workers\n    replicas: 1\n    template:\n      spec:\n"
    "        parallelism: 2\n        completions: 2\n        completionMode: Indexed\n"
    f"        template:\n{pod('main', 10, 'torchrun')}",
    "Job": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: demo\n  labels:\n    app.b/c: d\n"
    "spec:\n  parallelism: 2\n  completions: 2\n  completionMode: Indexed\n  backoffLimit: 3\n"
    f"  template:\n{pod('main', 4, 'torchrun')}",
    "Experiment": "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata:\n  name: demo\n"
    "spec:\n  objective:\n    type: minimize\n    goal: 0.001\n    objectiveMetricName: loss\n"
    "  algorithm:\n    algorithmName: random\n  parallelTrialCount: 3\n  maxTrialCount: 12\n"
    "  maxFailedTrialCount: 3\n  parameters:\n  - name: lr\n    parameterType: double\n"
    '    feasibleSpace:\n      min: "0.01"\n      max: "0.05"\n  - name: opt\n'
    "    parameterType: categorical\n    feasibleSpace:\n      list:\n      - sgd\n      - adam\n"
    "  trialTemplate:\n    trialParameters:\n    - name: rate\n      reference: lr\n    - name: o\n"
    "      reference: opt\n    trialSpec:\n      apiVersion: batch/v1\n      kind: Job\n"
    "      spec:\n        template:\n"
    + pod("main", 10)
    .replace('"1e-4"', "${trialParameters.rate}")
    .replace("value: INFO", "value: ${trialParameters.o}"),
    "OptimizationJob": """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: OptimizationJob
metadata:
  name: search
spec:
  objectives:
  - metric: loss
    direction: Minimize
  numTrials: 2
  parallelTrials: 1
  searchAlgorithm:
    random:
      seed: 7
  parameters:
  - name: lr
    searchSpace:
      categorical:
        choices:
        - "1"
        - "2"
  trainJobTemplate:
    spec:
      runtimeRef:
        name: torch-distributed
      trainer:
        image: x:1
        numNodes: 2
        command:
        - torchrun
        - t.py
        - --lr={{ .lr }}
""",
    "TorchrunJob": """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: demo
spec:
  numGPUs: 16
  nnodes: 2
  image: a/b:1
  workingDir: /app
  command:
  - torchrun
  - train.py
""",
    "TorchrunQueue": """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: team
  labels:
    example.org/owner: nlp
spec:
  image: a/b:1
  serviceAccountName: trainer
""",
}


def commented(text: str) -> str:
    """A manifest with a comment above each line, and one behind it."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        indent = line[: len(line) - len(line.lstrip(" -"))].replace("-", " ")
        lines += [f"{indent}# above-{number}", f"{line}  # behind-{number}"]
    return "\n".join(lines) + "\n"


def convert(tmp_path: Path, text: str) -> tuple[Conversion, str]:
    """The conversion of a manifest, and its values file."""
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    (conversion,) = service.convert((str(path),)).conversions
    return conversion, service.values_file(conversion)


@pytest.mark.parametrize("kind", MANIFESTS)
def test_each_comment_stands_in_the_values_once(tmp_path: Path, kind: str) -> None:
    """And the values are those of the manifest without comments."""
    _, plain = convert(tmp_path, MANIFESTS[kind])
    _, values = convert(tmp_path, commented(MANIFESTS[kind]))
    count = len(MANIFESTS[kind].splitlines())
    expected = [
        f"{side}-{number}" for number in range(1, count + 1) for side in ("above", "behind")
    ]
    places = re.findall(r"# ((?:above|behind)-\d+)", values)
    assert sorted(expected) == sorted(places)
    assert yaml.safe_load(plain) == yaml.safe_load(values)


@pytest.mark.parametrize("kind", MANIFESTS)
def test_comments_of_what_is_carried_are_not_at_the_head(tmp_path: Path, kind: str) -> None:
    """They stand among the values, and those of nothing carried are listed above them."""
    conversion, values = convert(tmp_path, commented(MANIFESTS[kind]))
    head = values[: re.search(r"^\w", values, re.MULTILINE).start()]
    own_lines = commented(MANIFESTS[kind]).splitlines()
    lost = [
        (verdict.path, own_lines[verdict.line - 1])
        for verdict in conversion.of(Outcome.CARRIED)
        if verdict.to.split(".")[0] in conversion.values
        if own_lines[verdict.line - 1].split("# ")[-1] + "\n" in f"{head}\n"
    ]
    assert [] == lost


# By a line of the manifest, the line of the values that has its comment.
NEAR = {
    "example.org/owner.name": "example.org/owner.name: nlp",
    "example.org/team": "example.org/team: nlp",
    "- name: second": "- second",
    "example.org/pool": "example.org/pool: big",
    "- key: spot": "- key: spot",
    '- "1e-4"': '- "1e-4"',
    "- train.py": "- train.py",
    "- name: NCCL_DEBUG": "NCCL_DEBUG: INFO",
    "value: INFO": "NCCL_DEBUG: INFO",
    "- name: TOKEN": "TOKEN:",
    "key: token": "key: token",
    "- configMapRef": "- configMapRef:",
    "nvidia.com/gpu: 4": "gpusPerNode: 4",
    "rdma/hca": 'rdma/hca: "1"',
    "memory: 10Gi": 'memory: "10Gi"',
    "- name: scratch": "- name: scratch",
    "mountPath: /scratch": "mountPath: /scratch",
    "claimName": "claimName: data",
    "priorityClassName": "priorityClassName: high",
}


@pytest.mark.parametrize("kind", ["PyTorchJob", "JobSet", "Job"])
@pytest.mark.parametrize("field", NEAR)
def test_a_comment_is_at_its_value(tmp_path: Path, kind: str, field: str) -> None:
    """Keys with slashes and dots, items of lists, words of a command, devices, mounts."""
    text = commented(MANIFESTS[kind])
    _, values = convert(tmp_path, text)
    line = next(line for line in text.splitlines() if line.strip().startswith(field))
    comment = line.split("  # ")[-1]
    at = next(line for line in values.splitlines() if re.search(rf"# {comment}( |$)", line))
    assert NEAR[field] == at.split(" # ")[0].strip()


def test_a_value_of_a_search_has_the_field_that_it_was_made_of(tmp_path: Path) -> None:
    """Parameters, objective, algorithm, counts, and what stands in the template of a trial."""
    _, values = convert(tmp_path, MANIFESTS["Experiment"])
    origins = dict(re.findall(r"^ *([\w-]+):.* # \S+:\d+: (\S+)$", values, re.MULTILINE))
    trial = "spec.trialTemplate.trialSpec.spec.template.spec"
    expected = {
        "parameters": "spec.parameters",
        "lr": "spec.parameters[0]",
        "opt": "spec.parameters[1]",
        "search": "spec.algorithm.algorithmName",
        "parallel": "spec.parallelTrialCount",
        "trials": "spec.maxTrialCount",
        "maxFailedTrials": "spec.maxFailedTrialCount",
        "metric": "spec.objective.objectiveMetricName",
        "direction": "spec.objective.type",
        "goal": "spec.objective.goal",
        "repository": f"{trial}.containers[0].image",
        "gpus": f"{trial}.containers[0].resources.limits.nvidia.com/gpu",
    }
    assert expected == {key: origins.get(key) for key in expected}


def test_a_value_of_an_optimization_job_has_the_field_that_it_was_made_of(tmp_path: Path) -> None:
    """Parameters, objective, search, counts, and the section of a trial's own launcher."""
    _, values = convert(tmp_path, MANIFESTS["OptimizationJob"])
    origins = dict(re.findall(r"^ *([\w-]+):.* # \S+:\d+: (\S+)$", values, re.MULTILINE))
    expected = {
        "lr": "spec.parameters[0]",
        "search": "spec.searchAlgorithm",
        "seed": "spec.searchAlgorithm.random.seed",
        "trials": "spec.numTrials",
        "parallel": "spec.parallelTrials",
        "objective": "spec.objectives[0]",
        "nodes": "spec.trainJobTemplate.spec.trainer.numNodes",
    }
    assert expected == {key: origins.get(key) for key in expected}


def test_a_value_of_a_queue_has_the_field_that_it_was_made_of(tmp_path: Path) -> None:
    """Its labels, its defaults, and the account of its runs."""
    _, values = convert(tmp_path, MANIFESTS["TorchrunQueue"])
    origins = dict(re.findall(r"^ *([\w-]+):.* # \S+:\d+: (\S+)$", values, re.MULTILINE))
    assert "metadata.labels" == origins["labels"]
    assert "spec.image" == origins["image"]
    assert "spec.serviceAccountName" == origins["name"]


def test_the_line_of_a_section_is_its_own(tmp_path: Path) -> None:
    """And not that of the first field in it."""
    _, values = convert(tmp_path, MANIFESTS["PyTorchJob"])
    (number,) = re.findall(r"^command: # \S+:(\d+): ", values, re.MULTILINE)
    assert MANIFESTS["PyTorchJob"].splitlines()[int(number) - 1].strip() == "command:"


def test_an_object_has_its_own_comments_only(tmp_path: Path) -> None:
    """Of a file with several: those of its lines, and the first has those above all."""
    path = tmp_path / "jobs.yaml"
    job = MANIFESTS["PyTorchJob"]
    second = job.replace("name: demo", "name: other  # of the second")
    path.write_text(f"# at the top\n\n{job}# between\n---\n{second}# at the end\n")
    own = [service.values_file(item) for item in service.convert((str(path),)).conversions]
    comments = ("at the top", "between", "of the second", "at the end")
    assert [[True, False, False, False], [False, True, True, True]] == [
        [comment in values for comment in comments] for values in own
    ]


SCRIPT = """\
#!/bin/bash
# the head of the script
#SBATCH --nodes=2   # two nodes

# as Ada said
##SBATCH --mem=1G
#SBATCH --mem=8G # enough
#SBATCH --mail-user=me@example.org # mail
#SBATCH --gpus-per-node=4 --time=1:00:00 # both
#SBATCH --comment="a # b"
# of the program
srun torchrun train.py
"""


def test_comments_of_directives_stay_with_their_values(tmp_path: Path) -> None:
    """Behind them and above them, where a # in quotes is none; the others are at the head."""
    path = tmp_path / "train.sbatch"
    path.write_text(SCRIPT, encoding="utf-8")
    (conversion,) = service.convert((str(path),)).conversions
    values = service.values_file(conversion)
    lines = [
        re.sub(r" # \S+:(\d+): ", r" # line \1: ", line.strip()) for line in values.splitlines()
    ]
    nodes = lines.index("nodes: 2 # two nodes # line 3: --nodes")
    assert "# the head of the script" == lines[nodes - 1]
    memory = lines.index('memory: "8Gi" # enough # line 7: --mem')
    assert ["# as Ada said", "# SBATCH --mem=1G"] == lines[memory - 2 : memory]
    assert "gpusPerNode: 4 # both # line 9: --gpus-per-node" in lines
    assert 'comment: "a # b" # line 10: --comment' in lines
    assert f"# {path}:8: # mail" in lines


@pytest.mark.parametrize("end", ["# by Ada\n", "\n", "#\n"])
def test_comments_of_a_whole_script_are_at_the_head_of_its_values(tmp_path: Path, end: str) -> None:
    """Several lines at the top, or one with an empty line behind it, are of no single directive."""
    path = tmp_path / "train.sbatch"
    path.write_text(SCRIPT.replace("# the head of the script\n", f"# the head\n{end}"))
    (conversion,) = service.convert((str(path),)).conversions
    lines = service.values_file(conversion).splitlines()
    chart = lines.index("workload: torchrun")
    top = ["# the head", *([end.strip()] if "Ada" in end else [])]
    assert top == lines[chart - len(top) : chart]


def test_what_stands_in_a_directive_is_the_origin_of_all_that_is_made_of_it(tmp_path: Path) -> None:
    """Shared memory is half of the memory, and a partition is a variable."""
    path = tmp_path / "train.sbatch"
    path.write_text(SCRIPT.replace("# as Ada said", "#SBATCH -p gpu"), encoding="utf-8")
    (conversion,) = service.convert((str(path),)).conversions
    values = service.values_file(conversion)
    assert re.search(r'size: "4Gi" # \S+:7: --mem$', values, re.MULTILINE)
    assert re.search(r"SLURM_JOB_PARTITION: gpu # \S+:5: --partition$", values, re.MULTILINE)
    assert re.search(r"^command: # \S+:12: srun torchrun train.py$", values, re.MULTILINE)


RUNTIME = f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: ours
spec:
  mlPolicy:
    numNodes: 2
    torch:
      numProcPerNode: 2
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels:
              trainer.kubeflow.org/trainjob-ancestor-step: trainer
          spec:
            template:
{pod("node", 14, "torchrun")}"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: demo
spec:
  runtimeRef:
    name: ours
  trainer:
    image: c/d:2 # newer
"""


@pytest.mark.parametrize("is_apart", [True, False])
def test_what_a_runtime_says_has_its_lines_and_comments(tmp_path: Path, is_apart: bool) -> None:
    """Beside the job or given with --runtime; what the job lays over it is the job's own."""
    job, runtime = tmp_path / "job.yaml", tmp_path / "runtime.yaml"
    text = commented(RUNTIME)
    job.write_text(TRAIN_JOB if is_apart else f"{TRAIN_JOB}---\n{text}", encoding="utf-8")
    runtime.write_text(text, encoding="utf-8")
    result = service.convert((str(job),), (str(runtime),) if is_apart else ())
    values = service.values_file(result.conversions[0])
    file, start = (runtime, 0) if is_apart else (job, len(TRAIN_JOB.splitlines()) + 1)

    def behind(value: str, field: str) -> str:
        """What stands behind a value that is made of a field of the runtime."""
        lines = RUNTIME.splitlines()
        at = next(number for number, own in enumerate(lines, 1) if own.strip() == field)
        return f"{value} # behind-{at} # {file}:{start + 2 * at}: "

    assert behind("workingDir: /app", "workingDir: /app") in values
    assert behind('rdma/hca: "1"', "rdma/hca: 1") in values
    assert re.search(r"^nodes: 2 # .* spec.mlPolicy.numNodes$", values, re.MULTILINE)
    assert re.search(
        r"^procsPerNode: 2 # .* spec.mlPolicy.torch.numProcPerNode$", values, re.MULTILINE
    )
    assert f"repository: c/d # newer # {job}:9: spec.trainer.image" in values
    assert "- train.py # behind-" in values
    count = len(RUNTIME.splitlines())
    expected = [
        f"{side}-{number}" for number in range(1, count + 1) for side in ("above", "behind")
    ]
    assert sorted(expected) == sorted(re.findall(r"# ((?:above|behind)-\d+)", values))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(
            st.one_of(
                st.characters(exclude_categories=["Cs"]),
                st.sampled_from("#\t\u2028\u2029\x85\ufeff\x00\x1b: -|>'\"{}[]\n\r"),
            ),
            max_size=40,
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(sorted(MANIFESTS)),
    st.integers(1, 20_000),
)
def test_no_comment_breaks_out_of_its_line(texts: list[str], kind: str, repeats: int) -> None:
    """Whatever it has in it, and however long it is, the values are those without comments."""
    (plain,) = converted.text_as_jobs(MANIFESTS[kind]).conversions
    lines = MANIFESTS[kind].splitlines()
    comments = {
        number: ((texts[number % len(texts)],), texts[-number % len(texts)])
        for number in range(1, len(lines) + 2)
    }
    comments[3] = (("x" * repeats,), texts[0] * (repeats // 10))
    text = service.values_file(replace(plain, comments=comments))
    assert load.load(text, "v.yaml").data == plain.values
    assert yaml.safe_load(text) == yaml.safe_load(service.values_file(plain))


def test_values_with_comments_of_megabytes_are_written_without_them(tmp_path: Path) -> None:
    """Values have a bound that comments count for, and what is written is valid."""
    text = MANIFESTS["PyTorchJob"] + "".join(f"# {number} {'x' * 1000}\n" for number in range(5000))
    _, written = convert(tmp_path, text)
    assert "comments of its file are left out" in written
    assert len(written) < 100_000


_MPIRUN = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: m}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: a/b:1
            command: [mpirun, --host, "m-worker-0:2,m-worker-1:2", -np, "4", python, t.py]
"""


def test_a_value_that_no_field_has_says_why_it_is_there(tmp_path: Path) -> None:
    """Whoever reads the file need not guess which lines are the converter's own."""
    file = tmp_path / "job.yaml"
    file.write_text(_MPIRUN)
    lines = service.values_file(service.convert((str(file),)).conversions[0]).splitlines()
    assert "  mode: none # no tracker is told of the run" in lines
    assert "  restricted: false # pods run as the image's own user, which may be root" in lines


def test_the_words_of_a_command_that_is_lost_are_one_line_at_the_head(tmp_path: Path) -> None:
    """As in the report, which says it once."""
    file = tmp_path / "job.yaml"
    file.write_text(_MPIRUN)
    states: list[str] = []
    result = service.convert((str(file),), watch=states.append)
    head = [
        line
        for line in service.values_file(result.conversions[0]).splitlines()
        if line.startswith("# ") and "not carried" in line
    ]
    assert 1 == len(head), head
    assert ".containers[0].command not carried: m-worker-0 is a pod of the old" in head[0]
    assert [f"reading {file}", "0 of 1 object converted"] == states

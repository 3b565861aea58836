"""Words of a report that are true of one program or object, and are not said of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.service import convert as service
from tests.converted import lost, refusal, text_as_jobs

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = "apiVersion: kubeflow.org/v1\nkind: {}\nmetadata: {{name: j{}}}\nspec:\n"
_PYTORCH = """\
{}  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {{name: pytorch, image: "a:1", command: [bash, -c, "{}"]}}
"""
_MPI = """\
{}  mpiReplicaSpecs:
    Launcher: {{template: {{spec: {{containers: [{{name: m, image: "a:1", command: [{}]}}]}}}}}}
    Worker: {{replicas: 4, template: {{spec: {{containers: [{{name: m, image: "a:1"}}]}}}}}}
"""


_INDEXED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: ft}
spec:
  completions: 1
  completionMode: Indexed
  template:
    spec:
      subdomain: s
      restartPolicy: Never
      containers:
      - name: c
        image: a:1
        resources: {limits: {nvidia.com/gpu: 8}}
        command: [bash, -c, accelerate launch --main_process_ip ft-0.s --num_processes 8 t.py]
"""


def _pytorch(script: str = "python t.py", metadata: str = "", spec: str = "") -> str:
    return _PYTORCH.format(_HEAD.format("PyTorchJob", metadata) + spec, script)


@pytest.mark.parametrize("launcher", ["torchrun", "composer", "deepspeed", "accelerate launch"])
def test_what_a_script_starts_is_called_by_its_name(launcher: str) -> None:
    """A reader looks for that name in the script."""
    conversion = text_as_jobs(_pytorch(f"ulimit -s 1 && {launcher} t.py | tee log")).conversions[0]
    (note,) = (note for note in conversion.notes if "itself, between other commands" in note)
    assert f"starts {launcher.split(maxsplit=1)[0]} itself" in note


@pytest.mark.parametrize(
    ("words", "has_note"), [("mpirun, t", True), ("horovodrun, -np, '4', t", False)]
)
def test_horovodrun_binds_no_ranks_anywhere(words: str, has_note: bool) -> None:
    """Nothing is other than before, and it has no option of mpirun's."""
    text = _MPI.format(_HEAD.format("MPIJob", ""), words)
    notes = text_as_jobs(text).conversions[0].notes
    assert has_note == any("bound to no core" in note for note in notes)


def test_a_label_of_a_charts_is_the_charts_own() -> None:
    """No controller writes it."""
    text = _pytorch(
        metadata=", labels: {helm.sh/chart: a-1}, annotations: {meta.helm.sh/release-name: a}"
    )
    whys = {own.path: own.why for own in text_as_jobs(text).conversions[0].verdicts}
    for key in ("labels.helm.sh/chart", "annotations.meta.helm.sh/release-name"):
        assert "the chart or Helm sets it itself" == whys[f"metadata.{key}"]


def test_the_policy_of_the_first_operators_is_carried_and_said() -> None:
    """pytorch-operator read it under spec, and the training operator does not."""
    policy = {"backoffLimit": 2, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 60}
    rows = {"cleanPodPolicy": "All", **policy}
    spec = "".join(f"  {key}: {value}\n" for key, value in rows.items())
    conversion = text_as_jobs(_pytorch(spec=spec)).conversions[0]
    assert not lost(conversion)
    assert policy == conversion.values["runPolicy"]
    assert any("training operator reads runPolicy alone" in note for note in conversion.notes)
    under_policy = "  runPolicy: {backoffLimit: 2}\n"
    notes = text_as_jobs(_pytorch(spec=under_policy)).conversions[0].notes
    assert not any("reads runPolicy alone" in note for note in notes)


def test_workers_that_are_no_number_are_refused() -> None:
    """Nothing would be known of the GPUs of each, and the launcher not alone."""
    text = (
        "apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\nmetadata: {name: j}\n"
        "spec: {replicas: one, template: {spec: {containers: "
        '[{name: c, image: "a:1", command: [mpirun, t]}]}}}\n'
    )
    problem = refusal(text)
    assert ("spec.replicas", "'one' is no number of workers") == (problem.path, problem.message)


@pytest.mark.parametrize(
    "text",
    [
        _MPI.format(_HEAD.format("MPIJob", ', namespace: "${ns}"'), "mpirun, t"),
        _INDEXED,
    ],
    ids=["namespace-with-a-blank", "address-of-the-first-pod"],
)
def test_what_a_conversion_wrote_is_no_difference(text: str, tmp_path: Path) -> None:
    """A namespace that is still to be filled in is said once, and MASTER_ADDR is that pod."""
    source, values = tmp_path / "job.yaml", tmp_path / "values.yaml"
    source.write_text(text, encoding="utf-8")
    (conversion,) = service.convert((str(source),)).conversions
    values.write_text(service.values_file(conversion), encoding="utf-8")
    assert not service.check(str(values), (str(source),)).differences


_OF_SSH = """\
apiVersion: kubeflow.org/{}
kind: MPIJob
metadata: {{name: j}}
spec:
{}
  mpiReplicaSpecs:
    Launcher:
      template: {{spec: {{containers: [{{name: l, image: a, command: {}}}]}}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{{name: w, image: a, command: {}, env: [{{name: UCX_TLS, value: self}}]}}]
"""
_SSHD = '["/usr/sbin/sshd", "-De"]'


@pytest.mark.parametrize(
    ("version", "launcher", "worker", "has_note"),
    [
        ("v2beta1", "[mpirun, t]", _SSHD, True),
        ("v2beta1", "[mpirun, -x, UCX_TLS, t]", _SSHD, False),
        (
            "v2beta1",
            "[mpirun, t]",
            "[sh, -c, 'env >> /etc/environment; /usr/sbin/sshd -De']",
            False,
        ),
        ("v1", "[mpirun, t]", "[sleep, inf]", False),
    ],
)
def test_variables_that_ssh_handed_to_no_rank_are_named(
    version: str, launcher: str, worker: str, *, has_note: bool
) -> None:
    """A transport that no rank had before may fail; kubectl exec gave ranks all of them."""
    notes = text_as_jobs(_OF_SSH.format(version, "", launcher, worker)).conversions[0].notes
    assert has_note == any("over ssh a rank had" in note and "UCX_TLS" in note for note in notes)


@pytest.mark.parametrize(
    ("folder", "script", "is_lost"),
    [
        ("/tmp/mpi-keys", "cp /tmp/mpi-keys/* /root/.ssh/ && mpirun t", True),
        ("/tmp/mpi-keys", "mpirun -x A t", False),
        ("/tmp/mpi-keys", "cp /tmp/mpi-keys/id_rsa /root/key && mpirun t", False),
        ("/root/.ssh", "mkdir -p /root/.ssh && cp config /root/.ssh/ && mpirun t", False),
        ("/root/.ssh", "cp -r /root/.ssh /home/me && mpirun t", True),
    ],
)
def test_a_script_that_reads_the_folder_of_the_keys_is_named(
    folder: str, script: str, *, is_lost: bool
) -> None:
    """It is not there, and the script would end before its mpirun."""
    policy = f"  sshAuthMountPath: {folder}"
    text = _OF_SSH.format("v2beta1", policy, f'[sh, -c, "{script}"]', _SSHD)
    whys = [own.why for own in text_as_jobs(text).conversions[0].lost]
    assert is_lost == any(f"it reads {folder}, where mpi-operator" in why for why in whys)


_TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: j}}
spec: {{runtimeRef: {{kind: TrainingRuntime, name: r}}, trainer: {{image: a, {}: [python, t.py]}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: r}}
spec:
  mlPolicy: {{numNodes: 1}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec: {{template: {{spec: {{containers: [{{name: node, image: a}}]}}}}}}
"""


def test_a_pod_that_was_no_rank_is_said_to_be_one() -> None:
    """A library seeds its random numbers by RANK, or begins a process group where it is set."""
    notes = text_as_jobs(_TRAINJOB.format("command")).conversions[0].notes
    assert any("nothing set RANK, LOCAL_RANK or WORLD_SIZE in its pod" in note for note in notes)


def test_a_misspelt_key_of_a_trainer_is_asked_for() -> None:
    """The path is the trainer's, in whose place the runtime has no command either."""
    problem = refusal(_TRAINJOB.format("comand"))
    assert "spec.trainer.command" == problem.path
    assert "there is comand: did you mean command?" in problem.hint


def test_a_comment_behind_a_value_tells_where_it_is_from() -> None:
    """A user in the object is no one of Slurm's, and the framework is the kind's."""
    pod = "spec: {{securityContext: {{runAsUser: 1000}}, containers: [{}]}}"
    container = '{name: tensorflow, image: "a:1", command: [python, t.py]}'
    text = (
        _HEAD.format("TFJob", "")
        + f"  tfReplicaSpecs:\n    Worker:\n      template: {{{pod.format(container)}}}\n"
    )
    values = service.values_file(text_as_jobs(text).conversions[0])
    assert "Slurm" not in values
    assert "as its command says" not in values
    assert "framework: tensorflow # by which the pods are told of each other" in values


_CLAIMS = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: j}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          resourceClaims: [{{name: gpus, resourceClaimTemplateName: t}}]
          containers:
          - name: pytorch
            image: a
            command: [torchrun, t.py]
            resources: {{claims: [{{name: {}}}]}}
"""


def test_devices_that_a_claim_brings_are_not_called_none() -> None:
    """Torchrun counted them, and how many there are, the claim says."""
    notes = text_as_jobs(_CLAIMS.format("gpus")).conversions[0].notes
    assert any("how many the resourceClaim gpus gives a pod is not known" in note for note in notes)
    assert not any("without GPUs" in note for note in notes)


def test_a_claim_that_the_pod_has_not_is_refused() -> None:
    """As the API server does; the nearest name is asked for."""
    problem = refusal(_CLAIMS.format("gpu"))
    assert "the pod has no resourceClaim gpu" == problem.message
    assert "did you mean gpus?" in problem.hint


def test_the_only_pod_of_a_task_keeps_its_index() -> None:
    """Volcano's plugin env told it 0."""
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec:\n"
        "  plugins: {env: []}\n  tasks:\n  - replicas: 1\n    name: worker\n    template: {spec: "
        "{restartPolicy: Never, containers: [{name: c, image: a, command: [python, t.py]}]}}\n"
    )
    conversion = text_as_jobs(text).conversions[0]
    assert {"VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0"} == conversion.values["env"]
    assert not lost(conversion)


@pytest.mark.parametrize(
    ("version", "policy", "has_note"),
    [
        ("v2beta1", "cleanPodPolicy: Running", True),
        ("v2beta1", "runPolicy: {cleanPodPolicy: Running}", False),
        ("v1", "cleanPodPolicy: Running", False),
    ],
)
def test_which_mpi_operator_reads_a_policy_is_said(
    version: str, policy: str, *, has_note: bool
) -> None:
    """The later ones of v2beta1 took no notice of one under spec."""
    text = _OF_SSH.format(version, f"  {policy}", "[mpirun, t]", _SSHD)
    notes = text_as_jobs(text).conversions[0].notes
    assert has_note == any("mpi-operator up to 0.3 reads" in note for note in notes)

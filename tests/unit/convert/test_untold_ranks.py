"""Pods that were told less of each other than they are here, or something else."""

from __future__ import annotations

import pytest

from allranks.convert.verdicts import Outcome
from tests.converted import lost, text_as_jobs

_RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: r}}
spec:
  {}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec:
            parallelism: 2
            completions: 2
            template: {{spec: {{containers: [{{name: node, image: "i:1", command: [python, t]}}]}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: j}}
spec: {{runtimeRef: {{kind: TrainingRuntime, name: r}}, trainer: {{numNodes: 3}}}}
"""


@pytest.mark.parametrize(("policy", "nodes"), [("", 2), ("mlPolicy: {numNodes: 5}", 3)])
def test_a_runtime_without_a_policy_counts_its_own_pods(policy: str, nodes: int) -> None:
    """Trainer writes their number where there is an mlPolicy alone."""
    conversion = text_as_jobs(_RUNTIME.format(policy)).conversions[0]
    assert nodes == conversion.values["nodes"]
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert (nodes == 2) == ("mlPolicy alone" in whys["spec.trainer.numNodes"])


_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: w}}\nspec: {{parallelism: 8, {}"
    "template: {{spec: {{restartPolicy: Never, containers: [{{name: t, image: 'i:1', command: "
    "[python, t.py], env: [{{name: MASTER_ADDR, value: other-svc}}{}]}}]}}}}}}\n"
)


@pytest.mark.parametrize(
    ("mode", "rank", "is_noted"),
    [
        ("", "", True),
        ("completionMode: Indexed, completions: 8, ", "", False),
        ("", ", {name: WORLD_SIZE, value: '8'}", False),
    ],
)
def test_pods_of_a_job_without_an_index_are_said_to_have_had_no_rank(
    mode: str, rank: str, *, is_noted: bool
) -> None:
    """A MASTER_ADDR alone tells nobody which rank it is."""
    notes = text_as_jobs(_JOB.format(mode, rank)).conversions[0].notes
    assert is_noted == any("and MASTER_ADDR was other-svc" in note for note in notes)


_ELASTIC = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: a}}
spec:
  elasticPolicy: {{rdzvBackend: c10d, {}}}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers: [{{name: pytorch, image: "i:1", command: [torchrun, a.py]}}]
"""


@pytest.mark.parametrize(
    ("sizes", "is_lost"),
    [
        ("minReplicas: 4, maxReplicas: 4", True),
        ("maxReplicas: 4", True),
        ("minReplicas: 2, maxReplicas: 2", False),
        ("minReplicas: 1, maxReplicas: 2", False),
    ],
)
def test_an_elastic_policy_of_another_size_is_a_loss(sizes: str, *, is_lost: bool) -> None:
    """Its torchrun waited for pods that there were none of; here nodes says it."""
    assert is_lost == bool(lost(text_as_jobs(_ELASTIC.format(sizes)).conversions[0]))


def test_a_master_that_is_not_tried_again_is_carried() -> None:
    """As the workers, whose template it has."""
    role = (
        "{replicas: 1, restartPolicy: Never, template: {spec: {containers: [{name: xgboost, "
        "image: 'i:1', command: [python, m.py]}]}}}"
    )
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: XGBoostJob\nmetadata: {name: x}\nspec: "
        f"{{xgbReplicaSpecs: {{Master: {role}, Worker: {role}}}}}\n"
    ).conversions[0]
    assert 0 == conversion.values["runPolicy"]["backoffLimit"]
    assert not [own for own in conversion.verdicts if own.why == "a pod that fails is replaced"]


@pytest.mark.parametrize(("policy", "start"), [("Always", "the pods of a"), ("OnFailure", "Kuber")])
def test_a_restart_policy_that_no_stateful_set_has_has_note(policy: str, start: str) -> None:
    """Kubernetes refuses it, so that nothing is as before."""
    verdicts = (
        text_as_jobs(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {serviceName: s, "
            f"replicas: 2, template: {{spec: {{restartPolicy: {policy}, containers: [{{name: t, "
            "image: 'i:1', command: [torchrun, --nnodes=2, --node_rank=$(R), "
            "--master_addr=s-0.s, a.py]}]}}}\n"
        )
        .conversions[0]
        .verdicts
    )
    (own,) = [item for item in verdicts if item.path.endswith("restartPolicy")]
    assert own.why.startswith(start)


@pytest.mark.parametrize(
    ("version", "policy", "is_noted"),
    [("v2beta1", "", True), ("v1alpha2", "", False), ("v2beta1", "restartPolicy: Never, ", False)],
)
def test_workers_that_no_operator_makes_anew_are_said_to_be_replaced(
    version: str, policy: str, *, is_noted: bool
) -> None:
    """Those of v1alpha2 are a StatefulSet's, which makes them anew."""
    pod = "template: {spec: {containers: [{name: c, image: i, command: [mpirun, ./a]}]}}"
    notes = (
        text_as_jobs(
            f"apiVersion: kubeflow.org/{version}\nkind: MPIJob\nmetadata: {{name: a}}\nspec: "
            f"{{mpiReplicaSpecs: {{Launcher: {{{pod}}}, Worker: {{{policy}replicas: 2, {pod}"
            "}}}\n"
        )
        .conversions[0]
        .notes
    )
    assert is_noted == any("a worker without a restartPolicy in its" in note for note in notes)


def test_roles_that_wait_for_each_other_are_said_to_fail_where_they_start_apart() -> None:
    """TensorFlow itself waits without an end."""
    role = (
        "{replicas: 1, restartPolicy: Never, template: {spec: {containers: [{name: tensorflow, "
        "image: i, command: [python, t.py]}]}}}"
    )
    notes = (
        text_as_jobs(
            "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: "
            f"{{Chief: {role}, Worker: {role}}}}}\n"
        )
        .conversions[0]
        .notes
    )
    assert any("one that waits 300 s for chief fails" in note for note in notes)


def test_a_tag_of_a_persons_own_image_tells_no_torch() -> None:
    """``pytorch-trainer:1.4.0`` is version 1.4.0 of a trainer."""
    for image, option in (("pytorch/pytorch:1.9", "local_rank"), ("a/pytorch-x:1.4", "local-rank")):
        conversion = text_as_jobs(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: "
            "{pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: "
            f"pytorch, image: '{image}', command: [python, -m, torch.distributed.launch, "
            "--nnodes=2, --node_rank=$(RANK), --master_addr=$(MASTER_ADDR), t.py]}]}}}}}\n"
        ).conversions[0]
        assert f'--{option}="$LOCAL_RANK"' in str(conversion.values["command"])


@pytest.mark.parametrize(
    ("pods", "nodes", "words"),
    [(4, 2, "of the 4 pods the others stood by"), (1, 2, ""), (2, 2, "")],
)
def test_a_range_below_the_number_of_pods_is_named(pods: int, nodes: int, words: str) -> None:
    """The operator makes all pods, and torchrun trains with the most that it may."""
    conversion = text_as_jobs(_RANGE.format(pods)).conversions[0]
    path = "spec.pytorchReplicaSpecs.Worker.replicas"
    verdict = next(own for own in conversion.verdicts if own.path == path)
    assert max(1, min(pods, nodes)) == conversion.values["nodes"]
    assert words in verdict.why
    assert bool(words) == (verdict.outcome is Outcome.CHANGED)


_RANGE = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: m}}
spec:
  elasticPolicy: {{rdzvBackend: c10d, minReplicas: 1, maxReplicas: 2}}
  pytorchReplicaSpecs:
    Worker:
      replicas: {}
      template: {{spec: {{containers: [{{name: pytorch, image: a, command: [torchrun, t.py]}}]}}}}
"""


@pytest.mark.parametrize(("kind", "has_note"), [("XGBoostJob", True), ("PaddleJob", False)])
def test_a_master_that_trains_and_sees_no_gpu_is_named(kind: str, has_note: bool) -> None:
    """That of XGBoost is rank 0; Paddle's keeps the parameters."""
    container = '{{name: {}, image: "a:1", command: [python, t.py, "{}"]}}'
    main, key = {"XGBoostJob": ("xgboost", "xgb"), "PaddleJob": ("paddle", "paddle")}[kind]
    roles = "\n".join(
        f"    {role}: {{replicas: 1, template: {{spec: {{containers: [{own}]}}}}}}"
        for role in ("Master", "Worker")
        for own in [container.format(main, role)]
    )
    text = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n"
    notes = text_as_jobs(f"{text}  {key}ReplicaSpecs:\n{roles}\n").conversions[0].notes
    assert has_note == any("asks for no GPU" in note for note in notes)

"""Objects that the API server or the old controller refuses, whatever is meant by them."""

from __future__ import annotations

import pytest

from allranks.convert.inputs import pod_shapes
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError
from tests.converted import refusal, text_as_jobs

_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Master: &pods
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: "a/b:1", command: [torchrun, t.py]}
    Worker: *pods
"""
_CONTAINER = "command: [torchrun, t.py]"


@pytest.mark.parametrize(
    ("fields", "path", "message", "hint"),
    [
        ("env: {A: b}", "env", "a mapping, and Kubernetes takes a list", "- {name: NAME, "),
        ("env: hello", "env", "a text, and Kubernetes takes a list", "begin each item"),
        ("resources: 4", "resources", "a number, and Kubernetes takes a mapping", "KEY: VALUE"),
        ("resources: [{limits: {cpu: 1}}]", "resources", "a list, and Kubernetes", "KEY: VALUE"),
        ("ports: [80]", "ports[0]", "a number, and Kubernetes takes a mapping", "KEY: VALUE"),
        ("volumeMounts: 7", "volumeMounts", "a number, and Kubernetes takes a list", "dash"),
    ],
)
def test_a_field_of_another_shape_is_refused(
    fields: str, path: str, message: str, hint: str
) -> None:
    """Such fields were lost, with words that named no reason."""
    problem = refusal(_JOB.replace(_CONTAINER, f"{_CONTAINER}, {fields}"))
    place = f"spec.pytorchReplicaSpecs.Master.template.spec.containers[0].{path}"
    assert (problem.path, problem.source) == (place, "job.yaml:11")
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize("fields", ["env: ~", 'env: "${VARIABLES}"', "env: []", "resources: {}"])
def test_a_field_without_content_or_still_to_be_filled_in_is_not_refused(fields: str) -> None:
    """Null is nothing to Kubernetes, and envsubst may put a list there."""
    assert text_as_jobs(_JOB.replace(_CONTAINER, f"{_CONTAINER}, {fields}")).conversions


def test_what_is_in_no_pod_may_have_any_shape() -> None:
    """A ConfigMap's `env` is whatever its reader takes."""
    pod_shapes.refuse({"data": {"env": {"A": "b"}, "containers": "x"}, "spec": {"env": "y"}})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (_JOB.replace("replicas: 1", "replicas: -2"), "spec.pytorchReplicaSpecs.Master.replicas"),
        (
            (
                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completions: -2, "
                "parallelism: -2, completionMode: Indexed, template: {spec: {containers: [{"
                'name: c, image: "a/b:1", command: [torchrun, t.py]}]}}}\n'
            ),
            "spec.completions",
        ),
        (
            (
                "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
                "spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: -1, "
                'image: "a/b:1", command: [torchrun, t.py]}}\n'
            ),
            "spec.trainer.numNodes",
        ),
    ],
)
def test_less_than_no_pods_is_refused(text: str, path: str) -> None:
    """They were added to the others: a Master and -2 workers were -1 nodes."""
    problem = refusal(text)
    assert path == problem.path
    assert "is less than the least number, which is 0" in problem.message


@pytest.mark.parametrize(
    ("old", "new", "path", "hint"),
    [
        ("replicas: 1", "restartPolicy: OnFailed", "restartPolicy", "did you mean OnFailure?"),
        (
            "spec:\n          containers",
            "spec:\n          restartPolicy: ExitCode\n          containers",
            "template.spec.restartPolicy",
            "write Always, OnFailure or Never",
        ),
        (
            _CONTAINER,
            f"{_CONTAINER}, imagePullPolicy: IfNotPresnt",
            "template.spec.containers[0].imagePullPolicy",
            "did you mean IfNotPresent?",
        ),
    ],
)
def test_a_word_that_is_no_policy_is_refused(old: str, new: str, path: str, hint: str) -> None:
    """It was taken for what the other policies are."""
    problem = refusal(_JOB.replace(old, new, 1))
    assert f"spec.pytorchReplicaSpecs.Master.{path}" == problem.path
    assert hint in problem.hint


def test_a_policy_of_the_operators_own_is_none_of_pods() -> None:
    """ExitCode is for the operator's roles; a label has whatever words a person likes."""
    text = _JOB.replace("replicas: 1", "restartPolicy: ExitCode")
    text = text.replace("{name: a}", "{name: a, labels: {restartPolicy: mine}}")
    assert text_as_jobs(text).conversions


def test_a_misspelt_policy_of_an_mpijob_is_refused() -> None:
    """Its launcher was told to wait for as long as any other."""
    problem = refusal(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec:\n"
        "  launcherCreationPolicy: WaitForWorkerReady\n"
        "  mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: l, "
        'image: "a/b:1", command: [mpirun, ./a]}]}}}, Worker: {replicas: 2, template: '
        '{spec: {containers: [{name: w, image: "a/b:1"}]}}}}\n'
    )
    assert "spec.launcherCreationPolicy" == problem.path
    assert "did you mean WaitForWorkersReady?" == problem.hint


@pytest.mark.parametrize(
    ("text", "value"), [("true", "true"), ("yes", "true"), ("false", "false"), ("no", "false")]
)
def test_a_boolean_in_quotes_is_refused(text: str, value: str) -> None:
    """Such a text was read as false, whatever it said."""
    spec = f'spec:\n          hostNetwork: "{text}"\n          containers'
    problem = refusal(_JOB.replace("spec:\n          containers", spec, 1))
    assert "spec.pytorchReplicaSpecs.Master.template.spec.hostNetwork" == problem.path
    assert f"write {value}, without quotes" == problem.hint


def test_a_runtime_with_a_boolean_in_quotes_is_refused_where_it_is_named() -> None:
    """A TrainJob takes its launcher for one without ranks otherwise."""
    problem = refusal(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
        "spec: {runtimeRef: {name: ours}}\n---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\n"
        "metadata: {name: ours}\n"
        'spec: {mlPolicy: {numNodes: 2, mpi: {runLauncherAsNode: "true"}}, template: {spec: {}}}\n'
    )
    assert "spec.runtimeRef.name" == problem.path
    assert "of ClusterTrainingRuntime ours spec.mlPolicy.mpi.runLauncherAsNode" in problem.message


@pytest.mark.parametrize("kind", ["PyTorchJob", "XGBoostJob"])
def test_two_masters_are_refused(kind: str) -> None:
    """Their operator refuses them; here they were two nodes more."""
    specs = {"PyTorchJob": "pytorchReplicaSpecs", "XGBoostJob": "xgbReplicaSpecs"}[kind]
    text = _JOB.replace("PyTorchJob", kind).replace("pytorchReplicaSpecs", specs)
    problem = refusal(text.replace("replicas: 1", "replicas: 2").replace("torchrun", "python"))
    assert f"spec.{specs}.Master.replicas" == problem.path
    assert "its operator refuses more than one" in problem.message


@pytest.mark.parametrize(("role", "near"), [("Workr", "Worker"), ("worker", "Worker")])
def test_a_role_like_another_is_refused(role: str, near: str) -> None:
    """Its pods were lost, and the run had the others alone."""
    problem = refusal(_JOB.replace("    Worker: *pods", f"    {role}: *pods"))
    assert f"spec.pytorchReplicaSpecs.{role}" == problem.path
    assert f"{role} is no role of a PyTorchJob" == problem.message
    assert f"did you mean {near}?" in problem.hint


def test_a_role_like_no_other_is_lost() -> None:
    """All of its fields have the same reason."""
    [conversion] = text_as_jobs(_JOB.replace("    Worker: *pods", "    Scout: *pods")).conversions
    own = [verdict for verdict in conversion.verdicts if ".Scout." in verdict.path]
    assert {"Scout is no role of a PyTorchJob"} == {verdict.why for verdict in own}


@pytest.mark.parametrize(
    ("kind", "near"), [("PytorchJob", "PyTorchJob"), ("TrainJobs", "TrainJob"), ("Deployment", "")]
)
def test_a_kind_like_another_is_asked_after(kind: str, near: str) -> None:
    """The list of all kinds is the answer for those that are like none."""
    with pytest.raises(InputError) as caught:
        text_as_jobs(_JOB.replace("kind: PyTorchJob", f"kind: {kind}"))
    hint = caught.value.problem.hint
    assert (f"did you mean {near}?" in hint) is bool(near)
    assert ("give a manifest with one of" in hint) is (not near)


def test_what_the_chart_refuses_is_lost_of_all_roles() -> None:
    """The Master's GPUs were `as the workers'`, of which there are none in the values."""
    text = _JOB.replace(_CONTAINER, f"{_CONTAINER}, resources: {{limits: {{nvidia.com/gpu: x}}}}")
    [conversion] = text_as_jobs(text).conversions
    own = [verdict for verdict in conversion.lost if verdict.path.endswith("nvidia.com/gpu")]
    assert ["Master", "Worker"] == [verdict.path.split(".")[2] for verdict in own]


def test_an_item_whose_name_is_refused_is_lost_as_a_whole() -> None:
    """Of a volume with such a name the claim was said to be carried, and it was in no values."""
    mount = "volumeMounts: [{name: io_data, mountPath: /io}]"
    volume = "volumes: [{name: io_data, persistentVolumeClaim: {claimName: io}}]"
    text = _JOB.replace(_CONTAINER, f"{_CONTAINER}, {mount}").replace(
        "spec:\n          containers", f"spec:\n          {volume}\n          containers", 1
    )
    [conversion] = text_as_jobs(text).conversions
    own = [verdict for verdict in conversion.verdicts if ".volumes[0]." in verdict.path]
    assert {Outcome.NOT_CARRIED} == {verdict.outcome for verdict in own}
    assert {"Master", "Worker"} == {verdict.path.split(".")[2] for verdict in own}
    assert not any("has no name" in note for note in conversion.notes)

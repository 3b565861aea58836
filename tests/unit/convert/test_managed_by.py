from __future__ import annotations

import pytest

from tests.converted import lost, text_as_jobs

POD = "{{spec: {{restartPolicy: Never, containers: [{{name: {}, image: i, command: {}}}]}}}}"
OF_TORCH = POD.format("pytorch", "[torchrun, t.py]")
OF_MPI = POD.format("mpi", "[mpirun, ./a]")
# By kind: the API group and version, the path of the field, and the rest of the spec.
KINDS = {
    "Job": ("batch/v1", "", f"completionMode: Indexed, completions: 2, template: {OF_TORCH}"),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        "",
        f"replicatedJobs: [{{name: w, template: {{spec: {{template: {OF_TORCH}}}}}}}]",
    ),
    "TrainJob": (
        "trainer.kubeflow.org/v1alpha1",
        "",
        "runtimeRef: {name: torch-distributed}, trainer: {image: i, command: [torchrun, t.py]}",
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        "runPolicy",
        f"pytorchReplicaSpecs: {{Worker: {{replicas: 2, template: {OF_TORCH}}}}}",
    ),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        "runPolicy",
        f"mpiReplicaSpecs: {{Launcher: {{template: {OF_MPI}}}, Worker: {{template: {OF_MPI}}}}}",
    ),
}
OWN = {
    "Job": "kubernetes.io/job-controller",
    "JobSet": "jobset.sigs.k8s.io/jobset-controller",
    "TrainJob": "trainer.kubeflow.org/trainjob-controller",
    "PyTorchJob": "kubeflow.org/training-operator",
    "MPIJob": "kubeflow.org/mpi-operator",
}


@pytest.mark.parametrize("kind", KINDS)
def test_another_controller_is_a_loss_in_all_kinds(kind: str) -> None:
    """An object's own controller is none; that of another cluster is, with the same words."""
    version, section, rest = KINDS[kind]
    path = ".".join(filter(None, ("spec", section, "managedBy")))
    for manager, paths in ((OWN[kind], set()), ("kueue.x-k8s.io/multikueue", {path})):
        field = f"managedBy: {manager}"
        own = f"{section}: {{{field}}}" if section else field
        [conversion] = text_as_jobs(
            f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{own}, {rest}}}\n"
        ).conversions
        assert paths == lost(conversion) & {path}
        [verdict] = [own for own in conversion.verdicts if own.path == path]
        assert ("another cluster" in verdict.why) == bool(paths)
